"""The border to scikit-learn, which ships no types: what this room uses of it, declared once.

The other modules take scikit-learn's names from here. So one place says what to install where scikit-learn is
missing, and mypy checks every estimator against the declarations below. At run time the names are
scikit-learn's own.

>>> BaseEstimator.__module__
'sklearn.base'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import PackageMissing

__all__ = ["BaseEstimator", "ClassNamePrefixFeaturesOutMixin", "ClassifierMixin", "ClusterMixin"]
__all__ += ["OneToOneFeatureMixin", "RegressorMixin", "SklearnPipeline", "TransformerMixin"]
__all__ += ["DataConversionWarning", "check_array", "check_feature_names", "check_is_fitted"]
__all__ += ["check_n_features", "clone", "get_tags"]

if TYPE_CHECKING:
    T = TypeVar("T")

    class BaseEstimator:
        n_features_in_: int
        feature_names_in_: NDArray[np.object_]

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: object) -> Self: ...
        def __sklearn_tags__(self) -> Any: ...
        def __getstate__(self) -> dict[str, Any]: ...
        def __setstate__(self, state: dict[str, Any]) -> None: ...

    class ClassifierMixin:
        def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float: ...

    class RegressorMixin:
        def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float: ...

    class ClusterMixin:
        def fit_predict(self, X: ArrayLike, y: object = None, **params: object) -> NDArray[np.int64]: ...

    class TransformerMixin:
        def fit_transform(self, X: ArrayLike, y: object = None, **params: object) -> NDArray[np.float64]: ...
        def set_output(self, *, transform: str | None = None) -> Self: ...

    class OneToOneFeatureMixin:
        def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]: ...

    class ClassNamePrefixFeaturesOutMixin:
        def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]: ...

    class SklearnPipeline(BaseEstimator):
        steps: list[tuple[str, Any]]

        def __init__(self, steps: list[tuple[str, Any]], **settings: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...  # predict, transform, score: what the last step has
        def _validate_steps(self) -> None: ...
        def fit(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Self: ...
        def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Any: ...
        def fit_predict(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Any: ...

    def clone(estimator: T, *, safe: bool = True) -> T: ...
    def get_tags(estimator: object) -> Any: ...
    def check_is_fitted(estimator: object) -> None: ...
    def check_array(array: object, *, dtype: type | None, **checks: bool | int) -> NDArray[np.generic]: ...
    def check_feature_names(estimator: object, X: object, *, reset: bool) -> None: ...
    def check_n_features(estimator: object, X: object, *, reset: bool) -> None: ...

    class DataConversionWarning(UserWarning): ...
else:
    try:
        from sklearn.base import (
            BaseEstimator,
            ClassifierMixin,
            ClassNamePrefixFeaturesOutMixin,
            ClusterMixin,
            OneToOneFeatureMixin,
            RegressorMixin,
            TransformerMixin,
            clone,
        )
        from sklearn.exceptions import DataConversionWarning
        from sklearn.pipeline import Pipeline as SklearnPipeline
        from sklearn.utils import check_array, get_tags
        from sklearn.utils.validation import _check_feature_names as check_feature_names
        from sklearn.utils.validation import _check_n_features as check_n_features
        from sklearn.utils.validation import check_is_fitted
    except ImportError as error:  # pragma: no cover - the extra is there in development
        install = "'tacit[learn]'"
        raise PackageMissing(code="package-missing", package="scikit-learn", install=install) from error
