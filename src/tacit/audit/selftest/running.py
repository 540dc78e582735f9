"""The whole attack suite on Tacit itself: every case under its claim and at its floor, every mutant caught.

`run` tries everything and returns a `SelfTest`, as text, JSON or a page. Nothing in it is a proof.

>>> report = run(quick=True, only="noise: discrete", mutants_too=False)
>>> report.passed, [outcome.case.name for outcome in report.outcomes]
(True, ['noise: discrete Laplace', 'noise: discrete Gaussian'])

**Confidence.** Each case has ERROR divided by the number of cases as its chance to call a right mechanism broken, whatever is selected: a
right Tacit is called broken anywhere with probability at most ERROR, one in a million, by Bonferroni. With the fixed seeds of the
default the answer is the same on every run; `fresh` draws from the operating system, and then that probability is about this very run.
A case can also stay below its floor. That is no statement about privacy but about the attack: it has become weaker, or the noise larger.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tacit.accounting import NoOp
from tacit.audit.claim import Claim
from tacit.audit.page import Page, finite, number
from tacit.audit.selftest import loop_cases, mechanism_cases, mutants, reading_mutants, selection_cases, training
from tacit.audit.selftest.case import Case, Mutant, Outcome

ERROR = 1e-6  # that a right Tacit is called broken
SEED = 20_260_000
Progress = Callable[[str, int, int], None]  # what is tried, its number, how many there are


@dataclass(frozen=True)
class Part:
    """Cases and mutants that need the same packages."""

    name: str
    needs: tuple[str, ...]
    extra: str
    cases: Callable[[], list[Case]]
    mutants: Callable[[], list[Mutant]]

    @property
    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [package for package in self.needs if importlib.util.find_spec(package) is None]


def parts() -> list[Part]:
    """Everything that is tried, by what it needs."""

    def table_mutants() -> list[Mutant]:
        from tacit.audit.selftest import ledger_cases, table_cases, type_cases  # load the engine of tables

        return [*table_cases.mutants(), *type_cases.mutants(), *ledger_cases.mutants()]

    def tables() -> list[Case]:
        from tacit.audit.selftest import table_cases

        return table_cases.cases()

    def synthesis() -> list[Case]:
        from tacit.audit.selftest import synthesis_cases

        return synthesis_cases.cases()

    def synthesis_mutants() -> list[Mutant]:
        from tacit.audit.selftest import synthesis_cases

        return synthesis_cases.mutants()

    def neural_mutants() -> list[Mutant]:
        from tacit.audit.selftest import neural_cases

        return neural_cases.mutants()

    def local() -> list[Case]:
        from tacit.audit.selftest import local_cases

        return local_cases.cases()

    def federated() -> list[Case]:
        from tacit.audit.selftest import federated_cases

        return federated_cases.cases()

    def federated_mutants() -> list[Mutant]:
        from tacit.audit.selftest import federated_cases

        return federated_cases.mutants()

    def local_mutants() -> list[Mutant]:
        from tacit.audit.selftest import local_cases

        return local_cases.mutants()

    def learning() -> list[Case]:
        from tacit.audit.selftest import estimator_cases

        return [*training.learning_cases(), *estimator_cases.cases()]

    def choices() -> list[Case]:
        return [*mechanism_cases.cases(), *selection_cases.cases()]

    def mechanism_mutants() -> list[Mutant]:
        return [*mutants.bulk_mutants(), *training.mutants(), *loop_cases.mutants(), *reading_mutants.mutants()]

    return [
        Part("noise", (), "", mechanism_cases.noise_cases, lambda: mutants.MUTANTS),
        Part("mechanisms", (), "", choices, mechanism_mutants),
        Part("tables", ("duckdb", "pyarrow"), "", tables, table_mutants),
        Part("synthesis", ("duckdb", "pyarrow"), "", synthesis, synthesis_mutants),
        Part("local", ("pyarrow",), "", local, local_mutants),
        Part("federated", (), "", federated, federated_mutants),
        Part("training", ("torch", "cryptography"), "deep", lambda: [*training.cases(), *loop_cases.cases()], list),
        Part("neural synthesis", ("torch", "cryptography", "pyarrow"), "torch", list, neural_mutants),
        Part("learning", ("sklearn",), "learning", learning, reading_mutants.learning_mutants),
    ]


@dataclass(frozen=True)
class Catch:
    """A mutant, and by what it was caught; nothing where it escaped."""

    mutant: Mutant
    by: str


@dataclass(frozen=True)
class SelfTest:
    """What was tried on Tacit and what was found. It is no proof."""

    outcomes: tuple[Outcome, ...]
    catches: tuple[Catch, ...]
    skipped: tuple[str, ...]
    quick: bool
    fresh: bool
    error: float
    seconds: float

    @property
    def failures(self) -> list[str]:
        """Everything that is not as it should be, in words."""
        found = [f"{outcome.case.name}: {outcome.reason}" for outcome in self.outcomes if not outcome.passed]
        return found + [f"{catch.mutant.name}: escaped" for catch in self.catches if not catch.by]

    @property
    def passed(self) -> bool:
        """Whether every case kept its claim and reached its floor, and every mutant was caught; false where nothing was tried."""
        return not self.failures and bool(self.outcomes or self.catches)

    @property
    def headline(self) -> str:
        """One line."""
        counts = ((len(self.outcomes), "case"), (len(self.catches), "mutant"))
        tried = ", ".join(f"{count} {word}{'s' if count != 1 else ''}" for count, word in counts) + f", {self.seconds:.0f} s"
        if self.passed:
            return f"no attack beat a claim, every floor was reached, every mutant was caught ({tried})"
        return f"FAILED: {'; '.join(self.failures) or 'nothing was tried'} ({tried})"

    @property
    def confidence(self) -> str:
        """How far the verdicts can be trusted."""
        drawn = "noise drawn afresh" if self.fresh else "fixed seeds: the same on every run"
        return f"a right Tacit is called broken with probability at most {self.error:g} over all cases together ({drawn})"

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "passed": self.passed,
            "quick": self.quick,
            "fresh": self.fresh,
            "error": self.error,
            "seconds": round(self.seconds, 3),
            "cases": [
                {
                    "case": o.case.name,
                    "claim": o.case.claim.to_json(),
                    "measure": o.verdict.evidence.measure,
                    "delta": o.verdict.evidence.delta,
                    "claimed": finite(o.verdict.permitted),
                    "found": finite(o.verdict.evidence.lower),
                    "share": o.verdict.share,
                    "floor": o.floor,
                    "why": o.case.why,
                    "attack": o.verdict.evidence.attack,
                    "samples": o.verdict.evidence.trials,
                    "broken": o.verdict.broken,
                    "passed": o.passed,
                }
                for o in self.outcomes
            ],
            "mutants": [{"mutant": c.mutant.name, "fault": c.mutant.what, "caught": bool(c.by), "by": c.by} for c in self.catches],
            "skipped": list(self.skipped),
        }

    def tables(self) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
        """Title, heads and rows: the cases, and the mutants."""
        cases: list[tuple[str, ...]] = [
            (o.case.name, claimed(o), number(o.verdict.evidence.lower), f"{o.verdict.share:.0%}", f"{o.floor:.0%}",
             o.reason.upper() or "ok")
            for o in self.outcomes
        ]
        faults: list[tuple[str, ...]] = [(c.mutant.name, c.mutant.what, c.by or "ESCAPED") for c in self.catches]
        return [
            ("Cases", ("case", "claimed", "found", "share", "floor", ""), cases),
            ("Mutants", ("mutant", "fault", "caught by"), faults),
        ]

    def page(self) -> Page:
        """The page of the self-test."""
        return Page(
            "Tacit itself",
            Claim(NoOp(), text="for every case, the event that its own code charges"),
            tuple(outcome.verdict for outcome in self.outcomes),
            findings=tuple(self.failures),
            warnings=tuple(f"not tried: {text}" for text in self.skipped),
            how=(self.headline, self.confidence, *(f"{o.case.name}: {o.case.why}" for o in self.outcomes if o.case.why)),
            broken=not self.passed,
            tables={title: [head, *rows] for title, head, rows in self.tables()},
        )


def claimed(outcome: Outcome) -> str:
    """What a case permits, in its currency: epsilon at a delta, or mu."""
    found = outcome.verdict.evidence
    sign = "μ" if found.measure == "mu" else "ε"
    return f"{sign} {number(outcome.verdict.permitted)}" + (f" at δ {found.delta:g}" if found.delta and found.measure == "epsilon" else "")


def run(
    *, quick: bool = False, fresh: bool = False, only: str = "", mutants_too: bool = True, progress: Progress | None = None,
    more: Sequence[Part] = (),
) -> SelfTest:
    """Attack every case and every mutant whose name contains `only`; `progress` hears of each before it is tried.

    `more` are the parts of rooms below this one, which it cannot know: the command hands them over.
    """
    began = time.perf_counter()
    every = [*parts(), *more]
    present = [part for part in every if not part.missing]
    skipped = [
        f"{part.name} needs {', '.join(part.missing)}" + (f": pip install 'tacit[{part.extra}]'" if part.extra else "")
        for part in every
        if part.missing
    ]
    listed = [case for part in present for case in ([] if quick and part.name == "learning" else part.cases())]
    faults = [mutant for part in present for mutant in part.mutants()] if mutants_too else []
    error = ERROR / max(1, len(listed))
    # What is attacked elsewhere is still tried where it is asked for by name.
    elsewhere = [case for case in listed if case.elsewhere and quick and not only]
    wanted = [case for case in listed if only in case.name and case not in elsewhere and not (quick and case.slow)]
    hunted = [mutant for mutant in faults if only in mutant.name]
    total = len(wanted) + len(hunted)
    if quick:
        skipped.append("estimators, whose fits take long: run without --quick")
        skipped += [f"{case.name!r}, whose code is attacked as {' and '.join(map(repr, case.elsewhere))}" for case in elsewhere]
    outcomes = []
    for i, case in enumerate(wanted):
        if progress is not None:
            progress(case.name, i, total)
        outcomes.append(case.tried(error=error, seed=None if fresh else _seed(case.name), quick=quick))
    catches = []
    for i, mutant in enumerate(hunted):
        if progress is not None:
            progress(mutant.name, len(wanted) + i, total)
        seed = None if fresh else _seed(mutant.name)
        mutants.reset(seed)
        catches.append(Catch(mutant, mutant.caught(error=error, seed=seed)))
    return SelfTest(tuple(outcomes), tuple(catches), tuple(skipped), quick, fresh, ERROR, time.perf_counter() - began)


def _seed(name: str) -> int:
    """A seed of its own for every name, so that a new case changes no other."""
    return SEED + sum((i + 1) * ord(letter) for i, letter in enumerate(name))
