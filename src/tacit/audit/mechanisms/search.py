"""Black-box search: from samples of a mechanism on two inputs to a lower bound on what it leaks, with its confidence.

The samples are cut in three. Tests are learnt on the first part (thresholds, histograms, kernels, a classifier). The
best of them and a few thresholds are chosen on the second. Only the third part, on which nothing was chosen, measures
them, by Clopper and Pearson's interval with its share of the error for each. So the bound exceeds the truth with
probability at most 1 - confidence, whatever was tried and however the mechanism answers.

>>> from tacit.noise import discrete_laplace
>>> found = attack(lambda n: discrete_laplace(2, size=n), lambda n: 1 + discrete_laplace(2, size=n), 20_000, seed=1)
>>> 0.4 < found.lower <= 0.5, found.confidence
(True, 0.95)

It looks at one pair of inputs at a time: a leak elsewhere is not seen. Nothing found is no proof.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypedDict, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

from tacit.accounting import ParameterError
from tacit.audit.claim import Evidence
from tacit.audit.experiment import Generator, generator
from tacit.audit.mechanisms import outputs
from tacit.audit.mechanisms.outputs import Candidate, Encoded, Floats, Outputs, Sampler
from tacit.audit.rates import Measure, OperatingPoint, epsilon_of, mu_of, operating_point
from tacit.noise import test_mode
from tacit.parameters import count, probability

Kind = Literal["auto", "histogram", "threshold", "classifier", "likelihood"]
KINDS = get_args(Kind)
WORST = "worst case: both inputs fixed, only the mechanism's noise fresh"
LEARN, CHOOSE = 0.1, 0.1  # shares of the samples; the rest measures
FEW, MORE = 2000, 1.5  # of fewer samples than this, so many times the shares: a tenth of a few hundred teaches nothing
USUAL = (0.95, 0.5)  # confidences at which tests are chosen beside the one asked for, where that is higher
LEAST = 20  # samples below which nothing can be split
SCANNED = 8  # features whose likelihood ratio is learnt, the most telling first
TRIED = 200  # thresholds looked at for each score
CAUTION = (3.0, 1.5, 0.5, 0.0)  # standard deviations by which a rate seen on few samples is distrusted: the first that leaves a promise
AROUND = (0.1, 0.2, 0.5, 2.0)  # tails of these multiples of the chosen one's probability are measured beside it


@dataclass(frozen=True)
class Test:
    """Fires where the score is above the threshold, and at it with probability `tie` (Neyman and Pearson's randomised test)."""

    candidate: Candidate
    threshold: float
    tie: float = 1.0

    __test__ = False  # no test of pytest's

    def fires(self, seen: Encoded, coins: Generator) -> NDArray[np.bool_]:
        """On which outputs it says "the second input"."""
        score = self.candidate.score(seen)
        at = score == self.threshold
        return np.asarray((score > self.threshold) | (at & (coins.random(len(seen)) < self.tie)))

    def __str__(self) -> str:
        return self.candidate.name


class Terms(TypedDict, total=False):
    """What attacks on samples share: where epsilon is bounded, how surely, the seed, and the game in words."""

    delta: float
    confidence: float
    seed: int | None
    game: str


def attack(
    on_first: Sampler, on_second: Sampler, n: int, *, delta: float = 0.0, confidence: float = 0.95,
    events: Kind = "auto", measure: Measure = "epsilon", seed: int | None = None, game: str = WORST,
) -> Evidence:
    """The best lower bound on epsilon at `delta`, or on mu, that a search finds in `n` samples on either input.

    `on_first(n)` and `on_second(n)` return n independent outputs each: an array with a row for each, or any sequence; exceptions, None and
    texts are outputs too (`tacit.audit.mechanisms.outputs.outcomes` makes a sampler of a function). `events` says what is tried; "auto"
    tries everything. With a seed, draws of `tacit.noise` and the attacker's own coins repeat.

    >>> attack(lambda n: ["yes"] * n, lambda n: ["no"] * n, 1000, seed=0).lower > 5
    True
    """
    coins = generator(seed)
    first, second = sampled(on_first, on_second, count("n", n, least=LEAST), seed)
    learnt, chosen, measured = parts(first, second, coins)
    tried = candidates(*learnt, events)
    # What is best to measure at a very high confidence a small sample hardly says: other scores that look best at usual ones are too.
    best: list[Test] = []
    for level in (confidence, *(level for level in USUAL if confidence > USUAL[0])):
        others = [one for one in tried if all(one is not test.candidate for test in best)] or tried
        best.append(choose(others, chosen, len(measured[0]), delta, level, measure))
    # Nor does it say where the best threshold of a tail lies: a few around the chosen ones are measured, and all are paid for.
    near = best if measure == "mu" else [other for test in best for other in around(test, learnt, chosen)]
    tests = list({(id(test.candidate), test.threshold): test for test in near}.values())
    each = 1 - (1 - confidence) / len(tests)
    tried_on = partial(certified, delta=delta, confidence=each, measure=measure, trials=n, game=game)
    found = max((tried_on(test, measured, coins) for test in tests), key=lambda e: e.lower)
    return replace(found, confidence=float(confidence), point=None if found.point is None else replace(found.point, confidence=confidence))


def certify(
    event: Callable[[Any], object], on_first: Sampler, on_second: Sampler, n: int, *,
    delta: float = 0.0, confidence: float = 0.95, seed: int | None = None, game: str = WORST,
) -> Evidence:
    """The lower bound that one set of outputs gives, named before any sample was seen: all samples measure it.

    The set must be the one that is likelier on the second input; `event(output)` says whether an output is in it, or
    maps a whole array at once.

    >>> certify(lambda out: out > 1, lambda n: np.zeros(n), lambda n: np.full(n, 2.0), 1000, confidence=0.95).lower > 5
    True
    """
    with _noise(seed):
        hits = [_hits(event, sample(count("n", n))) for sample in (on_first, on_second)]
    point = operating_point(false_positives=hits[0], negatives=n, true_positives=hits[1], positives=n, confidence=confidence)
    return Evidence.of_point(
        point, attack="an event named beforehand", game=game, delta=delta, trials=n, details={"hits": (hits[0], hits[1]), "measured": n}
    )


def _hits(event: Callable[[Any], object], drawn: Outputs) -> int:
    if isinstance(drawn, np.ndarray) and drawn.dtype.kind in "biuf":
        return int(np.count_nonzero(np.asarray(event(drawn))))
    return sum(bool(event(output)) for output in drawn)


def _noise(seed: int | None) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if seed is None else test_mode(seed)


def sampled(on_first: Sampler, on_second: Sampler, n: int, seed: int | None) -> tuple[Encoded, Encoded]:
    """n outputs on either input, in one encoding."""
    with _noise(seed):
        first, second = on_first(n), on_second(n)
    if len(first) != n or len(second) != n:
        raise ParameterError(f"a sampler asked for {n} outputs must return {n}; the samplers returned {len(first)} and {len(second)}")
    return outputs.encode_both(first, second)


Both = tuple[Encoded, Encoded]


def parts(first: Encoded, second: Encoded, coins: Generator) -> tuple[Both, Both, Both]:
    """Three disjoint parts of the samples: to learn, to choose, to measure. Cut at random, should a sampler's outputs drift."""
    n = len(first)
    more = MORE if n < FEW else 1.0
    learn, choose_ = max(2, int(more * LEARN * n)), max(2, int(more * CHOOSE * n))
    cuts = (slice(0, learn), slice(learn, learn + choose_), slice(learn + choose_, n))
    orders = [coins.permutation(n), coins.permutation(n)]
    learnt, chosen, measured = ((first.take(orders[0][cut]), second.take(orders[1][cut])) for cut in cuts)
    return learnt, chosen, measured


def candidates(first: Encoded, second: Encoded, events: str = "auto") -> list[Candidate]:
    """The scores that are learnt from samples on the two inputs."""
    if events not in KINDS:
        raise ParameterError(f"events must be one of {', '.join(KINDS)}, not {events!r}")
    seen, which = outputs.stacked(first, second)
    found: list[Candidate] = []
    telling = _telling(seen, which)
    if events in ("auto", "histogram"):
        found += [outputs.by_kind(seen, which)] if len(np.unique(seen.kind)) > 1 else []
        found += [outputs.by_atom(seen, which)] if len(np.unique(seen.atom)) <= len(seen) / 8 else []
        found += [outputs.by_histogram(seen, which, j) for j in telling]
    if events in ("auto", "threshold"):
        found += outputs.thresholds(seen, which)
    if events in ("auto", "likelihood"):
        found += [outputs.by_kernel(seen, which, j) for j in telling[:3]]
    if events in ("auto", "classifier"):
        found.append(outputs.by_classifier(seen, which))
    if events == "likelihood":
        found += [outputs.by_kind(seen, which)]
    return found or [outputs.by_atom(seen, which)]


def _telling(seen: Encoded, which: NDArray[np.bool_]) -> list[int]:
    """The features by how far their two distributions are apart (Kolmogorov and Smirnov's distance), the farthest first."""

    def apart(j: int) -> float:
        column = np.sort(seen.features[:, j])
        ranks = [np.searchsorted(np.sort(seen.features[m, j]), column, side="right") / m.sum() for m in (which, ~which)]
        return float(np.abs(ranks[0] - ranks[1]).max())

    return sorted(outputs.different(seen), key=apart, reverse=True)[:SCANNED]


def choose(
    tried: Iterable[Candidate], chosen: Both, measured: int, delta: float, confidence: float, measure: Measure = "epsilon"
) -> Test:
    """The score and threshold that promise the largest bound from `measured` fresh samples, judged on samples they were not learnt on.

    At a high confidence and few samples it can be that no test promises a bound as long as every rate is distrusted. Rates are then
    trusted more, step by step: a test that only looks good may turn out to be good, and one that always fires never does.
    """
    counted: list[tuple[Candidate, Floats, Floats, Floats, int]] = []
    for candidate in tried:
        first, second = (candidate.score(part) for part in chosen)
        levels = cuts_of(np.concatenate([first, second]), TRIED)
        counted.append((candidate, levels, rates_above(first, levels), rates_above(second, levels), len(first)))
    best = -math.inf
    test: Test | None = None
    for caution in CAUTION:
        for candidate, levels, false_positives, true_positives, n in counted:
            worth = promise(false_positives, true_positives, n, measured, delta, confidence, measure, caution)
            place = int(np.argmax(worth))
            if test is None or worth[place] > best:
                best, test = float(worth[place]), Test(candidate, float(levels[place]))
        if best > 0:
            break
    assert test is not None
    return test


def around(test: Test, *seen: Both) -> list[Test]:
    """The test and others with the same score, farther out and farther in on its tail."""
    scores = np.sort(np.concatenate([test.candidate.score(part) for both in seen for part in both]))
    inside = float(np.mean(scores >= test.threshold))
    upper = inside <= 0.5
    shares = np.clip((inside if upper else 1 - inside) * np.array(AROUND), 1 / len(scores), 0.5)
    levels = np.unique(np.append(np.quantile(scores, 1 - shares if upper else shares, method="nearest"), test.threshold))
    # At the least score and below, a test fires always and tells nothing.
    return [Test(test.candidate, float(level)) for level in levels if level > scores[0]] or [test]


def cuts_of(scores: Floats, most: int) -> Floats:
    """Thresholds worth trying: every value where there are few, else quantiles that crowd towards both ends."""
    values = np.unique(scores)
    if len(values) <= most:
        return values
    tail = np.geomspace(2 / len(scores), 0.5, most // 2)
    return np.unique(np.quantile(scores, np.concatenate([tail, 1 - tail]), method="nearest"))


def rates_above(scores: Floats, levels: Floats) -> Floats:
    """How many scores are at each level or above."""
    return (len(scores) - np.searchsorted(np.sort(scores), levels, side="left")).astype(np.float64)


def promise(
    false_positives: Floats, true_positives: Floats, n: int, measured: int, delta: float, confidence: float,
    measure: Measure, caution: float = CAUTION[0],
) -> Floats:
    """What each test, with these counts in n samples, may be expected to certify on `measured` fresh ones.

    The counts themselves are uncertain, and the best of many is the luckiest of many: so each rate is taken at the end of an interval that
    is as wide as the one it will be measured by plus `caution` standard deviations of its own.
    """
    delta = float(probability("delta", delta))
    final = -float(ndtri((1 - float(probability("confidence", confidence))) / 2))
    error = float(ndtr(-(final * math.sqrt(n / measured) + caution)))
    high = np.where(false_positives < n, betaincinv(false_positives + 1, np.maximum(n - false_positives, 1), 1 - error), 1.0)
    low = np.where(true_positives > 0, betaincinv(np.maximum(true_positives, 1), n - true_positives + 1, error), 0.0)
    if measure == "mu":
        return np.asarray(np.where(low > high, ndtri(low) - ndtri(high), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        up = np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), -math.inf)
        down = np.where(1 - delta > high, np.log(np.maximum(1 - delta - high, 1e-300) / np.maximum(1 - low, 1e-300)), -math.inf)
    return np.asarray(np.maximum(up, down))


def certified(
    test: Test, measured: Both, coins: Generator, *, delta: float, confidence: float, measure: Measure, trials: int, game: str
) -> Evidence:
    """The test's two rates on samples that nothing was chosen on, and what they prove."""
    hits = [int(test.fires(part, coins).sum()) for part in measured]
    sizes = [len(part) for part in measured]
    point = operating_point(
        false_positives=hits[0], negatives=sizes[0], true_positives=hits[1], positives=sizes[1], confidence=confidence
    )
    details = {"test": str(test), "hits": tuple(hits), "measured": sizes[0]}
    return Evidence.of_point(
        point, attack=f"black-box search ({test})", game=game, delta=delta, trials=trials, measure=measure, details=details
    )


@dataclass(frozen=True)
class Band:
    """The trade-off curve of one score, enclosed: all rates lie between their ends at once, with `confidence`.

    Row i is one threshold. Since all hold together, the best row may be picked after the fact.
    """

    fpr_low: Floats
    fpr_high: Floats
    tpr_low: Floats
    tpr_high: Floats
    confidence: float
    attack: str
    trials: int

    def epsilon(self, delta: float = 0.0) -> float:
        """A lower bound on the mechanism's epsilon at any delta; several deltas may be asked of one band."""
        return max(epsilon_of(a, b, delta) for a, b in self._points())

    @property
    def mu(self) -> tuple[float, float]:
        """No mu-GDP promise holds below the first. Where the score's curve is Gaussian, mu is also at most the second.

        The first needs no assumption. The second does, and is about this score alone: another may do better. Where it comes out below the
        first, the curve is not Gaussian.
        """
        upper = min(
            (float(ndtri(b) - ndtri(a)) if a > 0 and b < 1 else math.inf)
            for a, b in zip(self.fpr_low.tolist(), self.tpr_high.tolist(), strict=True)
        )
        return max(mu_of(a, b) for a, b in self._points()), upper

    def _points(self) -> list[tuple[float, float]]:
        return list(zip(self.fpr_high.tolist(), self.tpr_low.tolist(), strict=True))

    def tpr(self, fpr: float) -> float:
        """The true positive rate that the score is known to reach at this false positive rate: the upper hull of its certain points."""
        points = [(0.0, 0.0), *sorted(self._points()), (1.0, 1.0)]
        return max(
            (
                b1 if a1 <= fpr else b0 + (b1 - b0) * (fpr - a0) / (a1 - a0)
                for a0, b0 in points
                if a0 <= fpr
                for a1, b1 in points
                if a1 <= fpr or (a1 > a0 and b1 >= b0)
            ),
            default=0.0,
        )

    def evidence(self, delta: float = 0.0, *, measure: Measure = "epsilon", game: str = WORST) -> Evidence:
        """The best single point of the band at `delta`, as evidence."""
        points = [OperatingPoint(a, b, self.confidence) for a, b in self._points()]
        best = max(points, key=lambda point: point.lower(measure, delta))
        return Evidence.of_point(
            best, attack=self.attack, game=game, delta=delta, trials=self.trials, measure=measure
        )


def band(
    on_first: Sampler, on_second: Sampler, n: int, *,
    confidence: float = 0.95, events: Kind = "auto", points: int = 25, seed: int | None = None,
) -> Band:
    """The whole trade-off curve at once: one score, `points` thresholds fixed on other samples, each rate at its share of the error.

    >>> from tacit.noise import rounded_gaussian
    >>> draw = lambda shift: lambda n: shift + rounded_gaussian(1000, size=n)
    >>> low, high = band(draw(0), draw(1000), 20_000, seed=3).mu
    >>> 0.85 < low < 1 < high
    True
    """
    coins = generator(seed)
    first, second = sampled(on_first, on_second, count("n", n, least=LEAST), seed)
    learnt, chosen, measured = parts(first, second, coins)
    test = choose(candidates(*learnt, events), chosen, len(measured[0]), 0.0, confidence, "mu")
    both = np.concatenate([test.candidate.score(part) for part in chosen])
    levels = cuts_of(both, count("points", points))
    levels = levels[np.linspace(0, len(levels) - 1, min(points, len(levels))).astype(int)]
    # Two rates with two ends each at every threshold: Bonferroni's share of the error for each.
    error = (1 - float(probability("confidence", confidence))) / (4 * len(levels))
    ends = []
    for part in measured:
        hits, size = rates_above(test.candidate.score(part), levels), len(part)
        low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), size - hits + 1, error), 0.0)
        high = np.where(hits < size, betaincinv(hits + 1, np.maximum(size - hits, 1), 1 - error), 1.0)
        ends.append((low, high))
    (fpr_low, fpr_high), (tpr_low, tpr_high) = ends
    return Band(fpr_low, fpr_high, tpr_low, tpr_high, float(confidence), f"trade-off band ({test})", n)
