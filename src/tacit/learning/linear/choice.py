"""Which solver: the one with the least predicted excess risk at public numbers (rows, features, budget), before any data is touched.

The predictions are the rate card's (chapter 6 and Bassily, Smith, Thakurta 2014), with the constants of the solvers as they are
implemented; they rank solvers, they do not bound the error of a fit.

>>> choose_solver("auto", Guarantee(epsilon=1, delta=1e-5), Adjacency.ADD_REMOVE, features=10, rows=1000, loss=logistic)
'descent'
>>> choose_solver("auto", Guarantee(epsilon=1, delta=0), Adjacency.ADD_REMOVE, features=10, rows=1000, loss=logistic)
'cube'
>>> choose_solver("auto", Guarantee(epsilon=0.1, delta=0), Adjacency.ADD_REMOVE, features=10, rows=1000, loss=logistic)
'sums'
"""

from __future__ import annotations

import math
from typing import Literal, cast

from tacit.accounting import Adjacency, Guarantee, ParameterError
from tacit.learning.linear.losses import Loss, logistic
from tacit.learning.linear.perturbation import gaussian_scale

Solver = Literal["descent", "objective", "output", "sums", "cube"]
SOLVERS = ("descent", "objective", "output", "sums", "cube")
ONE_STEP = 0.04  # what one step leaves of the excess, where noise is no matter; measured
UNKNOWN_ROWS = 1000  # a number of rows to rank by where it is private

__all__ = ["Solver", "choose_solver", "logistic", "predicted_excess"]


def predicted_excess(
    solver: Solver, guarantee: Guarantee, adjacency: Adjacency, *, features: int, rows: int, loss: Loss, radius: float = 1.0
) -> float:
    """The excess risk per row to expect for rows of unit length and an optimum within `radius`; infinite where the solver does not apply.

    >>> pure, relation = Guarantee(epsilon=1), Adjacency.ADD_REMOVE
    >>> [round(predicted_excess(s, pure, relation, features=10, rows=1000, loss=logistic), 4) for s in SOLVERS]
    [inf, 0.0566, 0.2378, 0.0515, 0.0231]
    """
    if solver == "descent":
        if guarantee.pure:
            return math.inf
        # the first term of (6.47) is an optimisation error that steps remove; this is the noise
        return loss.slope * radius * math.sqrt(features) / (rows * guarantee.gaussian_mu)
    if solver in ("sums", "cube"):
        if not guarantee.pure or not loss.smooth or not loss.certified:
            return math.inf
        assert guarantee.floats.epsilon is not None
        # cube noise has the length d^(3/2) / sqrt(3), where rows are as long as half the diagonal of their cube; several scores pay for
        # the sum of their derivatives, several sums do not. Both shrink what noise hides, so that they are never worse than no model
        noise = 2 / math.sqrt(3) * features / (guarantee.floats.epsilon * rows)
        several = loss.total_slope(loss.rank + 1) if loss.rank > 1 else loss.slope
        found = ONE_STEP * loss.slope + noise if solver == "sums" else 2 * several * noise
        return radius * min(found, loss.slope)
    if not loss.smooth or not loss.certified or loss.rank > 1 or guarantee.floats.epsilon is None:
        return math.inf  # their proofs need a curvature; and they fit one score
    assert guarantee.floats.epsilon is not None and guarantee.floats.delta is not None
    if guarantee.pure:
        noise = 2 * math.sqrt(2) * features * loss.slope / guarantee.floats.epsilon
    else:
        noise = math.sqrt(features) * gaussian_scale(guarantee, adjacency, loss, guarantee.floats.epsilon)
    if solver == "objective":
        # Theorem 6.9 as corrected: 2 |C| times the root of the expected squared noise, with |C| the radius here
        return 2 * radius * noise / rows
    # output perturbation: noise 2 L / (n lambda) times dimension, at the lambda that balances it with the regularisation's bias
    return math.sqrt(2) * radius * math.sqrt(noise * loss.slope / rows)


def choose_solver(solver: str, guarantee: Guarantee, adjacency: Adjacency, *, features: int, rows: int | None, loss: Loss) -> Solver:
    """The solver asked for, refused where it cannot keep the guarantee; or the best by prediction for "auto"."""
    if solver not in (*SOLVERS, "auto"):
        raise ParameterError(f"solver must be 'auto', {', '.join(map(repr, SOLVERS))}, not {solver!r}")
    known = rows or UNKNOWN_ROWS
    predictions = {s: predicted_excess(cast(Solver, s), guarantee, adjacency, features=features, rows=known, loss=loss) for s in SOLVERS}
    if solver == "auto":
        best = min(predictions, key=lambda s: predictions[s])
        if math.isinf(predictions[best]):
            raise ParameterError(f"no solver keeps this guarantee with the loss {loss.name}; give a positive delta, or rho")
        return cast(Solver, best)
    if math.isinf(predictions[solver]):
        raise ParameterError(f"solver {solver!r} cannot keep this guarantee with the loss {loss.name}; solver='auto' picks one that can")
    return cast(Solver, solver)
