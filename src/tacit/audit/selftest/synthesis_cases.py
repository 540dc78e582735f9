"""Cases and mutants of synthesizers: the three uses of a budget, and the known faults of such software.

The cases attack the draws of `Measuring`: a marginal, scores, a choice, each for a person with several rows. The mutants
are faults that were found in published packages or that a change could bring in; each is caught by record and replay
(`tacit.audit.models.synthetic`) with one pair of tables, and the same synthesizer without the fault is not.

>>> [mutant.name for mutant in mutants()][:2]
['synthesis: categories from the data', 'synthesis: bins from the data']
>>> mutants()[0].caught(), mutants()[0].caught(broken=False)
('replay: control flow', '')
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Event, Guarantee
from tacit.audit.claim import Claim
from tacit.audit.mechanisms.outputs import Sampler
from tacit.audit.models.synthetic import Make, Publish, Rows, replay_synthesizer, replay_tables
from tacit.audit.selftest.case import Case, Mutant
from tacit.synthesis import (
    AIM,
    CategoryColumn,
    Level,
    LevelTree,
    Measuring,
    Method,
    Model,
    NoisyMarginal,
    NumberColumn,
    OneShot,
    Synthesizer,
    SyntheticTables,
    evaluate,
    fit,
    synthesize,
    synthesize_tables,
)

Clique = tuple[int, ...]
ROWS = 3  # of a person


# --- cases -----------------------------------------------------------------------------------------------------


def _marginal(count: int) -> Sampler:
    """n cells of one marginal are n people's counts, each with its own noise."""

    def sample(n: int) -> NDArray[np.float64]:
        measuring = Measuring((n,), lambda columns: np.full(n, count), Guarantee(mu=1), max_rows=ROWS)
        return measuring.marginal((0,), measuring.sigma_for(measuring.left)).values

    return sample


def _scores(moved: int) -> Sampler:
    """Four scores that all move at once; their sum shows it best."""

    def sample(n: int) -> NDArray[np.float64]:
        def once() -> float:
            measuring = Measuring((2,), lambda columns: np.zeros(2, dtype=np.int64), Guarantee(mu=1), max_rows=ROWS)
            sigma = measuring.sigma_for(measuring.left) * 2 * 64 * (1 + 1e-9)
            return float(measuring.noisy_scores(np.full(4, moved * 64), moved=64, sigma=sigma).sum())

        return np.array([once() for _ in range(n)])

    return sample


def _choice(first: int, second: int) -> Sampler:
    def sample(n: int) -> NDArray[np.int64]:
        def once() -> int:
            measuring = Measuring((2,), lambda columns: np.zeros(2, dtype=np.int64), Guarantee(rho=2), max_rows=ROWS)
            return measuring.choose(np.array([first, second]), moved=1, epsilon=2.0)

        return np.array([once() for _ in range(n)])

    return sample


def cases() -> list[Case]:
    """A marginal, scores and a choice, for a person with three rows."""
    choice, two = Claim.of(epsilon=2), "two candidates show half of the price: the other half needs many"
    return [
        Case("synthesis: marginal", Claim.of(mu=1), _marginal(5), _marginal(5 + ROWS), 0.75),
        Case("synthesis: scores", Claim.of(mu=1), _scores(0), _scores(ROWS), 0.5, trials=2400),
        Case("synthesis: choice", choice, _choice(0, ROWS), _choice(ROWS, 0), 0.3, trials=3000, why=two),
    ]


# --- faults ----------------------------------------------------------------------------------------------------


class Forgetful(Measuring):
    """Noise for one row in one of the three uses, though a person has more: one-ways, scores or marginals."""

    def __init__(self, like: Measuring, use: str) -> None:
        super().__init__(like.sizes, like.exact, like.budget, max_rows=like.max_rows)
        self.use = use

    def marginal(self, columns: Clique, sigma: float) -> NoisyMarginal:
        if (self.use == "one-ways" and len(columns) == 1) or (self.use == "marginals" and len(columns) > 1):
            draw = super().marginal
            found: NoisyMarginal = self._for_one_row(lambda by: draw(columns, sigma / by))
            return found
        return super().marginal(columns, sigma)

    def noisy_scores(self, scores: NDArray[np.int64], *, moved: int, sigma: float) -> NDArray[np.float64]:
        if self.use == "scores":
            draw = super().noisy_scores
            found: NDArray[np.float64] = self._for_one_row(lambda by: draw(scores, moved=moved, sigma=sigma / by))
            return found
        return super().noisy_scores(scores, moved=moved, sigma=sigma)

    def _for_one_row(self, draw: Callable[[int], Any]) -> Any:
        kept, self.max_rows = self.max_rows, 1
        try:
            return draw(kept)
        finally:
            self.max_rows = kept


class Remembering(Measuring):
    """A marginal that is measured again gets the noise it had, in another size."""

    def __init__(self, like: Measuring) -> None:
        super().__init__(like.sizes, like.exact, like.budget, max_rows=like.max_rows)

    def marginal(self, columns: Clique, sigma: float) -> NoisyMarginal:
        past = next((one for one in self.measured if one.columns == columns), None)
        if past is None:
            return super().marginal(columns, sigma)
        exact = self.exact(columns)
        again = NoisyMarginal(columns, exact + (past.values - exact) * sigma / past.sigma, sigma)
        self.measured.append(again)
        return again


class Unasked(Measuring):
    """Steps are written down, and the filter is not asked."""

    def __init__(self, like: Measuring) -> None:
        super().__init__(like.sizes, like.exact, like.budget, max_rows=like.max_rows)

    def _pay(self, event: Event) -> None:
        self.events.append(event)


@dataclass(frozen=True)
class Through:
    """A method that measures through something else."""

    method: Method
    other: Callable[[Measuring], Measuring]

    @property
    def selects(self) -> bool:
        return self.method.selects

    def fit(self, measuring: Measuring) -> Model:
        """Fit, and hand over what was measured."""
        used = self.other(measuring)
        model = self.method.fit(used)
        measuring.measured += used.measured
        measuring.events += used.events
        return model


class ExactTotals(OneShot):
    """Scores are compared with the true number of rows instead of the estimated one."""

    def fit(self, measuring: Measuring) -> Model:
        for column in range(measuring.width):
            measuring.marginal((column,), measuring.sigma_for(0.1 * measuring.whole))
        rows = measuring.exact((0,)).sum()
        pairs = list(itertools.combinations(range(measuring.width), 2))
        shares = [np.maximum(one.values, 0) / max(1.0, one.total) for one in measuring.measured]
        expected = [rows * np.outer(shares[a], shares[b]) for a, b in pairs]
        exact = [int(np.abs(64 * measuring.exact(p) - np.rint(64 * e)).sum()) for p, e in zip(pairs, expected, strict=True)]
        sigma = measuring.sigma_for(0.1 * measuring.whole) * 64 * len(pairs)
        measuring.noisy_scores(np.array(exact), moved=64, sigma=sigma)
        return fit(measuring.sizes, measuring.measured, steps=5)


@dataclass(frozen=True)
class Twice:
    """One marginal with two amounts of noise."""

    selects = False

    def fit(self, measuring: Measuring) -> Model:
        """Measure it with a third, then with the rest of the budget."""
        measuring.marginal((0, 1), measuring.sigma_for(measuring.left / 3))
        measuring.marginal((0, 1), measuring.sigma_for(measuring.left / 2))
        return fit(measuring.sizes, measuring.measured, steps=5)


@dataclass(frozen=True)
class Annealed:
    """AIM, and one more round with half the noise."""

    selects = True

    def fit(self, measuring: Measuring) -> Model:
        """All rounds, then another."""
        AIM(steps=5, last_steps=5, rounds=2).fit(measuring)
        measuring.marginal((0,), measuring.measured[-1].sigma / 2)
        return fit(measuring.sizes, measuring.measured, steps=5)


class Fussy(CategoryColumn):
    """Raises where a value was not declared or is missing."""

    def encode(self, values: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64]:
        if not {str(value) for value in values} <= {str(value) for value in self.values}:
            raise ValueError("not declared")
        return super().encode(values)


# --- the synthesizers that have them ---------------------------------------------------------------------------

PEOPLE: Rows = {
    "who": [f"p{place}" for place in range(40)],
    "home": [("a", "b", "c", "d", "e")[place % 5] for place in range(40)],
    # The same: most of what independence expects is not there, so a row more moves a score from both sides.
    "work": [("a", "b", "c", "d", "e")[place % 5] for place in range(40)],
    "age": [20.0 + place for place in range(40)],
}
PLACES = ("a", "b", "c", "d", "e")
DECLARED = (CategoryColumn("home", PLACES), CategoryColumn("work", PLACES), NumberColumn("age", (0, 30, 50, 100)))
QUICK = OneShot(steps=5)


def _made(method: str | Method = QUICK, columns: Sequence[Any] = DECLARED, most: int = ROWS, mu: float = 1) -> Make:
    return lambda rows: synthesize(rows, columns, mu=mu, method=method, person="who", max_rows=most)


def from_values(rows: Rows) -> Synthesizer:
    """The categories are those that occur."""
    found = tuple(sorted({str(value) for value in rows["home"]}))
    return _made(columns=(CategoryColumn("home", found or ("none",)), *DECLARED[1:]))(rows)


def from_extremes(rows: Rows) -> Synthesizer:
    """Bins lie between the smallest and the largest value."""
    known = [value for value in rows["age"] if isinstance(value, float) and abs(value) < 1e6] or [0.0]
    edges = np.linspace(min(known), max(known) + 1, 4)
    return _made(columns=(*DECLARED[:2], NumberColumn("age", tuple(edges.tolist()))))(rows)


def as_many_rows(rows: Rows) -> Synthesizer:
    """As many made-up rows as there are rows."""
    made = _made()(rows)
    return replace(made, model=replace(made.model, total=float(len(rows["home"]))))


def not_empty(rows: Rows) -> Synthesizer:
    """An empty table is refused."""
    if not len(rows["home"]):
        raise ValueError("the table is empty")
    return _made()(rows)


def with_its_distance(rows: Rows) -> tuple[Synthesizer, float]:
    """The distance to the private rows is published beside the synthetic ones."""
    made = _made()(rows)
    return made, evaluate({name: rows[name] for name in ("home", "work")}, made.sample(50), columns=DECLARED[:2]).distance(1)


@dataclass(frozen=True)
class ReplayedMutant(Mutant):
    """A fault of a synthesizer, caught by record and replay on the pairs that have `on` in their label."""

    on: str = ""

    def caught(self, *, error: float = 1e-6, seed: int | None = None, broken: bool = True) -> str:
        """By which kind of difference; empty where there is none. Nothing here is a matter of chance."""
        function = self.broken if broken else self.right
        found = replay_synthesizer(function, PEOPLE, person="who", crowd=50, only=self.on, seed=seed or 0)
        certain = next((one for one in found if one.certain), None)
        return "" if certain is None else f"replay: {certain.kind}"


def replayed_mutant(name: str, broken: Publish, right: Make, on: str, fault: str) -> ReplayedMutant:
    """A fault that record and replay shows on one pair of tables."""
    return ReplayedMutant(name, broken, right, (None, None), Claim.of(mu=1), 1, fault, on=on)


def _mutant(name: str, broken: Publish, right: Make, on: str, fault: str) -> ReplayedMutant:
    return replayed_mutant(f"synthesis: {name}", broken, right, on, fault)


def _forgets(use: str) -> ReplayedMutant:
    broken = _made(Through(QUICK, lambda measuring: Forgetful(measuring, use)))
    fault = f"Noise for one row on {use}, where a person has three."
    return _mutant(f"max_rows not in {use}", broken, _made(), "50 rows", fault)


# --- tables that belong together -------------------------------------------------------------------------------

LEVELS = (
    Level("people", DECLARED[:1], key="who"),
    Level("visits", DECLARED[1:2], of="people", by="who", most=3, key="visit"),
    Level("drugs", [CategoryColumn("drug", ("x", "y"))], of="visits", by="visit", most=2),
)
TABLES: Mapping[str, Rows] = {
    "people": {"who": PEOPLE["who"], "home": PEOPLE["home"]},
    "visits": {"who": [*PEOPLE["who"], *PEOPLE["who"]], "visit": list(range(80)), "work": [*PEOPLE["work"], *PEOPLE["work"]]},
    "drugs": {"visit": [place % 60 for place in range(120)], "drug": ["x", "y", "y"] * 40},
}


def in_levels(tables: Mapping[str, Rows]) -> SyntheticTables:
    """Three tables, as they should be made up."""
    return synthesize_tables(tables, LEVELS, mu=1, method=QUICK)


def for_one_parent(tables: Mapping[str, Rows]) -> SyntheticTables:
    """Noise for the rows of one visit, where a person has three visits."""
    with patch.object(LevelTree, "reach", lambda tree, level: level.most):
        return in_levels(tables)


@dataclass(frozen=True)
class ReplayedTables(Mutant):
    """A fault of several tables, caught by record and replay."""

    def caught(self, *, error: float = 1e-6, seed: int | None = None, broken: bool = True) -> str:
        """By which kind of difference; empty where there is none. Nothing here is a matter of chance."""
        function = self.broken if broken else self.right
        found = replay_tables(function, TABLES, LEVELS, crowd=50, only="50 rows comes", seed=seed or 0)
        certain = next((one for one in found if one.certain), None)
        return "" if certain is None else f"replay: {certain.kind}"


def mutants() -> list[Mutant]:
    """Each fault with the pair of tables on which it shows."""
    right, twice, annealed = _made(), _made(Twice()), _made(AIM(steps=5, last_steps=5, rounds=2))
    fussy = _made(columns=(Fussy("home", PLACES), *DECLARED[1:]))
    return [
        _mutant("categories from the data", from_values, right, "a row of str", "Categories are those that occur."),
        _mutant("bins from the data", from_extremes, right, "last person", "Bins end at the largest value."),
        _mutant("as many rows as the data", as_many_rows, right, "first person", "The number of rows is counted."),
        *(_forgets(use) for use in ("one-ways", "scores", "marginals")),
        _mutant(
            "scores against the true total", _made(ExactTotals(), DECLARED[:2], 1, 50), _made(QUICK, DECLARED[:2], 1, 50),
            "a copy of",
            "What is expected of a pair is scaled to the true number of rows.",
        ),
        _mutant(
            "noise once for two measurements", _made(Through(Twice(), Remembering)), twice, "first person",
            "A marginal is measured twice and its noise drawn once.",
        ),
        _mutant(
            "annealing beyond the filter", _made(Through(Annealed(), Unasked)), annealed, "first person",
            "One more round with half the noise, which the filter was not asked for.",
        ),
        _mutant("an evaluation unpaid", with_its_distance, right, "first person", "A figure for the curator is published."),
        _mutant("a missing value raises", fussy, right, "NoneType", "A missing value ends in an error."),
        _mutant("an undeclared value raises", fussy, right, "a row of str", "A value outside the list ends in an error."),
        _mutant("an empty table is refused", not_empty, right, "nothing", "Whether there is a row at all is told."),
        ReplayedTables(
            "synthesis: noise for one parent's rows", for_one_parent, in_levels, (None, None), Claim.of(mu=1), 1,
            "A third level has noise for the rows of one parent, where a person has three.",
        ),
    ]
