"""What the accountant answers: against closed forms, across methods, and at the edges of its input."""

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from tacit.accounting import (
    GDP,
    ZCDP,
    AccountingError,
    Adjacency,
    ApproxDP,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Estimate,
    Exponential,
    Gaussian,
    Group,
    Laplace,
    MixtureOfGaussians,
    NonPrivate,
    NoOp,
    ParameterError,
    Poisson,
    PrivacyProfile,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    RenyiDP,
    Repeated,
    Sampled,
    Selection,
    Staircase,
    TruncatedCDP,
    TruncatedPoisson,
    UnsupportedError,
    WithReplacement,
    account,
)
from tacit.accounting.theorems.gaussian import delta as gaussian_delta

TRAINING = Repeated(Sampled(Poisson(Fraction(1, 100)), Gaussian(1)), 1000)
RO = Adjacency.REPLACE_ONE


def test_the_example_of_the_readme() -> None:
    event = Repeated(Sampled(Poisson(Fraction(256, 60000)), Gaussian(noise_multiplier=1.1)), 14062)
    found = account(event, Adjacency.ADD_REMOVE).epsilon(1e-5)
    assert found.lower <= 2.3815969214243970 <= found.upper and found.width <= 1e-8


@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("eps", [-3.0, -0.5, 0.0, 0.7, 4.0, 20.0])
def test_gaussian_profile_at_any_real_epsilon(mu: float, eps: float) -> None:
    truth = float(ndtr(mu / 2 - eps / mu) - math.exp(eps) * ndtr(-mu / 2 - eps / mu))
    found = account(GDP(mu)).delta(eps)
    assert found.lower <= truth + 1e-13 and truth - 1e-13 <= found.upper
    assert found.width <= 1e-10


def test_negative_epsilon_is_the_mirror_image_for_sampled_events() -> None:
    """HS_a(P||Q) = 1 - a + a HS_1/a(Q||P), the worse of both directions."""
    cost = account(TRAINING)
    for eps in (0.5, 1.5):
        mirrored = cost.delta(-eps)
        assert mirrored.upper == pytest.approx(1 - math.exp(-eps) + math.exp(-eps) * cost.delta(eps).upper, rel=1e-9)


def test_attack_figures_of_a_gaussian() -> None:
    cost = account(Gaussian(1))
    for fpr in (0.001, 0.01, 0.05, 0.5):
        truth = 1 - float(ndtr(ndtri(1 - fpr) - 1))
        found = cost.tpr(fpr)
        assert found.lower <= truth + 1e-9 and truth - 1e-9 <= found.upper and found.width < 1e-5
    assert cost.advantage().upper == pytest.approx(0.382924922548, abs=1e-11)
    assert cost.accuracy(0.5).upper == pytest.approx(0.6914624613, abs=1e-10)
    assert cost.accuracy(0.01).lower >= 0.99 - 1e-12
    (row,) = cost.tradeoff([0.05])
    assert row.lower <= 0.7404889772 + 1e-9 and row.upper >= 0.7404889772 - 1e-9
    assert cost.tpr(0).upper == 0 and cost.tpr(1).upper == 1


def test_attack_figures_of_a_sampled_event_are_consistent() -> None:
    cost = account(TRAINING)
    found = cost.tpr(0.01)
    eps = cost.epsilon(1e-5).upper
    assert found.lower <= found.upper <= math.exp(eps) * 0.01 + 1e-5
    assert found.width < 1e-6
    assert found.lower > 0.01


def test_renyi_and_concentrated_views() -> None:
    assert account(Gaussian(2)).rho() == account(Gaussian(2)).rho().intersect(account(Gaussian(2)).rho())
    assert account(Gaussian(2)).rho().upper == 0.125
    assert account(TRAINING).rho().upper == pytest.approx(500)
    assert account(PureDP(0.1)).rho().upper <= 0.005 + 1e-12
    assert account(Exponential(1.0)).rho().upper <= 1 / 8 + 1e-12
    assert account(Repeated(Gaussian(1), 10)).rdp(4).upper == pytest.approx(20)
    found = account(Repeated(Sampled(Poisson(0.01), Gaussian(1)), 1)).rdp(8)
    assert found.lower <= 8.936439076e-4 * (1 + 1e-9) and found.upper >= 8.936439076e-4 * (1 - 1e-9)
    with pytest.raises(ParameterError, match="order"):
        account(Gaussian(1)).rdp(1)


def test_gdp_of_gaussians_is_exact_and_of_others_is_bracketed() -> None:
    exact = account(Composed(Gaussian(1), Gaussian(0.5))).gdp()
    assert exact.mu.upper == pytest.approx(math.sqrt(5)) and exact.regret == 0
    report = account(Repeated(Sampled(Poisson(0.1), Gaussian(2)), 100)).gdp()
    assert 0 < report.mu.lower <= report.mu.upper <= report.mu.lower * 1.01
    cost = account(Repeated(Sampled(Poisson(0.1), Gaussian(2)), 100))
    for eps in np.linspace(0, 4, 9):
        assert cost.delta(float(eps)).lower <= gaussian_delta(report.mu.upper, float(eps)) + report.slack * 1.000001
    assert 0 <= report.regret < 0.2


def test_disclosure_and_nothing() -> None:
    assert account(NonPrivate()).epsilon(1e-5).upper == math.inf
    assert account(NonPrivate()).delta(3).upper == 1
    assert account(Composed(NonPrivate(), Gaussian(1))).epsilon(0.1).lower == math.inf
    assert account(NoOp()).epsilon(0).upper == 0
    assert account(Composed(NoOp(), PureDP(0.5))).epsilon(0).upper == pytest.approx(0.5)
    assert account(Sampled(Poisson(0.01), NonPrivate())).delta(0).upper == pytest.approx(0.01)


def test_pure_guarantees_add_exactly_at_delta_zero() -> None:
    assert account(Composed(PureDP(0.1), Laplace(5), RandomizedResponse(0.2, adjacency=Adjacency.ADD_REMOVE))).epsilon(
        0
    ).upper == pytest.approx(0.5)


@pytest.mark.parametrize("event", [Gaussian(1), ApproxDP(1, 1e-6), ZCDP(0.1), TRAINING, Sampled(RandomAllocation(10), Gaussian(1))])
def test_delta_zero_is_refused_with_the_fix(event) -> None:
    with pytest.raises(ParameterError, match="delta must be positive"):
        account(event).epsilon(0)


@pytest.mark.parametrize("bad", [-1e-9, 1.1, math.nan, "x", None])
def test_bad_delta(bad) -> None:
    with pytest.raises(ParameterError, match="delta"):
        account(Gaussian(1)).epsilon(bad)


@pytest.mark.parametrize("bad", [math.nan, "x", None])
def test_bad_epsilon(bad) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        account(Gaussian(1)).delta(bad)


def test_bad_event_and_relation() -> None:
    with pytest.raises(ParameterError, match="event"):
        account("Gaussian")
    with pytest.raises(ParameterError, match="adjacency"):
        account(Gaussian(1), "add-remove")
    with pytest.raises(ParameterError, match="method"):
        account(Gaussian(1)).epsilon(1e-5, method="magic")


def test_infinite_mass_limits_delta() -> None:
    assert account(Repeated(ApproxDP(0.1, 1e-6), 100)).epsilon(1e-6).lower == math.inf


@pytest.mark.parametrize(
    ("event", "adjacency"),
    [
        (Group(Gaussian(2), 4), None),
        (Group(Laplace(4), 2), None),
        (Group(PureDP(0.3), 2), None),
        (Group(ZCDP(0.1), 3), None),
        (Group(DiscreteGaussian(3), 2), None),
        (Group(DiscreteLaplace(3), 2), None),
        (Group(ApproxDP(0.5, 1e-9), 3), None),
        (Group(RenyiDP([(2, 0.1), (64, 3.0)]), 2), None),
        (Group(RandomizedResponse(0.3), 2), None),
        (Group(Staircase(0.5), 2), None),
        (Group(Sampled(Poisson(0.05), Laplace(1)), 2), None),
        (Group(Sampled(WithReplacement(100, 10), Gaussian(3)), 2), RO),
        (TruncatedCDP(0.1, 20), None),
        (PrivacyProfile([(0.0, 0.3), (1.0, 1e-4), (2.0, 1e-9)]), None),
        (MixtureOfGaussians(1, [0, 1, 2], [0.9, 0.09, 0.01]), None),
        (Sampled(Poisson(0.1), Composed(Gaussian(2), Laplace(3))), None),
        (Sampled(Poisson(0.1), ZCDP(0.5)), None),
        (Sampled(Poisson(0.1), Laplace(2)), RO),
        (Selection(PureDP(0.1), 10), None),
        (Selection(Gaussian(4), 10, 0), None),
        (Selection(Gaussian(4), 10, math.inf), None),
        (Sampled(TruncatedPoisson(0.01, 1000, 40), Gaussian(1)), None),
        (Composed(ZCDP(0.01), Laplace(10)), None),
        (Exponential(0.7, monotone=True), None),
    ],
    ids=lambda e: type(e).__name__ if e else "",
)
def test_every_kind_of_event_has_a_price(event, adjacency) -> None:
    cost = account(event, adjacency)
    found = cost.epsilon(1e-4)
    assert 0 <= found.lower <= found.upper
    back = cost.delta(found.upper)
    assert back.lower <= 1e-4 * (1 + 1e-6)


def test_groups_of_gaussians_are_white_box() -> None:
    assert account(Group(Gaussian(2), 4)).epsilon(1e-5).upper == pytest.approx(account(Gaussian(0.5)).epsilon(1e-5).upper)
    single, triple = account(TRAINING).epsilon(1e-5), account(Group(TRAINING, 3)).epsilon(1e-5)
    assert 2 * single.upper < triple.lower < 10 * single.upper


def test_unsupported_pairs_say_so() -> None:
    with pytest.raises(UnsupportedError, match="Gaussian sums"):
        account(Sampled(RandomAllocation(10), Laplace(1)))
    with pytest.raises(UnsupportedError, match="Rényi"):
        account(Sampled(WithReplacement(10, 2), ZCDP(0.1)), RO)


def test_truncated_batches_cost_a_little_more_than_plain_ones() -> None:
    plain = account(TRAINING).epsilon(1e-5)
    roomy = account(Repeated(Sampled(TruncatedPoisson(0.01, 10_000, 200), Gaussian(1)), 1000)).epsilon(1e-5)
    tight = account(Repeated(Sampled(TruncatedPoisson(0.01, 10_000, 150), Gaussian(1)), 1000)).epsilon(1e-5)
    assert plain.upper <= roomy.upper <= plain.upper + 1e-6
    assert roomy.upper < tight.upper
    # where most batches are cut, the record takes another's place: at most twice as far
    often = account(Repeated(Sampled(TruncatedPoisson(0.01, 10_000, 90), Gaussian(1)), 1000)).epsilon(1e-5)
    double = account(Repeated(Sampled(Poisson(0.01), Gaussian(0.5)), 1000)).epsilon(1e-5)
    assert tight.upper < often.upper <= double.upper * (1 + 1e-3)


def test_cut_batches_have_a_finite_price_however_small_delta_is() -> None:
    """Charged as a total variation, the chance of a cut would be multiplied by e^eps, and here exceed any delta."""
    found = account(Repeated(Sampled(TruncatedPoisson(0.5, 10**6, 510_000), Gaussian(1)), 10)).epsilon(1e-20)
    plain = account(Repeated(Sampled(Poisson(0.5), Gaussian(1)), 10)).epsilon(1e-20)
    assert found.lower <= plain.upper and plain.lower <= found.upper <= plain.upper * (1 + 1e-6)


def test_pure_selections_have_a_price_at_delta_zero() -> None:
    for runs, mean in ((1, 10), (3, 2)):
        found = account(Repeated(Selection(PureDP(0.1), mean), runs)).epsilon(0)
        assert found.upper == pytest.approx(runs * 0.3, rel=1e-9) and found.upper >= runs * 0.3 * (1 - 1e-15)  # (2 + shape) epsilon
    with pytest.raises(ParameterError, match="delta must be positive"):
        account(Selection(Gaussian(2), 10)).epsilon(0)


def test_an_estimate_is_no_bound() -> None:
    cost = account(Repeated(Laplace(5), 30))
    assert isinstance(cost.epsilon(1e-6, method="central-limit"), Estimate)
    assert cost.bound(1e-6, "basic").upper == pytest.approx(6.0)
    with pytest.raises(ParameterError, match="gives a bound"):
        cost.bound(1e-6, "central-limit")


def test_gdp_of_composed_laplace_noise_is_quick_and_narrow() -> None:
    """Seven seconds, once. In processor time, with room for a busy machine."""
    began = time.process_time()
    report = account(Repeated(Laplace(10), 100)).gdp()
    assert time.process_time() - began < 4
    assert report.mu.width <= 0.006 * report.mu.upper
    cost = account(Repeated(Laplace(10), 100))
    for epsilon in np.linspace(0, 5, 14):
        assert cost.delta(float(epsilon)).lower <= gaussian_delta(report.mu.upper, float(epsilon)) + report.slack * 1.000001


def _trees():
    leaf = st.one_of(
        st.builds(Gaussian, st.floats(0.5, 20)),
        st.builds(Laplace, st.floats(1, 30)),
        st.builds(DiscreteLaplace, st.floats(1, 30)),
        st.builds(PureDP, st.floats(0.01, 0.5)),
        st.builds(lambda q, s: Sampled(Poisson(q), Gaussian(s)), st.floats(0.01, 0.5), st.floats(0.7, 5)),
        st.builds(lambda e, d: ApproxDP(e, d), st.floats(0.01, 0.5), st.floats(0, 1e-8)),
    )
    return st.lists(st.tuples(leaf, st.integers(1, 40)), min_size=1, max_size=3).map(
        lambda rows: Composed(*(Repeated(e, n) for e, n in rows))
    )


@given(_trees())
@settings(max_examples=6, deadline=None)
def test_composing_can_only_cost_more_and_theorems_agree(tree) -> None:
    cost = account(tree)
    found = cost.epsilon(1e-5)
    assert 0 <= found.lower <= found.upper
    more = account(Composed(tree, Gaussian(10))).epsilon(1e-5)
    assert more.upper >= found.lower - 1e-9
    assert cost.epsilon(1e-4).lower <= found.upper
    for method in ("rdp-improved", "strong", "basic"):
        try:
            other = cost.epsilon(1e-5, method=method)
        except UnsupportedError:
            continue
        assert other.upper >= found.lower - 1e-9


def test_rates_of_events_that_may_disclose_everything() -> None:
    """A mass at infinity leaves the rest of the trade-off curve where it belongs."""
    found = account(ApproxDP(2, 1e-5)).tpr(0.01)
    truth = math.exp(2) * 0.01 + 1e-5
    assert found.lower <= truth + 1e-7 and truth - 1e-7 <= found.upper < 0.074


def test_negative_epsilon_of_a_renyi_guarantee_is_at_least_the_trivial_delta() -> None:
    found = account(ZCDP(0.1)).delta(-1)
    assert 1 - math.exp(-1) - 1e-12 <= found.lower <= found.upper <= 1
    assert account(ZCDP(0.1)).accuracy(0.9).lower >= 0.9 - 1e-9


@pytest.mark.parametrize(
    "event", [Gaussian(1e-300), Repeated(Laplace(1e-5), 10), Repeated(Laplace(1e300), 5), Sampled(RandomAllocation(10**12), Gaussian(1))]
)
def test_extreme_numbers_are_priced_or_refused(event) -> None:
    try:
        found = account(event).epsilon(1e-6)
    except UnsupportedError as refusal:
        assert "floating point" in str(refusal) or str(refusal)
    else:
        assert 0 <= found.lower <= found.upper


def test_ten_tenths_are_one() -> None:
    assert account(Repeated(PureDP(Fraction(1, 10)), 10)).epsilon(0).upper == 1.0
    assert account(Repeated(Laplace(10), 10)).epsilon(0).upper == 1.0


@pytest.mark.parametrize("rho", [0.05, 0.5])
@pytest.mark.parametrize("fpr", [0.01, 0.3])
def test_a_rate_from_a_renyi_curve_alone_lies_above_the_gaussian_one(rho: float, fpr: float) -> None:
    """rho-zCDP permits at least what Gaussian noise of the same rho attains, and less than everything."""
    permitted = account(ZCDP(rho)).tpr(fpr)
    attained = account(Gaussian(1 / math.sqrt(2 * rho))).tpr(fpr).upper
    assert attained <= permitted.upper < 1
    assert account(ZCDP(rho)).delta(math.inf).upper == 0


# --- what an attacker comes to believe, and how often one is right -----------------------------------------


def test_the_posterior_of_pure_privacy_is_bayes_on_the_worst_pair() -> None:
    for prior, epsilon in ((0.01, 1.0), (0.5, 0.1), (0.9, 3.0)):
        by_bayes = prior * math.exp(epsilon) / (prior * math.exp(epsilon) + 1 - prior)
        found = account(PureDP(epsilon)).posterior(prior)
        assert found.lower <= by_bayes <= found.upper and found.width < 1e-9
    # 0.99 for a prior of 0.01 at epsilon 1 is how often a bet on "she is not in it" is right
    assert account(PureDP(1)).posterior(0.01).upper < 0.03 < 0.98 < account(PureDP(1)).accuracy(0.01).upper


@pytest.mark.parametrize(("noise", "prior", "delta"), [(1.0, 0.01, 1e-5), (3.0, 0.5, 1e-3), (0.7, 0.2, 0.01)])
def test_the_posterior_of_gaussian_noise_holds_its_quantile(noise: float, prior: float, delta: float) -> None:
    """The privacy loss of Gaussian noise is normal with mean 1/(2 s^2) and deviation 1/s, so its quantile is known."""
    quantile = 1 / (2 * noise**2) + float(-ndtri(delta)) / noise
    truth = prior * math.exp(quantile) / (prior * math.exp(quantile) + 1 - prior)
    found = account(Gaussian(noise)).posterior(prior, delta=delta)
    assert found.lower <= truth <= found.upper
    assert found.upper < 1 and found.width < 0.15


def test_the_posterior_without_delta_needs_a_finite_epsilon() -> None:
    with pytest.raises(AccountingError):
        account(Gaussian(1)).posterior(0.5)
    assert account(Gaussian(1)).posterior(0.0, delta=1e-6).upper == 0 and account(Gaussian(1)).posterior(1.0).lower == 1


@pytest.mark.parametrize("last", [math.inf, 8.0, 1e9])
def test_curves_as_events_are_priced_by_their_conversions(last: float) -> None:
    """Against a search over orders that is written out here: R(a) + log(1 - 1/a) - log(a delta) / (a - 1), for R(a) = a / 10."""
    event = ZCDP(0.1) if last == math.inf else TruncatedCDP(0.1, last)
    orders = np.unique(np.concatenate([1 + np.geomspace(1e-3, min(last, 1e3) - 1, 200_001), [min(last, 1e3)]]))
    for delta in (1e-3, 1e-6, 1e-10):
        best = float(np.min(orders / 10 + np.log1p(-1 / orders) - np.log(orders * delta) / (orders - 1)))
        found = account(event, Adjacency.ADD_REMOVE).epsilon(delta).upper
        assert found == pytest.approx(best, rel=1e-6)
    table = account(PrivacyProfile([(1, 1e-6), (3, 1e-12)]), Adjacency.ADD_REMOVE)
    assert table.epsilon(1e-6).upper == pytest.approx(1, rel=1e-9) and table.epsilon(1e-12).upper == pytest.approx(3, rel=1e-9)
