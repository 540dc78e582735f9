"""What a computation costs: events in, certified brackets out. No data, no randomness, no input or output.

>>> from fractions import Fraction
>>> event = Repeated(Sampled(Poisson(Fraction(256, 60000)), Gaussian(noise_multiplier=1.1)), 14062)
>>> found = account(event, Adjacency.ADD_REMOVE).epsilon(1e-5)
>>> round(found.upper, 6), found.width < 1e-8
(2.381597, True)
"""

from tacit.accounting.account import Account, GdpReport, account
from tacit.accounting.adjacency import Adjacency
from tacit.accounting.bound import Bound, Estimate
from tacit.accounting.calibrate import calibrate
from tacit.accounting.compare import Comparison, compare
from tacit.accounting.events.interchange import from_dp_event, from_json, to_dp_event, to_json
from tacit.accounting.events.leaves import (
    GDP,
    ZCDP,
    ApproxDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Laplace,
    LeakyRandomizedResponse,
    MatrixMechanism,
    MixtureOfGaussians,
    PrivacyProfile,
    PureDP,
    RandomizedResponse,
    RenyiDP,
    Staircase,
    TruncatedCDP,
)
from tacit.accounting.events.schemes import Poisson, RandomAllocation, TruncatedPoisson, WithoutReplacement, WithReplacement
from tacit.accounting.events.tree import Composed, Event, Group, NonPrivate, NoOp, Repeated, Sampled, Selection, Worst
from tacit.accounting.guarantee import Guarantee
from tacit.accounting.theorems.methods import METHODS
from tacit.errors import (
    AccountingError,
    AdjacencyError,
    Note,
    PackageMissing,
    ParameterError,
    Refusal,
    UnsupportedError,
)

__all__ = [
    "GDP",
    "METHODS",
    "ZCDP",
    "Account",
    "AccountingError",
    "Adjacency",
    "AdjacencyError",
    "ApproxDP",
    "Bound",
    "Comparison",
    "Composed",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Estimate",
    "Event",
    "Exponential",
    "Gaussian",
    "GdpReport",
    "Group",
    "Guarantee",
    "Laplace",
    "LeakyRandomizedResponse",
    "MatrixMechanism",
    "MixtureOfGaussians",
    "NoOp",
    "NonPrivate",
    "Note",
    "PackageMissing",
    "ParameterError",
    "Poisson",
    "PrivacyProfile",
    "PureDP",
    "RandomAllocation",
    "RandomizedResponse",
    "Refusal",
    "RenyiDP",
    "Repeated",
    "Sampled",
    "Selection",
    "Staircase",
    "TruncatedCDP",
    "TruncatedPoisson",
    "UnsupportedError",
    "WithReplacement",
    "WithoutReplacement",
    "Worst",
    "account",
    "calibrate",
    "compare",
    "from_dp_event",
    "from_json",
    "to_dp_event",
    "to_json",
]
