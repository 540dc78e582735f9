"""Survival: product-limit estimates against an oracle and lifelines, the promised errors, coverage, tests, odd values."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tacit.accounting import Adjacency, Guarantee
from tacit.applications.health import KaplanMeier, edges_of, plan_survival
from tacit.applications.health.survival import SurvivalCurve, fitted, histogram, log_rank, numbers_of, rank_statistic, survival
from tacit.errors import ParameterError
from tacit.ledger import Budget, Ledger

EDGES = tuple(float(e) for e in np.linspace(0, 120, 101))


def made_up(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The specification's patients: death at rate 1/60, followed for a uniform time."""
    lived, followed = rng.exponential(60, n), rng.uniform(0, 120, n)
    return np.minimum(lived, followed), lived <= followed


def product_limit(times: np.ndarray, seen: np.ndarray, edges) -> np.ndarray:
    """The oracle: patient by patient, by the definition."""
    place = [sum(t >= e for e in edges[1:]) for t in times]
    found, alive = [1.0], 1.0
    for i in range(len(edges) - 1):
        risk = sum(p >= i for p in place)
        dead = sum(p == i and s for p, s in zip(place, seen, strict=True))
        alive *= 1 - dead / risk if risk else 1
        found.append(alive)
    return np.array(found)


def exact_curve(times, seen, edges) -> SurvivalCurve:
    counts = histogram(times, seen, edges).astype(float)
    none = np.zeros((2, *counts.shape))
    return SurvivalCurve.of(edges, counts.cumsum(axis=0), none, 0.95, np.random.default_rng(1))


def test_without_noise_it_is_the_product_limit_estimate() -> None:
    times, seen = made_up(300, np.random.default_rng(1))
    edges = edges_of({"upto": 120, "count": 24})
    curve = exact_curve(times, seen, edges)
    assert np.abs(curve.survival - product_limit(times, seen, edges)).max() < 1e-12
    events, risk = curve.counts[:-1, 0], curve.at_risk[:-1]
    assert np.allclose(curve.cumulative_hazard[1:], np.cumsum(events / risk), atol=1e-12)
    assert curve.at_risk[0] == 300 and curve.restricted_mean() == pytest.approx(float(curve.survival[:-1] @ np.diff(edges)))
    assert curve.median_survival_time_ == next(e for e, s in zip(edges, curve.survival, strict=True) if s <= 0.5)
    frame = curve.event_table
    assert list(frame.columns) == ["removed", "observed", "censored", "entrance", "at_risk"] and frame["at_risk"].iloc[0] == 300
    assert list(curve.confidence_interval_.columns) == ["KM_estimate_lower_0.95", "KM_estimate_upper_0.95"]
    assert curve.survival_function_.index.name == "timeline" and list(curve.cumulative_hazard_) == ["NA_estimate"]


def field_data() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    pytest.importorskip("lifelines", reason="lifelines asks for pandas 2: make test-fields compares with it")
    pytest.importorskip("sksurv", reason="scikit-survival is in the environment of make test-fields")
    from lifelines import datasets
    from sksurv.datasets import load_flchain

    _, flchain = load_flchain()
    gbsg2, dd, actg = datasets.load_gbsg2(), datasets.load_dd(), datasets._load_dataset("ACTG175.csv")
    time = next(c for c in actg.columns if c in ("days", "time"))
    seen = next(c for c in actg.columns if c in ("cens", "label", "event"))
    return {
        "flchain": (flchain["futime"], flchain["death"]),
        "gbsg2": (gbsg2["time"].to_numpy(), gbsg2["cens"].to_numpy()),
        "dd": (dd["duration"].to_numpy(), dd["observed"].to_numpy()),
        "ACTG175": (actg[time].to_numpy(), actg[seen].to_numpy()),
    }


@pytest.mark.parametrize("name", ["flchain", "gbsg2", "dd", "ACTG175"])
def test_without_noise_it_is_lifelines_on_the_same_bins(name: str) -> None:
    times, seen = field_data()[name]
    from lifelines import KaplanMeierFitter, NelsonAalenFitter
    from lifelines.utils import restricted_mean_survival_time

    edges = edges_of({"upto": 100 * math.ceil(float(np.quantile(times, 0.9)) / 100), "count": 50})
    curve = exact_curve(times, seen, edges)
    place = np.searchsorted(np.array(edges[1:]), np.asarray(times, dtype=float), side="right")
    shown = np.array([*edges[1:], 2 * edges[-1]])[place]
    known = np.where(place < len(edges) - 1, seen, False)
    peer = KaplanMeierFitter().fit(shown, known)
    assert np.abs(peer.survival_function_at_times(list(edges)).to_numpy() - curve.survival).max() < 1e-12
    hazard = NelsonAalenFitter(nelson_aalen_smoothing=False).fit(shown, known)
    assert np.abs(hazard.cumulative_hazard_at_times(list(edges)).to_numpy() - curve.cumulative_hazard).max() < 1e-12
    assert peer.median_survival_time_ == curve.median_survival_time_
    assert restricted_mean_survival_time(peer, t=edges[-1]) == pytest.approx(curve.restricted_mean(), rel=1e-9)


def test_lifelines_own_figures_on_flchain_and_dd() -> None:
    from_wheel = field_data()
    from lifelines import KaplanMeierFitter

    people = KaplanMeierFitter().fit(*from_wheel["flchain"])
    assert len(from_wheel["flchain"][0]) == 7874 and int(from_wheel["flchain"][1].sum()) == 2169
    assert np.round(people.survival_function_at_times([1000, 3000]).to_numpy(), 4).tolist() == [0.9272, 0.8052]
    assert people.median_survival_time_ == math.inf
    regimes = KaplanMeierFitter().fit(*from_wheel["dd"])
    assert np.round(regimes.survival_function_at_times([5, 10]).to_numpy(), 4).tolist() == [0.334, 0.1813]


def test_log_rank_without_noise_is_lifelines() -> None:
    pytest.importorskip("lifelines", reason="lifelines asks for pandas 2: make test-fields compares with it")
    from lifelines.statistics import multivariate_logrank_test

    rng = np.random.default_rng(3)
    times, seen = made_up(400, rng)
    arm = rng.integers(0, 3, 400)
    edges = edges_of({"upto": 120, "count": 30})
    counts = np.array([histogram(times[arm == g], seen[arm == g], edges) for g in range(3)]).astype(float)
    place = np.searchsorted(np.array(edges[1:]), times, side="right")
    shown = np.array([*edges[1:], 999.0])[place]
    peer = multivariate_logrank_test(shown, arm, np.where(place < 30, seen, False))
    assert rank_statistic(counts) == pytest.approx(peer.test_statistic, rel=1e-9)


# --- errors ---


def errors(n: int, runs: int, epsilon: float = 1.0, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    plan = plan_survival(EDGES, Guarantee(epsilon=epsilon))
    noise = plan.noise(runs, rng)[:, 0]
    found = []
    for one in noise:
        exactly = histogram(*made_up(n, rng), EDGES).cumsum(axis=0).astype(float)
        found.append(np.abs(survival(fitted(exactly + one)) - survival(fitted(exactly))).mean())
    return np.array(found)


@pytest.mark.parametrize(("patients", "most"), [(10_000, 0.0022), (1_000, 0.017), (500, 0.031)])
def test_the_mean_error_of_the_curve(patients: int, most: float) -> None:
    """At epsilon 1 with 100 bins; .0013, .0103, .0183 over 60 runs, with standard errors of 3%."""
    assert errors(patients, 30).mean() <= most


def test_a_fit_draws_the_noise_that_is_simulated() -> None:
    """The same error through `fit`: within 4.5 standard errors of the simulation, once in 10^5 times by chance."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(8):
        times, seen = made_up(2_000, rng)
        model = KaplanMeier(epsilon=1, bins=EDGES).fit(times, seen)
        found.append(np.abs(model.survival - exact_curve(times, seen, EDGES).survival).mean())
    made = errors(2_000, 40, seed=6)
    assert abs(np.mean(found) - made.mean()) < 4.5 * math.hypot(made.std() / math.sqrt(8), made.std() / math.sqrt(40))


def population(n: int = 2_000_000) -> np.ndarray:
    return survival(fitted(histogram(*made_up(n, np.random.default_rng(99)), EDGES).cumsum(axis=0).astype(float)))


def coverage(n: int, runs: int, epsilon: float, seed: int) -> float:
    rng = np.random.default_rng(seed)
    plan, truth = plan_survival(EDGES, Guarantee(epsilon=epsilon)), population()
    noise, inside = plan.noise(runs, rng)[:, 0], []
    pool = plan.noise(200, rng)[:, 0]
    for one in noise:
        running = histogram(*made_up(n, rng), EDGES).cumsum(axis=0) + one
        curve = SurvivalCurve.of(EDGES, running, pool, 0.95, rng)
        inside.append(((curve.lower <= truth) & (truth <= curve.upper))[1:].mean())
    return float(np.mean(inside))


def test_intervals_cover() -> None:
    """The share of edges covered in 60 runs; runs differ by .15, so the standard error is .02, and .89 is 3 below .95."""
    assert coverage(1_000, 60, 1.0, 7) >= 0.89


@pytest.mark.slow
@pytest.mark.parametrize("patients", [500, 1_000, 10_000])
def test_intervals_cover_ninety_three_in_a_hundred(patients: int) -> None:
    found = coverage(patients, 600, 1.0, 8)
    print(patients, found)
    assert found >= 0.93


# --- the log-rank test ---


def rejections(runs: int, patients: int, epsilon: float, ratio: float, seed: int, draws: int = 99) -> float:
    rng = np.random.default_rng(seed)
    edges = edges_of({"upto": 120, "count": 20})
    plan = plan_survival(edges, Guarantee(epsilon=epsilon), groups=["a", "b"])
    noise, said = plan.noise(runs, rng), []
    for one in noise:
        groups = []
        for mean in (60.0, 60.0 * ratio):
            lived, followed = rng.exponential(mean, patients // 2), rng.uniform(0, 120, patients // 2)
            groups.append(histogram(np.minimum(lived, followed), lived <= followed, edges).cumsum(axis=0))
        said.append(_p(plan, np.array(groups) + one, draws) <= 0.05)
    return float(np.mean(said))


def _p(plan, running: np.ndarray, draws: int) -> float:
    """The test on running counts that are known, through the same code."""
    from unittest.mock import patch

    with patch.object(type(plan), "running", lambda self, released: running), patch.object(type(plan), "noise", _pool(plan)):
        return log_rank(plan, [], draws).p_value


POOLS: dict[int, np.ndarray] = {}


def _pool(plan):
    if id(plan) not in POOLS:
        POOLS.clear()
        POOLS[id(plan)] = plan.noise(200, np.random.default_rng(0))
    pool = POOLS[id(plan)]
    return lambda self, draws, rng: pool[np.arange(draws) % len(pool)]


def test_the_log_rank_test_keeps_its_level_and_finds_what_is_there() -> None:
    """60 true nulls: at most .05 plus 3 standard errors of .03. Half the life expectancy is found."""
    assert rejections(60, 600, 1.0, 1.0, 3) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 60)
    assert rejections(6, 600, 1.0, 0.5, 4) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("patients", "epsilon"), [(600, 1.0), (2000, 0.5)])
def test_the_log_rank_test_keeps_its_level_in_a_thousand(patients: int, epsilon: float) -> None:
    found = rejections(1000, patients, epsilon, 1.0, 5, 200)
    print(patients, epsilon, found)
    assert found <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 1000)


# --- what patients bring, and what is refused ---


def test_odd_values_count_for_nothing_and_raise_nothing() -> None:
    odd = [math.nan, -1.0, math.inf, -math.inf, None, "text", 1e308, 5.0, 5.0, 5.0, True, 10**400, b"x"]
    seen = [1, 1, 1, 1, 1, 1, 0, 1, 0, 2, 1, 1, 1]
    found = histogram(np.array(odd, dtype=object), np.array(seen, dtype=object), (0.0, 4.0, 8.0))
    assert found.tolist() == [[1, 0], [1, 1], [0, 1]]
    assert np.isnan(numbers_of(["a", None])).all()
    half = np.array([1.5, 5.0, np.nan], dtype=np.float16)
    assert histogram(half, np.array([1, 0, 1], dtype=np.int8), (0.0, 4.0, 8.0)).tolist() == [[1, 0], [0, 1], [0, 0]]
    assert histogram([], [], (0.0, 1.0)).sum() == 0


def test_one_patient_moves_one_cell_by_one() -> None:
    rng = np.random.default_rng(1)
    times, seen = made_up(50, rng)
    base = histogram(times, seen, EDGES)
    for odd in (0.0, 119.999, 120.0, 1e300, math.nan, -1.0):
        more = histogram(np.append(times, odd), np.append(seen, True), EDGES)
        assert np.abs(more - base).sum() == (0 if math.isnan(odd) or odd < 0 else 1)


def test_the_price_is_one_event_whatever_is_read() -> None:
    plan = plan_survival([0, 10, 20], Guarantee(epsilon=1), groups=["a", "b"])
    assert Fraction(plan.event.noise_multiplier) == 1
    replaced = plan_survival([0, 10, 20], Guarantee(epsilon=1), adjacency="replace-one")
    assert replaced.event.adjacency is Adjacency.REPLACE_ONE
    assert replaced.measured.noise.spread() == 2 * plan_survival([0, 10, 20], Guarantee(epsilon=1)).measured.noise.spread()
    assert plan_survival([0, 10, 20], Guarantee(rho="1/8")).event.noise_multiplier == pytest.approx(2, rel=1e-6)


def test_an_account_pays_and_groups_are_told_apart(tmp_path: Path) -> None:
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    paid = book.account("trial", Budget(epsilon=1))
    rng = np.random.default_rng(1)
    times, seen = made_up(800, rng)
    arm = np.where(rng.random(800) < 0.5, "a", "b")
    model = KaplanMeier(epsilon=1, bins=[0, 30, 60, 90], groups=["a", "b"], account=paid).fit(times, seen, arm)
    assert set(model.curves_) == {"a", "b"} and model.entry_ is not None and paid.left()["pure"] == 0
    assert 0 < model.log_rank().p_value <= 1
    with pytest.raises(AttributeError, match="several curves"):
        model.survival_function_  # noqa: B018


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"bins": [0, 5, 3]}, "unsorted"), ({"bins": [1, 2]}, "from 0"), ({"bins": None}, "bins are missing"), ({"bins": "auto"}, "stated"),
        ({"bins": {"upto": 0, "count": 3}}, "more than 0"), ({"bins": {"upto": 5, "count": 10**6}}, "at most"), ({"bins": [0]}, "edges"),
        ({"bins": [0, math.inf]}, "edge"), ({"unit": "visit"}, "unit"), ({"epsilon": None}, "how much privacy"),
        ({"epsilon": 0}, "epsilon"), ({"groups": ["a", "a"]}, "different"), ({"adjacency": "zero-out"}, "adjacency"),
    ],
)  # fmt: skip
def test_what_is_undeclared_is_refused_before_anything_is_spent(parameters: dict, said: str, tmp_path: Path) -> None:
    paid = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}").account("trial", Budget(epsilon=1))
    model = KaplanMeier(**{"epsilon": 1, "bins": [0, 1], "account": paid, **parameters})
    with pytest.raises(ParameterError, match=said):
        model.fit([1.0], [1], *([["a"]] if "groups" in parameters else []))
    assert paid.left()["pure"] == 1


def test_shapes_and_dates_are_refused() -> None:
    model = KaplanMeier(epsilon=1, bins=[0, 1])
    for rows in (([1.0, 2.0], [1]), (np.array([[1.0]]), np.array([[1]])), ("1", "1"), (np.array([1], dtype="m8[D]"), [1])):
        with pytest.raises(ParameterError):
            model.fit(*rows)
    model.fit([[1.0]], [[1]])  # a list says nothing of what its values are: one patient's that is a list is missing, and refused for none
    with pytest.raises(ParameterError, match="declared"):
        model.fit([1.0], [1], ["a"])


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    model = KaplanMeier(epsilon=1, bins=[0, 30, 60, 90]).fit(*made_up(500, np.random.default_rng(1)))
    model.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_groups_that_read_alike_are_refused() -> None:
    """1 and "1" are one group of the rows: a patient would be in two curves, and one price paid for both."""
    with pytest.raises(ParameterError, match="different names"):
        KaplanMeier(epsilon=1, bins=[0, 5, 10], groups=[1, "1"]).plan()  # type: ignore[list-item]
