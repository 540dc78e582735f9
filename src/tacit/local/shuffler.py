"""The shuffler: between people and the collector, it takes away who sent what and when, and lets a batch go only when it is large enough.

What comes out has no nonces, no times and no order, so the collector sees the multiset of reports and nothing else, and `event` prices it
as `Shuffled`. Nothing is amplified against the shuffler itself. `at_least` counts honest reports: what a batch holds beyond forged ones.

>>> from tacit.accounting import Adjacency, account
>>> from tacit.local import frequencies, to_batch
>>> protocol = frequencies(["yes", "no"], epsilon=1)
>>> shuffler = Shuffler(protocol, at_least=1000)
>>> shuffler.add(to_batch(protocol, ["yes"] * 999)).ready
False
>>> batch = shuffler.add(to_batch(protocol, ["no"] * 201)).release()
>>> batch.num_rows, batch.schema.names
(1200, ['report'])
>>> round(account(shuffler.event, Adjacency.REPLACE_ONE).epsilon(1e-6).upper, 4)
0.1487
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from tacit import noise
from tacit.accounting import Shuffled
from tacit.errors import ParameterError
from tacit.local.protocol import Protocol
from tacit.local.randomiser import Reports
from tacit.local.reports import Read, as_batch, read_batch, read_reports
from tacit.parameters import Number, count


class Shuffler:
    """Collects reports of one protocol and releases them in random order, at least `at_least` at a time.

    `honest` is the share of reports that are taken to be honest (1 where nothing is known against them): a batch goes when its honest
    part, rounded down, is large enough. One person's second report in a batch is a `Group` of two; nonces catch only the same report.

    Guarantee
        Statement: a released batch costs `event` for the replacement of one person's value, against all who see only the batch.
        Conditions: one report a person; the shuffler forgets senders, times and order, and does not work with the collector.
        Proved in: Balle, Bell, Gascon, Nissim 2019; `tacit.accounting.Shuffled`.
    """

    def __init__(self, protocol: Protocol, *, at_least: int, honest: Number = 1) -> None:
        self.protocol = protocol
        self.at_least = count("at_least", at_least)
        if not 0 < honest <= 1:
            raise ParameterError("honest must be a share above 0 and at most 1")
        self.honest = honest
        self.dropped: dict[str, int] = {}
        self._reports: list[Reports] = []
        self._nonces: set[int] = set()

    @property
    def event(self) -> Shuffled:
        """The price of one released batch."""
        return Shuffled(self.protocol.event, self.at_least)

    @property
    def waiting(self) -> int:
        """How many reports wait."""
        return sum(len(part) for part in self._reports)

    @property
    def ready(self) -> bool:
        """Whether a batch may go."""
        return self.waiting * self.honest >= self.at_least

    def add(self, reports: pa.RecordBatch | Iterable[bytes]) -> Shuffler:
        """Take a batch, or single reports as bytes. What is no report of the protocol is dropped and counted."""
        read = read_batch(self.protocol, reports) if isinstance(reports, pa.RecordBatch) else read_reports(self.protocol, reports)
        kept = self._new(read)
        for why, number in read.dropped.items():
            self.dropped[why] = self.dropped.get(why, 0) + number
        self._reports.append(kept)
        return self

    def _new(self, read: Read) -> Reports:
        if read.nonces is None:
            # a report could come again without its nonce, and a few people's reports would fill a batch
            if len(read.reports):
                self.dropped["mixed"] = self.dropped.get("mixed", 0) + len(read.reports)
            return read.reports[:0]
        fresh = np.array([nonce not in self._nonces for nonce in read.nonces.tolist()], dtype=np.bool_)
        self._nonces.update(read.nonces.tolist())
        if not fresh.all():
            self.dropped["repeated"] = self.dropped.get("repeated", 0) + int((~fresh).sum())
        return read.reports[fresh]

    def release(self) -> pa.RecordBatch:
        """All waiting reports in random order, as a batch without nonces."""
        if not self.ready:
            promised = f"{self.waiting} reports wait and {self.at_least} honest ones were promised"
            raise ParameterError(f"{promised}; a smaller batch would tell more")
        reports = np.concatenate(self._reports)
        self._reports = []
        return as_batch(self.protocol, reports[noise.permutation(len(reports))], nonces=False)
