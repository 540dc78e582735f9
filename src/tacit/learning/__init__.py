"""Private estimators with scikit-learn's API, and the convex optimisation they stand on.

An estimator takes a guarantee and public bounds of the rows beside its own parameters. Its `fit` reserves the
price before it touches the data, and adds the noise that the price is for. Use the textbook's algorithms
(`GradientDescent`, `FrankWolfe`, ...) for a loss and gradients of your own; `losses` holds losses whose
constants are proved.

>>> model = LogisticRegression(epsilon=1, delta=1e-6, bounds=(0, 1), classes=[0, 1])
>>> model.get_params()["epsilon"]
1
"""

# Imports inside functions: pandas is needed only where a data frame comes in.

from tacit.calculus import codes_of
from tacit.learning.calibration import CalibratedClassifier
from tacit.learning.columns import ColumnTransformer, OneHotEncoder, SimpleImputer
from tacit.learning.estimator import PrivateEstimator, RowSpace
from tacit.learning.linear import losses
from tacit.learning.linear.classifiers import LinearSVC, LogisticRegression
from tacit.learning.linear.losses import Loss
from tacit.learning.linear.perturbation import ObjectivePerturbation, OutputPerturbation
from tacit.learning.linear.regressors import HuberRegressor, Lasso, LinearRegression, PoissonRegressor, QuantileRegressor, Ridge
from tacit.learning.naive_bayes import GaussianNB
from tacit.learning.pipeline import Pipeline, RowByRow, pipeline_event
from tacit.learning.search import PrivateSearchCV
from tacit.learning.textbook.descent import GradientDescent, StochasticDescent
from tacit.learning.textbook.exponential_erm import ExponentialERM
from tacit.learning.textbook.first_order import (
    NoisySteps,
    SupportSelection,
    cutting_planes,
    frank_wolfe,
    mirror_descent,
    online_to_batch,
)
from tacit.learning.textbook.frank_wolfe import FrankWolfe
from tacit.learning.textbook.ftrl import FollowTheLeader, PrefixSums
from tacit.learning.textbook.rates import RateCard, hard_instance, too_good_to_be_private
from tacit.learning.textbook.sets import Box, Everything, L1Ball, L2Ball
from tacit.learning.textbook.stability import BoltOnDescent, LocalExponential, PhasedDescent, iteration_multiplier
from tacit.learning.trees.boosting import GradientBoostingClassifier
from tacit.learning.trees.regression import DecisionTreeRegressor, GradientBoostingRegressor, RandomForestRegressor
from tacit.learning.trees.tree import DecisionTreeClassifier, RandomForestClassifier
from tacit.learning.unsupervised.kernel_features import NystroemFeatures, RandomFourierFeatures
from tacit.learning.unsupervised.kmeans import KMeans
from tacit.learning.unsupervised.pca import PCA
from tacit.learning.unsupervised.scalers import MinMaxScaler, StandardScaler

# Estimators, and the pieces for one of your own.
__all__ = ["DecisionTreeClassifier", "GaussianNB", "GradientBoostingClassifier", "HuberRegressor", "Lasso"]
__all__ += ["LinearRegression", "LinearSVC", "LogisticRegression", "PoissonRegressor", "QuantileRegressor"]
__all__ += ["PCA", "KMeans", "MinMaxScaler", "NystroemFeatures", "RandomFourierFeatures", "StandardScaler"]
__all__ += ["Pipeline", "PrivateEstimator", "RandomForestClassifier", "Ridge", "RowByRow", "RowSpace"]
__all__ += ["CalibratedClassifier", "DecisionTreeRegressor", "GradientBoostingRegressor", "RandomForestRegressor"]
__all__ += ["ColumnTransformer", "OneHotEncoder", "PrivateSearchCV", "SimpleImputer", "codes_of", "pipeline_event"]
# Private convex optimisation: losses, sets, solvers, and what no solver can beat.
__all__ += ["Box", "Everything", "L1Ball", "L2Ball", "Loss", "losses"]
__all__ += ["ExponentialERM", "FollowTheLeader", "FrankWolfe", "GradientDescent", "ObjectivePerturbation"]
__all__ += ["OutputPerturbation", "PrefixSums", "StochasticDescent"]
__all__ += ["BoltOnDescent", "LocalExponential", "NoisySteps", "PhasedDescent", "SupportSelection", "cutting_planes", "frank_wolfe"]
__all__ += ["iteration_multiplier", "mirror_descent", "online_to_batch"]
__all__ += ["RateCard", "hard_instance", "too_good_to_be_private"]
