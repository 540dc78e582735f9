"""The work folder: an output is begun once, and comes back as it was stored."""

from __future__ import annotations

import datetime
import stat
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.release import work
from tacit.release.errors import JobError, OutputLost
from tacit.release.work import Work
from tacit.tables.released import Released

_KEYS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(), st.dates(), st.datetimes(), st.decimals(allow_nan=False, allow_infinity=False)
)


def test_the_folder_is_private_and_found_again(tmp_path: Path) -> None:
    first = Work.beside(tmp_path / "out", "abc")
    assert stat.S_IMODE(first.folder.stat().st_mode) == 0o700
    assert Work.left_by(tmp_path / "out") and Work.beside(tmp_path / "out", "abc") == first
    with pytest.raises(JobError, match="another version"):
        Work.beside(tmp_path / "out", "abd")
    first.remove()
    assert not Work.left_by(tmp_path / "out")


def test_an_output_is_begun_once(tmp_path: Path) -> None:
    found = Work.beside(tmp_path / "out", "abc")
    found.begin("a", 3)
    assert found.lost(["a", "b"]) == ("a",)
    with pytest.raises(OutputLost):
        found.begin("a", 3)
    with pytest.raises(JobError, match="once under a reservation"):
        found.again("a", 3)
    found.again("a", 5)
    found.store("a", Released([()], (np.array([7], dtype=object),)), True)
    assert found.lost(["a", "b"]) == () and found.drawn("a")[1:] == (True, 5)


@settings(max_examples=40)
@given(st.lists(st.tuples(_KEYS, _KEYS), max_size=4), st.lists(st.integers(-(2**90), 2**90), max_size=4))
def test_what_is_stored_comes_back(groups: list[tuple[object, object]], sums: list[int]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = Work.beside(Path(folder) / "out", "abc")
        found.begin("a", 1)
        found.store("a", Released(list(groups), (np.array(sums, dtype=object),)), False)
        released, private, entry = found.drawn("a")
    assert released.groups == groups and released.sums[0].tolist() == sums and (private, entry) == (False, 1)
    assert [type(value) for group in released.groups for value in group] == [type(value) for group in groups for value in group]


def test_marked_keys() -> None:
    for value in (datetime.date(2026, 1, 31), datetime.datetime(2026, 1, 31, 12), Decimal("1.50")):
        assert work._untyped(work._typed(value)) == value


def test_a_damaged_folder_is_said_to_be_one(tmp_path: Path) -> None:
    Work.beside(tmp_path / "out", "abc")
    (tmp_path / ".out.work" / "run.json").write_text("{")
    with pytest.raises(JobError, match=r"run.json"):
        Work.beside(tmp_path / "out", "abc")


def test_a_folder_that_cannot_be_made_is_an_error_of_the_job(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"publication.folder"):
        Work.beside(tmp_path / "absent" / "out", "abc")
