"""The cache of plans: the same strategy from a file, and damaged, foreign or poor files that change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tacit.workloads import optimal, plan_cache
from tacit.workloads.dawa import Bucketed
from tacit.workloads.optimal import certified, gaussian_optimum, search
from tacit.workloads.strategy import Dense, Need, levels, squared_error
from tacit.workloads.workload import AllRanges, Predicates, Prefix, Ranges

NEED = Need.of(AllRanges(32))  # short, to be quick


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(plan_cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(plan_cache, "SHORTEST", 16)
    monkeypatch.setattr(optimal, "weighted_tree", lambda need, law, branching, starts=24: levels(need.size, branching))  # quick
    search.cache_clear()
    yield tmp_path
    search.cache_clear()


def again(need: Need, law: str) -> Dense:
    """The search of another process."""
    search.cache_clear()
    found = search(need, law)  # type: ignore[arg-type]
    assert isinstance(found, Dense)
    return found


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_another_process_finds_the_same_strategy_without_a_search(place: Path, law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = again(NEED, law)
    assert len(list(place.iterdir())) == 1
    for name in ("gaussian_optimum", "p_identity"):
        monkeypatch.setattr(optimal, name, lambda *_, **__: pytest.fail("it was searched for again"))
    second = again(NEED, law)
    assert (second.matrix == first.matrix).all() and second.weights == first.weights
    assert squared_error(second, NEED, law) == squared_error(first, NEED, law)  # type: ignore[arg-type]


def damaged(kind: str, path: Path) -> None:
    """Make a file unusable in one of the ways in which files break, or are meant to break."""
    with np.load(path) as file:
        key, matrix, multipliers = str(file["key"]), file["matrix"], file["multipliers"]
    if kind == "cut":
        path.write_bytes(path.read_bytes()[:1000])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "pickle":
        np.savez(path, key=np.array(key), matrix=np.array([{"a": 1}], dtype=object), multipliers=multipliers)
    else:
        if kind == "foreign":
            key = "0" * 64
        elif kind == "huge":
            matrix = matrix * 2**40
        elif kind == "real":
            matrix = matrix.astype(np.float64)
        elif kind == "singular":
            matrix = np.ones_like(matrix)
        elif kind == "poor":
            matrix = np.vstack([matrix, np.full((1, matrix.shape[1]), 2**18)])
        elif kind == "narrow":
            matrix = matrix[:, 1:]
        elif kind == "multipliers":
            multipliers = multipliers * np.nan
        elif kind == "weak":
            multipliers = multipliers * 0.5
        np.savez(path, key=np.array(key), matrix=matrix, multipliers=multipliers)


@pytest.mark.parametrize("kind", ["cut", "empty", "pickle", "foreign", "huge", "real", "singular", "poor", "narrow", "multipliers", "weak"])
def test_a_damaged_or_foreign_file_is_searched_for_anew(place: Path, kind: str) -> None:
    first = again(NEED, "gaussian")
    (path,) = place.iterdir()
    damaged(kind, path)
    second = again(NEED, "gaussian")
    assert (second.matrix == first.matrix).all()
    (path,) = place.iterdir()
    assert plan_cache.load(path.stem, 32) is not None  # and written anew


def test_a_poor_matrix_is_refused_under_laplace_noise_too(place: Path) -> None:
    first = again(NEED, "laplace")
    (path,) = place.iterdir()
    damaged("poor", path)
    assert (again(NEED, "laplace").matrix == first.matrix).all()


def test_the_certificate_holds_for_any_multipliers() -> None:
    best = gaussian_optimum(Need.of(Prefix(16)))
    assert certified(Need.of(Prefix(16)), best.multipliers) == pytest.approx(45.665356812, rel=1e-8)
    rng = np.random.default_rng(1)
    assert all(certified(Need.of(Prefix(16)), rng.uniform(0.1, 9, 16)) <= best.error for _ in range(20))


def test_questions_and_laws_have_names_of_their_own() -> None:
    rows = np.eye(130)
    needs = [
        Need.of(AllRanges(130)),
        Need.of(Prefix(130)),
        Need(((2.0, AllRanges(130)),)),
        Need.of(AllRanges(131)),
        Need.of(Ranges(130, ((0, 5),))),
        Need.of(Ranges(130, ((0, 6),))),
        Need.of(Predicates.of(rows)),
        Need.of(Predicates.of(2 * rows)),
    ]
    names = [plan_cache.digest(need, law) for need in needs for law in ("laplace", "gaussian")]  # type: ignore[arg-type]
    assert len(set(names)) == 16 and None not in names
    assert plan_cache.digest(Need.of(Bucketed.of(AllRanges(400), tuple(range(0, 401, 2)))), "laplace") is None  # came from data
    assert plan_cache.digest(Need.of(AllRanges(128)), "laplace") is None


def test_it_can_be_turned_off_and_a_folder_that_cannot_be_written_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(plan_cache.VARIABLE, "off")
    assert plan_cache.folder() is None
    plan_cache.store("a", np.eye(2, dtype=np.int64), None)
    assert plan_cache.load("a", 2) is None
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv(plan_cache.VARIABLE, str(blocked))
    plan_cache.store("a", np.eye(2, dtype=np.int64), None)
    assert plan_cache.load("a", 2) is None and list(tmp_path.iterdir()) == [blocked]
    monkeypatch.delenv(plan_cache.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert plan_cache.folder() in (tmp_path / "tacit" / "plans", plan_cache.folder())
