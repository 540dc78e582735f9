"""Draws with replacement: the curve against brute force, real data sets in one and two dimensions, and revealing the count."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from tacit.accounting import Adjacency, Gaussian, Repeated, Sampled, WithReplacement, account
from tacit.accounting.engines.grid import TAIL_ERROR
from tacit.accounting.pairs.pair import single_delta
from tacit.accounting.pairs.sampled import AttainedDraws, DrawnGaussian, LumpedDraws, draw_counts
from tacit.accounting.theorems import amplification as amp

RO = Adjacency.REPLACE_ONE
GRID = (0.0, 0.01, 0.3, 1.0, 2.5, 6.0)


def _never(counts: list[tuple[int, float]]) -> float:
    return 1 - math.fsum(w for _, w in counts)


def _brute_force(shift: float, counts: list[tuple[int, float]], epsilon: float) -> tuple[float, list[float]]:
    """The maximum over x_0 <= x_1 <= ... on a fine grid, by dynamic programming, and where it is."""
    alpha, x = math.exp(epsilon), np.linspace(-3, 20, 40_001)
    value, came = (1 - alpha) * _never(counts) * ndtr(-x), []
    for k, w in counts:
        best = np.maximum.accumulate(value)
        came.append(np.maximum.accumulate(np.where(value == best, np.arange(len(x)), 0)))
        value = best + w * (ndtr(k * shift - x) - alpha * ndtr(-x))
    places = [int(value.argmax())]
    for back in reversed(came):
        places.insert(0, int(back[places[0]]))
    return float(value.max()), [float(x[i]) for i in places]


def test_draw_counts_are_binomial() -> None:
    counts, rest = draw_counts(7, 12)
    assert rest == 0 and [k for k, _ in counts] == list(range(1, 13))
    for k, w in counts:
        assert w == pytest.approx(math.comb(12, k) * (1 / 7) ** k * (6 / 7) ** (12 - k), rel=1e-12)
    many, rest = draw_counts(10**6, 10**6)
    assert 0 < rest < 1e-50 and math.fsum(w for _, w in many) == pytest.approx(1 - math.exp(-1), rel=1e-6)
    assert draw_counts(1, 5) == ([(5, 1.0)], 0.0)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("size", "draws", "shift"), [(10, 10, 1.0), (10, 10, 0.1), (1000, 10, 2.0), (3, 5, 0.7), (50, 5, 6.0)])
def test_the_curve_is_the_maximum(size: int, draws: int, shift: float) -> None:
    counts, rest = draw_counts(size, draws)
    pair = DrawnGaussian(shift, counts, rest)
    for epsilon in GRID:
        low, high = single_delta(pair, epsilon)
        brute, _ = _brute_force(shift, counts, epsilon)
        assert low >= brute * (1 - 1e-12) and high <= brute + 2e-6  # the grid can only miss the maximum


@pytest.mark.parametrize(("size", "draws", "shift"), [(10, 10, 1.0), (3, 5, 0.7), (3, 4, 3.0), (1000, 10, 2.0)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5])
def test_a_mechanism_attains_the_curve(size: int, draws: int, shift: float, epsilon: float) -> None:
    """A function of how often the old or the new record was drawn, whose value no exchange of one draw moves by more than the shift."""
    counts, _ = draw_counts(size, draws)
    places = _brute_force(shift, counts, epsilon)[1]
    new = [-(x - places[0]) for x in places]
    old = [k * shift + place for (k, _), place in zip([(0, 0.0), *counts], new, strict=True)]
    assert all(abs(b - a) <= shift * (1 + 1e-3) for walk in (old, new) for a, b in pairwise(walk))  # up to the grid
    u = np.linspace(-12 - shift * draws, 12 + shift * draws, 40_001)
    weights = [_never(counts), *(w for _, w in counts)]
    laws = (sum(w * np.exp(-0.5 * (u - c) ** 2) for c, w in zip(walk, weights, strict=True)) for walk in (old, new))
    p, q = (law / math.sqrt(2 * math.pi) for law in laws)
    found = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * (u[1] - u[0]))
    assert found == pytest.approx(single_delta(DrawnGaussian(shift, counts), epsilon)[1], rel=2e-4)


@pytest.mark.parametrize(("size", "draws", "shift"), [(10, 10, 1.0), (100, 3, 4.0), (2, 4, 0.5)])
def test_never_worse_than_revealing_the_count(size: int, draws: int, shift: float) -> None:
    counts, rest = draw_counts(size, draws)
    pair, revealed = DrawnGaussian(shift, counts, rest), amp.with_replacement(amp.gaussian_groups(shift), size, draws)
    for epsilon in GRID:
        assert single_delta(pair, epsilon)[0] <= revealed(epsilon) * (1 + 1e-10)
    assert single_delta(pair, 6.0)[1] < 0.999 * revealed(6.0)


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(-1, 1), st.sampled_from([0.2, 1.0, 3.0]), st.floats(0, 4))
def test_no_data_set_on_a_line_costs_more(old: float, new: float, rest: float, shift: float, epsilon: float) -> None:
    """Records old, new and rest of norm at most 1/2 of the shift: exact densities of m = 4 draws from n = 3."""
    counts, _ = draw_counts(3, 4)
    u = np.linspace(-4 * shift - 10, 4 * shift + 10, 4001)

    def density(record: float) -> np.ndarray:
        centres = [((4 - k) * rest + k * record) * shift / 2 for k in range(5)]
        weights = [_never(counts), *(w for _, w in counts)]
        return sum(w * np.exp(-0.5 * (u - c) ** 2) for c, w in zip(centres, weights, strict=True)) / math.sqrt(2 * math.pi)

    found = float(np.maximum(density(old) - math.exp(epsilon) * density(new), 0.0).sum() * (u[1] - u[0]))
    assert found <= single_delta(DrawnGaussian(shift, counts), epsilon)[1] + 1e-6


@pytest.mark.parametrize("angle", [0.0, 0.6, math.pi / 3, 1.8, math.pi])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 2.0])
def test_no_data_set_in_the_plane_costs_more(angle: float, epsilon: float) -> None:
    """One other record at the origin and at the far side; both records on the disc of the clipping norm: no half-plane is forced."""
    counts, shift = draw_counts(3, 3)[0], 2.0
    axis = np.linspace(-16, 16, 401)
    x, y = np.meshgrid(axis, axis)
    bound = single_delta(DrawnGaussian(shift, counts), epsilon)[1]
    for rest in ((0.0, 0.0), (-0.5, 0.0), (0.0, -0.5)):
        laws = []
        for record in ((0.5, 0.0), (0.5 * math.cos(angle), 0.5 * math.sin(angle))):
            weights = [_never(counts), *(w for _, w in counts)]
            centres = [tuple(shift * ((3 - k) * r + k * v) for r, v in zip(rest, record, strict=True)) for k in range(4)]
            bumps = (w * np.exp(-0.5 * ((x - a) ** 2 + (y - b) ** 2)) for (a, b), w in zip(centres, weights, strict=True))
            laws.append(sum(bumps) / math.tau)
        cell = (axis[1] - axis[0]) ** 2
        assert float(np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0.0).sum() * cell) <= bound + 1e-6


def test_one_threshold_for_all_counts_would_be_too_little() -> None:
    """The mutant x_k = x, which is the pair that reveals the other record: two opposite records around nothing cost more."""
    counts, shift = draw_counts(3, 4)[0], 3.0
    symmetric = math.fsum(w * (2 * ndtr(k * shift / 2) - 1) for k, w in counts)  # total variation, test at 0
    assert single_delta(AttainedDraws(shift, counts), 0.0)[1] < symmetric - 1e-3
    assert single_delta(DrawnGaussian(shift, counts), 0.0)[1] >= symmetric


def test_tails_keep_their_digits() -> None:
    """P- and Q-mass beyond a loss, down to 1e-60, against mpmath, which tries every number of counts that share a threshold."""
    counts, _ = draw_counts(1000, 20)
    pair, shift = DrawnGaussian(1.5, counts), 1.5
    mpmath.mp.dps = 40
    never = 1 - mpmath.fsum(mpmath.mpf(w) for _, w in counts)
    for epsilon in (0.05, 1.0, 8.0, 40.0):
        e = mpmath.mpf(epsilon)
        alone = {k: k * shift / mpmath.mpf(2) + e / (k * shift) for k, _ in counts}
        best = None
        for shared in range(1, len(counts) + 1):

            def excess(x: mpmath.mpf, e: mpmath.mpf = e, shared: int = shared) -> mpmath.mpf:
                terms = (w * (mpmath.exp(k * shift * x - (k * shift) ** 2 / mpmath.mpf(2) - e) - 1) for k, w in counts[:shared])
                return mpmath.fsum(terms) - never * (1 - mpmath.exp(-e))

            low, high = mpmath.mpf(0), mpmath.mpf(200)
            for _ in range(140):
                middle = (low + high) / 2
                low, high = (middle, high) if excess(middle) < 0 else (low, middle)
            later = [alone[k] for k, _ in counts[shared:]]
            if all(a <= b for a, b in pairwise([high, *later])):  # thresholds that do not fall: the worst of all such
                own = {k: high if i < shared else alone[k] for i, (k, _) in enumerate(counts)}
                p = never * mpmath.ncdf(-high) + mpmath.fsum(w * mpmath.ncdf(k * shift - own[k]) for k, w in counts)
                q = never * mpmath.ncdf(-high) + mpmath.fsum(w * mpmath.ncdf(-own[k]) for k, w in counts)
                if best is None or p - mpmath.exp(e) * q > best[0] - mpmath.exp(e) * best[1]:
                    best = p, q
        assert best is not None
        found_p, found_q = pair.masses(np.array([epsilon, math.inf]))
        assert found_p[0] == pytest.approx(float(best[0]), rel=2e-13) and found_q[0] == pytest.approx(float(best[1]), rel=2e-13)


def test_many_points_are_solved_as_well_as_few() -> None:
    pair = DrawnGaussian(5.0, draw_counts(10**4, 10**4)[0])
    edges = np.concatenate([[0.0], np.geomspace(1e-6, 300, 20_000)])
    p, q = pair.masses(edges)
    for start in (0, 5_000, 12_345, 19_000):
        few = pair.masses(edges[start : start + 50])
        np.testing.assert_allclose(p[start : start + 49], few[0], rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(q[start : start + 49], few[1], rtol=1e-9, atol=1e-15)


def test_symmetric_and_whole() -> None:
    pair = DrawnGaussian(1.0, draw_counts(5, 5)[0])
    edges = np.array([-np.inf, -2.0, -0.5, 0.0, 0.5, 2.0, np.inf])
    p, q = pair.masses(edges)
    np.testing.assert_allclose(p, q[::-1], rtol=1e-12)
    assert p.sum() + pair.atoms()[1].sum() == pytest.approx(1)
    # moments bounded on a table agree with the same law read from the other side, and exceed their exact value by little
    assert pair.kappa(2.0) == pytest.approx(pair.kappa(-3.0), rel=1e-6)
    assert math.isfinite(pair.kappa(5.0)) and pair.kappa(0.0) == pytest.approx(0.0, abs=1e-9)


def test_trimming_stays_on_its_side() -> None:
    counts, rest = draw_counts(100, 100)
    upper, lower = DrawnGaussian(1.0, counts, rest), AttainedDraws(1.0, counts)
    cut, lumped = upper.trimmed(1e-4), lower.trimmed(1e-4)
    assert len(cut.counts) < len(counts) and 0 < cut.infinite <= 1e-4 and len(lumped.counts) < len(counts)
    assert math.fsum(w for _, w in lumped.counts) == pytest.approx(math.fsum(w for _, w in counts), rel=1e-14)
    for epsilon in GRID:
        assert single_delta(cut, epsilon)[1] >= single_delta(upper, epsilon)[0]
        assert single_delta(lumped, epsilon)[0] <= single_delta(lower, epsilon)[1]
        assert single_delta(lumped.reverse(), epsilon)[0] <= single_delta(lower.reverse(), epsilon)[1]
    assert upper.trimmed(1e-60) is upper and lower.trimmed(1e-60) is lower
    below = LumpedDraws(1.0, counts)
    shorter = below.trimmed(1e-4)
    assert below.close and len(shorter.counts) < len(counts) and shorter.infinite == 0
    for epsilon in GRID:
        assert single_delta(shorter, epsilon)[0] <= single_delta(upper, epsilon)[1]


def test_both_ends_meet() -> None:
    """These were 1.8%, .005%, 3.3%, 4.1%, 6.9% and 4.6% apart when one data set stood for all from below."""
    cases = (
        (1e-3, 3.0, 1000, 1e-20), (1e-5, 1.0, 10_000, 1e-10), (0.01, 10.0, 100, 1e-10),
        (0.1, 10.0, 100, 1e-6), (0.5, 10.0, 1000, 1e-6), (1.0, 10.0, 100, 1e-6),
    )  # fmt: skip
    for rate, sigma, steps, delta in cases:
        found = account(Repeated(Sampled(WithReplacement(10**6, round(rate * 10**6)), Gaussian(sigma)), steps), RO).epsilon(delta)
        assert 0 < found.width <= 1e-3 * found.upper


FAR = (
    (1e-5, 0.2, 100, 1e-15), (1.0, 0.2, 100, 1e-20), (1.0, 0.2, 1000, 1e-30), (0.001, 0.2, 10**4, 1e-30), (0.1, 0.5, 1000, 1e-30),
    (1.0, 0.2, 10**7, 1e-20), (0.5, 0.2, 10**5, 1e-15),
)  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("rate", "sigma", "steps", "delta"), FAR)
def test_both_ends_meet_where_losses_are_large(rate: float, sigma: float, steps: int, delta: float) -> None:
    """These were 66, 32, 15, 31, 21, 6 and 1.4 % apart, when a grid from below ended at a loss of 600."""
    found = account(Repeated(Sampled(WithReplacement(10**6, round(rate * 10**6)), Gaussian(sigma)), steps), RO).epsilon(delta)
    assert 0 < found.width <= 3e-3 * found.upper


@pytest.mark.parametrize(
    ("draws", "sigma", "steps", "delta"), [(155, 45.93, 861, 5.6e-13), (5, 100.0, 1000, 1e-20), (244, 4.0, 363, 3.3e-9)]
)
def test_both_ends_meet_where_epsilon_is_tiny(draws: int, sigma: float, steps: int, delta: float) -> None:
    """These were 2.4, .04 and .5 % apart: what counts is the width relative to epsilon."""
    found = account(Repeated(Sampled(WithReplacement(10**6, draws), Gaussian(sigma)), steps), RO).epsilon(delta)
    assert 0 < found.upper < 0.02 and found.width <= 2e-4 * found.upper


def _tails_by_bisection(shift: float, counts: list[tuple[int, float]], epsilon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P- and Q-mass beyond every loss: the shared threshold by bisection, all else as the module says."""
    d, w = shift * np.array([[float(k)] for k, _ in counts]), np.array([[w] for _, w in counts])
    alone = d / 2 + epsilon / d
    shared = np.arange(len(d))[:, None] <= alone.argmin(axis=0)
    low, high = alone.min(axis=0), alone.min(axis=0) + 50 / shift + 10

    def taken(x: np.ndarray) -> np.ndarray:
        y = d * (x - alone)
        return np.asarray((w * np.where(shared | (y > 0), np.expm1(np.minimum(y, 600)), 0.0)).sum(axis=0))

    for _ in range(80):
        middle = (low + high) / 2
        right = taken(middle) >= _never(counts) * -np.expm1(-epsilon)
        low, high = np.where(right, low, middle), np.where(right, middle, high)
    x = np.where(shared, high, np.maximum(alone, high))
    never = _never(counts) * ndtr(-high)
    return never + (w * ndtr(d - x)).sum(axis=0), never + (w * ndtr(-x)).sum(axis=0)


def _rounded_ends(shift: float, counts: list[tuple[int, float]], steps: int, delta: float, h: float) -> tuple[float, float]:
    """Epsilon where every loss is rounded down, or up, to a multiple of h, by plain convolution; its profile is that of the P-law alone."""
    top = h
    while _tails_by_bisection(shift, counts, np.array([top]))[0][0] > 1e-5 * delta / steps:
        top *= 1.25
    number = math.ceil(top / h)
    above_p, above_q = _tails_by_bisection(shift, counts, h * np.arange(number + 1.0))
    p, q = -np.diff(above_p), -np.diff(above_q)
    rest = 1 - above_p[0] - above_q[0]
    # the first point is -(number + 1) h; smaller losses are left out, or put on the second
    down = np.concatenate([[0.0], q[::-1], [rest + p[0]], p[1:], [above_p[-1]]])
    up = np.concatenate([[0.0, above_q[-1]], q[:0:-1], [q[0] + rest], p])
    found = []
    for law, lost in ((down, 0.0), (up, 1.001 * steps * above_p[-1])):
        whole = law
        for _ in range(steps - 1):
            whole = np.convolve(whole, law)
        losses = h * (np.arange(len(whole)) - steps * (number + 1.0))
        low, high = 0.0, steps * top
        for _ in range(60):
            middle = (low + high) / 2
            above = losses > middle
            value = float((whole[above] * -np.expm1(middle - losses[above])).sum()) + lost
            low, high = (middle, high) if value > delta else (low, middle)
        found.append(high)
    return found[0], found[1]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("draws", "sigma", "steps", "delta", "h"),
    [
        (100, 0.2, 3, 1e-30, 0.25),
        (10**6, 0.2, 2, 1e-20, 2.0),
        (10**4, 0.5, 3, 1e-20, 0.05),
        (1, 0.25, 2, 1e-15, 0.05),
        (155, 45.93, 3, 1e-9, 2e-8),
    ],
)
def test_a_few_steps_are_a_plain_convolution(draws: int, sigma: float, steps: int, delta: float, h: float) -> None:
    counts, _ = draw_counts(10**6, draws)
    low, high = _rounded_ends(2 / sigma, counts, steps, delta, h)
    found = account(Repeated(Sampled(WithReplacement(10**6, draws), Gaussian(sigma)), steps), RO).epsilon(delta)
    assert 0 < low < high < low * 1.01
    assert found.lower <= high and low <= found.upper and found.width <= 2e-3 * found.upper
    # one step more is another answer
    dearer = account(Repeated(Sampled(WithReplacement(10**6, draws), Gaussian(sigma)), steps + 1), RO).epsilon(delta)
    assert dearer.lower > found.upper


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("draws", "sigma"), [(10**6, 0.2), (10**3, 0.2), (10**5, 0.5), (2, 26.0)])
def test_curves_keep_their_digits_where_losses_are_large(draws: int, sigma: float) -> None:
    """What grids rely on (`TAIL_ERROR`): the curve is right relative to P-tail and alpha times Q-tail, and beyond 600 the P-tail is."""
    counts, shift = draw_counts(10**6, draws)[0], 2 / sigma
    mpmath.mp.dps = 50
    never = 1 - mpmath.fsum(mpmath.mpf(w) for _, w in counts)
    pair = DrawnGaussian(shift, counts)
    for epsilon in np.geomspace(1e-5, 1.0, 12) * (counts[min(len(counts) - 1, 24)][0] * shift) ** 2 / 2:
        e = mpmath.mpf(float(epsilon))
        d = {k: mpmath.mpf(shift) * k for k, _ in counts}
        alone = {k: d[k] / 2 + e / d[k] for k in d}
        last = min(alone, key=lambda k: alone[k])

        def excess(x: mpmath.mpf, e: mpmath.mpf = e, alone: dict = alone, d: dict = d, last: int = last) -> mpmath.mpf:
            terms = (w * (mpmath.exp(d[k] * (x - alone[k])) - 1) for k, w in counts if k <= last or x > alone[k])
            return mpmath.fsum(terms) - never * (1 - mpmath.exp(-e))

        low, high = alone[last], alone[last] + 50 / d[1] + 10
        for _ in range(150):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) < 0 else (low, middle)
        place = {k: high if k <= last else max(alone[k], high) for k in d}
        p, q = (
            never * mpmath.erfc(high / mpmath.sqrt(2)) / 2
            + mpmath.fsum(w * mpmath.erfc((place[k] - away * d[k]) / mpmath.sqrt(2)) / 2 for k, w in counts)
            for away in (1, 0)
        )
        found_p, found_q = (mpmath.mpf(float(mass[0])) for mass in pair.masses(np.array([epsilon, math.inf])))
        if p < 1e-200:
            continue
        if q > 1e-290:
            alpha = mpmath.exp(e)
            assert abs(found_p - alpha * found_q - (p - alpha * q)) <= TAIL_ERROR * (p + alpha * q)
        if epsilon > 600:
            assert abs(found_p / p - 1) <= TAIL_ERROR


def test_moments_beyond_the_table_are_bounded() -> None:
    """Losses that the table does not reach: the bound against an integral over the tails beyond it."""
    pair = DrawnGaussian(12.0, draw_counts(50, 12)[0])
    for c in (0.5, 1.0, 1.5):
        edges = np.linspace(800.0, 12_000.0, 60_001)
        p = np.array([pair.masses(np.array([a, b]))[0][0] for a, b in ((800.0, 801.0), (801.0, 900.0))])
        assert p.sum() > 0
        whole = pair.masses(edges)[0]
        with np.errstate(over="ignore", divide="ignore"):
            exact = float(np.logaddexp.reduce(np.log(whole) + c * edges[1:]))
        assert exact <= pair.log_beyond(c) + c * float(edges[1] - edges[0]) + 1e-9


def test_grows_with_steps_and_draws() -> None:
    prices = [account(Repeated(Sampled(WithReplacement(1000, m), Gaussian(2)), t), RO).epsilon(1e-6) for m, t in ((5, 3), (5, 9), (50, 9))]
    assert all(a.upper <= b.upper and a.lower <= b.upper for a, b in pairwise(prices))
