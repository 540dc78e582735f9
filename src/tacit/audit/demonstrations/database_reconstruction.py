"""Database reconstruction: the people of a block from the tables published about it.

Every published count, mean and median is an equation about whole numbers of people of each kind. Few people and many
tables leave one solution: the data (Garfinkel, Abowd and Martindale 2019, whose block of seven this module rebuilds).
Rounded means and medians are kept as the ranges they stand for, suppressed cells are left out, and a solution comes from
an exact integer program.

>>> universe = kinds(age=range(0, 100), sex="fm")
>>> tables = [Statistic.of({}, count=2, mean=30), Statistic.of({"sex": "f"}, count=1, median=20)]
>>> found = solve(universe, tables)
>>> sorted((kind["sex"], kind["age"]) for kind in found)
[('f', 20), ('m', 40)]
>>> certain(universe, tables) == found
True
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import Demonstration, Level, draws, noisy_counts, numbered
from tacit.audit.experiment import generator
from tacit.audit.rates import most_true_positives
from tacit.parameters import count as whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Kind = Mapping[str, Any]  # a value for each column
Exact = int | str | Fraction
Line = tuple[NDArray[np.float64], float, float]  # lower <= coefficients . x <= upper


def kinds(**columns: Iterable[object]) -> list[Kind]:
    """Every combination of public values: the kinds of people there can be.

    >>> len(kinds(age=range(3), sex="fm"))
    6
    """
    return [dict(zip(columns, values, strict=True)) for values in itertools.product(*(list(values) for values in columns.values()))]


@dataclass(frozen=True)
class Statistic:
    """What was published about the people who match `where`: how many, and the mean and median of a numeric column."""

    where: tuple[tuple[str, object], ...]
    count: int
    mean: Fraction | None = None
    median: Fraction | None = None
    off: Fraction = Fraction(0)
    column: str = "age"

    @staticmethod
    def of(
        where: Kind, *, count: int, mean: Exact | None = None, median: Exact | None = None, off: Exact = 0, column: str = "age"
    ) -> Statistic:
        """`mean` is exact, or rounded by up to `off`; numbers may be given as text, such as "36.7", to be exact."""
        return Statistic(
            tuple(where.items()),
            whole("count", count, least=0),
            None if mean is None else Fraction(str(mean)),
            None if median is None else Fraction(str(median)),
            Fraction(str(off)),
            column,
        )

    def matches(self, kind: Kind) -> bool:
        """Whether a kind of person is counted."""
        return all(kind[name] == value for name, value in self.where)

    def holds(self, people: Sequence[Kind]) -> bool:
        """Whether the statistic is right about these people."""
        values = sorted(person[self.column] for person in people if self.matches(person)) if people else []
        if len(values) != self.count:
            return False
        if self.mean is not None and abs(Fraction(sum(values)) - self.mean * self.count) > self.off * self.count:
            return False
        if self.median is None or not values:
            return True
        middle = Fraction(values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
        return middle == self.median


# --- the integer program ----------------------------------------------------------------------------------------------------------


def _lines(universe: Sequence[Kind], statistics: Sequence[Statistic]) -> tuple[list[Line], int]:
    """The constraints, and how many yes-or-no variables follow the counts of kinds: one for each way that a median can come about."""
    n, lines, extra = len(universe), [], 0
    ways: list[tuple[int, Statistic, list[tuple[float, float]]]] = []
    for said in statistics:
        inside = np.array([said.matches(kind) for kind in universe], dtype=np.float64)
        lines.append((inside, float(said.count), float(said.count)))
        values = np.array([kind.get(said.column, 0) if said.mean is not None else 0 for kind in universe], dtype=np.float64)
        if said.mean is not None:
            total, off = said.mean * said.count, said.off * said.count
            lines.append((inside * values, float(total - off) - 1e-9, float(total + off) + 1e-9))
        if said.median is not None and said.count:
            present = sorted({kind[said.column] for kind in universe if said.matches(kind)})
            pairs = [(float(a), float(2 * said.median - a)) for a in present if a <= said.median and 2 * said.median - a in present]
            if said.count % 2:
                pairs = [(a, b) for a, b in pairs if a == b]
            ways.append((extra, said, pairs))
            extra += len(pairs)
    padded: list[Line] = [(np.append(row, np.zeros(extra)), low, high) for row, low, high in lines]
    for start, said, pairs in ways:
        choose = np.zeros(n + extra)
        choose[n + start : n + start + len(pairs)] = 1
        padded.append((choose, 1.0, 1.0))
        left, right = (said.count + 1) // 2, said.count // 2 + 1  # ranks of the two middle values
        ages = np.array([kind[said.column] for kind in universe], dtype=np.float64)
        among = np.array([said.matches(kind) for kind in universe])
        for place, (a, b) in enumerate(pairs, n + start):
            # the left middle value is a and the right one b: enough people on either side of each
            sides = ((ages <= a, left), (ages >= a, said.count - left + 1), (ages <= b, right), (ages >= b, said.count - right + 1))
            for side, needed in sides if a != b else sides[1:3]:  # the other two follow
                row = np.zeros(n + extra)
                row[:n] = among & side
                row[place] = -needed
                padded.append((row, 0.0, np.inf))
    return padded, extra


def _program(universe: Sequence[Kind], lines: Sequence[Line], extra: int, cost: NDArray[np.float64]) -> NDArray[np.float64] | None:
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    n = len(universe)
    # no kind can have more people than any count that it is in; the program is much faster for knowing it
    highest = np.full(n, np.inf)
    for row, _, high in lines:
        covered = row[:n] == 1
        if np.all(covered | (row[:n] == 0)) and not np.any(row[n:]):
            highest[covered] = np.minimum(highest[covered], high)
    highest = np.append(highest, np.ones(extra))
    rows = csr_array(np.array([line[0] for line in lines]))
    within = LinearConstraint(rows, [line[1] for line in lines], [line[2] for line in lines])
    solved = milp(cost, constraints=within, integrality=np.ones(n + extra), bounds=Bounds(0, highest))
    return None if solved.x is None else np.round(solved.x)


def _people(universe: Sequence[Kind], numbers: Iterable[float]) -> list[Kind]:
    return [kind for kind, many in zip(universe, numbers, strict=False) for _ in range(int(many))]


def solve(universe: Sequence[Kind], statistics: Sequence[Statistic]) -> list[Kind] | None:
    """Some people about whom all the statistics are right, or None where there are none."""
    if not universe or not statistics:
        raise ParameterError("universe and statistics must not be empty")
    lines, extra = _lines(universe, statistics)
    found = _program(universe, lines, extra, np.zeros(len(universe) + extra))
    return None if found is None else _people(universe, found)


def certain(universe: Sequence[Kind], statistics: Sequence[Statistic]) -> list[Kind]:
    """The people who are in every solution: as many of a kind as the fewest that any solution has."""
    found = solve(universe, statistics)
    if found is None:
        return []
    lines, extra = _lines(universe, statistics)
    n = len(universe)
    tried = [(place, found.count(kind)) for place, kind in enumerate(universe) if kind in found]
    if all(many == 1 for _, many in tried):
        # one program for all: a solution that has as few of these kinds as can be; x <= people * z says that a kind without z has none
        wide = [(np.append(row, np.zeros(len(tried))), low, high) for row, low, high in lines]
        for i, (place, _) in enumerate(tried):
            row = np.zeros(n + extra + len(tried))
            row[place], row[n + extra + i] = 1, -len(found)
            wide.append((row, -np.inf, 0.0))
        cost = np.append(np.zeros(n + extra), np.ones(len(tried)))
        other = _program(universe, wide, extra + len(tried), cost)
        if other is not None and round(float(cost @ other)) == len(tried):
            return found
    people: list[Kind] = []
    for place, _ in tried:
        fewest = _program(universe, lines, extra, np.eye(1, n + extra, place)[0])
        people += [universe[place]] * (0 if fewest is None else int(fewest[place]))
    return people


# --- margins of a small table -----------------------------------------------------------------------------------------------------


def margins(cells: ArrayLike) -> tuple[NDArray[np.int64], ...]:
    """The two-way margins of a three-way table of counts.

    >>> [margin.tolist() for margin in margins([[[1, 0], [0, 2]]])]
    [[[1, 0], [0, 2]], [[1, 2]], [[1, 2]]]
    """
    table = np.asarray(cells, dtype=np.int64)
    if table.ndim != 3:
        raise ParameterError("cells must be a three-way table")
    return tuple(table.sum(axis=axis) for axis in range(3))


def every_table(published: Sequence[ArrayLike]) -> Iterator[NDArray[np.int64]]:
    """All three-way tables with these two-way margins, cell by cell with backtracking; exact, for small tables.

    >>> len(list(every_table(margins([[[1, 0], [0, 1]], [[0, 1], [1, 0]]]))))
    2
    """
    left = [np.array(margin, dtype=np.int64) for margin in published]
    shape = (left[1].shape[0], left[0].shape[0], left[0].shape[1])
    cells = list(np.ndindex(*shape))
    table = np.zeros(shape, dtype=np.int64)

    def fill(at: int) -> Iterator[NDArray[np.int64]]:
        if at == len(cells):
            yield table.copy()
            return
        i, j, k = cells[at]
        least, most = 0, int(min(left[0][j, k], left[1][i, k], left[2][i, j]))
        # the last cell along an axis must take all that is left of its margin
        for last, rest in ((i == shape[0] - 1, left[0][j, k]), (j == shape[1] - 1, left[1][i, k]), (k == shape[2] - 1, left[2][i, j])):
            least = max(least, int(rest)) if last else least
        for value in range(least, most + 1):
            table[i, j, k] = value
            for margin, place in zip(left, ((j, k), (i, k), (i, j)), strict=True):
                margin[place] -= value
            yield from fill(at + 1)
            for margin, place in zip(left, ((j, k), (i, k), (i, j)), strict=True):
                margin[place] += value
        table[i, j, k] = 0

    yield from fill(0)


def nearest_table(published: Sequence[ArrayLike]) -> NDArray[np.int64]:
    """A table of whole numbers whose margins are nearest to these, in the sum of distances: exact ones are met, noisy ones fitted."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    given = [np.asarray(margin, dtype=np.float64) for margin in published]
    shape = (given[1].shape[0], given[0].shape[0], given[0].shape[1])
    places = np.arange(np.prod(shape)).reshape(shape)
    rows = []
    for axis in range(3):
        for line in np.moveaxis(places, axis, -1).reshape(-1, shape[axis]):
            row = np.zeros(places.size)
            row[line] = 1
            rows.append(row)
    matrix, wanted = np.array(rows), np.concatenate([margin.ravel() for margin in given])
    m, n = matrix.shape
    free = np.full(m, np.inf)
    off = np.block([[matrix, np.eye(m)], [matrix, -np.eye(m)]])
    within = LinearConstraint(off, np.append(wanted, -free), np.append(free, wanted))
    integral = np.append(np.ones(n), np.zeros(m))
    solved = milp(np.append(np.zeros(n), np.ones(m)), constraints=within, integrality=integral, bounds=Bounds(0, np.inf))
    if solved.x is None:
        raise ParameterError("the integer program was not solved: the published margins must be finite")
    return np.asarray(np.round(solved.x[:n]), dtype=np.int64).reshape(shape)


def rebuilt(guess: ArrayLike, truth: ArrayLike) -> tuple[int, int]:
    """How many of the people are in the guess as well, kind by kind, and how many people there are.

    >>> rebuilt([2, 0, 1], [1, 1, 1])
    (2, 3)
    """
    ours, theirs = np.asarray(guess), np.asarray(truth)
    return int(np.minimum(ours, theirs).sum()), int(theirs.sum())


# --- shown ------------------------------------------------------------------------------------------------------------------------

#: The block of seven of Garfinkel, Abowd and Martindale (2019): what was published, with suppressed cells left out.
BLOCK = (
    Statistic.of({}, count=7, mean=38, median=30),
    Statistic.of({"sex": "female"}, count=4, mean="33.5", median=30),
    Statistic.of({"sex": "male"}, count=3, mean=44, median=30),
    Statistic.of({"race": "Black"}, count=4, mean="48.5", median=51),
    Statistic.of({"race": "White"}, count=3, mean=24, median=24),
    Statistic.of({"married": True}, count=4, mean=54, median=51),
    Statistic.of({"race": "Black", "sex": "female"}, count=3, mean="36.7", median=36, off="0.05"),
)


def block_universe(oldest: int = 100) -> list[Kind]:
    """The kinds of people that can live in the block."""
    return kinds(age=range(oldest + 1), sex=("female", "male"), race=("Black", "White"), married=(False, True))


def demonstrate(*, quick: bool = False, seed: int | None = 1, epsilons: Sequence[float] = (0.1, 1.0, 4.0)) -> Demonstration:
    """Blocks of twelve people in 48 kinds, published as three tables of counts by two columns each: is a given person found?

    A person is found if the rebuilt block has as many of their kind as the block. Without the release: the same where
    another person was there in their place when it was made. What epsilon permits follows from that share, as for any
    test (Kairouz, Oh and Viswanath 2015); the share is measured, over all kinds that the person might be of, so what is
    permitted is an estimate here.

    >>> demonstrate(quick=True).raw.rate > 0.7
    True
    """
    source = generator(seed)
    shape, people, trials = (6, 2, 4), 12, 8 if quick else 50
    size = int(np.prod(shape))
    draws_of = source.integers(size, size=(trials, people + 1))
    released: list[tuple[str, float | None]] = [("exact tables", None), *((f"epsilon {epsilon:g} in all", epsilon) for epsilon in epsilons)]
    levels = []
    with draws(seed):
        for label, epsilon in released:
            hits, without = 0, 0.0
            for row in draws_of:
                others = np.bincount(row[:-2], minlength=size)
                truth, instead = (others + np.eye(1, size, int(who), dtype=np.int64)[0] for who in row[-2:])
                found = nearest_table(_published(truth.reshape(shape), epsilon)).ravel()
                hits += bool(found[row[-2]] >= truth[row[-2]])
                absent = nearest_table(_published(instead.reshape(shape), epsilon)).ravel()
                without += float(np.mean(absent >= others + 1))  # over all kinds that the person might be, which are alike
            base = without / trials
            permitted = 1.0 if epsilon is None else most_true_positives(base, epsilon)
            levels.append(Level(label, epsilon, hits, trials, base, permitted))
    example = draws_of[0, :-1]
    truth = np.bincount(example, minlength=size).reshape(shape)
    pictures = {"the block": truth, "from exact tables": nearest_table(margins(truth))}
    with draws(seed):
        pictures["from Tacit's, ε = 1"] = nearest_table(_published(truth, 1.0))
    return Demonstration(
        "database reconstruction",
        f"Three tables of counts by two columns each rebuild {100 * levels[0].rate:.0f} % of the people of a block, kind by kind.",
        tuple(levels),
        draw=lambda axis: _picture(axis, pictures),
        notes=("the block of seven of Garfinkel, Abowd and Martindale has one solution: certain(block_universe(), BLOCK)",),
    )


def _published(table: NDArray[np.int64], epsilon: float | None) -> list[NDArray[np.int64]]:
    """Exact margins, or Tacit's: another person in place of one moves two cells of each of the three."""
    exact = margins(table)
    if epsilon is None:
        return list(exact)
    noisy = noisy_counts(np.concatenate([margin.ravel() for margin in exact]), epsilon, sensitivity=6)
    cuts = np.cumsum([margin.size for margin in exact])[:-1]
    return [part.reshape(margin.shape) for part, margin in zip(np.split(noisy, cuts), exact, strict=True)]


def _picture(axis: Axes, pictures: Mapping[str, NDArray[np.int64]]) -> None:
    strips = [table.reshape(table.shape[0], -1) for table in pictures.values()]
    gap = np.full((strips[0].shape[0], 1), np.nan)
    joined = np.hstack([part for strip in strips for part in (strip.astype(np.float64), gap)][:-1])
    axis.imshow(joined, cmap="Blues", vmin=0, vmax=2.5, aspect="auto")
    numbered(axis, joined, lambda value: value > 1)
    width = strips[0].shape[1] + 1
    centres = [width * i + (width - 2) / 2 for i in range(len(strips))]
    axis.set(yticks=range(len(joined)), ylabel="age band", xlabel="sex and race", xticks=centres)
    axis.set_xticklabels(list(pictures), fontsize=8)
