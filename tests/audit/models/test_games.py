"""The four games on trainings whose leak is known: everything, nothing, and exactly epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.audit.toy_models import NoisySum, constant, is_kept, keep, ridge, toy

from tacit.accounting import Adjacency, ParameterError
from tacit.audit.experiment import generator
from tacit.audit.models.games import Game, MembershipGame, size_of, take
from tacit.audit.models.independent import coin_evidence
from tacit.audit.models.membership import LossAttack, PopulationAttack
from tacit.audit.rates import lower_rate, upper_rate

POPULATION = toy(140, columns=8)
GAMES = list(Game)


def named(game: Game) -> str:
    return game.value


@pytest.mark.parametrize("game", GAMES, ids=named)
def test_a_constant_adversary_is_right_half_of_the_time(game: Game) -> None:
    curve = MembershipGame(constant, POPULATION, 20, game, seed=1).run(lambda model, records: np.ones(len(records[0])), 40).roc
    assert curve.rates(1.0) == (1.0, 1.0)
    assert curve.accuracy == curve.auc == 0.5


@pytest.mark.parametrize("game", GAMES, ids=named)
def test_a_training_that_outputs_its_data_is_seen_through(game: Game) -> None:
    result = MembershipGame(keep, POPULATION, 20, game, seed=2).run(is_kept, 40)
    assert result.roc.accuracy == 1.0
    assert result.bits.any() and not result.bits.all()


@pytest.mark.parametrize("game", GAMES, ids=named)
def test_a_training_that_ignores_its_data_leaves_a_coin(game: Game) -> None:
    result = MembershipGame(constant, POPULATION, 60, game, seed=3).run(LossAttack(), 100)
    right = int(np.sum((result.scores > np.median(result.scores)) == result.bits))
    trials = len(result.bits)
    assert lower_rate(right, trials, 1e-4) <= 0.5 <= upper_rate(right, trials, 1e-4)
    assert result.evidence(confidence=0.999).lower < 0.3


@pytest.mark.parametrize("replace", [False, True], ids=["out", "replaced"])
def test_what_the_worlds_of_a_fixed_record_are_trained_on(replace: bool) -> None:
    """E17: the IN world is trained on the data *and* the record; the OUT world on the data, or with another in its place."""
    seen: list[Any] = []

    def note(data: Any) -> Any:
        seen.append(data)
        return data

    game = MembershipGame(note, np.arange(50), 10, Game.WORST_CASE, record=7, replace=replace, filler=8, seed=4)
    result = game.run(lambda model, record: float(record[0] in model), 8)
    assert result.roc.accuracy == 1.0
    for data, bit in zip(seen, result.bits, strict=True):
        extra = [7] if bit else [8] if replace else []
        assert sorted(data.tolist()) == sorted([*game.dataset.tolist(), *extra])
    assert result.adjacency is (Adjacency.REPLACE_ONE if replace else Adjacency.ADD_REMOVE)


def test_what_is_fresh_and_what_is_fixed() -> None:
    def trace(game: Game) -> tuple[set[tuple[int, ...]], set[int]]:
        seen: list[tuple[int, ...]] = []
        table = MembershipGame(lambda data: seen.append(tuple(sorted(data.tolist()))), np.arange(60), 10, game, seed=5)
        result = table.run(lambda model, record: np.zeros(len(record)), 12)
        return set(seen), set(result.records.tolist())

    sets = {game: tuple(len(part) for part in trace(game)) for game in GAMES}
    assert sets[Game.AVERAGE][0] == 12 and sets[Game.AVERAGE][1] > 6
    assert sets[Game.FIXED_MODEL][0] == 1 and sets[Game.FIXED_MODEL][1] == 12
    assert sets[Game.FIXED_RECORD] == (12, 1)
    assert sets[Game.WORST_CASE] == (2, 1)


def test_the_laplace_mechanism_in_the_worst_case() -> None:
    """Epsilon 1: the best accuracy is 0.6967; the bound reaches a good part of 1 and is not above it."""
    game = MembershipGame(NoisySum(1.0), np.ones(12), 10, Game.WORST_CASE, seed=6)
    result = game.run(lambda model, record: model, 3000)
    assert result.roc.accuracy == pytest.approx(0.6967, abs=0.03)
    assert result.roc.auc == pytest.approx(0.724090, abs=0.03)
    assert 0.6 < result.evidence().lower <= 1


def test_one_model_is_one_run() -> None:
    """Many records asked of one model are not as many trials: noise they share must not be counted as if it were fresh."""

    def leaky(data: Any, seed: int = 0) -> Any:
        """With probability 0.1, all; otherwise nothing. Epsilon 0 at delta 0.1."""
        return set(data.tolist()) if generator(seed).random() < 0.1 else set()

    above = mutant = 0
    for seed in range(60):
        result = MembershipGame(leaky, np.arange(200), 100, Game.FIXED_MODEL, seed=seed).run(
            lambda model, records: np.array([float(r in model) for r in records]), 200
        )
        above += result.evidence(delta=0.1, confidence=0.95).lower > 0
        each = coin_evidence(result.scores, result.bits, attack="a", game="g", delta=0.1, seed=seed)
        mutant += each.lower > 0  # who counts every record as a trial of its own
    assert above <= 3 + 3 * 1.7
    assert mutant > above and mutant >= 3


def test_the_same_seed_gives_the_same_trials_in_any_number_of_workers() -> None:
    def play(workers: int) -> Any:
        game = MembershipGame(ridge, POPULATION, 30, Game.AVERAGE, seed=8, workers=workers)
        return game.run(LossAttack(), 6)

    one, two = play(1), play(2)
    np.testing.assert_array_equal(one.scores, two.scores)
    np.testing.assert_array_equal(one.bits, two.bits)
    assert not np.array_equal(MembershipGame(ridge, POPULATION, 30, seed=9).run(LossAttack(), 6).scores, one.scores)


def test_references_are_known_to_hold_what_they_hold() -> None:
    game = MembershipGame(keep, POPULATION, 20, Game.FIXED_MODEL, seed=10)
    models, inside = game.train_references(3)
    records = take(POPULATION, game.candidates)
    for model, row in zip(models, inside, strict=True):
        np.testing.assert_array_equal(is_kept(model, records) > 0, row)
    assert not np.array_equal(inside[0], game.inside)


@pytest.mark.parametrize(
    "data", [np.arange(6), list(range(6)), (np.arange(6),), {"x": np.arange(6)}], ids=["array", "list", "tuple", "mapping"]
)
def test_data_of_any_form(data: Any) -> None:
    assert size_of(data) == 6
    chosen = take(data, np.array([4, 1]))
    assert type(chosen) is type(data)
    flat = chosen["x"] if isinstance(chosen, dict) else chosen[0] if isinstance(chosen, tuple) else chosen
    assert list(flat) == [4, 1]


def test_tables_of_other_packages() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"a": [1, 2, 3]})
    assert size_of(table) == 3 and take(table, np.array([2]))["a"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("game", "how", "message"),
    [
        (Game.AVERAGE, {"size": 139}, "at least"),
        (Game.FIXED_MODEL, {"size": 71}, "at least"),
        (Game.FIXED_MODEL, {"size": 20, "replace": True}, "add-remove"),
        (Game.WORST_CASE, {"size": 20, "record": 3, "dataset": [1, 2, 3]}, "must not hold"),
    ],
    ids=["too small", "too few candidates", "coins replace nobody", "record inside"],
)
def test_refusals(game: Game, how: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        MembershipGame(constant, POPULATION, game=game, **how)


def test_an_attack_that_needs_a_population_says_so() -> None:
    with pytest.raises(ParameterError, match="population"):
        MembershipGame(constant, POPULATION, 20, Game.AVERAGE, seed=1).run(PopulationAttack(), 4)
