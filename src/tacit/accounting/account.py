"""The accountant: what an event costs, from both sides.

>>> from tacit.accounting import Gaussian, Poisson, Repeated, Sampled
>>> training = Repeated(Sampled(Poisson(0.01), Gaussian(noise_multiplier=1.0)), 1000)
>>> found = account(training, Adjacency.ADD_REMOVE).epsilon(1e-5)
>>> found.lower <= 1.8282366665165769 <= found.upper
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal, overload

import numpy as np

from tacit.accounting.bound import Bound, Estimate
from tacit.accounting.closed_form import exact_pure, exact_rho
from tacit.accounting.engines import compose
from tacit.accounting.events.tree import Adjacency, Event
from tacit.accounting.pairs.mixture import MixturePair
from tacit.accounting.pairs.pair import Pair, Trivial
from tacit.accounting.resolve import Resolved, renyi_curve, resolve
from tacit.accounting.theorems import methods
from tacit.accounting.tradeoff import GdpReport, best_attack, fitted
from tacit.errors import AccountingError, ParameterError, UnsupportedError
from tacit.parameters import number, probability

_RARE = 1e-9  # batches that are cut this seldom, against delta, may as well be disclosed
_CLOSE = 1e-6  # a bracket this narrow, relatively, is not made narrower by another bound
_ROUGH = 1e-4  # how narrow, relatively, the deltas are to be from which mu is read


def account(event: Event, adjacency: Adjacency | None = None, *, null_record: bool = False) -> Cost:
    """Price an event under a neighbouring relation; without one, under the relation the event is stated for.

    `null_record=True` declares that the computation treats an absent record exactly as a fixed public record; only then does
    a guarantee for replace-one say anything about add/remove.
    """
    if not isinstance(event, Event):
        raise ParameterError(f"event must be an event such as Gaussian(noise_multiplier=1.1), not {type(event).__name__}")
    relation = adjacency or event.stated or Adjacency.ADD_REMOVE
    if not isinstance(relation, Adjacency):
        raise ParameterError(f"adjacency must be an Adjacency such as Adjacency.ADD_REMOVE, not {adjacency!r}")
    return Cost(event, relation, resolve(event, relation, null_record=null_record), null_record)


@dataclass(frozen=True)
class Cost:
    """An event with its relation, ready to be asked. Every answer is a `Bound`; the upper end may be published."""

    event: Event
    adjacency: Adjacency
    parts: Resolved = field(repr=False)
    null_record: bool = False

    @cached_property
    def _known(self) -> dict[tuple[float, float], Bound]:
        """The deltas worked out so far, by epsilon and tolerance."""
        return {}

    # --- the privacy profile -------------------------------------------------------------------------------------------------

    @overload
    def epsilon(self, delta: float, *, method: None = None, certify: bool = False) -> Bound: ...

    @overload
    def epsilon(self, delta: float, *, method: Literal["central-limit"], certify: bool = False) -> Estimate: ...

    @overload
    def epsilon(self, delta: float, *, method: methods.Theorem, certify: bool = False) -> Bound: ...

    @overload
    def epsilon(self, delta: float, *, method: str | None, certify: bool = False) -> Bound | Estimate: ...

    @overload
    def epsilon(self, delta: Sequence[float], *, method: None = None, certify: bool = False) -> list[Bound]: ...

    def epsilon(
        self, delta: float | Sequence[float], *, method: str | None = None, certify: bool = False
    ) -> Bound | Estimate | list[Bound]:
        """The smallest epsilon >= 0 for which the event is (epsilon, delta)-DP; a list of them for a list of deltas.

        `method` picks one theorem (see `tacit.accounting.theorems.methods.METHODS`); the default is the tightest valid one. The central
        limit is
        no theorem about epsilon: it gives an `Estimate`, which has no upper end. `certify=True` gives a bracket proved in ball arithmetic
        (needs the extra `proof`).

        >>> from tacit.accounting import Gaussian
        >>> [round(found.upper, 6) for found in account(Gaussian(1)).epsilon([1e-5, 1e-6])]
        [4.377178, 4.886554]
        """
        if isinstance(delta, (list, tuple, np.ndarray)):
            if method is not None:
                raise ParameterError("a list of deltas goes without method; compare(event, deltas) has a row for every theorem")
            return [self.epsilon(float(one), certify=certify) for one in delta]
        target = float(probability("delta", delta))
        if method is not None and method != "pld":
            return methods.epsilon(method, self.event, self.adjacency, self.parts, target)
        if target == 0 and self._needs_delta():
            raise ParameterError(code="delta-needed", parameter="delta")
        if certify:
            return self._certified("epsilon", target)
        if target == 0 and (exact := exact_pure(self.event, self.adjacency, null_record=self.null_record)) is not None:
            return _outwards(exact, "sum of pure guarantees")
        if target == 0 and self.parts.renyi:
            top = float(renyi_curve(self.parts)(np.array([math.inf]))[0])
            return Bound(0.0, top * (1 + 1e-12), "Rényi divergence of infinite order")
        with _in_range():
            return self._at(target)

    @cached_property
    def _uncut(self) -> Cost | None:
        """The same event with all cut batches disclosed: the better bound where cuts are rare against delta."""
        parts = self.parts.uncut()
        return None if parts is None else Cost(self.event, self.adjacency, parts, self.null_record)

    def _at(self, delta: float) -> Bound:
        if self._uncut is None:
            return self._with_leak(delta) if self.parts.leak else self._epsilon(delta)
        leak = self._uncut.parts.leak
        rare = self._uncut._with_leak(delta) if 0 < leak < delta else None
        if rare is not None and (leak <= _RARE * delta or rare.width <= _CLOSE * rare.upper):
            return rare
        own = self._epsilon(delta)
        if rare is None:
            return own
        return Bound(max(own.lower, min(rare.lower, own.upper)), own.upper, own.method) if own.upper <= rare.upper else rare

    def bound(self, delta: float, method: str | None = None) -> Bound:
        """Epsilon by one theorem, for use where a guarantee is needed: an estimate is refused.

        >>> from tacit.accounting import PureDP, Repeated
        >>> account(Repeated(PureDP(0.1), 10)).bound(1e-6, "basic").upper
        1.0
        """
        found = self.epsilon(delta, method=method)
        if isinstance(found, Estimate):
            raise ParameterError(f"method must be one that gives a bound; {method} is an estimate")
        return found

    def epsilon_one_way(self, delta: float) -> float:
        """The upper end for the direction in which a record is removed: a cheap guide for searches, not a guarantee on its own."""
        if self.parts.renyi and not (self.parts.allocations or self.parts.leak or delta == 0):
            from tacit.accounting.theorems.conversions import epsilon_from_curve

            return epsilon_from_curve(renyi_curve(self.parts), delta)  # the upper end alone; the lower one may take much longer
        if self.parts.renyi or self.parts.allocations or self.parts.leak or delta == 0 or self._concentrates():
            return self.epsilon(delta).upper
        with _in_range():
            return compose.epsilon(self._directions()[0], delta).upper

    def delta(self, epsilon: float, *, certify: bool = False) -> Bound:
        """The smallest delta for which the event is (epsilon, delta)-DP, for any real epsilon.

        >>> from tacit.accounting import Laplace
        >>> round(account(Laplace(noise_multiplier=1)).delta(0.5).upper, 10)
        0.2211992169
        """
        value = float(number("epsilon", epsilon))
        if certify:
            return self._certified("delta", value)
        return self._delta_within(value, self._tolerance())

    def _delta_within(self, epsilon: float, tolerance: float) -> Bound:
        if (epsilon, tolerance) not in self._known:
            with _in_range():
                rare = None if self._uncut is None else self._uncut._delta(epsilon, tolerance)
                if rare is not None and self._uncut is not None and self._uncut.parts.leak <= _RARE * rare.lower:
                    found = rare
                else:
                    own = self._delta(epsilon, tolerance)
                    found = own if rare is None or own.upper <= rare.upper else rare
                self._known[epsilon, tolerance] = found
        return self._known[epsilon, tolerance]

    def profile(self, epsilons: Iterable[float]) -> list[Bound]:
        """delta at each epsilon."""
        return [self.delta(e) for e in epsilons]

    def _directions(self, lower: bool = False) -> tuple[list[tuple[Pair, int]], list[tuple[Pair, int]]]:
        def pick(i: int) -> list[tuple[Pair, int]]:
            known = [((s.lower() if lower else (s.remove, s.add))[i], s.count) for s in self.parts.steps]
            return known + ([(s.floor[i], s.count) for s in self.parts.renyi] if lower else [])

        return pick(0), pick(1)

    def _both(
        self,
        ask: Callable[..., Bound],
        *,
        lower: bool = False,
        joint: bool = False,
        settled: Callable[[list[tuple[Pair, int]], float], bool] | None = None,
    ) -> Bound:
        """The worse of the two directions; the second is not computed where it surely lies below the first's lower end (`settled`).

        `joint` takes the lower ends from the pairs that are attained, in the same computation.
        """
        remove, add = self._directions(lower)
        low = self._directions(lower=True) if joint else None
        first = ask(remove) if low is None else ask(remove, low[0])
        if _symmetric(remove) or (settled is not None and settled(add, first.lower)):
            return first
        return first.worst(ask(add) if low is None else ask(add, low[1]))

    def _solve(
        self,
        ask: Callable[..., Bound],
        settled: Callable[[list[tuple[Pair, int]], float], bool],
        converted: Callable[[], float],
    ) -> Bound:
        """A bracket from pairs, or from Rényi curves above and attained pairs below where only curves are known."""
        if not self.parts.renyi and all(s.floor is None for s in self.parts.steps):
            return self._both(ask, settled=settled)
        if not self.parts.renyi and not self._concentrates() and all(s.floor is None or s.floor[0].close for s in self.parts.steps):
            return self._both(ask, joint=True, settled=settled)
        if self.parts.renyi:
            upper, method = converted(), "Rényi divergence, improved conversion"
        else:
            found = self._both(ask, settled=settled)
            upper, method = found.upper, found.method
            if self._concentrates() and (other := converted()) < upper:
                upper, method = other, "Rényi divergence, improved conversion"
        attained = any(not isinstance(p, Trivial) for d in self._directions(lower=True) for p, _ in d)
        lower = self._both(ask, lower=True, settled=settled).lower if attained and upper >= compose.NEGLIGIBLE else 0.0
        return Bound(min(lower, upper), upper, method)

    def _concentrates(self) -> bool:
        """Whether some step is only dominated by its pair, and its divergences are known better: then either bound may be the smaller."""
        return any(s.concentrated is not None and s.floor is not None for s in self.parts.steps)

    def _epsilon(self, delta: float) -> Bound:
        if self.parts.allocations:
            return self._allocated(delta=delta)

        def converted() -> float:
            from tacit.accounting.theorems.conversions import epsilon_from_curve  # pairs alone never get here

            return epsilon_from_curve(renyi_curve(self.parts), delta) if delta else math.inf

        return self._solve(
            lambda d, low=None: compose.epsilon(d, delta, tolerance=self._tolerance(), below=low),
            lambda d, floor: compose.settled(d, delta, floor),
            converted,
        )

    def _delta(self, epsilon: float, tolerance: float) -> Bound:
        if self.parts.allocations:
            found = self._allocated(epsilon=epsilon)
        elif epsilon < 0 and self.parts.renyi:
            # HS_a(P||Q) = 1 - a + a HS_1/a(Q||P), and the curves bound both directions
            other, scale = self._delta(-epsilon, tolerance), math.exp(epsilon)
            return Bound(
                -math.expm1(epsilon) + scale * other.lower - 1e-15,
                min(1.0, -math.expm1(epsilon) + scale * other.upper + 1e-15),
                other.method,
            )
        else:

            def converted() -> float:
                from tacit.accounting.theorems.conversions import delta_from_curve

                if epsilon == math.inf:  # a finite divergence of any order leaves nothing beyond every epsilon
                    return 0.0
                return delta_from_curve(renyi_curve(self.parts), epsilon) if epsilon >= 0 else 1.0

            if any(s.floor is not None for s in self.parts.steps):  # what is attained may tell all but for certain already
                rest = min(compose.unsure(d, epsilon) for d in self._directions(lower=True))
                if rest < 1e-9:
                    return Bound(min(1 - rest, math.nextafter(1.0, 0.0)), 1.0, "Chernoff bound")
            found = self._solve(
                lambda d, low=None: compose.delta(d, epsilon, tolerance=tolerance, below=low),
                lambda d, floor: compose.delta_cap(d, epsilon) <= floor,
                converted,
            )
        if not self.parts.leak:
            return found
        return Bound(found.lower, min(1.0, (self.parts.leak + found.upper) * (1 + 1e-12)), found.method + ", cut batches disclosed")

    def _with_leak(self, delta: float) -> Bound:
        """leak + (1 - leak) delta(eps) <= delta from above; data sets too small for any batch to be cut cost the plain epsilon."""
        leak = self.parts.leak * (1 + 1e-12)
        left = (delta - leak) / (1 - leak) * (1 - 1e-12) if leak < delta else 0.0
        above = self._epsilon(left) if left > 0 else Bound(0.0, math.inf, "cut batches leave no delta")
        return Bound(min(self._epsilon(delta).lower, above.upper), above.upper, above.method + ", cut batches disclosed")

    def _allocated(self, *, delta: float | None = None, epsilon: float | None = None) -> Bound:
        from tacit.accounting.engines.allocation import allocation_bracket

        if self.parts.renyi:
            raise UnsupportedError(
                "random allocation cannot yet be composed with events known only by Rényi curves; state a mechanism instead"
            )
        merged: dict[tuple[float, int, int], int] = {}
        for s in self.parts.allocations:
            key = (s.noise_multiplier, s.steps, s.selected)
            merged[key] = merged.get(key, 0) + s.count
        if len(merged) > 1:
            raise UnsupportedError("allocations with different noise or steps cannot yet be composed; use one allocation for all epochs")
        (((sigma, steps, selected), epochs),) = merged.items()
        others = [(s.remove, s.add, s.count) for s in self.parts.steps]
        return allocation_bracket(sigma, steps, selected, epochs, others, delta=delta, epsilon=epsilon)

    def _tolerance(self) -> float:
        """Grids need not be finer than the theorem: pairs that are only upper bounds get coarser ones."""
        if any(s.floor is not None for s in self.parts.steps):
            return 1e-4
        return 1e-5 if self.parts.leak else 1e-7

    def _needs_delta(self) -> bool:
        pairs = [p for d in self._directions() for p, _ in d]
        unbounded = any(p.infinite > 0 or not math.isfinite(p.support()[1]) for p in pairs)
        if self.parts.renyi and not math.isfinite(float(renyi_curve(self.parts)(np.array([math.inf]))[0])):
            return True
        return bool(unbounded or self.parts.allocations or self.parts.leak)

    def _certified(self, what: str, value: float) -> Bound:
        from tacit.accounting.engines import proof

        return proof.certify(self.event, self.parts, what, value)

    # --- Rényi, concentrated and Gaussian views -----------------------------------------------------------------------------

    def rdp(self, order: float) -> Bound:
        """The Rényi divergence of one order > 1, the worse direction.

        >>> from tacit.accounting import Gaussian
        >>> account(Gaussian(1)).rdp(2).upper
        1.0
        """
        alpha = float(number("order", order))
        if not alpha > 1:
            raise ParameterError(f"order must be greater than 1, not {alpha}")
        if self.parts.allocations or self.parts.leak:
            raise UnsupportedError("this event has no certified Rényi curve; ask for epsilon(delta)")
        upper = float(renyi_curve(self.parts)(np.array([alpha]))[0])
        exact = not self.parts.renyi and all(s.floor is None for s in self.parts.steps)
        lower = (
            upper
            if exact
            else max((sum(n * max(0.0, p.kappa(alpha - 1)) for p, n in d) / (alpha - 1) for d in self._directions(lower=True)), default=0.0)
        )
        if upper == math.inf:
            return Bound(lower if not exact else math.inf, math.inf, "Rényi divergence")
        binned = any(not p.exact_cumulant for d in self._directions() for p, _ in d)
        lower = lower * (1 - (1e-3 if binned else 1e-12))
        return Bound(min(lower, upper), upper, "Rényi divergence")

    def rho(self) -> Bound:
        """The smallest rho for which the event is rho-zCDP: the supremum over orders of divergence over order.

        >>> from tacit.accounting import Gaussian
        >>> account(Gaussian(2)).rho().upper
        0.125
        """
        exact_value = exact_rho(self.event, self.adjacency, null_record=self.null_record)
        if exact_value is not None:
            return _outwards(exact_value, "closed form")
        if self.parts.allocations or self.parts.leak:
            raise UnsupportedError("this event has no certified Rényi curve; ask for epsilon(delta)")
        orders = 1 + np.geomspace(1e-4, 2e3, 200)
        values = renyi_curve(self.parts)(orders)
        # D is non-decreasing in the order, so between two orders D/a is at most the later D over the earlier a
        ratio = np.concatenate([[values[0]], values[1:] / orders[:-1]])
        upper, lower = float(np.max(ratio)), float(np.max(values / orders))
        upper = max(upper, self._renyi_beyond(float(orders[-1])))
        with suppress(UnsupportedError):
            upper = min(upper, self.parts.rho())
        exact = not self.parts.renyi and all(s.floor is None for s in self.parts.steps)
        lower = max(lower, self._renyi_limit()) if exact else 0.0
        return Bound(min(lower * (1 - 1e-9), upper), upper, "supremum over Rényi orders")

    def _renyi_limit(self) -> float:
        """The limit of D_a / a as a grows: half the squared largest shift of each Gaussian part."""
        best = 0.0
        for direction in self._directions():
            total = sum(
                n * 0.5 * (max(m for m, _ in p.up)) ** 2 for p, n in direction if isinstance(p, MixturePair) and p.support()[1] == math.inf
            )
            best = max(best, total)
        return best

    def _renyi_beyond(self, order: float) -> float:
        """An upper bound on D_a / a for all a > order."""
        worst = 0.0
        for direction in self._directions():
            total = 0.0
            for (pair, count), step in zip(direction, self.parts.steps, strict=True):
                if step.concentrated is not None:
                    total += count * step.concentrated.rho
                elif isinstance(pair, MixturePair) and pair.support()[1] == math.inf:
                    total += count * pair.rho()
                else:
                    total += count * max(pair.support()[1], 0.0) / order
            worst = max(worst, total)
        for known in self.parts.renyi:
            worst += known.count * float(np.max(known.curve(order * np.geomspace(1, 1e6, 60)) / (order * np.geomspace(1, 1e6, 60))))
        return worst

    def gdp(self, slack: float = 1e-10) -> GdpReport:
        """The smallest mu whose Gaussian curve, raised by `slack`, lies above the event's curve, and the distance between them.

        A small slack is needed because the far tail of a sampled event looks like the unsampled one. Gomez et al. 2025 report mu with
        a regret as well.
        """
        floor = float(probability("slack", slack))
        if (
            all(compose.is_gaussian(s.remove) for s in self.parts.steps)
            and self.parts.steps
            and not self.parts.renyi
            and not self.parts.allocations
        ):
            mu = math.sqrt(math.fsum(s.count * compose.shift(s.remove) ** 2 for s in self.parts.steps))
            return GdpReport(Bound(mu, mu, "closed form"), 0.0, 0.0)
        if floor <= 0:
            raise ParameterError("slack must be positive for an event that is not Gaussian; 1e-10 is far below any useful delta")
        top = self.epsilon(floor).upper
        if not math.isfinite(top):
            return GdpReport(Bound(0.0, math.inf, "privacy profile"), floor, 1.0)
        return fitted(lambda e: self._delta_within(e, _ROUGH), top, floor)

    # --- what an attacker gains ------------------------------------------------------------------------------------------------

    def tpr(self, fpr: float) -> Bound:
        """The true-positive rate of the best membership attack at a false-positive rate: the trade-off curve, upside down.

        >>> from tacit.accounting import Gaussian
        >>> round(account(Gaussian(1)).tpr(0.05).upper, 6)
        0.259511
        """
        rate = float(probability("fpr", fpr))
        if rate in (0.0, 1.0):
            leak = self.delta(math.inf)
            return Bound(1.0, 1.0, "trivial") if rate else Bound(leak.lower, leak.upper, leak.method)
        level = self.delta(math.inf).upper * (1 + 1e-9) + 1e-9 * min(rate, 1 - rate)
        reach = min(self.epsilon(min(1.0, level)).upper, 700.0)
        if self.parts.renyi or self.parts.allocations or self.parts.leak or any(s.floor for s in self.parts.steps):
            found = best_attack(self.delta, rate, reach)
            return Bound(min(rate, found.upper), found.upper, found.method)
        return self._both(lambda d: best_attack(lambda e: compose.delta(d, e), rate, reach))

    def tradeoff(self, fpr: Iterable[float]) -> list[Bound]:
        """The smallest false-negative rate at each false-positive rate (Dong, Roth, Su 2022)."""
        rows = [self.tpr(a) for a in fpr]
        return [Bound(1 - r.upper, 1 - r.lower, r.method) for r in rows]

    def advantage(self) -> Bound:
        """The largest gap between true- and false-positive rate of any attack: the total variation distance, delta(0)."""
        return self.delta(0.0)

    def posterior(self, prior: float = 0.5, delta: float = 0) -> Bound:
        """What an attacker can come to believe at most about one person, who believed it with `prior` before.

        It is the probability that the attacker gives to the claim ("she is in the data", or "she is not") after
        seeing the release. With `delta`, the bound holds except with that probability over the release; without,
        always, which needs a finite epsilon at delta = 0.

        >>> from tacit.accounting import Gaussian, PureDP
        >>> round(account(PureDP(1)).posterior(0.01).upper, 4)
        0.0267
        >>> found = account(Gaussian(1)).posterior(0.01, delta=1e-5)
        >>> round(found.lower, 3), round(found.upper, 3)
        (0.446, 0.591)

        Guarantee
            The odds of the claim are multiplied by exp(L), where L is the privacy loss of the release. For every
            t: delta(t) <= P(L > t), because (1 - exp(t - L))+ is at most 1 where L > t; and for s < t,
            P(L > t) <= delta(s) / (1 - exp(s - t)), by Markov's inequality for (1 - exp(s - L))+. The lower end
            takes the loss epsilon(delta), the upper end the least t for which the second bound is at most delta
            (Kasiviswanathan and Smith 2014, Lemma 3.3, with the profile in place of one of its points).
        """
        p, tail = float(probability("prior", prior)), float(probability("delta", delta))
        if p in (0.0, 1.0):
            return Bound(p, p, "trivial")
        least = self.epsilon(tail)
        most = least.upper if tail == 0 else self._loss_quantile(tail, least.upper)
        return Bound(_raised_odds(p, least.lower) - 1e-15, min(1.0, _raised_odds(p, most) + 1e-15), least.method)

    def _loss_quantile(self, tail: float, epsilon: float) -> float:
        """A t which the privacy loss exceeds with probability at most `tail`; `epsilon` is epsilon(tail).

        Each candidate is a theorem by itself, so the best of a few is taken and no search has to converge.
        """
        if tail >= 1 or math.isinf(epsilon):
            return epsilon if tail < 1 else 0.0
        found = math.inf
        with suppress(AccountingError):  # a loss that is never larger, where there is one
            found = self.epsilon(0).upper
        for share in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7):
            # delta(s) <= share * tail, and 1 - exp(s - t) = share
            found = min(found, self.epsilon(share * tail).upper - math.log1p(-share))
        return found

    def accuracy(self, prior: float = 0.5) -> Bound:
        """How often the best attacker who starts from `prior` is right about one person's membership.

        Who always bets on the likelier claim is right with probability max(prior, 1 - prior) already.

        >>> from tacit.accounting import Gaussian
        >>> round(account(Gaussian(1)).accuracy(0.5).upper, 10)
        0.6914624613
        """
        p = float(probability("prior", prior))
        if p in (0.0, 1.0):
            return Bound(1.0, 1.0, "trivial")
        found = self.delta(math.log1p(-p) - math.log(p))
        return Bound(max(p, 1 - p, 1 - p + p * found.lower) - 1e-15, min(1.0, 1 - p + p * found.upper + 1e-15), found.method)


def _raised_odds(prior: float, loss: float) -> float:
    """A probability whose odds were multiplied by exp(loss).

    >>> _raised_odds(0.5, 0.0), _raised_odds(0.5, math.inf)
    (0.5, 1.0)
    """
    return 1.0 / (1.0 + math.exp(-min(loss, 700.0)) * (1 - prior) / prior) if loss < math.inf else 1.0


@contextmanager
def _in_range() -> Iterator[None]:
    """Numbers that floating point cannot hold end in a refusal, never in a traceback from deep inside."""
    try:
        yield
    except AccountingError:
        raise
    except (OverflowError, ZeroDivisionError, ValueError, MemoryError) as error:
        raise UnsupportedError(
            "the parameters lead beyond what floating point can hold; rescale them, or ask for a looser method such as rdp-improved"
        ) from error


def _outwards(value: Fraction, method: str) -> Bound:
    """A fraction between the two floating-point numbers around it."""
    try:
        near = float(value)
    except OverflowError:
        return Bound(1e308, math.inf, method)
    return Bound(near if near <= value else math.nextafter(near, 0.0), near if near >= value else math.nextafter(near, math.inf), method)


def _symmetric(direction: list[tuple[Pair, int]]) -> bool:
    """Whether the reversed composition is the same, so that one direction answers for both."""
    return all(pair.symmetric for pair, _ in direction)

