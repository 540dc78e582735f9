"""The contract holds for every randomiser: the enumerated epsilon is the claim, draws follow the law, estimates are unbiased."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from tests.local.oracles import ALL, LN3, outcomes, shares, supported, supports
from tests.noise.reference import LEVEL, binomial_p, chi_square

from tacit import noise
from tacit.accounting import Adjacency, LocalReport, Repeated, account
from tacit.errors import ParameterError
from tacit.local import BlockHadamard, Hadamard, LocalHash, Projective, Response, Subset, SymmetricUnary, Unary
from tacit.local.randomiser import from_parameters
from tacit.mechanisms.verify import enclosed, max_divergence, pure

EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
#: Var* a person, spec 01: eps, RR, GRR at 4, 16, 64, 128, 1024, OUE, OLH at its g, HR, SUE.
TABLE = [
    (0.5, 3.91770, 8.67011, 37.18455, 151.2424, 303.3194, 2432.398, 15.67079, 15.8174, 3, 16.67079, 15.91693),
    (1, 0.92067, 1.59807, 5.66243, 21.91988, 43.59648, 347.0689, 3.68269, 3.69165, 4, 4.68269, 3.91770),
    (LN3, 0.75, 1.25, 4.25, 16.25, 32.25, 256.25, 3.0, 3.0, 4, 4.0, 3.23205),
    (2, 0.18102, 0.23001, 0.52398, 1.69988, 3.26773, 25.21774, 0.72406, 0.72459, 8, 1.72406, 0.92067),
    (4, 0.01901, 0.01970, 0.02388, 0.04059, 0.06287, 0.37476, 0.07602, 0.07602, 56, 1.07602, 0.18102),
]


# --- the law, enumerated ---


@pytest.mark.parametrize("size", range(2, 9))
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("kind", [Response, Unary, SymmetricUnary, LocalHash, Hadamard, BlockHadamard, Subset])
@pytest.mark.one_in(3)
def test_the_enumerated_epsilon_is_the_claim(kind: Any, epsilon: Fraction, size: int) -> None:
    oracle = kind(size, epsilon)
    others = range(1, size) if size < 6 else (1, size - 1)
    for value in others:
        first, second = oracle.distribution(0), oracle.distribution(value)
        assert pure(first, second, epsilon + Fraction(1, 10**15))
        assert not pure(first, second, epsilon - Fraction(1, 10**12))
        found = max_divergence(first, second)
        assert found.lower <= float(epsilon) * (1 + 1e-15) and abs(found.upper - float(epsilon)) < 1e-11


def masses(oracle: Any) -> tuple[float, float]:
    """By enumeration: the mass of the outcomes that are e^epsilon times likelier for value 0 than for value 1, and of the blanket."""
    laws = [enclosed(oracle.distribution(v)) for v in range(oracle.size)]
    middle = [{o: float(sum(law[o])) / 2 for o in law} for law in laws]
    likelier = sum(q for o, q in middle[1].items() if middle[0][o] > q * (1 + 1e-9))
    return likelier, sum(min(law[o] for law in middle) for o in middle[0])


@pytest.mark.parametrize("kind", [Response, Unary, SymmetricUnary, Hadamard, Subset, Projective])
def test_the_event_is_that_of_the_law(kind: Any) -> None:
    """`LocalReport` holds alpha, the mass of the reports that speak for the other value, and gamma, the blanket's, as enumerated."""
    oracle = kind(3, LN3)
    alpha, blanket = masses(oracle)
    event = oracle.event
    if kind is Response:
        assert (event.epsilon, event.categories) == (LN3, 3)
        return
    if kind is SymmetricUnary:
        # with a factor e^(eps/2) for each of two bits the report is one of four: both speak against, both for, or neither
        assert event.alpha == pytest.approx(oracle.other**2, rel=1e-12)
        return
    assert isinstance(event, LocalReport)
    assert event.alpha == pytest.approx(alpha, rel=1e-9) and event.alpha >= alpha * (1 - 1e-14)
    if kind in (Hadamard, Projective):  # with 3 values not all outcomes of the geometry are some value's: the blanket needs more
        assert event.blanket <= blanket + 1e-12
    elif kind is not Unary:
        assert event.blanket == pytest.approx(blanket, rel=1e-9)


@pytest.mark.parametrize("kind", ALL)
def test_one_report_costs_its_epsilon_and_two_cost_less_than_twice(kind: Any) -> None:
    event = kind(8, 1).event
    assert account(event, Adjacency.REPLACE_ONE).epsilon(0).upper == pytest.approx(1, rel=1e-9)
    assert account(Repeated(event, 8), Adjacency.REPLACE_ONE).epsilon(1e-6).upper < 8


@pytest.mark.parametrize("kind", [Response, Unary, SymmetricUnary, Hadamard, BlockHadamard, Subset, Projective])
@pytest.mark.parametrize("value", [0, 3])
def test_draws_follow_the_law(kind: Any, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chi-square at 1e-6 over all outcomes that are expected ten times. The mutants are a lie told as the truth, and a coin of 4 bits."""
    oracle, draws = kind(5, 1), 40_000
    law = {o: float(sum(m)) / 2 for o, m in enclosed(oracle.distribution(value)).items()}
    common = [o for o, p in law.items() if p * draws >= 20]

    def p_value() -> float:
        seen = outcomes(oracle, oracle.privatise(np.full(draws, value)))
        assert set(seen) <= set(law)
        return chi_square([seen[o] for o in common], [law[o] for o in common], draws)

    assert p_value() > LEVEL
    right = noise.odds_bits
    with monkeypatch.context() as patch:
        patch.setattr(noise, "odds_bits", lambda *a, **o: ~right(*a, **o))
        assert p_value() < LEVEL
    with monkeypatch.context() as patch:
        patch.setattr(noise, "odds_bits", coarse)
        assert p_value() < LEVEL


def coarse(x: Any, count: int, *, heads: int = 1, tails: int = 1) -> Any:
    """Coins of 4 bits."""
    p = math.exp(x) * heads / (math.exp(x) * heads + tails)
    return noise.uniform_integers(16, count) < math.floor(p * 16)


# --- variances ---


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]:.3g}")
def test_the_table_of_variances(row: tuple[float, ...]) -> None:
    epsilon, rr, *responses, oue, olh, g, hadamard, sue = row
    near = {"rel": 1e-5, "abs": 5.1e-6}
    assert Response(2, epsilon).variance(1) == pytest.approx(rr, **near)
    for size, figure in zip((4, 16, 64, 128, 1024), responses, strict=True):
        assert Response(size, epsilon).variance(1) == pytest.approx(figure, **near)
    assert Unary(50, epsilon).variance(1) == pytest.approx(oue, **near)
    assert LocalHash(50, epsilon).symbols == g and LocalHash(50, epsilon).variance(1) == pytest.approx(olh, **near)
    assert Hadamard(50, epsilon).variance(1) == pytest.approx(hadamard, **near)
    assert SymmetricUnary(50, epsilon).variance(1) == pytest.approx(sue, **near)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, LN3, 2, 4, 8])
def test_identities(epsilon: float) -> None:
    odds = math.exp(epsilon)
    rr = odds / (odds - 1) ** 2
    assert Response(2, epsilon).variance(1) == pytest.approx(rr, rel=1e-12)
    assert Unary(9, epsilon).variance(1) == pytest.approx(4 * rr, rel=1e-9)
    assert Hadamard(9, epsilon).variance(1) - Unary(9, epsilon).variance(1) == pytest.approx(1, rel=1e-9)
    assert SymmetricUnary(9, epsilon).variance(1) == pytest.approx(Response(2, epsilon / 2).variance(1), rel=1e-9)
    assert LocalHash(9, epsilon, 2).variance(1) == pytest.approx(Hadamard(9, epsilon).variance(1), rel=1e-9)
    # where k-ary response and unary encoding meet: size 3 e^eps + 2, a real number; at the whole numbers around it they change places
    meeting = 3 * odds + 2
    for size in (math.floor(meeting), math.ceil(meeting) + 1):
        assert (Response(size, epsilon).variance(1) <= 4 * rr * (1 + 1e-9)) == (size <= meeting)
    assert Subset(9, epsilon, 1).variance(1) == pytest.approx(Response(9, epsilon).variance(1), rel=1e-9)
    # holders: p (1 - p) / (p - q)^2, and in between in proportion
    for oracle in (Response(9, epsilon), Projective(9, epsilon), LocalHash(9, epsilon)):
        p, q = oracle.held, oracle.other
        exact = (q * (1 - q) + 0.3 * (p * (1 - p) - q * (1 - q))) / (p - q) ** 2
        assert oracle.variance(1, 0.3) == pytest.approx(exact, rel=1e-12)
        assert oracle.variance(1, 0.3) == pytest.approx(oracle.variance(1) + 0.3 * (1 - p - q) / (p - q), rel=1e-9)
    assert Hadamard(8, epsilon).variance(1, 1) == pytest.approx(Hadamard(8, epsilon).variance(1) - 1, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 1, LN3, 2, 4, 8])
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.one_in(3)
def test_estimates_are_unbiased_with_the_predicted_variance(kind: Any, epsilon: float) -> None:
    """20,000 groups of 30 people who hold 0, 0, 1: means within 5 deviations, variances within 3%, which is at least four deviations.

    A value's variance over the groups has a relative deviation of sqrt((2 + k) / 20,000), k the excess of a binomial count's fourth moment;
    the mean over the six values that are not held has that divided by the root of six, and by about the root of two where supports go
    together. Where a support is so rare that this is over 0.7%, the variance is that of its chance, known from 400,000 reports.
    """
    oracle, people, groups = kind(8, epsilon), 30, 20_000
    reports = oracle.privatise(np.tile([0, 0, 1], people * groups // 3))
    support = supported(oracle, reports)
    found = (support.reshape(groups, people, 8).mean(axis=1) - oracle.other) / oracle.gap
    truth = np.array([2 / 3, 1 / 3] + [0] * 6)
    predicted = np.array([oracle.variance(people, share) for share in truth])
    if isinstance(oracle, BlockHadamard):  # whose variance is that of the block
        crowd = np.array([sum(truth[w] for w in range(8) if (w - v) % oracle.blocks == 0) for v in range(8)])
        predicted = np.array([oracle._spread(c, share) / people for c, share in zip(crowd, truth, strict=True)])
    assert (np.abs(found.mean(axis=0) - truth) < 5 * np.sqrt(predicted / groups)).all()
    ratio = found.var(axis=0, ddof=1) / predicted
    q = oracle.other
    spread = math.sqrt((2 + max(0.0, (1 - 6 * q * (1 - q)) / (people * q * (1 - q)))) / groups / 3)
    if spread < 0.007:
        assert abs(ratio[2:].mean() - 1) < 0.03
    else:
        assert all(binomial_p(int(support[:, v].sum()), len(reports), q) > LEVEL for v in range(2, 8))
    p = oracle.held
    spread = math.sqrt((2 + max(0.0, (1 - 6 * p * (1 - p)) / (people * p * (1 - p)))) / groups / 2)
    if spread < 0.0075:  # the two held values alone: four deviations again; every other case is in test_variance
        assert abs(ratio[:2].mean() - 1) < 0.03


@pytest.mark.parametrize("kind", [Response, Hadamard, Projective, LocalHash])
def test_the_variance_within_3_percent_by_a_binomial_law(kind: Any) -> None:
    """Sharper than a sample variance: n counts of a value that is not held are Binomial(n, q), so q, and with it q (1 - q) / (p - q)^2,
    is known to 1% from a million reports; p from those of the value that is held. Level 1e-6 each, and 3% off would be found."""
    oracle, n = kind(13, 1), 1_000_000
    found = supports(oracle, oracle.privatise(np.zeros(n, dtype=np.int64)))
    assert binomial_p(int(found[0]), n, oracle.held) > LEVEL
    for value in (1, 6, 12):
        assert binomial_p(int(found[value]), n, oracle.other) > LEVEL
        assert binomial_p(int(found[value]), n, oracle.other * 1.03) < LEVEL
    p, q = found[0] / n, found[6] / n
    assert q * (1 - q) / (p - q) ** 2 == pytest.approx(oracle.variance(1), rel=0.03)


def sabotaged(oracle: Any, how: str, patch: pytest.MonkeyPatch) -> None:
    right = noise.odds_bits
    if how == "wrong direction":
        patch.setattr(noise, "odds_bits", lambda x, count, *, heads=1, tails=1: right(x, count, heads=tails, tails=heads))
    elif how == "the textbook's E3":  # every wrong symbol with 1 / (e^eps + 1)
        patch.setattr(noise, "odds_bits", lambda x, count, **o: right(x, count, heads=1, tails=1))
    else:
        patch.setattr(noise, "odds_bits", coarse)


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        *itertools.product([Response, Unary, SymmetricUnary, Hadamard, Projective, Subset, LocalHash], ["coins of 4 bits"]),
        *itertools.product([Response, Projective, Subset, LocalHash], ["wrong direction"]),
        (LocalHash, "the textbook's E3"),
    ],
)
def test_sabotage_shows_in_the_estimates(kind: Any, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """200,000 people who hold value 0 of 13; an honest estimate leaves its 6 deviations once in 5e8 draws."""
    oracle, n = kind(13, 1), 200_000

    def off() -> float:
        found = shares(oracle, oracle.privatise(np.zeros(n, dtype=np.int64)))
        return max(abs(found[v] - (v == 0)) / math.sqrt(oracle.variance(n, int(v == 0))) for v in range(13))

    assert off() < 6
    sabotaged(oracle, how, monkeypatch)
    assert off() > 6


# --- errata of the book ---


def test_erratum_e1_the_debiasing_term_belongs_inside_the_sum() -> None:
    oracle, n = Response(2, 1), 1000
    p = oracle.held
    mean = p * 0.4 + (1 - p) * 0.6  # what a report says on average where 40% hold 1
    right = (mean - (1 - p)) / (2 * p - 1)
    printed = (n * mean + p - 1) / ((2 * p - 1) * n)
    assert right == pytest.approx(0.4) and printed - 0.4 == pytest.approx(0.5814, abs=5e-5)
    reports = oracle.privatise((np.arange(200_000) < 80_000).astype(np.int64))
    assert abs(shares(oracle, reports)[1] - 0.4) < 6 * math.sqrt(oracle.variance(200_000, 0.4))
    assert abs((reports.sum() + p - 1) / ((2 * p - 1) * len(reports)) - 0.4) > 0.5


def test_erratum_e4_the_variance_of_an_average_falls_with_n() -> None:
    one, many = Response(2, 1).variance(1), Response(2, 1).variance(10_000)
    assert many == pytest.approx(one / 10_000) and many != pytest.approx(one * 10_000)
    assert math.sqrt(Response(2, 1).variance(10**6)) == pytest.approx(0.00095952, rel=1e-5)


def test_erratum_e9_the_variance_is_that_of_those_who_do_not_hold_the_value() -> None:
    """Not "conditioned on an erroneous report": given a lie of value 0, the report never supports 0 and has no variance for it."""
    oracle = Response(4, 1)
    p, q = oracle.held, oracle.other
    assert oracle.variance(1, 0) == pytest.approx(q * (1 - q) / (p - q) ** 2)
    third = 1 / 3  # an erroneous report supports each other value with probability 1/3
    assert oracle.variance(1, 0) != pytest.approx(third * (1 - third) / (p - q) ** 2, rel=0.1)


def test_laplace_noise_on_a_bit_loses_to_response() -> None:
    """Spec 01, 2.1: a million people, epsilon 1."""
    assert math.sqrt(2 / 1e6) == pytest.approx(0.00141421, rel=1e-5)
    assert math.sqrt(Response(2, 1).variance(10**6)) < math.sqrt(2 / 1e6)


@pytest.mark.parametrize(
    ("oracle", "gain"),
    [
        (Response(2, 1), 1.58198),
        (Unary(64, 1), 3.16395),
        (LocalHash(64, 1, 4), 3.32791),
        (Hadamard(64, 1), 2.16395),
        (Response(16, 1), 9.72965),
        (Response(128, 1), 74.91104),
        (Projective(1000, 1, 3, 7), 2.746),
        (Projective(1000, 1, 4, 6), 3.328),
    ],
)
def test_the_gain_of_a_forged_report(oracle: Any, gain: float) -> None:
    assert oracle.gain == pytest.approx(gain, rel=3e-4)


# --- the contract ---


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("size", [2, 7, 300])
def test_reports_survive_the_wire(kind: Any, size: int) -> None:
    oracle = kind(size, 1)
    reports = oracle.privatise(np.arange(500) % size)
    rows = oracle.to_bytes(reports)
    assert rows.shape == (500, oracle.width) and rows.dtype == np.uint8
    back, whole = oracle.from_bytes(rows)
    assert whole.all() and (oracle.to_bytes(back) == rows).all()
    assert (supports(oracle, back) == supports(oracle, reports)).all()
    assert from_parameters(oracle.parameters()) == oracle
    assert len(oracle.privatise(np.empty(0, dtype=np.int64))) == 0


@pytest.mark.parametrize("kind", ALL)
def test_blocks_and_parts_count_alike(kind: Any) -> None:
    oracle = kind(40, 1)
    reports = oracle.privatise(np.arange(3000) % 40)
    whole, parts = oracle.fresh(), oracle.fresh()
    oracle.add(whole, reports)
    for start in range(0, 3000, 700):
        oracle.add(parts, reports[start : start + 700])
    assert (whole == parts).all() and whole.dtype == np.int64


@pytest.mark.parametrize("kind", ALL)
def test_places_outside_count_as_the_first_and_raise_nothing(kind: Any) -> None:
    oracle = kind(5, 12)
    given: list[Any] = [
        np.array([-1, 5, 99, -(2**63)]),
        np.array([2**64 - 1, 2**63], dtype=np.uint64),
        [10**30, -(10**30), 7],
        [True, False][1:],
    ]
    for values in given:
        found = shares(oracle, oracle.privatise(values))
        assert np.argmax(found) == 0
    with pytest.raises(ParameterError, match="whole numbers"):
        oracle.privatise(np.array([0.0, 1.0]))
    with pytest.raises(ParameterError, match="whole numbers"):
        oracle.privatise(np.zeros((2, 2), dtype=np.int64))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    "bad", [{"size": 1}, {"size": 2.5}, {"size": 2**40}, {"epsilon": 0}, {"epsilon": 51}, {"epsilon": math.nan}], ids=str
)
def test_bad_parameters_are_refused_by_name(kind: Any, bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(bad))):
        kind(**{"size": 4, "epsilon": 1, **bad})


@pytest.mark.parametrize(
    "bad", [{"kind": "none"}, {"kind": "response", "size": 3}, {}, {"kind": "response", "size": 3, "epsilon": "1", "x": 1}]
)
def test_parameters_of_another_shape_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=r"kind|has"):
        from_parameters(bad)


def test_the_normal_law_of_the_error_rates() -> None:
    assert 2 * (1 - ndtr(6)) < 2e-9 and 2 * (1 - ndtr(5)) < 6e-7
