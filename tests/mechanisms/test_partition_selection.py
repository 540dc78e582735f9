"""Partition selection: the probability that one person's key is published, prices by enumeration, capping, and the peers' numbers."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import ApproxDP, Composed, DiscreteLaplace, Gaussian, Group, NoOp, ParameterError, Repeated, account
from tacit.calculus import AddRemove, Anything, CalculusError, Integers, Records, ReplaceOne, Rows, Space
from tacit.mechanisms import GaussianSelection, LaplaceSelection, OptimalSelection, SipsSelection, best_selection, optimal_selection
from tacit.mechanisms.partition_selection import FINE, _own, _threshold, gaussian_tail_bound
from tacit.noise import test_mode as seeded

PEOPLE = Space(Rows(Anything()), AddRemove())
RULES = (LaplaceSelection, GaussianSelection, OptimalSelection, SipsSelection)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.__name__)
@pytest.mark.parametrize(("epsilon", "delta", "keys"), [(1, 1e-6, 10), (0.3, 1e-9, 1), (4, 1e-5, 40)])
def test_budgets_are_kept_and_used(rule, epsilon, delta, keys):
    found = account(rule.for_budget(epsilon, delta, keys).price(1)).delta(epsilon).upper
    assert found <= delta * (1 + 1e-9)
    assert found > delta * 0.4


def test_people_needed_beside_the_peers():
    """At 10 keys a person, epsilon 1 and delta 1e-6 the peers need 74 to 80 (Gaussian), 133 (truncated geometric) and 155 (Laplace)."""
    assert GaussianSelection.for_budget(1, 1e-6, 10).people_needed() == 75
    # equal shares, as the peers do: pi(131) = .465, pi(132) = .514, pi(133) = .560
    assert OptimalSelection.for_budget(1, 1e-6, 10).people_needed() == 132
    # for many keys optimal composition helps
    assert OptimalSelection.for_budget(1, 1e-6, 100).people_needed() < 0.6 * optimal_selection(Fraction(1, 100), 1e-8, 100).people_needed()
    laplace = LaplaceSelection.for_budget(1, 1e-6, 10)
    assert laplace.people_needed() == 156  # 1 + 10 ln(10 / 2e-6) = 155.3 for continuous noise, rounded up
    assert type(best_selection(1, 1e-6, 10)) is GaussianSelection
    assert type(best_selection(1, 1e-6, 1)) is OptimalSelection


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(Fraction(1), Fraction(1, 10**6)), (Fraction(1, 10), Fraction(1, 10**7)), (Fraction(7), Fraction(1, 3))]
)
def test_optimal_probabilities_hold_exactly_and_are_the_largest(epsilon, delta):
    table = optimal_selection(epsilon, delta).probabilities
    with mpmath.workdps(90):
        growth, gift = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator), mpmath.mpf(delta.numerator) / delta.denominator
        exact = [mpmath.mpf(p.numerator) / p.denominator for p in table]
        assert table[0] == 0
        assert table[1] <= delta  # one person's key
        assert table[-1] == 1
        for last, following in itertools.pairwise(exact):
            allowed = min(growth * last + gift, 1 - (1 - last - gift) / growth, mpmath.mpf(1))
            assert last < following <= allowed  # both inequalities of (epsilon, delta), and the two opposite ones follow from the order
            assert allowed - following < mpmath.mpf(10) ** -35
        # the closed form of the first part: delta (e^(n epsilon) - 1) / (e^epsilon - 1)
        for n, value in enumerate(exact[: len(exact) // 3]):
            assert abs(value - gift * (growth**n - 1) / (growth - 1)) < mpmath.mpf(10) ** -30


def test_too_generous_a_rule_is_caught():
    """The check above has teeth: one part in a thousand more epsilon breaks the inequality."""
    table = optimal_selection(Fraction(1001, 1000), Fraction(1, 10**6)).probabilities
    steps = itertools.pairwise(float(p) for p in table)
    assert any(b > min(math.e * a + 1e-6, 1 - (1 - a - 1e-6) / math.e) + 1e-9 for a, b in steps)


@settings(max_examples=40)
@given(st.fractions(Fraction(1, 5), 5), st.integers(1, 30), st.integers(1, 60))
def test_laplace_delta_is_the_chance_of_one_persons_keys(scale, keys, threshold):
    event = LaplaceSelection(scale, threshold, keys).price(1)
    with mpmath.workdps(300):  # 1 - (1 - one)^keys loses as many digits as `one` has zeros, up to 130
        ratio = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
        mass = (1 - ratio) / (1 + ratio) * ratio ** (threshold - 1)
        one = mpmath.mpf(0)
        for _ in range(80):  # and what is left of a geometric series
            one, mass = one + mass, mass * ratio
        one += mass / (1 - ratio)
        exact = 1 - (1 - one) ** keys
        stated = mpmath.mpf(event.events[1].delta.numerator) / event.events[1].delta.denominator
        assert exact <= stated
        assert threshold == 1 or stated <= keys * one * (1 + mpmath.mpf(10) ** -12) or stated == 1


@given(st.floats(0.3, 30), st.integers(1, 30), st.floats(1.5, 60))
def test_gaussian_delta_covers_every_number_of_own_keys(sigma, keys, threshold):
    rule = GaussianSelection(sigma, threshold, keys)
    stated = rule.price(1).events[1].delta
    bar = math.ceil(Fraction(threshold) * FINE) + 1
    with mpmath.workdps(40):
        for m in range(1, keys + 1):
            weight = int(rule.granules[m])
            assert m * weight * weight <= FINE * FINE  # the length of a person's weights is at most 1
            # rounded noise reaches bar - weight from half a granule below it
            reach = mpmath.erfc((bar - weight - mpmath.mpf(1) / 2) / FINE / sigma / mpmath.sqrt(2)) / 2
            assert 1 - (1 - reach) ** m <= stated


@given(st.floats(0.01, 100), st.floats(0.1, 200), st.floats(0, 1))
def test_gaussian_tails_are_rounded_up(sigma, bar, weight):
    with mpmath.workdps(60):
        exact = mpmath.erfc((mpmath.mpf(bar) - weight) / sigma / mpmath.sqrt(2)) / 2
        found = gaussian_tail_bound(bar, weight, sigma)
        assert exact <= found <= exact * (1 + mpmath.mpf(10) ** -5) + mpmath.mpf(10) ** -320


def test_weights_for_the_last_number_of_keys_only_would_be_too_little():
    """A mutant that takes m = keys alone understates delta for a person with one key."""
    rule = GaussianSelection(1, 5, keys=50)
    last = 50 * math.erfc((5 - 1 / math.sqrt(50)) / math.sqrt(2)) / 2
    single = math.erfc((5 - 1) / math.sqrt(2)) / 2
    assert rule.price(1).events[1].delta >= single > last


def test_laplace_price_by_exact_enumeration():
    """One person joins with a key that two others have and one of her own; noisy numbers are published too."""
    rule = LaplaceSelection(Fraction(2), 5, keys=2)
    priced = account(rule.price(1))
    ratio = math.exp(-1 / 2)

    def law(n):
        if n == 0:
            return {None: 1.0}
        masses = {k: (1 - ratio) / (1 + ratio) * ratio ** abs(k - n) for k in range(5, 120)}
        return {**masses, None: 1 - sum(masses.values())}

    def product(a, b):
        return {(x, y): p * q for x, p in law(a).items() for y, q in law(b).items()}

    joined, before = product(3, 1), product(2, 0)
    for epsilon in (0.2, 0.5, 1.0):
        for p, q in ((joined, before), (before, joined)):
            delta = sum(max(0.0, chance - math.exp(epsilon) * q.get(out, 0.0)) for out, chance in p.items())
            assert delta <= priced.delta(epsilon).upper + 1e-12
    # at epsilon 0.5 the shared key's noise is paid for, and what is left is her own key
    own = sum(chance for out, chance in law(1).items() if out is not None)
    assert own <= priced.delta(1.0).upper


def test_events_are_the_stated_ones():
    assert (PEOPLE >> LaplaceSelection(2, 9, 3)).event(0) == NoOp()
    laplace = (PEOPLE >> LaplaceSelection(2, 9, 3)).event(2)
    assert isinstance(laplace, Composed)
    assert laplace.events[0] == Repeated(DiscreteLaplace(2, 2), 3)
    gaussian = (PEOPLE >> GaussianSelection(2, 9, 3)).event(1)
    assert gaussian.events[0] == Gaussian(2)
    exchanged = (Space(Rows(Anything()), ReplaceOne()) >> OptimalSelection(1, 0.1, 3)).event(1)
    assert isinstance(exchanged, Group)
    assert exchanged.size == 2
    assert exchanged.event.count == 3
    assert (PEOPLE >> OptimalSelection(1, 0.1, 3)).event(1) == Repeated(ApproxDP(1, 0.1), 3)


def test_a_key_that_more_people_share_is_dearer_to_a_group():
    rule = LaplaceSelection(2, 12, 1)
    deltas = [float(rule.price(d).events[1].delta) for d in (1, 2, 3)]
    ratio = math.exp(-1 / 2)
    for d, delta in zip((1, 2, 3), deltas, strict=True):
        own = ratio ** (12 - d) / (1 + ratio)  # d people with one new key between them
        assert own <= delta


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.__name__)
def test_popular_keys_come_out_and_single_ones_do_not(rule):
    plan = PEOPLE >> rule.for_budget(1, 1e-6, 3)
    data = [{"flu", "cold", f"own {i}"} for i in range(400)]
    with seeded(8):
        assert list(plan.function(data)) == ["cold", "flu"]


def test_the_chance_of_being_published_is_the_stated_one():
    for rule, people in ((LaplaceSelection(3, 10), 9), (GaussianSelection(3, 10), 9), (optimal_selection(0.5, 0.01), 5)):
        plan = PEOPLE >> rule
        keys = 300
        data = [{f"key {k}"} for k in range(keys) for _ in range(people)]
        with seeded(4):
            found = sum(len(plan.function(data)) for _ in range(8))
        chance = rule.chance(people)
        assert 0.15 < chance < 0.85
        assert abs(found - 8 * keys * chance) < 5 * math.sqrt(8 * keys * chance * (1 - chance))
        wrong = rule.chance(people - 2)
        assert abs(found - 8 * keys * wrong) > 5 * math.sqrt(8 * keys * wrong * (1 - wrong))


def test_noise_is_drawn_for_each_key():
    """Known failure 13: one draw shared by many keys."""
    plan = PEOPLE >> LaplaceSelection(20, 1)
    data = [[f"key {k}"] for k in range(200) for _ in range(1000)]
    with seeded(2):
        values = np.array(list(plan.function(data).values())) - 1000
    assert len(values) == 200
    assert len(set(values.tolist())) > 40
    assert 0.7 < values.std() / (20 * math.sqrt(2)) < 1.4


def zipf(people=3000, held=12, vocabulary=400):
    rng = np.random.default_rng(5)
    weights = 1 / np.arange(1, vocabulary + 1)
    return [set(rng.choice(vocabulary, size=held, p=weights / weights.sum()).tolist()) for _ in range(people)]


def test_rounds_find_more_than_one_round():
    data = zipf()
    with seeded(9):
        once = len((PEOPLE >> GaussianSelection.for_budget(1, 1e-6, 3)).function(data))
        thrice = len((PEOPLE >> SipsSelection.for_budget(1, 1e-6, 3)).function(data))
    assert thrice > once * 1.2
    counts = list(Counter(key for row in data for key in row).values())
    chosen = best_selection(1, 1e-6, 3, people=counts, held=10)
    assert isinstance(chosen, SipsSelection)
    assert abs(chosen.kept(counts, held=10) - thrice) < 0.35 * thrice


def test_rounds_cost_what_they_compose_to():
    rule = SipsSelection.for_budget(1, 1e-6, 10)
    event = rule.price(1)
    assert isinstance(event, Composed)
    assert [part.events[0] for part in event.events] == [Gaussian(r.sigma) for r in rule.rounds]
    sigmas = [float(r.sigma) for r in rule.rounds]
    assert sigmas[0] / sigmas[1] == pytest.approx(math.sqrt(2))
    one = GaussianSelection.for_split(1, 1e-6, Fraction(1, 2), 10)
    assert sum(s**-2 for s in sigmas) == pytest.approx(float(one.sigma) ** -2, rel=1e-9)


def test_bad_parameters_name_themselves():
    cases = [
        (lambda: LaplaceSelection(0, 5), "scale"),
        (lambda: LaplaceSelection(1, 0), "threshold"),
        (lambda: LaplaceSelection(1, 5, 0), "keys"),
        (lambda: GaussianSelection(math.nan, 5), "sigma"),
        (lambda: OptimalSelection(1, 0), "delta"),
        (lambda: OptimalSelection(1, 2), "delta"),
        (lambda: OptimalSelection(1e-9, 1e-9).probabilities, "epsilon"),
        (lambda: SipsSelection(()), "rounds"),
        (lambda: SipsSelection((GaussianSelection(1, 5, 2),), 3), "rounds"),
    ]
    for make, name in cases:
        with pytest.raises(ParameterError, match=name):
            make()
    with pytest.raises(CalculusError):
        Space(Rows(Records(person=Integers(), town=Anything())), AddRemove()) >> OptimalSelection(1, 0.1)


@given(st.floats(0.5, 40), st.integers(17, 3000), st.floats(0.5, 300))
@settings(max_examples=30, deadline=None)
def test_the_quick_search_for_the_worst_number_of_keys_finds_it(sigma, keys, threshold):
    """Only numbers near the greatest are bounded with care; the bound is as large as if all were."""
    every = max(m * gaussian_tail_bound(threshold, 1 / math.sqrt(m), sigma) for m in range(1, keys + 1))
    assert every <= _own(threshold, sigma, keys) <= every * (1 + 1e-12) + 5e-324


@pytest.mark.parametrize("keys", [1, 7, 12, 100])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.25, 1e-6), (2.0, 1e-9)])
def test_the_share_of_delta_is_the_best_of_all(epsilon, delta, keys):
    """A search by halves finds what trying all nineteen shares finds."""
    every = [GaussianSelection.for_split(epsilon, delta, Fraction(step, 20), keys).threshold for step in range(1, 20)]
    assert float(GaussianSelection.for_budget(epsilon, delta, keys).threshold) == pytest.approx(float(min(every)), rel=1e-6)
    assert _threshold(3.0, 1e-6, keys) >= 1
