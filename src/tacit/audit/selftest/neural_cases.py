"""Mutants of neural synthesizers: rows that reach what is published past the noise, and votes that are not paid for.

Every record takes part in every step here, so that nothing but noise is random; then record and replay on one pair of
tables tells each fault for certain (`tacit.audit.models.synthetic`), and the same method without it is clean.

>>> [mutant.name for mutant in mutants()][0]
'neural: a critic without noise'
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.accounting import Event
from tacit.audit.models.synthetic import Make, patched
from tacit.audit.selftest.case import Mutant
from tacit.audit.selftest.synthesis_cases import DECLARED, replayed_mutant
from tacit.synthesis import Neural, PateGan, Synthesizer, synthesize

TINY = Neural("dpgan", steps=6, parts=1, width=4, code=2, rate=0.1)
VOTED = PateGan(rounds=3, questions=6, per_teacher=1, width=4, code=2)


def _inside(module: str) -> Any:
    """A module of synthesis: a fault sits inside a room, not at its door."""
    return importlib.import_module(f"tacit.synthesis.{module}")


def _made(method: Neural | PateGan) -> Make:
    def make(rows: Any) -> Synthesizer:
        with _partitioned():
            return synthesize(rows, DECLARED[:2], epsilon=1, delta=1e-6, method=method, person="who", max_rows=1)

    return make


@contextmanager
def _partitioned(shared: bool = False) -> Iterator[None]:
    """People go to teachers by their numbers, one outcome of the chance that sends them; `shared`, each to all teachers."""
    def parts(people: Any, teachers: int) -> list[Any]:
        whose = np.asarray(people)
        return [np.flatnonzero(np.full(len(whose), True) if shared else whose % teachers == one) for one in range(teachers)]

    with patched(_inside("pate_gan"), "partition", parts):
        yield


def teachers_share(rows: Any) -> Synthesizer:
    """Every teacher sees all rows (as was found in a published package)."""
    with _partitioned(shared=True):
        return synthesize(rows, DECLARED[:2], epsilon=1, delta=1e-6, method=VOTED, person="who", max_rows=1)


def critic_without_noise(rows: Any) -> Synthesizer:
    """The critic learns real rows by plain gradients."""
    import tacit.deep

    with patched(tacit.deep, "make_private", _plain):
        return _made(TINY)(rows)


class _Plain:
    """A run of plain steps where a private one belongs."""

    def __init__(self, rows: Any, steps: int) -> None:
        self.rows, self.steps = rows, steps

    def remaining(self) -> int:
        return self.steps

    @property
    def loader(self) -> Iterator[Any]:
        while self.steps:
            self.steps -= 1
            yield (self.rows,)

    def detach(self) -> None:
        pass


def _plain(model: Any, optimizer: Any, data: Any, *, steps: int, **_: Any) -> _Plain:
    return _Plain(data, steps)


def maker_from_the_rows(rows: Any) -> Synthesizer:
    """Beside the noisy critic, the maker's own copy takes plain steps on real rows."""
    import torch

    maker = _inside("networks").Makes
    learn = maker.learn
    columns = [torch.from_numpy(column.encode(rows[column.name])) for column in DECLARED[:2]]
    seen = torch.stack(columns, dim=1)

    def peeking(makes: Any, learner: Any) -> None:
        learn(makes, learner)
        if len(seen):
            makes.copied.zero_grad()
            makes.copied(seen).mean().backward()
            with torch.no_grad():
                for parameter in makes.copied.parameters():
                    if parameter.grad is not None:
                        parameter -= 0.1 * parameter.grad
            told = makes.cells.of_class(torch.zeros(9, dtype=torch.long))
            makes.copied.against(makes._made(told), told).backward()
            makes.making.step()

    with patched(maker, "learn", peeking):
        return _made(TINY)(rows)


@dataclass(frozen=True)
class Unpaid(PateGan):
    """Pays for the votes of one round, and asks in all of them."""

    def learning(self, noise: float) -> Event:
        return replace(VOTED, rounds=1).learning(noise)


def as_many_as_there_are(rows: Any) -> Synthesizer:
    """Gradients are divided by the true number of rows, so the maker follows it."""
    door = _inside("neural_synthesizer")
    known_from = door.known_from

    def counted(sizes: Sequence[int], measured: Any, target: Any) -> Any:
        return replace(known_from(sizes, measured, target), total=float(len(rows["home"])))

    with patched(door, "known_from", counted):
        return _made(TINY)(rows)


def mutants() -> list[Mutant]:
    """Each fault with the pair of tables on which it shows. Needs torch."""
    for module in ("neural_synthesizer", "pate_gan"):
        _inside(module)  # what is to be watched must be loaded
    right, voted, last = _made(TINY), _made(VOTED), "last person"
    return [
        replayed_mutant(f"neural: {name}", broken, without, on, fault)
        for name, broken, without, on, fault in (
            ("a critic without noise", critic_without_noise, right, last, "Real rows reach the critic by plain gradients."),
            ("a maker that sees rows", maker_from_the_rows, right, last, "The maker learns from a critic that saw rows."),
            ("rows counted", as_many_as_there_are, right, last, "The number of rows is counted, not estimated."),
            ("teachers share rows", teachers_share, voted, last, "Every teacher sees all rows, so all votes move."),
            ("votes unpaid", _made(Unpaid(**vars(VOTED))), voted, last, "One round of votes is paid for, all are asked."),
        )
    ]

