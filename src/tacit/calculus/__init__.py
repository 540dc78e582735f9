"""The privacy calculus: domains, metrics, stability, and plans chained with `>>` that are checked before any data is near.

>>> plan = Space(Rows(Integers()), AddRemove()) >> clamp(0, 100) >> total()
>>> plan.map(1), plan.map(3)
(100, 300)
"""

from tacit.calculus.aggregates import count, mean, total
from tacit.calculus.columns import column, select, vector
from tacit.calculus.composition import Partition, batch, compose, parallel, partition_by
from tacit.calculus.domains import (
    Anything,
    Ball,
    Categories,
    Domain,
    Graph,
    Graphs,
    Integers,
    Lattice,
    Reals,
    Records,
    Rows,
    Vectors,
    table,
)
from tacit.calculus.errors import CalculusError, DomainError, MetricError, UnprovedError
from tacit.calculus.fitting import fit
from tacit.calculus.functions import drop_missing, filter_rows, flat_map, map_rows
from tacit.calculus.graphs import degree_histogram, edge_count
from tacit.calculus.histograms import histogram, marginal, quantile_scores
from tacit.calculus.metric_casts import as_add_remove, as_norm, unordered
from tacit.calculus.metrics import L1, L2, Absolute, AddRemove, Edges, Hamming, Identifiers, LInfinity, Metric, Nodes, ReplaceOne
from tacit.calculus.people import cap_rows, group_by
from tacit.calculus.plan import Measurement, Space, Step, Transformation, explain, post, restate
from tacit.calculus.release import Release
from tacit.calculus.rows import bins, cast, clamp, clip_norm, impute, one_hot, round_to
from tacit.calculus.sets import append, distinct, join_public, resize, union
from tacit.calculus.stability import StabilityReport, Violation, check_stability

__all__ = [
    "L1",
    "L2",
    "Absolute",
    "AddRemove",
    "Anything",
    "Ball",
    "CalculusError",
    "Categories",
    "Domain",
    "DomainError",
    "Edges",
    "Graph",
    "Graphs",
    "Hamming",
    "Identifiers",
    "Integers",
    "LInfinity",
    "Lattice",
    "Measurement",
    "Metric",
    "MetricError",
    "Nodes",
    "Partition",
    "Reals",
    "Records",
    "Release",
    "ReplaceOne",
    "Rows",
    "Space",
    "StabilityReport",
    "Step",
    "Transformation",
    "UnprovedError",
    "Vectors",
    "Violation",
    "append",
    "as_add_remove",
    "as_norm",
    "batch",
    "bins",
    "cap_rows",
    "cast",
    "check_stability",
    "clamp",
    "clip_norm",
    "column",
    "compose",
    "count",
    "degree_histogram",
    "distinct",
    "drop_missing",
    "edge_count",
    "explain",
    "filter_rows",
    "fit",
    "flat_map",
    "group_by",
    "histogram",
    "impute",
    "join_public",
    "map_rows",
    "marginal",
    "mean",
    "one_hot",
    "parallel",
    "partition_by",
    "post",
    "quantile_scores",
    "resize",
    "restate",
    "round_to",
    "select",
    "table",
    "total",
    "union",
    "unordered",
    "vector",
]
