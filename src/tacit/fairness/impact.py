"""What privacy costs each group: a private model beside its twin that is not private, and whose gradients are cut.

Noise and clipping do not hit all groups alike: rare people have larger gradients, which are cut more, and less company to
average the noise out (Bagdasaryan, Poursaeed, Shmatikov 2019; Tran, Dinh, Fioretto 2021). `disparate_impact` compares the two
models by group, `gradient_telemetry` shows norms and cut shares. Both look at rows: they are for public, made-up or
development data, and their result says so. With a budget, `disparate_impact` releases noisy figures of private rows instead.

>>> found = disparate_impact([1, 0, 0, 0], [1, 0, 1, 0], y=[1, 0, 1, 0], groups={"g": ["a", "b"]},
...                          sensitive_features=["a", "a", "b", "b"], data="made-up rows")
>>> found.gap, found.gap_of_twin, found.excess
(0.5, 0.0, 0.5)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, Guarantee
from tacit.errors import PackageMissing, ParameterError
from tacit.fairness.private_rates import PrivateRates, RateEstimate, noise_for
from tacit.fairness.rates import Groups, Key, People, Rates, binary, group_words
from tacit.ledger import Account, paying
from tacit.parameters import positive as above_zero
from tacit.pictures import BLUE, GREY, ORANGE, Path, canvas, dress, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Impact:
    """Accuracy by group of a private model and of its twin; `data` says what was looked at."""

    accuracy: dict[Key, float]
    accuracy_of_twin: dict[Key, float]
    data: str
    event: Event | None = None
    private: bool = False
    intervals: tuple[dict[Key, RateEstimate], dict[Key, RateEstimate]] | None = None  # of both models, where counts have noise

    @property
    def gap(self) -> float:
        """The difference between the best and the worst served group, under the private model."""
        return _spread(self.accuracy)

    @property
    def gap_of_twin(self) -> float:
        """The same without privacy."""
        return _spread(self.accuracy_of_twin)

    @property
    def excess(self) -> float:
        """By how much privacy widens the gap."""
        return self.gap - self.gap_of_twin

    def lost(self) -> dict[Key, float]:
        """What each group loses in accuracy."""
        return {key: self.accuracy_of_twin[key] - self.accuracy[key] for key in self.accuracy}

    def __str__(self) -> str:
        told = ", ".join(f"{group_words(key)} {loss:+.3f}" for key, loss in self.lost().items())
        found = f"accuracy lost to privacy: {told}; the gap is {self.gap:.3f} instead of {self.gap_of_twin:.3f} ({self.data})"
        for name, of in zip(("private", "not private"), self.intervals or (), strict=False):
            found += f"; {name}: " + ", ".join(f"{group_words(key)} {one}" for key, one in of.items())
        return found

    def plot(self, *, ax: Axes | None = None, path: Path | None = None) -> Figure:
        """Accuracy by group, with and without privacy."""
        figure, axes = canvas(ax, path)
        places = np.arange(len(self.accuracy))
        axes.bar(places - 0.2, list(self.accuracy_of_twin.values()), 0.4, color=GREY, label="not private")
        axes.bar(places + 0.2, list(self.accuracy.values()), 0.4, color=BLUE, label="private")
        for shift, of in zip((0.2, -0.2), self.intervals or (), strict=False):
            axes.vlines(places + shift, [one.low for one in of.values()], [one.high for one in of.values()], color="black", linewidth=1.5)
        axes.set_xticks(places, [group_words(key) for key in self.accuracy])
        axes.legend(fontsize=8)
        dress(axes, f"What privacy costs each group ({self.data})", "", "accuracy")
        return finish(figure, path)


def _spread(values: dict[Key, float]) -> float:
    known = [value for value in values.values() if not math.isnan(value)]
    return max(known) - min(known) if known else math.nan


def disparate_impact(
    predicted: object, predicted_by_twin: object, *, y: object, groups: Mapping[str, Iterable[object]] | Groups,
    sensitive_features: object, positive: object = 1, data: str | None = None,
    epsilon: Any = None, delta: Any = None, rho: Any = None, guarantee: Guarantee | str | None = None,
    adjacency: str = "add-remove", account: Account | None = None,
) -> Impact:  # fmt: skip
    """Predictions of a private model and of its twin, compared by group.

    A twin that is not private was trained on the rows without noise, so nothing about it may be published: say in `data` what
    rows these are ("public", "made-up", "development, curator only"), or give a budget: then both accuracies come from one noisy
    histogram, with intervals, of rows that must not be those the twin was trained on.

    Guarantee
        Statement: with a budget, costs the event, a histogram of (group, one model right or not, the other right or not) in which
        each person has one cell. Without one nothing is private, and the result says what was looked at.
    """
    paid = any(value is not None for value in (epsilon, rho, guarantee))
    if paid == (data is not None):
        raise ParameterError(
            "say which rows these are, such as data='made-up rows', or give a budget that pays for the figures; not both"
        )
    first = People.of(y, predicted, sensitive_features, groups, positive)
    second = People.of(y, predicted_by_twin, sensitive_features, groups, positive)
    if not paid:
        counted = [Rates(one.groups, one.confusion().astype(np.float64)) for one in (first, second)]
        found = [one.by_group["accuracy"] for one in counted]
        return Impact(found[0], found[1], f"{data}; not private")
    relation = Adjacency.parse(adjacency, among=(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE))
    wanted = Guarantee.of(guarantee, epsilon=epsilon, delta=delta, rho=rho).positive()
    noise = noise_for(wanted, relation)
    with paying(account, noise.event, purpose="impact of privacy by group", delta=wanted.delta or None) as payment:
        released = noise.add(_both_right(first, second))
    price = wanted.price(noise.event, relation)
    figures = PrivateRates(first.groups, released, noise, price, payment.private)
    # In a table of (right or not, twin right or not) a model is right at the rates that stand for labels and predictions.
    both = figures.by_group["base_rate"], figures.by_group["selection_rate"]
    known = [{key: one.value for key, one in of.items()} for of in both]
    seen = f"noisy counts, {wanted}" + ("" if payment.private else "; NOT PRIVATE: drawn in test mode")
    return Impact(known[0], known[1], seen, noise.event, payment.private, both)


def _both_right(first: People, second: People) -> NDArray[np.int64]:
    """Counts of (group, the first model right, the second right)."""
    right = [
        (binary(one.label, one.positive) == binary(one.prediction, one.positive)).astype(np.int64) for one in (first, second)
    ]
    return People(first.groups, right[0], right[1], first.features, 1).confusion()


@dataclass(frozen=True)
class Telemetry:
    """Norms of gradients by group at one moment of training, and the share that a clip cuts."""

    clip: float
    norms: dict[Key, float]
    cut: dict[Key, float]
    data: str

    def __str__(self) -> str:
        told = ", ".join(f"{group_words(key)}: mean norm {self.norms[key]:.3g}, {self.cut[key]:.0%} cut" for key in self.norms)
        return f"gradients clipped at {self.clip:g}: {told} ({self.data})"

    def plot(self, *, ax: Axes | None = None, path: Path | None = None) -> Figure:
        """The share of gradients that are cut, by group."""
        figure, axes = canvas(ax, path)
        axes.bar(np.arange(len(self.cut)), list(self.cut.values()), 0.6, color=ORANGE)
        axes.set_xticks(np.arange(len(self.cut)), [group_words(key) for key in self.cut])
        dress(axes, f"Gradients cut at {self.clip:g} ({self.data})", "", "share cut")
        return finish(figure, path)


def telemetry_of(
    norms: Array, *, clip: float, groups: Mapping[str, Iterable[object]] | Groups, sensitive_features: object, data: str
) -> Telemetry:
    """Norms of examples' gradients, by group. `data` says which rows these are; norms of private rows are not for release.

    >>> print(telemetry_of(np.array([0.5, 3.0]), clip=1.0, groups={"g": ["a", "b"]}, sensitive_features=["a", "b"], data="made-up rows"))
    gradients clipped at 1: a: mean norm 0.5, 0% cut, b: mean norm 3, 100% cut (made-up rows)
    """
    declared, limit = Groups.of(groups), float(above_zero("clip", clip))
    lengths = np.asarray(norms, dtype=np.float64)
    codes = declared.codes(declared.columns(sensitive_features, len(lengths)))
    means, cut = {}, {}
    for place, key in enumerate(declared.keys):
        own = lengths[codes == place]
        means[key] = float(own.mean()) if len(own) else math.nan
        cut[key] = float((own > limit).mean()) if len(own) else math.nan
    return Telemetry(limit, means, cut, data)


def gradient_telemetry(
    model: Any, loss: Any, X: Any, y: Any, *, clip: float, groups: Mapping[str, Iterable[object]] | Groups,
    sensitive_features: object, data: str,
) -> Telemetry:  # fmt: skip
    """Norms of each example's gradient of a torch model, by group: who is cut. `loss(output, label)` is for one example.

    For development or made-up rows; one backward pass for each example.
    """
    try:
        import torch
    except ImportError as error:
        raise PackageMissing(code="package-missing", package="torch", install="'tacit[torch]'") from error
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    norms = []
    for row, label in zip(X, y, strict=True):
        value = loss(model(row[None]), label[None])
        gradients = torch.autograd.grad(value, parameters)
        norms.append(math.sqrt(sum(float((part.double() ** 2).sum()) for part in gradients)))
    return telemetry_of(np.array(norms), clip=clip, groups=groups, sensitive_features=sensitive_features, data=data)


