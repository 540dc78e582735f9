"""The comparison of theorems: the book's Figure 3.1 to the digits printed, every method accounted for, every printed figure rounded up."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import METHODS
from tacit.accounting.account import account
from tacit.accounting.bound import Bound, Estimate, rounded_up
from tacit.accounting.compare import Inapplicable, compare, compose_curves, laplace_and_gaussian
from tacit.accounting.events.leaves import ZCDP, ApproxDP, Gaussian, Laplace, PureDP, RandomizedResponse
from tacit.accounting.events.tree import Adjacency, Composed, Poisson, Repeated, Sampled, WithoutReplacement
from tacit.errors import AdjacencyError, ParameterError

# Steinke 2022, Figure 3.1: k uses of a 0.1-DP mechanism at delta = 1e-6; `advanced` and `strong` without the minimum with basic.
FIGURE = {
    10: (1, 1.71225814, 1.71221651, 1.47159475, 0.99937091, 0.99897810, 0.94051553),
    100: (10, 5.75652177, 5.75610552, 5.22153444, 4.77456759, 4.69266742, 3.30760072),
    1000: (100, 21.62258136, 21.61841886, 20.55194881, 19.34467145, 18.95028743, 12.59524674),
}


@pytest.mark.parametrize("k", FIGURE)
def test_figure_3_1(k: int) -> None:
    found = [curve.epsilons[0] for curve in laplace_and_gaussian([k]).curves]
    basic, advanced, strong, *rest = FIGURE[k]
    # the source extrapolates the Laplace column, which has errors in its eighth digit
    assert found == pytest.approx([basic, min(basic, advanced), min(basic, strong), *rest], abs=1e-7)


def test_order_of_the_theorems() -> None:
    """From k = 31 on every theorem is worse than the next."""
    figure = laplace_and_gaussian([31, 100])
    for i in range(2):
        column = [curve.epsilons[i] or math.nan for curve in figure.curves]
        assert column == sorted(column, reverse=True) and len(set(column)) == 7


@pytest.fixture(scope="module")
def table():  # type: ignore[no-untyped-def]
    return compare(Repeated(Laplace(10), 100), [1e-6, 1e-9])


def test_every_method_has_a_row_and_the_tightest_is_first(table) -> None:  # type: ignore[no-untyped-def]
    assert [row.method for row in table.rows] == ["tightest", *METHODS]
    assert all(len(row.figures) == 2 for row in table.rows)
    for delta in (1e-6, 1e-9):
        best = account(Repeated(Laplace(10), 100)).epsilon(delta)
        assert table.figure("tightest", delta) == best == table.figure("pld", delta)
        for row in table.rows:
            figure = row.figures[table.deltas.index(delta)]
            assert isinstance(figure, Estimate if row.method == "central-limit" else Bound), row.method
            if isinstance(figure, Bound):
                assert figure.upper >= best.lower, f"{row.method} is below the exact figure"


def test_the_text_is_a_table(table) -> None:  # type: ignore[no-untyped-def]
    lines = table.to_text().splitlines()
    assert lines[0].split() == ["method", "delta", "1e-06", "delta", "1e-09"]
    assert [line.split()[0] for line in lines[1 : 2 + len(METHODS)]] == ["tightest", *METHODS]
    advanced = next(line for line in lines if line.startswith("advanced")).split()
    assert float(advanced[1]) == pytest.approx(5.75652177, abs=1e-5) and float(advanced[1]) >= 5.75652177
    assert "~" in next(line for line in lines if line.startswith("central-limit"))
    assert lines[-1].startswith("~  an estimate")
    assert all(line == line.rstrip() or line.startswith("tightest") for line in lines)


def test_a_silent_theorem_says_why() -> None:
    found = compare(Repeated(Sampled(Poisson(0.01), Gaussian(1)), 1000), 1e-5)
    for method in ("basic", "advanced", "strong", "drv", "optimal", "heterogeneous"):
        figure = found.figure(method, 1e-5)
        assert isinstance(figure, Inapplicable)
        assert str(figure).startswith("does not apply: ") and "Gaussian noise" in figure.reason
    assert found.figure("rdp-improved", 1e-5).upper <= 2.107753076  # type: ignore[union-attr]
    text = found.to_text()
    assert "basic, advanced, strong, drv, optimal, heterogeneous: composes (epsilon, delta)" in text, "one reason is said once"


def test_a_guarantee_without_a_distribution() -> None:
    found = compare(ZCDP(0.1), 1e-5)
    assert isinstance(found.figure("pld", 1e-5), Inapplicable)
    assert found.figure("tightest", 1e-5).upper == pytest.approx(found.figure("zcdp-improved", 1e-5).upper, rel=1e-6)  # type: ignore[union-attr]


def test_a_delta_that_cannot_be_met_is_infinite() -> None:
    found = compare(Repeated(ApproxDP(0.1, 1e-6), 10), [1e-8, 1e-4])
    assert found.figure("basic", 1e-8).upper == math.inf  # type: ignore[union-attr]
    assert found.figure("basic", 1e-4).upper == pytest.approx(1.0)  # type: ignore[union-attr]
    assert "inf" in found.to_text()


def test_relations_and_errors() -> None:
    event = Repeated(Sampled(WithoutReplacement(100, 5), Gaussian(10)), 3)
    with pytest.raises(AdjacencyError):
        compare(event, 1e-5)
    assert compare(event, 1e-5, Adjacency.REPLACE_ONE).adjacency is Adjacency.REPLACE_ONE
    assert compare(RandomizedResponse(1), 1e-5).adjacency is Adjacency.REPLACE_ONE
    with pytest.raises(ParameterError, match="deltas is empty"):
        compare(Gaussian(1), [])
    with pytest.raises(ParameterError, match="delta must be between 0 and 1"):
        compare(Gaussian(1), [2])
    with pytest.raises(ParameterError, match="no figure for method 'best'"):
        compare(Gaussian(1), 1e-5).figure("best", 1e-5)


def test_delta_zero() -> None:
    assert isinstance(compare(Gaussian(1), 0).figure("tightest", 0.0), Inapplicable)
    assert compare(Composed(PureDP(0.5), PureDP(0.25)), 0).figure("tightest", 0.0).upper == pytest.approx(0.75)  # type: ignore[union-attr]


@given(st.floats(1e-300, 1e300), st.integers(2, 12))
def test_what_is_printed_is_never_below(value: float, digits: int) -> None:
    printed = float(rounded_up(value, digits))
    assert value <= printed <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-15)


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (0.1, "0.1"), (1e-9, "1e-9"), (123456789.5, "123457000"), (1.0000001, "1.00001")])
def test_rounding_up(value: float, text: str) -> None:
    assert rounded_up(value, 6) == text


# --- curves -----------------------------------------------------------------------------------------------------------------------


def test_curves_have_gaps_where_a_theorem_is_silent() -> None:
    found = compose_curves(lambda k: Repeated(Gaussian(10), k), [1, 4], 1e-6, methods=["basic", "pld", "central-limit"])
    basic, exact, normal = found.curves
    assert basic.epsilons == (None, None)
    assert exact.epsilons == tuple(account(Repeated(Gaussian(10), k)).epsilon(1e-6).upper for k in (1, 4))
    assert exact.certified and not normal.certified
    assert "-" in found.to_text().splitlines()[1].split()


def test_curves_refuse_what_makes_no_picture() -> None:
    def make(k: int) -> Repeated:
        return Repeated(Laplace(10), k)

    with pytest.raises(ParameterError, match="must not be empty"):
        compose_curves(make, [], 1e-6)
    with pytest.raises(ParameterError, match="methods must be among"):
        compose_curves(make, [1], 1e-6, methods=["best"])
    with pytest.raises(ParameterError, match="labels must be as many"):
        compose_curves(make, [1], 1e-6, methods=["basic"], labels=[])
    with pytest.raises(ParameterError, match="counts must be"):
        compose_curves(make, [0], 1e-6)
    with pytest.raises(ParameterError, match="the same to draw"):
        compose_curves(make, [1], 1e-6, methods=["basic"]).joined(compose_curves(make, [2], 1e-6, methods=["basic"]))


def test_pictures(tmp_path: Path, table) -> None:  # type: ignore[no-untyped-def]
    table.plot(tmp_path / "table.png")
    compose_curves(lambda k: Repeated(Laplace(10), k), [1, 100], 1e-6, methods=["basic"]).plot(tmp_path / "curves.svg")
    assert (tmp_path / "table.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "curves.svg").read_bytes()
