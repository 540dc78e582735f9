"""A purse never gives out more than it holds, and what is drawn with its shares is what its event prices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit.accounting import Adjacency, Guarantee
from tacit.learning import LinearRegression, LogisticRegression
from tacit.learning.linear import purse as module
from tacit.learning.linear import solvers, tilted
from tacit.learning.linear.prior import Prior
from tacit.learning.linear.pure import STEP, TILT_STEP
from tacit.learning.linear.purse import Purse
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
@pytest.mark.parametrize(("delta", "solver"), [(1e-6, "descent"), (0.0, "tilted")])
def test_what_a_classifier_draws_adds_up_to_its_price(
    rows: int, delta: float, solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a second look at the classes and without one. The mutant, a second look that is not taken from the purse, overspends."""
    seen, epsilon = tilted_too(monkeypatch), 1.0
    strength = Purse.of(Guarantee(epsilon=epsilon, delta=delta), AR).strength
    looks, counted, weighted, take = [0.0], Purse.counts, Purse.weighted_sum, Purse.take

    def look(self: Purse, *given: Any) -> Any:
        share = given[2] if len(given) > 2 and isinstance(given[1], int) else given[-1]
        looks.append(share)
        return (counted if isinstance(given[1], int) else weighted)(self, *given)

    def forgetful(self: Purse, *given: Any) -> Any:
        left = self.left
        found = look(self, *given)
        self.left = left if len(looks) > 2 else self.left
        return found

    def total() -> float:
        found = sum(seen) if not delta else math.sqrt(sum(part**2 for part in seen))
        seen.clear()
        return found

    def fit() -> LogisticRegression:
        looks[:] = [0.0]
        model = LogisticRegression(epsilon=epsilon, delta=delta, bounds=(-1, 1), classes=[0, 1], solver=solver)
        return model.fit(X[:rows], (Y[:rows] > 0).astype(int))

    with test_mode(2):
        for name in ("counts", "weighted_sum"):  # a second look with Gaussian noise is at the difference of the classes
            monkeypatch.setattr(Purse, name, look)
        model = fit()
        assert model.privacy_.upper <= epsilon
        assert 0.95 * strength < total() <= strength * (1 + 1e-9)
        again = looks[2] if len(looks) > 2 else 0.0
        assert (again > 0) == (rows < 3000) and take is Purse.take
        for name in ("counts", "weighted_sum"):
            monkeypatch.setattr(Purse, name, forgetful)
        fit()
        again, spent = looks[2] if len(looks) > 2 else 0.0, total() / strength
        if again:
            assert spent > 1 + again / 3
        else:
            assert spent <= 1 + 1e-9


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
