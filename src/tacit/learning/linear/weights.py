"""Weights of rows and of classes, which cost nothing: every sum of a fit is one over people, each with a weight of at most 1.

A row's weight is private, and is cut to [0, weight_bound]; the bound is declared, and public. A class's weight is a public
number, or "balanced": the inverse of the released share of the class, which a fit buys anyway. Divided by the largest, all
weights lie in [0, 1], so that no person's part of a gradient, a count or a loss grows, and the price stays what it was.

>>> weighing = Weighing.of(np.array(["no", "yes"]), {"no": 1, "yes": 4}, [5.0, float("nan"), 1e308], 10.0)
>>> weighing.people(np.array([0, 1, 1]))
array([0.125, 0.   , 1.   ])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import ParameterError
from tacit.learning.reading import column_of, label_numbers
from tacit.parameters import number, positive

Array = NDArray[np.float64]
#: Weights of classes: none, "balanced", or public numbers by class.
ClassWeight = str | Mapping[Any, float] | None


@dataclass(frozen=True)
class Weighing:
    """Weights that were given and what is public about them: the largest of a row, and one factor a class, the largest of them 1.

    `strength` is the inverse of scikit-learn's C: what is added for squared coefficients, in the caller's weights.
    """

    given: Any  # private: to be read once the fit is paid for
    bound: float
    factors: Array
    largest: float  # weight of a class, in the caller's units
    balanced: bool
    strength: float

    @classmethod
    def of(
        cls, classes: NDArray[Any], class_weight: ClassWeight, sample_weight: Any = None, weight_bound: float | None = None,
        *, C: float | None = None, rows: int | None = None,
    ) -> Weighing:  # fmt: skip
        """Public numbers and shapes, checked; classes that a mapping does not name weigh 1, as in scikit-learn."""
        if sample_weight is not None:
            if weight_bound is None:
                raise ParameterError("weight_bound is missing: declare the largest weight that a row may have; it must be public")
            if rows is not None:
                fault = ""
                try:
                    # as labels are read: by its container and length alone, since a list in one person's place must not raise
                    sample_weight = column_of(sample_weight, rows)
                except ValueError:
                    fault = "sample_weight must be one number for each row of X"
                if fault:
                    raise ValueError(fault)
        bound = 1.0 if sample_weight is None else float(positive("weight_bound", weight_bound))
        strength = 0.0 if C is None else 1 / float(positive("C", C))
        factors = np.ones(len(classes))
        if isinstance(class_weight, Mapping):
            named = list(classes.tolist())
            if any(key not in named for key in class_weight):
                raise ParameterError("class_weight names a label that is none of the declared classes")
            factors = np.array([float(number("class_weight", class_weight.get(label, 1.0))) for label in named])
            if not np.isfinite(factors).all() or factors.min() < 0 or not factors.max() > 0:
                raise ParameterError("class_weight must be numbers of at least 0, not all of them 0")
        elif class_weight is not None and class_weight != "balanced":
            raise ParameterError(f"class_weight must be 'balanced' or numbers by class, not {class_weight!r}")
        most = float(factors.max())
        return cls(sample_weight, bound, factors / most, most, class_weight == "balanced", strength)

    @property
    def plain(self) -> bool:
        """Whether there are neither weights nor a penalty."""
        return self.given is None and not self.balanced and not self.strength and bool((self.factors == 1).all())

    def people(self, codes: NDArray[np.int64]) -> Array | None:
        """Everyone's weight in [0, 1], None where all are 1; a missing or negative one is 0, and so is that of an undeclared label."""
        if self.given is None and bool((self.factors == 1).all()):
            return None
        found: Array = self.factors[np.maximum(codes, 0)] * (codes >= 0)
        if self.given is None:
            return found
        values = label_numbers(self.given, len(codes))
        return np.clip(np.where(np.isnan(values), 0.0, values) / self.bound, 0.0, 1.0) * found

    def penalty(self, factors: Array) -> float:
        """What to add for squared coefficients where weights are in [0, 1], given the released factors of balanced classes.

        scikit-learn balances by n / (classes count), which is the mean of the inverse factors for the rarest class.
        """
        return self.strength / (self.bound * self.largest * float(np.mean(1 / factors)))
