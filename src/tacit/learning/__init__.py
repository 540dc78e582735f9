"""Private estimators with scikit-learn's manners, and the convex optimisation they stand on.

>>> model = LogisticRegression(epsilon=1, delta=1e-6, bounds=(0, 1), classes=[0, 1])
>>> model.get_params()["epsilon"]
1
"""

from tacit.learning.boosting import GradientBoostingClassifier
from tacit.learning.classifiers import LinearSVC, LogisticRegression
from tacit.learning.estimator import PrivateEstimator, Space
from tacit.learning.exponential_erm import ExponentialERM
from tacit.learning.forest import RandomForestClassifier
from tacit.learning.frank_wolfe import FrankWolfe
from tacit.learning.ftrl import FollowTheLeader, PrefixSums
from tacit.learning.gradient_descent import GradientDescent
from tacit.learning.kernel_features import NystroemFeatures, RandomFourierFeatures
from tacit.learning.kmeans import KMeans
from tacit.learning.losses import Loss
from tacit.learning.naive_bayes import GaussianNB
from tacit.learning.objective_perturbation import ObjectivePerturbation
from tacit.learning.output_perturbation import OutputPerturbation
from tacit.learning.pca import PCA
from tacit.learning.pipeline import Pipeline, pipeline_event
from tacit.learning.rates import RateCard, hard_instance, too_good_to_be_private
from tacit.learning.regressors import HuberRegressor, Lasso, LinearRegression, PoissonRegressor, QuantileRegressor, Ridge
from tacit.learning.scalers import MinMaxScaler, StandardScaler
from tacit.learning.sets import Box, Everything, L1Ball, L2Ball
from tacit.learning.stochastic import StochasticDescent
from tacit.learning.trees import DecisionTreeClassifier

__all__ = [
    "PCA",
    "Box",
    "DecisionTreeClassifier",
    "Everything",
    "ExponentialERM",
    "FollowTheLeader",
    "FrankWolfe",
    "GaussianNB",
    "GradientBoostingClassifier",
    "GradientDescent",
    "HuberRegressor",
    "KMeans",
    "L1Ball",
    "L2Ball",
    "Lasso",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "Loss",
    "MinMaxScaler",
    "NystroemFeatures",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "Pipeline",
    "PoissonRegressor",
    "PrefixSums",
    "PrivateEstimator",
    "QuantileRegressor",
    "RandomForestClassifier",
    "RandomFourierFeatures",
    "RateCard",
    "Ridge",
    "Space",
    "StandardScaler",
    "StochasticDescent",
    "hard_instance",
    "pipeline_event",
    "too_good_to_be_private",
]
