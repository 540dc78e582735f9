"""The privacy calculus: domains, metrics, stability, and plans chained with `>>` that are checked before any data is near.

>>> from tacit.calculus import AddRemove, Integers, Rows, Space, clamp, total
>>> plan = Space(Rows(Integers()), AddRemove()) >> clamp(0, 100) >> total()
>>> plan.map(1), plan.map(3)
(100, 300)
"""

from typing import TYPE_CHECKING

from tacit.lazy import lazily

if TYPE_CHECKING:
    from tacit.calculus.aggregates import count, mean, total
    from tacit.calculus.chain import Measurement, Release, Space, Step, Transformation, explain, fit, post, restate
    from tacit.calculus.collection_domains import Ball, Categories, Graph, Graphs, Records, Rows, Vectors, table
    from tacit.calculus.composition import Partition, batch, compose, parallel, partition_by
    from tacit.calculus.domains import Anything, Domain, Integers, Lattice, Reals
    from tacit.calculus.errors import CalculusError, DomainError, MetricError, UnprovedError
    from tacit.calculus.functions import drop_missing, filter_rows, flat_map, map_rows
    from tacit.calculus.graphs import degree_histogram, edge_count
    from tacit.calculus.histograms import histogram, marginal, quantile_scores
    from tacit.calculus.metric_casts import as_add_remove, as_norm, unordered
    from tacit.calculus.metrics import L1, L2, Absolute, AddRemove, Edges, Hamming, Identifiers, LInfinity, Metric, Nodes, ReplaceOne
    from tacit.calculus.people import cap_rows, group_by
    from tacit.calculus.rows import bins, cast, clamp, clip_norm, column, impute, one_hot, round_to, select, vector
    from tacit.calculus.sets import append, distinct, join_public, resize, union
    from tacit.calculus.stability import StabilityReport, Violation, check_stability

#: Where the names are at home: a question about a table needs few of these modules.
__getattr__, __dir__ = lazily(__name__, {
    "aggregates": ("count", "mean", "total"),
    "chain": ("Measurement", "Release", "Space", "Step", "Transformation", "explain", "fit", "post", "restate"),
    "collection_domains": ("Ball", "Categories", "Graph", "Graphs", "Records", "Rows", "Vectors", "table"),
    "composition": ("Partition", "batch", "compose", "parallel", "partition_by"),
    "domains": ("Anything", "Domain", "Integers", "Lattice", "Reals"),
    "errors": ("CalculusError", "DomainError", "MetricError", "UnprovedError"),
    "functions": ("drop_missing", "filter_rows", "flat_map", "map_rows"),
    "graphs": ("degree_histogram", "edge_count"),
    "histograms": ("histogram", "marginal", "quantile_scores"),
    "metric_casts": ("as_add_remove", "as_norm", "unordered"),
    "metrics": ("Absolute", "AddRemove", "Edges", "Hamming", "Identifiers", "L1", "L2", "LInfinity", "Metric", "Nodes", "ReplaceOne"),
    "people": ("cap_rows", "group_by"),
    "rows": ("bins", "cast", "clamp", "clip_norm", "column", "impute", "one_hot", "round_to", "select", "vector"),
    "sets": ("append", "distinct", "join_public", "resize", "union"),
    "stability": ("StabilityReport", "Violation", "check_stability"),
})  # fmt: skip

__all__ = [
    "L1", "L2", "Absolute", "AddRemove", "Anything", "Ball", "CalculusError", "Categories", "Domain",
    "DomainError", "Edges", "Graph", "Graphs", "Hamming", "Identifiers", "Integers", "LInfinity", "Lattice",
    "Measurement", "Metric", "MetricError", "Nodes", "Partition", "Reals", "Records", "Release",
    "ReplaceOne", "Rows", "Space", "StabilityReport", "Step", "Transformation", "UnprovedError", "Vectors",
    "Violation", "append", "as_add_remove", "as_norm", "batch", "bins", "cap_rows", "cast",
    "check_stability", "clamp", "clip_norm", "column", "compose", "count", "degree_histogram", "distinct",
    "drop_missing", "edge_count", "explain", "filter_rows", "fit", "flat_map", "group_by", "histogram",
    "impute", "join_public", "map_rows", "marginal", "mean", "one_hot", "parallel", "partition_by", "post",
    "quantile_scores", "resize", "restate", "round_to", "select", "table", "total", "union", "unordered",
    "vector",
]  # fmt: skip
