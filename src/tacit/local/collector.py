"""The collector: reports are counted as they come, kept in one file where asked, and answered with error bars.

Counts add up, so any number of collectors may share the work: merged in any order they hold the same bytes. A batch that comes again,
and a nonce that comes again, are dropped and counted. In a file, a batch is counted and remembered in one transaction: a crash loses no
batch that was counted and counts none twice.

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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.local.protocol import Label, Protocol
from tacit.local.reports import Read, read_batch, read_reports
from tacit.mechanisms import half_width
from tacit.parameters import Number, probability

Array = NDArray[np.float64]


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

    def to_arrow(self, confidence: Number = 0.95) -> pa.Table:
        """Everything as a table."""
        low, high = self.interval(confidence)
        return pa.table({"value": list(self.labels), "share": self.share, "low": low, "high": high, "count": self.count})


class Collector:
    """Counts reports of one protocol. With `path` it keeps its counts in a file and goes on from there."""

    def __init__(self, protocol: Protocol, path: str | Path | None = None) -> None:
        self.protocol = protocol
        self.table, self.n, self.dropped = protocol.randomiser.fresh(), 0, dict[str, int]()
        self._batches: set[bytes] = set()
        self._nonces = np.empty(0, dtype=np.uint64)
        self._path = None if path is None else Path(path)
        if self._path is not None:
            self._open()

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

    def _count(self, read: Read) -> None:
        with self._saved(read) as fresh:
            for why, number in read.dropped.items():
                self.dropped[why] = self.dropped.get(why, 0) + number
            reports = read.reports
            if not fresh:
                self.dropped["repeated"] = self.dropped.get("repeated", 0) + len(reports)
                return
            if read.digest:
                self._batches.add(read.digest)
            if read.nonces is not None:
                known = np.isin(read.nonces, self._nonces)
                if known.any():
                    self.dropped["repeated"] = self.dropped.get("repeated", 0) + int(known.sum())
                    reports = reports[~known]
                self._nonces = np.union1d(self._nonces, read.nonces)
            self.protocol.randomiser.add(self.table, reports)
            self.n += len(reports)

    def merge(self, other: Collector) -> Collector:
        """Add what another collector counted. Collectors that counted the same batch are refused: it would count twice."""
        if other.protocol.fingerprint != self.protocol.fingerprint:
            raise ParameterError("the other collector counts reports of another protocol")
        if self._batches & other._batches or np.isin(self._nonces, other._nonces).any():
            raise ParameterError("both collectors counted the same reports; count each batch in one of them")
        self.table += other.table
        self.n += other.n
        self._batches |= other._batches
        self._nonces = np.union1d(self._nonces, other._nonces)
        for why, number in other.dropped.items():
            self.dropped[why] = self.dropped.get(why, 0) + number
        if self._path is not None:
            with self._connected() as connection:
                self._write(connection)
        return self

    def to_bytes(self) -> bytes:
        """What was counted, the same bytes however it came together."""
        head = {"protocol": self.protocol.fingerprint.hex(), "n": self.n, "dropped": dict(sorted(self.dropped.items()))}
        return json.dumps(head).encode() + b"\n" + self.table.astype("<i8").tobytes() + b"".join(sorted(self._batches))

    # --- answers ---

    def estimate(self) -> Estimates:
        """Unbiased shares of all values among the people who reported."""
        if self.n < 2:
            raise ParameterError("there are fewer than two reports; nothing can be estimated")
        randomiser = self.protocol.randomiser
        support = randomiser.support(self.table, self.n)
        share = (support / self.n - randomiser.other) / randomiser.gap
        p, q = randomiser.held, randomiser.other
        held = np.clip(share, 0.0, 1.0)
        spread = held * p * (1 - p) + (1 - held) * q * (1 - q)
        deviation = np.sqrt(spread / self.n) / randomiser.gap
        return Estimates(tuple(self.protocol.labels), self.n, share, deviation, dict(self.dropped))

    def top(self, k: int, confidence: Number = 0.95) -> list[tuple[Label, float, float, float]]:
        """The k largest shares with simultaneous intervals."""
        return self.estimate().top(k, confidence)

    # --- the file ---

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        assert self._path is not None
        connection = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()

    def _open(self) -> None:
        with self._connected() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value BLOB)")
            connection.execute("CREATE TABLE IF NOT EXISTS batches (digest BLOB PRIMARY KEY)")
            found = dict(connection.execute("SELECT name, value FROM state"))
            if not found:
                self._write(connection)
                return
            self._read(connection, found)

    def _read(self, connection: sqlite3.Connection, found: dict[str, Any]) -> None:
        if bytes(found["protocol"]) != self.protocol.to_json().encode():
            raise ParameterError("the file holds counts of another protocol; give each protocol a file of its own")
        body = bytes(found["counts"])
        if hashlib.sha256(body).digest() != bytes(found["digest"]):
            raise ParameterError("the file of counts is damaged; collect from the batches again")
        head, _, rest = body.partition(b"\n")
        self.n, self.dropped = (json.loads(head)[name] for name in ("n", "dropped"))
        cells = self.protocol.randomiser.cells
        self.table = np.frombuffer(rest[: 8 * cells], dtype="<i8").astype(np.int64)
        self._nonces = np.frombuffer(rest[8 * cells :], dtype="<u8").astype(np.uint64)
        self._batches = {bytes(digest) for (digest,) in connection.execute("SELECT digest FROM batches")}

    def _write(self, connection: sqlite3.Connection) -> None:
        head = json.dumps({"n": self.n, "dropped": dict(sorted(self.dropped.items()))}).encode()
        body = head + b"\n" + self.table.astype("<i8").tobytes() + self._nonces.astype("<u8").tobytes()
        rows = [("protocol", self.protocol.to_json().encode()), ("counts", body), ("digest", hashlib.sha256(body).digest())]
        connection.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", rows)
        connection.executemany("INSERT OR IGNORE INTO batches VALUES (?)", [(digest,) for digest in sorted(self._batches)])

    @contextmanager
    def _saved(self, read: Read) -> Iterator[bool]:
        """Whether the batch is new; what is counted inside is in the file when this ends."""
        if self._path is None:
            yield read.digest not in self._batches
            return
        with self._connected() as connection:
            found = dict(connection.execute("SELECT name, value FROM state"))
            self._read(connection, found)  # another process may have counted meanwhile
            yield read.digest not in self._batches
            self._write(connection)


def detectable(protocol: Protocol, n: int, confidence: Number = 0.95) -> float:
    """The least share that n people's reports tell from none, for all values at once.

    >>> from tacit.local import frequencies
    >>> round(detectable(frequencies(1000, epsilon=1), 1_000_000), 4)
    0.0078
    """
    miss = 1 - float(probability("confidence", confidence))
    return float(half_width([1.0], "gaussian", 1 - miss / protocol.size)[0]) * math.sqrt(protocol.randomiser.variance(n))
