"""The collector: reports are counted as they come, kept in one file where asked, and answered with error bars.

Counts add up, so any number of collectors may share the work: merged in any order they hold the same bytes. A report whose nonce comes
again, and a shuffled batch that comes again, are dropped and counted. In a file, a batch is counted and remembered in one transaction: a
crash loses no batch that was counted and counts none twice.

>>> from tacit.local import frequencies, to_batch
>>> protocol = frequencies(["smile", "wink", "cry"], epsilon=5)
>>> collector = Collector(protocol)
>>> collector.ingest([to_batch(protocol, ["smile"] * 6000 + ["cry"] * 4000)]).n
10000
>>> answer = collector.estimate()
>>> [value for value, *_ in answer.top(2)]
['smile', 'cry']
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.local.postprocess import WAYS, iterative_bayes
from tacit.local.protocol import Label, Protocol
from tacit.local.randomiser import SymbolRandomiser, Table
from tacit.local.reports import Read, read_batch, read_reports, read_stream
from tacit.mechanisms import half_width
from tacit.parameters import Number, probability

Array = NDArray[np.float64]
Nonces = NDArray[np.uint64]


@dataclass(frozen=True)
class Estimates:
    """Estimated shares among the n people who reported, unbiased, with their deviations; nothing is cut off at zero."""

    labels: tuple[Label, ...]
    n: int
    share: Array
    deviation: Array
    dropped: dict[str, int]

    @property
    def count(self) -> Array:
        """Estimated numbers of people."""
        return self.share * self.n

    def interval(self, confidence: Number = 0.95, *, together: bool = False) -> tuple[Array, Array]:
        """Lower and upper ends for each share by itself, or such that all of them hold at once (Bonferroni).

        The counts of reports are sums over many people, so the ends are those of the normal law.
        """
        miss = 1 - float(probability("confidence", confidence))
        if not 0 < miss < 1:
            raise ParameterError("confidence must be between 0 and 1")
        wide = float(half_width([1.0], "gaussian", 1 - miss / (len(self.labels) if together else 1))[0])
        return self.share - wide * self.deviation, self.share + wide * self.deviation

    def top(self, k: int, confidence: Number = 0.95) -> list[tuple[Label, float, float, float]]:
        """The k largest shares with intervals that hold for all values at once: value, share, lower and upper end."""
        low, high = self.interval(confidence, together=True)
        order = np.argsort(-self.share, kind="stable")[:k]
        return [(self.labels[i], float(self.share[i]), float(low[i]), float(high[i])) for i in order]

    def processed(self, how: str = "norm-sub") -> Array:
        """The shares made non-negative: "norm-sub" or "simplex" (adding up to 1) or "clip". The raw figures stay in `share`.

        >>> Estimates((0, 1), 10, np.array([1.25, -0.25]), np.array([0.1, 0.1]), {}).processed("clip").tolist()
        [1.0, 0.0]
        """
        if how not in WAYS:
            raise ParameterError(f"how must be one of {', '.join(WAYS)}, not {how!r}")
        return WAYS[how](self.share)

    def to_arrow(self, confidence: Number = 0.95) -> pa.Table:
        """Everything as a table."""
        low, high = self.interval(confidence)
        kinds = {type(label) for label in self.labels}
        labels = [str(label) for label in self.labels] if len(kinds) > 1 else list(self.labels)
        columns = {"value": labels, "share": self.share, "low": low, "high": high, "count": self.count}
        return pa.table({**columns, "processed": self.processed()})


class Collector:
    """Counts reports of one protocol. With `path` it keeps its counts in a file and goes on from there.

    `nonces` says whether reports have to carry a nonce (straight from people) or must not (from a shuffler); where it is not said, the
    first batch that counts decides. Reports of the other sort are dropped and counted as "mixed": a report that was counted with its
    nonce could come again without it.
    """

    def __init__(self, protocol: Protocol, path: str | Path | None = None, *, nonces: bool | None = None) -> None:
        self.protocol = protocol
        self._nonces = nonces
        self._path = None if path is None else Path(path)
        self._clear()
        if self._path is not None:
            with self._locked():
                pass

    @classmethod
    def restored(cls, protocol: Protocol, table: Table, n: int, dropped: Mapping[str, int]) -> Collector:
        """A collector of counts that were taken elsewhere; it cannot tell which reports they were, so it answers and counts no more."""
        if table.shape != (protocol.randomiser.cells,) or n < 0:
            raise ParameterError("the counts are not those of this protocol")
        found = cls(protocol)
        found.table, found.n, found.dropped = table, n, dict(dropped)
        return found

    def _clear(self) -> None:
        self.table, self.n, self.dropped = self.protocol.randomiser.fresh(), 0, dict[str, int]()
        self._sort: bool | None = self._nonces  # whether what is counted carries nonces
        self._batches: set[bytes] = set()
        self._seen = SeenWords()
        self._rows = 0  # how many rows of the file's nonces are in `_seen`

    def __repr__(self) -> str:
        return f"Collector({self.protocol.randomiser.kind}, n={self.n}, dropped={self.dropped})"

    # --- counting ---

    def ingest(self, batches: Iterable[pa.RecordBatch | bytes] | pa.RecordBatch | pa.Table) -> Collector:
        """Count batches of reports, or single reports as bytes."""
        if isinstance(batches, pa.RecordBatch):
            batches = [batches]
        if isinstance(batches, pa.Table):
            batches = batches.to_batches()
        single: list[bytes] = []
        for one in batches:
            if isinstance(one, pa.RecordBatch):
                self._count(read_batch(self.protocol, one))
            else:
                single.append(one)
        if single:
            self._count(read_reports(self.protocol, single))
        return self

    def ingest_stream(self, source: str | Path | bytes) -> Collector:
        """Count an Arrow stream or file of batches; a rest that cannot be read is dropped and counts as one "unreadable".

        >>> from tacit.local import frequencies
        >>> Collector(frequencies(2, epsilon=1)).ingest_stream(b"garbled").dropped
        {'unreadable': 1}
        """
        for batch in read_stream(source):
            if batch is None:
                with self._locked():
                    self._drop("unreadable", 1)
            else:
                self.ingest(batch)
        return self

    def _drop(self, why: str, number: int) -> None:
        if number:
            self.dropped[why] = self.dropped.get(why, 0) + number

    def _count(self, read: Read) -> None:
        with self._locked() as fresh_nonces:
            for why, number in read.dropped.items():
                self._drop(why, number)
            reports, with_nonces = read.reports, read.nonces is not None
            if not len(reports):
                return
            if self._sort not in (None, with_nonces):
                self._drop("mixed", len(reports))
                return
            if read.nonces is not None:
                new = ~self._seen.known(read.nonces)
                self._drop("repeated", len(reports) - int(np.count_nonzero(new)))
                reports = reports[new]
                self._seen.add(read.nonces[new])
                fresh_nonces.append(read.nonces[new])
            elif read.digest in self._batches:
                self._drop("repeated", len(reports))
                return
            else:
                self._batches.add(read.digest)
            self._sort = with_nonces
            self.protocol.randomiser.add(self.table, reports)
            self.n += len(reports)

    def merge(self, other: Collector, *, overlap: str = "refuse") -> Collector:
        """Add what another collector counted.

        Counts cannot be taken apart again, so collectors that counted the same reports are refused. With `overlap="count"` the shared
        reports (or shuffled batches) count twice and their number is told under "counted twice": whoever sends one report to two
        collectors then stops nothing, and gains no more than by sending two forged ones.
        """
        if overlap not in ("refuse", "count"):
            raise ParameterError("overlap must be refuse or count")
        if other.protocol.fingerprint != self.protocol.fingerprint:
            raise ParameterError("the other collector counts reports of another protocol")
        other._refresh()
        with self._locked() as fresh_nonces:
            if None not in (self._sort, other._sort) and self._sort != other._sort and self.n and other.n:
                raise ParameterError("one collector counted reports with nonces and the other without; these cannot be told apart")
            theirs = other._seen.all()
            known = self._seen.known(theirs)
            shared = int(np.count_nonzero(known)) + len(self._batches & other._batches)
            if shared and overlap == "refuse":
                raise ParameterError("both collectors counted the same reports; count each batch in one of them, or say overlap='count'")
            self.table = self.table + other.table
            self.n += other.n
            self._sort = self._sort if self._sort is not None else other._sort
            self._batches = self._batches | other._batches
            self._seen.add(theirs[~known])
            fresh_nonces.append(theirs[~known])
            for why, number in other.dropped.items():
                self._drop(why, number)
            self._drop("counted twice", shared)
        return self

    def to_bytes(self) -> bytes:
        """What was counted, the same bytes however it came together."""
        head = {"protocol": self.protocol.fingerprint.hex(), "n": self.n, "dropped": dict(sorted(self.dropped.items()))}
        return json.dumps(head).encode() + b"\n" + self.table.astype("<i8").tobytes() + b"".join(sorted(self._batches))

    # --- answers ---

    def estimate(self) -> Estimates:
        """Unbiased shares of all values among the people who reported."""
        self._refresh()
        if self.n < 2:
            raise ParameterError("there are fewer than two reports; nothing can be estimated")
        share, variance = self.protocol.randomiser.estimates(self.table, self.n)
        return Estimates(tuple(self.protocol.labels), self.n, share, np.sqrt(variance), dict(self.dropped))

    def bayes(self) -> Array:
        """The shares under which the counted reports are most likely, by iterative Bayes; only where reports are few enough to list."""
        randomiser = self.protocol.randomiser
        if not isinstance(randomiser, SymbolRandomiser) or randomiser.cells != randomiser.symbols or self.n == 0:
            raise ParameterError("iterative Bayes needs a randomiser whose reports are counted one by one, and reports")
        if self.protocol.size * randomiser.symbols > 1 << 22:
            raise ParameterError("there are too many values and reports for iterative Bayes; use norm-sub")
        channel = np.zeros((self.protocol.size, randomiser.symbols))
        for value in range(self.protocol.size):
            for report, (low, high) in randomiser.distribution(value, bits=64).items():
                channel[value, report] = float(low + high) / 2
        return iterative_bayes(self.table.astype(np.float64), channel)

    def top(self, k: int, confidence: Number = 0.95) -> list[tuple[Label, float, float, float]]:
        """The k largest shares with simultaneous intervals."""
        return self.estimate().top(k, confidence)

    # --- the file ---

    @contextmanager
    def _locked(self) -> Iterator[list[Nonces]]:
        """What is counted inside, and the nonces that are put on the list, is in the file when this ends, or none of it.

        Another process may have counted meanwhile, so what the file holds is read first.
        """
        fresh: list[Nonces] = []
        if self._path is None:
            yield fresh
            return
        connection = sqlite3.connect(self._path, timeout=60, isolation_level=None)
        try:
            try:
                connection.execute("PRAGMA synchronous=FULL")
                connection.execute("BEGIN IMMEDIATE")
                self._load(connection)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise  # busy, no room, no such folder
                raise ParameterError("this is no file of counts") from None
            before = self._state()
            yield fresh
            self._save(connection, fresh, before)
            connection.execute("COMMIT")
        except BaseException:
            self._clear()  # what is in memory may not be in the file; it is read again next time
            raise
        finally:
            connection.close()

    def _refresh(self) -> None:
        """Take in what other processes counted in the same file."""
        if self._path is not None:
            with self._locked():
                pass

    def _state(self) -> bytes:
        head = {"n": self.n, "dropped": dict(sorted(self.dropped.items())), "nonces": self._sort}
        return json.dumps(head).encode() + b"\n" + self.table.astype("<i8").tobytes()

    def _load(self, connection: sqlite3.Connection) -> None:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables - {"state", "batches", "nonces"}:
            raise ParameterError("this is no file of counts")
        connection.execute("CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value BLOB)")
        connection.execute("CREATE TABLE IF NOT EXISTS batches (digest BLOB PRIMARY KEY)")
        connection.execute("CREATE TABLE IF NOT EXISTS nonces (number INTEGER PRIMARY KEY, words BLOB)")
        found = {name: bytes(value) for name, value in connection.execute("SELECT name, value FROM state")}
        if not found:
            self._clear()
            connection.execute("INSERT INTO state VALUES ('protocol', ?)", [self.protocol.to_json().encode()])
            return
        if found.get("protocol") != self.protocol.to_json().encode():
            raise ParameterError("the file holds counts of another protocol; give each protocol a file of its own")
        body, cells = found.get("counts", b""), self.protocol.randomiser.cells
        head, _, rest = body.partition(b"\n")
        if hashlib.sha256(body).digest() != found.get("digest") or len(rest) != 8 * cells:
            raise ParameterError("the file of counts is damaged; collect from the batches again")
        told = json.loads(head)
        if None not in (self._nonces, told["nonces"]) and self._nonces != told["nonces"]:
            raise ParameterError("the file holds reports of the other sort, with nonces or without")
        self.n, self.dropped = told["n"], told["dropped"]
        self._sort = told["nonces"] if self._nonces is None else self._nonces
        self.table = np.frombuffer(rest, dtype="<i8").astype(np.int64)
        self._batches = {bytes(digest) for (digest,) in connection.execute("SELECT digest FROM batches")}
        for number, words in connection.execute("SELECT number, words FROM nonces WHERE number > ? ORDER BY number", [self._rows]):
            self._seen.add(np.frombuffer(words, dtype="<u8").astype(np.uint64))
            self._rows = number

    def _save(self, connection: sqlite3.Connection, fresh: list[Nonces], before: bytes) -> None:
        body = self._state()
        if body == before and connection.execute("SELECT count(*) FROM state").fetchone()[0] == 3:
            return
        rows = [("counts", body), ("digest", hashlib.sha256(body).digest())]
        connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", rows)
        connection.executemany("INSERT OR IGNORE INTO batches VALUES (?)", [(digest,) for digest in sorted(self._batches)])
        for words in fresh:
            if len(words):
                added = connection.execute("INSERT INTO nonces (words) VALUES (?)", [words.astype("<u8").tobytes()])
                self._rows = int(added.lastrowid or 0)


class SeenWords:
    """A growing set of 64-bit words, in sorted runs whose lengths fall by half or more: adding many costs little each.

    >>> seen = SeenWords()
    >>> seen.add(np.array([7, 3], dtype=np.uint64))
    >>> seen.known(np.array([3, 4], dtype=np.uint64)).tolist()
    [True, False]
    """

    def __init__(self) -> None:
        self._runs: list[Nonces] = []

    def known(self, words: Nonces) -> NDArray[np.bool_]:
        """Which of these words were added before."""
        found = np.zeros(len(words), dtype=np.bool_)
        for run in self._runs:
            place = np.minimum(np.searchsorted(run, words), len(run) - 1)
            found |= run[place] == words
        return found

    def add(self, words: Nonces) -> None:
        """Add words that were not added before."""
        if not len(words):
            return
        self._runs.append(np.sort(words))
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]), kind="stable")

    def all(self) -> Nonces:
        """All of them, in order."""
        return np.sort(np.concatenate([*self._runs, np.empty(0, dtype=np.uint64)]))


def detectable(protocol: Protocol, n: int, confidence: Number = 0.95) -> float:
    """The least share that n people's reports tell from none, for all values at once.

    >>> from tacit.local import frequencies
    >>> round(detectable(frequencies(1000, epsilon=1), 1_000_000), 4)
    0.0078
    """
    miss = 1 - float(probability("confidence", confidence))
    return float(half_width([1.0], "gaussian", 1 - miss / protocol.size)[0]) * math.sqrt(protocol.randomiser.variance(n))
