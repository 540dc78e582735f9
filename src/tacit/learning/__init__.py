"""Private estimators with scikit-learn's manners, and the convex optimisation they stand on.

>>> model = LogisticRegression(epsilon=1, delta=1e-6, bounds=(0, 1), classes=[0, 1])
>>> model.get_params()["epsilon"]
1
"""

from tacit.learning.estimator import PrivateEstimator, Space
from tacit.learning.linear.classifiers import LinearSVC, LogisticRegression
from tacit.learning.linear.losses import Loss
from tacit.learning.linear.perturbation import ObjectivePerturbation, OutputPerturbation
from tacit.learning.linear.regressors import HuberRegressor, Lasso, LinearRegression, PoissonRegressor, QuantileRegressor, Ridge
from tacit.learning.naive_bayes import GaussianNB
from tacit.learning.pipeline import Pipeline, pipeline_event
from tacit.learning.textbook.exponential_erm import ExponentialERM
from tacit.learning.textbook.frank_wolfe import FrankWolfe
from tacit.learning.textbook.ftrl import FollowTheLeader, PrefixSums
from tacit.learning.textbook.gradient_descent import GradientDescent
from tacit.learning.textbook.rates import RateCard, hard_instance, too_good_to_be_private
from tacit.learning.textbook.sets import Box, Everything, L1Ball, L2Ball
from tacit.learning.textbook.stochastic import StochasticDescent
from tacit.learning.trees.boosting import GradientBoostingClassifier
from tacit.learning.trees.forest import RandomForestClassifier
from tacit.learning.trees.tree import DecisionTreeClassifier
from tacit.learning.unsupervised.kernel_features import NystroemFeatures, RandomFourierFeatures
from tacit.learning.unsupervised.kmeans import KMeans
from tacit.learning.unsupervised.pca import PCA
from tacit.learning.unsupervised.scalers import MinMaxScaler, StandardScaler

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
