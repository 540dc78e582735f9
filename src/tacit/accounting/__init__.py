"""What a computation costs: events in, certified brackets out. No data, no randomness, no input or output.

An event says what is done to the data; `account(event)` brackets epsilon, delta, rho, mu and the trade-off
curve from below and above; `Guarantee` says how much privacy is meant. Upper ends may be published.

>>> from fractions import Fraction
>>> event = Repeated(Sampled(Poisson(Fraction(256, 60000)), Gaussian(noise_multiplier=1.1)), 14062)
>>> found = account(event, Adjacency.ADD_REMOVE).epsilon(1e-5)
>>> round(found.upper, 6), found.width < 1e-8
(2.381597, True)

`events` holds the events, `pairs` the distributions that are to be told apart, `engines` what composes them,
`theorems` the closed forms of the literature. Start-up time matters: engines are imported by the functions
that need them, and the accountant, pictures, strategies and some theorems when they are first used: a closed
form prices most questions without them.
"""

# Imports inside functions: engines, proofs and pictures take longer to load than pricing a question, and
# flint is an extra.

from typing import TYPE_CHECKING

from tacit.accounting.bound import Bound, Estimate, rounded_up
from tacit.accounting.closed_form import as_typed, attack_rate, exact_pure, exact_rho, squared_mu, stated_sum
from tacit.accounting.events.interchange import from_dp_event, from_json, to_dp_event, to_json
from tacit.accounting.events.leaves import (
    GDP,
    ZCDP,
    ApproxDP,
    DiscreteGaussian,
    DiscreteLaplace,
    DistributedDiscreteGaussian,
    Exponential,
    Gaussian,
    Laplace,
    LeakyRandomizedResponse,
    LocalReport,
    MatrixMechanism,
    MixtureOfGaussians,
    PrivacyProfile,
    PureDP,
    RandomizedResponse,
    RenyiDP,
    Skellam,
    Staircase,
    TruncatedCDP,
)
from tacit.accounting.events.tree import (
    Adjacency,
    Composed,
    Event,
    Group,
    Leaf,
    NonPrivate,
    NoOp,
    Poisson,
    RandomAllocation,
    Repeated,
    Sampled,
    Scheme,
    Selection,
    Shuffled,
    TruncatedPoisson,
    WithoutReplacement,
    WithReplacement,
    Worst,
)
from tacit.accounting.guarantee import APPROXIMATE, MU, PURE, RENYI, RHO, Guarantee, cost_of, order_of
from tacit.accounting.theorems.gaussian import mu_for, sigma_for
from tacit.errors import (
    AccountingError,
    AdjacencyError,
    Note,
    PackageMissing,
    ParameterError,
    Refusal,
    UnsupportedError,
)
from tacit.lazy import lazily

if TYPE_CHECKING:
    from tacit.accounting.account import Cost, account
    from tacit.accounting.calibrate import calibrate
    from tacit.accounting.compare import Comparison, Inapplicable, compare, laplace_and_gaussian
    from tacit.accounting.plots import plot_cost, plot_profile, plot_tradeoff, plot_training
    from tacit.accounting.strategies import (
        Buffered,
        RunningTotals,
        SquareRoot,
        Stated,
        Strategy,
        Toeplitz,
        Tree,
        coefficients,
        inverse_coefficients,
        max_error,
        mean_error,
        sensitivity,
        tree_block,
        tree_blocks,
        tree_levels,
        whole_square_root,
    )
    from tacit.accounting.theorems.conversions import zcdp_rho
    from tacit.accounting.theorems.dpsgd import pure_without_replacement
    from tacit.accounting.theorems.methods import METHODS
    from tacit.accounting.theorems.selection import gamma_for, mean_for
    from tacit.accounting.tradeoff import GdpReport, attack_at_most

__getattr__, __dir__ = lazily(__name__, {
    "account": ("Cost", "account"),
    "calibrate": ("calibrate",),
    "compare": ("Comparison", "Inapplicable", "compare", "laplace_and_gaussian"),
    "plots": ("plot_cost", "plot_profile", "plot_tradeoff", "plot_training"),
    "strategies": (
        "Buffered", "RunningTotals", "SquareRoot", "Stated", "Strategy", "Toeplitz", "Tree", "coefficients",
        "inverse_coefficients", "max_error", "mean_error", "sensitivity", "tree_block", "tree_blocks",
        "tree_levels", "whole_square_root",
    ),
    "theorems.conversions": ("zcdp_rho",),
    "theorems.dpsgd": ("pure_without_replacement",),
    "theorems.methods": ("METHODS",),
    "theorems.selection": ("gamma_for", "mean_for"),
    "tradeoff": ("GdpReport", "attack_at_most"),
})  # fmt: skip

__all__ = [  # noqa: RUF022 (grouped)
    # what is done to the data
    "GDP", "ZCDP", "ApproxDP", "Composed", "DiscreteGaussian", "DiscreteLaplace",
    "DistributedDiscreteGaussian", "Event", "Exponential", "Gaussian", "Group", "Laplace", "Leaf",
    "LeakyRandomizedResponse", "LocalReport", "MatrixMechanism", "MixtureOfGaussians", "NoOp", "NonPrivate",
    "PrivacyProfile", "PureDP", "RandomizedResponse", "RenyiDP", "Repeated", "Sampled", "Selection",
    "Shuffled", "Skellam", "Staircase", "TruncatedCDP", "Worst",
    "from_dp_event", "from_json", "to_dp_event", "to_json",
    "Poisson", "RandomAllocation", "Scheme", "TruncatedPoisson", "WithReplacement", "WithoutReplacement",
    # what it costs
    "METHODS", "Adjacency", "Bound", "Comparison", "Cost", "Estimate", "GdpReport", "Inapplicable", "account",
    "attack_at_most", "attack_rate", "calibrate", "compare", "cost_of", "laplace_and_gaussian", "rounded_up",
    # how much is meant
    "APPROXIMATE", "MU", "PURE", "RENYI", "RHO", "Guarantee", "order_of",
    # theorems that other rooms calibrate and add with
    "as_typed", "exact_pure", "exact_rho", "gamma_for", "mean_for", "mu_for", "pure_without_replacement",
    "sigma_for", "squared_mu", "stated_sum", "zcdp_rho",
    # strategies for streams and ranges
    "Buffered", "RunningTotals", "SquareRoot", "Stated", "Strategy", "Toeplitz", "Tree", "coefficients",
    "inverse_coefficients", "max_error", "mean_error", "sensitivity", "tree_block", "tree_blocks",
    "tree_levels", "whole_square_root",
    # pictures; a comparison draws itself
    "plot_cost", "plot_profile", "plot_tradeoff", "plot_training",
    # errors
    "AccountingError", "AdjacencyError", "Note", "PackageMissing", "ParameterError", "Refusal",
    "UnsupportedError",
]  # fmt: skip
