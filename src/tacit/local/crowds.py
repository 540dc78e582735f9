"""A shuffler with crowds: people name a crowd in the clear, and reports of small crowds stay behind (Bittau et al. 2017, Prochlo).

A crowd may be an application, a country or a version of a program. The shuffler sees it, the collector sees it only where enough people
name it. From every crowd a random number of reports is held back, so that the size of what is released has noise, and a crowd of
which fewer than `threshold` reports are left is not released at all. Both are priced, beside the reports themselves.

>>> from tacit.local import frequencies, to_batch
>>> protocol = frequencies(["yes", "no"], epsilon=1)
>>> shuffler = CrowdShuffler(protocol, threshold=500, epsilon=1, delta=1e-6)
>>> _ = shuffler.add(to_batch(protocol, ["yes"] * 1000), ["spain"] * 1000)
>>> _ = shuffler.add(to_batch(protocol, ["no"] * 40), ["malta"] * 40)
>>> released = shuffler.release()
>>> list(released), 900 < released["spain"].num_rows < 1000
(['spain'], True)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from tacit import noise
from tacit.accounting import Adjacency, ApproxDP, Composed, Event, Repeated, Shuffled
from tacit.errors import ParameterError
from tacit.local.protocol import Protocol
from tacit.local.randomiser import Reports
from tacit.local.reports import as_batch, read_batch
from tacit.parameters import Number, count, positive, probability


class CrowdShuffler:
    """Collects reports with their crowds and releases those of large crowds, in random order, some of each held back.

    Of each crowd max(0, shift + Z) reports are held back, Z discrete Laplace of scale 1/epsilon and `shift` such that the sum is
    negative with probability at most delta / (1 + e^epsilon).

    Guarantee
        Statement: all released batches together cost `event` for the replacement of one person's value and crowd, against all who see
        only them; for the replacement of the value alone, `Shuffled(protocol.event, threshold)`.
        Conditions: one report a person; the shuffler forgets senders, times and order, and does not work with the collector; `threshold`
        counts honest reports, and is at least 2.
        Proved in: a replacement takes one report from a crowd and adds one to another. Sizes: where no sum is negative, a crowd's size is
        released with discrete Laplace noise of scale 1/epsilon, and otherwise with probability at most delta / (1 + e^epsilon) something
        else, so (epsilon, delta) for each of the two crowds; a crowd that only this person names is never released, since nothing is added
        and `threshold` exceeds 1. Reports, given the sizes: each of the two released batches is a random part of its crowd, which the
        person's report is in or not; exchanging it for one that stayed behind is the replacement of a value in a shuffled batch of at
        least `threshold`.
    """

    def __init__(self, protocol: Protocol, *, threshold: int, epsilon: Number, delta: Number) -> None:
        self.protocol = protocol
        self.threshold = count("threshold", threshold, least=2)
        self.epsilon = Fraction(positive("epsilon", epsilon))
        self.delta = probability("delta", delta)
        if not 0 < self.delta < 1:
            raise ParameterError("delta must be between 0 and 1")
        self.dropped: dict[str, int] = {}
        self._crowds: dict[str, list[Reports]] = {}
        self._nonces: set[int] = set()

    @property
    def shift(self) -> int:
        """How many reports of each crowd are held back on average."""
        # P(Z < -shift) = r^(shift + 1) / (1 + r) with r = exp(-epsilon) is at most delta / (1 + 1 / r) where
        # shift >= 1 - log(delta) / epsilon; rounded up, so that roundings on the way err towards more.
        return math.ceil((1 - math.log(self.delta) / float(self.epsilon)) * (1 + 2.0**-40))

    @property
    def event(self) -> Event:
        """The price of everything that is released, for the replacement of a person's value and crowd."""
        sizes = ApproxDP(self.epsilon, self.delta, adjacency=Adjacency.REPLACE_ONE)
        return Composed(Repeated(sizes, 2), Repeated(Shuffled(self.protocol.event, self.threshold), 2))

    def add(self, reports: pa.RecordBatch, crowds: Sequence[str]) -> CrowdShuffler:
        """Take a batch with the crowd of each report. What is no report of the protocol is dropped and counted."""
        if len(crowds) != reports.num_rows:
            raise ParameterError("crowds must be one text for each report of the batch")
        for place, crowd in enumerate(crowds):
            read = read_batch(self.protocol, reports.slice(place, 1))
            for why, number in read.dropped.items():
                self.dropped[why] = self.dropped.get(why, 0) + number
            nonces = None if read.nonces is None else set(read.nonces.tolist())
            if not len(read.reports):
                continue
            if nonces is None or nonces & self._nonces or not isinstance(crowd, str):
                why = "mixed" if nonces is None else "malformed" if not isinstance(crowd, str) else "repeated"
                self.dropped[why] = self.dropped.get(why, 0) + 1
                continue
            self._nonces |= nonces
            self._crowds.setdefault(crowd, []).append(read.reports)
        return self

    def release(self) -> dict[str, pa.RecordBatch]:
        """The reports of crowds that are large enough, by crowd in the order of their names; the rest is deleted."""
        found: dict[str, pa.RecordBatch] = {}
        names = sorted(self._crowds)
        back = noise.discrete_laplace(1 / self.epsilon, max(1, len(names))) + self.shift
        for name, held_back in zip(names, back.tolist(), strict=False):
            reports = np.concatenate(self._crowds[name])
            left = len(reports) - max(0, held_back)
            order = noise.permutation(len(reports))
            if left >= self.threshold:
                found[name] = as_batch(self.protocol, reports[order[:left]], nonces=False)
        self._crowds = {}
        return found
