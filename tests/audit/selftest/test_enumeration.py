"""Every mechanism, estimator and sampler of the package is attacked by some case: found by enumeration, seen by tracing the draws.

The classes are read from the package, not from a list, and a case counts for a class if drawing one output executes its code.
So a new one without an attack fails here, whatever the case is called.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FrameType, ModuleType

import pytest

import tacit.noise
from tacit.audit.selftest import Case, estimator_cases, federated_cases, mechanism_cases, selection_cases, training

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


def codes_of_draws(cases: Callable[[], list[Case]], draws: int = 1) -> frozenset[CodeType]:
    """The code that runs while cases are made and each draws a few outputs on either input."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    sys.setprofile(note)
    try:  # some cases bind their mechanism when they are made, others when they draw
        for case in cases():
            for draw in (case.first, case.second):
                draw(draws)
    finally:
        sys.setprofile(None)
    return frozenset(seen)


@cache
def executed() -> frozenset[CodeType]:
    """By the cases of mechanisms."""
    return codes_of_draws(lambda: [*mechanism_cases.cases(), *selection_cases.cases()])


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


# --- estimators ------------------------------------------------------------------------------------------------------------------


def unattacked_estimators() -> set[str]:
    """Estimators of `tacit.learning` whose own `fit`, or that of the class they are made from, no case executes."""
    from tacit.learning import PrivateEstimator

    everything = {name.removeprefix("learning."): kind for name, kind in classes("learning", PrivateEstimator).items()}
    abstract = {kind for kind in everything.values() if "fit" not in {n for base in kind.__mro__ for n in vars(base)}}
    fitted = {case.name.removeprefix("learning: ") for case in estimator_cases.cases()}
    above = {base for kind in everything.values() for base in kind.__mro__[1:]}
    return {name for name, kind in everything.items() if kind not in above | abstract and name not in fitted}


def test_every_estimator_is_attacked() -> None:
    assert len(estimator_cases.estimators()) >= 19 and unattacked_estimators() == set()
    ran = codes_of_draws(estimator_cases.cases)
    asleep = [name for name, kind in estimator_cases.estimators().items() if kind.fit.__code__ not in ran]
    assert asleep == []


def test_a_new_estimator_without_an_attack_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.learning import GaussianNB

    class Unattacked(GaussianNB):
        pass

    room = importlib.import_module("tacit.learning.estimator")
    Unattacked.__module__ = room.__name__
    monkeypatch.setattr(room, "Unattacked", Unattacked, raising=False)
    assert "Unattacked" in unattacked_estimators()


# --- samplers --------------------------------------------------------------------------------------------------------------------

#: Public functions of `tacit.noise` that draw nothing of their own.
NO_DRAWS = {"exp_bounds", "from_lattice", "granularity_for", "is_private", "odds_bits", "rough_exp", "round_to_lattice", "steps_apart"}
#: Samplers that no case draws from, each with the reason. The lists may only shrink.
NOISE_ELSEWHERE = {"poisson": "a share of the noise of a sum, `local.noise_shares`: alone it hides nothing, and Skellam is two of it"}
RECORDS_ELSEWHERE = {"DrawnByOne": "hands on what FixedSize has drawn to the processes with the records: tests/deep/test_distributed.py"}


def test_every_sampler_of_records_is_attacked() -> None:
    """What can draw batches and say their event, in `tacit.deep`."""
    found = {
        name: kind
        for module in modules("deep")
        for name, kind in vars(module).items()
        if isinstance(kind, type) and kind.__module__ == module.__name__ and {"batches", "event"} <= set(vars(kind))
        and not getattr(kind, "_is_protocol", False)
    }  # fmt: skip
    assert {"PoissonBatches", "FixedSize", "Allocation", "FullBatch"} <= set(found)
    ran = codes_of_draws(training.cases, 4)
    assert {name for name, kind in found.items() if kind.batches.__code__ not in ran} == set(RECORDS_ELSEWHERE)


def test_every_sampler_of_noise_is_attacked() -> None:
    draws = {name: getattr(tacit.noise, name) for name in tacit.noise.__all__ if inspect.isfunction(getattr(tacit.noise, name))}
    assert set(draws) >= NO_DRAWS
    ran = executed() | codes_of_draws(lambda: [*mechanism_cases.noise_cases(), *federated_cases.cases(), *training.cases()], 4)
    asleep = {name for name, function in draws.items() if name not in NO_DRAWS and function.__code__ not in ran}
    assert asleep == set(NOISE_ELSEWHERE)
