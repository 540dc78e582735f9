"""Mechanisms: one file each, with its guarantee, its accuracy in both directions, and exact noise.

>>> from tacit.calculus import AddRemove, Integers, Rows, Space, clamp, total
>>> plan = Space(Rows(Integers()), AddRemove()) >> clamp(0, 100) >> total() >> laplace(scale=200)
>>> plan.event(1)
Laplace(noise_multiplier=2)
"""

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
from tacit.mechanisms.lipschitz_graph import clique_count, lipschitz_degree_histogram, lipschitz_edge_count, star_count, triangle_count
from tacit.mechanisms.mechanism import Mechanism
from tacit.mechanisms.noisy_max import noisy_max
from tacit.mechanisms.partition_selection import best_selection, optimal_selection
from tacit.mechanisms.permute_and_flip import permute_and_flip
from tacit.mechanisms.planar import planar_laplace
from tacit.mechanisms.propose_test_release import propose_interquartile_range, propose_median, propose_test_release
from tacit.mechanisms.quantile import maximum, median, minimum, quantile, quantiles
from tacit.mechanisms.randomised_response import from_coins, randomised_response
from tacit.mechanisms.sample_aggregate import block_mean, block_median, sample_aggregate
from tacit.mechanisms.smooth_sensitivity import smooth_interquartile_range, smooth_median, smooth_quantile
from tacit.mechanisms.staircase import staircase
from tacit.mechanisms.top_k import top_k
from tacit.mechanisms.verify import verify

__all__ = [
    "Mechanism",
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
