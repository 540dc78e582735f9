"""Survival curves for one price: Kaplan-Meier, Nelson-Aalen, medians, restricted means and log-rank tests.

One noisy histogram of (time bin, event or censored) is measured, by the sums that a plan of least error for running
totals chooses, and everything else is read from it. Bins are public; the last one is "beyond", for patients who are
followed longer than the last edge. The number of patients is private: the numbers at risk are estimated. Names
follow lifelines.

>>> import numpy as np
>>> rng = np.random.default_rng(1)
>>> lived, followed = rng.exponential(60, 5000), rng.uniform(0, 120, 5000)
>>> curve = KaplanMeier(epsilon=1, bins=range(0, 121, 12)).fit(np.minimum(lived, followed), lived <= followed)
>>> curve.timeline.tolist()[:3], bool(abs(curve.survival[5] - np.exp(-1)) < 0.1), curve.event
([0.0, 12.0, 24.0], True, Laplace(noise_multiplier=Fraction(1, 1)))
>>> bool(36 <= curve.median_survival_time_ <= 60)
True
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency, Event, Guarantee
from tacit.applications.health.simulation import SEED, noise_of
from tacit.calculus import codes_of, column_values, number_of
from tacit.errors import ParameterError
from tacit.exact import Typed, exact
from tacit.ledger import paying
from tacit.parameters import count
from tacit.workloads import Cells, Identity, Measured, Prefix, Product, measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tacit.ledger import Account
    from tacit.pictures import Path

Floats = NDArray[np.float64]
#: More bins than this are surely a mistake.
MOST_BINS = 2_000
#: Simulated draws of the noise behind an interval, and behind a p-value: few of them would shift the level of all tests alike.
DRAWS, TESTS = 200, 2_000
OUTCOMES = ("event", "censored")


# --- what is measured --------------------------------------------------------------------------------------


def edges_of(bins: Any) -> tuple[float, ...]:
    """The edges of public time bins: rising numbers from 0, or {"upto": 120, "count": 60} for bins of one width.

    >>> edges_of({"upto": 120, "count": 4})
    (0.0, 30.0, 60.0, 90.0, 120.0)
    """
    if isinstance(bins, Mapping):
        if set(bins) != {"upto", "count"}:
            raise ParameterError("bins must be edges, such as [0, 30, 60], or {'upto': 120, 'count': 60}")
        upto, number = exact("upto", bins["upto"]), count("count", bins["count"])
        if not upto > 0 or number > MOST_BINS:
            raise ParameterError(f"bins must reach up to more than 0 and be at most {MOST_BINS}")
        return tuple(float(upto * i / number) for i in range(number + 1))
    if isinstance(bins, (str, bytes)) or not hasattr(bins, "__iter__"):
        raise ParameterError("bins must be edges that are stated, such as range(0, 121, 12): they are public, not found in the data")
    found = tuple(float(exact("edge", edge)) for edge in bins)
    if not 2 <= len(found) <= MOST_BINS + 1:
        raise ParameterError(f"bins need 2 to {MOST_BINS + 1} edges")
    if found[0] != 0 or any(low >= high for low, high in pairwise(found)):
        raise ParameterError("bins are unsorted: edges must rise from 0, such as [0, 30, 60]")
    return found


@dataclass(frozen=True, eq=False)
class SurvivalPlan:
    """What is measured for curves on public bins, for one group or several. No data was touched.

    Guarantee
        Statement: `draw` costs `event`, one Laplace or Gaussian event; curves, hazards, medians, restricted means,
        intervals and log-rank tests are read from it for nothing.
        Conditions: each patient is in one cell (group, time bin, event or censored) or in none. Add-remove moves one
        cell by 1, replace-one two. Bins and groups are public.
        Proved in: the cells are disjoint, so one patient moves the histogram by 1 in l1, and the sums by the norm of
        the strategy (see `tacit.workloads`); the rest is post-processing.
        Correction: Definition 9.1 of the source must add "and equal elsewhere". It takes the number of patients as
        public under a relation that adds one; here it is estimated. It says that epsilon is "allocated for" isotonic
        regression, which is post-processing and free. Its binary tree has more than twice the error.
    """

    measured: Measured
    edges: tuple[float, ...]
    time: str = "time"
    outcome: str = "outcome"
    by: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ((),)

    @property
    def event(self) -> Event:
        """What is done to the data."""
        return self.measured.event

    @property
    def bins(self) -> int:
        """How many bins, without the one beyond."""
        return len(self.edges) - 1

    @property
    def expected_error(self) -> float:
        """The root of the mean squared error of the running counts, in patients."""
        return self.measured.expected_error

    def draw(self, tables: Mapping[tuple[str, ...], NDArray[Any]]) -> list[NDArray[Any]]:
        """The noisy sums of exact counts: what may be published. The caller has paid."""
        return self.measured.draw(tables)

    def tables_of(self, histogram: NDArray[np.int64]) -> dict[tuple[str, ...], NDArray[Any]]:
        """A histogram [groups..., time, outcome] as the tables that are measured."""
        names = (*self.by, self.time, self.outcome)
        found = {}
        for table in self.measured.selection.tables:
            others = tuple(i for i, name in enumerate(names) if name not in table)
            kept = [name for name in names if name in table]
            found[table] = np.moveaxis(histogram.sum(axis=others), range(len(kept)), [table.index(name) for name in kept])
        return found

    def running(self, released: Sequence[NDArray[Any]]) -> Floats:
        """Least-squares running counts [group, time, outcome] of what was released."""
        return self._arranged(self.measured.selection.answers(self.measured.workload, released, self.measured.law)[0].values)

    def _arranged(self, values: Floats) -> Floats:
        term = self.measured.workload.terms[0].columns
        order = [term.index(name) for name in (*self.by, self.time, self.outcome)]
        return np.transpose(values, order).reshape(len(self.groups), self.bins + 1, 2)

    def noise(self, draws: int, rng: np.random.Generator) -> Floats:
        """Simulated noise of the running counts [draw, group, time, outcome], by the law that was drawn from."""
        return np.array([self._arranged(one) for one in noise_of(self.measured, draws, rng)])

    def curves(self, released: Sequence[NDArray[Any]], confidence: float = 0.95) -> dict[tuple[str, ...], SurvivalCurve]:
        """The curve of every group, with intervals that cover sampling and noise together."""
        running = self.running(released)
        rng = np.random.default_rng(SEED)
        pool = self.noise(DRAWS, rng)
        return {
            group: SurvivalCurve.of(self.edges, running[i], pool[:, i], confidence, rng)
            for i, group in enumerate(self.groups)
        }

    def log_rank(self, released: Sequence[NDArray[Any]]) -> LogRank:
        """Whether the groups' hazards are the same: one p-value, which knows of the noise."""
        return log_rank(self, released)

    def foretold(self, patients: int, runs: int = 20) -> tuple[float, float]:
        """The mean and the largest error of a curve to expect with so many patients, from made-up ones.

        Half of the made-up patients die within the bins, and they are followed for a uniform time.
        """
        rng = np.random.default_rng(SEED)
        each = max(1, count("patients", patients) // len(self.groups))
        pool, mean, largest = self.noise(runs, rng), 0.0, 0.0
        for i in range(runs):
            lived = rng.exponential(self.edges[-1] / math.log(2), each)
            followed = rng.uniform(0, self.edges[-1], each)
            exactly = histogram(np.minimum(lived, followed), lived <= followed, self.edges).cumsum(axis=0)
            true, noisy = survival(fitted(exactly.astype(float))), survival(fitted(exactly + pool[i, 0]))
            mean += float(np.abs(true - noisy).mean()) / runs
            largest += float(np.abs(true - noisy).max()) / runs
        return mean, largest


def plan_survival(
    bins: Any, guarantee: Guarantee, *, groups: Sequence[str] = (), adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    confidence: float = 0.95,
) -> SurvivalPlan:
    """Plan curves of patients who are given as arrays, each in at most one of the groups."""
    edges = edges_of(bins)
    named = [str(one) for one in groups]  # as rows are compared with them: 1 and "1" are one group
    sizes: dict[str, Any] = {"group": named} if groups else {}
    if len(set(named)) != len(named):
        raise ParameterError("groups must be different names; a patient of two groups would count twice")
    sizes |= {"time": len(edges), "outcome": list(OUTCOMES)}
    kinds: dict[str, Any] = {"group": Identity} if groups else {}
    workload = Product(**kinds, time=Prefix, outcome=Identity).on(Cells.of(sizes))
    relation = Adjacency.parse(adjacency, among=(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE))
    plan = measured(workload, guarantee, replaced=relation is Adjacency.REPLACE_ONE, confidence=confidence)
    found = SurvivalPlan(plan, edges)
    if groups:
        return SurvivalPlan(plan, edges, by=("group",), groups=tuple((one,) for one in named))
    return found


# --- what patients bring -----------------------------------------------------------------------------------


#: A column of patients: an array of one type, or values that are read one by one.
Column = NDArray[Any] | list[Any]


def column_of(given: Any) -> Column:
    """A column of patients. Only its container and its length can be refused: each patient's value is read by itself.

    numpy would choose one type for a whole list: one patient's 2.5 would make every 1 of the others a 1.0, and one's text
    or list would raise before anything is paid.
    """
    if isinstance(given, str | bytes) or not hasattr(given, "__len__") or (isinstance(given, np.ndarray) and given.ndim != 1):
        raise ParameterError("each column must have one value for each patient: a list, an array or a column of a data frame")
    typed = getattr(given, "dtype", None)
    if isinstance(typed, np.dtype) and typed.kind in "biufmM" and not isinstance(given, np.ma.MaskedArray):
        return np.asarray(given)
    return column_values(given)


def places_of(values: Column, names: Sequence[str]) -> NDArray[np.int64]:
    """The place of each value among declared names, -1 for another; 1, 1.0 and "1" are the name "1".

    >>> places_of(["a", 1, None, 1.0, "z"], ["a", "1"]).tolist()
    [0, 1, -1, 1, -1]
    """
    return codes_of([_shown(value) for value in column_values(values)], np.array(names))


def _shown(value: object) -> object:
    """What is neither text nor number, such as a date, by its text; None where it has none."""
    if value is None or isinstance(value, str | bytes | int | float | np.generic):
        return value
    try:
        return str(value)
    except Exception:
        return None


def numbers_of(values: Any) -> Floats:
    """Numbers as floats; what is none, in a column of anything, is NaN and counts for nothing."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        with np.errstate(all="ignore"):
            return values.astype(np.float64)
    return np.array([number_of(value) for value in values], dtype=np.float64)


def histogram(durations: ArrayLike, events: ArrayLike, edges: Sequence[float]) -> NDArray[np.int64]:
    """Patients by time bin (the last: beyond) and outcome. A time that is NaN, negative or infinite, and an event
    that is neither 1 nor 0, count for nothing.

    >>> histogram([3, 40, 7, float("nan"), -1, 5], [1, 0, 1, 1, 1, 2], (0, 5, 10)).tolist()
    [[1, 0], [1, 0], [0, 1]]
    """
    times, seen = numbers_of(durations).ravel(), numbers_of(events).ravel()
    good = np.isfinite(times) & (times >= 0) & ((seen == 1) | (seen == 0))
    place = np.searchsorted(np.asarray(edges[1:], dtype=float), times[good], side="right")
    found = np.zeros((len(edges), 2), dtype=np.int64)
    np.add.at(found, (place, np.where(seen[good] == 1, 0, 1)), 1)
    return found


# --- what is read from it ----------------------------------------------------------------------------------


def fitted(running: Floats) -> Floats:
    """Counts per bin from noisy running counts: the nearest that never fall and are not below 0, by isotonic regression.

    This comes before the product: moving ratios into range bin by bin would bias it.
    """
    from scipy.optimize import isotonic_regression

    rising = np.column_stack([np.maximum(isotonic_regression(running[:, k]).x, 0.0) for k in range(running.shape[1])])
    return np.diff(rising, axis=0, prepend=0.0)


def at_risk_of(counts: Floats) -> Floats:
    """How many are still under observation at the start of each bin, the one beyond included."""
    return np.asarray(counts.sum(axis=1)[::-1].cumsum()[::-1])


def survival(counts: Floats) -> Floats:
    """The product-limit estimate at every edge, from 1 at 0 on: the share that lives to the edge or beyond."""
    risk, events = at_risk_of(counts)[:-1], counts[:-1, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        stay = np.where(risk > 0, 1 - events / risk, 1.0)
    return np.concatenate([[1.0], np.cumprod(np.clip(stay, 0.0, 1.0))])


@dataclass(frozen=True, eq=False)
class SurvivalCurve:
    """A curve with its interval, and what can be read from it. `counts` are patients by bin and outcome, fitted."""

    edges: tuple[float, ...]
    counts: Floats
    survival: Floats
    lower: Floats
    upper: Floats
    confidence: float = 0.95

    @staticmethod
    def of(edges: Sequence[float], running: Floats, noise: Floats, confidence: float, rng: np.random.Generator) -> SurvivalCurve:
        """From running counts and simulated noise of the same shape.

        The interval is the wider of two: Greenwood's variance with that of the noise, on the scale log(-log S); and
        the quantiles of a bootstrap that draws patients from the curve and adds noise.
        """
        counts = fitted(running)
        curve = survival(counts)
        lower, upper = interval(counts, curve, noise, confidence, rng)
        return SurvivalCurve(tuple(edges), counts, curve, lower, upper, confidence)

    @property
    def timeline(self) -> Floats:
        """The edges, from 0 on, at which the curve is told."""
        return np.asarray(self.edges)

    @property
    def at_risk(self) -> Floats:
        """Estimated patients under observation at the start of each bin."""
        return at_risk_of(self.counts)

    @cached_property
    def cumulative_hazard(self) -> Floats:
        """Nelson and Aalen's estimate at every edge."""
        risk, events = self.at_risk[:-1], self.counts[:-1, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(risk > 0, events / risk, 0.0)
        return np.concatenate([[0.0], np.cumsum(steps)])

    def percentile(self, share: float) -> float:
        """The first edge at which no more than this share is alive; infinite where the curve stays above it."""
        below = np.flatnonzero(self.survival <= share + 1e-12)
        return float(self.edges[below[0]]) if len(below) else math.inf

    @property
    def median_survival_time_(self) -> float:
        """The first edge at which at most half are alive; infinite where more than half live beyond the last."""
        return self.percentile(0.5)

    def restricted_mean(self, upto: float | None = None) -> float:
        """The mean time lived within the first `upto`, which is the area below the curve as a step function."""
        end = self.edges[-1] if upto is None else float(upto)
        if not 0 < end <= self.edges[-1]:
            raise ParameterError(f"upto must be above 0 and at most the last edge, {self.edges[-1]:g}")
        widths = np.clip(np.minimum(self.timeline[1:], end) - self.timeline[:-1], 0.0, None)
        return float(self.survival[:-1] @ widths)

    # --- lifelines' names, as data frames ---

    @property
    def survival_function_(self) -> Any:
        """The curve as a data frame of one column, KM_estimate, by timeline."""
        return self._frame({"KM_estimate": self.survival})

    @property
    def cumulative_hazard_(self) -> Any:
        """Nelson and Aalen's estimate as a data frame, NA_estimate, by timeline."""
        return self._frame({"NA_estimate": self.cumulative_hazard})

    @property
    def confidence_interval_(self) -> Any:
        """The interval as a data frame of two columns, by timeline."""
        level = f"{self.confidence:g}"
        return self._frame({f"KM_estimate_lower_{level}": self.lower, f"KM_estimate_upper_{level}": self.upper})

    @property
    def event_table(self) -> Any:
        """Estimated patients removed, observed, censored, entering and at risk, at every edge, as lifelines shows them."""
        risk = self.at_risk
        observed = np.concatenate([[0.0], self.counts[:-1, 0]])
        censored = np.concatenate([[0.0], self.counts[:-1, 1]])
        entrance = np.zeros(len(self.edges))
        entrance[0] = risk[0]
        columns = {"removed": observed + censored, "observed": observed, "censored": censored}
        return self._frame({**columns, "entrance": entrance, "at_risk": np.concatenate([[risk[0]], risk[:-1]])}, "event_at")

    def _frame(self, columns: Mapping[str, Floats], index: str = "timeline") -> Any:
        try:
            import pandas as pd
        except ImportError:
            raise ParameterError(code="package-missing", package="pandas", install="'tacit[health]'") from None
        return pd.DataFrame(dict(columns), index=pd.Index(self.timeline, name=index))

    def plot(self, path: Path | None = None, *, ax: Axes | None = None, label: str = "", color: str | None = None) -> Figure:
        """Draw the curve as a step function with its band; `path` also writes a file."""
        from tacit.pictures import BLUE, canvas, dress, finish

        figure, axes = canvas(ax, path)
        shade = color or BLUE
        axes.step(self.timeline, self.survival, where="post", color=shade, label=label or None)
        axes.fill_between(self.timeline, self.lower, self.upper, step="post", color=shade, alpha=0.2, linewidth=0)
        axes.set_ylim(0, 1.02)
        axes.set_xlim(0, self.edges[-1])
        if label:
            axes.legend()
        dress(axes, "Survival", "time", "share alive")
        return finish(figure, path)


def interval(
    counts: Floats, curve: Floats, noise: Floats, confidence: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Between which values the curve of the population lies, on these bins, with this confidence at each edge."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    people = max(1, round(float(counts.sum())))
    share = counts.ravel() / counts.sum() if counts.sum() > 0 else np.full(counts.size, 1 / counts.size)
    exactly = counts.cumsum(axis=0)
    shaken = np.array([survival(fitted(exactly + one)) for one in noise])
    drawn = rng.multinomial(people, share, size=len(noise)).reshape(len(noise), *counts.shape).cumsum(axis=1)
    resampled = np.array([survival(fitted(a + b)) for a, b in zip(drawn, noise, strict=True)])
    risk, events = at_risk_of(counts)[:-1], counts[:-1, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(risk - events > 0.5, events / (risk * (risk - events)), 0.0)
    greenwood = np.concatenate([[0.0], np.cumsum(steps)])
    variance = curve**2 * greenwood + ((shaken - curve) ** 2).mean(axis=0)
    inner = np.clip(curve, 1 / (2 * people + 2), 1 - 1 / (2 * people + 2))
    scale = np.log(-np.log(inner))
    wide = z * np.sqrt(variance) / (inner * -np.log(inner))
    with np.errstate(over="ignore"):
        low, high = np.exp(-np.exp(scale + wide)), np.exp(-np.exp(scale - wide))
    ends = np.quantile(resampled, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    spread = z * np.sqrt(((resampled - curve) ** 2).mean(axis=0))
    lower = np.clip(np.minimum.reduce([low, ends[0], curve - spread]), 0.0, 1.0)
    upper = np.clip(np.maximum.reduce([high, ends[1], curve + spread]), 0.0, 1.0)
    lower[0] = upper[0] = 1.0  # everyone lives at 0
    return lower, upper


# --- the log-rank test -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogRank:
    """The log-rank statistic of the fitted counts, and how often simulated groups alike reach it with the same noise."""

    statistic: float
    p_value: float
    groups: int

    def __repr__(self) -> str:
        return f"LogRank(statistic={self.statistic:.3f}, p_value={self.p_value:.4f})"


def rank_statistic(counts: Floats) -> float:
    """The log-rank statistic of counts [group, time, outcome]: observed against expected events, over their variance."""
    events, risk = counts[:, :-1, 0], np.array([at_risk_of(one)[:-1] for one in counts])
    every, whole = events.sum(axis=0), risk.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(whole > 0, risk / whole, 0.0)
        spread = np.where(whole > 1, every * np.clip(whole - every, 0, None) / (whole - 1), 0.0)
    gap = (events - every * share).sum(axis=1)[:-1]
    first = share[:-1]
    covariance = np.diag((spread * first).sum(axis=1)) - (spread * first) @ first.T
    return float(gap @ np.linalg.pinv(covariance) @ gap)


def log_rank(plan: SurvivalPlan, released: Sequence[NDArray[Any]], draws: int = TESTS) -> LogRank:
    """Test that all groups have one hazard, by simulation.

    Groups of the estimated sizes are made up with the pooled hazard and each group's own censoring, counted in the
    same bins, and given the same noise. The p-value is the share of them with a statistic as large. Nothing is spent.
    """
    if len(plan.groups) < 2:
        raise ParameterError("a log-rank test compares groups; plan the curves with at least two")
    counts = np.array([fitted(one) for one in plan.running(released)])
    found = rank_statistic(counts)
    rng = np.random.default_rng(SEED)
    pool = plan.noise(draws, rng)
    risk = np.array([at_risk_of(one) for one in counts])
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = np.clip(np.nan_to_num(counts[:, :, 0].sum(axis=0) / risk.sum(axis=0)), 0.0, 1.0)
        leaving = np.clip(np.nan_to_num(counts[:, :, 1] / (risk - counts[:, :, 0])), 0.0, 1.0)
    laws = [null_law(pooled, one) for one in leaving]
    sizes = [max(0, round(float(one.sum()))) for one in counts]
    made = [
        rng.multinomial(size, law.ravel(), size=draws).reshape(draws, *law.shape).cumsum(axis=1)
        for size, law in zip(sizes, laws, strict=True)
    ]
    simulated = np.array([
        rank_statistic(np.array([fitted(made[g][i] + pool[i, g]) for g in range(len(plan.groups))])) for i in range(draws)
    ])
    return LogRank(found, float((1 + (simulated >= found - 1e-12).sum()) / (draws + 1)), len(plan.groups))


def null_law(hazard: Floats, leaving: Floats) -> Floats:
    """The law of (time bin, outcome) of a patient with this hazard and this chance to leave; who stays ends beyond."""
    stay = np.concatenate([[1.0], np.cumprod((1 - hazard[:-1]) * (1 - leaving[:-1]))])
    law = np.column_stack([stay * hazard, stay * (1 - hazard) * leaving])
    law[-1] = 0.0, stay[-1]
    return np.asarray(law / law.sum())


# --- with lifelines' names ---------------------------------------------------------------------------------


@dataclass
class KaplanMeier:
    """A private Kaplan-Meier estimate of patients given as arrays, one row each, paid for from `account`.

    `bins` are public edges from 0, or {"upto": 120, "count": 60}. `unit` says what one row is: a "patient", or an
    "event" where a patient may have several rows, and then only a row is protected. Fitted values are those of
    `SurvivalCurve`, under lifelines' names; with `groups`, those of each group are in `curves_`.
    """

    epsilon: Typed | None = None
    bins: Any = None
    unit: Literal["patient", "event"] = "patient"
    groups: Sequence[str] = ()
    delta: Typed | None = None
    rho: Typed | None = None
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE
    account: Account | None = None
    confidence: float = 0.95
    purpose: str = ""
    plan_: SurvivalPlan | None = field(default=None, init=False, repr=False)
    released_: list[NDArray[Any]] = field(default_factory=list, init=False, repr=False)
    curves_: dict[str, SurvivalCurve] = field(default_factory=dict, init=False, repr=False)
    private_: bool = field(default=True, init=False, repr=False)
    entry_: int | None = field(default=None, init=False, repr=False)

    def plan(self) -> SurvivalPlan:
        """What a fit would do and cost. Nothing is spent and no data is touched."""
        if self.unit not in ("patient", "event"):
            raise ParameterError(f"unit must be 'patient' or 'event', not {self.unit!r}")
        if self.bins is None:
            raise ParameterError("bins are missing: edges that are public, such as range(0, 121, 12); none are found in the data")
        return plan_survival(
            self.bins, self._spend, groups=self.groups, adjacency=self.adjacency, confidence=self.confidence
        )

    @property
    def _spend(self) -> Guarantee:
        return Guarantee.of(epsilon=self.epsilon, delta=self.delta, rho=self.rho).positive()

    def fit(self, durations: ArrayLike, events: ArrayLike, groups: ArrayLike | None = None) -> KaplanMeier:
        """Count, add noise, read the curves. What fails after the payment stays spent and says nothing of why."""
        plan, delta = self.plan(), self._spend.delta
        rows = [column_of(given) for given in (durations, events, *([] if groups is None else [groups]))]
        if len({len(one) for one in rows}) != 1:
            raise ParameterError("durations, events and groups must be columns of one length")
        if isinstance(rows[0], np.ndarray) and rows[0].dtype.kind in "mM":
            raise ParameterError("durations must be numbers, such as days, not dates or time spans; divide by one day first")
        if (groups is None) != (not self.groups):
            raise ParameterError("groups must be declared, KaplanMeier(groups=['a', 'b']), and given to fit, or neither")
        with paying(self.account, plan.event, purpose=self.purpose or "survival curves", delta=delta or None) as payment:
            released = plan.draw(plan.tables_of(self._counted(rows, plan)))
        self.plan_, self.released_ = plan, released
        self.private_, self.entry_ = payment.private, payment.entry
        self.curves_ = {" ".join(name): one for name, one in plan.curves(released, self.confidence).items()}
        return self

    def _counted(self, rows: Sequence[Column], plan: SurvivalPlan) -> NDArray[np.int64]:
        times, seen = numbers_of(rows[0]), numbers_of(rows[1])
        if len(rows) == 2:
            return histogram(times, seen, plan.edges)
        group = places_of(rows[2], [name for (name,) in plan.groups])
        return np.array([histogram(times[group == i], seen[group == i], plan.edges) for i in range(len(plan.groups))])

    @property
    def event(self) -> Event:
        """What was done to the data."""
        assert self.plan_ is not None, "fit first"
        return self.plan_.event

    def log_rank(self) -> LogRank:
        """Whether all groups have one hazard; free."""
        assert self.plan_ is not None, "fit first"
        return self.plan_.log_rank(self.released_)

    def __getattr__(self, name: str) -> Any:
        # The figures of the only curve; with groups, ask curves_["arm"].
        if name.startswith("__") or "curves_" not in self.__dict__:
            raise AttributeError(name)
        if len(self.curves_) != 1:
            raise AttributeError(f"{name}: fit first" if not self.curves_ else f"there are several curves; ask curves_[...].{name}")
        return getattr(next(iter(self.curves_.values())), name)


#: The last edge of the bin beyond, for engines: every finite number is below or at it.
BEYOND = sys.float_info.max

