"""Many questions at once: marginal tables, ranges and any counts, answered consistently for one price.

Name the questions (`Marginals`, `Product` of `Identity`, `Prefix`, `AllRanges`, ranges or `Predicates`, added up and
weighted), and `plan` chooses what is measured by the computed error, tells price and error before anything is
spent, and answers everything from one measurement.

>>> from tacit.workloads import AllRanges, Cells, Product, compared
>>> ranges = Product(age=AllRanges).on(Cells.of({"age": 64}))
>>> print({name: round(error, 2) for name, error in compared(ranges, "gaussian").items()})
{'sums over 64 cells (age: dense)': 2.3, 'sums over 64 cells (age: levels)': 4.69}
"""

from tacit.workloads import bench
from tacit.workloads.above import Above, AboveAnswer, AbovePlan, above_in, plan_above
from tacit.workloads.adaptive import AdaptiveAnswer, AdaptivePlan
from tacit.workloads.bounds import least_error, recovers, warnings_for
from tacit.workloads.dawa import Dawa, plan_dawa, with_dawa
from tacit.workloads.geography import Invariants, RegionsAnswer, RegionsPlan, regions, wanted_of
from tacit.workloads.intervals import half_widths
from tacit.workloads.joint_strategy import JointStrategy, best
from tacit.workloads.mwem import Mwem, plan_mwem, with_mwem
from tacit.workloads.net import NetMechanism
from tacit.workloads.online import Online, OnlineAnswer, open_online
from tacit.workloads.plan import Measured, TermAnswers, WorkloadAnswer, WorkloadPlan, bound, compared, measured, plan
from tacit.workloads.privtree import PrivTree, plan_privtree, with_privtree
from tacit.workloads.recommend import Recommendation, Way, recommend
from tacit.workloads.reconstruct import impossible, whole_figures
from tacit.workloads.regions import Hierarchy, two_passes
from tacit.workloads.series import Published, SeriesAnswer, SeriesPlan, Stream, series, stream, wanted_over_time
from tacit.workloads.spatial import Axis, BoxCount, GridAnswer, GridPlan, grid, wanted_boxes, wanted_cells
from tacit.workloads.views import View, ViewAnswer, ViewsPlan, views
from tacit.workloads.workload import (
    AllRanges,
    Cells,
    Identity,
    Marginals,
    Predicates,
    Prefix,
    Product,
    Ranges,
    Total,
    Wanted,
    Workload,
)

__all__ = [
    "Above",
    "AboveAnswer",
    "AbovePlan",
    "AdaptiveAnswer",
    "AdaptivePlan",
    "AllRanges",
    "Axis",
    "BoxCount",
    "Cells",
    "Dawa",
    "GridAnswer",
    "GridPlan",
    "Hierarchy",
    "Identity",
    "Invariants",
    "JointStrategy",
    "Marginals",
    "Measured",
    "Mwem",
    "NetMechanism",
    "Online",
    "OnlineAnswer",
    "Predicates",
    "Prefix",
    "PrivTree",
    "Product",
    "Published",
    "Ranges",
    "Recommendation",
    "RegionsAnswer",
    "RegionsPlan",
    "SeriesAnswer",
    "SeriesPlan",
    "Stream",
    "TermAnswers",
    "Total",
    "View",
    "ViewAnswer",
    "ViewsPlan",
    "Wanted",
    "Way",
    "Workload",
    "WorkloadAnswer",
    "WorkloadPlan",
    "above_in",
    "bench",
    "best",
    "bound",
    "compared",
    "grid",
    "half_widths",
    "impossible",
    "least_error",
    "measured",
    "open_online",
    "plan",
    "plan_above",
    "plan_dawa",
    "plan_mwem",
    "plan_privtree",
    "recommend",
    "recovers",
    "regions",
    "series",
    "stream",
    "two_passes",
    "views",
    "wanted_boxes",
    "wanted_cells",
    "wanted_of",
    "wanted_over_time",
    "warnings_for",
    "whole_figures",
    "with_dawa",
    "with_mwem",
    "with_privtree",
]  # fmt: skip
