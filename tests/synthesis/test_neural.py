"""Neural synthesizers: prices by hand, one interface, nothing that follows one person, and what is refused before paying."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.accounting import GDP, Adjacency, Composed, Gaussian, Guarantee, ParameterError, Poisson, Repeated, Sampled, account
from tacit.errors import PackageMissing
from tacit.ledger import Budget, Ledger
from tacit.noise import test_mode
from tacit.synthesis import NEURAL, BoughtCategories, CategoryColumn, Impossible, Neural, PateGan, synthesize

HOMES = ("a", "b", "c")
DECLARED = [CategoryColumn("home", HOMES), CategoryColumn("work", HOMES)]
SMALL: dict[str, Any] = {"steps": 3, "width": 4, "code": 2}
ALL = [*(Neural(kind, **SMALL) for kind in ("augm", "vaegm", "daae", "dpgan", "acgan", "dcgan")),
       PateGan(rounds=2, questions=3, per_teacher=20, width=4, code=2)]  # fmt: skip


def rows(people: int = 120) -> dict[str, list[Any]]:
    homes = [HOMES[place % 3] for place in range(people)]
    return {"who": [f"p{place // 2}" for place in range(people)], "home": homes, "work": homes}


def made(method: Neural | PateGan | str, **more: Any) -> Any:
    aimed = {"target": "work"} if getattr(method, "kind", "") == "acgan" else {}
    with test_mode(1):
        return synthesize(rows(), DECLARED, epsilon=4, delta=1e-6, method=method, **aimed, **more)


@pytest.mark.parametrize("method", ALL, ids=lambda one: getattr(one, "kind", "pate"))
def test_one_interface(method: Neural | PateGan, tmp_path: Any) -> None:
    found = made(method)
    table = found.sample(50)
    assert table.column_names == ["home", "work"] and table.num_rows == 50
    cells = found.marginal("home", "work")
    assert len(cells) == 16 and sum(cell.count for cell in cells) == pytest.approx(found.rows_)
    assert all(cell.low is not None for cell in found.marginal("home"))
    assert cells[0].low is None  # pairs were not measured
    found.report(tmp_path / "page.html")
    assert "NOT PRIVATE" in (tmp_path / "page.html").read_text()
    assert Guarantee(epsilon=4, delta="1e-6").keeps(found.event_, Adjacency.ADD_REMOVE)


def test_the_price_is_that_of_the_columns_and_the_steps() -> None:
    event = made(Neural("vaegm", parts=10, **SMALL)).event_
    assert isinstance(event, Composed)
    columns, steps = event.events
    assert isinstance(columns, GDP) and isinstance(steps, Repeated) and steps.count == 3
    assert isinstance(steps.event, Sampled) and steps.event.scheme == Poisson(steps.event.scheme.rate)
    assert steps.event.scheme.rate * 10 == 1 and isinstance(steps.event.event, Gaussian)
    assert account(event).epsilon(1e-6).upper <= 4
    assert account(event).epsilon(1e-6).upper > 3.99  # and not much less


def test_the_run_is_what_is_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampler that draws has the rate, the noise and the number of steps that were paid for."""
    import tacit.deep

    runs: list[Any] = []
    plain = tacit.deep.make_private
    monkeypatch.setattr(tacit.deep, "make_private", lambda *given, **named: runs.append(plain(*given, **named)) or runs[-1])
    event = made(Neural("dpgan", parts=8, **SMALL)).event_
    assert runs[0].event == event.events[1] and runs[0].steps == 3


def test_votes_cost_what_they_say() -> None:
    event = made(ALL[-1]).event_
    assert event.events[1].count == 6
    sigma = PateGan().votes(10.0).sigma
    assert sigma == pytest.approx(10 * np.sqrt(2))
    # Two counts of a question move by one each: a noise multiplier of sigma over the root of two.
    assert float(PateGan().votes(10.0).event(1).event.noise_multiplier) == pytest.approx(10, rel=1e-6)


def test_people_with_several_rows() -> None:
    found = made(Neural("vaegm", **SMALL), person="who", max_rows=2)
    assert found.measured_[0].sigma == pytest.approx(2 * made(Neural("vaegm", **SMALL)).measured_[0].sigma, rel=1e-2)


def test_paid_before_a_row_is_read(tmp_path: Any) -> None:
    book = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("people", Budget(epsilon=4, delta="1e-5"))
    with test_mode(1):
        synthesize(rows(), DECLARED, epsilon=3, delta=1e-6, method=Neural("augm", **SMALL), account=book)
    with pytest.raises(Exception, match=r"budget|left|epsilon"), test_mode(1):
        synthesize(rows(), DECLARED, epsilon=3, delta=1e-6, method=Neural("augm", **SMALL), account=book)


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"method": "ac_gan"}, "target"),
        ({"method": "neural", "constraints": [Impossible({"home": ["a"], "work": ["b"]})]}, "rule"),
        ({"method": "neural", "target": "nowhere"}, "target"),
        ({"method": "wgan"}, "no method"),
        ({"method": Neural("augm", public=np.array([[9, 0]]))}, "cells"),
        ({"method": Neural("augm", public=np.zeros((2, 3)))}, "public rows"),
    ],
)
def test_refused_by_what_is_declared(asked: dict[str, Any], what: str) -> None:
    with pytest.raises(ParameterError, match=what):
        synthesize({"home": [object()], "work": [object()]}, DECLARED, epsilon=1, delta=1e-6, **asked)


def test_bought_columns_are_refused() -> None:
    with pytest.raises(ParameterError, match="declared"):
        synthesize(rows(), [BoughtCategories("home")], epsilon=1, delta=1e-6, method="neural")


@pytest.mark.parametrize("wrong", [{"kind": "wgan"}, {"steps": 0}, {"clip": -1}, {"width": 1.5}, {"rate": float("nan")}])
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises((ParameterError, ValueError)):
        Neural(**wrong)


def test_a_session_is_told_to_hand_over_a_table(tmp_path: Path) -> None:
    from tacit import Session, Unit

    session = Session(rows(), unit=Unit("who", max_rows=2), budget=Budget(epsilon=1, delta="1e-6"), name="rows",
                      columns={"home": list(HOMES)}, ledger=tmp_path / "tacit.db")  # fmt: skip
    for method in ("neural", Neural("augm")):
        with pytest.raises(ParameterError, match="in memory"):
            synthesize(session, ["home"], epsilon=1, method=method)


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "torch" or name.startswith("tacit.deep")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(PackageMissing, match=r"tacit\[torch\]"):
        synthesize(rows(), DECLARED, epsilon=1, delta=1e-6, method="neural")


def test_odd_values_empty_tables_and_constant_columns_change_nothing() -> None:
    shapes = set()
    for table in (rows(), {"home": [], "work": []}, {"home": [None, float("nan"), 10**400], "work": ["a"] * 3}):
        with test_mode(2):
            found = synthesize(table, DECLARED, epsilon=1, delta=1e-6, method=Neural("dpgan", **SMALL))
        shapes.add((found.event_, found.sample(5).schema))
    assert len(shapes) == 1


def test_a_network_learns_what_it_is_shown() -> None:
    """With little noise a variational autoencoder keeps two equal columns together; independent columns would not."""
    with test_mode(7):
        found = synthesize(
            rows(3000), DECLARED, epsilon=500, delta=1e-6, method=Neural("vaegm", steps=250, parts=4, width=16, code=4, rate=0.02)
        )
    table = np.array([cell.count for cell in found.marginal("home", "work")]).reshape(4, 4)
    assert np.trace(table) / table.sum() > 0.7  # a third by chance


def test_every_name_is_a_method() -> None:
    assert set(NEURAL) == {"neural", "dp_augm", "dp_vaegm", "daae", "dpgan", "ac_gan", "dc_gan", "pate_gan"}


@pytest.mark.parametrize("kind", ["vaegm", "dcgan"])
@pytest.mark.parametrize("rows", [{"a": [], "p": []}, {"a": ["x"], "p": [1]}])
def test_no_people_and_one_person_look_alike(kind: Any, rows: dict[str, list[Any]]) -> None:
    made = synthesize(rows, [CategoryColumn("a", ("x", "y"))], epsilon=3, delta=1e-6, method=Neural(kind, steps=2, width=8),
                      person="p", max_rows=2)  # fmt: skip
    assert made.sample(0).num_rows == 0 and made.sample(3).num_rows == 3
