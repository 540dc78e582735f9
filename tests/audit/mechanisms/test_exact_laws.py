"""Exact comparison: against the maximum over all events, listed one by one, in fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attacks.broken_svt import Variant, right, roth

from tacit.accounting import ParameterError
from tacit.audit.claim import Claim
from tacit.audit.mechanisms.exact_laws import LawPair, law, worst_pair

WEIGHTS = st.lists(st.integers(0, 6), min_size=4, max_size=4).filter(any)


def normal(weights: list[int]) -> list[Fraction]:
    return [Fraction(w, sum(weights)) for w in weights]


def brute_ratio(p: list[Fraction], q: list[Fraction], delta: Fraction) -> Fraction | float:
    """e^epsilon over every event, both directions: the definition itself."""
    best: Fraction | float = Fraction(1)
    for size in range(len(p) + 1):
        for event in itertools.combinations(range(len(p)), size):
            a, b = sum((p[i] for i in event), Fraction(0)), sum((q[i] for i in event), Fraction(0))
            for x, y in ((a, b), (b, a)):
                if x > delta:
                    best = max(best, (x - delta) / y if y else math.inf)
    return best


@given(WEIGHTS, WEIGHTS, st.fractions(0, 1, max_denominator=12))
def test_the_ratio_is_the_maximum_over_all_events(one: list[int], two: list[int], delta: Fraction) -> None:
    p, q = normal(one), normal(two)
    pair = LawPair(p, q)
    assert pair.ratio(delta) == brute_ratio(p, q, delta)
    best = pair.worst_set(delta)
    swap = best.swapped
    assert sum((q[i] for i in best.outputs), Fraction(0)) == (best.unlikely if swap else best.likely)  # type: ignore[call-overload]
    assert max(1, best.ratio(delta)) == pair.ratio(delta)


@given(WEIGHTS, WEIGHTS, st.fractions(1, 20, max_denominator=8))
def test_delta_is_the_inverse_of_the_ratio(one: list[int], two: list[int], ratio: Fraction) -> None:
    pair = LawPair(normal(one), normal(two))
    delta = pair.delta_at_ratio(ratio)
    assert pair.ratio(delta) <= ratio
    if delta > 0:
        assert pair.ratio(delta * Fraction(999, 1000)) > ratio
    # The definition: the largest excess of any event.
    p, q = normal(one), normal(two)
    events = list(itertools.chain.from_iterable(itertools.combinations(range(4), k) for k in range(5)))
    assert delta == max(
        sum((x[i] - ratio * y[i] for i in event), Fraction(0)) for x, y in ((p, q), (q, p)) for event in events
    )


@given(WEIGHTS, WEIGHTS)
def test_the_tradeoff_is_concave_and_symmetric_under_exchange(one: list[int], two: list[int]) -> None:
    pair = LawPair(normal(one), normal(two))
    corners = pair.tradeoff()
    assert corners[0] == (0, 0) and corners[-1] == (1, 1)
    slopes = [(b1 - b0) / (a1 - a0) if a1 > a0 else math.inf for (a0, b0), (a1, b1) in itertools.pairwise(corners)]
    assert slopes == sorted(slopes, reverse=True)
    assert pair.ratio() == pair.reverse.ratio()


def test_randomised_response_exactly() -> None:
    for k, top in ((2, 3), (5, 7)):
        matrix = [[Fraction(top if i == j else 1, top + k - 1) for j in range(k)] for i in range(k)]
        found = worst_pair(matrix)
        assert found.pair.ratio() == top and found.epsilon == pytest.approx(math.log(top), rel=1e-15)
    assert LawPair([0.5, 0.5], [0.5, 0.5]).epsilon() == 0
    assert LawPair([1, 0], [0, 1]).epsilon() == math.inf and LawPair([1, 0], [0, 1]).total_variation == 1


def test_a_listed_neighbour_only() -> None:
    rows = [[Fraction(1), Fraction(0)], [Fraction(1, 2), Fraction(1, 2)], [Fraction(1, 3), Fraction(2, 3)]]
    assert worst_pair(rows, neighbours=[(1, 2)]).pair.ratio() == Fraction(3, 2)
    assert worst_pair(rows).epsilon == math.inf
    with pytest.raises(ParameterError, match="row numbers from 0 to 2"):
        worst_pair(rows, neighbours=[(0, 3)])


def test_claims_are_compared_exactly() -> None:
    third = LawPair([Fraction(1, 4), Fraction(3, 4)], [Fraction(3, 4), Fraction(1, 4)])
    assert not third.breaks(Claim.of(epsilon=math.log(3)))
    assert third.breaks(Claim.of(epsilon=1.09))
    assert not third.breaks(Claim.of(epsilon=0.7, delta=0.25)) and third.breaks(Claim.of(epsilon=0.69, delta=0.2))
    assert third.breaks(Claim.of(mu=1.3)) and not third.breaks(Claim.of(mu=1.4))  # Phi(mu/2) = 3/4 at mu = 1.349


def float_ratio(scale: Fraction | None) -> float:
    return 0.0 if scale is None else math.exp(-1 / float(scale))


def svt_law(variant: Variant, answers: list[int], reach: int = 20) -> dict[object, float]:
    """The law of a sparse vector with one above: how many are below first, and what is published for the one that is not."""
    values = list(range(-reach, reach + 1)) if variant.publishes == "compared" else [True]
    outputs = [(False,) * k + (v,) for k in range(len(answers)) for v in values] + [(False,) * len(answers)]
    found: dict[object, float] = {o: max(0.0, variant.chance(answers, o, ratio=float_ratio)) for o in outputs}
    found["other"] = max(0.0, 1 - math.fsum(found.values()))
    return found


def test_the_sparse_vector_of_the_lecture_notes_is_refuted_without_a_sample() -> None:
    first, second = [0] * 5 + [1], [1] * 5 + [0]
    broken = LawPair(svt_law(roth(2), first), svt_law(roth(2), second))
    # 1e-6: what lies beyond the listed values may be on one side only.
    assert broken.epsilon(1e-6) > 2.2 and broken.breaks(Claim.of(epsilon=2, delta=1e-6))
    good = LawPair(svt_law(right(2), first), svt_law(right(2), second))
    assert 1 < good.epsilon(1e-6) <= 2 and not good.breaks(Claim.of(epsilon=2, delta=1e-6))


@pytest.mark.parametrize("bad", [[Fraction(1, 2)], [0.5, 0.6], [1.5, -0.5], [], [float("nan"), 1]], ids=str)
def test_what_is_no_law_is_refused(bad: list[float]) -> None:
    with pytest.raises(ParameterError, match=r"probabilit|every"):
        law(bad)
