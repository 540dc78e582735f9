"""PrivTree: the loss along every path with and without the bar, the law of a decision, answers against plain sums, the error."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tacit.accounting import Guarantee
from tacit.errors import ParameterError
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.mechanisms import NoisySums
from tacit.noise import test_mode as seeded
from tacit.tables import Session, Unit
from tacit.workloads import AllRanges, Cells, Identity, Marginals, Prefix, Product, plan_privtree, with_privtree
from tacit.workloads.privtree import GRANULES, PrivTree, Tree, gridded


def path_loss(tree: Tree, bar: bool = True, levels: int = 60) -> float:
    """The largest loss of a path along which every box is halved, a row added, over all places of the path: in continuous noise."""
    scale, step = float(tree.scale), float(tree.step)
    threshold, least = 0.5 / GRANULES, 1 / GRANULES - step
    # Without the bar, boxes of the path lie below 0 for many levels; the highest box is at most just below a step above 0.
    offsets = np.linspace(-step - 1, 1, 2001)
    places = offsets[:, None] + step * (np.arange(levels) if bar else -np.arange(levels))

    def kept(x: np.ndarray) -> np.ndarray:
        x = np.maximum(x, least) if bar else x
        away = np.abs(x - threshold) / scale
        return np.where(x > threshold, np.log1p(-0.5 * np.exp(-away)), math.log(0.5) - away)

    return float((kept(places + 1) - kept(places)).sum(axis=1).max())


@pytest.mark.parametrize("shape", [(64,), (64, 64)])
@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1", "3", "20"])
def test_no_path_loses_more_than_the_price(shape: tuple[int, ...], epsilon: str) -> None:
    tree = Tree(shape, Fraction(epsilon))
    assert path_loss(tree) <= float(tree.row) <= float(Fraction(epsilon))
    assert 1 / float(tree.scale) <= float(tree.row)  # a leaf
    assert path_loss(tree, bar=False) > 10 * float(tree.row)  # the printed algorithm


def test_the_numbers_of_the_specification() -> None:
    one, two = Tree((8,), Fraction(1)), Tree((8, 8), Fraction(1))
    assert (one.scale, two.scale) == (3, Fraction(7, 3))
    assert float(one.step) == pytest.approx(2.079442, abs=1 / GRANULES) and float(two.step) == pytest.approx(3.234687, abs=1 / GRANULES)
    assert float(one.step) >= 3 * math.log(2) and float(two.step) >= 7 / 3 * math.log(4)
    assert path_loss(one) == pytest.approx(0.749, abs=0.02) and path_loss(two) == pytest.approx(0.791, abs=0.02)
    assert path_loss(one, bar=False) == pytest.approx(19.9, abs=0.3) and path_loss(two, bar=False) == pytest.approx(25.6, abs=0.3)
    assert Tree((8,), Fraction(1), reach=4).scale == 12


def test_a_decision_has_its_law() -> None:
    """20,000 decisions each: within 5 standard errors of the closed form, which fails once in 10^5 times."""
    tree = Tree((16,), Fraction(1))
    scale, step = float(tree.scale), float(tree.step)
    with seeded(4):
        for rows, level in ((0, 0), (4, 0), (4, 2), (0, 3), (50, 3)):
            biased = max(rows - level * step, 1 / GRANULES - step) - 0.5 / GRANULES
            chance = 0.5 * math.exp(biased / scale) if biased < 0 else 1 - 0.5 * math.exp(-biased / scale)
            found = tree.halved(np.full(20_000, rows), level).mean()
            assert abs(found - chance) < 5 * math.sqrt(chance * (1 - chance) / 20_000)


def test_leaves_tile_the_grid_and_the_dense_corner_is_cut_finer() -> None:
    counts = np.zeros((37, 50), dtype=np.int64)
    counts[:3, :3] = 300
    plan = with_privtree(Product(x=Identity, y=Identity).on(Cells.of({"x": 37, "y": 50})), Guarantee(epsilon=2))
    with seeded(8):
        record = plan.draw({("x", "y"): counts})
    covered = np.zeros((37, 50), dtype=int)
    low, high = plan.tree.spans(record["leaves"])
    for (a, b), (c, d) in zip(low, high, strict=True):
        covered[a:c, b:d] += 1
    assert (covered == 1).all()
    levels = {tuple(start): level for (level, *_), start in zip(record["leaves"], low.tolist(), strict=True)}
    assert levels[0, 0] == plan.tree.depth > min(levels.values())


def test_answers_are_sums_of_even_shares() -> None:
    wanted = Product(x=AllRanges, y=Prefix) + Product(y=Identity)
    plan = with_privtree(wanted.on(Cells.of({"x": 6, "y": 9})), Guarantee(epsilon=5))
    with seeded(2):
        record = plan.draw({("x", "y"): np.arange(54).reshape(6, 9)})
    cells, spread = np.zeros((6, 9)), []
    low, high = plan.tree.spans(record["leaves"])
    for value, (a, b), (c, d) in zip(record["counts"], low, high, strict=True):
        part = np.zeros((6, 9))
        part[a:c, b:d] = 1 / ((c - a) * (d - b))
        cells += value * part
        spread.append(part)
    for found, truth in zip(plan.answers(record), plan.workload.answers(cells), strict=True):
        assert np.allclose(found.values, truth)
    squares = sum(plan.workload.answers(part)[0] ** 2 for part in spread)
    box = plan.boxes(record, [[1, 0]], [[4, 5]])
    assert box.values[0] == pytest.approx(cells[1:4, :5].sum())
    assert plan.answers(record)[0].widths[0, 0] == pytest.approx(float(plan.boxes(record, [[0, 0]], [[1, 1]]).widths[0]))
    assert np.all(np.asarray(squares) > 0)


def test_what_is_paid_for_is_both_halves() -> None:
    workload = Product(x=AllRanges).on(Cells.of({"x": 40}))
    for text in ("eps=0.5", "rho=0.02"):
        spend = Guarantee.parse(text)
        plan = with_privtree(workload, spend, reach=3, replaced=True)
        assert spend.admits(plan.event, plan.adjacency) and not spend.share("0.99").admits(plan.event, plan.adjacency)
        assert plan.tree.reach == 6 and plan.leaf_noise.scales[0] == 6 / plan.leaf_epsilon


def relative_errors(plan: PrivTree, points: np.ndarray, epsilon: float, side: float) -> tuple[float, float]:
    """Mean |error| / max(count, n / 1000) on 400 random squares: of the tree and of a uniform grid of sqrt(n epsilon / 10)."""
    rng, size = np.random.default_rng(5), plan.tree.shape[0]
    low = rng.random((400, 2)) * (1 - side)
    truth = np.array([((points >= corner) & (points < corner + side)).all(axis=1).sum() for corner in low])
    floor = np.maximum(truth, len(points) / 1000)
    record = plan.draw({("x", "y"): gridded(points, [(0, 1), (0, 1)], size)})
    ours = np.abs(plan.boxes(record, low * size, (low + side) * size).values - truth) / floor
    wide = round(math.sqrt(len(points) * epsilon / 10))
    noisy = NoisySums.of_scale("laplace", 1 / Fraction(epsilon)).add(gridded(points, [(0, 1), (0, 1)], wide))
    edges = np.arange(wide)
    plain = []
    for corner in low * wide:
        parts = [(np.minimum(c + side * wide, edges + 1) - np.maximum(c, edges)).clip(min=0) for c in corner]
        plain.append(float(parts[0] @ noisy @ parts[1]))
    return float(ours.mean()), float((np.abs(np.array(plain) - truth) / floor).mean())


def clusters(n: int = 100_000) -> np.ndarray:
    rng = np.random.default_rng(3)
    centres = rng.uniform(0.05, 0.95, (20, 2))
    return np.clip(centres[rng.integers(0, 20, n)] + 0.005 * rng.standard_normal((n, 2)), 0, 1)


@pytest.mark.parametrize("epsilon", [0.1, pytest.param(1.0, marks=pytest.mark.slow)])
def test_at_most_two_fifths_of_a_uniform_grids_error(epsilon: float) -> None:
    points = clusters()
    plan = with_privtree(Product(x=Identity, y=Identity).on(Cells.of({"x": 1024, "y": 1024})), Guarantee(epsilon=epsilon))
    with seeded(6):
        ratios = [ours / plain for ours, plain in (relative_errors(plan, points, epsilon, side) for side in (0.01, 0.05, 0.2))]
    assert max(ratios) <= 0.4  # of clusters with a deviation of 0.005; at 0.02 it is 0.7, at 0.03 the grid wins


def test_a_session_pays_before_the_data_and_a_person_counts_up_to_the_cap(tmp_path: Path) -> None:
    table = pa.table({"id": [1] * 1000 + [2, 3], "x": [5] * 1000 + [1, None], "y": [5] * 1000 + [2, 2]})
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    session = Session(
        table, unit=Unit("id", max_rows=2), budget=Budget(epsilon=1), name="t", ledger=book, columns={"x": (0, 9), "y": (0, 9)}
    )
    plan = plan_privtree(session, Product(x=AllRanges, y=Identity), epsilon=1)
    assert plan.method.draw.__self__.tree.reach == 2  # type: ignore[attr-defined]
    assert "PrivTree" in plan.explain()
    found = plan.run()
    assert found.table("x", "y").num_rows == 550 and session.left()["pure"] == 0
    with pytest.raises(BudgetExceeded):
        plan.run()


def test_refusals_depend_on_the_questions_and_the_price() -> None:
    three = Cells.of({"a": 3, "b": 3, "c": 3})
    with pytest.raises(ParameterError, match="one or two columns"):
        with_privtree(Marginals("a", "b", "c", ways=3).on(three), Guarantee(epsilon=1))
    with pytest.raises(ParameterError, match="at most"):
        with_privtree(Product(a=Identity, b=Identity).on(Cells.of({"a": 10_000, "b": 10_000})), Guarantee(epsilon=1))
    with pytest.raises(ParameterError, match="no price"):
        with_privtree(Product(a=AllRanges).on(three), Guarantee(mu=1))
    assert gridded([[math.nan], [0.5]], [(0, 1)], 2).tolist() == [0, 1]


def test_a_price_without_use_is_refused_before_the_data() -> None:
    """At 1e-16 the steps of the levels left 64 bits, which failed after the payment."""
    workload = Product(x=Identity).on(Cells.of({"x": 64}))
    with pytest.raises(ParameterError, match="too small"):
        with_privtree(workload, Guarantee(epsilon=Fraction(1, 10**16)))
    least = with_privtree(workload, Guarantee(epsilon=Fraction(1, 2**35)))
    assert len(least.draw({("x",): np.zeros(64, dtype=np.int64)})["leaves"]) >= 1
