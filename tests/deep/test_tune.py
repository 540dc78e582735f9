"""Tuning: the number of trials has exactly its law, the price is that of the best of them (checked by enumeration), cheating is caught."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tacit.accounting import Composed, Gaussian, NoOp, ParameterError, PureDP, Repeated, Selection, account
from tacit.accounting.theorems.selection import gamma_for, run_probability
from tacit.deep.tune import Trials, Tuned, grid_event, settings, trial_event, tune, tune_grid
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.noise import bernoulli, test_mode


def chances(trials: Trials, most: int) -> list[float]:
    """P[K = k] for k = 0 .. most, from formulas that share nothing with the sampler."""
    if trials.shape == math.inf:
        return [float(stats.poisson.pmf(k, float(trials.mean))) for k in range(most + 1)]
    if trials.shape == 1:
        return [0.0] + [float(stats.geom.pmf(k, 1 / float(trials.mean))) for k in range(1, most + 1)]
    gamma = gamma_for(trials.mean, trials.shape)
    return [0.0] + [run_probability(k, gamma, trials.shape) for k in range(1, most + 1)]


def distance(draws: list[int], expected: list[float]) -> float:
    """Pearson's statistic over its degrees of freedom's 1 - 1e-6 quantile: above one is a rejection."""
    n, seen = len(draws), Counter(draws)
    cells = [(seen[k], n * p) for k, p in enumerate(expected) if n * p >= 10]
    rest, mass = n - sum(c for c, _ in cells), n - sum(e for _, e in cells)
    if mass > 1:
        cells.append((rest, mass))
    return sum((c - e) ** 2 / e for c, e in cells) / float(stats.chi2.ppf(1 - 1e-6, len(cells) - 1))


LAWS = {
    "geometric": Trials(4),
    "logarithmic": Trials(5, shape=0),
    "between": Trials(3, shape=Fraction(1, 2)),
    "poisson": Trials(Fraction(7, 3), shape=math.inf),
    "small poisson": Trials(0.3, shape=math.inf),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_number_of_trials_has_its_law(name: str) -> None:
    with test_mode(11):
        draws = [LAWS[name].draw() for _ in range(1500)]
    assert distance(draws, chances(LAWS[name], 200)) < 1


def test_the_check_of_laws_has_teeth() -> None:
    """Mutants: a geometric number that counts failures, a logarithmic one without its rejection, a mean that is off by a quarter."""
    with test_mode(12):
        failures = [LAWS["geometric"].draw() - 1 for _ in range(1500)]
        unrejected = [Trials(1 / gamma_for(5, 0)).draw() for _ in range(1500)]
        longer = [Trials(5).draw() for _ in range(1500)]
    assert distance(failures, chances(LAWS["geometric"], 200)) > 1
    assert distance(unrejected, chances(LAWS["logarithmic"], 200)) > 1
    assert distance(longer, chances(LAWS["geometric"], 200)) > 1


@pytest.mark.parametrize(
    "bad", [{"mean": 0.5}, {"mean": 2, "shape": 2}, {"mean": 2, "shape": -0.5}, {"mean": 0, "shape": math.inf}], ids=str
)
def test_laws_without_a_price_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=r"mean|shape"):
        Trials(**bad)


# The price against the truth


def best_of(trials: Trials, run: np.ndarray, most: int = 400) -> np.ndarray:
    """The exact law of the best output where one run gives output i (rank i) with probability run[i]; last comes "no trial"."""
    below = np.concatenate([[0.0], np.cumsum(run)])
    weights = np.array(chances(trials, most))
    powers = np.array([float((weights * b ** np.arange(most + 1)).sum()) for b in np.minimum(below, 1.0)])
    return np.append(np.diff(powers), weights[0])


def hockey(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((p, q), (q, p)))


@pytest.mark.parametrize("name", LAWS)
def test_the_price_covers_the_exact_law_of_the_best(name: str) -> None:
    """Base: randomised response over many outputs, so every ratio is at its limit; the best output's law is enumerated."""
    epsilon = 0.4
    trials = LAWS[name]
    claim = account(trials.event(PureDP(epsilon)))
    k = 12
    high, low = math.exp(epsilon) / (math.exp(epsilon) * k / 2 + k / 2), 1 / (math.exp(epsilon) * k / 2 + k / 2)
    first = np.array([high] * (k // 2) + [low] * (k // 2))
    second = first[::-1].copy()
    rare = np.array([1 - 1e-3, 1e-3]), np.array([1 - 1e-3 * math.exp(epsilon), 1e-3 * math.exp(epsilon)])
    caught = False
    for p, q in ((first, second), rare):
        best_p, best_q = best_of(trials, p), best_of(trials, q)
        for delta in (1e-6, 1e-3, 0.01):
            bound = claim.epsilon(delta).upper
            assert hockey(best_p, best_q, bound) <= delta * (1 + 1e-9)
            caught = caught or hockey(best_p, best_q, epsilon) > delta
    assert caught or name == "small poisson", "the mutant: the price of a single run is refuted"


def test_the_best_of_k_priced_as_one_run_is_caught() -> None:
    """Sabotage: ten fixed trials, the best published, the price of one claimed; enumeration refutes it, and the honest price stands."""
    event = Gaussian(5)
    one, honest = account(event).epsilon(1e-5).upper, account(Trials(10).event(event)).epsilon(1e-5).upper
    grid = account(grid_event(event, 10)).epsilon(1e-5).upper
    assert one < honest < grid
    cells = np.linspace(-50, 50, 2001)

    def cut(shift: float, draws: int) -> np.ndarray:
        cdf = stats.norm.cdf(cells, shift, 5.0)
        return np.diff(np.concatenate([[0.0], cdf**draws, [1.0]]))

    # Thresholding the real-valued score on a grid is post-processing, so this is a lower bound on the truth.
    ten = hockey(cut(1.0, 10), cut(0.0, 10), one)
    assert ten > 1e-5, "the mutant is refuted"
    assert hockey(cut(1.0, 10), cut(0.0, 10), grid) <= 1e-5
    best = [best_of(Trials(10), cut(shift, 1)) for shift in (1.0, 0.0)]
    assert hockey(*best, honest) <= 1e-5
    assert hockey(*best, one) > 1e-5


# What runs


def counted(score: Any = float, **how: Any) -> tuple[Any, list[Any]]:
    seen: list[Any] = []

    def train(setting: Any) -> Any:
        seen.append(setting)
        return setting

    plan: dict[str, Any] = {"event": PureDP(0.1), "score_event": "public", "trials": Trials(8)} | how
    space = plan.pop("space", [1, 2, 3])
    return tune(train, space, score=score, **plan), seen


def test_the_best_of_the_trials_is_returned() -> None:
    with test_mode(3):
        for _ in range(40):
            found, seen = counted()
            assert found is not None and found.parameters == max(seen) == found.score and set(seen) <= {1, 2, 3}
            assert found.event == Selection(PureDP(0.1), 8, 1)


def test_settings_are_drawn_uniformly() -> None:
    with test_mode(5):
        seen = Counter(setting for _ in range(300) for setting in counted()[1])
    total = sum(seen.values())
    assert sum((seen[s] - total / 3) ** 2 / (total / 3) for s in (1, 2, 3)) < stats.chi2.ppf(1 - 1e-6, 2)


def test_no_trial_publishes_nothing() -> None:
    with test_mode(4):
        found = [counted(trials=Trials(0.1, shape=math.inf)) for _ in range(30)]
    assert any(best is None and not seen for best, seen in found)
    assert all((best is None) == (not seen) for best, seen in found)


def test_a_score_that_is_no_number_is_the_worst_and_no_error() -> None:
    with test_mode(6):
        for _ in range(20):
            found, seen = counted(score=lambda k: math.nan if k == 3 else k)
            assert found is not None
            assert found.score == (max((k for k in seen if k != 3), default=-math.inf))


def test_the_score_is_priced_unless_public() -> None:
    found, _ = counted(score_event=PureDP(0.2))
    assert found.event == Selection(Composed(PureDP(0.1), PureDP(0.2)), 8, 1)
    with pytest.raises(ParameterError, match="score_event"):
        counted(score_event="free")
    with pytest.raises(TypeError):
        tune(float, [1], event=NoOp(), score=float, trials=Trials(2))  # type: ignore[call-arg]


def test_settings_that_cost_differently_are_refused_before_training() -> None:
    with pytest.raises(ParameterError, match="cost differently"):
        counted(event=lambda k: Repeated(Gaussian(3), k))
    found, _ = counted(event=lambda k: Gaussian(3))
    assert found.event == Selection(Gaussian(3), 8, 1)
    assert trial_event([1, 2], Gaussian(3), "public") == Gaussian(3)


def test_spaces() -> None:
    assert settings({"a": [1, 2], "b": "xy"}) == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]
    for empty in ([], {"a": []}):
        with pytest.raises(ParameterError, match="at least one"):
            settings(empty)


def test_a_grid_composes_everything() -> None:
    found = tune_grid(lambda k: k, {"k": [2, 5, 3]}, event=lambda s: PureDP(s["k"]), score=lambda s: s["k"], score_event=PureDP(1))
    assert [one.parameters["k"] for one in found] == [5, 3, 2]
    assert all(isinstance(one, Tuned) and account(one.event).epsilon(0).upper == pytest.approx(13) for one in found)


def test_the_ledger_pays_before_a_trial(tmp_path: Path) -> None:
    purse = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("tuning", Budget(epsilon="0.35", delta="1e-5"))
    plan: dict[str, Any] = {"account": purse, "delta": 1e-6, "trials": Trials(5), "event": PureDP(0.1)}  # three times 0.1 each
    found, seen = counted(**plan)
    assert found is not None and seen
    trained: list[int] = []
    with pytest.raises(BudgetExceeded):
        tune(trained.append, [1], score=lambda _: 0.0, score_event="public", **plan)
    assert not trained, "refused before a record was read"


def test_draws_come_from_the_noise_package() -> None:
    with test_mode(9):
        first = [Trials(50).draw() for _ in range(10)]
    with test_mode(9):
        assert [Trials(50).draw() for _ in range(10)] == first
    assert bernoulli(1) == 1
