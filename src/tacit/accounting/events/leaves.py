"""The leaves of an event tree: mechanisms with known noise, and guarantees that were stated elsewhere.

A mechanism's noise is given relative to its sensitivity under the leaf's `adjacency` (add/remove unless stated):
`Gaussian(noise_multiplier=1.1)` is noise of standard deviation 1.1 times the l2 sensitivity.

>>> Gaussian(1.1)
Gaussian(noise_multiplier=1.1)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tacit.accounting.events.tree import Adjacency, Leaf
from tacit.errors import ParameterError
from tacit.parameters import Number, count, nonnegative, number, positive, probability

if TYPE_CHECKING:
    from tacit.accounting.strategies import Strategy


def _flag(_: str, value: object) -> bool:
    return bool(value)


@dataclass(frozen=True, repr=False, eq=False)
class Gaussian(Leaf):
    """Gaussian noise; `noise_multiplier` is sigma over the l2 sensitivity."""

    noise_multiplier: Number
    checks = (("noise_multiplier", positive),)


@dataclass(frozen=True, repr=False, eq=False)
class DiscreteGaussian(Leaf):
    """Discrete Gaussian noise of parameter `sigma` on an integer query of sensitivity `sensitivity` (Canonne, Kamath, Steinke 2020)."""

    sigma: Number
    sensitivity: int = 1
    checks = (("sigma", positive), ("sensitivity", count))


@dataclass(frozen=True, repr=False, eq=False)
class DistributedDiscreteGaussian(Leaf):
    """The sum of the shares of noise of so many `clients`, each discrete Gaussian of parameter `sigma` in every one of `dimension`
    coordinates, on a vector of whole numbers that one client moves by `sensitivity` in l2 and `l1_sensitivity` in l1.

    Only the sum is seen, and `clients` counts the honest ones that are in it. Without `l1_sensitivity` the most that the l2 norm of
    whole numbers allows is taken (Kairouz, Liu, Steinke 2021).

    >>> DistributedDiscreteGaussian(sigma=4, clients=100, sensitivity=10, dimension=1024).l1_sensitivity
    100
    """

    sigma: Number
    clients: int
    sensitivity: Number
    dimension: int = 1
    l1_sensitivity: Number | None = None

    def validate(self) -> None:
        self._set("sigma", positive("sigma", self.sigma))
        self._set("clients", count("clients", self.clients))
        _set_norms(self)


@dataclass(frozen=True, repr=False, eq=False)
class Skellam(Leaf):
    """Skellam noise, the difference of two Poisson variables, of variance `variance` in every one of `dimension` coordinates, on a vector
    of whole numbers that one client moves by `sensitivity` in l2 and `l1_sensitivity` in l1 (Agarwal, Kairouz, Liu 2021).

    The sum of shares is such noise again: of several clients, `variance` is the sum of the honest survivors' shares.

    >>> Skellam(variance=1600, sensitivity=10, dimension=16).l1_sensitivity
    40.0...
    """

    variance: Number
    sensitivity: Number
    dimension: int = 1
    l1_sensitivity: Number | None = None

    def validate(self) -> None:
        self._set("variance", positive("variance", self.variance))
        _set_norms(self)


def _set_norms(event: DistributedDiscreteGaussian | Skellam) -> None:
    """Check the norms of a vector of whole numbers; its l1 norm is at most its squared l2 norm, and sqrt(dimension) times the norm."""
    event._set("sensitivity", positive("sensitivity", event.sensitivity))
    event._set("dimension", count("dimension", event.dimension))
    size = event.sensitivity
    if event.l1_sensitivity is None:
        wide = math.sqrt(event.dimension) * float(size) * (1 + 1e-15)
        event._set("l1_sensitivity", min(size * size, wide))
    event._set("l1_sensitivity", positive("l1_sensitivity", event.l1_sensitivity))


@dataclass(frozen=True, repr=False, eq=False)
class Laplace(Leaf):
    """Laplace noise; `noise_multiplier` is the scale over the l1 sensitivity, so one use is 1/noise_multiplier-DP."""

    noise_multiplier: Number
    checks = (("noise_multiplier", positive),)


@dataclass(frozen=True, repr=False, eq=False)
class DiscreteLaplace(Leaf):
    """Two-sided geometric noise, mass proportional to exp(-|x|/scale), on an integer query of sensitivity `sensitivity`."""

    scale: Number
    sensitivity: int = 1
    checks = (("scale", positive), ("sensitivity", count))


@dataclass(frozen=True, repr=False, eq=False)
class Staircase(Leaf):
    """The staircase mechanism of Geng and Viswanath 2014; `gamma` is the share of a step at the higher level (default: l1-optimal)."""

    epsilon: Number
    gamma: Number | None = None

    def validate(self) -> None:
        self._set("epsilon", positive("epsilon", self.epsilon))
        if self.gamma is None:
            self._set("gamma", 1 / (1 + math.exp(min(float(self.epsilon) / 2, 700))))
        self._set("gamma", probability("gamma", self.gamma))


@dataclass(frozen=True, repr=False, eq=False)
class RandomizedResponse(Leaf):
    """Keep the true one of `categories` answers with odds e^epsilon to 1 against each *other* answer; a local protocol, so replace-one."""

    epsilon: Number
    categories: int = 2
    adjacency: Adjacency = field(default=Adjacency.REPLACE_ONE, kw_only=True)
    checks = (("epsilon", positive), ("categories", partial(count, least=2)))


@dataclass(frozen=True, repr=False, eq=False)
class LocalReport(Leaf):
    """A local randomiser's report of one person's value: for any two values an outcome has likelihood ratio e^epsilon, 1 or e^-epsilon.

    `alpha` is the probability of the outcomes that favour another value over the person's own (1 / (e^epsilon + 1) unless stated,
    the worst there is), so their mirror image has e^epsilon alpha. For `Shuffled` reports, `blanket` is the mass of the output law
    that no value changes and `both` the share of it that favours both of two values; without them any randomiser is allowed for.

    >>> LocalReport(1, 0.25)
    LocalReport(epsilon=1, alpha=0.25, blanket=0, both=0)
    """

    epsilon: Number
    alpha: Number | None = None
    blanket: Number = 0
    both: Number = 0
    adjacency: Adjacency = field(default=Adjacency.REPLACE_ONE, kw_only=True)

    def validate(self) -> None:
        self._set("epsilon", positive("epsilon", self.epsilon))
        odds = math.exp(min(float(self.epsilon), 700.0))
        self._set("alpha", 1 / (odds + 1) if self.alpha is None else positive("alpha", self.alpha))
        self._set("blanket", probability("blanket", self.blanket))
        self._set("both", probability("both", self.both))
        if float(self.alpha or 0) * (odds + 1) > 1 + 1e-9:
            raise ParameterError(f"alpha must be at most 1 / (e^epsilon + 1) = {1 / (odds + 1):.6g}, not {self.alpha}")
        if self.blanket and 2 * float(self.alpha or 0) > float(self.blanket) * (1 - float(self.both)) * (1 + 1e-9):
            raise ParameterError("alpha must be at most half of the blanket that does not favour both values")


@dataclass(frozen=True, repr=False, eq=False)
class Exponential(Leaf):
    """The exponential mechanism of parameter `epsilon`: its privacy losses lie in a range of width `epsilon`.

    A non-monotone score uses weights exp(epsilon * score / (2 * sensitivity)) and a monotone one exp(epsilon * score / sensitivity);
    both are epsilon-bounded range, a monotone score is stated for `monotone=True` (Dong, Durfee, Rogers 2020).
    """

    epsilon: Number
    monotone: bool = False
    checks = (("epsilon", positive), ("monotone", _flag))


@dataclass(frozen=True, repr=False, eq=False)
class PureDP(Leaf):
    """Any mechanism that is epsilon-DP."""

    epsilon: Number
    checks = (("epsilon", nonnegative),)


@dataclass(frozen=True, repr=False, eq=False)
class ApproxDP(Leaf):
    """Any mechanism that is (epsilon, delta)-DP."""

    epsilon: Number
    delta: Number
    checks = (("epsilon", nonnegative), ("delta", probability))


@dataclass(frozen=True, repr=False, eq=False)
class LeakyRandomizedResponse(Leaf):
    """The worst (epsilon, delta) mechanism: randomised response that confesses with probability delta (Kairouz, Oh, Viswanath 2015)."""

    epsilon: Number
    delta: Number = 0
    checks = (("epsilon", nonnegative), ("delta", probability))


@dataclass(frozen=True, repr=False, eq=False)
class ZCDP(Leaf):
    """Any mechanism that is rho-zCDP."""

    rho: Number
    checks = (("rho", nonnegative),)


@dataclass(frozen=True, repr=False, eq=False)
class TruncatedCDP(Leaf):
    """Any mechanism with Rényi divergence at most rho * order for orders below `omega` (Bun, Dwork, Rothblum, Steinke 2018)."""

    rho: Number
    omega: Number

    def validate(self) -> None:
        self._set("rho", nonnegative("rho", self.rho))
        value = number("omega", self.omega)
        if not value > 1:
            raise ParameterError(f"omega must be greater than 1, not {value}")
        self._set("omega", value)


@dataclass(frozen=True, repr=False, eq=False)
class RenyiDP(Leaf):
    """Any mechanism with Rényi divergence at most epsilon at each listed order: `RenyiDP([(2, 0.1), (8, 0.5)])`."""

    curve: tuple[tuple[float, float], ...]

    def validate(self) -> None:
        rows = []
        for row in self.curve:
            if len(row) != 2:
                raise ParameterError("curve must be pairs (order, epsilon)")
            order, epsilon = number("order", row[0]), number("epsilon", row[1])
            if not order > 1:
                raise ParameterError(f"order must be greater than 1, not {order}")
            if epsilon < 0:
                raise ParameterError(f"epsilon must be zero or more, not {epsilon}")
            rows.append((float(order), float(epsilon)))
        if not rows:
            raise ParameterError("curve is empty; give at least one pair (order, epsilon)")
        self._set("curve", tuple(sorted(rows)))


@dataclass(frozen=True, repr=False, eq=False)
class GDP(Leaf):
    """Any mechanism that is mu-Gaussian differentially private (Dong, Roth, Su 2022)."""

    mu: Number
    checks = (("mu", nonnegative),)


@dataclass(frozen=True, repr=False, eq=False)
class PrivacyProfile(Leaf):
    """Any mechanism that is (epsilon, delta)-DP for every listed pair, or for every epsilon with delta = curve(epsilon).

    A table travels through JSON; a callable does not. A callable must be an upper bound, non-increasing, at every real epsilon >= 0.
    """

    curve: tuple[tuple[float, float], ...] | Callable[[float], float]

    def validate(self) -> None:
        if callable(self.curve):
            return
        rows = []
        for row in self.curve:
            if len(row) != 2:
                raise ParameterError("curve must be pairs (epsilon, delta)")
            rows.append((float(nonnegative("epsilon", row[0])), float(probability("delta", row[1]))))
        if not rows:
            raise ParameterError("curve is empty; give at least one pair (epsilon, delta)")
        self._set("curve", tuple(sorted(rows)))


@dataclass(frozen=True, repr=False, eq=False)
class MixtureOfGaussians(Leaf):
    """A Gaussian sum whose sensitivity is random: `sensitivities[i]` with probability `weights[i]`, noise of standard deviation `sigma`.

    It prices group and user-level sampling (Ganesh 2024).
    """

    sigma: Number
    sensitivities: tuple[Number, ...]
    weights: tuple[Number, ...]

    def validate(self) -> None:
        self._set("sigma", positive("sigma", self.sigma))
        self._set("sensitivities", tuple(nonnegative("sensitivities", s) for s in self.sensitivities))
        self._set("weights", tuple(probability("weights", w) for w in self.weights))
        if not self.sensitivities or len(self.sensitivities) != len(self.weights):
            raise ParameterError("sensitivities and weights must be equally long and not empty")
        if abs(float(sum(self.weights)) - 1) > 1e-9:
            raise ParameterError(f"weights must add up to 1, not {float(sum(self.weights))}")


@dataclass(frozen=True, repr=False, eq=False)
class MatrixMechanism(Leaf):
    """A whole run with correlated noise: `noise_multiplier` is the deviation of the independent noise behind it over the norm that one
    contribution is clipped to, and a record takes part in at most `participations` steps that are `separation` or more apart.

    It costs one Gaussian whose sensitivity is worked out from the strategy: see `tacit.accounting.strategies` for the guarantee.

    >>> from tacit.accounting.strategies import Tree
    >>> MatrixMechanism(2, Tree(1000), participations=1).gaussian
    Gaussian(noise_multiplier=0.632...)
    """

    noise_multiplier: Number
    strategy: Strategy
    participations: int = 1
    separation: int = 1
    fixed: bool = False

    def validate(self) -> None:
        from tacit.accounting.strategies import Strategy  # only runs with correlated noise have one

        self._set("noise_multiplier", positive("noise_multiplier", self.noise_multiplier))
        if not isinstance(self.strategy, Strategy):
            raise ParameterError(f"strategy must be a strategy of tacit.accounting.strategies, not {type(self.strategy).__name__}")
        self._set("participations", count("participations", self.participations))
        self._set("separation", count("separation", self.separation))
        self._set("fixed", bool(self.fixed))

    @property
    def gaussian(self) -> Gaussian:
        """The Gaussian mechanism it costs as much as, rounded to the dearer side."""
        from tacit.accounting.strategies import sensitivity

        moved = sensitivity(self.strategy, self.participations, self.separation, self.fixed)
        return Gaussian(math.nextafter(float(self.noise_multiplier) / moved * (1 - 2.0**-52), 0.0), adjacency=self.adjacency)
