"""Plans of jobs: within the budget by an account of our own, as good as the whole budget allows, and made without data."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.release.jobs import TEXT, changed

from tacit.accounting import Composed, Gaussian, Laplace, account
from tacit.release import planning
from tacit.release.errors import JobError
from tacit.release.job import Job, parse
from tacit.release.planning import JobPlan, plan, validate
from tacit.release.sources import blank, desk_of
from tacit.tables.engines.duckdb import DuckDB

APPROXIMATE = ("{rho: 0.5}", "{epsilon: 1, delta: 1e-6}")


def _many(count: int, budget: str = "{epsilon: 1, delta: 1e-6}") -> Job:
    """So many counts of equal weight."""
    lines = "".join(f"  - {{name: c{i}, sql: SELECT COUNT(*) AS n FROM visits WHERE age > {i}, weight: 1}}\n" for i in range(count))
    start, end = TEXT.index("outputs:"), TEXT.index("publication:")
    text = TEXT[:start] + "outputs:\n" + lines + TEXT[end:]
    return parse(text.replace("{rho: 0.5}", budget).replace("max_rows: 3", "max_rows: 1"))


def _delta(mu: Any, epsilon: float) -> Any:
    """The delta of one Gaussian in closed form (Balle and Wang 2018, Theorem 8), at 40 digits."""
    with mpmath.workdps(40):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def _deviation(found: JobPlan) -> float:
    """The deviation of the counts' noise (their shares for measuring the caps' losses aside)."""
    return next(share.deviation for share in found.outputs[0].plan.shares if share.measure.name == "rows")


def test_a_job_of_gaussians_is_one_gaussian() -> None:
    found = plan(_many(40))
    assert found.noise == "gaussian"
    square = sum(1 / Fraction(output.plan.event.noise_multiplier) ** 2 for output in found.outputs)  # type: ignore[attr-defined]
    spent = _delta(mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator), 1.0)
    assert spent <= mpmath.mpf("1e-6")
    # nothing is left over: a mu larger by a ten-thousandth would be too much
    assert _delta(mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator) * mpmath.mpf("1.0001"), 1.0) > mpmath.mpf("1e-6")


def test_adding_up_shares_of_epsilon_and_delta_would_be_worse() -> None:
    """The mutant: forty outputs with (1/40, 1e-6/40) each have more than twice the noise."""
    found = _deviation(plan(_many(40)))
    alone = plan(_many(1, "{epsilon: 0.025, delta: 2.5e-8}"))
    assert found < 0.5 * _deviation(alone)


@pytest.mark.parametrize(("count", "noise"), [(1, "laplace"), (4, "laplace"), (40, "gaussian")])
def test_the_better_noise_is_taken(count: int, noise: str) -> None:
    assert plan(_many(count)).noise == noise


def test_laplace_noise_is_stretched_to_what_the_whole_job_allows() -> None:
    """Six Laplace outputs together cost less than the sum of their epsilons, and there is no room for 1% more."""
    job = _many(6, "{epsilon: 1, delta: 0.001}")
    found = planning._Planner(job, desk_of(job, blank(job))).made("laplace")
    assert found.noise == "laplace"
    scales = [Fraction(output.plan.event.noise_multiplier) for output in found.outputs]  # type: ignore[attr-defined]
    assert sum(1 / scale for scale in scales) > Fraction(101, 100)
    assert account(Composed(*(Laplace(scale) for scale in scales))).epsilon(1e-3).upper <= 1
    assert account(Composed(*(Laplace(scale / Fraction(101, 100)) for scale in scales))).epsilon(1e-3).lower > 1


@settings(max_examples=12)
@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=2),
    st.sampled_from(
        [
            "{epsilon: 0.3, delta: 1e-7}",
            "{epsilon: 4, delta: 1e-5}",
            "{rho: 0.01}",
            "{epsilon: 0.7, delta: 0}",
            "{epsilon: 1, delta: 1e-9, reserve: 0.25}",
        ]
    ),
    st.sampled_from(["add-remove", "replace-one"]),
)
def test_no_plan_exceeds_its_budget(weights: list[int], budget: str, adjacency: str) -> None:
    job = changed(
        ("{rho: 0.5}", budget),
        ("add-remove", adjacency),
        ('region", weight: 1', f'region", weight: {weights[0]}'),
        ("visits, weight: 1", f"visits, weight: {weights[1]}"),
    )
    found = plan(job)
    limits, kept = job.budget.typed().limits, 1 - job.budget.typed().reserve
    priced = account(found.event, job.unit.typed().adjacency)
    if "rho" in limits:
        assert priced.rho().lower <= float(limits["rho"])
        assert found.charge["rho"] <= limits["rho"]
    else:
        amount = limits.get("epsilon", limits.get("pure"))
        assert amount is not None
        assert priced.epsilon(float(limits.get("delta", 0) * kept)).upper <= float(amount * kept) * (1 + 1e-12)
        # the budget is used: there is room for less than 1% more
        assert priced.epsilon(float(limits.get("delta", 0) * kept)).upper > 0.99 * float(amount * kept)


def test_weights_are_shares() -> None:
    found = plan(changed(('region", weight: 1', 'region", weight: 3')))
    assert [output.part for output in found.outputs] == [Fraction(3, 4), Fraction(1, 4)]
    assert found.charge["rho"] <= Fraction(1, 2)
    assert found.charge["rho"] > Fraction(499, 1000)


def test_an_accuracy_is_met_and_the_rest_is_shared() -> None:
    job = changed(APPROXIMATE, ("FROM visits, weight: 1", "FROM visits, accuracy: {within: 40, confidence: 0.95}"))
    found = plan(job)
    assert 39 < found["overall"].errors["n"] <= 40
    assert found.cost.upper <= 1
    assert found["by_region"].part > 0


def test_an_accuracy_beyond_the_budget_is_refused() -> None:
    with pytest.raises(JobError, match="times the budget"):
        plan(changed(("FROM visits, weight: 1", "FROM visits, accuracy: {within: 2, confidence: 0.95}")))
    with pytest.raises(JobError, match="exact figures"):
        plan(changed(("FROM visits, weight: 1", "FROM visits, accuracy: {within: 0, confidence: 0.95}")))


def test_keys_selected_privately_fit_in_the_same_budget() -> None:
    last = "weight: 1, postprocess: {nonnegative: [n], whole: [n]}}"
    extra = last + "\n  - {name: wards, sql: 'SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward', keys: private, weight: 1}"
    job = changed(APPROXIMATE, (last, extra))
    found = plan(job)
    assert found["wards"].private_keys and not found["overall"].private_keys
    assert 0.985 < account(found.event).epsilon(1e-6).upper <= 1


def test_what_composition_leaves_over_goes_to_selected_keys_too() -> None:
    """Ten outputs together cost less than the sum of their parts, so all parts are stretched, by the same factor."""
    counts = "".join(f"  - {{name: c{i}, sql: SELECT COUNT(*) AS n FROM visits WHERE age > {i}, weight: 1}}\n" for i in range(9))
    wards = "  - {name: wards, sql: 'SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward', keys: private, weight: 1}\n"
    start, end = TEXT.index("outputs:"), TEXT.index("publication:")
    found = plan(parse((TEXT[:start] + "outputs:\n" + counts + wards + TEXT[end:]).replace(*APPROXIMATE)))
    parts = {float(output.part) for output in found.outputs}
    assert len(parts) == 1 and parts.pop() > 1.005 / 10
    assert 0.985 < account(found.event).epsilon(1e-6).upper <= 1


def test_an_only_output_that_selects_its_keys_uses_the_whole_budget() -> None:
    start, end = TEXT.index("outputs:"), TEXT.index("publication:")
    one = "outputs:\n  - {name: wards, sql: 'SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward', keys: private, weight: 1}\n"
    found = plan(parse((TEXT[:start] + one + TEXT[end:]).replace(*APPROXIMATE)))
    assert 0.985 < account(found.event).epsilon(1e-6).upper <= 1


def test_a_stretch_is_found_in_a_handful_of_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try prices the whole job, which is what planning costs."""
    asked: list[int] = []
    honest = planning._Planner.charge

    def counted(self: Any, events: Any) -> Any:
        asked.append(len(events))
        return honest(self, events)

    monkeypatch.setattr(planning._Planner, "charge", counted)
    last = "weight: 1, postprocess: {nonnegative: [n], whole: [n]}}"
    extra = last + "\n  - {name: wards, sql: 'SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward', keys: private, weight: 1}"
    plan(changed(APPROXIMATE, (last, extra)))
    assert len(asked) <= 40  # two families of noise, each try priced and checked, and the finished plan


def test_undeclared_keys_are_refused_with_what_to_write() -> None:
    with pytest.raises(JobError, match=r"outputs\[1\].keys: the values of 'ward'"):
        plan(changed(("SELECT COUNT(*) AS n FROM visits", "'SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward'")))


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("SELECT COUNT(*) AS n FROM visits,", "SELEKT,", "outputs[1]"),
        ("SELECT COUNT(*) AS n FROM visits,", "SELECT patient_id FROM visits,", "outputs[1]"),
        ("SELECT COUNT(*) AS n FROM visits,", "SELECT SUM(heart) AS n FROM visits,", "outputs[1]"),
        ("whole: [n]", "whole: [m]", "outputs[1]"),
        ("weight: 1, postprocess", "weight: 1, checks: {m: {least: 0}}, postprocess", "outputs[1]"),
        ("weight: 1, postprocess", "weight: 1, keys: [region], postprocess", "outputs[1].keys"),
        (", bounds: [0, 110]", "", "outputs[0]"),
    ],
)
def test_what_cannot_be_planned_is_an_error_with_a_place(old: str, new: str, place: str) -> None:
    with pytest.raises(JobError) as caught:
        plan(changed((old, new)))
    assert caught.value.place.startswith(place)


def test_planning_is_deterministic_and_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("a plan ran a statement")

    monkeypatch.setattr(DuckDB, "run", never)
    job = changed(APPROXIMATE)  # its source does not exist either
    first, second = plan(job), plan(job)
    assert first.event == second.event and first.charge == second.charge
    assert [o.errors for o in first.outputs] == [o.errors for o in second.outputs]
    assert validate(job) == [str(notice) for notice in first.warnings]


def test_the_floor_of_a_root_is_below_it() -> None:
    for value in (Fraction(2), Fraction(1, 3), Fraction(10**12 + 1)):
        assert planning._floor_root(value) ** 2 <= value
        assert math.isclose(float(planning._floor_root(value)), math.sqrt(value), rel_tol=1e-9)


def test_a_gaussian_job_costs_what_its_outputs_cost_together() -> None:
    """The price of the whole by adding squares in fractions, beside the accountant's."""
    found = plan(_many(40))
    multiplier = math.sqrt(1 / sum(float(o.plan.event.noise_multiplier) ** -2 for o in found.outputs))  # type: ignore[attr-defined]
    assert math.isclose(account(Gaussian(multiplier)).epsilon(1e-6).upper, found.cost.upper, rel_tol=1e-6)


def test_accuracies_of_figures_are_bought_apart() -> None:
    """A count that must be exact and a sum that need not be: the sum no longer gets as much of the budget as the count."""
    asked = ('SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region", weight: 1',
             'SELECT region, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY region", accuracy: {within: {n: 20, s: 20000}, '
             'confidence: 0.95}')  # fmt: skip
    wanted = {"n": 20, "s": 20_000}
    apart = plan(changed(asked)).outputs[0]
    # Even weights, which is what a job gets that states its own.
    even = plan(changed((asked[0], asked[1].replace("accuracy:", "weights: {n: 1, s: 1}, accuracy:")))).outputs[0]
    errors = apart.errors_at(0.95)
    assert all(errors[name] <= goal for name, goal in wanted.items())
    assert apart.portion.part < 0.75 * even.portion.part
    assert errors["s"] > 3 * even.errors_at(0.95)["s"]
