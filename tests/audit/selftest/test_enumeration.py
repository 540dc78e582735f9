"""Every mechanism of the package is attacked by some case: found by enumeration, seen by tracing the draws.

The classes are read from the package, not from a list, and a case counts for a class if drawing one output executes its code.
So a new mechanism without an attack fails here, whatever the case is called.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from types import CodeType, FrameType, ModuleType

import pytest

from tacit.audit.selftest import Case, mechanism_cases, selection_cases

# Classes that no case draws from, each with the reason. The list may only shrink.
WITHOUT: dict[str, str] = {}


def modules(room: str) -> Iterator[ModuleType]:
    package = importlib.import_module(f"tacit.{room}")
    yield package
    for found in pkgutil.walk_packages(package.__path__, f"tacit.{room}."):
        if not found.name.rsplit(".", 1)[-1].startswith(("selftest", "__")):
            yield importlib.import_module(found.name)


def classes(room: str, base: type) -> dict[str, type]:
    """Public classes of a room below a base, without those that only others are made from."""
    found = {
        f"{room}.{name}": kind
        for module in modules(room)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, base) and kind.__module__ == module.__name__ and not name.startswith("_")
    }
    return {name: kind for name, kind in found.items() if not inspect.isabstract(kind) and kind is not base}


def codes(kind: type) -> set[CodeType]:
    members = [member.__func__ if isinstance(member, (staticmethod, classmethod)) else member for member in vars(kind).values()]
    return {member.__code__ for member in members if inspect.isfunction(member) and member.__name__ != "__post_init__"}


@cache
def executed() -> frozenset[CodeType]:
    """The code that runs while every case of the mechanisms draws a single output on either input."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    sys.setprofile(note)
    try:  # some cases bind their mechanism when they are made, others when they draw
        cases: list[Case] = [*mechanism_cases.cases(), *selection_cases.cases()]
        for case in cases:
            for draw in (case.first, case.second):
                draw(1)
    finally:
        sys.setprofile(None)
    return frozenset(seen)


def unattacked() -> dict[str, type]:
    from tacit.mechanisms.mechanism import Mechanism

    everything = classes("mechanisms", Mechanism)
    assert len(everything) > 15, "the enumeration is broken"
    return {name: kind for name, kind in everything.items() if codes(kind) and not codes(kind) & executed()}


def test_every_mechanism_is_attacked() -> None:
    found = set(unattacked())
    assert found - set(WITHOUT) == set(), "write a case in audit/selftest for these, or say in WITHOUT why there is none"
    assert set(WITHOUT) - found == set(), "these are attacked now: take them off the list"


def test_a_new_mechanism_without_an_attack_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.mechanisms.mechanism import Mechanism

    class Unattacked(Mechanism):
        def bind(self, space: object) -> object:
            raise NotImplementedError

    room = importlib.import_module("tacit.mechanisms.mechanism")
    Unattacked.__module__ = room.__name__
    monkeypatch.setattr(room, "Unattacked", Unattacked, raising=False)
    assert "mechanisms.Unattacked" in unattacked()
