"""Attackers that learn to guess a secret from examples alone: by counting, by the nearest example, by a vote of the nearest k.

Each rule is universally consistent where it says so: its error tends to the Bayes risk as examples grow, with no assumption about the
system. At every finite n its error is at least the Bayes risk, so it shows a leak and never its absence. No rule wins on all systems
(Wolpert 1996): run several.

>>> import numpy as np
>>> attacker = fit("nearest", labels=[0, 0, 1, 1], observations=[0.0, 1.0, 8.0, 9.0])
>>> attacker.predict([0.4, 7.0, 100.0]).tolist()
[0, 1, 1]
>>> RULES["knn-ln"].neighbours(1000), RULES["knn-log10"].neighbours(1000)
(7, 3)

Observations are numbers or vectors, and distances Euclidean in the units given: rescale coordinates that are not comparable. The
frequentist rule compares observations for equality only and also takes strings. Labels are whole numbers 0, 1, 2, ...
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array
from scipy.spatial import KDTree

from tacit.accounting.errors import ParameterError
from tacit.accounting.parameters import count

__all__ = ["RULES", "Classifier", "Rule", "Tally", "examples", "fit", "k_nearest", "rule_named", "tally"]

Labels = NDArray[np.int64]
_QUERIES = 2**15  # looked up together: bounds the memory of a vote
_EQUAL = 1 + 1e-12  # distances this close in ratio are one distance: the rounding of a square root


def _odd(k: float) -> int:
    """The next odd number at or above k, at least one: an odd vote between two secrets has no tie."""
    whole = max(1, math.ceil(k))
    return whole + 1 - whole % 2


@dataclass(frozen=True)
class Rule:
    """How an attacker guesses: `neighbours(n)` is how many of n examples vote, or None for counting equal observations.

    `guarantee` is what is proved as examples grow without end; nothing is proved about any finite number of them.
    """

    name: str
    neighbours: Callable[[int], int] | None
    guarantee: str


def k_nearest(k: int) -> Rule:
    """A vote of a fixed number of neighbours.

    >>> k_nearest(3).name
    '3-nearest'
    """
    k = count("k", k)
    return Rule(f"{k}-nearest", lambda _: k, "error tends to the Bayes risk only as k grows as well; between R* and 2 R* for k = 1")


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("frequentist", None, "error tends to the Bayes risk if the observations are finitely many"),
        Rule("nearest", lambda _: 1, "error tends to the Bayes risk if the observations are finitely many; to at most 2 R* otherwise"),
        Rule(
            "knn-ln",
            lambda n: _odd(math.log(max(n, 1))),
            "error tends to the Bayes risk, for infinitely many observations too (Stone 1977); no rate is known",
        ),
        Rule(
            "knn-log10",
            lambda n: _odd(math.log10(max(n, 1))),
            "error tends to the Bayes risk, for infinitely many observations too (Stone 1977); no rate is known",
        ),
    )
}


def rule_named(rule: str | Rule) -> Rule:
    """A rule from its name.

    >>> rule_named("nearest").name
    'nearest'
    """
    if isinstance(rule, Rule):
        return rule
    if rule not in RULES:
        raise ParameterError(f"rule must be one of {', '.join(RULES)} or k_nearest(k), not {rule!r}")
    return RULES[rule]


def examples(labels: ArrayLike, observations: ArrayLike) -> tuple[Labels, Any]:
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

    points: Any
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


def tally(labels: Labels, codes: NDArray[np.int64], points: Any, secrets: int) -> Tally:
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
        if self.rule.neighbours is None:
            majority = _row_argmax(self.data.counts)
            distance, place = tree.query(queries)
            return np.where(distance == 0, majority[place], self.data.likeliest)
        k = min(self.rule.neighbours(self.data.examples), self.data.examples)
        parts = [_vote(self.data, queries[i : i + _QUERIES], k) for i in range(0, len(queries), _QUERIES)]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    def _counted_strings(self, seen: Any) -> Labels:
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
    if data.points.dtype.kind in "US" and chosen.neighbours is not None:
        raise ParameterError(f"rule {chosen.name!r} needs observations with distances; strings have none, use 'frequentist'")
    return Classifier(chosen, data)


def _rows(observations: Any) -> NDArray[np.float64]:
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
