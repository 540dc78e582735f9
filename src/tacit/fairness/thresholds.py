"""Equalized odds by post-processing: a model's predictions, corrected by group with coins whose chances come from noisy counts.

The counts of (group, label, prediction) get noise once; a small linear programme then finds, for each group and
prediction, the chance of accepting that makes the fewest errors while the rates of the groups differ by at most `gap`
(Hardt, Price, Srebro 2016). The corrected classifier must know a person's group when it is used, and says so
(`needs_group_`); `tacit.fairness.FairClassifier` need not.

`EqualizedOdds` is a scikit-learn meta-estimator: it fits a private model on its part of the budget, corrects it with the
rest, and pays for both before either touches a row. Needs `pip install 'tacit[learn]'`.

>>> table = np.array([[[400, 100], [100, 400]], [[450, 50], [250, 250]]])  # group x label x prediction
>>> rule = correct(table, gap=0.02)
>>> bool(rule.gap <= 0.02 + 1e-9), rule.accept.shape
(True, (2, 2))
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency, Bound, Composed, Event, Guarantee, exact_pure
from tacit.errors import ParameterError
from tacit.fairness.errors import FairnessError
from tacit.fairness.private_rates import PrivateRates, RateEstimate, noise_for
from tacit.fairness.rates import Array, Groups, People, Rates, binary, group_words, listed
from tacit.learning import Pipeline
from tacit.learning.scikit import BaseEstimator, ClassifierMixin, check_is_fitted, clone
from tacit.ledger import Account, paying
from tacit.parameters import probability
from tacit.pictures import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, Path, canvas, dress, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Correction:
    """The chance of accepting by group and prediction, `accept[group, prediction]`, and what the counts say of it."""

    accept: Array
    rates: Array  # group x (false positive rate, true positive rate), after the correction
    error: float

    @property
    def gap(self) -> float:
        """The largest difference between two groups in either rate, by the counts it was made from."""
        return float((self.rates.max(axis=0) - self.rates.min(axis=0)).max())


def correct(counts: ArrayLike, *, gap: float = 0.0) -> Correction:
    """The correction of fewest errors under which both rates differ by at most `gap`, from counts of (group, label, prediction).

    Counts may be noisy: those below 1 count as 1. Solved exactly, as a linear programme with two variables a group. It always
    has a solution: accepting every person with one and the same chance.

    Guarantee
        Statement: post-processing; it costs nothing beyond the counts.
        Proved in: Hardt, Price, Srebro 2016, Section 4; here with a tolerance.
    """
    from scipy.optimize import linprog

    table = np.maximum(np.asarray(counts, dtype=np.float64), 1.0)
    if table.ndim != 3 or table.shape[1:] != (2, 2):
        raise ParameterError("counts must have the shape (groups, 2 labels, 2 predictions)")
    allowed = float(probability("gap", gap))
    groups = len(table)
    # A rate after the correction is linear in accept: sum over predictions of their share among the label's people.
    shares = table / table.sum(axis=2, keepdims=True)
    rows, limits = [], []
    for one, other in itertools.permutations(range(groups), 2):
        for label in (0, 1):
            row = np.zeros((groups, 2))
            row[one] += shares[one, label]
            row[other] -= shares[other, label]
            rows.append(row.ravel())
            limits.append(allowed)
    cost = (table[:, 0, :] - table[:, 1, :]) / table.sum()  # accepting costs where the label is 0, and saves where it is 1
    # Of two corrections that are equally good, the one that changes fewer predictions.
    tie = 1e-9 * np.tile([1.0, -1.0], groups)
    found = linprog(
        cost.ravel() + tie, A_ub=np.array(rows) if rows else None, b_ub=np.array(limits) if rows else None,
        bounds=[(0.0, 1.0)] * (2 * groups), method="highs",
    )  # fmt: skip
    if not found.success:  # pragma: no cover - one chance for every person is always allowed
        raise FairnessError(code="lp-failed", reason=str(found.status))
    accept = np.clip(found.x.reshape(groups, 2), 0.0, 1.0)
    after = np.einsum("glp,gp->gl", shares, accept)
    error = float((cost * accept).sum() + table[:, 1, :].sum() / table.sum())
    return Correction(accept, after, error)


class EqualizedOdds(ClassifierMixin, BaseEstimator):
    """A private model whose predictions are corrected so that true and false positive rates agree between groups.

    Parameters
        estimator: a private classifier of two classes (it carries `event_` once fitted), or with `prefit=True` a model that is
        public or was released before. A model that is neither is refused: it would carry its training data out unpaid.
        groups: the attributes and their values, public. gap: the largest difference of rates that is wanted.
        epsilon, delta, rho, mu, guarantee: what the correction may cost, beside the model.
        account: a ledger account; model and correction are paid for together, before either touches a row.
        smallest: a public lower bound on how many people of a group have one label. With it, a gap that the noise hides is
        refused before anything is paid.
        random_state: for the coins in use, which protect no data; None draws new ones.

    Fitted: estimator_, correction_, rates_ (released rates before the correction), gap_ (after it, with an interval that
    covers the noise), event_, privacy_, price_ (in words), private_, classes_, needs_group_ (True: it must be told the group in use).

    Guarantee
        Statement: fitting costs event_, the composition of the model's event and one noisy histogram, whatever the rows are.
        Conditions: a row is a person; groups and classes are public; the two are private under the same relation.
        Proved in: `tacit.fairness.private_rates`; the correction is post-processing. Privacy is about the training data; that the
        gap is small on new people is an estimate with an interval, not a guarantee.
    """

    needs_group_ = True

    def __init__(
        self, estimator: Any = None, *, groups: Mapping[str, Iterable[object]] | Groups | None = None, gap: float = 0.02,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None, mu: float | None = None,
        guarantee: Guarantee | str | None = None, adjacency: str = "add-remove", prefit: bool = False,
        smallest: int | None = None, account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        self.estimator = estimator
        self.groups = groups
        self.gap = gap
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.mu = mu
        self.guarantee = guarantee
        self.adjacency = adjacency
        self.prefit = prefit
        self.smallest = smallest
        self.account = account
        self.random_state = random_state

    def __sklearn_clone__(self) -> Self:
        """A clone shares the account, and a model that is public already."""
        given = self.get_params(deep=False)
        shared = {"account", "groups"} | ({"estimator"} if self.prefit else set())
        return type(self)(**{name: value if name in shared else clone(value, safe=False) for name, value in given.items()})

    def fit(self, X: Any, y: Any, *, sensitive_features: object = None) -> Self:
        """Pay for model and correction, fit the one, count once for the other."""
        groups = Groups.of(self.groups if self.groups is not None else {})
        wanted = Guarantee.of(
            self.guarantee, epsilon=self.epsilon, delta=self.delta, rho=self.rho, mu=self.mu
        ).positive()
        relation = Adjacency.parse(self.adjacency, among=(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE))
        noise = noise_for(wanted, relation)
        classes = self._classes()
        self._certain(noise.error(0.95))
        if groups.size < 2:
            raise FairnessError(code="groups-values", attribute=groups.names[0])
        label = listed(y)
        features = groups.columns(sensitive_features, len(label))
        if _rows(X) != len(label):
            raise FairnessError(code="rows-differ", column="X")
        if self.prefit:
            if hasattr(self.estimator, "fit"):
                check_is_fitted(self.estimator)
            model, event = self.estimator, noise.event
        else:
            if Adjacency.parse(str(getattr(self.estimator, "adjacency", "add-remove"))) is not relation:
                raise ParameterError("the model is private under another relation; give it the same adjacency")
            model = clone(self.estimator)
            event = Composed(Pipeline([("model", model)]).price(X, label), noise.event)
        delta = (wanted.floats.delta or 0.0) + (0.0 if self.prefit else _delta(self.estimator))
        price, words = self._price(event, relation, delta)  # what has no price is refused before anything is paid
        with paying(self.account, event, purpose="fit EqualizedOdds", delta=delta or None) as payment:
            if not self.prefit:
                model.fit(X, label)
            people = People(groups, label, _predicted(model, X), features, classes[1])
            released = noise.add(people.confusion())
        if not self.prefit and Composed(model.event_, noise.event) != event:
            # cannot happen while an event is a function of public numbers; a model that breaks this publishes nothing
            raise ParameterError("the model's price changed between the payment and the fit; it must depend on public numbers only")
        self.estimator_, self.classes_ = model, classes
        self.event_: Event = event
        self.privacy_: Bound = price
        self.price_ = words
        self.private_ = payment.private
        self.groups_ = groups
        self.rates_ = PrivateRates(groups, released, noise, self.privacy_, self.private_)
        self.correction_ = correct(released, gap=self.gap)
        self.gap_ = corrected_gap(self.rates_, self.correction_)
        return self

    def _price(self, event: Event, relation: Adjacency, delta: float) -> tuple[Bound, str]:
        """Epsilon at the sum of the deltas; rho where no delta was given. Also in words."""
        if delta > 0:
            found = Guarantee(epsilon=1, delta=delta).price(event, relation)
            return found, f"epsilon {found.upper:.6g} at delta {delta:g}"
        pure = self.epsilon is not None and exact_pure(event, relation) is not None
        found = (Guarantee(epsilon=1) if pure else Guarantee(rho=1)).price(event, relation)
        return found, f"{'epsilon' if pure else 'rho'} {found.upper:.6g}"

    def _classes(self) -> NDArray[Any]:
        declared = getattr(self.estimator, "classes", None)
        found = np.unique(np.asarray(declared if declared is not None else getattr(self.estimator, "classes_", [0, 1])))
        if len(found) != 2:
            raise ParameterError("equalized odds are about two classes; declare classes=[0, 1] on the estimator")
        return found

    def _certain(self, error: float) -> None:
        """Refuse a gap that the noise would hide in the smallest group that was declared."""
        probability("gap", self.gap)
        if self.smallest is not None:
            least = error / self.smallest
            if self.gap < least:
                raise FairnessError(code="gap-uncertain", gap=float(self.gap), least=least)

    def chances(self, X: Any, *, sensitive_features: object) -> Array:
        """The chance of the second class for each row; a row in no declared group keeps the model's own prediction."""
        check_is_fitted(self)
        guess = binary(_predicted(self.estimator_, X), self.classes_[1])
        group = self.groups_.codes(self.groups_.columns(sensitive_features, len(guess)))
        found = self.correction_.accept[np.maximum(group, 0), guess]
        return np.asarray(np.where(group >= 0, found, guess.astype(np.float64)))

    def predict(self, X: Any, *, sensitive_features: object) -> NDArray[Any]:
        """Classes, drawn with the corrected chances: the same person may get another answer another time."""
        chances = self.chances(X, sensitive_features=sensitive_features)
        coins = np.random.default_rng(self.random_state).random(len(chances))
        found: NDArray[Any] = self.classes_[(coins < chances).astype(int)]
        return found

    def plot(self, *, ax: Axes | None = None, path: Path | None = None) -> Figure:
        """False and true positive rates of every group, before the correction and after it, from the released counts."""
        check_is_fitted(self)
        figure, axes = canvas(ax, path)
        wrong, right = (self.rates_.estimates(name) for name in ("false_positive_rate", "true_positive_rate"))
        for colour, key, x, y, after in zip(
            (BLUE, ORANGE, GREEN, RED, PURPLE, SKY) * len(wrong), self.groups_.keys, wrong, right, self.correction_.rates, strict=False
        ):  # fmt: skip
            if not (math.isnan(x.value) or math.isnan(y.value)):
                axes.annotate("", tuple(after), (x.value, y.value), arrowprops={"arrowstyle": "->", "color": colour, "alpha": 0.6})
                axes.plot([x.value], [y.value], "o", color=colour, markerfacecolor="white")
            axes.plot([after[0]], [after[1]], "o", color=colour, label=group_words(key))
        axes.legend(title="filled: after the correction", title_fontsize=8, fontsize=8)
        dress(axes, f"Equalized odds: gap {self.gap_}; needs the group", "false positive rate", "true positive rate")
        return finish(figure, path)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: object = None) -> float:
        """The expected accuracy."""
        chances = self.chances(X, sensitive_features=sensitive_features)
        label = binary(listed(y), self.classes_[1])
        right = np.where(label == 1, chances, 1 - chances)
        return float(np.average(right, weights=sample_weight))


def _rows(X: Any) -> int:
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X)


def _delta(estimator: Any) -> float:
    """The delta that a model was asked for, however it was written."""
    terms: dict[str, Any] = {name: getattr(estimator, name, None) for name in ("guarantee", "epsilon", "delta", "rho", "mu")}
    if all(terms[name] is None for name in ("guarantee", "epsilon", "rho", "mu")):
        return float(terms["delta"] or 0.0)  # a pipeline, whose delta is at what it is stated
    return Guarantee.of(terms.pop("guarantee"), **terms).floats.delta or 0.0


def _predicted(model: Any, X: Any) -> Any:
    """Predictions. A model that raises for one person's row, such as one with a missing value, predicts nothing for that person.

    Public models refuse a whole table for one bad row; whether they do would tell that there is one.
    """
    rows = _rows(X)
    try:
        found = listed(model.predict(X))
        if len(found) == rows:
            return found
    except Exception:
        pass
    taken = X.iloc if hasattr(X, "iloc") else X
    single: list[object] = []
    for place in range(rows):
        try:
            (value,) = listed(model.predict(taken[place : place + 1]))
        except Exception:
            value = None
        single.append(value)
    return single


def corrected_gap(before: PrivateRates, correction: Correction) -> RateEstimate:
    """The gap after a correction, with an interval for the noise of the counts: both rates of all groups hold at once."""
    # The correction was chosen by the same noise, so every rate must hold at once: two of each group.
    level = 1 - (1 - before.confidence) / (2 * before.groups.size)
    found: list[RateEstimate] = []
    for rate in ("false_positive_rate", "true_positive_rate"):
        moved = []
        for one, (rejected, accepted) in zip(before.estimates(rate, level), correction.accept.tolist(), strict=True):
            ends = [rejected + (accepted - rejected) * at for at in (one.low, one.high)]
            middle = rejected + (accepted - rejected) * (one.value if not math.isnan(one.value) else 0.5)
            moved.append(RateEstimate(middle, min(ends), max(ends)))
        for one, other in itertools.combinations(moved, 2):
            low = max(one.low - other.high, other.low - one.high, 0.0)
            high = max(one.high - other.low, other.high - one.low)
            found.append(RateEstimate(min(max(abs(one.value - other.value), low), high), low, high))
    return RateEstimate(max(one.value for one in found), max(one.low for one in found), max(one.high for one in found))


def expected_rates(counts: ArrayLike, correction: Correction, groups: Groups) -> Rates:
    """The rates of a correction on counts of its own, such as those of a public test set.

    >>> counts = np.array([[[8, 2], [1, 9]], [[9, 1], [4, 6]]])
    >>> rule = correct(counts, gap=0.0)
    >>> round(expected_rates(counts, rule, Groups.of({"sex": ["F", "M"]})).difference("equalized_odds"), 9)
    0.0
    """
    table = np.asarray(counts, dtype=np.float64)
    accepted = np.einsum("glp,gp->gl", table, correction.accept)
    return Rates(groups, np.stack([table.sum(axis=2) - accepted, accepted], axis=2))
