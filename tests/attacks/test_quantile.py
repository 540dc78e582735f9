"""Quantiles from outside: most of the price is found, never more; ranks counted in hundredths of a row are caught."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from tests.attacks.attack import lower_bound

from tacit.calculus import AddRemove, Integers, Rows, Space
from tacit.mechanisms import loss_spread, quantile, run_table, runs_of

SPACE = Space(Rows(Integers(0, 9)), AddRemove())


def outputs(run, rows):
    return lambda n: [run(rows) for _ in range(n)]


def test_most_of_the_price_is_found_and_no_more():
    run = (SPACE >> quantile(1, epsilon=2)).function
    assert 1.0 < lower_bound(outputs(run, []), outputs(run, [9]), 1500, seed=1) <= 2


def test_losses_left_in_parts_of_a_row_are_caught():
    q = Fraction(9, 10)

    def mutant(rows):
        runs = runs_of(np.sort(np.array(rows, dtype=np.int64)), 0, 9, q)
        return int(run_table(runs, 1 / loss_spread(q, exchange=False)).draw(1)[0])  # not divided by the denominator of q

    assert lower_bound(outputs(mutant, [2] * 9), outputs(mutant, [2] * 9 + [7]), 800, seed=2) > 1
    ours = (SPACE >> quantile(q, epsilon=1)).function
    assert lower_bound(outputs(ours, [2] * 9), outputs(ours, [2] * 9 + [7]), 800, seed=2) <= 1
