"""Mechanisms: one file each, with its guarantee, its accuracy in both directions, and exact noise.

>>> from tacit.calculus import AddRemove, Integers, Rows, Space, clamp, total
>>> from tacit.mechanisms import laplace
>>> plan = Space(Rows(Integers()), AddRemove()) >> clamp(0, 100) >> total() >> laplace(scale=200)
>>> plan.event(1)
Laplace(noise_multiplier=2)

A mechanism is loaded when it is first used: a question about a table needs only `NoisySums`, and most others
load scipy.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.mechanisms.above_threshold import above_threshold
    from tacit.mechanisms.automatic_bounds import automatic_bounds
    from tacit.mechanisms.bounded_mean import bounded_mean, bounded_variance
    from tacit.mechanisms.candidate_selection import candidate_selection
    from tacit.mechanisms.continual_counting import binary_tree, continual_counting, square_root
    from tacit.mechanisms.discrete_gaussian import discrete_gaussian
    from tacit.mechanisms.exponential import exponential
    from tacit.mechanisms.gaussian import gaussian
    from tacit.mechanisms.geometric import geometric
    from tacit.mechanisms.histogram import noisy_histogram
    from tacit.mechanisms.laplace import laplace
    from tacit.mechanisms.lipschitz_graph import (
        clique_count,
        lipschitz_degree_histogram,
        lipschitz_edge_count,
        star_count,
        triangle_count,
    )
    from tacit.mechanisms.mechanism import Mechanism
    from tacit.mechanisms.noisy_max import noisy_max
    from tacit.mechanisms.noisy_sums import NoisySums
    from tacit.mechanisms.partition_selection import best_selection, optimal_selection
    from tacit.mechanisms.permute_and_flip import permute_and_flip
    from tacit.mechanisms.planar import planar_laplace
    from tacit.mechanisms.propose_test_release import (
        propose_interquartile_range,
        propose_median,
        propose_test_release,
    )
    from tacit.mechanisms.quantile import maximum, median, minimum, quantile, quantiles
    from tacit.mechanisms.randomised_response import from_coins, randomised_response
    from tacit.mechanisms.sample_aggregate import block_mean, block_median, sample_aggregate
    from tacit.mechanisms.smooth_sensitivity import smooth_interquartile_range, smooth_median, smooth_quantile
    from tacit.mechanisms.staircase import staircase
    from tacit.mechanisms.top_k import top_k
    from tacit.mechanisms.verify import verify

#: Where the names are at home.
_HOMES = {
    "above_threshold": ("above_threshold",),
    "automatic_bounds": ("automatic_bounds",),
    "bounded_mean": ("bounded_mean", "bounded_variance"),
    "candidate_selection": ("candidate_selection",),
    "continual_counting": ("binary_tree", "continual_counting", "square_root"),
    "discrete_gaussian": ("discrete_gaussian",),
    "exponential": ("exponential",),
    "gaussian": ("gaussian",),
    "geometric": ("geometric",),
    "histogram": ("noisy_histogram",),
    "laplace": ("laplace",),
    "lipschitz_graph": ("clique_count", "lipschitz_degree_histogram", "lipschitz_edge_count", "star_count", "triangle_count"),
    "mechanism": ("Mechanism",),
    "noisy_max": ("noisy_max",),
    "noisy_sums": ("NoisySums",),
    "partition_selection": ("best_selection", "optimal_selection"),
    "permute_and_flip": ("permute_and_flip",),
    "planar": ("planar_laplace",),
    "propose_test_release": ("propose_interquartile_range", "propose_median", "propose_test_release"),
    "quantile": ("maximum", "median", "minimum", "quantile", "quantiles"),
    "randomised_response": ("from_coins", "randomised_response"),
    "sample_aggregate": ("block_mean", "block_median", "sample_aggregate"),
    "smooth_sensitivity": ("smooth_interquartile_range", "smooth_median", "smooth_quantile"),
    "staircase": ("staircase",),
    "top_k": ("top_k",),
    "verify": ("verify",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Mechanism",
    "NoisySums",
    "above_threshold",
    "automatic_bounds",
    "best_selection",
    "binary_tree",
    "block_mean",
    "block_median",
    "bounded_mean",
    "bounded_variance",
    "candidate_selection",
    "clique_count",
    "continual_counting",
    "discrete_gaussian",
    "exponential",
    "from_coins",
    "gaussian",
    "geometric",
    "laplace",
    "lipschitz_degree_histogram",
    "lipschitz_edge_count",
    "maximum",
    "median",
    "minimum",
    "noisy_histogram",
    "noisy_max",
    "optimal_selection",
    "permute_and_flip",
    "planar_laplace",
    "propose_interquartile_range",
    "propose_median",
    "propose_test_release",
    "quantile",
    "quantiles",
    "randomised_response",
    "sample_aggregate",
    "smooth_interquartile_range",
    "smooth_median",
    "smooth_quantile",
    "square_root",
    "staircase",
    "star_count",
    "top_k",
    "triangle_count",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tacit.mechanisms' has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"tacit.mechanisms.{_HOME_OF[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])


class _Room(ModuleType):
    """This package. Many files are named after the function they hold: importing one must not hide the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in _HOME_OF):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Room
