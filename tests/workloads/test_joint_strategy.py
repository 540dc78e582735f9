"""Products of separate groups of questions, put together: least squares against one matrix over all cells."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.workloads import AllRanges, Cells, Identity, Marginals, Prefix, Product, joint_strategy
from tacit.workloads.joint_strategy import EachAlone, Joined, Residuals, WholeTables, candidates, each_alone, joined, unit_error
from tacit.workloads.workload import Term, Wanted, Workload

CELLS = Cells.of({"a": 3, "b": 4, "c": 6})
WANTED: dict[str, Wanted] = {
    "one column twice": Product(c=AllRanges) + 3 * Product(c=Prefix),
    "nothing shared but the total": Product(c=AllRanges) + Product(b=Prefix),
    "overlapping": Product(a=Identity, c=Prefix) + 2 * Product(a=Identity, b=AllRanges) + Product(c=Identity),
    "with tables": Product(c=AllRanges) + 2 * Marginals("a", "b", ways=2),
}


def dense_rows(selection: EachAlone, cells: Cells) -> np.ndarray:
    """Every measured sum as a row over all cells, times its weight: from the measurements of single rows."""
    names, found = list(cells.names), []
    for place in np.ndindex(*cells.shape):
        counts = np.zeros(cells.shape, dtype=np.int64)
        counts[place] = 1
        tables = {t: counts.sum(axis=tuple(i for i, c in enumerate(names) if c not in t)) for t in selection.tables}
        blocks = selection.measure(tables)
        found.append(np.concatenate([b.astype(float).ravel() * float(w) for b, w in zip(blocks, selection.weights, strict=True)]))
    return np.array(found).T


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("name", list(WANTED))
def test_separate_products_are_joined_by_least_squares(name: str, law: str) -> None:
    workload = WANTED[name].on(CELLS).narrowed()
    apart = each_alone(workload, law)  # type: ignore[arg-type]
    assert apart is not None
    found = joined(apart, workload)
    assert isinstance(found, Joined)
    rows = dense_rows(found, workload.cells)
    inverse = np.linalg.pinv(rows)
    noisy = np.random.default_rng(3).integers(-50, 50, len(rows))
    blocks, place = [], 0
    for block in found.measure({t: np.zeros([workload.cells.sizes[c] for c in t], dtype=np.int64) for t in found.tables}):
        blocks.append(noisy[place : place + block.size].reshape(block.shape))
        place += block.size
    weighted = np.concatenate([b.ravel() * float(w) for b, w in zip(blocks, found.weights, strict=True)])
    cells = (inverse @ weighted).reshape(workload.cells.shape)
    total = 0.0
    for term, answers in zip(workload.terms, found.answers(workload, blocks, law), strict=True):  # type: ignore[arg-type]
        through = workload.answer(term, inverse.reshape(*workload.cells.shape, -1))
        np.testing.assert_allclose(answers.values, workload.answer(term, cells), atol=1e-9)
        np.testing.assert_allclose(answers.squares, (through**2).sum(axis=-1), rtol=1e-9)
        assert answers.fourths is not None
        np.testing.assert_allclose(answers.fourths, (through**4).sum(axis=-1), rtol=1e-9)
        total += term.weight * float((through**2).sum())
    assert found.error(workload) == pytest.approx(total, rel=1e-9)
    # What is shared makes the answers better, never worse.
    assert found.error(workload) < apart.error(workload)


def test_too_many_unknowns_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = WANTED["overlapping"].on(CELLS)
    apart = each_alone(workload, "gaussian")
    assert apart is not None
    monkeypatch.setattr(joint_strategy, "UNKNOWNS", 35)
    assert joined(apart, workload) is apart  # 18 + 12 + 6 cells
    monkeypatch.setattr(joint_strategy, "UNKNOWNS", 36)
    assert joined(apart, workload) is not apart


def test_the_joined_one_is_among_the_candidates() -> None:
    workload = WANTED["with tables"].on(CELLS)
    found = [one for one in candidates(workload, "gaussian") if isinstance(one, EachAlone)]
    assert [type(one) for one in found] == [Joined]
    apart = each_alone(workload, "gaussian")
    assert apart is not None
    assert unit_error(found[0], workload, "gaussian") < unit_error(apart, workload, "gaussian")


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_any_question_about_a_measured_table_has_its_variance(law: str) -> None:
    """Ranges of pairs from residuals, and from whole tables: values and variances against the matrix from sums to answers."""
    workload = Marginals("a", "b", "c", up_to=2).on(CELLS)
    chosen = next(one for one in candidates(workload, law) if isinstance(one, Residuals | WholeTables))  # type: ignore[arg-type]
    asked = Workload(CELLS, (Term((("c", AllRanges(6)), ("a", Identity(3)))), Term((("b", Prefix(4)),)), Term(())))
    zeros = chosen.released(chosen.measure({t: np.zeros([CELLS.sizes[c] for c in t], dtype=np.int64) for t in chosen.tables}))
    plain = chosen.answers(asked, zeros, law)  # type: ignore[arg-type]
    squares = [np.zeros(one.values.shape) for one in plain]
    blocks = chosen.measure({t: np.zeros([CELLS.sizes[c] for c in t], dtype=np.int64) for t in chosen.tables})
    for k, block in enumerate(blocks):
        for place in np.ndindex(block.shape):
            one = [np.array(b) for b in blocks]
            one[k][place] += 1
            moved = chosen.answers(asked, chosen.released(one), law)  # type: ignore[arg-type]
            for i, answers in enumerate(moved):
                squares[i] += ((answers.values - plain[i].values) / float(chosen.weights[k])) ** 2
    for own, expected in zip(plain, squares, strict=True):
        np.testing.assert_allclose(own.squares, expected, rtol=1e-9)
    with pytest.raises(ParameterError, match="no measured table"):
        chosen_pairs = Marginals("a", "b", up_to=1).on(CELLS)
        residuals = next(c for c in candidates(chosen_pairs, "gaussian") if isinstance(c, Residuals))
        none = residuals.released(residuals.measure({t: np.zeros([CELLS.sizes[c] for c in t], dtype=np.int64) for t in residuals.tables}))
        residuals.answers(Marginals("a", "b", ways=2).on(CELLS), none, "gaussian")
