"""Mechanisms: steps that end a plan with noise. Each has its guarantee, its accuracy in both directions, and exact noise.

A mechanism is a frozen record of public parameters. Chained to a plan of `tacit.calculus` it becomes a measurement, whose
price is an event. Rooms that release sums of their own use `NoisySums`, which needs no plan.

>>> from tacit.calculus import AddRemove, Integers, Rows, Space, clamp, total
>>> from tacit.mechanisms import laplace
>>> plan = Space(Rows(Integers()), AddRemove()) >> clamp(0, 100) >> total() >> laplace(scale=200)
>>> plan.event(1)
Laplace(noise_multiplier=2)

The names, by what they are for:

- noise on numbers: `laplace`, `gaussian`, `geometric`, `discrete_gaussian`, `staircase`, `planar_laplace` (places),
  `spherical_laplace` (points of a few dimensions), `randomised_response` and `from_coins` (one person's answer)
- a choice by scores: `exponential`, `permute_and_flip`, `noisy_max`, `top_k`, `above_threshold`; of the best of many private
  tries: `candidate_selection`; of keys that come from the data: `best_selection`, `optimal_selection`
- statistics of rows: `bounded_mean`, `bounded_variance`, `noisy_histogram`, `median`, `quantile`, `quantiles`, `minimum`,
  `maximum`, `automatic_bounds`; of streams: `continual_counting`, `binary_tree`, `square_root`
- noise that follows the data: `smooth_median`, `smooth_quantile`, `elastic_join_size`, `propose_median`,
  `propose_test_release`; any function on blocks of rows: `sample_aggregate`, `block_mean`, `block_median`
- graphs under node privacy: `lipschitz_edge_count`, `triangle_count`, `star_count`, `clique_count`; with no bound on degrees:
  `recursive_clique_count`, `recursive_star_count`
- sums in integers: `NoisySums`, and from rows of floats `noisy_sum`, `noisy_table`, `noisy_second_moment` and their kin
- proofs by enumeration: `verify`, `counterexample`, `score_pairs`, `exp_bracket`, `log_bracket`; to write a mechanism of your
  own: `Mechanism`

A module is loaded when one of its names is first used: a question about a table needs only `NoisySums`, and most others load
scipy.
"""

# Imports inside functions: scipy takes longer to load than a question takes to answer.


from typing import TYPE_CHECKING

from tacit.lazy import lazily

if TYPE_CHECKING:
    # isort: off
    from tacit.mechanisms.above_threshold import AboveThreshold, HaltedError, Sparse, above_threshold
    from tacit.mechanisms.automatic_bounds import automatic_bounds
    from tacit.mechanisms.bounded_mean import bounded_mean, bounded_variance
    from tacit.mechanisms.candidate_selection import candidate_selection, draw_runs
    from tacit.mechanisms.continual_counting import (
        BinaryTree, binary_tree, continual_counting, square_root,
    )
    from tacit.mechanisms.discrete_gaussian import discrete_gaussian
    from tacit.mechanisms.doubling_cells import FoundBounds, bounds_from, cell_edges, cell_numbers
    from tacit.mechanisms.elastic import JoinSize, elastic_join_size, join_rows
    from tacit.mechanisms.exponential import exponential
    from tacit.mechanisms.gaussian import GaussianMechanism, gaussian
    from tacit.mechanisms.geometric import GeometricMechanism, geometric
    from tacit.mechanisms.histogram import noisy_histogram
    from tacit.mechanisms.laplace import LaplaceMechanism, laplace
    from tacit.mechanisms.lipschitz_graph import (
        clique_count, edge_flow, lipschitz_degree_histogram, lipschitz_edge_count, star_count, triangle_count,
    )
    from tacit.mechanisms.mechanism import Mechanism
    from tacit.mechanisms.noisy_max import NoisyMax, PermuteAndFlip, noisy_max, permute_and_flip
    from tacit.mechanisms.noisy_sums import Law, NoisySums, half_width
    from tacit.mechanisms.partition_selection import (
        GaussianSelection, Holdings, KeySelection, LaplaceSelection, OptimalSelection, SipsSelection,
        best_selection, optimal_selection, plain_key,
    )
    from tacit.mechanisms.planar import planar_laplace
    from tacit.mechanisms.propose_test_release import (
        propose_interquartile_range, propose_median, propose_test_release,
    )
    from tacit.mechanisms.quantile import (
        loss_spread, maximum, median, minimum, quantile, quantiles, run_table, runs_of,
    )
    from tacit.mechanisms.randomised_response import RandomisedResponse, from_coins, randomised_response
    from tacit.mechanisms.recursive import FoundCount, recursive_clique_count, recursive_star_count
    from tacit.mechanisms.row_sums import (
        LATTICE_BITS, FactorRows, bits_for, clip_rows, farthest, farthest_moment, farthest_table, noisy_count,
        noisy_l1_sum, noisy_outer_sum, noisy_second_moment, noisy_sum, noisy_table, table_totals, to_lattice,
    )
    from tacit.mechanisms.sample_aggregate import block_mean, block_median, sample_aggregate
    from tacit.mechanisms.selection_laws import score_pairs
    from tacit.mechanisms.smooth_sensitivity import (
        HeavyTail, Ladder, ladder, smooth_interquartile_range, smooth_median, smooth_quantile,
    )
    from tacit.mechanisms.spherical import spherical_laplace
    from tacit.mechanisms.staircase import staircase, staircase_draw
    from tacit.mechanisms.top_k import top_k
    from tacit.mechanisms.verify import counterexample, exp_bracket, log_bracket, verify
    # isort: on

#: Where the names are at home.
__getattr__, __dir__ = lazily(__name__, {
    "above_threshold": ("AboveThreshold", "HaltedError", "Sparse", "above_threshold"),
    "automatic_bounds": ("automatic_bounds",),
    "bounded_mean": ("bounded_mean", "bounded_variance"),
    "candidate_selection": ("candidate_selection", "draw_runs"),
    "continual_counting": ("BinaryTree", "binary_tree", "continual_counting", "square_root"),
    "discrete_gaussian": ("discrete_gaussian",),
    "doubling_cells": ("FoundBounds", "bounds_from", "cell_edges", "cell_numbers"),
    "exponential": ("exponential",),
    "elastic": ("JoinSize", "elastic_join_size", "join_rows"),
    "gaussian": ("GaussianMechanism", "gaussian"),
    "geometric": ("GeometricMechanism", "geometric"),
    "histogram": ("noisy_histogram",),
    "laplace": ("LaplaceMechanism", "laplace"),
    "lipschitz_graph": (
        "clique_count", "edge_flow", "lipschitz_degree_histogram", "lipschitz_edge_count", "star_count",
        "triangle_count",
    ),
    "mechanism": ("Mechanism",),
    "noisy_max": ("NoisyMax", "PermuteAndFlip", "noisy_max", "permute_and_flip"),
    "noisy_sums": ("Law", "NoisySums", "half_width"),
    "partition_selection": (
        "GaussianSelection", "Holdings", "KeySelection", "LaplaceSelection", "OptimalSelection",
        "SipsSelection", "best_selection", "optimal_selection", "plain_key",
    ),
    "planar": ("planar_laplace",),
    "propose_test_release": ("propose_interquartile_range", "propose_median", "propose_test_release"),
    "quantile": (
        "loss_spread", "maximum", "median", "minimum", "quantile", "quantiles", "run_table", "runs_of",
    ),
    "randomised_response": ("RandomisedResponse", "from_coins", "randomised_response"),
    "recursive": ("FoundCount", "recursive_clique_count", "recursive_star_count"),
    "row_sums": (
        "LATTICE_BITS", "FactorRows", "bits_for", "clip_rows", "farthest", "farthest_moment", "farthest_table",
        "noisy_count", "noisy_l1_sum", "noisy_outer_sum", "noisy_second_moment", "noisy_sum", "noisy_table",
        "table_totals", "to_lattice",
    ),
    "sample_aggregate": ("block_mean", "block_median", "sample_aggregate"),
    "selection_laws": ("score_pairs",),
    "smooth_sensitivity": (
        "HeavyTail", "Ladder", "ladder", "smooth_interquartile_range", "smooth_median", "smooth_quantile",
    ),
    "spherical": ("spherical_laplace",),
    "staircase": ("staircase", "staircase_draw"),
    "top_k": ("top_k",),
    "verify": ("counterexample", "exp_bracket", "log_bracket", "verify"),
})  # fmt: skip

__all__ = [
    "LATTICE_BITS", "AboveThreshold", "BinaryTree", "FactorRows", "FoundBounds", "FoundCount", "GaussianMechanism",
    "GaussianSelection", "GeometricMechanism", "HaltedError", "HeavyTail", "Holdings", "JoinSize", "KeySelection", "Ladder",
    "LaplaceMechanism", "LaplaceSelection", "Law", "Mechanism", "NoisyMax", "NoisySums", "OptimalSelection",
    "PermuteAndFlip", "RandomisedResponse", "SipsSelection", "Sparse", "above_threshold", "automatic_bounds",
    "best_selection", "binary_tree", "bits_for", "block_mean", "block_median", "bounded_mean",
    "bounded_variance", "bounds_from", "candidate_selection", "cell_edges", "cell_numbers", "clip_rows",
    "clique_count", "continual_counting", "counterexample", "discrete_gaussian", "draw_runs", "edge_flow",
    "elastic_join_size", "exp_bracket",
    "exponential", "farthest", "farthest_moment", "farthest_table", "from_coins", "gaussian", "geometric",
    "half_width", "join_rows", "ladder", "laplace", "lipschitz_degree_histogram", "lipschitz_edge_count", "log_bracket", "loss_spread",
    "maximum", "median", "minimum", "noisy_count", "noisy_histogram", "noisy_l1_sum", "noisy_max",
    "noisy_outer_sum", "noisy_second_moment", "noisy_sum", "noisy_table", "optimal_selection",
    "permute_and_flip", "plain_key", "planar_laplace", "propose_interquartile_range", "propose_median",
    "propose_test_release", "quantile", "quantiles", "randomised_response",
    "recursive_clique_count", "recursive_star_count", "run_table", "runs_of",
    "sample_aggregate", "score_pairs", "smooth_interquartile_range", "smooth_median", "smooth_quantile", "spherical_laplace",
    "square_root", "staircase", "staircase_draw", "star_count", "table_totals", "to_lattice", "top_k",
    "triangle_count", "verify",
]  # fmt: skip
