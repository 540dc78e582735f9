"""Private estimators with scikit-learn's manners, and the convex optimisation they stand on.

>>> model = LogisticRegression(epsilon=1, delta=1e-6, bounds=(0, 1), classes=[0, 1])
>>> model.get_params()["epsilon"]
1
"""

from tacit.learning.classifiers import LinearSVC, LogisticRegression
from tacit.learning.estimator import PrivateEstimator, Space
from tacit.learning.exponential_erm import ExponentialERM
from tacit.learning.frank_wolfe import FrankWolfe
from tacit.learning.ftrl import FollowTheLeader, PrefixSums
from tacit.learning.gradient_descent import GradientDescent
from tacit.learning.losses import Loss
from tacit.learning.objective_perturbation import ObjectivePerturbation
from tacit.learning.output_perturbation import OutputPerturbation
from tacit.learning.promise import Promise
from tacit.learning.rates import RateCard, hard_instance, too_good_to_be_private
from tacit.learning.regressors import HuberRegressor, Lasso, LinearRegression, PoissonRegressor, QuantileRegressor, Ridge
from tacit.learning.sets import Box, Everything, L1Ball, L2Ball
from tacit.learning.stochastic import StochasticDescent

__all__ = [
    "Box",
    "Everything",
    "ExponentialERM",
    "FollowTheLeader",
    "FrankWolfe",
    "GradientDescent",
    "HuberRegressor",
    "L1Ball",
    "L2Ball",
    "Lasso",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "Loss",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "PoissonRegressor",
    "PrefixSums",
    "PrivateEstimator",
    "Promise",
    "QuantileRegressor",
    "RateCard",
    "Ridge",
    "Space",
    "StochasticDescent",
    "hard_instance",
    "too_good_to_be_private",
]
