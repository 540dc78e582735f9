"""The privacy calculus: domains, metrics, and plans chained with `>>` that are checked before any data is near.

A plan starts from a `Space`: a domain of data and the metric that says which data sets are neighbours. Steps follow, each
with a proof of how far it spreads neighbours apart, and a mechanism (`tacit.mechanisms`) ends it with noise. What the plan
costs is then known, as an event, before it touches data.

>>> from tacit.calculus import AddRemove, Integers, Rows, Space, clamp, total
>>> plan = Space(Rows(Integers()), AddRemove()) >> clamp(0, 100) >> total()
>>> plan.map(1), plan.map(3)
(100, 300)

The names, by what they are for:

- domains of values: `Integers`, `Lattice`, `Reals`, `Categories`, `Vectors`, `Ball`, `Records`, `Anything`, `Graphs`; of data
  sets: `Rows`, `table`; `granule`, `whole_bounds` and `exact_sum` for what is held in whole numbers
- values and rows one by one: `as_number`, `number_of`, `codes_of` (which declared label), `column_values` (of a data frame),
  `listed`, `keys` (which row is which), `owners` (whose it is), `canonical` (an order by content)
- metrics on data: `AddRemove`, `ReplaceOne`, `Hamming`, `Identifiers`, `Edges`, `Nodes`; on numbers: `Absolute`, `L1`, `L2`,
  `LInfinity`; steps from one to another: `as_add_remove`, `unordered`, `as_norm`
- steps on each row: `clamp`, `cast`, `impute`, `round_to`, `bins`, `one_hot`, `clip_norm`; on columns: `column`, `select`,
  `vector`; with a function of yours: `map_rows`, `filter_rows`, `flat_map`, `drop_missing`
- steps on whole data sets: `distinct`, `union`, `append`, `resize`, `join_public`; on people: `cap_rows`, `group_by`
- aggregates: `count`, `total`, `mean`, `histogram`, `marginal`, `quantile_scores`, `edge_count`, `degree_histogram`
- the chain: `Space`, `Step`, `Transformation`, `Measurement`, `Release`, `post`, `compose`, `batch`, `parallel`,
  `partition_by`; about a plan: `explain`, `fit`, `walk`, `restate`, `observed`, `check_stability`
- refusals: `CalculusError`, `DomainError`, `MetricError`, `UnprovedError`
"""



from typing import TYPE_CHECKING

from tacit.lazy import lazily

if TYPE_CHECKING:
    from tacit.calculus.aggregates import cell_step, count, degree_histogram, edge_count, histogram, marginal, mean, quantile_scores, total
    from tacit.calculus.chain import Measurement, Release, Space, Step, Transformation, explain, fit, observed, post, restate, walk
    from tacit.calculus.collection_domains import Ball, Categories, Graph, Graphs, Records, Rows, Vectors, table
    from tacit.calculus.composition import Partition, batch, compose, parallel, partition_by
    from tacit.calculus.datasets import canonical, exact_sum, keys, length, owners, take
    from tacit.calculus.domains import WORD, Anything, Domain, Integers, Lattice, Reals, as_number, granule, listed, whole_bounds
    from tacit.calculus.errors import CalculusError, DomainError, MetricError, UnprovedError
    from tacit.calculus.functions import drop_missing, filter_rows, flat_map, map_rows
    from tacit.calculus.labels import codes_of, column_values, number_of
    from tacit.calculus.metric_casts import as_add_remove, as_norm, unordered
    from tacit.calculus.metrics import L1, L2, Absolute, AddRemove, Edges, Hamming, Identifiers, LInfinity, Metric, Nodes, ReplaceOne
    from tacit.calculus.people import cap_rows, group_by
    from tacit.calculus.rows import bins, cast, clamp, clip_norm, column, exchanged, impute, one_hot, round_to, select, vector
    from tacit.calculus.sets import append, distinct, join_public, resize, union
    from tacit.calculus.stability import StabilityReport, Violation, check_stability

#: Where the names are at home. A question about a table needs few of these modules.
__getattr__, __dir__ = lazily(__name__, {
    "aggregates": (
        "cell_step", "count", "degree_histogram", "edge_count", "histogram", "marginal", "mean",
        "quantile_scores", "total",
    ),
    "chain": (
        "Measurement", "Release", "Space", "Step", "Transformation", "explain", "fit", "observed", "post",
        "restate", "walk",
    ),
    "collection_domains": ("Ball", "Categories", "Graph", "Graphs", "Records", "Rows", "Vectors", "table"),
    "composition": ("Partition", "batch", "compose", "parallel", "partition_by"),
    "datasets": ("canonical", "exact_sum", "keys", "length", "owners", "take"),
    "domains": (
        "WORD", "Anything", "Domain", "Integers", "Lattice", "Reals", "as_number", "granule", "listed",
        "whole_bounds",
    ),
    "errors": ("CalculusError", "DomainError", "MetricError", "UnprovedError"),
    "functions": ("drop_missing", "filter_rows", "flat_map", "map_rows"),
    "labels": ("codes_of", "column_values", "number_of"),
    "metric_casts": ("as_add_remove", "as_norm", "unordered"),
    "metrics": (
        "L1", "L2", "Absolute", "AddRemove", "Edges", "Hamming", "Identifiers", "LInfinity", "Metric",
        "Nodes", "ReplaceOne",
    ),
    "people": ("cap_rows", "group_by"),
    "rows": (
        "bins", "cast", "clamp", "clip_norm", "column", "exchanged", "impute", "one_hot", "round_to",
        "select", "vector",
    ),
    "sets": ("append", "distinct", "join_public", "resize", "union"),
    "stability": ("StabilityReport", "Violation", "check_stability"),
})  # fmt: skip

__all__ = [
    "L1", "L2", "WORD", "Absolute", "AddRemove", "Anything", "Ball", "CalculusError", "Categories", "Domain",
    "DomainError", "Edges", "Graph", "Graphs", "Hamming", "Identifiers", "Integers", "LInfinity", "Lattice",
    "Measurement", "Metric", "MetricError", "Nodes", "Partition", "Reals", "Records", "Release", "ReplaceOne",
    "Rows", "Space", "StabilityReport", "Step", "Transformation", "UnprovedError", "Vectors", "Violation",
    "append", "as_add_remove", "as_norm", "as_number", "batch", "bins", "canonical", "cap_rows", "cast", "cell_step", "check_stability",
    "clamp", "clip_norm", "codes_of", "column", "column_values", "compose", "count", "degree_histogram", "distinct", "drop_missing",
    "edge_count", "exact_sum", "exchanged", "explain", "filter_rows", "fit", "flat_map", "granule",
    "group_by", "histogram", "impute", "join_public", "keys", "length", "listed", "map_rows", "marginal", "mean",
    "number_of", "observed", "one_hot", "owners", "parallel", "partition_by", "post", "quantile_scores", "resize", "restate",
    "round_to", "select", "table", "take", "total", "union", "unordered", "vector", "walk", "whole_bounds",
]  # fmt: skip
