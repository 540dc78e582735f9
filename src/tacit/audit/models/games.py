"""The four membership games: what is fixed, what is fresh, and whether the attacker was right.

`MembershipGame` trains models with and without records, asks an attack about them, and returns scores with the truth.
Which game to play depends on what the audit is about:

| game | data set | model | record | asks about |
| --- | --- | --- | --- | --- |
| AVERAGE | fresh | fresh | fresh | a training procedure, on average |
| FIXED_MODEL | fixed | fixed | fresh | one released model |
| FIXED_RECORD | fresh | fresh | fixed | one person |
| WORST_CASE | fixed | fresh | fixed | a privacy claim |

>>> population = np.arange(100.0)
>>> memorise = lambda data: set(data.tolist())  # a "training" that keeps its data
>>> game = MembershipGame(memorise, population, size=10, game="worst-case", seed=1)
>>> result = game.run(lambda model, record: float(record[0] in model), trials=40)
>>> result.roc.accuracy
1.0

In the games with a fixed record the OUT world is training without it; with `replace=True`, with another record in its place (E17: the IN
world is the *training* on the data with the record, which one printed definition forgets). In AVERAGE the record is from the data or fresh
at a fixed size, which is one record replaced. In FIXED_MODEL every candidate is in or out by a fair coin of its own, so that one run can
be held against a claim (`tacit.audit.models.one_run`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, partial
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency, ParameterError
from tacit.audit.claim import Evidence
from tacit.audit.experiment import Generator, generator, map_trials, spawn
from tacit.audit.models.independent import coin_evidence
from tacit.audit.models.membership import Attack
from tacit.audit.models.one_run import audit_one_run
from tacit.audit.models.roc import Roc, roc
from tacit.audit.models.signals import Model, Records
from tacit.audit.rates import Measure
from tacit.noise import test_mode
from tacit.parameters import count

Adversary = Callable[[Model, Records], Any]  # to one score a record
Train = Callable[..., Model]  # of data, and of a seed where it has a parameter of that name
Ints = NDArray[np.int64]


class Game(Enum):
    """Which of data set, model and record is fixed."""

    AVERAGE = "average"
    FIXED_MODEL = "fixed-model"
    FIXED_RECORD = "fixed-record"
    WORST_CASE = "worst-case"

    @classmethod
    def _missing_(cls, value: object) -> Game | None:
        """Older programs write a space: 'worst case'."""
        plain = value.casefold().replace(" ", "-").replace("_", "-") if isinstance(value, str) else ""
        return next((one for one in cls if one.value == plain), None)

    def describe(self, replace: bool = False) -> str:
        """One line for a report: what was averaged over."""
        other = "another record in its place" if replace else "no other in its place"
        return {
            Game.AVERAGE: "average: data, model and record fresh in every trial; one record replaced",
            Game.FIXED_MODEL: "fixed model: one training, candidates in or out by fair coins",
            Game.FIXED_RECORD: f"fixed record: data and model fresh in every trial; the record in, or out with {other}",
            Game.WORST_CASE: f"worst case: data and record fixed, only training fresh; the record in, or out with {other}",
        }[self]


def size_of(data: Records) -> int:
    """How many records: of an array or list, of a tuple of them, or of a mapping of them.

    >>> size_of((np.zeros((5, 2)), np.zeros(5))), size_of({"x": [1, 2]}), size_of([1, 2, 3])
    (5, 2, 3)
    """
    if isinstance(data, Mapping):
        return len(next(iter(data.values())))
    return len(data[0]) if isinstance(data, tuple) else len(data)


def take(data: Records, chosen: ArrayLike) -> Records:
    """The chosen records, in the form the data has.

    >>> take((np.arange(4), ["a", "b", "c", "d"]), [1, 3])
    (array([1, 3]), ['b', 'd'])
    """
    if isinstance(data, Mapping):
        return {name: take(column, chosen) for name, column in data.items()}
    if isinstance(data, tuple):
        return tuple(take(column, chosen) for column in data)
    if isinstance(data, list):
        return [data[i] for i in np.asarray(chosen).tolist()]
    if hasattr(data, "iloc"):
        return data.iloc[np.asarray(chosen)]
    if hasattr(data, "take") and hasattr(data, "schema"):  # an Arrow table
        return data.take(np.asarray(chosen))
    return data[np.asarray(chosen, dtype=np.int64)]


def trained(train: Train, data: Records, seed: int | None) -> Model:
    """One training. A trainer with a parameter called `seed` is given one; noise of Tacit's repeats with it."""
    if seed is None:
        return train(data)
    with test_mode(seed):
        return train(data, seed=seed) if _takes_seed(train) else train(data)


def _takes_seed(train: Train) -> bool:
    try:
        return "seed" in inspect.signature(train).parameters
    except (TypeError, ValueError):
        return False


@dataclass(frozen=True)
class GameResult:
    """Scores and truth of all trials, with what was played."""

    scores: NDArray[np.float64]
    bits: NDArray[np.bool_]
    game: Game
    attack: str
    replace: bool
    records: Ints

    @cached_property
    def roc(self) -> Roc:
        """The curve of the attack in this game."""
        return roc(self.scores, self.bits)

    @property
    def adjacency(self) -> Adjacency:
        """The relation between the two worlds."""
        return Adjacency.REPLACE_ONE if self.replace or self.game is Game.AVERAGE else Adjacency.ADD_REMOVE

    def describe(self) -> str:
        """The game in words."""
        return self.game.describe(self.replace)

    def evidence(
        self, *, delta: float = 0.0, confidence: float = 0.95, measure: Measure = "epsilon", seed: int | None = 0
    ) -> Evidence:
        """What the trials prove against a claim under `adjacency`. Trials on one model share it, so they are counted as one run."""
        if self.game is Game.FIXED_MODEL:
            audit = partial(audit_one_run, self.scores, self.bits)
        else:
            audit = partial(coin_evidence, self.scores, self.bits, game=self.describe(), coins=False, seed=seed)
        found = audit(delta=delta, confidence=confidence, measure=measure, attack=self.attack)
        return replace(found, game=self.describe())


class Help(TypedDict, total=False):
    """What an attacker has beside the target: own models, who was inside them, and records the target has not seen."""

    references: Sequence[Model]
    inside: NDArray[np.bool_] | None
    population: Records


class MembershipGame:
    """A training, a population, and what is fixed.

    `train(data) -> model` is any callable; `population` an array, a list, a tuple or mapping of arrays. In FIXED_MODEL `size` is the mean
    number of members, out of twice as many candidates. `record` (an index) and `dataset` (indices) may be given where they are fixed.
    `filler` is the index of the record that takes the place with `replace=True`.
    """

    def __init__(
        self, train: Train, population: Records, size: int, game: Game | str = Game.AVERAGE, *,
        record: int | None = None, dataset: ArrayLike | None = None, replace: bool = False, filler: int | None = None,
        seed: int | None = None, workers: int = 1, progress: bool = False,
    ) -> None:
        self.train, self.population, self.game, self.replace = train, population, Game(game), replace
        self.size = count("size", size)
        self.seed, self.workers, self.progress = seed, workers, progress
        self.coins = generator(seed)
        total = size_of(population)
        needed = 2 * self.size if self.game is Game.FIXED_MODEL else self.size + 2
        if total < needed:
            raise ParameterError(f"the population has {total} records; {self.game.value} with size {self.size} needs at least {needed}")
        if self.game is Game.FIXED_MODEL and replace:
            raise ParameterError("the fixed-model game flips a coin for every candidate: its relation is add-remove; use another game")
        order = self.coins.permutation(total)
        self.record = int(order[0]) if record is None else record
        self.filler = int(order[1]) if filler is None else filler
        kept = [int(i) for i in order if i not in (self.record, self.filler)][: self.size]
        self.dataset: Ints = np.asarray(kept if dataset is None else dataset, dtype=np.int64)
        if self.game is Game.WORST_CASE and self.record in self.dataset:
            raise ParameterError("the fixed data set must not hold the fixed record: the game adds it in one of its worlds")
        self.candidates: Ints = np.sort(order[: 2 * self.size])
        self.inside = self.coins.random(2 * self.size) < 0.5

    @cached_property
    def target(self) -> Model:
        """The one model of the fixed-model game, trained on the candidates whose coin said so."""
        return trained(self.train, take(self.population, self.candidates[self.inside]), self._seed(self.coins))

    def _seed(self, coins: Generator) -> int | None:
        return None if self.seed is None else int(coins.integers(2**62))

    def run(self, attack: Attack | Adversary, trials: int, **how: Unpack[Help]) -> GameResult:
        """Play. The attack is one of `tacit.audit.models.membership`, or any function of a model and records to a score."""
        return self.run_all([attack], trials, **how)[0]

    def run_all(
        self, attacks: Sequence[Attack | Adversary], trials: int, *,
        references: Sequence[Model] = (), inside: NDArray[np.bool_] | None = None, population: Records = None,
    ) -> list[GameResult]:
        """Play with several attackers on the same models. `inside[i, j]` says whether reference i was trained on record j: of the
        candidates in the fixed-model game, of the whole population in the others, as `train_references` has it."""
        names = [one.describe() if isinstance(one, Attack) else getattr(one, "__name__", type(one).__name__) for one in attacks]
        if self.game is Game.FIXED_MODEL:
            return self._fixed_model(attacks, count("trials", trials), names, references, inside, population)
        # As many trials in either world: the same power for fewer of them, and the attacker does not see the order.
        bits = self.coins.permutation(np.arange(count("trials", trials, least=2)) % 2 == 0)
        plays = [self._play(bool(bit), coins) for bit, coins in zip(bits.tolist(), spawn(self.coins, trials), strict=True)]
        one = partial(_trial, self.train, self.population, tuple(attacks), tuple(references), population, self._known(inside))
        played = map_trials(one, plays, workers=self.workers, progress=self.progress, what=f"{self.game.value} game")
        asked = np.array([play.record for play in plays])
        return [
            GameResult(np.array(column), bits, self.game, name, self.replace, asked)
            for name, column in zip(names, zip(*played, strict=True), strict=True)
        ]

    def _known(self, inside: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        if inside is not None and inside.shape[1] != size_of(self.population):
            raise ParameterError(f"inside must have a column for each of the {size_of(self.population)} records, not {inside.shape[1]}")
        return inside

    def train_references(self, number: int) -> tuple[list[Model], NDArray[np.bool_]]:
        """Models of the attacker's own, and who was inside which: of the candidates in the fixed-model game, else of the population.

        Their coins have nothing to do with the target's. In the fixed-model game each candidate is in by a coin; in
        the average game each data set is fresh; with a fixed record every other model has it, on the data that the game trains on.
        """
        jobs, inside = self._reference_data(count("number", number))
        one = partial(_train_on, self.train, self.population)
        return map_trials(one, jobs, workers=self.workers, progress=self.progress, what="reference models"), inside

    def _reference_data(self, number: int) -> tuple[list[Play], NDArray[np.bool_]]:
        if self.game is Game.FIXED_MODEL:
            inside = self.coins.random((number, len(self.candidates))) < 0.5
            drawn = [self.candidates[row] for row in inside]
            seeds = [self._seed(coins) for coins in spawn(self.coins, number)]
            return [Play(data, 0, seed) for data, seed in zip(drawn, seeds, strict=True)], inside
        jobs = [self._play(place % 2 == 0, coins) for place, coins in enumerate(spawn(self.coins, number))]
        inside = np.zeros((number, size_of(self.population)), dtype=bool)
        for row, job in zip(inside, jobs, strict=True):
            row[job.data] = True
        return jobs, inside

    def _play(self, bit: bool, coins: Generator) -> Play:
        total, seed = size_of(self.population), self._seed(coins)
        if self.game is Game.AVERAGE:
            drawn = coins.permutation(total)[: self.size + 1]
            return Play(drawn[: self.size], int(drawn[0] if bit else drawn[self.size]), seed)
        data = self.dataset
        if self.game is Game.FIXED_RECORD:
            others = coins.permutation(total)
            data = others[(others != self.record) & (others != self.filler)][: self.size]
        added = [self.record] if bit else [self.filler] if self.replace else []
        return Play(np.append(data, added).astype(np.int64), self.record, seed)

    def _fixed_model(
        self, attacks: Sequence[Attack | Adversary], trials: int, names: list[str],
        references: Sequence[Model], inside: NDArray[np.bool_] | None, population: Records,
    ) -> list[GameResult]:
        chosen = np.arange(len(self.candidates))
        if trials < len(chosen):  # a choice that does not look at the coins leaves them fair
            chosen = np.sort(self.coins.permutation(len(chosen))[:trials])
        records = take(self.population, self.candidates[chosen])
        known = None if inside is None else inside[:, chosen]
        found = []
        for attack, name in zip(attacks, names, strict=True):
            scores = _attacked(attack, references, population, self.target, records, known)
            values = np.asarray(scores, dtype=np.float64).reshape(len(chosen))
            found.append(GameResult(values, self.inside[chosen], self.game, name, False, self.candidates[chosen]))
        return found


@dataclass(frozen=True)
class Play:
    """One trial before it is run: on whom to train, whom to ask about, and the seed of the training."""

    data: Ints
    record: int
    seed: int | None


def _attacked(
    attack: Attack | Adversary, references: Sequence[Model], population: Records, model: Model, records: Records,
    inside: NDArray[np.bool_] | None = None,
) -> ArrayLike:
    if isinstance(attack, Attack):
        return attack.fit(model, references, population).score(records, inside)
    answered: ArrayLike = attack(model, records)
    return answered


def _trial(
    train: Train, population: Records, attacks: Sequence[Attack | Adversary], references: Sequence[Model],
    others: Records, inside: NDArray[np.bool_] | None, play: Play,
) -> list[float]:
    model = trained(train, take(population, play.data), play.seed)
    record = take(population, np.array([play.record]))
    known = None if inside is None else inside[:, [play.record]]
    return [float(np.asarray(_attacked(one, references, others, model, record, known)).reshape(-1)[0]) for one in attacks]


def _train_on(train: Train, population: Records, play: Play) -> Model:
    return trained(train, take(population, play.data), play.seed)
