"""diffprivlib's mechanisms and tools, for `bench_leaks.py`."""

from __future__ import annotations

import warnings

import diffprivlib
import numpy as np
from diffprivlib import BudgetAccountant, mechanisms, tools
from leaks_sampling import Asked, main, spent_in_tenths

warnings.simplefilter("ignore")


def budget() -> str:
    account = BudgetAccountant(epsilon=1.0)
    return spent_in_tenths(lambda epsilon: tools.mean(np.array([0.5, 0.5]), epsilon=epsilon, bounds=(0, 1), accountant=account))


def add(rows):
    return tools.sum(np.array(rows), epsilon=1.0, bounds=(0, 1))


def mean(rows):
    return tools.mean(np.array(rows), epsilon=1.0, bounds=(0, 1))


if __name__ == "__main__":
    laplace = mechanisms.Laplace(epsilon=1.0, sensitivity=1.0)
    geometric = mechanisms.Geometric(epsilon=1.0, sensitivity=1)
    gaussian = mechanisms.GaussianAnalytic(epsilon=1.0, delta=0.01, sensitivity=1.0)
    main(
        diffprivlib.__version__,
        {
            "count, Laplace": Asked(laplace.randomise),
            "count, geometric": Asked(geometric.randomise),
            "count, Gaussian": Asked(gaussian.randomise, "eps=1,delta=0.01"),
            "float noise": Asked(laplace.randomise),
            "sum, one row more": Asked(add),
            "sum, one row NaN": Asked(add),
            "sum, one row 1e308": Asked(add),
            "mean, one row NaN": Asked(mean),
            "mean, one row 1e308": Asked(mean),
        },
        budget,
    )
