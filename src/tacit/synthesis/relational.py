"""Tables that belong together: people, their visits, and what was done in each, made up with keys that fit.

A `Level` is a table: the first is of people, the others name the level they belong to, the column that holds its key,
and how many rows one of its rows may have. The unit of privacy is the person with all her rows on all levels. Every
made-up row has a parent that is there, no parent has more rows than declared, and the number of rows of a parent is a
measured column of it. That column may reach further (`up_to`) than the rows that are counted (`most`): how many rows she has is
one value of a person, and costs no more noise for being large.

>>> from tacit.noise import test_mode
>>> from tacit.synthesis import CategoryColumn
>>> patients = {"id": list(range(300)), "sex": ["f", "m", "f"] * 100}
>>> visits = {"patient": [place // 2 for place in range(500)], "ward": ["A", "B"] * 250}
>>> levels = [Level("patients", [CategoryColumn("sex", ("f", "m"))], key="id"),
...           Level("visits", [CategoryColumn("ward", ("A", "B"))], of="patients", by="patient", most=3)]
>>> with test_mode(1):
...     made = synthesize_tables({"patients": patients, "visits": visits}, levels, epsilon=1, delta=1e-9)
...     tables = made.sample()
>>> {name: table.column_names for name, table in tables.items()}
{'patients': ['id', 'sex'], 'visits': ['patient', 'ward']}
>>> set(tables["visits"]["patient"].to_pylist()) <= set(tables["patients"]["id"].to_pylist())
True

How it works: each level has a model of its own, of its columns, the numbers of rows below each of its rows, and the
columns of its parents, as far as they fit (`CONTEXT`), numbers in fewer bins. How often these values of the parents
occur follows from the tables made up so far, so nothing is paid for it: the budget of a level goes into how its
rows depend on them. Rows of one parent are independent given what is known of the parent.

Guarantee
    Statement: all measurements together cost at most `event_` for a person who comes or goes with all rows that lead
    to her alone along the keys.
    Conditions: a person's key is in one row of the first table (of several, one is kept), and rows of lower levels
    belong to every row whose key they name; each takes at most `most` of them, drawn at random. A row that leads to
    no person is left out. A row whose key two people's rows have by mistake is both people's: it is counted for each,
    and stays as long as one of them does.
    Proved in: a counted row of level l is counted below one row of the level above, so a person has at most the product of
    the caps in level l, each counted in one cell: `Measuring` with max_rows equal to that product. Which rows are kept
    depends on the children of one parent alone, and two parents with one key do not change what the
    other has. How many children a counted row has, all of them, is one cell of that row, whatever `up_to` is; it moves with the person's
    rows, and so does the cell of the person's own row, and no other's. The levels' budgets add up, in mu squared or rho, to the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Event, Guarantee, ParameterError
from tacit.exact import Typed
from tacit.ledger import Account, paying
from tacit.noise import permutation
from tacit.parameters import count
from tacit.synthesis.bins import Bought, budget_beside, shares_of
from tacit.synthesis.columns import Cells, Column, DateColumn, NumberColumn, Values, same_text
from tacit.synthesis.constraints import Constraint, possible
from tacit.synthesis.direct import Direct
from tacit.synthesis.estimate import Model, NoisyMarginal
from tacit.synthesis.histogram import Histogram
from tacit.synthesis.measure import Counts, Measuring, check_sizes
from tacit.synthesis.sample import counted, generator, sampled
from tacit.synthesis.synthesizer import BINS, Method, Synthesizer, column_of, decoded, method_named, taken, values_of
from tacit.synthesis.synthetic_rows import SyntheticRows
from tacit.tables import Session

if TYPE_CHECKING:
    from tacit.synthesis.synthesizer import MarginalCell

#: The most combinations of the parents' values that a level's model knows.
CONTEXT = 4096
#: Levels below one another: people, their rows, and rows of these.
DEPTH = 3
#: The largest number of rows that one parent may be given.
MOST_MADE = 1_000


@dataclass(frozen=True)
class Level:
    """One table. The first level has a `key` and neither `of` nor `by`; the others belong to a level `of` before them.

    `by` is the column that holds the parent's key, `most` how many rows of one parent are counted, `up_to` how many are made
    (as many, if it is left out), and `key` the column with a row's own key, which levels below need. The first level may have
    no table of its own: with `rows_of` its rows are the people of that level's table, and its columns are taken from there,
    where the rows of one person should agree. `weight` is the level's share of the budget; by default the cube root of the
    rows that a person may have.
    """

    name: str
    columns: tuple[Any, ...]
    key: str | None = None
    of: str | None = None
    by: str | None = None
    most: int = 1
    rows_of: str | None = None
    constraints: tuple[Constraint, ...] = ()
    weight: float | None = None
    up_to: int = 1

    def __init__(
        self, name: str, columns: Sequence[Any], *, key: str | None = None, of: str | None = None, by: str | None = None,
        most: int = 1, rows_of: str | None = None, constraints: Sequence[Constraint] = (), weight: float | None = None,
        up_to: int | None = None,
    ) -> None:
        given: list[tuple[str, Any]] = [("name", name), ("columns", tuple(columns)), ("key", key), ("of", of), ("by", by)]
        given += [("most", count("most", most)), ("rows_of", rows_of), ("constraints", tuple(constraints)), ("weight", weight)]
        given.append(("up_to", count("most", most) if up_to is None else count("up_to", up_to)))
        for field, value in given:
            object.__setattr__(self, field, value)


@dataclass(frozen=True)
class CountColumn:
    """How many rows of a level a parent has; cells begin at `starts`, the last holds `last` and all above, none is missing.

    >>> CountColumn("visits", (0, 1, 2, 4)).encode([0, 1, 3, 9]).tolist()
    [0, 1, 2, 3]
    >>> CountColumn.reaching("visits", 0, 3, 9).starts
    (0, 1, 2, 3, 4, 5, 6, 7, 8)
    """

    name: str
    starts: tuple[int, ...]
    last: int | None = None  # the largest that is made; the start of the last cell if it is left out
    kind = "int64"

    @staticmethod
    def reaching(name: str, first: int, most: int, up_to: int) -> CountColumn:
        """A cell for each number up to `most`, beyond that cells a quarter as wide as their numbers, up to `up_to`."""
        starts, following = list(range(first, most + 1)), most + 1
        while following <= up_to:
            starts.append(following)
            following += max(1, following // 4)
        return CountColumn(name, tuple(starts), up_to)

    @property
    def size(self) -> int:
        """One cell for each start."""
        return len(self.starts)

    def encode(self, values: Values) -> Cells:
        """The cell of every count."""
        found: Cells = np.searchsorted(np.asarray(self.starts), np.asarray(values), side="right") - 1
        return np.maximum(found, 0)

    def decode(self, cells: Cells, draws: np.random.Generator) -> list[Any]:
        """A count of every cell, drawn evenly."""
        return list(self.numbers(cells, draws).tolist())

    def numbers(self, cells: Cells, draws: np.random.Generator) -> NDArray[np.int64]:
        """A count for every cell, drawn evenly among those of the cell; at most `last`."""
        starts = np.asarray(self.starts)
        wide = np.diff(starts, append=max(starts[-1], self.last or 0) + 1)
        if wide.max() == 1:
            return np.asarray(starts[cells])
        return np.asarray(starts[cells] + draws.integers(0, wide[cells]))

    def labels(self) -> list[str]:
        """The counts in words."""
        ends = [*(start - 1 for start in self.starts[1:]), None]
        return [
            str(low) if high == low else f"{low} or more" if high is None else f"{low} to {high}"
            for low, high in zip(self.starts, ends, strict=True)
        ]


# --- the levels as a tree, before any data -------------------------------------------------------------------------


@dataclass(frozen=True)
class LevelTree:
    """Levels that were checked: parents before children."""

    levels: tuple[Level, ...]

    @staticmethod
    def of(levels: Sequence[Level]) -> LevelTree:
        """Refuse what does not hang together; only declarations are looked at."""
        given = tuple(levels)
        known: dict[str, Level] = {}
        for place, level in enumerate(given):
            if not isinstance(level, Level):
                raise ParameterError("levels must be Level(name, columns, ...), the people first")
            if not level.name or level.name in known:
                raise ParameterError(f"every level needs a name of its own; {level.name!r} comes twice or is empty")
            _check_place(level, place, known)
            known[level.name] = level
        if not given:
            raise ParameterError("give at least one level, the people")
        tree = LevelTree(given)
        for level in given:
            _check_columns(level, tree)
        return tree

    @property
    def root(self) -> Level:
        """The people."""
        return self.levels[0]

    def named(self, name: str) -> Level:
        """The level of this name."""
        return next(level for level in self.levels if level.name == name)

    def children(self, level: Level) -> tuple[Level, ...]:
        """The levels that belong to this one."""
        return tuple(other for other in self.levels if other.of == level.name)

    def above(self, level: Level) -> list[Level]:
        """The parent, its parent, and so on."""
        found = []
        while level.of is not None:
            level = self.named(level.of)
            found.append(level)
        return found

    def reach(self, level: Level) -> int:
        """The most rows of one person."""
        return math.prod(one.most for one in (level, *self.above(level))[:-1])

    def counts(self, level: Level) -> tuple[CountColumn, ...]:
        """The numbers of rows below a row of the level. A person of `rows_of` has at least one row there."""
        found = []
        for child in self.children(level):
            first = 1 if level.rows_of == child.name else 0
            found.append(CountColumn.reaching(f"number of {child.name}", first, child.most, child.up_to))
        return tuple(found)

    def weights(self) -> list[Fraction]:
        """The shares of the budget, before they are divided by their sum."""
        given = [self.reach(one) ** (1 / 3) if one.weight is None else one.weight for one in self.levels]
        return [Fraction(weight) for weight in given]


def _check_place(level: Level, place: int, known: Mapping[str, Level]) -> None:
    if place == 0:
        if level.of is not None or level.by is not None or level.most != 1 or level.up_to != 1:
            raise ParameterError(f"{level.name}: the first level is of people; it has a key and neither of=, by=, most= nor up_to=")
        if not level.key:
            raise ParameterError(f"{level.name}: name the column that tells people apart, key='patient_id'")
    else:
        if level.of is None or level.of not in known:
            raise ParameterError(f"{level.name}: of= must name a level before it; there are {', '.join(known)}")
        if not level.by:
            raise ParameterError(f"{level.name}: by= must name the column with the key of {level.of}")
        if known[level.of].key is None:
            raise ParameterError(f"{level.of}: needs a key=, since {level.name} belongs to it")
        if level.rows_of is not None:
            raise ParameterError(f"{level.name}: only the first level may take its rows from another table")
        if not level.most <= level.up_to <= MOST_MADE:
            raise ParameterError(f"{level.name}: up_to= is how many rows are made of one parent, from most={level.most} to {MOST_MADE:,}")
        depth, above = 2, known[level.of]
        while above.of is not None:
            depth, above = depth + 1, known[above.of]
        if depth > DEPTH:
            raise ParameterError(f"{level.name}: at most {DEPTH} levels lie below one another")
    if level.weight is not None and not (math.isfinite(level.weight) and level.weight > 0):
        raise ParameterError(f"{level.name}: the weight must be greater than 0")


def _check_columns(level: Level, tree: LevelTree) -> None:
    names = [one if isinstance(one, str) else one.name for one in level.columns]
    every = [*names, *(key for key in (level.key, level.by) if key)]
    if len(set(every)) < len(every):
        raise ParameterError(f"{level.name}: every column once, and keys are no columns")
    if not names and not tree.children(level):
        raise ParameterError(f"{level.name}: declare at least one column")
    if level.rows_of is not None and level.rows_of not in [c.name for c in tree.children(level) if c.by == level.key]:
        raise ParameterError(f"{level.name}: rows_of= must name a level whose by= is {level.key}")


@dataclass(frozen=True)
class Given:
    """A column of an ancestor as a level's model knows it: whose, which of its model's columns, and in what cells."""

    level: str
    place: int
    column: Column
    coarse: NDArray[np.int64]  # the cell of the column for every cell of the ancestor's


def context(tree: LevelTree, level: Level, columns: Mapping[str, tuple[Column, ...]], most: int = CONTEXT) -> tuple[Given, ...]:
    """What a level's model knows of its ancestors: how many siblings a row has, then columns, nearest level first.

    Each column comes in as many cells as fit, or not at all: all combinations of them are at most `most`.
    """
    found: list[Given] = []
    cells = 1
    below = level
    for above in tree.above(level):
        own = f"number of {below.name}"
        order = sorted(range(len(columns[above.name])), key=lambda place: columns[above.name][place].name != own)
        for place in order:
            column = columns[above.name][place]
            for version, coarse in _versions(column, f"{above.name}.{column.name}", counts=column.name == own):
                if cells * version.size <= most:
                    found.append(Given(above.name, place, version, coarse))
                    cells *= version.size
                    break
        below = above
    return tuple(found)


def _versions(column: Column, name: str, counts: bool) -> list[tuple[Column, NDArray[np.int64]]]:
    """A column under another name, in its own cells or in fewer. A row's siblings are at least itself."""
    if isinstance(column, CountColumn):
        starts = column.starts[1:] if counts and column.starts[0] == 0 and len(column.starts) > 1 else column.starts
        coarser = sorted({starts[0], *(s for s in (0, 1, 2, 3, 5, 9, 17, 33, 65) if starts[0] <= s <= starts[-1])})
        version = CountColumn(name, tuple(coarser))
        return [(version, version.encode(column.starts))]
    if isinstance(column, NumberColumn | DateColumn):
        bins = len(column.edges) - 1
        found: list[tuple[Column, NDArray[np.int64]]] = []
        for wanted in (8, 4, 2):
            cuts = sorted({round(place * bins / min(wanted, bins)) for place in range(min(wanted, bins) + 1)})
            coarse = np.append(np.searchsorted(cuts, np.arange(bins), side="right") - 1, len(cuts) - 1)
            edges: Any = tuple(column.edges[cut] for cut in cuts)
            found.append((replace(column, name=name, edges=edges), coarse))
        return found
    return [(replace(column, name=name), np.arange(column.size))]  # type: ignore[type-var]


# --- fitting -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LevelModel:
    """What is known of one level: its model over own columns, counts and context, and what was measured for it."""

    level: Level
    columns: tuple[Column, ...]
    given: tuple[Given, ...]
    model: Model
    measured: tuple[NoisyMarginal, ...]
    events: tuple[Event, ...]

    @property
    def every(self) -> tuple[Column, ...]:
        """The columns of the model, in its order."""
        return (*self.columns, *(one.column for one in self.given))


#: Counts of a level's model columns, asked once the columns and context of the level are known.
LevelCounts = Callable[[Level, tuple[Column, ...], tuple[Given, ...]], Counts]


def fit_levels(
    tree: LevelTree, columns: Mapping[str, tuple[Column, ...]], counts: LevelCounts, budgets: Sequence[Guarantee], method: Method
) -> tuple[LevelModel, ...]:
    """Fit every level after its parents, within its budget. The caller has paid.

    `columns` are those of each level, the counts of its children last. What a level's rows have of their parents
    is known from the made-up tables above it.
    """
    found: dict[str, LevelModel] = {}
    draws = generator()
    made: dict[str, Made] = {}
    for level, budget in zip(tree.levels, budgets, strict=True):
        given = context(tree, level, columns)
        every = (*columns[level.name], *(one.column for one in given))
        sizes = tuple(column.size for column in every)
        reach = tree.reach(level)
        # Of made-up parents with more rows than are counted, as many count here.
        above = _context_cells(tree, level, given, made, counted=True)
        known = []
        if given:
            places = tuple(range(len(columns[level.name]), len(every)))
            share = counted(above, sizes[len(columns[level.name]) :], range(len(given))).astype(np.float64)
            # As exact as one table that had the level's whole budget: only what follows from these values is used.
            known = [NoisyMarginal(places, share, reach / math.sqrt(_squared(budget)))]
        measuring = Measuring(
            sizes, counts(level, columns[level.name], given), budget, max_rows=reach, known=known,
            possible=possible(columns[level.name], level.constraints),
        )  # fmt: skip
        model = method.fit(measuring)
        found[level.name] = LevelModel(
            level, columns[level.name], given, model, tuple(measuring.measured), tuple(measuring.events)
        )
        made[level.name] = _made(tree, found[level.name], made, None, draws)
    return tuple(found.values())


def _squared(budget: Guarantee) -> float:
    """A budget as one over a squared noise multiplier."""
    amounts = budget.floats
    return amounts.mu**2 if amounts.mu is not None else 2 * (amounts.rho or 0.0)


@dataclass(frozen=True)
class Made:
    """Made-up rows of a level: cells of its model's columns, the row of the parent of each, how many rows of each child it has,
    and whether it would be counted, as one of the first `most` of its parent."""

    cells: list[NDArray[np.int64]]
    parent: NDArray[np.int64]
    numbers: Mapping[str, NDArray[np.int64]]
    counted: NDArray[np.bool_]

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.parent)


def _parents(level: Level, made: Mapping[str, Made], *, counted: bool) -> NDArray[np.int64]:
    """For every row to be made, or every one that would be counted, the row of its parent: as many for each as its number says."""
    above = made[level.of or ""]
    numbers = above.numbers[level.name]
    if counted:
        numbers = np.where(above.counted, np.minimum(numbers, level.most), 0)
    return np.repeat(np.arange(above.size), numbers)


def _context_cells(
    tree: LevelTree, level: Level, given: Sequence[Given], made: Mapping[str, Made], *, counted: bool = False
) -> list[NDArray[np.int64]]:
    """The cells of the context of every row to be made of a level, one array for each column of it."""
    if level.of is None:
        return []
    rows = {level.of: _parents(level, made, counted=counted)}
    for above in tree.above(level):
        if above.of is not None:
            rows[above.of] = made[above.name].parent[rows[above.name]]
    return [one.coarse[made[one.level].cells[one.place][rows[one.level]]] for one in given]


def _made(
    tree: LevelTree, found: LevelModel, made: Mapping[str, Made], people: int | None, draws: np.random.Generator
) -> Made:
    """Rows of a level, for parents that were made."""
    level = found.level
    if level.of is None:
        cells = sampled(found.model, people, draws)
        parent = np.arange(len(cells[0]))
        first = np.ones(len(parent), dtype=bool)
    else:
        parent = _parents(level, made, counted=False)
        if found.given:
            above = _context_cells(tree, level, found.given, made)
            known = {len(found.columns) + place: cells for place, cells in enumerate(above)}
            cells = sampled(found.model, None, draws, given=known)
        else:
            cells = sampled(found.model, len(parent), draws)
        first = made[level.of].counted[parent] & (np.arange(len(parent)) - np.searchsorted(parent, parent) < level.most)
    own = len(level.columns)
    numbers = {
        child.name: column.numbers(cells[own + place], draws)
        for place, (child, column) in enumerate(zip(tree.children(level), tree.counts(level), strict=True))
    }
    return Made(cells, parent, numbers, first)


# --- the result ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class SyntheticTables:
    """Models of all levels: `sample` makes the tables, `level` shows one, `event_` is what it all cost."""

    tree: LevelTree
    parts: tuple[LevelModel, ...]
    event_: Event
    private_: bool

    def __repr__(self) -> str:
        names = ", ".join(part.level.name for part in self.parts)
        return f"tables {names} of {max(0, round(self.people_)):,} people, estimated; {self.event_!r}"

    @property
    def events_(self) -> tuple[Event, ...]:
        """All steps, in order."""
        return tuple(event for part in self.parts for event in part.events)

    @property
    def people_(self) -> float:
        """The estimated number of people."""
        return self.parts[0].model.total

    def sample(self, people: int | None = None) -> dict[str, SyntheticRows]:
        """Made-up tables by name, with keys counted from 1; by default for as many people as are estimated."""
        import pyarrow as pa

        wanted = None if people is None else count("people", people, least=0)
        draws = generator()
        made: dict[str, Made] = {}
        found = {}
        for part in self.parts:
            level = part.level
            made[level.name] = rows = _made(self.tree, part, made, wanted, draws)
            own = part.columns[: len(level.columns)]
            keys = {}
            if level.by is not None:
                keys[level.by] = pa.array(rows.parent + 1, type=pa.int64())
            if level.key is not None:
                keys[level.key] = pa.array(np.arange(1, rows.size + 1), type=pa.int64())
            found[level.name] = SyntheticRows(pa.table({**keys, **decoded(own, rows.cells[: len(own)], level.constraints, draws)}))
        return found

    def level(self, name: str) -> Synthesizer:
        """The model of one level, with the counts of its children and what it knows of its parents as columns."""
        if name not in [level.name for level in self.tree.levels]:
            raise ParameterError(f"there is no level {name}; there are {', '.join(one.name for one in self.tree.levels)}")
        part = next(part for part in self.parts if part.level.name == name)
        return Synthesizer(part.every, part.model, part.measured, self.event_, part.events, self.private_, part.level.constraints)

    def marginal(self, level: str, *names: str, confidence: float = 0.95) -> list[MarginalCell]:
        """Counts over some columns of a level, with intervals where they were measured."""
        return self.level(level).marginal(*names, confidence=confidence)

    def report(self, path: str | Path) -> None:
        """Write a page (its name ends in .html) of what was measured on every level: released figures only."""
        from tacit.synthesis.report_page import write_levels

        write_levels(self, path)


# --- rows in memory ------------------------------------------------------------------------------------------------


def synthesize_tables(
    tables: Any, levels: Sequence[Level], *, guarantee: Guarantee | str | None = None,
    epsilon: Typed | None = None, delta: Typed | None = None, rho: Typed | None = None, mu: Typed | None = None,
    method: str | Method = "auto", account: Account | None = None, purpose: str = "synthetic tables",
) -> SyntheticTables:
    """Models of tables that belong together, within one guarantee for a person with all her rows.

    `tables` are Arrow tables, frames or mappings of columns, by the name of their level; or a `Session` whose
    source has them. The whole price is booked with `account` before a value is read.
    """
    tree = LevelTree.of(levels)
    if isinstance(tables, Session):
        from tacit.synthesis.relational_engine import tables_from_session

        if account is not None:
            raise ParameterError("a session has its account: leave out account=")
        return tables_from_session(
            tables, levels, guarantee=guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu, method=method, purpose=purpose
        )
    chosen = method_for_levels(method)
    whole = Guarantee.of(guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu)
    bought = [(one, tree.reach(level)) for level in tree.levels for one in level.columns if _is_bought(one)]
    shares = shares_of([one for one, _ in bought], whole, Fraction(BINS))
    events = [one.event(share, reach) for (one, reach), share in zip(bought, shares, strict=True)]
    budget, event = budget_beside(events, whole, chosen.selects)
    for level in tree.levels:
        possible([None if _is_bought(one) else one for one in level.columns], level.constraints)
    if not bought:
        check_levels(tree, {level.name: (*level.columns, *tree.counts(level)) for level in tree.levels}, chosen)
    parts = {level.name: _columns_of(tables, tree, level) for level in tree.levels}
    payment = paying(account, event, purpose=purpose, delta=whole.delta or None)
    with payment:
        values = {name: {key: values_of(part) for key, part in one.items()} for name, one in parts.items()}
        kept = kept_rows(tree, values)
        columns: dict[str, tuple[Column, ...]] = {}
        cells: dict[str, list[NDArray[np.int64]]] = {}
        waiting = iter(shares)
        for level in tree.levels:
            mine, reach = kept[level.name], tree.reach(level)
            own, owners = [], mine.person.tolist()
            for one in level.columns:
                part = taken(values[level.name][one.name], mine.rows)
                own.append(one.column(part, owners, next(waiting), reach) if _is_bought(one) else one)
            columns[level.name] = (*own, *tree.counts(level))
            cells[level.name] = [
                *(_encoded(tree, level, column, values[level.name], mine) for column in own),
                *(column.encode(kept[child.name].had) for column, child in
                  zip(tree.counts(level), tree.children(level), strict=True)),
            ]  # fmt: skip
        found = fit_levels(tree, columns, _in_memory(tree, kept, cells), budget.split(tree.weights()), chosen)
    return SyntheticTables(tree, found, event, payment.private)


def check_levels(tree: LevelTree, columns: Mapping[str, tuple[Column, ...]], method: Method) -> None:
    """Refuse levels whose tables do not fit into memory, before anything is paid for."""
    for level in tree.levels:
        check_sizes(method, [one.size for one in (*columns[level.name], *(g.column for g in context(tree, level, columns)))])


def method_for_levels(method: str | Method) -> Method:
    """A method that fits any number of columns."""
    chosen = method_named(method)
    if isinstance(chosen, Direct | Histogram):
        raise ParameterError("levels have columns of their parents too, so marginals cannot be listed: use auto or another")
    return chosen


def _is_bought(column: Any) -> bool:
    return isinstance(column, Bought)


def _columns_of(tables: Any, tree: LevelTree, level: Level) -> dict[str, Any]:
    """The columns of a level that are needed: which there are is public, what they hold is not looked at."""
    place = level.rows_of or level.name
    if not isinstance(tables, Mapping) or place not in tables:
        raise ParameterError(f"there is no table {place}; give tables by the names of their levels")
    # A key that no other level names need not be there: it is made up all the same.
    keys = [level.key if level.of is None or tree.children(level) else None, level.by]
    names = [one.name for one in level.columns] + [key for key in keys if key]
    return {name: column_of(tables[place], name) for name in names}


@dataclass(frozen=True)
class Kept:
    """Which rows of a level are counted: their places, the counted row of the parent, the person's number.

    `had` is how many rows every counted row of the parent has, those that are not counted too.
    """

    rows: NDArray[np.int64]
    parent: NDArray[np.int64]
    person: NDArray[np.int64]
    had: NDArray[np.int64]
    group: NDArray[np.int64] | None = None  # for people without a table: the person of every row of the other table

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.rows)

    def number(self, parents: int) -> NDArray[np.int64]:
        """How many of them every counted row of the parent has."""
        return np.bincount(self.parent, minlength=parents)


def kept_rows(tree: LevelTree, values: Mapping[str, Mapping[str, Values]]) -> dict[str, Kept]:
    """Rows that lead to a person, at most `most` for each parent, drawn at random among its own.

    >>> levels = [Level("p", [], key="id"), Level("v", ["x"], of="p", by="p", most=2)]
    >>> found = kept_rows(LevelTree.of(levels), {"p": {"id": ["a", "b", "a", None]}, "v": {"p": ["b", "c", "b", None, "b"]}})
    >>> found["p"].size, found["v"].size, sorted(found["v"].number(2).tolist())
    (2, 2, [0, 2])
    """
    found: dict[str, Kept] = {}
    keys: dict[str, list[Any]] = {}
    for level in tree.levels:
        if level.of is None:
            own = [same_text(key) for key in values[level.name][level.key or ""]]
            order = permutation(len(own)).tolist()
            first: dict[Any, int] = {}
            for row in order:
                if own[row] is not None:
                    first.setdefault(own[row], row)
            rows = np.array(sorted(first.values()), dtype=np.int64)
            person = np.arange(len(rows))
            group = None
            if level.rows_of is not None:
                numbers = {own[row]: place for place, row in enumerate(rows.tolist())}
                group = np.array([-1 if key is None else numbers[key] for key in own], dtype=np.int64)
            found[level.name] = Kept(rows, person, person, np.ones(len(rows), dtype=np.int64), group)
        else:
            above = found[level.of]
            by = [same_text(key) for key in values[level.name][level.by or ""]]
            found[level.name] = _below(above, keys[level.of], by, level.most)
            own = [same_text(key) for key in values[level.name][level.key]] if level.key and tree.children(level) else []
        keys[level.name] = [own[row] for row in found[level.name].rows.tolist()] if own else []
    return found


def _below(above: Kept, keys: Sequence[Any], by: Sequence[Any], most: int) -> Kept:
    """The rows of every counted parent, at most so many of each. Parents with the same key share what they have."""
    numbers: dict[Any, int] = {}
    for key in keys:
        if key is not None:
            numbers.setdefault(key, len(numbers))
    codes = np.array([numbers.get(key, -1) if key is not None else -1 for key in by], dtype=np.int64)
    order = permutation(len(codes))
    order = order[codes[order] >= 0]
    order = order[np.argsort(codes[order], kind="stable")]
    starts = np.searchsorted(codes[order], np.arange(len(numbers) + 1))
    of_parent = np.array([numbers.get(key, -1) if key is not None else -1 for key in keys], dtype=np.int64)
    had = np.where(of_parent >= 0, np.diff(starts, append=len(order))[of_parent], 0)
    has = np.minimum(had, most)
    parent = np.repeat(np.arange(len(keys)), has)
    rank = np.arange(len(parent)) - np.repeat(np.cumsum(has) - has, has)
    rows = order[starts[of_parent[parent]] + rank] if len(parent) else np.zeros(0, dtype=np.int64)
    return Kept(rows, parent, above.person[parent], had)


def _encoded(
    tree: LevelTree, level: Level, column: Column, values: Mapping[str, Values], kept: Kept
) -> NDArray[np.int64]:
    """The cell of every counted row; for people without a table the largest that is not missing among their rows'."""
    if kept.group is None:
        return column.encode(taken(values[column.name], kept.rows))
    cells = column.encode(values[column.name])
    found = np.full(kept.size, -1, dtype=np.int64)
    known = (kept.group >= 0) & (cells < column.size - 1)
    np.maximum.at(found, kept.group[known], cells[known])
    return np.where(found < 0, column.size - 1, found)


def _in_memory(tree: LevelTree, kept: Mapping[str, Kept], cells: Mapping[str, list[NDArray[np.int64]]]) -> LevelCounts:
    """Counts from encoded rows."""

    def of_level(level: Level, columns: tuple[Column, ...], given: tuple[Given, ...]) -> Counts:
        rows = {level.name: np.arange(kept[level.name].size)}
        below = level
        for above in tree.above(level):
            rows[above.name] = kept[below.name].parent[rows[below.name]]
            below = above
        every = [*cells[level.name], *(one.coarse[cells[one.level][one.place][rows[one.level]]] for one in given)]
        sizes = [column.size for column in (*columns, *(one.column for one in given))]
        return lambda clique: counted(every, sizes, clique)

    return of_level
