"""The worst of several events: its curve, its composition by exact enumeration, and what a maximum of composed figures would miss."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import (
    ZCDP,
    Adjacency,
    Composed,
    DiscreteGaussian,
    Gaussian,
    Group,
    Laplace,
    LeakyRandomizedResponse,
    Poisson,
    PureDP,
    RandomizedResponse,
    Repeated,
    Sampled,
    TruncatedPoisson,
    UnsupportedError,
    Worst,
    account,
    from_json,
    to_json,
)
from tacit.accounting.closed_form import exact_pure, exact_rho
from tacit.accounting.engines.grid import WorstPair
from tacit.accounting.pairs.finite import leaky_randomised_response, randomised_response
from tacit.accounting.pairs.laplace import laplace
from tacit.accounting.pairs.mixture import gaussian, poisson_gaussian
from tacit.accounting.pairs.pair import Pair, single_delta

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
LEAKY = leaky_randomised_response(0.3, 0.05)
PAIRS: list[Pair] = [gaussian(2.0), laplace(1.0), LEAKY, poisson_gaussian(0.2, 0.7), randomised_response(0.8, 4)]


@given(st.sets(st.sampled_from(range(5)), min_size=1), st.floats(0, 5))
def test_the_curve_is_the_largest(chosen: set[int], epsilon: float) -> None:
    pairs = [PAIRS[i] for i in sorted(chosen)]
    for several in (pairs, [pair.reverse() for pair in pairs]):
        low, high = single_delta(WorstPair(several), epsilon)
        each = [single_delta(pair, epsilon) for pair in several]
        assert low <= max(b for _, b in each) * (1 + 1e-10) + 1e-15 and high >= max(a for a, _ in each) * (1 - 1e-10)


def test_masses_add_up_and_both_laws_are_laws() -> None:
    pair = WorstPair(PAIRS)
    edges = np.concatenate([[-np.inf], np.linspace(-6, 6, 101), [np.inf]])
    p, q = pair.masses(edges)
    assert p.min() >= 0 and q.min() >= 0
    assert p.sum() + pair.infinite == pytest.approx(1, abs=1e-12) and q.sum() <= 1 + 1e-12
    # in every cell the ratio of the masses is a loss of the cell
    inside = (p[1:-1] > 1e-12) & (q[1:-1] > 1e-12)
    ratio = np.log(p[1:-1][inside] / q[1:-1][inside])
    assert np.all(ratio >= edges[1:-2][inside] - 1e-6) and np.all(ratio <= edges[2:-1][inside] + 1e-6)


def _steps(events: list[tuple[Fraction, Fraction]]) -> list[dict[Fraction, Fraction]]:
    """Leaky randomised responses as laws of the likelihood ratio under P: ratio -> P-mass, infinity as ratio 0 in the Q-law."""
    laws = []
    for ratio, delta in events:
        keep = (1 - delta) / (1 + ratio)
        laws.append({ratio: keep * ratio, 1 / ratio: keep, Fraction(-1): delta})
    return laws


def _exact_delta(laws: list[dict[Fraction, Fraction]], alpha: Fraction) -> Fraction:
    """E[(1 - alpha / ratio)_+] of a product of laws, in fractions; -1 stands for an infinite ratio."""
    total = Fraction(0)
    for outcome in itertools.product(*(law.items() for law in laws)):
        mass, ratio, infinite = Fraction(1), Fraction(1), False
        for r, m in outcome:
            mass *= m
            infinite = infinite or r < 0
            ratio *= r if r > 0 else 1
        total += mass if infinite else mass * max(Fraction(0), 1 - alpha / ratio)
    return total


def test_composition_holds_every_choice_of_parts() -> None:
    """Three steps, each of which touches either of two mechanisms: all eight ways, in fractions, lie below the upper end."""
    kinds = [(Fraction(3, 2), Fraction(1, 10)), (Fraction(3), Fraction(0))]
    event = Worst(*(LeakyRandomizedResponse(math.log(r), d) for r, d in kinds))
    laws = _steps(kinds)
    for epsilon in (0.0, 0.2, 0.7, 1.5, 3.0):
        alpha = Fraction(math.exp(epsilon))
        bound = account(Repeated(event, 3)).delta(epsilon)
        ways = [float(_exact_delta([laws[i] for i in way], alpha)) for way in itertools.product((0, 1), repeat=3)]
        assert max(ways) <= bound.upper * (1 + 1e-9)
        assert bound.lower <= max(ways) * (1 + 1e-9)


def test_the_larger_of_two_composed_figures_is_not_enough() -> None:
    """The mutant max(3 x a, 3 x b): a way that touches both kinds costs more than either alone."""
    kinds = [(Fraction(3, 2), Fraction(1, 10)), (Fraction(3), Fraction(0))]
    laws, alpha = _steps(kinds), Fraction(math.exp(1.5))
    alone = max(_exact_delta([law] * 3, alpha) for law in laws)
    mixed = max(_exact_delta([laws[i] for i in way], alpha) for way in itertools.product((0, 1), repeat=3))
    assert mixed > alone * Fraction(1005, 1000)
    event = Worst(*(LeakyRandomizedResponse(math.log(r), d) for r, d in kinds))
    assert account(Repeated(event, 3)).delta(1.5).upper >= float(mixed)


def test_one_event_is_itself_and_an_ordered_one_is_its_dearest() -> None:
    assert account(Worst(Gaussian(2), Gaussian(2))).epsilon(1e-6) == account(Gaussian(2)).epsilon(1e-6)
    ordered = account(Repeated(Worst(Gaussian(2), Gaussian(5)), 10)).epsilon(1e-6)
    plain = account(Repeated(Gaussian(2), 10)).epsilon(1e-6)
    assert ordered.lower <= plain.upper and plain.lower <= ordered.upper <= plain.upper * (1 + 1e-4)


def test_exact_prices_are_the_largest() -> None:
    event = Repeated(Worst(PureDP(Fraction(1, 3)), Laplace(2)), 4)
    assert exact_pure(event, AR) == 2 and account(event).epsilon(0).upper == 2
    assert exact_rho(Worst(Gaussian(2), ZCDP(Fraction(1, 3)), DiscreteGaussian(1)), AR) == Fraction(1, 2)
    assert exact_rho(Worst(Gaussian(2), PureDP(1)), AR) is None


def test_known_by_curves_alone() -> None:
    found = account(Worst(ZCDP(0.1), Gaussian(4)))
    assert found.rdp(3).upper == pytest.approx(0.3, rel=1e-9)
    assert found.epsilon(1e-5).upper == pytest.approx(account(ZCDP(0.1)).epsilon(1e-5).upper, rel=1e-6)


def test_sampled_and_composed_with_others() -> None:
    worst = Worst(Laplace(2), Gaussian(3))
    sampled, several = Sampled(Poisson(0.1), worst), Repeated(Sampled(Poisson(0.05), worst), 20)
    for event in (sampled, several, Composed(worst, RandomizedResponse(0.2, adjacency=AR))):
        found = account(event).epsilon(1e-4)
        assert 0 < found.lower <= found.upper < math.inf


def test_what_may_touch_two_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="two of the events"):
        account(Group(Worst(Laplace(1), Gaussian(1)), 2))
    with pytest.raises(UnsupportedError, match="two of the events"):
        account(Worst(Laplace(1), Gaussian(1)), RO)
    assert exact_pure(Worst(Laplace(1), Laplace(2)), RO) is None


def test_cut_batches_are_among_what_may_be_the_worst() -> None:
    """Each is a pair of its own, so the worst of them is; it costs what the dearer one does."""
    cut, plain = Sampled(TruncatedPoisson(0.1, 10, 9), Gaussian(1)), Laplace(1)
    whole, parts = account(Worst(plain, cut)), [account(plain), account(cut)]
    for delta in (1e-3, 1e-5):
        dearer = max(one.epsilon(delta).upper for one in parts)
        assert dearer * (1 - 1e-9) <= whole.epsilon(delta).upper <= dearer * (1 + 1e-6)


@settings(max_examples=20)
@given(st.lists(st.sampled_from([Gaussian(2), Laplace(Fraction(1, 3)), PureDP(0.1), Repeated(Laplace(2), 3)]), min_size=1, max_size=4))
def test_json_round_trip(events: list) -> None:
    event = Worst(*events)
    assert from_json(to_json(event)) == event and hash(from_json(to_json(event))) == hash(event)
    assert eval(repr(event), {**globals(), "Fraction": Fraction}) == event
