"""RAPPOR: words in Bloom filters, a permanent randomised answer for each word, and a fresh one on top for each report.

A person belongs to a random cohort, whose hash functions turn a word into a few bits. These are randomised once and remembered (the
permanent answer, which bounds what reports for a lifetime tell), and again for each report, so that one report tells less still. The
collector counts bits by cohort and decodes them against a public list of candidates; words beyond it are found from joint shares of
their parts (Erlingsson, Pihur, Korolova 2014; Fanti, Pihur, Erlingsson 2016).

>>> rappor = Rappor(bits=32, hashes=2, cohorts=8)
>>> round(rappor.lifetime_epsilon, 6), round(rappor.epsilon, 6)
(4.394449, 1.074286)
>>> device = Device(rappor)
>>> cohort, bits = device.report("smile")
>>> len(bits)
32
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import ndtr

from tacit import noise
from tacit.accounting import Event, PureDP, Repeated
from tacit.errors import ParameterError
from tacit.exact import at_least, exact
from tacit.mechanisms import log_bracket
from tacit.parameters import Number, count, probability

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]


def _price(times: int, ratio: Fraction) -> float:
    """So many times the logarithm of a ratio above 1, rounded up: near 1, floating-point chances would lose it."""
    more = ratio - 1
    if more < Fraction(1, 2**10):
        return times * at_least(more - more**2 / 2 + more**3 / 3) * (1 + 1e-15)  # what follows in the series is negative
    return times * log_bracket((ratio, ratio)).upper * (1 + 1e-15)


@dataclass(frozen=True)
class Rappor:
    """The public parameters: length of the filter, hash functions, cohorts; f of the permanent answer, p and q of each report.

    A permanent bit is a fair coin with probability f and else the true one. A reported bit is 1 with probability q where the permanent
    one is 1, and p where it is 0.

    Guarantee
        Statement: all reports of one value together cost `lifetime`, one report alone `event`.
        Conditions: the replacement of the value; the permanent answer is drawn once for each value and kept; one cohort for good.
        Proved in: Erlingsson et al. 2014, Theorems 1 and 2. Two values differ in at most 2 `hashes` bits of their filters. A permanent
        bit is true with probability 1 - f/2, so each changes the ratio by (1 - f/2)/(f/2) at most; `hashes` of them are 1 in one filter
        and 0 in the other, and as many the reverse, which gives a report's ratio bit by bit.
    """

    bits: int = 128
    hashes: int = 2
    cohorts: int = 64
    f: Number = Fraction(1, 2)
    p: Number = Fraction(1, 2)
    q: Number = Fraction(3, 4)

    def __post_init__(self) -> None:
        for name, least in (("bits", 2), ("hashes", 1), ("cohorts", 1)):
            object.__setattr__(self, name, count(name, getattr(self, name), least=least))
        for name in ("f", "p", "q"):
            object.__setattr__(self, name, exact(name, probability(name, getattr(self, name))))
        if self.hashes > self.bits or self.bits > 4096:
            raise ParameterError("bits must be at least hashes and at most 4,096")
        if not 0 < self.f < 1 or not 0 < self.p < self.q < 1:
            raise ParameterError("f must be between 0 and 1, and p below q, both between 0 and 1")

    def _chances(self) -> tuple[Fraction, Fraction]:
        """The chance of a 1 in a report where the true bit is 1, and where it is 0."""
        f, p, q = Fraction(self.f), Fraction(self.p), Fraction(self.q)
        return f * (p + q) / 2 + (1 - f) * q, f * (p + q) / 2 + (1 - f) * p

    def _reported(self) -> tuple[float, float]:
        one, zero = self._chances()
        return float(one), float(zero)

    @property
    def lifetime_epsilon(self) -> float:
        """What all reports of one value tell together."""
        half = Fraction(self.f) / 2
        return _price(2 * self.hashes, (1 - half) / half)

    @property
    def epsilon(self) -> float:
        """What one report tells."""
        one, zero = self._chances()
        return _price(self.hashes, one * (1 - zero) / (zero * (1 - one)))

    @property
    def event(self) -> Event:
        """The price of one report."""
        return PureDP(self.epsilon)

    @property
    def lifetime(self) -> Event:
        """The price of all reports of one value."""
        return PureDP(self.lifetime_epsilon)

    def filter(self, value: str, cohort: int) -> Bits:
        """The bits of a word in a cohort; public.

        >>> int(Rappor(bits=16, hashes=2, cohorts=4).filter("smile", 3).sum()) <= 2
        True
        """
        found = np.zeros(self.bits, dtype=np.bool_)
        text = value.encode("utf-8", "surrogatepass")
        for number in range(self.hashes):
            digest = hashlib.sha256(b"%d %d " % (cohort, number) + text).digest()
            found[int.from_bytes(digest[:8], "little") % self.bits] = True
        return found

    def permanent(self, true: Bits) -> Bits:
        """The permanent answer for these bits; draws once. Keep it."""
        half = Fraction(self.f) / 2
        kept = noise.bernoulli(1 - half, size=true.shape).astype(np.bool_)
        return np.asarray(kept == true, dtype=np.bool_)

    def instantaneous(self, permanent: Bits) -> Bits:
        """A report of permanent bits; draws anew."""
        ones = noise.bernoulli(Fraction(self.q), size=permanent.shape).astype(np.bool_)
        zeros = noise.bernoulli(Fraction(self.p), size=permanent.shape).astype(np.bool_)
        return np.where(permanent, ones, zeros)


class Device:
    """One person's RAPPOR: the cohort, and a permanent answer for each of the first `values` different values.

    A value beyond these is reported as the last of them. With one value the lifetime price, `event`, holds whatever is reported. With more
    it holds between histories that change and come back at the same reports: averages of reports show when the value changed, which is
    not in the price.
    """

    def __init__(self, rappor: Rappor, *, values: int = 1) -> None:
        self.rappor, self.values = rappor, count("values", values)
        self.cohort = noise.uniform_integers(rappor.cohorts)
        self._memo: dict[str, Bits] = {}

    @property
    def event(self) -> Event:
        """The price of everything this device will ever report."""
        return Repeated(self.rappor.lifetime, self.values) if self.values > 1 else self.rappor.lifetime

    def report(self, value: object) -> tuple[int, Bits]:
        """The cohort and the randomised bits; anything that is no text counts as the empty one."""
        text = str.__str__(value) if isinstance(value, str) else ""
        if text not in self._memo and len(self._memo) < self.values:
            self._memo[text] = self.rappor.permanent(self.rappor.filter(text, self.cohort))
        permanent = self._memo.get(text, next(reversed(self._memo.values())))
        return self.cohort, self.rappor.instantaneous(permanent)

    def to_json(self) -> dict[str, object]:
        """The memory, to be kept on the device only."""
        return {"cohort": self.cohort, "values": self.values, "memo": {k: np.packbits(v).tobytes().hex() for k, v in self._memo.items()}}

    @classmethod
    def from_json(cls, rappor: Rappor, memory: Mapping[str, Any]) -> Device:
        """The device that `to_json` described: the same answers, nothing drawn."""
        found = cls(rappor, values=memory["values"])
        found.cohort = count("cohort", memory["cohort"], least=0)
        for text, hexed in memory["memo"].items():
            row = np.frombuffer(bytes.fromhex(hexed), dtype=np.uint8)
            found._memo[text] = np.unpackbits(row, count=rappor.bits).astype(np.bool_)
        return found


@dataclass(frozen=True)
class Decoded:
    """Candidates with estimated numbers of people, their deviations and p-values, and which are significant."""

    words: tuple[str, ...]
    people: Array
    deviation: Array
    p_value: Array
    found: Bits

    def top(self, k: int) -> list[tuple[str, float]]:
        """The significant words with most people."""
        order = [i for i in np.argsort(-self.people, kind="stable") if self.found[i]][:k]
        return [(self.words[i], float(self.people[i])) for i in order]


class BloomCounts:
    """The collector's side: how often each bit was 1, by cohort."""

    def __init__(self, rappor: Rappor) -> None:
        self.rappor = rappor
        self.ones = np.zeros((rappor.cohorts, rappor.bits), dtype=np.int64)
        self.n = np.zeros(rappor.cohorts, dtype=np.int64)
        self.dropped = 0

    def add(self, reports: Iterable[tuple[int, Bits]]) -> BloomCounts:
        """Count reports; what is none is dropped and counted."""
        for cohort, bits in reports:
            row = np.asarray(bits)
            whole = isinstance(cohort, int | np.integer) and 0 <= cohort < self.rappor.cohorts
            if not whole or row.shape != (self.rappor.bits,) or row.dtype != np.bool_:
                self.dropped += 1
                continue
            self.ones[cohort] += row
            self.n[cohort] += 1
        return self

    def _filters(self, words: Sequence[str]) -> Array:
        rows = [[self.rappor.filter(word, cohort) for cohort in range(self.rappor.cohorts)] for word in words]
        return np.array(rows, dtype=np.float64).reshape(len(words), -1).T

    def decode(self, words: Sequence[str], *, method: str = "lasso", rate: Number = 0.05) -> Decoded:
        """How many people hold each candidate. "lasso" first selects; "nnls" takes all. Of the found ones about `rate` are false.

        True bits are estimated without bias, (ones - n zero) / (one - zero), and fitted by non-negative least squares. Those selected
        get plain least squares with p-values; Benjamini and Hochberg's rule (1995) over all candidates controls false discoveries.
        """
        if method not in ("lasso", "nnls"):
            raise ParameterError("method must be lasso or nnls")
        if not words or len(set(words)) < len(words):
            raise ParameterError("words must be a list of different candidates")
        allowed = float(probability("rate", rate))
        one, zero = self.rappor._reported()
        seen = np.maximum(self.n, 1)[:, None]
        share = np.clip(self.ones / seen, 0.0, 1.0)
        estimate = ((self.ones / seen - zero) / (one - zero)).ravel()  # share of the cohort whose true bit is 1
        spread = (np.maximum(share * (1 - share), zero * (1 - zero) / 4) / seen).ravel() / (one - zero) ** 2
        weight = np.repeat(self.n > 0, self.rappor.bits) / np.sqrt(spread)
        x, y = self._filters(words) * weight[:, None], estimate * weight
        chosen = np.arange(len(words)) if method == "nnls" else np.flatnonzero(_lasso(x, y) > 0)
        if method == "nnls":
            chosen = chosen[nnls(x, y)[0] > 0]
        chosen = chosen[: len(y) // 2]
        people, deviation, p_value = np.zeros(len(words)), np.zeros(len(words)), np.ones(len(words))
        if len(chosen):
            gram = np.linalg.pinv(x[:, chosen].T @ x[:, chosen])
            people[chosen] = gram @ (x[:, chosen].T @ y)
            deviation[chosen] = np.sqrt(np.maximum(np.diag(gram), 1e-300))
            p_value[chosen] = 1 - ndtr(people[chosen] / deviation[chosen])
        order = np.argsort(p_value, kind="stable")
        below = np.flatnonzero(p_value[order] <= allowed * np.arange(1, len(words) + 1) / len(words))
        found = np.zeros(len(words), dtype=np.bool_)
        found[order[: below[-1] + 1 if len(below) else 0]] = True
        total = float(self.n.sum())
        return Decoded(tuple(words), people * total, deviation * total, p_value, found & (people > 0))


def _lasso(x: Array, y: Array) -> Array:
    """Non-negative lasso by coordinate descent; its penalty is what the largest of all candidates' noise reaches."""
    penalty = math.sqrt(2 * math.log(max(2, x.shape[1]))) * np.sqrt((x**2).sum(axis=0))
    found, square, rest = np.zeros(x.shape[1]), (x**2).sum(axis=0), y.copy()
    for _ in range(200):
        moved = 0.0
        for k in range(x.shape[1]):
            if square[k] == 0:
                continue
            new = max(0.0, (float(x[:, k] @ rest) + square[k] * found[k] - penalty[k]) / square[k])
            if new != found[k]:
                rest -= (new - found[k]) * x[:, k]
                moved, found[k] = max(moved, abs(new - found[k])), new
        if moved < 1e-9:
            break
    return found


def joint_shares(
    rappor: Rappor, reports: Sequence[tuple[tuple[int, Bits], tuple[int, Bits]]], first: Sequence[str], second: Sequence[str],
    *, steps: int = 300,
) -> Array:  # fmt: skip
    """How often two things, each reported by RAPPOR, occur together, by expectation and maximisation over single reports.

    With parts of words as the two things, shares that stand out join to words that no list holds. Each person pays for two reports.
    """
    one, zero = rappor._reported()

    def likelihood(side: int, words: Sequence[str]) -> Array:
        filters = {c: np.array([rappor.filter(word, c) for word in words]) for c in {pair[side][0] for pair in reports}}
        rows = []
        for pair in reports:
            cohort, bits = pair[side]
            chance = np.where(filters[cohort], one, zero)
            rows.append(np.log(np.where(bits, chance, 1 - chance)).sum(axis=1))
        table = np.array(rows)
        return np.asarray(np.exp(table - table.max(axis=1, keepdims=True)), dtype=np.float64)

    left, right = likelihood(0, first), likelihood(1, second)
    shares = np.full((len(first), len(second)), 1.0 / (len(first) * len(second)))
    for _ in range(count("steps", steps)):
        total = ((left @ shares) * right).sum(axis=1)
        new = shares * (left.T @ (right / total[:, None])) / len(reports)
        moved, shares = float(np.abs(new - shares).max()), new
        if moved < 1e-7:
            break
    return np.asarray(shares, dtype=np.float64)
