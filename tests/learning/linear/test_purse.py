"""A purse never gives out more than it holds, and what is drawn with its shares is what its event prices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tacit.accounting import Adjacency, Guarantee
from tacit.calculus import Integers, LInfinity, Space, Vectors
from tacit.learning import LinearRegression, LogisticRegression
from tacit.learning.linear import classifiers, solvers, tilted
from tacit.learning.linear import purse as module
from tacit.learning.linear.prior import FIRST_PURE, Prior
from tacit.learning.linear.pure import STEP, TILT_STEP
from tacit.learning.linear.purse import Purse
from tacit.mechanisms import LATTICE_BITS
from tacit.noise import test_mode

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
GENERATOR = np.random.default_rng(5)
X = GENERATOR.uniform(-1, 1, (3000, 4))
Y = X @ np.array([0.4, -0.3, 0.2, 0.0]) + GENERATOR.normal(0, 0.1, 3000)


@pytest.mark.parametrize("guarantee", [Guarantee(epsilon=1, delta=1e-6), Guarantee(epsilon=2, delta=0), Guarantee(rho=0.1)])
def test_no_more_than_the_whole_is_given_out(guarantee: Guarantee) -> None:
    purse = Purse.of(guarantee, AR)
    assert guarantee.keeps(purse.event, AR)
    parts = [purse.take(share) for share in (0.2, 0.3, 0.5)]
    total = sum(parts) if purse.pure else math.sqrt(sum(part**2 for part in parts))
    assert purse.strength * (1 - 1e-6) < total <= purse.strength
    with pytest.raises(RuntimeError, match="share"):
        purse.take(0.01)


@pytest.mark.parametrize("adjacency", [AR, RO])
def test_sums_counts_and_moments_are_those_of_the_rows_without_noise(adjacency: Adjacency) -> None:
    """The oracle: numpy's own sums, for a guarantee so loose that noise is nothing."""
    for guarantee in (Guarantee(rho=1e10), Guarantee(epsilon=1e7, delta=0)):
        purse = Purse.of(guarantee, adjacency)
        with test_mode(1):
            assert purse.box_sum(X, 0.2)[0] == pytest.approx(X.sum(axis=0), abs=0.01)
            held = X / 2
            assert purse.moment(held, 0.2)[0] == pytest.approx(held.T @ held, abs=0.01)
            cells = np.column_stack([(X[:, 0] > 0).astype(np.int64), np.where(X[:, 1] > 0, 1, -1)])
            expected = [[(X[:, 0] <= 0).sum(), (X[:, 0] > 0).sum()], [0, (X[:, 1] > 0).sum()]]
            assert purse.counts(cells, 2, 0.2)[0] == pytest.approx(np.array(expected), abs=0.01)
            assert purse.rows(X, None, 0.2) == pytest.approx(3000, abs=0.01)


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The mu or epsilon of every release that a fit draws, as handed to the mechanisms themselves."""
    seen: list[float] = []

    def spied(function: Callable[..., Any], price: Callable[[dict[str, Any]], float]) -> Callable[..., Any]:
        def call(*args: Any, **given: Any) -> Any:
            seen.append(price(given))
            return function(*args, **given)

        return call

    for name in ("noisy_sum", "noisy_second_moment", "noisy_table"):
        monkeypatch.setattr(module, name, spied(getattr(module, name), lambda given: 1 / given["multiplier"]))
    for name in ("noisy_sum", "noisy_second_moment", "noisy_outer_sum"):
        monkeypatch.setattr(solvers, name, spied(getattr(solvers, name), lambda given: 1 / given["multiplier"]))
    for name in ("noisy_box_sum", "noisy_box_sums"):
        monkeypatch.setattr(module, name, spied(getattr(module, name), lambda given: given["epsilon"]))
    chosen = module.noisy_max

    def choosing(scale: Any) -> Any:  # a person makes every sum larger by at most 1, which is 2^24 on the lattice
        seen.append(float((1 << LATTICE_BITS) / scale))
        return chosen(scale)

    monkeypatch.setattr(module, "noisy_max", choosing)
    return seen


@pytest.mark.parametrize("rows", [60, 400, 3000])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_what_a_fit_draws_adds_up_to_its_price(rows: int, delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every regime: the mean alone, a descent, directions, one matrix. The mutant, a purse that forgets, overspends."""
    seen = recorded(monkeypatch)
    public: dict[str, Any] = {"epsilon": 2, "delta": delta, "bounds": (-1, 1)}
    guarantee = Guarantee(epsilon=2, delta=delta)
    strength = Purse.of(guarantee, AR).strength

    def total() -> float:
        found = sum(seen) if not delta else math.sqrt(sum(part**2 for part in seen))
        seen.clear()
        return found

    with test_mode(2):
        LinearRegression(**public, label_bounds=(-2, 2)).fit(X[:rows], Y[:rows])
        assert 0.5 * strength < total() <= strength * (1 + 1e-9)
        if delta:
            LogisticRegression(**public, classes=[0, 1], solver="descent").fit(X[:rows], (Y[:rows] > 0).astype(int))
            assert 0.5 * strength < total() <= strength * (1 + 1e-9)
        monkeypatch.setattr(Purse, "take", lambda self, share: self.strength)
        LinearRegression(**public, label_bounds=(-2, 2)).fit(X[:rows], Y[:rows])
        assert total() > 1.2 * strength


def tilted_too(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """`recorded`, with the epsilon of the tilt and of the distance of a tilted minimum, each worked out from the scale that was drawn."""
    seen, at = recorded(monkeypatch), dict[str, float]()
    ridged, solved, drawn = tilted.best_ridge, tilted.minimise_scores, tilted.cube_noise

    def ridge(*args: Any) -> tuple[float, float]:
        found = ridged(*args)
        at.update(ridge=found[0], determinant=found[1])
        return found

    def solve(*args: Any, **given: Any) -> Any:
        rows = args[1]
        assert np.abs(rows).max() <= 1  # a person moves no coordinate of the gradient by more
        at.update(distance=given["distance"], width=rows.shape[1])
        return solved(*args, **given)

    def draw(scale: Any, width: int) -> Any:
        if "distance" in at:  # the solver has run: this is for the distance to the minimum
            apart = at.pop("distance") + math.sqrt(width) * (float(TILT_STEP) / at["ridge"] + float(STEP)) / 2
            seen.append(2 * apart / float(scale * STEP))
        else:
            seen.append(at["determinant"] + 1 / float(scale * TILT_STEP))  # the logistic loss has a slope of 1
        return drawn(scale, width)

    for name, spy in (("best_ridge", ridge), ("minimise_scores", solve), ("cube_noise", draw)):
        monkeypatch.setattr(tilted, name, spy)
    return seen


@pytest.mark.parametrize("rows", [100, 300, 3000])
@pytest.mark.parametrize(("delta", "solver", "weight"), [(1e-6, "descent", None), (0.0, "tilted", None), (0.0, "tilted", "balanced")])
def test_what_a_classifier_draws_adds_up_to_its_price(
    rows: int, delta: float, solver: str, weight: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a second look at the classes, with a choice at the end in its place, and with neither. The mutants, a second look or a choice
    that is not taken from the purse, overspend."""
    seen, epsilon = tilted_too(monkeypatch), 1.0
    strength = Purse.of(Guarantee(epsilon=epsilon, delta=delta), AR).strength
    looks, counted, weighted, take, choose = [0.0], Purse.counts, Purse.weighted_sum, Purse.take, Purse.choice
    choices: list[float] = []

    def look(self: Purse, *given: Any) -> Any:
        share = given[2] if len(given) > 2 and isinstance(given[1], int) else given[-1]
        looks.append(share)
        return (counted if isinstance(given[1], int) else weighted)(self, *given)

    def forgetful(self: Purse, *given: Any) -> Any:
        left = self.left
        found = look(self, *given)
        self.left = left if len(looks) > 2 else self.left
        return found

    def choice(self: Purse, parts: Any, ahead: Any, share: float) -> int:
        choices.append(share)
        return choose(self, parts, ahead, share)

    def greedy(self: Purse, parts: Any, ahead: Any, share: float) -> int:
        self.left = 1.0
        return choice(self, parts, ahead, 1.0)

    def total() -> float:
        found = sum(seen) if not delta else math.sqrt(sum(part**2 for part in seen))
        seen.clear()
        return found

    def fit() -> LogisticRegression:
        looks[:], choices[:] = [0.0], []
        model = LogisticRegression(epsilon=epsilon, delta=delta, bounds=(-1, 1), classes=[0, 1], solver=solver, class_weight=weight)
        return model.fit(X[:rows], (Y[:rows] > 0).astype(int))

    with test_mode(2):
        for name in ("counts", "weighted_sum"):  # a second look with Gaussian noise is at the difference of the classes
            monkeypatch.setattr(Purse, name, look)
        monkeypatch.setattr(Purse, "choice", choice)
        model = fit()
        assert model.privacy_.upper <= epsilon
        assert 0.95 * strength < total() <= strength * (1 + 1e-9)
        again, settled = len(looks) > 2, solver == "tilted" and weight is None
        assert (again or bool(choices)) == (rows < 3000) and take is Purse.take
        assert bool(choices) == (settled and rows < 3000) and not (again and choices)
        for name in ("counts", "weighted_sum"):
            monkeypatch.setattr(Purse, name, forgetful)
        monkeypatch.setattr(Purse, "choice", greedy)
        fit()
        more, spent = looks[2] if len(looks) > 2 else 0.5 if choices else 0.0, total() / strength
        if more:
            assert spent > 1 + more / 3
        else:
            assert spent <= 1 + 1e-9


@pytest.mark.parametrize(("rows", "pure"), [(300, True), (3000, False)])
def test_after_a_pure_look_at_the_classes_no_more_is_drawn_than_one_of_the_two_ways_pays_for(
    rows: int, pure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few rows: all draws are pure, and their epsilons add up to the whole. Many: the look has its part of epsilon, and Gaussian draws
    add up to the mu that the rest of epsilon and delta buy. The mutant, a look that is drawn twice, overspends."""
    seen, guarantee = tilted_too(monkeypatch), Guarantee(epsilon=0.1, delta=1e-6)
    event, first, gaussian, _ = Purse.after(guarantee, AR, FIRST_PURE)
    assert guarantee.keeps(event, AR)

    def fit() -> LogisticRegression:
        seen.clear()
        model = LogisticRegression(epsilon=0.1, delta=1e-6, bounds=(-1, 1), classes=[0, 1], solver="counted")
        return model.fit(X[:rows], (Y[:rows] > 0).astype(int))

    def spent() -> float:
        """The part of the whole epsilon or, after the look, of the whole mu."""
        return sum(seen) / 0.1 if pure else math.sqrt(sum(part**2 for part in seen[1:])) / gaussian.strength

    with test_mode(2):
        assert fit().privacy_.upper <= 0.1
        assert seen[0] == pytest.approx(first.strength, rel=1e-6)
        assert 0.95 < spent() <= 1 + 1e-9
        looked = classifiers.look

        def twice(codes: Any, classes: int, purse: Purse, *given: Any) -> Any:
            looked(codes, classes, replace(purse), *given)
            return looked(codes, classes, purse, *given)

        monkeypatch.setattr(classifiers, "look", twice)
        fit()
        assert sum(seen[:2]) > 1.9 * first.strength and (not pure or spent() > 1.05)


@pytest.mark.parametrize("adjacency", [AR, RO])
def test_a_choice_has_the_law_of_exponential_noise_and_a_person_moves_its_sums_as_is_paid_for(
    adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How often each of three columns wins, beside a simulation of continuous noise of scale 1 / epsilon, or 2 / epsilon where people are
    exchanged: 6,000 draws have an error of .0065, and five of those are allowed. Noise of half the scale would be .05 off."""
    parts, ahead = np.tile([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]], (20, 1)), np.array([1.0, 0.0, -0.5])
    scale = 2.0 if adjacency is AR else 4.0
    won = np.zeros(3)
    with test_mode(4):
        for _ in range(6000):
            won[Purse.of(Guarantee(epsilon=1, delta=0), adjacency).choice(parts, ahead, 0.5)] += 1 / 6000

    def law(scale: float) -> np.ndarray:
        noisy = parts.sum(axis=0) + ahead + np.random.default_rng(5).exponential(scale, (400_000, 3))
        found: np.ndarray = np.bincount(noisy.argmax(axis=1), minlength=3) / len(noisy)
        return found

    assert np.abs(won - law(scale)).max() < 0.033
    assert np.abs(won - law(scale / 2)).max() > 0.045
    seen: list[np.ndarray] = []
    chosen, lattice = module.noisy_max, module.box_lattice

    def priced(scale: Any) -> Any:  # the largest rise and the largest fall together, on the lattice
        moved = (1 if adjacency is AR else 2) << LATTICE_BITS
        event = chosen(scale).bind(Space(Vectors(Integers(), 3), LInfinity(monotone=True))).event(moved)
        assert Guarantee(epsilon=0.5, delta=0).keeps(event, AR) and not Guarantee(epsilon=0.49, delta=0).keeps(event, AR)
        return chosen(scale)

    def spied(rows: np.ndarray) -> Any:
        found = lattice(rows)
        seen.append(found.sum(axis=0))
        return found

    monkeypatch.setattr(module, "noisy_max", priced)
    monkeypatch.setattr(module, "box_lattice", spied)
    neighbour = np.vstack([parts[:-1], [[1.0, 0.0, 1.0]]]) if adjacency is RO else parts[:-1]
    with test_mode(4):
        for rows in (parts, neighbour, np.full((4, 3), np.nan), np.full((4, 3), -7.0), np.full((4, 3), 7.0)):
            Purse.of(Guarantee(epsilon=1, delta=0), adjacency).choice(rows, np.zeros(3), 0.5)
    moved = seen[0] - seen[1]
    assert max(moved.max(), 0) - min(moved.min(), 0) <= (1 if adjacency is AR else 2) << LATTICE_BITS
    assert not seen[2].any() and not seen[3].any() and (seen[4] == 4 << LATTICE_BITS).all()  # nobody counts for more than 1, or less than 0


@pytest.mark.parametrize("adjacency", [AR, RO])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_a_person_moves_each_look_at_the_classes_by_no_more_than_it_pays_for(
    delta: float, adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbours under the same noise, with a public number of rows: the shares of the two looks are the same, and a person moves the sums
    that the mechanisms release by their bound at most. The second look with Gaussian noise is one sum of length 1 a person."""
    seen: list[tuple[float, np.ndarray]] = []
    inner = {name: getattr(module, name) for name in ("noisy_table", "noisy_sum")}

    def spied(name: str) -> Callable[..., Any]:
        def call(*args: Any, **given: Any) -> Any:
            found = inner[name](*args, **given)
            seen.append((given["multiplier"], np.asarray(found).ravel()))
            return found

        return call

    for name in inner:
        monkeypatch.setattr(module, name, spied(name))
    codes = np.tile([0, 1, 1], 40)
    neighbour = codes[:-1] if adjacency is AR else np.append(codes[:-1], 0)
    for rows in (codes, neighbour):
        with test_mode(3):
            Prior.buy(rows, 2, Purse.of(Guarantee(epsilon=1, delta=delta), adjacency), 120)
    (one, first), (again, second), *others = seen
    assert [multiplier for multiplier, _ in others] == [one, again] and again < one
    moves = [mine - other for mine, other in ((first, others[0][1]), (second, others[1][1]))]
    step = 2**-22  # of the lattices
    counts = [moves[0]] if delta else moves
    for moved in counts:
        expected = [0.0, 1.0] if adjacency is AR else [-1.0, 1.0]
        assert moved == pytest.approx(np.array(expected), abs=step)
    if delta:  # the last person is of class 1: their row is (1, 1/2) over its length
        expected = np.array([1.0, 0.5]) if adjacency is AR else np.array([2.0, 0.0])
        assert moves[1] == pytest.approx(expected / math.hypot(1.0, 0.5), abs=step)
