"""The choice of a solver depends on public numbers only, and prefers what measures better."""

from __future__ import annotations

import math
from typing import cast

import pytest

from tacit.accounting import Adjacency, Guarantee, ParameterError
from tacit.learning.linear.losses import Loss, custom, hinge, logistic, multinomial
from tacit.learning.linear.solvers import SOLVERS, Solver, choose_solver, predicted_excess

AR = Adjacency.ADD_REMOVE

APPROXIMATE, PURE = (Guarantee(epsilon=1, delta=1e-5), AR), (Guarantee(epsilon=1), AR)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("rows", [None, 500, 10**6])
def test_descent_with_a_delta_and_box_shaped_noise_without(epsilon: float, rows: int | None) -> None:
    assert choose_solver("auto", Guarantee(epsilon=epsilon, delta=1e-5), AR, features=30, rows=rows, loss=logistic) == "descent"
    assert choose_solver("auto", Guarantee(epsilon=epsilon, delta=0), AR, features=30, rows=rows, loss=logistic) == "tilted"


def test_pure_noise_beside_a_delta_for_few_features_and_a_large_epsilon() -> None:
    chosen = [
        choose_solver("auto", Guarantee(epsilon=epsilon, delta=1e-5), AR, features=features, rows=None, loss=logistic)
        for epsilon, features in ((10, 15), (10, 16), (1, 1), (1, 2), (0.1, 1))
    ]
    assert chosen == ["either", "descent", "either", "descent", "counted"]
    assert choose_solver("auto", Guarantee(rho=10), AR, features=1, rows=None, loss=logistic) == "descent"


def test_classes_are_counted_first_where_few_rows_and_features_may_make_pure_noise_less() -> None:
    """At epsilon .1 an unknown number of rows may be small enough, and a public one says so itself."""
    chosen = [
        choose_solver("auto", Guarantee(epsilon=epsilon, delta=1e-6), AR, features=features, rows=rows, loss=logistic)
        for epsilon, features, rows in ((0.1, 14, None), (0.1, 15, None), (0.1, 14, 1500), (0.1, 14, 1700), (1, 5, 150), (1, 5, None))
    ]
    assert chosen == ["counted", "descent", "counted", "descent", "counted", "descent"]
    assert choose_solver("auto", Guarantee(rho=1e-3), AR, features=5, rows=100, loss=logistic) == "descent"


def test_predictions_fall_with_rows_and_rise_with_features() -> None:
    for solver in ("descent", "objective", "output"):
        at = [predicted_excess(solver, *APPROXIMATE, features=d, rows=n, loss=logistic) for d, n in ((10, 100), (10, 1000), (100, 1000))]
        assert at[1] < at[0] and at[1] < at[2]


def test_what_has_no_proof_is_not_chosen() -> None:
    user = custom("mine", lambda s, y: s[:, 0], lambda s, y: s, slope=1.0, curvature=1.0)
    for loss in (user, hinge):
        assert all(math.isinf(predicted_excess(cast(Solver, s), *PURE, features=3, rows=10, loss=loss)) for s in SOLVERS)
        with pytest.raises(ParameterError, match="no solver"):
            choose_solver("auto", *PURE, features=3, rows=10, loss=loss)
        assert choose_solver("auto", *APPROXIMATE, features=3, rows=10, loss=loss) == "descent"


def test_several_classes_change_over_later_as_their_scores_pay_for_more() -> None:
    several = multinomial(10)
    assert math.isinf(predicted_excess("objective", *PURE, features=3, rows=10, loss=several)), "it fits one score"
    # which of two solvers is predicted to be better, beside the staged one, which is at least as good as both
    def excess(solver: Solver, rows: int, loss: Loss) -> float:
        return predicted_excess(solver, *PURE, features=10, rows=rows, loss=loss)

    later = {n: [excess("cube", n, loss) < excess("sums", n, loss) for loss in (logistic, several)] for n in (200, 400, 900)}
    assert later == {200: [False, False], 400: [True, False], 900: [True, True]}


def test_box_shaped_noise_is_for_pure_promises() -> None:
    for guarantee, adjacency in (APPROXIMATE, (Guarantee(rho=1), AR)):
        assert math.isinf(predicted_excess("sums", guarantee, adjacency, features=3, rows=10, loss=logistic))
        assert math.isinf(predicted_excess("cube", guarantee, adjacency, features=3, rows=10, loss=logistic))
