"""Lazy rooms find their names, say what they lack, and are not confused by modules named after what they hold."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package with the modules `laplace`, which holds a function of its own name, and `other`."""
    package = tmp_path / "lazy_room"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from tacit.lazy import lazily\n"
        "__getattr__, __dir__ = lazily(__name__, {'laplace': ('laplace', 'scale'), 'other': ('thing',)})\n"
    )
    (package / "laplace.py").write_text("scale = 2\ndef laplace(): return 'noise'\n")
    (package / "other.py").write_text("thing = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("lazy_room", "lazy_room.laplace", "lazy_room.other"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("lazy_room")


def test_a_module_is_loaded_when_its_name_is_used(room: ModuleType) -> None:
    assert {"laplace", "scale", "thing"} <= set(dir(room))
    assert "lazy_room.other" not in sys.modules
    assert room.thing is importlib.import_module("lazy_room.other").thing
    assert "lazy_room.laplace" not in sys.modules


def test_a_function_is_not_hidden_by_the_module_of_its_name(room: ModuleType) -> None:
    module = importlib.import_module("lazy_room.laplace")
    assert isinstance(module, ModuleType)
    assert room.laplace() == "noise"
    assert importlib.import_module("lazy_room.other") is room.other


def test_an_unknown_name_is_an_attribute_error(room: ModuleType) -> None:
    with pytest.raises(AttributeError, match="module 'lazy_room' has no attribute 'nothing'"):
        room.nothing  # noqa: B018
    assert not hasattr(room, "nothing")


def test_every_name_of_a_lazy_room_of_tacit_exists() -> None:
    lazy = ("accounting", "calculus", "ledger", "mechanisms", "noise", "tables")
    for name in ("tacit", *(f"tacit.{room}" for room in lazy)):
        package = importlib.import_module(name)
        named = {*package.__all__, *dir(package)} - {"officer", "report"}  # modules of the ledger, which are imported by name
        assert all(getattr(package, public) is not None for public in named)
