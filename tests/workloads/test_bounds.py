"""Limits: against closed forms, against the best strategies known, and the printed numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.accounting import Guarantee
from tacit.errors import ParameterError
from tacit.noise import test_mode as seeded
from tacit.workloads import AllRanges, Cells, Identity, Marginals, Prefix, Product, best, measured
from tacit.workloads.bounds import (
    blum_ligett_roth,
    hardt_talwar,
    laplace_error,
    least_error,
    mwem_error,
    recovers,
    useful_at,
    warnings_for,
)
from tacit.workloads.joint_strategy import unit_error
from tacit.workloads.optimal import gaussian_optimum
from tacit.workloads.strategy import Need


def rms(kind: type, size: int, law: str) -> float:
    workload = Product(a=kind).on(Cells.of({"a": size}))
    return math.sqrt(least_error(workload, law) / workload.questions)  # type: ignore[arg-type]


def test_the_table_of_singular_value_bounds() -> None:
    assert rms(AllRanges, 256, "laplace") == pytest.approx(4.068, abs=5e-4)
    assert rms(AllRanges, 256, "gaussian") == pytest.approx(2.876, abs=1e-3)
    both = Product(a=AllRanges, b=AllRanges).on(Cells.of({"a": 64, "b": 64}))
    assert math.sqrt(least_error(both, "gaussian") / both.questions) == pytest.approx(5.186, abs=1e-3)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_no_strategy_that_is_found_is_below_the_bound(law: str) -> None:
    cells = Cells.of({"a": 3, "b": 4, "c": 5})
    for wanted in (Marginals("a", "b", "c", up_to=2), Product(c=AllRanges) + 2 * Marginals("a", "b", ways=2), Product(a=Prefix, c=Prefix)):
        workload = wanted.on(cells).narrowed()
        assert least_error(workload, law) <= unit_error(best(workload, law), workload, law) * (1 + 1e-9)  # type: ignore[arg-type]


def test_several_terms_together_are_bounded_by_the_whole_matrix() -> None:
    """Oracle: the nuclear norm of the stacked matrix; and the identity's bound is attained."""
    cells = Cells.of({"a": 3, "b": 2})
    workload = (Product(a=Prefix) + 4 * Product(b=Identity)).on(cells)
    rows = np.vstack([np.kron(Prefix(3).matrix(), np.ones((1, 2))), 2 * np.kron(np.ones((1, 3)), np.eye(2))])
    assert least_error(workload, "gaussian") == pytest.approx(np.linalg.norm(rows, "nuc") ** 2 / 6)
    alone = Product(a=Identity).on(Cells.of({"a": 7}))
    assert least_error(alone, "gaussian") == pytest.approx(7) == gaussian_optimum(Need.of(Identity(7))).error


def test_laplace_noise_on_four_questions() -> None:
    """4.4.1: at most 11.3137, mean square exactly 128; 20,000 draws within 5 standard errors."""
    assert laplace_error(4, 1) == pytest.approx(11.3137, abs=1e-4)
    rng = np.random.default_rng(1)
    norms = np.linalg.norm(rng.laplace(scale=4, size=(20_000, 4)), axis=1)
    assert norms.mean() < laplace_error(4, 1)
    assert abs((norms**2).mean() - 128) < 5 * (norms**2).std() / math.sqrt(20_000)
    assert hardt_talwar(4, 5, 1) == pytest.approx(4 * math.sqrt(math.log(1.25)))
    assert hardt_talwar(4, 10**9, 2) == pytest.approx(4)
    with pytest.raises(ParameterError):
        hardt_talwar(5, 4, 1)


def test_usefulness_and_the_printed_bound() -> None:
    assert useful_at([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0.1) == 9 and useful_at([5.0], 0) == 5
    with pytest.raises(ParameterError):
        useful_at([], 0.1)
    assert blum_ligett_roth(1) < blum_ligett_roth(1, printed=True)
    assert mwem_error(10_000, 1024, 1000, 53, 1) == pytest.approx(10893.7, abs=5)
    assert mwem_error(10_000, 1024, 1000, 53, 1) < min(mwem_error(10_000, 1024, 1000, t, 1) for t in (20, 100))


def test_what_recovers_rows_does() -> None:
    """The warning against the attack it is about: least squares on n ln^2 n random subset counts of 128 bits."""
    n = 128
    asked = math.ceil(n * math.log(n) ** 2)
    rng = np.random.default_rng(2)
    bits, subsets = rng.integers(0, 2, n), rng.integers(0, 2, (asked, n))
    for error in (0.5 * math.sqrt(n), asked):
        noisy = subsets @ bits + rng.uniform(-error, error, asked)
        found = np.linalg.lstsq(subsets, noisy, rcond=None)[0] > 0.5
        right = (found == bits).mean()
        assert (right > 0.95) == recovers(asked, error, n)
    assert not recovers(asked // 2, 1.0, n)


def test_a_plan_warns_of_noisy_cells_and_of_too_many_exact_answers() -> None:
    tables = Marginals("a", "b", up_to=2).on(Cells.of({"a": 20, "b": 20}))
    plan = measured(tables, Guarantee(epsilon=1))
    assert [text.split(":")[0] for text in warnings_for(plan, 1000)] == ["a by b"]
    assert warnings_for(plan, 10**6) == []
    exact = measured(Product(a=AllRanges).on(Cells.of({"a": 64})), Guarantee(epsilon=100))
    assert any("rebuild" in text for text in warnings_for(exact, 90))
    with seeded(1):
        assert plan.draw({t: np.zeros([20] * len(t), dtype=np.int64) for t in plan.selection.tables})
