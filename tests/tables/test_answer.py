"""Answers: they convert, print, plot and are post-processed without losing what was released."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.accounting import Adjacency, Bound, Gaussian
from tacit.tables import Answer, Figures, TableError
from tacit.tables.answer import Noise


def answer(rows: int = 3, private: bool = True) -> Answer:
    values = np.array([-4.0, 10.25, 30.0] * rows)[:rows]
    return Answer(
        keys={"region": [f"<r{i}>" for i in range(rows)]},
        figures={"n": Figures(values, values - 5, values + 5)},
        raw={"rows": values.tolist()},
        noise=(Noise("rows", "gaussian", 2.5),),
        event=Gaussian(4),
        adjacency=Adjacency.ADD_REMOVE,
        cost=Bound(0.9, 1.0, "closed form"),
        delta=1e-6,
        confidence=0.95,
        private=private,
        notes=("rows lost to the caps: about 3%",),
    )


def test_conversions_hold_keys_values_and_ends() -> None:
    names = ["region", "n", "n_low", "n_high"]
    assert answer().to_arrow().column_names == names
    assert list(answer().to_pandas().columns) == names
    assert answer().to_polars().columns == names
    assert answer().to_arrow().schema.metadata[b"tacit.private"] == b"True"


def test_words_and_pages() -> None:
    assert "rows lost" in repr(answer()) and "epsilon 1 at delta 1e-06" in repr(answer())
    assert "... 5 more rows" in repr(answer(25))
    page = answer(private=False)._repr_html_()
    assert "&lt;r0&gt;" in page and "<r0>" not in page and "NOT PRIVATE" in page


def test_post_processing_keeps_what_was_released() -> None:
    found = answer().finished(nonnegative=["n"], whole=["n"])
    assert found["n"].tolist() == [0, 10, 30] and found.raw_figures is not None
    assert found.raw_figures["n"].value.tolist() == [-4, 10.25, 30]
    assert found.finished(whole=["n"]).raw_figures["n"].value.tolist() == [-4, 10.25, 30]  # type: ignore[index]
    with pytest.raises(TableError, match="no figure"):
        answer().finished(whole=["m"])


def test_totals_are_met_by_least_squares() -> None:
    exactly = answer().finished(totals={"n": (48.25, 0.0)})
    assert exactly["n"].sum() == pytest.approx(48.25)
    assert np.diff(exactly["n"]).tolist() == pytest.approx(np.diff(answer()["n"]).tolist())
    half = answer().finished(totals={"n": (48.25, np.sqrt(3) * 5 / 1.96)})
    assert half["n"].sum() == pytest.approx((36.25 + 48.25) / 2)
    assert (exactly.figures["n"].low <= answer().figures["n"].low).all()


def test_lines_can_be_taken() -> None:
    assert answer().taken([2, 0]).keys["region"] == ["<r2>", "<r0>"]
    assert answer().taken([]).rows == 0 and "cost" in repr(answer().taken([]))


def test_pictures(tmp_path: Path) -> None:
    for rows in (1, 3, 60):
        answer(rows).plot("n", path=str(tmp_path / f"{rows}.png"))
        assert (tmp_path / f"{rows}.png").stat().st_size > 5000
    with pytest.raises(TableError, match="no figure"):
        answer().plot("m")


def test_whole_numbers_beyond_64_bits_are_converted() -> None:
    for key, kind in ((2**63, "uint64"), (2**70, "decimal256(40, 0)"), (-(2**70), "decimal256(40, 0)"), (7, "int64")):
        found = replace(answer(2), keys={"k": [key, None]}).to_arrow()
        assert str(found.schema.field("k").type) == kind and found.column("k").to_pylist() == [key, None]


def test_a_dollar_in_a_name_is_no_formula(tmp_path: Path) -> None:
    odd = replace(answer(2), keys={"$x$": ["$\\frac$", "$"]})
    odd.plot(path=str(tmp_path / "odd.png"))
    assert (tmp_path / "odd.png").stat().st_size > 1000


def test_hypothetical_outcomes_have_the_law_of_the_noise(tmp_path: Path) -> None:
    """Of many draws, the stated share lies in the interval; the pictures are written and show themselves."""
    import tacit

    for budget, law in (("eps=50", "laplace"), ("rho=50", "gaussian")):
        session = tacit.Session.sandbox(rows=300, budget=budget)
        price = {"epsilon": 5} if law == "laplace" else {"rho": 5}
        answer = session.sql("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", **price)  # type: ignore[arg-type]
        assert {part.law for part in answer.noise} == {law}
        drawn = answer.outcomes("n", draws=4000, edition=1)
        inside = (drawn >= answer.figures["n"].low) & (drawn <= answer.figures["n"].high)
        assert abs(inside.mean() - 0.95) < 0.02
        figure = answer.plot_outcomes("n", path=str(tmp_path / f"{law}.png"))
        assert len(figure.axes) == 12 and figure._repr_png_()[:4] == b"\x89PNG"
    with pytest.raises(TableError, match="no figure"):
        answer.plot_outcomes("m")
