"""AIM: round after round, measure the marginal on which the model is worst (McKenna, Mullins, Sheldon and Miklau 2022).

Candidates are all marginals up to `degree` columns. A round chooses one by the exponential mechanism, with a score
that counts its L1 error less the noise it would get, measures it and fits again. Where a new marginal moves the model
by less than its noise, later rounds get twice the precision; the last round spends what is left.

>>> [float(f"{x:.6g}") for x in first_round(15, rho=0.0149730577)]
[94.3657, 0.00706471]
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.synthesis.estimate import Model
from tacit.synthesis.junction_tree import Clique, cells
from tacit.synthesis.measure import Measuring, check_tables
from tacit.synthesis.score import distances, model_counts

HALF_NORMAL = math.sqrt(2 / math.pi)  # the mean of |N(0, 1)|


def first_round(columns: int, rho: float, rounds: int = 16) -> tuple[float, float]:
    """The noise and the epsilon of a round, for `rounds` of them a column: nine tenths of rho measure."""
    planned = rounds * columns
    return math.sqrt(planned / (2 * 0.9 * rho)), math.sqrt(8 * 0.1 * rho / planned)


def workload_weights(width: int, degree: int) -> dict[Clique, int]:
    """Every marginal up to `degree` columns, with how many columns it shares with all those of exactly `degree`.

    >>> workload_weights(3, 2)
    {(0,): 2, (1,): 2, (2,): 2, (0, 1): 4, (0, 2): 4, (1, 2): 4}
    """
    degree = min(degree, width)
    wanted = list(itertools.combinations(range(width), degree))
    found = {}
    for size in range(1, degree + 1):
        for clique in itertools.combinations(range(width), size):
            found[clique] = sum(len(set(clique) & set(other)) for other in wanted)
    common = math.gcd(*found.values()) if found else 1
    return {clique: weight // common * common for clique, weight in found.items()}


@dataclass(frozen=True)
class AIM:
    """The method's settings; the paper's are the defaults. `cap` is the largest model, in cells; marginals with
    the column number `target` count `weight` times."""

    degree: int = 2
    rounds: int = 16
    cap: int = 130_000
    steps: int = 60
    last_steps: int = 400
    enough: float = 0.0
    target: int | None = None
    weight: int = 3
    selects = True

    def check(self, sizes: Sequence[int]) -> None:
        """Refuse columns whose tables do not fit into memory, before anything is paid for."""
        check_tables(sizes, self.degree)

    def fit(self, measuring: Measuring) -> Model:
        """Columns first, then rounds until the budget is spent."""
        sigma, epsilon = first_round(measuring.width, measuring.left / 2, self.rounds)
        for column in range(measuring.width):
            measuring.marginal((column,), sigma * measuring.max_rows)
        model = measuring.fit(steps=self.steps)
        weights = {
            clique: weight * (self.weight if self.target in clique else 1)
            for clique, weight in workload_weights(measuring.width, self.degree).items()
        }
        return self.refine(measuring, model, weights, sigma * measuring.max_rows, epsilon)

    def refine(
        self, measuring: Measuring, model: Model, weights: dict[Clique, int], sigma: float, epsilon: float
    ) -> Model:
        """Rounds of select, measure and fit until nothing is left."""
        whole = measuring.left
        candidates = list(weights)
        exact = [measuring.exact(candidate) for candidate in candidates]
        weight = np.array([weights[candidate] for candidate in candidates])
        lengths = np.array([table.size for table in exact])
        fitting = SizeCheck(measuring.sizes)
        last = False
        while not last:
            price = measuring.selection_cost(epsilon) + measuring.cost_of(sigma)
            if measuring.left < 2 * price:  # the last round takes what is left, nine tenths for the marginal
                last = True
                sigma = measuring.sigma_for(0.9 * measuring.left)
                epsilon = affordable(measuring, 0.1 * measuring.left * (1 - 1e-9))
            spent = 1 - measuring.left / whole if not last else 1.0
            allowed = np.array([fitting.size(measuring.held, c) <= max(self.cap * max(spent, 0.1), 1) for c in candidates])
            open_ = np.flatnonzero(allowed) if allowed.any() else np.arange(measuring.width)
            penalty = np.rint(weight * HALF_NORMAL * sigma * lengths).astype(np.int64)
            pick = worst(measuring, model, candidates, exact, open_.tolist(), weight, penalty, epsilon)
            clique = candidates[pick]
            before = model.marginal(clique)
            measuring.marginal(clique, sigma)
            steps = self.last_steps if last else self.steps
            model = measuring.fit(steps=steps, warm=model, enough=self.enough)
            moved = float(np.abs(model.marginal(clique) - before).sum())
            if not last and moved <= HALF_NORMAL * sigma * lengths[pick]:
                sigma, epsilon = sigma / 2, epsilon * 2
        return model


def worst(
    measuring: Measuring, model: Model, candidates: Sequence[Clique], exact: Sequence[NDArray[np.int64]],
    open_: Sequence[int], weight: NDArray[np.int64], penalty: NDArray[np.int64], epsilon: float,
) -> int:
    """The place of an open candidate that the model gets wrong, weight times its L1 error less a penalty, chosen by
    the exponential mechanism."""
    some = list(open_)
    errors = distances([exact[place] for place in some], model_counts(model, [candidates[place] for place in some]))
    scores = weight[some] * errors - penalty[some]
    return some[measuring.choose(scores, moved=int(weight.max()), epsilon=epsilon)]


def affordable(measuring: Measuring, cost: float) -> float:
    """The epsilon of a selection that costs so much."""
    return math.sqrt(cost / measuring.selection_cost(1e-6)) * 1e-6 if cost > 0 else 1e-9


class SizeCheck:
    """Sizes of models with one more clique, remembered while what is held stays the same."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self._held: frozenset[Clique] = frozenset()
        self._known: dict[Clique, int] = {}

    def size(self, held: list[Clique], more: Clique) -> int:
        """The cells of the model of all these cliques."""
        now = frozenset(held)
        if now != self._held:
            self._held, self._known = now, {}
        if more not in self._known:
            self._known[more] = cells(self.sizes, [*now, more])
        return self._known[more]
