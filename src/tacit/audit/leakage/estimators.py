"""Attackers that learn to guess a secret from examples alone, and how fast each approaches the Bayes risk.

The rules count, take the nearest example, take a vote of the nearest k, or (`support_vectors`) draw the widest margin
between Gaussian bumps. Each is universally consistent where it says so: its error tends to the Bayes risk as examples
grow, with no assumption about the system. At every finite n its error is at least the Bayes risk, so it shows a leak and
never its absence. No rule wins on all systems (Wolpert 1996): run
several.

>>> import numpy as np
>>> attacker = fit("nearest", labels=[0, 0, 1, 1], observations=[0.0, 1.0, 8.0, 9.0])
>>> attacker.predict([0.4, 7.0, 100.0]).tolist()
[0, 1, 1]
>>> RULES["knn-ln"].neighbours(1000), RULES["knn-log10"].neighbours(1000)
(7, 3)

Observations are numbers or vectors, and distances Euclidean in the units given: rescale coordinates that are not
comparable. The frequentist rule compares observations for equality only and also takes strings. Labels are whole
numbers 0, 1, 2, ...

`convergence` measures the error of each rule after 5, ..., n examples. Where the matrix is known the error is exact
(15.4) and the curve has no noise of its own. Otherwise it is the share of wrong guesses on held-out examples, which the
rules never see. The lowest point of a curve is chosen by looking at it: it is no bound. For a bound use
`tacit.audit.leakage.attack`, which settles on one rule before it looks.

>>> from tacit.audit.leakage.builders import truncated_geometric
>>> from tacit.audit.experiment import generator
>>> system = truncated_geometric(10, 100, 0.2)
>>> labels, columns = system.sample(4_000, generator(1))
>>> found = convergence(labels, columns, channel=system, sizes=[5, 50, 500, 4_000])
>>> [bool(risk >= system.bayes_risk()) for risk in found.risks["knn-ln"]]
[True, True, True, True]
>>> found.examples_to_converge("knn-ln", 0.1)
500
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array
from scipy.spatial import KDTree

from tacit.audit.leakage.channel import Channel
from tacit.errors import ParameterError
from tacit.parameters import count, positive

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Labels = NDArray[np.int64]
Observations = NDArray[Any]  # numbers, rows of numbers, or strings
SMALL = 0.01  # below this Bayes risk a relative change says little, and absolute ones are counted
_QUERIES = 2**15  # looked up together: bounds the memory of a vote
_EQUAL = 1 + 1e-12  # distances this close in ratio are one distance: the rounding of a square root


def _odd(k: float) -> int:
    """The next odd number at or above k, at least one: an odd vote between two secrets has no tie."""
    whole = max(1, math.ceil(k))
    return whole + 1 - whole % 2


@dataclass(frozen=True)
class Rule:
    """How an attacker guesses: `neighbours(n)` is how many of n examples vote, or None for counting equal observations.

    A rule with a `machine`, which makes a classifier from the examples, asks that one instead. `guarantee` is what is proved as
    examples grow without end; nothing is proved about any finite number of them. `pairs_only` says that it is proved for two secrets.
    """

    name: str
    neighbours: Callable[[int], int] | None
    guarantee: str
    machine: Callable[[Tally], Callable[[NDArray[np.float64]], Labels]] | None = None
    pairs_only: bool = False

    @property
    def counts(self) -> bool:
        """Whether observations are only compared for equality, so that they may be strings."""
        return self.neighbours is None and self.machine is None


def k_nearest(k: int) -> Rule:
    """A vote of a fixed number of neighbours.

    >>> k_nearest(3).name
    '3-nearest'
    """
    k = count("k", k)
    return Rule(f"{k}-nearest", lambda _: k, "error tends to the Bayes risk only as k grows as well; between R* and 2 R* for k = 1")


def support_vectors(width: float | None = None) -> Rule:
    """A support vector machine with Gaussian kernels exp(-|o - o'|^2 / width^2), the last rule of table 15.2.

    The penalty falls with the number n of examples as 0.01 n^(-1/3). Among two secrets, with observations in a compact part of R^m and a
    `width` that is set before the examples are seen, the error then tends to the Bayes risk: the solution on n examples is within
    O(1 / (penalty sqrt(n))) of that on the whole law, which tends to zero, and the penalty tends to zero, so that Gaussian kernels,
    which are universal, come arbitrarily near to the best guess (Steinwart 2005, IEEE Transactions on Information Theory 51). Without a
    `width` it is taken from the spread of the examples, and with more than two secrets each pair is told apart and the pairs vote: both
    are usual, and neither is proved.

    It takes as long as the square of the number of distinct examples, so that no audit uses it unless it is asked for:
    `audit_local(..., rules=["nearest", support_vectors(2.0)])`, or "svm" by name.

    >>> attacker = fit(support_vectors(2.0), labels=[0, 0, 1, 1], observations=[0.0, 1.0, 8.0, 9.0])
    >>> attacker.predict([0.4, 7.0]).tolist()
    [0, 1]
    """
    if width is not None:
        width = float(positive("width", width))

    def machine(data: Tally) -> Callable[[NDArray[np.float64]], Labels]:
        from sklearn.svm import SVC  # takes most of a second to import, and only this rule needs it

        table = data.counts.tocoo()
        known, rows, weights = table.col.astype(np.int64), _rows(data.points)[table.row], np.round(table.data)
        if len(np.unique(known)) < 2:
            return lambda queries: np.full(len(queries), data.likeliest, dtype=np.int64)
        spread = float(np.average((rows - np.average(rows, axis=0, weights=weights)) ** 2, axis=0, weights=weights).sum())
        gamma = 1 / width**2 if width is not None else 1 / spread if spread > 0 else 1.0
        cost = data.examples ** (1 / 3) / (0.02 * data.examples)  # of each example: 1 / (2 n penalty)
        solved = SVC(C=cost, kernel="rbf", gamma=gamma, cache_size=100).fit(rows, known, sample_weight=weights)
        return lambda queries: np.asarray(solved.predict(queries), dtype=np.int64) if len(queries) else np.zeros(0, dtype=np.int64)

    proved = "error tends to the Bayes risk between two secrets, observations in a compact part of R^m (Steinwart 2005)"
    guarantee = proved if width is not None else f"{proved}, for a width that is not taken from the examples, as this one is"
    return Rule("svm" if width is None else f"svm of width {width:g}", None, guarantee, machine, pairs_only=True)


STONE = "error tends to the Bayes risk, for infinitely many observations too (Stone 1977); no rate is known"
RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("frequentist", None, "error tends to the Bayes risk if the observations are finitely many"),
        Rule("nearest", lambda _: 1, "error tends to the Bayes risk if the observations are finitely many; to at most 2 R* otherwise"),
        Rule("knn-ln", lambda n: _odd(math.log(max(n, 1))), STONE),
        Rule("knn-log10", lambda n: _odd(math.log10(max(n, 1))), STONE),
    )
}


def rule_named(rule: str | Rule) -> Rule:
    """A rule from its name.

    >>> rule_named("nearest").name
    'nearest'
    """
    if isinstance(rule, Rule):
        return rule
    if rule == "svm":
        return support_vectors()
    if rule not in RULES:
        raise ParameterError(f"rule must be one of {', '.join(RULES)}, svm, k_nearest(k) or support_vectors(width), not {rule!r}")
    return RULES[rule]


def examples(labels: ArrayLike, observations: ArrayLike) -> tuple[Labels, Observations]:
    """Labels as whole numbers and observations as a vector of numbers or strings, or as rows of finite numbers.

    >>> examples([0, 1], [[1, 2], [3, 4]])[1].shape
    (2, 2)
    """
    found, seen = np.asarray(labels), np.asarray(observations)
    if found.ndim != 1 or (found.size and (found.dtype.kind not in "iu" or found.min() < 0)):
        raise ParameterError("labels must be a vector of whole numbers, zero or more")
    if seen.ndim not in (1, 2) or len(seen) != len(found):
        raise ParameterError("observations must be as many as labels: a vector, or a matrix with a row for each")
    if seen.dtype.kind in "biuf":
        seen = seen.astype(np.float64) + 0.0  # so that -0.0 and 0.0 are one observation
        if not np.isfinite(seen).all():
            raise ParameterError("observations must be finite; map infinities and NaN to a value of their own first")
    elif seen.ndim != 1 or seen.dtype.kind not in "US":
        raise ParameterError("observations must be numbers, rows of numbers, or strings")
    return found.astype(np.int64), seen


@dataclass(frozen=True, eq=False)
class Tally:
    """Examples gathered by observation: the distinct points, how many examples each had, and how often each label came with each.

    `counts` carry less than a millionth of a vote for the label that came first, which settles ties. The order of examples is as good
    as a coin; the order of labels is not, where neighbouring secrets have neighbouring labels.
    """

    points: Observations
    counts: csr_array
    totals: NDArray[np.int64]
    examples: int

    @property
    def likeliest(self) -> int:
        """The most frequent label overall."""
        return int(np.argmax(np.asarray(self.counts.sum(axis=0)).ravel())) if self.examples else 0

    @cached_property
    def tree(self) -> KDTree:
        return KDTree(_rows(self.points))


def tally(labels: Labels, codes: NDArray[np.int64], points: Observations, secrets: int) -> Tally:
    """Gather examples whose observations are numbers into a list of distinct `points`; those not seen are left out.

    >>> tally(np.array([0, 1, 1]), np.array([2, 2, 0]), np.array([5.0, 6.0, 7.0]), 2).counts.toarray().round().tolist()
    [[0.0, 1.0], [1.0, 1.0]]
    """
    keys, first, number = np.unique(codes * secrets + labels, return_index=True, return_counts=True)
    seen, row = np.unique(keys // secrets, return_inverse=True)
    row = row.ravel()
    votes = number + 1e-6 * (1 - first / max(1, len(labels)))
    counts = csr_array(coo_array((votes, (row, keys % secrets)), shape=(len(seen), secrets)))
    totals = np.bincount(row, weights=number, minlength=len(seen)).astype(np.int64)
    return Tally(points[seen], counts, totals, len(labels))


@dataclass(frozen=True, eq=False)
class Classifier:
    """A rule fitted to examples: `predict` guesses a label for each observation."""

    rule: Rule
    data: Tally

    def predict(self, observations: ArrayLike) -> Labels:
        """The label guessed for each observation."""
        seen = np.asarray(observations)
        if self.data.examples == 0:
            return np.zeros(len(seen), dtype=np.int64)
        if self.data.points.dtype.kind in "US":
            return self._counted_strings(seen)
        queries, tree = _rows(seen), self.data.tree
        if queries.shape[1] != tree.m:
            raise ParameterError(f"observations must have {tree.m} coordinates as the examples have, not {queries.shape[1]}")
        if self.rule.machine is not None:
            return self._machine(queries)
        if self.rule.neighbours is None:
            majority = _row_argmax(self.data.counts)
            distance, place = tree.query(queries)
            return np.where(distance == 0, majority[place], self.data.likeliest)
        k = min(self.rule.neighbours(self.data.examples), self.data.examples)
        parts = [_vote(self.data, queries[i : i + _QUERIES], k) for i in range(0, len(queries), _QUERIES)]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    @cached_property
    def _machine(self) -> Callable[[NDArray[np.float64]], Labels]:
        assert self.rule.machine is not None
        return self.rule.machine(self.data)

    def _counted_strings(self, seen: Observations) -> Labels:
        place = np.minimum(np.searchsorted(self.data.points, seen), len(self.data.points) - 1)
        return np.where(self.data.points[place] == seen, _row_argmax(self.data.counts)[place], self.data.likeliest)


def fit(rule: str | Rule, labels: ArrayLike, observations: ArrayLike, *, secrets: int | None = None) -> Classifier:
    """Fit a rule to examples.

    >>> fit("frequentist", [0, 1, 1], ["a", "b", "b"]).predict(["b", "a", "unseen"]).tolist()
    [1, 0, 1]
    """
    known, seen = examples(labels, observations)
    size = count("secrets", secrets) if secrets is not None else int(known.max(initial=0)) + 1
    if known.max(initial=0) >= size:
        raise ParameterError(f"labels must be below secrets = {size}")
    points, codes = np.unique(seen, axis=0, return_inverse=True)
    return fit_tally(rule, tally(known, codes.ravel().astype(np.int64), points, size))


def fit_tally(rule: str | Rule, data: Tally) -> Classifier:
    """Fit a rule to examples that are already gathered.

    >>> fit_tally("nearest", tally(np.array([0, 1]), np.array([0, 1]), np.array([1.0, 2.0]), 2)).predict([1.9]).tolist()
    [1]
    """
    chosen = rule_named(rule)
    if data.points.dtype.kind in "US" and not chosen.counts:
        raise ParameterError(f"rule {chosen.name!r} needs observations with distances; strings have none, use 'frequentist'")
    return Classifier(chosen, data)


def _rows(observations: ArrayLike) -> NDArray[np.float64]:
    seen = np.asarray(observations, dtype=np.float64)
    return seen[:, None] if seen.ndim == 1 else seen


def _row_argmax(counts: csr_array) -> Labels:
    """For each row the column of its largest entry, the first of several; 0 for an empty row."""
    counts.sort_indices()
    best = np.zeros(counts.shape[0], dtype=np.int64)
    full = np.flatnonzero(np.diff(counts.indptr))
    if full.size:
        begin = counts.indptr[full]
        top = np.zeros(counts.shape[0])
        top[full] = np.maximum.reduceat(counts.data, begin)
        owner = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        place = np.where(counts.data == top[owner], np.arange(counts.nnz), counts.nnz)
        best[full] = counts.indices[np.minimum.reduceat(place, begin)]
    return best


def _vote(data: Tally, queries: NDArray[np.float64], k: int) -> Labels:
    """The majority among the k nearest examples, with the textbook's rule for equal distances (15.54 to 15.56).

    Where the k-th example is one of several at the same distance, of which only some would fit, the most frequent label of all of them
    stands for each place that is left. Examples at one point always lie at one distance, so a point counts as often as it was seen.
    Labels with as many votes are told apart by how near their voters are, then by who came first. With k = 1 this is the
    nearest-neighbour rule (15.51).
    """
    tree, counts, totals = data.tree, data.counts, data.totals
    result = np.zeros(len(queries), dtype=np.int64)
    open_, wanted = np.arange(len(queries)), min(tree.n, k + 6)
    while open_.size:
        distance, place = tree.query(queries[open_], k=np.arange(1, wanted + 1))
        reached = np.cumsum(totals[place], axis=1) >= k
        last = distance[np.arange(len(open_)), reached.argmax(axis=1)]  # the distance of the k-th example
        more = (distance[:, -1] <= last * _EQUAL) & (wanted < tree.n)  # further points may lie at that distance: fetch them
        result[open_[~more]] = _count(counts, totals, distance[~more], place[~more], last[~more], k)
        open_, wanted = open_[more], min(tree.n, 4 * wanted)
    return result


def _count(
    counts: csr_array, totals: NDArray[np.int64], distance: NDArray[np.float64], place: Labels, last: NDArray[np.float64], k: int
) -> Labels:
    rows, wanted = distance.shape
    if not rows:
        return np.zeros(0, dtype=np.int64)
    number = totals[place]
    tied = (distance <= last[:, None] * _EQUAL) & (distance >= last[:, None] / _EQUAL)
    before = distance < last[:, None] / _EQUAL
    left = k - np.where(before, number, 0).sum(axis=1)  # places for the block at the k-th distance
    whole = np.where(tied, number, 0).sum(axis=1) == left
    voting = before | (tied & whole[:, None])
    nearness = 1 + 1e-3 * (1 - np.arange(wanted) / wanted) / k  # all voters together stay below one vote: it only decides between equals
    votes = _gather(voting, place, nearness, counts)
    split = np.flatnonzero(~whole)
    if split.size:
        stand_in = _row_argmax(_gather(tied[split], place[split], np.ones(wanted), counts))
        extra = coo_array((left[split].astype(np.float64), (split, stand_in)), shape=votes.shape)
        votes = csr_array(votes + csr_array(extra))
    return _row_argmax(votes)


def _gather(chosen: NDArray[np.bool_], place: Labels, weights: NDArray[np.float64], counts: csr_array) -> csr_array:
    """For each query the sum of the label counts of its chosen points, each weighted by its rank."""
    row, rank = np.nonzero(chosen)
    table = csr_array(coo_array((weights[rank], (row, place[row, rank])), shape=(len(chosen), counts.shape[0])))
    return csr_array(table @ counts)


# --- convergence ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Convergence:
    """The error of each rule after each number of examples. `bayes_risk` is known where the channel is; `validation` is None there."""

    sizes: NDArray[np.int64]
    risks: Mapping[str, NDArray[np.float64]]
    guess_risk: float
    bayes_risk: float | None
    validation: int | None

    def examples_to_converge(self, rule: str, delta: float, *, target: float | None = None, absolute: bool | None = None) -> int | None:
        """The first size at which the error is within `delta` of the target, relatively (15.57); None if no size reaches it.

        The target is the Bayes risk, or must be given. Where it is below 0.01 differences are absolute (15.58) unless told otherwise.
        """
        goal = self.bayes_risk if target is None else target
        if goal is None:
            raise ParameterError("target must be given: without the channel the Bayes risk is unknown")
        scale = 1.0 if (absolute if absolute is not None else goal < SMALL) else goal
        near = np.abs(self._risk(rule) - goal) < float(positive("delta", delta)) * scale
        return int(self.sizes[near.argmax()]) if near.any() else None

    def settled(self, rule: str, delta: float, share: float = 0.1) -> int | None:
        """The first size at which the error moved by less than `delta` over the last `share` of all examples: a stopping rule, no proof."""
        risks, window = self._risk(rule), share * float(self.sizes[-1])
        for i, size in enumerate(self.sizes):
            recent = (self.sizes <= size) & (self.sizes >= size - window)
            if size - self.sizes[0] >= window and recent.sum() > 1 and float(np.ptp(risks[recent])) < delta:
                return int(self.sizes[i])
        return None

    def last(self) -> dict[str, float]:
        """The error of each rule after all examples: an estimate."""
        return {name: float(risks[-1]) for name, risks in self.risks.items()}

    def _risk(self, rule: str) -> NDArray[np.float64]:
        if rule not in self.risks:
            raise ParameterError(f"rule must be one of {', '.join(self.risks)}, not {rule!r}")
        return self.risks[rule]

    def plot(self, path: str | PathLike[str] | None = None, ax: Axes | None = None) -> Figure:
        """The errors over the number of examples, between the blind guess and the Bayes risk."""
        from tacit.audit.leakage.plots import plot_convergence

        return plot_convergence(self, path=path, ax=ax)


def geometric_sizes(first: int, last: int, ratio: float = 1.1) -> NDArray[np.int64]:
    """Whole numbers from first to last, each about `ratio` times the one before.

    >>> geometric_sizes(5, 100, 2).tolist()
    [5, 10, 20, 40, 80, 100]
    """
    first, last = count("first", first), count("last", last)
    if last < first or not ratio > 1:
        raise ParameterError(f"first must be at most last and ratio above 1, not {first}, {last} and {ratio}")
    steps = math.floor(math.log(last / first) / math.log(ratio))
    return np.unique(np.append(np.round(first * ratio ** np.arange(steps + 1)), last).astype(np.int64))


def convergence(
    labels: ArrayLike, observations: ArrayLike, *,
    channel: Channel | None = None, validation: tuple[ArrayLike, ArrayLike] | None = None, secrets: int | None = None,
    rules: Iterable[str | Rule] = tuple(RULES), sizes: Sequence[int] | NDArray[np.integer] | None = None,
) -> Convergence:
    """Fit each rule to the first n examples, for each n of `sizes` (5 and on by steps of a tenth), and measure its error.

    With `channel`, observations are the numbers of its columns, as `Channel.sample` gives them, and errors are exact. With
    `validation`, a pair of held-out labels and observations, errors are shares of those. Exactly one of the two must be given.
    """
    if (channel is None) == (validation is None):
        raise ParameterError("give either channel, for exact errors, or validation, a pair of held-out labels and observations")
    chosen = [rule_named(rule) for rule in rules]
    known, seen = examples(labels, observations)
    at = geometric_sizes(min(5, len(known)), len(known)) if sizes is None else np.asarray(sizes, dtype=np.int64)
    if not at.size or at.min() < 1 or at.max() > len(known) or (np.diff(at) <= 0).any():
        raise ParameterError(f"sizes must grow from 1 or more to at most the {len(known)} examples given")
    truth: Labels | None = None
    if channel is not None:
        codes, points, queries = seen.astype(np.int64), channel.observations, channel.observations
        many, guess, bayes = channel.secrets, channel.guess_risk(), channel.bayes_risk()
        if codes.max(initial=0) >= channel.outputs or known.max(initial=0) >= many:
            raise ParameterError("labels and observations must be numbers of rows and columns of the channel")
    else:
        assert validation is not None
        truth, queries = examples(*validation)
        points, codes = np.unique(seen, axis=0, return_inverse=True)
        codes = codes.ravel().astype(np.int64)
        many = count("secrets", secrets) if secrets is not None else int(max(known.max(initial=0), truth.max(initial=0))) + 1
        guess, bayes = 1 - float(np.bincount(truth, minlength=1).max(initial=0)) / max(1, len(truth)), None
    risks = {rule.name: np.empty(len(at)) for rule in chosen}
    for i, n in enumerate(at):
        data = tally(known[:n], codes[:n], points, many)
        for rule in chosen:
            guesses = fit_tally(rule, data).predict(queries)
            risks[rule.name][i] = channel.risk_of(guesses) if channel is not None else float(np.mean(guesses != truth))
    return Convergence(at.astype(np.int64), risks, guess, bayes, None if truth is None else len(truth))
