"""From an event tree to what the engines compose: dominating pairs in both directions, Rényi curves, allocations, and what is disclosed.

`resolve` walks the tree once. It is the only place that knows which relation a sampler needs, how a replacement
becomes a group of two, and which combinations have a proof. What has none is refused with the reason and the fix.

>>> from tacit.accounting import Adjacency, Exponential, Repeated
>>> parts = resolve(Repeated(Exponential(0.2), 10), Adjacency.ADD_REMOVE)
>>> round(float(renyi_curve(parts)(np.array([2.0]))[0]), 4)  # at most 10 * 2 * 0.2^2 / 8
0.0998

A step is known by a dominating pair in each direction. Some have a better bound on their Rényi divergences than
their pair gives: the pair of the bounded-range class is the envelope of many laws, of which a mechanism has one
at a time, and the pair of discrete Gaussian noise leaves out the far tails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tacit.accounting.closed_form import LARGEST_LOSS, exact_pure, rho_from_range
from tacit.accounting.events import leaves
from tacit.accounting.events import tree as ev
from tacit.accounting.events.tree import Adjacency, Poisson, RandomAllocation, TruncatedPoisson, WithoutReplacement, WithReplacement, hops
from tacit.accounting.pairs import finite, mixture
from tacit.accounting.pairs import pair as pairs
from tacit.accounting.pairs.laplace import bounded_range, bounded_range_divergence, laplace
from tacit.accounting.pairs.pair import Array, Disclosure, Pair, Trivial
from tacit.errors import AdjacencyError, UnsupportedError

Curve = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Concentrated:
    """A bound on the Rényi divergences of one use, in both directions and over all orders > 1, and a rho for which it is zCDP."""

    curve: Curve
    rho: float


@dataclass(frozen=True, eq=False)
class Step:
    """`count` uses of a mechanism with a dominating pair in each direction.

    `floor` holds the pairs that some mechanism described by the event really attains; without it the pairs themselves are attained.
    `concentrated`, where there is one, bounds the divergences of the mechanism itself, which may be below those of its pair.
    `uncut` are the same mechanism's pairs were no batch cut, and the chance of one that is: as good where cuts are very rare.
    """

    remove: Pair
    add: Pair
    count: int = 1
    floor: tuple[Pair, Pair] | None = None
    concentrated: Concentrated | None = None
    uncut: tuple[Step, float] | None = None

    def lower(self) -> tuple[Pair, Pair]:
        """The pairs a lower bound may use."""
        return self.floor or (self.remove, self.add)

    def rho(self) -> float:
        """The best known rho of one use: exact for Gaussians, r^2/8 for a bounded range, eps^2/2 for a pure one."""
        if self.concentrated is not None:
            return self.concentrated.rho
        return max(self.remove.rho(), self.add.rho())


@dataclass(frozen=True, eq=False)
class RenyiStep:
    """`count` uses of something known only by a bound on its Rényi divergences, over all orders > 1, in both directions."""

    curve: Curve
    count: int = 1
    floor: tuple[Pair, Pair] = (Trivial(), Trivial())
    rho: float | None = None  # where the curve is a zCDP guarantee


@dataclass(frozen=True, eq=False)
class AllocationStep:
    """`count` epochs in each of which a record takes part in `selected` of `steps` Gaussian sums."""

    noise_multiplier: float
    steps: int
    selected: int
    count: int = 1


@dataclass(frozen=True, eq=False)
class Resolved:
    """Everything a tree composes; with a chance of at most `leak` in all, a batch was cut and counts as disclosed outright."""

    steps: tuple[Step, ...] = ()
    renyi: tuple[RenyiStep, ...] = ()
    allocations: tuple[AllocationStep, ...] = ()
    leak: float = 0.0

    def times(self, count: int) -> Resolved:
        """The same, `count` times."""
        return Resolved(
            tuple(replace(s, count=s.count * count) for s in self.steps),
            tuple(replace(s, count=s.count * count) for s in self.renyi),
            tuple(replace(s, count=s.count * count) for s in self.allocations),
            self.leak * count,
        )

    def uncut(self) -> Resolved | None:
        """The same with every cut batch disclosed, where that is another bound."""
        if all(s.uncut is None for s in self.steps):
            return None
        steps = tuple(s if s.uncut is None else replace(s.uncut[0], count=s.count) for s in self.steps)
        return replace(self, steps=steps, leak=self.leak + sum(s.count * s.uncut[1] for s in self.steps if s.uncut is not None))

    def rho(self) -> float:
        """The sum of the steps' rho, by theorem rather than by curve."""
        total = math.fsum(step.count * step.rho() for step in self.steps)
        for known in self.renyi:
            if known.rho is None:
                raise UnsupportedError(
                    "part of this event is a Rényi curve that is not a zCDP guarantee; use rdp-improved"
                )
            total += known.count * known.rho
        return total

    def plus(self, other: Resolved) -> Resolved:
        """What both trees compose."""
        return Resolved(self.steps + other.steps, self.renyi + other.renyi, self.allocations + other.allocations, self.leak + other.leak)


def renyi_curve(parts: Resolved) -> Curve:
    """The sum of all Rényi divergences, the worse direction at each order."""

    def curve(orders: Array) -> Array:
        orders = np.atleast_1d(np.asarray(orders, dtype=float))
        total = np.zeros((2, len(orders)))
        for step in parts.steps:
            if step.concentrated is not None:
                total += step.count * np.asarray(step.concentrated.curve(orders))
                continue
            for i, pair in enumerate((step.remove, step.add)):
                if pair.infinite > 0:
                    total[i] = np.inf
                else:
                    total[i] += step.count * np.array([_divergence(pair, a) for a in orders])
        for known in parts.renyi:
            total += known.count * np.asarray(known.curve(orders))
        return np.asarray(total.max(axis=0))

    return curve


def _divergence(pair: Pair, order: float) -> float:
    if order == math.inf:
        return max(0.0, pair.support()[1])
    return max(0.0, pair.kappa(order - 1) / (order - 1))


# Sampling, selection and Rényi curves are loaded by the events that have them: a plan of plain noise needs none.
if TYPE_CHECKING:
    from tacit.accounting.theorems.amplification import Profile


def resolve(event: ev.Event, asked: Adjacency, *, null_record: bool = False, group: int = 1) -> Resolved:
    """What the engines compose for `event` under the relation `asked`, for groups of `group` records."""
    if isinstance(event, ev.NoOp):
        return Resolved()
    if isinstance(event, ev.NonPrivate):
        return Resolved((Step(Disclosure(), Disclosure()),))
    if isinstance(event, ev.Repeated):
        return resolve(event.event, asked, null_record=null_record, group=group).times(event.count)
    if isinstance(event, ev.Group):
        return resolve(event.event, asked, null_record=null_record, group=group * event.size)
    if isinstance(event, ev.Composed):
        counts: dict[ev.Event, int] = {}
        for child in event.events:
            counts[child] = counts.get(child, 0) + 1
        total = Resolved()
        for child, count in counts.items():
            total = total.plus(resolve(child, asked, null_record=null_record, group=group).times(count))
        return total
    if isinstance(event, ev.Worst):
        return _worst(event, asked, null_record, group)
    if isinstance(event, ev.Selection):
        return _selected(event, asked, null_record, group)
    if isinstance(event, ev.Sampled):
        return _sampled(event, asked, null_record, group)
    if isinstance(event, ev.Shuffled):
        return _shuffled(event, group * hops(Adjacency.REPLACE_ONE, asked, null_record=null_record))
    if isinstance(event, ev.Leaf):
        return _leaf(event, group * hops(event.adjacency, asked, null_record=null_record))
    raise UnsupportedError(f"no proof is known for {type(event).__name__}; compose it from the events of tacit.accounting")


def _worst(event: ev.Worst, asked: Adjacency, null_record: bool, group: int) -> Resolved:
    """The dearest of several events at every alpha, or at every Rényi order where some are known by their curves alone."""
    children = list(dict.fromkeys(event.events))
    if len(children) > 1 and group * (hops(event.stated, asked, null_record=null_record) if event.stated else 1) > 1:
        raise UnsupportedError(
            "a group, or a replacement seen as a removal and an addition, may touch two of the events at once; state Worst over all that "
            "can be touched together, such as Worst(Composed(a, b), Group(a, 2), Group(b, 2))"
        )
    parts = [resolve(child, asked, null_record=null_record, group=group) for child in children]
    if len(parts) == 1:
        return parts[0]
    if any(part.allocations or part.leak for part in parts):
        raise UnsupportedError("the worst of events with random allocation or cut batches has no proof yet; use Poisson sampling in them")
    if any(part.renyi for part in parts):
        # each output law is one of the events', so its divergence is at most the largest
        curves = [renyi_curve(part) for part in parts]
        rhos = [part.renyi[0].rho if not part.steps and len(part.renyi) == 1 and part.renyi[0].count == 1 else None for part in parts]
        known = [rho for rho in rhos if rho is not None]
        rho = max(known) if len(known) == len(rhos) else None
        return Resolved(renyi=(RenyiStep(lambda a: np.max([curve(a) for curve in curves], axis=0), 1, (Trivial(), Trivial()), rho),))
    steps = [_one_step(part, child) if part.steps else Step(Trivial(), Trivial()) for part, child in zip(parts, children, strict=True)]
    # whichever part is touched does occur; the one that tells most at once is as good a lower end as one of them can be
    dearest = max(steps, key=lambda step: [pairs.single_delta(step.lower()[0], e)[0] for e in (0.0, 1.0, 4.0)])
    from tacit.accounting.engines.grid import WorstPair

    worst = WorstPair([step.remove for step in steps]), WorstPair([step.add for step in steps])
    return Resolved((Step(*worst, 1, dearest.lower()),))


def _leaf(event: ev.Leaf, group: int) -> Resolved:
    """A mechanism or a stated guarantee, for data sets at distance `group` in the relation it is stated for."""
    match event:
        case leaves.Gaussian():
            return _step(mixture.gaussian(float(event.noise_multiplier), group))
        case leaves.MatrixMechanism():
            return _leaf(event.gaussian, group)
        case leaves.GDP():
            return _step(mixture.gaussian(1 / float(event.mu), group)) if event.mu else Resolved()
        case leaves.Laplace():
            theta = group / float(event.noise_multiplier)
            # beyond this the worst pure mechanism costs as good as the same
            return _step(laplace(theta)) if theta < LARGEST_LOSS else _step(finite.leaky_randomised_response(theta, 0.0), tight=False)
        case leaves.DiscreteGaussian():
            sigma, shift = float(event.sigma), group * event.sensitivity
            noise = finite.discrete_gaussian(sigma, shift)
            known = Concentrated(lambda a: finite.discrete_gaussian_divergence(sigma, shift, a), 0.5 * (shift / sigma) ** 2 * (1 + 1e-15))
            return Resolved((Step(noise, noise.reverse(), concentrated=known),))
        case leaves.DistributedDiscreteGaussian() | leaves.Skellam():
            return _distributed(event, group)
        case leaves.DiscreteLaplace():
            return _step(finite.discrete_laplace(float(event.scale), group * event.sensitivity))
        case leaves.PureDP():
            return _step(finite.leaky_randomised_response(group * float(event.epsilon), 0.0)) if event.epsilon else Resolved()
        case leaves.ApproxDP() | leaves.LeakyRandomizedResponse():
            epsilon, delta = float(event.epsilon), float(event.delta)
            # (e^(k eps) - 1) / (e^eps - 1) is the sum of e^(i eps), i < k
            factor = sum(math.exp(min(i * epsilon, 700.0)) for i in range(group))
            return _step(finite.leaky_randomised_response(group * epsilon, min(1.0, factor * delta)), tight=group == 1)
        case leaves.Staircase() if group == 1:
            return _step(finite.staircase(float(event.epsilon), float(event.gamma or 0)))
        case leaves.Staircase():
            return _step(finite.leaky_randomised_response(group * float(event.epsilon), 0.0), tight=False)
        case leaves.RandomizedResponse() if group == 1:
            return _step(finite.randomised_response(float(event.epsilon), event.categories))
        case leaves.RandomizedResponse():
            # records are randomised one by one, so a group is a composition
            return _step(finite.randomised_response(float(event.epsilon), event.categories)).times(group)
        case leaves.LocalReport():
            return _step(finite.local_report(float(event.epsilon), float(event.alpha or 0))).times(group)
        case leaves.Exponential():
            epsilon = group * float(event.epsilon)
            half = finite.leaky_randomised_response(epsilon / 2, 0.0)
            known = Concentrated(lambda a: bounded_range_divergence(epsilon, a), rho_from_range(epsilon))
            return Resolved((Step(bounded_range(epsilon), bounded_range(epsilon), 1, (half, half), known),))
        case leaves.MixtureOfGaussians():
            parts = [(group * float(s) / float(event.sigma), float(w)) for s, w in zip(event.sensitivities, event.weights, strict=True)]
            if group > 1:
                raise UnsupportedError("a group of mixture-of-Gaussians records has no proven pair; state the group's own mixture instead")
            return _step(mixture.MixturePair(sorted(parts)))
        case leaves.PrivacyProfile():
            stated = Step(pair := _profile_pair(event), pair, 1, (Trivial(), Trivial()) if callable(event.curve) else None)
            return Resolved((stated,)) if group == 1 else _grouped(stated, group)
        case leaves.ZCDP():
            rho = float(event.rho) * group * group
            floor = mixture.gaussian(1 / math.sqrt(2 * rho)) if rho else None
            return Resolved(renyi=(RenyiStep(lambda a: a * rho, 1, (floor, floor.reverse()), rho),)) if floor else Resolved()
        case leaves.TruncatedCDP() if group == 1:
            rho, omega = float(event.rho), float(event.omega)
            return Resolved(renyi=(RenyiStep(lambda a: np.where(a < omega, a * rho, np.inf)),))
        case leaves.RenyiDP() if group == 1:
            from tacit.accounting.theorems.renyi import interpolate

            orders, values = np.array(event.curve).T
            return Resolved(renyi=(RenyiStep(lambda a: interpolate(a, orders, values)),))
        case leaves.RenyiDP() | leaves.TruncatedCDP():
            from tacit.accounting.theorems.renyi import group as grouped

            single = _leaf(event, 1).renyi[0].curve
            return Resolved(renyi=(RenyiStep(lambda a: grouped(a, single, group)),))
    raise UnsupportedError(f"no proof is known for {type(event).__name__} on groups of {group}")


#: The most that shares of discrete Gaussian noise may differ from one draw over all coordinates (tau d), and the tau below which the
#: difference is less than the rounding that every bracket allows for.
_CLOSE, _EQUAL = 1e-3, 1e-20
#: Variances up to which a lower end is worked out. Losses of Gaussian noise lie on a lattice, which composes
#: quickly; those of Skellam noise do not.
_GAUSSIAN_FLOOR, _SKELLAM_FLOOR = 1e7, 2e4


def _distributed(event: leaves.DistributedDiscreteGaussian | leaves.Skellam, group: int) -> Resolved:
    """Noise in shares: Rényi curves of vectors from above, and from below the law of a query that moves one coordinate."""
    from tacit.accounting.theorems import distributed

    far, wide = group * float(event.sensitivity), group * float(event.l1_sensitivity or 0)
    one = min(math.floor(far), math.floor(wide))  # whole numbers, so one coordinate can move by this much
    if isinstance(event, leaves.Skellam):
        variance = float(event.variance)
        floor = finite.skellam(variance, one) if one and variance <= _SKELLAM_FLOOR else Trivial()
        return Resolved(renyi=(RenyiStep(lambda a: distributed.skellam(a, variance, far, wide), 1, (floor, floor.reverse())),))
    sigma, clients, dimension = float(event.sigma), event.clients, event.dimension
    tau = distributed.gaussian_closeness(sigma, clients) if clients == 1 or sigma >= distributed.LEAST_SIGMA else math.inf
    if tau * dimension > _CLOSE:
        raise UnsupportedError(code="shares-too-small", sigma=sigma, clients=clients, dimension=dimension)
    whole = sigma * math.sqrt(clients)
    attained = one and tau <= _EQUAL and whole**2 <= _GAUSSIAN_FLOOR
    floor = finite.discrete_gaussian(whole, one) if attained else Trivial()
    rho = distributed.discrete_gaussian_sum_rho(sigma, clients, far, wide, dimension)
    return Resolved(renyi=(RenyiStep(
        lambda a: distributed.discrete_gaussian_sum(a, sigma, clients, far, wide, dimension), 1, (floor, floor.reverse()), rho
    ),))  # fmt: skip


def _step(pair: Pair, *, tight: bool = True) -> Resolved:
    return Resolved((Step(pair, pair.reverse(), 1, None if tight else (Trivial(), Trivial())),))


def _profile_pair(event: leaves.PrivacyProfile) -> Pair:
    """The pair whose hockey-stick curve joins the stated points by chords (valid since the true curve is convex in e^eps)."""
    if callable(event.curve):
        base = event.curve
        epsilons = np.concatenate([np.linspace(0, 2, 401), np.geomspace(2.01, 700, 600)])
        rows = [(float(e), min(1.0, max(0.0, float(base(float(e)))))) for e in epsilons]
    else:
        rows = list(event.curve)
    return finite.from_profile(rows)


#: An epsilon of single reports beyond which shuffling is not counted: of 1e9 people, one in 1e12 crowds has one clone.
_NO_CROWD = 50


def _shuffled(event: ev.Shuffled, group: int) -> Resolved:
    """The blanket of the report, or of any report of its epsilon; exact laws of concrete data from below."""
    from tacit.accounting.pairs import shuffled

    report, people = event.event, event.n
    floor: tuple[Pair, Pair] = (Trivial(), Trivial())
    alone = exact_pure(report, Adjacency.REPLACE_ONE) if _is_local(report) else None
    if alone is not None and alone > _NO_CROWD:
        # no crowd there is hides so clear a report, and what its sender alone tells is a bound for any crowd
        return _step(finite.leaky_randomised_response(group * float(alone), 0.0), tight=False)
    match report:
        case leaves.RandomizedResponse():
            blanket = shuffled.response(float(report.epsilon), report.categories)
            floor = shuffled.attained(float(report.epsilon), report.categories, people)
        case leaves.LocalReport() if report.blanket:
            mass = float(report.blanket)
            blanket = shuffled.Blanket(float(report.epsilon), mass, float(report.alpha or 0) / mass, float(report.both))
        case _:
            if alone is None:
                raise UnsupportedError(
                    "only local reports are shuffled; state one person's report as LocalReport(epsilon) or RandomizedResponse"
                )
            blanket = shuffled.clones(float(alone))
    pair = shuffled.ShuffledPair(blanket, people)
    step = Step(pair, pair, 1, floor)
    return Resolved((step,)) if group == 1 else _grouped(step, group)


def _is_local(event: ev.Event) -> bool:
    """Whether every part is a report of a local randomiser."""
    if event.inner:
        return all(_is_local(part) for part in event.inner)
    return isinstance(event, (leaves.LocalReport, leaves.RandomizedResponse))


def _sampled(event: ev.Sampled, asked: Adjacency, null_record: bool, group: int) -> Resolved:
    scheme, inner = event.scheme, event.event
    stated = inner.stated
    if stated is None:  # nothing, or a disclosure: sampling does not change the first, and softens the second
        base = resolve(inner, asked)
        if not base.steps:
            return base
        rate = 1 - (1 - 1 / scheme.size) ** scheme.sample if isinstance(scheme, WithReplacement) else float(getattr(scheme, "rate", 1))
        leak = finite.leaky_randomised_response(0.0, min(1.0, rate * group))
        return Resolved((Step(leak, leak.reverse()),))
    match scheme:
        case Poisson():
            return _poisson(inner, stated, float(scheme.rate), asked, null_record, group)
        case TruncatedPoisson():
            return _truncated_poisson(inner, stated, scheme, asked, null_record, group)
        case WithoutReplacement():
            return _without_replacement(inner, float(scheme.rate), asked, null_record, group)
        case WithReplacement():
            return _with_replacement(inner, scheme, asked, null_record, group)
        case RandomAllocation():
            return _allocated(inner, scheme, asked, null_record, group)
    raise UnsupportedError(f"no proof is known for sampling by {type(scheme).__name__}; use a scheme of tacit.accounting")


def _poisson(inner: ev.Event, stated: Adjacency, rate: float, asked: Adjacency, null_record: bool, group: int) -> Resolved:
    if stated is Adjacency.REPLACE_ONE:
        raise AdjacencyError(code="poisson-needs-add-remove")
    if rate == 0:
        return Resolved()
    if rate == 1:
        return resolve(inner, asked, null_record=null_record, group=group)
    from tacit.accounting.pairs import sampled
    from tacit.accounting.theorems import amplification, subsampled_renyi

    base = resolve(inner, stated)
    if base.allocations or base.leak:
        raise UnsupportedError("a sampled event cannot be sampled again by RandomAllocation or TruncatedPoisson; flatten the schemes")
    mu = _gaussian_mu(base)
    if asked is Adjacency.REPLACE_ONE:
        if group != 1:
            raise UnsupportedError("groups under replace-one with Poisson sampling have no proven pair; ask for add/remove")
        if mu is not None:
            return _step(mixture.poisson_gaussian_replaced(rate, 1 / mu))
        black_box = _one_step(base, inner)
        # black box: the corrected coupling bound with the group-of-two profile (Balle, Barthe, Gaboardi 2018, Theorem 7)
        profile = amplification.poisson_replace(_profile(black_box), rate)
        epsilons = np.linspace(0, 30, 1501)
        replaced = finite.from_profile(list(zip(epsilons.tolist(), np.minimum(profile(epsilons), 1.0).tolist(), strict=True)))
        return Resolved((Step(replaced, replaced, 1, (Trivial(), Trivial())),))
    k = group * hops(stated, asked, null_record=null_record)
    if mu is not None:
        pair = mixture.poisson_gaussian(rate, 1 / mu, k)
        return Resolved((Step(pair, pair.reverse()),))
    if base.renyi:
        if k != 1 or base.steps:
            raise UnsupportedError("sampling of a Rényi guarantee is proved for single records and a single event")
        inner_curve = base.renyi[0].curve
        count = base.renyi[0].count

        def curve(orders: Array) -> Array:
            return subsampled_renyi.best(orders, rate, lambda a: count * inner_curve(a))

        return Resolved(renyi=(RenyiStep(curve),))
    step = _one_step(base, inner)
    if k == 1:
        if hasattr(step.remove, "sampled"):
            pair = step.remove.sampled(rate)
            return Resolved((Step(pair, pair.reverse()),))
        remove, add = sampled.poisson(step.remove, step.add, rate)
        return Resolved((Step(remove, add, 1, None if step.floor is None else sampled.poisson(*step.floor, rate)),))
    single = resolve(ev.Sampled(Poisson(rate), inner), stated).steps[0]
    return _grouped(single, k)


def _truncated_poisson(
    inner: ev.Event, stated: Adjacency, scheme: TruncatedPoisson, asked: Adjacency, null_record: bool, group: int
) -> Resolved:
    """Poisson sampling whose batches are cut at random.

    Gaussian sums have a pair of their own (decision 0067). For any other event it is revealed how many others were drawn: where
    fewer than `batch`, the pair is that of Poisson sampling; where more, the record takes the place of another with probability
    at most q, which is a group of two. The latter costs at least as much, so fewer records cost less. The same holds for a replacement,
    which is one of two records wherever it matters. Under zero-out both batches are cut alike, and the record is in them with
    probability at most q. For groups all batches that might be cut count as disclosed.
    """
    from tacit.accounting.theorems import amplification

    rate = float(scheme.rate)
    if scheme.batch >= scheme.size or rate == 0:
        return _poisson(inner, stated, rate, asked, null_record, group)
    if stated is asked is Adjacency.ZERO_OUT and group == 1:
        return _poisson(inner, stated, rate, asked, null_record, group)
    k = group * hops(stated, asked, null_record=null_record)
    base = resolve(inner, stated) if stated is not Adjacency.REPLACE_ONE else None
    priced = base is not None and not (base.renyi or base.allocations or base.leak)
    if base is not None and priced and rate < 1 and (k == 1 or (asked is Adjacency.REPLACE_ONE and group == 1)):
        known = _poisson(inner, stated, rate, asked, null_record, group).steps[0]
        leak = math.exp(amplification.log_binomial_tail(scheme.size, rate, scheme.batch))
        return Resolved((replace(_cut(inner, stated, scheme, base, asked, known), uncut=(known, leak)),))
    plain = _poisson(inner, stated, rate, asked, null_record, group)
    if k > 1 and rate < 1 and base is not None and _gaussian_mu(base) is None and asked is not Adjacency.REPLACE_ONE:
        single = resolve(ev.Sampled(Poisson(rate), inner), stated).steps[0]
        return _grouped(single, k, math.exp(amplification.log_binomial_tail(scheme.size, rate, scheme.batch)))
    above = scheme.batch if k == 1 else max(scheme.batch - k, -1)
    return replace(plain, leak=plain.leak + math.exp(amplification.log_binomial_tail(scheme.size, rate, above)))


def _cut(inner: ev.Event, stated: Adjacency, scheme: TruncatedPoisson, base: Resolved, asked: Adjacency, known: Step) -> Step:
    """One record added or removed, or replaced, where batches are cut.

    From below, unless a better mechanism is known: a data set of this record alone is never cut, so it costs what plain
    Poisson sampling does.
    """
    from tacit.accounting.pairs import sampled, truncated

    alone_in_data = known.floor or (known.remove, known.add)

    rate, size, batch = float(scheme.rate), scheme.size, scheme.batch
    mu, law = _gaussian_mu(base), truncated.cuts(rate, size, batch)
    usual = law.before < law.full  # more batches are cut than not: as if all were
    chance = 1.0 if usual else min(1.0, law.cut * (1 + 1e-12))
    if asked is Adjacency.REPLACE_ONE:
        whole = resolve(inner, Adjacency.REPLACE_ONE)
        if mu is not None:
            parts: list[Pair] = [mixture.poisson_gaussian_replaced(rate, 1 / mu), sampled.FixedSizeGaussian(rate, 2 * mu)]
        else:
            swapped = _one_step(whole, inner).remove
            parts = [sampled.Mirrored(sampled.PoissonPair(swapped, rate))] * 2
        pair: Pair = sampled.Revealed(parts, [1 - chance, chance])
        return Step(pair, pair.reverse(), 1, alone_in_data)
    if mu is not None and not usual:
        pair = truncated.CutGaussian(rate, 1 / mu, size=size, batch=batch)
        return Step(pair, pair.reverse(), 1, _both_ways(truncated.AttainedCuts(rate, 1 / mu, size=size, batch=batch)))
    alone, swap = _one_step(base, inner), _one_step(resolve(inner, stated, group=2), inner)
    both = [sampled.poisson(step.remove, step.add, rate) for step in (alone, swap)]
    mixed = [sampled.Revealed([both[0][i], both[1][i]], [1 - chance, chance]) for i in (0, 1)]
    return Step(mixed[0], mixed[1], 1, alone_in_data)


def _without_replacement(inner: ev.Event, rate: float, asked: Adjacency, null_record: bool, group: int) -> Resolved:
    if asked is Adjacency.ADD_REMOVE:
        raise AdjacencyError(code="fixed-size-is-public")
    if rate == 1:
        return resolve(inner, Adjacency.REPLACE_ONE, group=group)
    from tacit.accounting.pairs import sampled
    from tacit.accounting.pairs.sampled import FixedSizeGaussian
    from tacit.accounting.theorems import subsampled_renyi

    single = resolve(inner, Adjacency.REPLACE_ONE)
    if single.renyi and group == 1 and not single.steps:
        curve = renyi_curve(single)
        return Resolved(renyi=(RenyiStep(lambda a: subsampled_renyi.best(a, rate, curve, "without replacement")),))
    _refuse_black_boxes(single)
    mu = _gaussian_mu(single)
    if mu is not None:
        own = _own_shift(inner, asked, null_record, mu)
        # under zero-out the others may all be null records, and then the sample with the record is only `own` away
        attained = None if own == mu else _both_ways(mixture.MixturePair([(0.0, 1 - rate), (own, rate)]))
        step = Step(gaussian := FixedSizeGaussian(rate, mu), gaussian, 1, attained)
    else:
        base = _one_step(single, inner)
        mirrored = sampled.Mirrored(sampled.PoissonPair(base.remove, rate))
        tight = base.floor is None and asked is Adjacency.REPLACE_ONE
        step = Step(mirrored, mirrored, 1, None if tight else (Trivial(), Trivial()))
    return Resolved((step,)) if group == 1 else _grouped(step, group)


def _with_replacement(inner: ev.Event, scheme: WithReplacement, asked: Adjacency, null_record: bool, group: int) -> Resolved:
    from tacit.accounting.pairs import sampled
    from tacit.accounting.pairs.sampled import AttainedDraws, DrawnGaussian, LumpedDraws, draw_counts

    single = resolve(inner, Adjacency.REPLACE_ONE)
    _refuse_black_boxes(single)
    counts, given_up = draw_counts(scheme.size, scheme.sample)
    mu = _gaussian_mu(single)
    if mu is not None:
        own = _own_shift(inner, asked, null_record, mu)
        # some mechanism attains the pair at every alpha, unless the other record is the null record and less far away
        attained = _both_ways(LumpedDraws(mu, counts) if own == mu else AttainedDraws(own, counts))
        step = Step(gaussian := DrawnGaussian(mu, counts, given_up), gaussian, 1, attained)
    else:
        rate = min(1.0, math.fsum(w for _, w in counts) + given_up)
        pairs = [_one_step(resolve(inner, Adjacency.REPLACE_ONE, group=k), inner).remove for k, _ in counts]
        revealed = sampled.Revealed([*pairs, Disclosure()], [*(w / rate for _, w in counts), given_up / rate])
        mirrored = sampled.Mirrored(sampled.PoissonPair(revealed, rate) if rate < 1 else revealed)
        step = Step(mirrored, mirrored, 1, (Trivial(), Trivial()))
    return Resolved((step,)) if group == 1 else _grouped(step, group)


def _both_ways(pair: Pair) -> tuple[Pair, Pair]:
    return pair, pair.reverse()


def _own_shift(inner: ev.Event, asked: Adjacency, null_record: bool, replaced: float) -> float:
    """How far apart Gaussian sums over the same draws can be: under zero-out, where the other record is the null record, maybe less."""
    if asked is not Adjacency.ZERO_OUT:
        return replaced
    return _gaussian_mu(resolve(inner, asked, null_record=null_record)) or replaced


def _refuse_black_boxes(base: Resolved) -> None:
    if base.renyi or base.allocations or base.leak:
        raise UnsupportedError("fixed-size sampling of this Rényi guarantee has no proof; state the mechanism itself, or use Poisson")


def _allocated(inner: ev.Event, scheme: RandomAllocation, asked: Adjacency, null_record: bool, group: int) -> Resolved:
    stated = inner.stated
    if asked is Adjacency.REPLACE_ONE or stated is Adjacency.REPLACE_ONE:
        raise AdjacencyError(code="allocation-not-replaced")
    if group * hops(stated, asked, null_record=null_record) != 1 if stated else True:
        raise UnsupportedError("random allocation is proved for single records; groups have no tight pair yet")
    mu = _gaussian_mu(resolve(inner, stated)) if stated else None
    if mu is None:
        raise UnsupportedError("random allocation is proved here for Gaussian sums; sample other mechanisms with Poisson")
    if scheme.steps > 10**8:
        raise UnsupportedError("random allocation over more than 1e8 steps is beyond what floating point can hold; use Poisson sampling")
    if scheme.selected == scheme.steps:
        return _step(mixture.gaussian(1 / mu)).times(scheme.steps)
    return Resolved(allocations=(AllocationStep(1 / mu, scheme.steps, scheme.selected),))


def _selected(event: ev.Selection, asked: Adjacency, null_record: bool, group: int) -> Resolved:
    base = resolve(event.event, asked, null_record=null_record, group=group)
    if base.allocations or base.leak:
        raise UnsupportedError("selection over allocated or truncated runs has no proof; use Poisson sampling inside the runs")
    pure = math.inf
    if not base.renyi and all(s.remove.infinite == s.add.infinite == 0 for s in base.steps):
        pure = max(sum(s.count * max(p.support()[1], 0.0) for s, p in zip(base.steps, d, strict=True)) for d in _directions(base))
    from tacit.accounting.theorems import selection

    curve = selection.curve(renyi_curve(base), float(event.mean), float(event.shape), pure_epsilon=pure)
    return Resolved(renyi=(RenyiStep(curve),))


def _directions(parts: Resolved) -> tuple[list[Pair], list[Pair]]:
    return [s.remove for s in parts.steps], [s.add for s in parts.steps]


def _gaussian_mu(parts: Resolved) -> float | None:
    """The joint shift of a composition of plain Gaussians, None for anything else."""
    if parts.renyi or parts.allocations or parts.leak or not parts.steps:
        return None
    total = 0.0
    for step in parts.steps:
        pair = step.remove
        if not (isinstance(pair, mixture.MixturePair) and len(pair.up) == len(pair.down) == 1):
            return None
        total += step.count * (pair.up[0][0] + pair.down[0][0]) ** 2
    return math.sqrt(total)


def _one_step(parts: Resolved, inner: ev.Event) -> Step:
    """The single pair of an event that is to be sampled as one."""
    if len(parts.steps) == 1 and parts.steps[0].count == 1 and not parts.renyi and not parts.allocations:
        return parts.steps[0]
    if parts.renyi or parts.allocations or not parts.steps:
        raise UnsupportedError(
            f"{type(inner).__name__} has no dominating pair that sampling could act on; sample its parts, or give a PrivacyProfile"
        )
    from tacit.accounting.engines.grid import composed_pair

    up = [composed_pair([(s.remove, s.count) for s in parts.steps]), composed_pair([(s.add, s.count) for s in parts.steps])]
    return Step(up[0], up[1], 1, (Trivial(), Trivial()))


def _profile(step: Step) -> Profile:
    """The larger of the two directions' single-step profiles."""

    def delta(epsilon: ArrayLike) -> Array:
        at = np.atleast_1d(np.asarray(epsilon, dtype=np.float64))
        found = np.maximum(pairs.profile(step.remove, at.ravel()), pairs.profile(step.add, at.ravel()))
        return found.reshape(np.shape(epsilon))

    return delta


def _grouped(step: Step, group: int, leak: float = 0.0) -> Resolved:
    """A black-box group of a sampled step, through its profile; with probability `leak` the step tells all."""
    from tacit.accounting.theorems import amplification

    alone = _profile(step)
    grown = amplification.group(lambda eps: leak + (1 - leak) * alone(eps), group)
    epsilons = group * np.concatenate([np.linspace(0, 1, 401), np.geomspace(1.01, 60, 400)])
    pair = finite.from_profile(list(zip(epsilons.tolist(), np.minimum(grown(epsilons), 1.0).tolist(), strict=True)))
    return Resolved((Step(pair, pair, 1, (Trivial(), Trivial())),))
