"""What the code of commit f259f1e drew, wrote and booked is what the code draws, writes and books now. See `tests/before/write.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.before import books, write
from tests.before.frozen import plain, standing_still

from tacit import release as jobs
from tacit.accounting import Laplace, PureDP, from_json, to_json
from tacit.ledger import BudgetExceeded, Ledger

SECTIONS = write.sections()


@pytest.mark.parametrize("name", SECTIONS)
def test_nothing_has_changed(name: str) -> None:
    if name == "deep":
        pytest.importorskip("torch")
    now = json.loads(json.dumps(SECTIONS[name]()))
    found = write.differences(write.kept(name), now, write.ROUNDING.get(name, 0.0))
    assert not found, "\n".join(found[:30])


def test_a_changed_draw_is_a_difference() -> None:
    """The comparison allows for rounding and for nothing else."""
    assert write.differences({"a": [1, (0.5).hex()]}, {"a": [1, (0.5).hex()]}, 1e-9) == []
    assert write.differences({"a": [(0.5).hex()]}, {"a": [(0.5 + 1e-12).hex()]}, 1e-9) == []
    assert len(write.differences({"a": [(0.5).hex()]}, {"a": [(0.5 + 1e-12).hex()]}, 0.0)) == 1
    assert len(write.differences({"a": [(0.5).hex(), 3]}, {"a": [(0.6).hex(), 4]}, 1e-9)) == 2
    assert len(write.differences({"a": 1, "b": 2}, {"a": 1, "c": 2}, 1e-9)) == 2
    assert len(write.differences({"a": 1, "b": 2}, {"b": 2, "a": 1}, 1e-9)) == 1, "the order of fields is part of an event's JSON"
    assert len(write.differences({"a": True}, {"a": 1}, 1e-9)) == 1
    one, other = (json.dumps({"type": kind, "noise_multiplier": 1.5}) for kind in ("Gaussian", "Laplace"))
    assert len(write.differences(one, other, 1e-9)) == 1


# --- an old book -------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def old_book(tmp_path: Path) -> Path:
    return books.restored((write.FIXTURES / "book.sql").read_text(encoding="utf-8"), tmp_path / "book.db")


def test_an_old_book_opens_verifies_and_goes_on(old_book: Path) -> None:
    kept = write.kept("ledger")
    before = books.entries(old_book)
    with Ledger.open(f"sqlite:///{old_book}", create=False) as book:
        assert book.head() == kept["head"]
        assert book.verify(head=kept["head"]).ok
        assert len(book.verify().open) == 1, "the reservation that was left open is still open, and spent"
        pure = book.account("pure")
        assert plain(pure.left()) == {"pure": "3/4"}
        with pure.reserve(Laplace(4), purpose="later"):
            pass
        with pytest.raises(BudgetExceeded):
            pure.spend(PureDP(1))
        again = book.account("kept").reserve(_event(kept, "kept"), question={"sql": "SELECT COUNT(*) FROM visits", "keys": ["N", "S"]})
        assert again.cached and again.answer == {"n": [41, 17.5]}
        assert plain(pure.left()) == {"pure": "1/2"}
        assert book.verify(head=kept["head"]).ok
    after = books.entries(old_book)
    assert after[: len(before)] == before, "nothing that was written is ever changed"
    assert [row[1] for row in after[len(before) :]] == ["reserve", "commit"]


def _event(kept: dict[str, Any], account: str) -> Any:
    """The event of an account's first reservation, as it stands in the old book."""
    opened = next(json.loads(row[5]) for row in kept.values() if isinstance(row, list) and row[1] == "account" and account in row[5])
    mine = (json.loads(row[5]) for row in kept.values() if isinstance(row, list) and row[1] == "reserve")
    return from_json(json.dumps(next(entry["event"] for entry in mine if entry["account"] == opened["account"])))


def test_every_event_in_an_old_book_is_read_and_written_as_it_stands() -> None:
    texts = [row[5] for name, row in write.kept("ledger").items() if name.startswith("entry")]
    stored = [json.loads(text)["event"] for text in texts if '"event"' in text]
    assert len(stored) > 20
    for event in stored:
        assert json.loads(to_json(from_json(json.dumps(event)))) == event


# --- an old release ----------------------------------------------------------------------------------------------------------------------


def test_an_old_release_is_the_one_that_the_job_makes_now() -> None:
    """release.json as the old code published it, beside the run that `test_nothing_has_changed` repeats."""
    published = write.kept("published")
    assert books.of_code(published) == write.kept("release")["release.json"]
    assert jobs.load(books.JOB).digest() == published["job"]["hash"], "a job keeps its fingerprint"
    assert to_json(from_json(json.dumps(published["event"]))) == to_json(from_json(json.dumps(published["event"], sort_keys=True)))


def test_an_old_run_that_was_stopped_is_finished_without_a_second_draw(tmp_path: Path) -> None:
    stopped = write.kept("stopped")["stored"]
    file = books.laid_out(stopped, tmp_path)
    paid = books.entries(file)
    with standing_still(), Ledger.open(f"sqlite:///{file}", create=False) as book:
        done = books.started(tmp_path, book)
        assert book.verify().ok
    assert done.resumed
    now = books.entries(file)
    assert now[: len(paid)] == paid
    # Data of an old account is known by more from now on: its rows, and that they were read.
    assert [row[1] for row in now[len(paid) :]] == ["identity", "identity", "commit"], "nothing is paid twice"
    # What the old run drew is what is published. The outputs it had not begun are drawn now, from a seed of their own.
    drawn, kept = books.figures(done.folder)["by_region"], write.kept("release")["figures"]["by_region"]
    assert write.same(kept, drawn, write.ROUNDING["release"])  # a second draw differs by far more
    assert set(books.figures(done.folder)) == {"by_region", "by_ward", "middle"}


def test_an_old_run_whose_draw_was_lost_is_refused(tmp_path: Path) -> None:
    file = books.laid_out(write.kept("stopped")["begun"], tmp_path)
    paid = books.entries(file)
    with Ledger.open(f"sqlite:///{file}", create=False) as book, pytest.raises(jobs.OutputLost, match="by_ward"):
        books.started(tmp_path, book)
    assert [row for row in books.entries(file) if row[0] <= len(paid)] == paid
    assert {row[1] for row in books.entries(file)[len(paid) :]} == {"identity"}
    assert not (tmp_path / "out").exists()
