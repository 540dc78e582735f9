"""Fairness as a game between a learner and an auditor, played privately: a classifier that need not know the group in use.

The learner wants few errors; the auditor puts a price on every pair of groups whose rates differ by more than `gap`, up to a
total of `bound`. Each round the learner takes private gradient steps on the priced loss, the auditor looks at one noisy
histogram of the new hypothesis and changes the prices. The mixture of the later hypotheses is the classifier: it accepts a
person with the share of hypotheses that do (Agarwal, Beygelzimer, Dudik, Langford, Wallach 2018; private: Jagielski et al.
2019). All rounds are fixed beforehand and priced as one event. `fair_mixture` plays the same game over a finite list of
hypotheses. Needs `pip install 'tacit[learn]'`.

>>> from tacit.noise import test_mode
>>> rows = np.random.default_rng(0).uniform(-1, 1, (4000, 3))
>>> sex = np.where(rows[:, 1] > 0, "F", "M")
>>> y = (rows[:, 0] + 0.5 * rows[:, 1] > 0).astype(int)
>>> model = FairClassifier(groups={"sex": ["F", "M"]}, gap=0.05, epsilon=2, delta=1e-6, bounds=(-1, 1), rounds=12)
>>> with test_mode(2):
...     model = model.fit(rows, y, sensitive_features=sex)
>>> model.privacy_.upper <= 2, len(model.hypotheses_)
(True, 6)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency, Bound, Composed, Event, Exponential, Gaussian, Guarantee, Repeated, calibrate
from tacit.calculus import Integers as WholeNumbers
from tacit.calculus import LInfinity, Measurement, Space, Vectors, codes_of
from tacit.errors import ParameterError
from tacit.fairness.errors import FairnessError
from tacit.fairness.rates import Array, Groups, Integers, People, binary, listed
from tacit.learning import PrivateEstimator
from tacit.learning.scikit import check_is_fitted
from tacit.ledger import Account, paying
from tacit.mechanisms import NoisySums, exponential, farthest_table, noisy_sum
from tacit.parameters import count, positive, probability
from tacit.parameters import positive as above_zero
from tacit.pictures import BLUE, GREY, SKY, Path, canvas, dress, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Who learns without regret: the other side answers with its best response (learner: Cummings et al. 2019, auditor: Jagielski et al. 2019).
Roles = Literal["learner", "auditor"]
HISTOGRAMS = 0.15  # of mu^2: what looking at the hypotheses gets; the rest is for the learner
WARM = 0.4  # of the learner's rounds: without prices, so that the game starts from a good classifier


@dataclass(frozen=True)
class Auditor:
    """Prices on pairs of groups: for each ordered pair and each rate, how much the learner pays for its difference.

    Multipliers are never negative and add up to at most `bound` (the textbook leaves the first out).
    """

    groups: int
    gap: float
    bound: float

    @property
    def constraints(self) -> list[tuple[int, int, int]]:
        """(label, one group, another): the rate of `one` at this label exceeds that of the other by at most gap."""
        pairs = itertools.permutations(range(self.groups), 2)
        return [(label, one, other) for one, other in pairs for label in (0, 1)]

    def excesses(self, rates: Array) -> Array:
        """By how much each constraint is broken, from rates of acceptance by (group, label)."""
        return np.array([rates[one, label] - rates[other, label] - self.gap for label, one, other in self.constraints])

    def best_response(self, excesses: Array) -> Array:
        """All of the price on the worst constraint; none if all hold."""
        prices = np.zeros(len(excesses))
        if excesses.max() > 0:
            prices[int(excesses.argmax())] = self.bound
        return prices

    def weighed(self, totals: Array, rate: float) -> Array:
        """Multiplicative weights over the constraints and a last one that is never broken."""
        scores = np.append(rate * totals, 0.0)
        weights = np.exp(scores - scores.max())
        return np.asarray(self.bound * weights[:-1] / weights.sum())

    def burdens(self, prices: Array) -> Array:
        """What accepting costs at (group, label), for a whole group: the prices of the constraints it is in."""
        found = np.zeros((self.groups, 2))
        for price, (label, one, other) in zip(prices.tolist(), self.constraints, strict=True):
            found[one, label] += price
            found[other, label] -= price
        return found


def acceptance(counts: Array) -> Array:
    """Rates of acceptance by (group, label) from noisy counts of (group, label, prediction); counts below 1 count as 1."""
    table = np.maximum(counts, 1.0)
    return np.asarray(table[:, :, 1] / table.sum(axis=2))


class FairClassifier(PrivateEstimator):
    """A private linear classifier, randomised over several hypotheses, whose rates agree between groups within about `gap`.

    Parameters
        groups: the attributes and their values, public; gap: the difference of rates that is aimed at.
        rounds: how often learner and auditor take turns; fixed beforehand, all of them are paid for.
        bound: the most that the auditor may ask for in total; larger is fairer and less accurate.
        roles: who learns without regret, "learner" or "auditor"; the other side answers with its best response.
        least: the smallest share of all people that a group with one label may have, public. It bounds how much one
        person weighs in the loss.
        steps: gradient steps of the learner in a round. rate: the size of a step.
        epsilon, delta, rho, mu, guarantee, bounds, data_norm, adjacency, n_public, account, random_state: as in
        `tacit.learning.estimator`. classes: two labels, public.

    Fitted: hypotheses_ (rows of coefficients and an intercept), event_, privacy_, private_, classes_, gaps_ (the gap of the
    hypothesis of each round, from noisy counts), needs_group_ (False).

    Guarantee
        Statement: fitting costs event_, at most what was asked for, whatever the rows, labels and groups are.
        Conditions: bounds or data_norm, classes, groups, least and rounds are public; a row is a person. Everything about a
        person is protected, not the group alone.
        Proved in: each step releases a sum of vectors, clipped to a length that is stated beforehand, with Gaussian noise
        (`noisy_sum`); each look at a hypothesis is a histogram in which a person has one cell. A person's weight depends
        on released prices and sizes and on their own group and label. Adaptive composition of Gaussian releases; the
        mixture is post-processing. Theorem 17.10 of the textbook hides VC(H), the number of groups, `bound`, the
        smallest group and delta in its constant, and protects less where only the sensitive attribute is private.
    """

    needs_group_ = False

    def __init__(
        self, *, groups: Mapping[str, Iterable[object]] | Groups | None = None, gap: float = 0.02, rounds: int = 60,
        bound: float = 0.5, roles: Roles = "auditor", least: float = 0.02, steps: int = 1, rate: float = 0.2,
        classes: ArrayLike = (0, 1), epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Any = None,
        data_norm: float | None = None, adjacency: str = "add-remove", n_public: int | None = None,
        account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds, data_norm=data_norm,
            adjacency=adjacency, n_public=n_public, account=account, random_state=random_state,
        )  # fmt: skip
        self.groups = groups
        self.gap = gap
        self.rounds = rounds
        self.bound = bound
        self.roles = roles
        self.least = least
        self.steps = steps
        self.rate = rate
        self.classes = classes

    def fit(self, X: ArrayLike, y: Any, *, sensitive_features: object = None) -> Self:
        """Pay for all rounds, then play."""
        request = self._request(X)
        classes = np.unique(np.asarray(self.classes))
        if len(classes) != 2:
            raise ParameterError("classes must be two labels, such as classes=[0, 1]; they must be public")
        if self.roles not in ("learner", "auditor"):
            raise ParameterError(f"roles must be 'learner' or 'auditor', not {self.roles!r}")
        if request.guarantee.pure:
            raise ParameterError("the game is made of Gaussian releases; give delta, rho or mu")
        groups = Groups.of(self.groups if self.groups is not None else {})
        auditor = Auditor(groups.size, float(probability("gap", self.gap)), float(positive("bound", self.bound)))
        rounds, steps = count("rounds", self.rounds, least=2), count("steps", self.steps)
        least, rate = _least(self.least), float(positive("rate", self.rate))
        label = listed(y)
        if len(label) != len(request.numbers):
            raise FairnessError(code="rows-differ", column="y")
        features = groups.columns(sensitive_features, len(label))

        def made(total: float) -> Event:
            looks, moves = _multipliers(total, rounds, steps)
            return Composed(
                Repeated(Gaussian(looks, adjacency=request.adjacency), rounds + 1),
                Repeated(Gaussian(moves, adjacency=request.adjacency), rounds * steps),
            )

        event, total = request.guarantee.settle(made, request.adjacency)
        looks, moves = _multipliers(total, rounds, steps)
        with self._spend(event, request.guarantee):
            codes = codes_of(label, classes)
            group = np.where(codes >= 0, groups.codes(features), -1)
            people = _People(request.scaled(), np.maximum(codes, 0), group, groups.size)
            game = _Game(
                people, auditor, looks=looks, moves=moves, adjacency=request.adjacency, least=least,
                rate=rate, roles=self.roles, steps=steps,
            )  # fmt: skip
            played, gaps = game.play(rounds)
        self.classes_, self.groups_, self.space_ = classes, groups, request.space
        found = played[len(played) // 2 :]
        coefficients, intercepts = request.space.unscale(found[:, :-1], found[:, -1])
        self.hypotheses_ = np.column_stack([coefficients, intercepts])
        self.gaps_ = gaps
        return self

    def chances(self, X: ArrayLike) -> Array:
        """The chance of the second class for each row: the share of hypotheses that accept it."""
        check_is_fitted(self)
        numbers = self.space_.fill(self._fitted(X))
        scores = numbers @ self.hypotheses_[:, :-1].T + self.hypotheses_[:, -1]
        return np.asarray((scores > 0).mean(axis=1))

    def plot(self, *, ax: Axes | None = None, path: Path | None = None) -> Figure:
        """The gap of every round's hypothesis, from noisy counts; the later half is mixed."""
        check_is_fitted(self)
        return plot_gaps(self.gaps_, float(self.gap), mixed_from=len(self.gaps_) // 2, ax=ax, path=path)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Classes, by a hypothesis drawn for each row: the same person may get another answer another time."""
        chances = self.chances(X)
        found: NDArray[Any] = self.classes_[(np.random.default_rng().random(len(chances)) < chances).astype(int)]
        return found


def plot_gaps(gaps: Array, aimed: float, *, mixed_from: int, ax: Axes | None = None, path: Path | None = None) -> Figure:
    """Gaps round by round, the one that is aimed at, and which rounds are mixed."""
    figure, axes = canvas(ax, path)
    turns = np.arange(1, len(gaps) + 1)
    axes.plot(turns[:mixed_from], gaps[:mixed_from], "o-", color=SKY, markersize=3, label="learning")
    axes.plot(turns[mixed_from:], gaps[mixed_from:], "o-", color=BLUE, markersize=3, label="mixed into the classifier")
    axes.axhline(aimed, color=GREY, linewidth=1, linestyle="--", label=f"gap aimed at, {aimed:g}")
    axes.set_ylim(bottom=min(0.0, float(np.min(gaps, initial=0.0))))
    axes.legend(fontsize=8)
    dress(axes, "Learner against auditor", "round", "gap of the round's hypothesis, with its noise")
    return finish(figure, path)


def _least(share: float) -> float:
    """The smallest share of a group with one label; above 0, or one person would weigh without limit."""
    return float(positive("least", probability("least", share)))


def _multipliers(total: float, rounds: int, steps: int) -> tuple[float, float]:
    """The noise multipliers of a look and of a step: shares of mu^2."""
    looks = math.sqrt((rounds + 1) / HISTOGRAMS) / total
    moves = math.sqrt(rounds * steps / (1 - HISTOGRAMS)) / total
    return looks, moves


@dataclass(frozen=True)
class _People:
    rows: Array
    label: Integers
    group: Integers
    groups: int


@dataclass
class _Game:
    """Learner and auditor on one set of people; every number that leaves it has noise."""

    people: _People
    auditor: Auditor
    looks: float
    moves: float
    adjacency: Adjacency
    least: float
    rate: float
    roles: Roles
    steps: int

    def play(self, rounds: int) -> tuple[Array, Array]:
        people, size = self.people, self.people.groups
        design = np.column_stack([people.rows, np.ones(len(people.rows))])
        length = math.sqrt(design.shape[1])  # rows in public units have length at most sqrt(d), and 1 more for the intercept
        noise = NoisySums.of_multiplier(
            "gaussian", self.looks, farthest_table(1, self.adjacency, counts=True), adjacency=self.adjacency
        )
        shares = self._sizes(noise)
        weights, moments = np.zeros(design.shape[1]), _Adam(design.shape[1], self.rate)
        excess_total = np.zeros(len(self.auditor.constraints))
        burdens = np.zeros((size, 2))
        played, gaps = [], []
        warm = int(WARM * rounds)
        for turn in range(rounds):
            for _ in range(self.steps):
                gradient = self._gradient(design, weights, burdens, shares, length)
                weights = moments.step(weights, gradient)
            rates = acceptance(noise.add(self._histogram(design @ weights > 0)).astype(np.float64))
            excesses = self.auditor.excesses(rates)
            gaps.append(float(excesses.max()) + self.auditor.gap)
            played.append(weights.copy())
            if turn < warm:
                continue
            excess_total += excesses
            regretless = self.roles == "auditor"
            prices = self.auditor.weighed(excess_total, PACE) if regretless else self.auditor.best_response(excesses)
            burdens = self.auditor.burdens(prices)
        return np.array(played), np.array(gaps)

    def _histogram(self, accepted: NDArray[np.bool_]) -> Integers:
        people, size = self.people, self.people.groups * 4
        at = np.where(people.group >= 0, (people.group * 2 + people.label) * 2 + accepted, size)
        return np.asarray(np.bincount(at, minlength=size + 1)[:-1].reshape(people.groups, 2, 2), dtype=np.int64)

    def _sizes(self, noise: NoisySums) -> Array:
        """The share of people in each (group, label), at least `least`; from noisy counts, or it would be for free."""
        sizes = noise.add(self._histogram(np.zeros(len(self.people.label), dtype=bool))).astype(np.float64).sum(axis=2)
        self.count = max(float(sizes.sum()), 1.0)
        return np.asarray(np.maximum(sizes / self.count, self.least))

    def _gradient(self, design: Array, weights: Array, burdens: Array, shares: Array, length: float) -> Array:
        """The noisy mean gradient of the priced logistic loss.

        Accepting a person costs +-1 by their label, and the burden of their (group, label) over its share. A negative cost
        is a reason to accept: the person counts with its size as weight and label 1, else with label 0.
        """
        people = self.people
        cost = np.where(people.label == 0, 1.0, -1.0)
        cost = cost + burdens[people.group, people.label] / shares[people.group, people.label]
        known = people.group >= 0
        heaviest = 1.0 + self.auditor.bound / self.least
        cap = min(heaviest, WEIGHT)
        weight = np.where(known, np.minimum(np.abs(cost), cap), 0.0)
        scores = np.clip(design @ weights, -30.0, 30.0)
        residual = 1 / (1 + np.exp(-scores)) - (cost < 0)
        bound = CLIP * length
        rows = design * (weight * residual)[:, None]
        total = noisy_sum(rows, bound=bound, multiplier=self.moves, adjacency=self.adjacency)
        return np.asarray(total / self.count)


PACE = 0.5  # how fast the auditor raises a price, for each unit by which its constraint was broken so far
WEIGHT = 8.0  # the largest weight of a person in the priced loss
CLIP = 0.5  # the length at which a person's gradient is cut, in lengths of a row


@dataclass
class _Adam:
    """Adam on released gradients (Kingma, Ba 2015): post-processing."""

    size: int
    rate: float
    turns: int = 0

    def __post_init__(self) -> None:
        self.mean, self.square = np.zeros(self.size), np.zeros(self.size)

    def step(self, weights: Array, gradient: Array) -> Array:
        self.turns += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.99 * self.square + 0.01 * gradient**2
        mean = self.mean / (1 - 0.9**self.turns)
        square = self.square / (1 - 0.99**self.turns)
        return np.asarray(weights - self.rate * mean / (np.sqrt(square) + 1e-8))


GRAIN = 64  # parts of a unit of cost, so that scores of hypotheses are whole numbers


@dataclass(frozen=True)
class Mixture:
    """How often each hypothesis of a finite class is used, and what choosing them cost."""

    shares: Array
    event: Event
    privacy: Bound
    private: bool
    gaps: Array
    gap: float = 0.02  # the one that was aimed at

    def plot(self, *, ax: Axes | None = None, path: Path | None = None) -> Figure:
        """The gap of the hypothesis that each round chose, from noisy counts."""
        return plot_gaps(self.gaps, self.gap, mixed_from=0, ax=ax, path=path)

    def chances(self, accepted: ArrayLike) -> Array:
        """The chance of being accepted, from what each hypothesis says: one column for each."""
        return np.asarray(np.asarray(accepted, dtype=np.float64) @ self.shares)


def fair_mixture(
    accepted: ArrayLike, y: Any, *, groups: Mapping[str, Iterable[object]] | Groups, sensitive_features: object,
    gap: float = 0.02, rounds: int = 20, bound: float = 0.5, least: float = 0.02, positive: object = 1,
    epsilon: Any = None, delta: Any = None, rho: Any = None, mu: Any = None, guarantee: Guarantee | str | None = None,
    adjacency: str = "add-remove", account: Account | None = None, purpose: str = "fair mixture",
) -> Mixture:  # fmt: skip
    """The game over a finite class: the learner answers with the exponential mechanism, the auditor with multiplicative weights.

    `accepted[i, h]` says whether hypothesis h accepts person i; the hypotheses were fixed beforehand, without this data.

    >>> from tacit.noise import test_mode
    >>> people = np.random.default_rng(1).integers(0, 2, (3000, 2))
    >>> y, sex = people[:, 0], np.where(people[:, 1], "F", "M")
    >>> rules = np.column_stack([y, people[:, 1], np.ones(3000)])  # the label, the group, everyone
    >>> with test_mode(4):
    ...     found = fair_mixture(rules, y, groups={"sex": ["F", "M"]}, sensitive_features=sex, rho=0.5)
    >>> bool(found.shares[0] > 0.8), found.privacy.upper <= 0.5
    (True, True)

    Guarantee
        Statement: costs `event`, at most what was asked for, whatever the columns hold.
        Conditions: the hypotheses, groups, rounds, bound and least are public; a row is a person.
        Proved in: a score is a sum of whole costs, one for each person and at most `weight` each, so one person moves every
        score by at most that (`exponential`); each look is a histogram in which a person has one cell.
    """
    table = np.asarray(accepted)
    if table.ndim != 2 or table.shape[1] < 2:
        raise FairnessError(code="hypotheses-empty")
    people = People.of(y, table[:, 0], sensitive_features, groups, positive)
    auditor = Auditor(people.groups.size, float(probability("gap", gap)), float(above_zero("bound", bound)))
    share = _least(least)
    turns, heaviest = count("rounds", rounds), min(1.0 + auditor.bound / share, WEIGHT)
    weight = math.ceil(heaviest * GRAIN)
    relation = Adjacency.parse(adjacency, among=(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE))
    wanted = Guarantee.of(guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu).positive()
    moved = weight * (2 if relation is Adjacency.REPLACE_ONE else 1)
    one_cell = farthest_table(1, relation, laplace=True, counts=True)

    def parts(each: float) -> tuple[Measurement, NoisySums]:
        scores = Space(Vectors(WholeNumbers(), table.shape[1]), LInfinity())
        choice = scores >> exponential(epsilon=each / moved)
        assert isinstance(choice, Measurement)  # a mechanism ends a chain
        return choice, NoisySums.of_multiplier("laplace", 2 / each, one_cell, adjacency=relation)

    def made(each: float) -> Event:
        choice, noise = parts(each)
        # `moved` is how far one person moves a score under this very relation
        chosen = choice.event(moved)
        assert isinstance(chosen, Exponential)
        chosen = replace(chosen, adjacency=relation)
        return Composed(Repeated(chosen, turns), Repeated(noise.event, turns + 1))

    each = _in_mu(made, wanted, relation) if wanted.mu is not None else calibrate(
        made, guarantee=wanted, adjacency=relation, high=50.0
    )
    choice, noise = parts(each)
    event = made(each)
    with paying(account, event, purpose=purpose, delta=wanted.delta or None) as payment:
        label, group = binary(people.label, positive), people.groups.codes(people.features)
        said = _said(table)
        shares, gaps = _mixed(said, label, group, auditor, choice, noise, turns, weight, share)
    return Mixture(shares, event, wanted.price(event, relation), payment.private, gaps, auditor.gap)


def _in_mu(made: Callable[[float], Event], wanted: Guarantee, relation: Adjacency) -> float:
    """The largest epsilon of a round that keeps a mu. Pure steps are priced in mu one by one, so the price is asked for itself."""
    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if wanted.keeps(made(middle), relation) else (low, middle)
    return low


def _said(table: NDArray[Any]) -> Integers:
    """1 where a hypothesis accepts a person. One text among numbers makes texts of all of them: each is read by itself."""
    if table.dtype.kind in "biuf":
        found: Integers = (table == 1).astype(np.int64)
        return found
    return np.stack([binary(table[:, place], 1) for place in range(table.shape[1])], axis=1)


def _mixed(
    said: Integers, label: Integers, group: Integers, auditor: Auditor, choice: Measurement, noise: NoisySums, rounds: int,
    weight: int, least: float,
) -> tuple[Array, Array]:  # fmt: skip
    """How often each hypothesis was chosen, and the gap of each choice."""
    size, known = auditor.groups, group >= 0

    def looked(accepted: Integers) -> Array:
        at = np.where(known, (group * 2 + label) * 2 + accepted, size * 4)
        counts = np.bincount(at, minlength=size * 4 + 1)[:-1].reshape(size, 2, 2)
        return noise.add(counts).astype(np.float64)

    sizes = looked(np.zeros(len(label), dtype=np.int64)).sum(axis=2)
    shares = np.maximum(sizes / max(float(sizes.sum()), 1.0), least)
    chosen, totals, gaps = np.zeros(said.shape[1]), np.zeros(len(auditor.constraints)), []
    prices = np.zeros(len(auditor.constraints))
    for _ in range(rounds):
        burdens = auditor.burdens(prices) / shares
        cost = np.where(label == 0, 1.0, -1.0) + burdens[group, label]
        whole = np.where(known, np.clip(np.round(cost * GRAIN), -weight, weight), 0).astype(np.int64)
        best = int(choice.release((-(whole @ said)).tolist()).value)
        chosen[best] += 1
        excesses = auditor.excesses(acceptance(looked(said[:, best])))
        gaps.append(float(excesses.max()) + auditor.gap)
        totals += excesses
        prices = auditor.weighed(totals, PACE)
    return chosen / rounds, np.array(gaps)
