"""python-dp (bindings of Google's C++ library), for `bench_leaks.py`."""

from __future__ import annotations

from importlib.metadata import version

from leaks_sampling import Asked, main
from pydp.algorithms.laplacian import BoundedMean, BoundedSum, Count
from pydp.algorithms.numerical_mechanisms import GaussianMechanism, LaplaceMechanism


def count(rows: int) -> float:
    return Count(epsilon=1.0, dtype="int").quick_result([1] * rows)


def add(rows: list[float]) -> float:
    return BoundedSum(epsilon=1.0, lower_bound=0.0, upper_bound=1.0, dtype="float").quick_result(rows)


def mean(rows: list[float]) -> float:
    return BoundedMean(epsilon=1.0, lower_bound=0.0, upper_bound=1.0, dtype="float").quick_result(rows)


if __name__ == "__main__":
    # Its sums and means are promised for one row more or less; an exchanged row is one of each, so twice the epsilon.
    laplace, gaussian = LaplaceMechanism(epsilon=1.0, sensitivity=1.0), GaussianMechanism(1.0, 0.01, 1.0)
    main(
        version("python-dp"),
        {
            "count, Laplace": Asked(count),
            "count, Gaussian": Asked(lambda value: gaussian.add_noise(float(value)), "eps=1,delta=0.01"),
            "float noise": Asked(laplace.add_noise),
            "sum, one row more": Asked(add),
            "sum, one row NaN": Asked(add, "eps=2"),
            "sum, one row 1e308": Asked(add, "eps=2"),
            "mean, one row NaN": Asked(mean, "eps=2"),
            "mean, one row 1e308": Asked(mean, "eps=2"),
        },
    )
