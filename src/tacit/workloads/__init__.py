"""Many questions at once: marginal tables, ranges and any counts, answered consistently for one price.

Name the questions (`Marginals`, `Product` of `Identity`, `Prefix`, `AllRanges`, ranges or `Predicates`, added up and
weighted), and `plan` chooses what is measured by the computed error, tells price and error before anything is
spent, and answers everything from one measurement.

>>> from tacit.workloads import AllRanges, Cells, Product, compared
>>> ranges = Product(age=AllRanges).on(Cells.of({"age": 64}))
>>> print({name: round(error, 2) for name, error in compared(ranges, "gaussian").items()})
{'sums over 64 cells (age: dense)': 2.3, 'sums over 64 cells (age: levels)': 4.69}
"""

from tacit.workloads.adaptive import AdaptiveAnswer, AdaptivePlan
from tacit.workloads.bounds import least_error, recovers, warnings_for
from tacit.workloads.dawa import Dawa, plan_dawa, with_dawa
from tacit.workloads.joint_strategy import JointStrategy, best
from tacit.workloads.mwem import Mwem, plan_mwem, with_mwem
from tacit.workloads.net import NetMechanism
from tacit.workloads.online import Online, OnlineAnswer, open_online
from tacit.workloads.plan import Measured, TermAnswers, WorkloadAnswer, WorkloadPlan, bound, compared, measured, plan
from tacit.workloads.privtree import PrivTree, plan_privtree, with_privtree
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
    "AdaptiveAnswer",
    "AdaptivePlan",
    "AllRanges",
    "Cells",
    "Dawa",
    "Identity",
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
    "Ranges",
    "TermAnswers",
    "Total",
    "Wanted",
    "Workload",
    "WorkloadAnswer",
    "WorkloadPlan",
    "best",
    "bound",
    "compared",
    "least_error",
    "measured",
    "open_online",
    "plan",
    "plan_dawa",
    "plan_mwem",
    "plan_privtree",
    "recovers",
    "warnings_for",
    "with_dawa",
    "with_mwem",
    "with_privtree",
]  # fmt: skip
