"""A system that emits observations about secrets, and everything its matrix says about the leak.

A `Channel` is a prior over secrets and a matrix of probabilities: row s is the law of what an observer sees when the
secret is s. All figures are exact up to the rounding of floating point: the whole matrix is known, nothing is sampled.
`tacit.audit.leakage.estimators` does the same from examples alone.

>>> import numpy as np
>>> coin = Channel(np.array([[0.75, 0.25], [0.25, 0.75]]))
>>> coin.bayes_risk(), coin.guess_risk()
(0.25, 0.5)
>>> round(coin.epsilon(), 6) == round(math.log(3), 6)  # its price as a local mechanism
True
>>> round(coin.min_entropy_leakage(base=2), 6), round(coin.mutual_information(base=2), 6)
(0.584963, 0.188722)

The matrix may be dense or sparse and is never copied: 10,000 secrets by 10,000 observations are read in slices.
Logarithms are natural unless a base is given. Mutual information measures an attacker with unlimited guesses,
min-entropy leakage one with a single guess; they can differ by any factor in either direction (Smith 2009), so report
the second.

Two fixed points of Blahut (1972) and Arimoto (1972) follow, each with a bound on what is left to gain: `capacity` finds
the prior under which a channel tells most about its secret; `rate_distortion` finds the channel that tells least about
the secret among those with as small an expected distortion. Both stop when upper and lower bound meet, not when steps
become small.

>>> found = capacity(Channel(np.array([[0.9, 0.1], [0.1, 0.9]])))
>>> round(found.bound.upper / math.log(2), 6)  # 1 - h(0.1) bits
0.531004
>>> best = rate_distortion([0.5, 0.5], [[0, 1], [1, 0]], beta=math.log(9))
>>> round(best.distortion, 6), round(best.rate / math.log(2), 6)
(0.1, 0.531004)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from scipy.special import xlogy

from tacit.accounting import Bound
from tacit.audit.experiment import Generator
from tacit.audit.leakage.bounds import Leakage
from tacit.errors import ParameterError
from tacit.parameters import count, nonnegative, positive

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Reals = NDArray[np.float64]
Matrix = Any  # an array, or a sparse matrix of scipy, which has no types
Pairs = Any  # of neighbouring secrets: a list of pairs, or a matrix
_SLICE = 2**21  # entries looked at together: 16 MB, whatever the size of the matrix
_OFF = 1e-9  # how far from one a row may sum


def distribution(name: str, values: ArrayLike, length: int | None = None) -> Reals:
    """A probability vector, checked and made read-only; `name` is for the error.

    >>> distribution("prior", [0.5, 0.5]).tolist()
    [0.5, 0.5]
    """
    found = np.array(values, dtype=np.float64)
    if found.ndim != 1 or (length is not None and len(found) != length):
        expected = "" if length is None else f" of length {length}"
        raise ParameterError(f"{name} must be a vector of probabilities{expected}, not of shape {found.shape}")
    if not found.size or not np.isfinite(found).all() or found.min() < 0 or abs(found.sum() - 1) > _OFF:
        raise ParameterError(f"{name} must consist of probabilities that sum to one")
    found.flags.writeable = False
    return found


def secret_pairs(adjacency: Pairs, secrets: int) -> NDArray[np.int64]:
    """Pairs of neighbouring secrets, from a list of pairs or from a (dense or sparse) adjacency matrix.

    >>> secret_pairs([(0, 1), (1, 2)], 3).tolist()
    [[0, 1], [1, 2]]
    """
    if issparse(adjacency) or (isinstance(adjacency, np.ndarray) and adjacency.shape == (secrets, secrets) and adjacency.dtype == np.bool_):
        if adjacency.shape != (secrets, secrets):
            raise ParameterError(f"adjacency must be a {secrets} by {secrets} matrix, not {adjacency.shape}")
        first, second = adjacency.nonzero()
        found = np.stack([first, second], axis=1).astype(np.int64)
    else:
        found = np.asarray(adjacency if isinstance(adjacency, np.ndarray) else list(adjacency), dtype=np.int64).reshape(-1, 2)
    if found.size and (found.min() < 0 or found.max() >= secrets):
        raise ParameterError(f"adjacency must name secrets 0 to {secrets - 1}")
    return found


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Channel:
    """A prior over secrets and the law of the observation for each: `matrix[s, o]` is the probability of o when the secret is s.

    `observations` holds what output o looks like to an observer: a number or a vector each, by default 0, 1, 2, ... Distances between
    them matter only to nearest-neighbour attackers and to pictures. Do not change an array after handing it over: it is not copied.
    """

    matrix: Matrix
    prior: Reals
    observations: Reals

    def __init__(self, matrix: Matrix, prior: ArrayLike | None = None, observations: ArrayLike | None = None) -> None:
        if issparse(matrix):
            matrix = csr_array(matrix, dtype=np.float64)
            matrix.sum_duplicates()
            entries = matrix.data
        else:
            matrix = np.asarray(matrix, dtype=np.float64).view()
            entries = matrix
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise ParameterError("matrix must have one row for each secret and one column for each observation, at least one of both")
        matrix_sums = np.asarray(matrix.sum(axis=1)).ravel()
        if (entries.size and not entries.min() >= 0) or not (np.abs(matrix_sums - 1) <= _OFF).all():
            raise ParameterError("matrix must hold probabilities, and each row must sum to one")
        entries.flags.writeable = False
        object.__setattr__(self, "matrix", matrix)
        secrets, outputs = matrix.shape
        object.__setattr__(self, "prior", distribution("prior", np.full(secrets, 1 / secrets) if prior is None else prior, secrets))
        seen = np.arange(outputs, dtype=np.float64) if observations is None else np.asarray(observations, dtype=np.float64).view()
        if seen.ndim not in (1, 2) or len(seen) != outputs or not np.isfinite(seen).all():
            raise ParameterError(f"observations must be {outputs} finite numbers or vectors, one for each column of the matrix")
        seen.flags.writeable = False
        object.__setattr__(self, "observations", seen)

    def __repr__(self) -> str:
        kind = f"sparse, {self.matrix.nnz} entries" if self.sparse else "dense"
        return f"Channel({self.secrets} secrets, {self.outputs} observations, {kind})"

    @property
    def secrets(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def outputs(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def sparse(self) -> bool:
        return bool(issparse(self.matrix))

    def with_prior(self, prior: ArrayLike) -> Channel:
        """The same matrix under another belief about the secrets."""
        return Channel(self.matrix, distribution("prior", prior, self.secrets), self.observations)

    # --- laws -------------------------------------------------------------------------------------------------------------------------

    def joint(self) -> Matrix:
        """P(s, o): dense or sparse as the matrix is. Takes as much memory again as the matrix."""
        if not self.sparse:
            return self.matrix * self.prior[:, None]
        values = self.matrix.data * np.repeat(self.prior, np.diff(self.matrix.indptr))
        return csr_array((values, self.matrix.indices, self.matrix.indptr), shape=self.matrix.shape)

    def marginal(self) -> Reals:
        """P(o), the law of the observation."""
        return np.asarray(self.prior @ self.matrix, dtype=np.float64).ravel()

    def posterior(self) -> Matrix:
        """P(s | o), column by column; a column of zeros for an observation that never occurs.

        >>> Channel(np.array([[0.9, 0.1], [0.3, 0.7]])).posterior().round(3).tolist()
        [[0.75, 0.125], [0.25, 0.875]]
        """
        likely = self.marginal()
        inverse = np.divide(1.0, likely, out=np.zeros_like(likely), where=likely > 0)
        joint = self.joint()
        return csr_array(joint.multiply(inverse[None, :])) if self.sparse else np.multiply(joint, inverse, out=joint)

    def _slices(self) -> Iterator[tuple[slice, Reals]]:
        """Blocks of rows as dense arrays (a view where the matrix is dense); for a sparse matrix only used where zeros count."""
        height = max(1, _SLICE // self.outputs)
        for start in range(0, self.secrets, height):
            rows = slice(start, min(start + height, self.secrets))
            yield rows, self.matrix[rows].toarray() if self.sparse else self.matrix[rows]

    def _columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Reals]:
        """The entries of a sparse joint law ordered by observation: where each begins, the secrets, the values."""
        columns = self.joint().tocsc()
        columns.eliminate_zeros()
        return columns.indptr.astype(np.int64), columns.indices.astype(np.int64), columns.data

    # --- one guess ----------------------------------------------------------------------------------------------------------------------

    def bayes_classifier(self) -> NDArray[np.int64]:
        """For each observation the likeliest secret, the first of several; the likeliest a priori where the observation never occurs."""
        best, _, likeliest = self._best
        return np.where(best > 0, likeliest, int(np.argmax(self.prior)))

    @cached_property
    def _best(self) -> tuple[Reals, Reals, NDArray[np.int64]]:
        """For each o: max_s P(s, o), the sum over all *other* s, and the maximising s.

        The rest is summed apart, never as a difference: a Bayes risk of 1e-22 comes out as such.
        """
        best, rest = np.zeros(self.outputs), np.zeros(self.outputs)
        likeliest = np.zeros(self.outputs, dtype=np.int64)
        if self.sparse:
            begin, secrets, values = self._columns()
            full = np.flatnonzero(np.diff(begin))
            if full.size:
                owner = np.repeat(np.arange(self.outputs), np.diff(begin))
                best[full] = np.maximum.reduceat(values, begin[full])
                place = np.where(values == best[owner], np.arange(len(values)), len(values))
                first = np.minimum.reduceat(place, begin[full])
                likeliest[full] = secrets[first]
                others = values.copy()
                others[first] = 0.0
                rest[full] = np.add.reduceat(others, begin[full])
            return best, rest, likeliest
        every = np.arange(self.outputs)
        for rows, block in self._slices():
            joint = block * self.prior[rows, None]
            top = joint.argmax(axis=0)
            high = joint[top, every]
            joint[top, every] = 0.0
            rest += joint.sum(axis=0) + np.minimum(best, high)
            likeliest = np.where(high > best, top + rows.start, likeliest)
            best = np.maximum(best, high)
        return best, rest, likeliest

    def bayes_risk(self, loss: ArrayLike | None = None) -> float:
        """The error of the best guess after one observation (15.2), or its expected loss where `loss[guess, secret]` is given.

        >>> Channel(np.array([[0.9, 0.1], [0.3, 0.7]])).bayes_risk(loss=[[0, 4], [1, 0]])
        0.5
        """
        if loss is None:
            return float(self._best[1].sum())
        return float(self._expected(loss, "loss").min(axis=0).sum())

    def _expected(self, table: ArrayLike, name: str) -> Reals:
        weights = np.asarray(table, dtype=np.float64)
        if weights.ndim != 2 or weights.shape[1] != self.secrets or not np.isfinite(weights).all():
            raise ParameterError(f"{name} must be a matrix of finite numbers with a row for each guess and {self.secrets} columns")
        return np.asarray((weights * self.prior) @ self.matrix, dtype=np.float64)

    def vulnerability(self, gain: ArrayLike | None = None) -> float:
        """The chance of a right guess after one observation, or its expected `gain[guess, secret]` (Alvim et al. 2012)."""
        if gain is None:
            return float(self._best[0].sum())
        return float(self._expected(gain, "gain").max(axis=0).sum())

    def guess_risk(self) -> float:
        """The error of the best guess without an observation (15.3)."""
        return float(1 - self.prior.max())

    def risk_of(self, classifier: ArrayLike) -> float:
        """The exact error of an attacker who guesses secret `classifier[o]` on seeing o (15.4): at least the Bayes risk.

        >>> Channel(np.array([[0.75, 0.25], [0.25, 0.75]])).risk_of([1, 0])
        0.75
        """
        guess = np.asarray(classifier)
        if guess.shape != (self.outputs,) or guess.dtype.kind not in "iu" or guess.min() < 0 or guess.max() >= self.secrets:
            raise ParameterError(f"classifier must name one of secrets 0 to {self.secrets - 1} for each of {self.outputs} observations")
        right = np.asarray(self.matrix[guess, np.arange(self.outputs)]).ravel() * self.prior[guess]
        best, rest, _ = self._best
        return float(min(1.0, (rest + (best - right)).sum()))  # never below the Bayes risk, not even by rounding

    def leakage(self) -> Leakage:
        """Bayes risk and blind guess together: additive, multiplicative and min-entropy leakage, Bayes security, epsilon floors."""
        return Leakage(min(1.0, self.bayes_risk()), self.guess_risk(), self.secrets)

    def min_entropy(self, base: float = math.e) -> float:
        """Rényi's min-entropy of the secret before the observation (15.19)."""
        return -math.log(float(self.prior.max())) / math.log(base)

    def conditional_min_entropy(self, base: float = math.e) -> float:
        """The same after it: -log of the vulnerability (15.20)."""
        return -math.log(self.vulnerability()) / math.log(base)

    def min_entropy_leakage(self, base: float = math.e) -> float:
        """How much the min-entropy falls (15.21): the logarithm of the multiplicative leakage."""
        return self.min_entropy(base) - self.conditional_min_entropy(base)

    def prior_vulnerability(self, gain: ArrayLike | None = None) -> float:
        """The chance of a right guess without an observation, or its expected `gain[guess, secret]`.

        >>> Channel(np.eye(2), prior=[0.75, 0.25]).prior_vulnerability([[1, 0], [0, 4]])
        1.0
        """
        if gain is None:
            return float(self.prior.max())
        weights = np.asarray(gain, dtype=np.float64)
        if weights.ndim != 2 or weights.shape[1] != self.secrets or not np.isfinite(weights).all():
            raise ParameterError(f"gain must be a matrix of finite numbers with a row for each guess and {self.secrets} columns")
        return float((weights @ self.prior).max())

    def multiplicative_leakage(self, gain: ArrayLike | None = None) -> float:
        """By what factor one observation raises the chance of a right guess, or the expected gain (g-leakage, Alvim et al. 2012).

        Whatever the prior and the gain, if none is negative, it is at most e^`min_capacity` (the same paper): one figure
        limits every attacker with one guess.

        >>> lucky = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0]]  # or half a point for one of two
        >>> round(Channel(np.array([[0.8, 0.2], [0.2, 0.8], [0.5, 0.5]])).multiplicative_leakage(lucky), 6)
        1.6
        """
        before = self.prior_vulnerability(gain)
        if gain is not None and (before <= 0 or float(np.min(gain)) < 0):
            raise ParameterError("gain must hold no negative numbers, and some gain without an observation, for a factor to mean anything")
        return self.vulnerability(gain) / before

    def additive_leakage(self, gain: ArrayLike | None = None) -> float:
        """By how much one observation raises the chance of a right guess, or the expected gain."""
        return self.guess_risk() - self.bayes_risk() if gain is None else self.vulnerability(gain) - self.prior_vulnerability(gain)

    def min_capacity(self, base: float = math.e) -> float:
        """The largest min-entropy leakage over all priors, log sum_o max_s C[s, o]; the uniform prior attains it (15.25).

        >>> round(Channel(np.array([[0.75, 0.25], [0.25, 0.75]]), prior=[0.9, 0.1]).min_capacity(base=2), 6)
        0.584963
        """
        top = self.matrix.max(axis=0)
        return math.log(float((top.toarray() if self.sparse else np.asarray(top)).sum())) / math.log(base)

    # --- many guesses -------------------------------------------------------------------------------------------------------------------

    def entropy(self, base: float = math.e) -> float:
        """Shannon's entropy of the secret before the observation."""
        return float(-xlogy(self.prior, self.prior).sum()) / math.log(base)

    def conditional_entropy(self, base: float = math.e) -> float:
        """Shannon's entropy of the secret after the observation, on average."""
        return max(0.0, self.entropy(base) - self.mutual_information(base))

    def mutual_information(self, base: float = math.e) -> float:
        """I(S; O): the sum over secrets of pi(s) times the divergence of row s from the marginal law."""
        held = self.prior > 0  # what never happens may differ from the rest without end, and tells nothing
        law = np.maximum(self.marginal(), 5e-324)  # an observation of a secret that does happen is not impossible, it has underflowed
        return float(self.prior[held] @ self.divergences(law)[held]) / math.log(base)

    def divergences(self, law: Reals) -> Reals:
        """The Kullback-Leibler divergence of each row from a law of the observation, in nats."""
        with np.errstate(divide="ignore"):
            logs = np.log(law)
        if self.sparse:
            values, places = self.matrix.data, self.matrix.indices
            terms = np.where(values > 0, xlogy(values, values) - values * np.where(values > 0, logs[places], 0.0), 0.0)
            rows = np.repeat(np.arange(self.secrets), np.diff(self.matrix.indptr))
            return np.maximum(np.bincount(rows, weights=terms, minlength=self.secrets), 0.0)
        found = np.zeros(self.secrets)
        for some, block in self._slices():
            with np.errstate(invalid="ignore"):
                found[some] = np.where(block > 0, xlogy(block, block) - block * logs, 0.0).sum(axis=1)
        return np.maximum(found, 0.0)

    def capacity(self, *, width: float = 1e-9, most: int = 100_000) -> Bound:
        """Shannon's capacity in nats between two bounds: the largest mutual information over all priors (Blahut 1972, Arimoto 1972)."""
        return capacity(self, width=width, most=most).bound

    # --- differential privacy -----------------------------------------------------------------------------------------------------------

    def epsilon(self, adjacency: Pairs = None, *, distances: ArrayLike | None = None) -> float:
        """The least epsilon for which the channel is epsilon-DP: the largest log-ratio over neighbouring secrets (15.17).

        All secrets are neighbours (local privacy) unless `adjacency` names pairs or is an adjacency matrix. With `distances`, one for
        each pair, ratios are divided by them: epsilon per unit of distance (geo-indistinguishability). A zero beside a nonzero entry
        counts as it stands, so a probability that underflowed makes epsilon infinite.

        >>> steps = Channel(np.array([[0.8, 0.2, 0.0], [0.4, 0.4, 0.2], [0.2, 0.2, 0.6]]))
        >>> steps.epsilon(), round(steps.epsilon([(1, 2)]), 6)
        (inf, 1.098612)
        """
        if adjacency is None:
            if distances is not None:
                raise ParameterError("distances go with pairs of secrets: give adjacency as well")
            return self._clique_epsilon()
        pairs = secret_pairs(adjacency, self.secrets)
        units = np.ones(len(pairs)) if distances is None else np.asarray(distances, dtype=np.float64)
        if units.shape != (len(pairs),) or not (units > 0).all():
            raise ParameterError(f"distances must be {len(pairs)} positive numbers, one for each pair")
        worst, height = 0.0, max(1, _SLICE // self.outputs)
        for start in range(0, len(pairs), height):
            part = pairs[start : start + height]
            first, second = (self.matrix[part[:, i]] for i in (0, 1))
            if self.sparse:
                first, second = first.toarray(), second.toarray()
            with np.errstate(divide="ignore", invalid="ignore"):
                gaps = np.abs(np.log(first) - np.log(second))
            gaps[(first == 0) & (second == 0)] = 0.0
            worst = max(worst, float((gaps.max(axis=1) / units[start : start + height]).max()))
        return worst

    def _clique_epsilon(self) -> float:
        if self.sparse:
            counts = np.bincount(self.matrix.indices, weights=self.matrix.data > 0, minlength=self.outputs)
            if ((counts > 0) & (counts < self.secrets)).any():
                return math.inf
            high, low = (np.asarray(getattr(self.matrix, side)(axis=0).toarray()).ravel() for side in ("max", "min"))
        else:
            high, low = self.matrix.max(axis=0), self.matrix.min(axis=0)
        used = high > 0
        with np.errstate(divide="ignore"):
            return max(0.0, float((np.log(high[used]) - np.log(low[used])).max()))

    def knowledge_gain(self) -> float:
        """The largest |log P(s | o) / P(s)| over secrets and observations that can occur (15.13).

        At most epsilon under every prior (theorem 15.3), and epsilon is at most twice its value under any one prior with full support.
        Over all priors together its supremum *is* epsilon: put the belief on s' and the ratio is C[s, o] / C[s', o].

        >>> round(Channel(np.array([[0.75, 0.25], [0.25, 0.75]])).knowledge_gain(), 6)
        0.693147
        """
        law = self.marginal()
        with np.errstate(divide="ignore"):
            logs = np.log(law)
        worst = 0.0
        for rows, block in self._slices():
            held = (self.prior[rows, None] > 0) & (law > 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                gaps = np.where(held, np.abs(np.log(block) - logs), 0.0)
            worst = max(worst, float(gaps.max()))
        return worst

    # --- examples and pictures --------------------------------------------------------------------------------------------------------

    def sample(
        self, examples: int, generator: Generator, *, secrets: Sequence[int] | NDArray[np.integer] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Secrets drawn from the prior (or given) and the number of the column each one emits, for an experiment.

        >>> from tacit.audit.experiment import generator
        >>> s, o = Channel(np.eye(3)).sample(100, generator(1))
        >>> bool((s == o).all())
        True
        """
        examples = count("examples", examples, least=0)
        if secrets is None:
            drawn = _invert(np.cumsum(self.prior), generator.random(examples)).astype(np.int64)
        else:
            drawn = np.asarray(secrets, dtype=np.int64)
            if drawn.shape != (examples,) or (examples and (drawn.min() < 0 or drawn.max() >= self.secrets)):
                raise ParameterError(f"secrets must be {examples} numbers from 0 to {self.secrets - 1}")
        uniform = generator.random(examples)
        emitted = np.empty(examples, dtype=np.int64)
        order = np.argsort(drawn, kind="stable")
        begin = np.searchsorted(drawn[order], np.arange(self.secrets + 1))
        for s in np.flatnonzero(np.diff(begin)):
            mine = order[begin[s] : begin[s + 1]]
            if self.sparse:
                entries = slice(self.matrix.indptr[s], self.matrix.indptr[s + 1])
                emitted[mine] = self.matrix.indices[entries][_invert(np.cumsum(self.matrix.data[entries]), uniform[mine])]
            else:
                emitted[mine] = _invert(np.cumsum(self.matrix[s]), uniform[mine])
        return drawn, emitted

    def plot(self, path: str | PathLike[str] | None = None, ax: Axes | None = None) -> Figure:
        """The matrix as a picture: secrets downwards, observations across, darker where likelier."""
        from tacit.audit.leakage.plots import plot_channel

        return plot_channel(self, path=path, ax=ax)


def _invert(cumulative: Reals, uniform: Reals) -> NDArray[np.int64]:
    """The first place whose cumulative sum exceeds the uniform draw, scaled by the total: never a place of probability zero."""
    return np.asarray(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"), dtype=np.int64)


# --- fixed points ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Capacity:
    """The capacity in nats, the prior that attains its lower end, and the number of steps taken."""

    bound: Bound
    prior: Reals
    steps: int


def capacity(channel: Channel, *, width: float = 1e-9, most: int = 100_000) -> Capacity:
    """Shannon's capacity of a channel, enclosed: I(p) below, the largest divergence of a row from the mixture above.

    Stops when the bracket is `width` wide, or after `most` steps with the bracket as it stands, which is valid all the same.

    >>> round(capacity(Channel(np.eye(8))).bound.lower / math.log(2), 9)
    3.0
    """
    width, most = float(positive("width", width)), count("most", most)
    prior = np.full(channel.secrets, 1 / channel.secrets)
    low, high, best, steps = 0.0, math.inf, prior, 0
    while steps < most:
        steps += 1
        law = np.asarray(prior @ channel.matrix).ravel()
        gaps = channel.divergences(law)
        here = float(prior[prior > 0] @ gaps[prior > 0])
        if here >= low:
            low, best = here, prior
        high = min(high, float(gaps.max()))
        if high - low <= width:
            break
        prior = prior * np.exp(gaps - gaps.max())
        prior = prior / prior.sum()
    slack = 4e-15 * (1 + high)  # the rounding of sums over the matrix
    return Capacity(Bound(max(0.0, low - slack), max(high, low) + slack, "Blahut-Arimoto"), best, steps)


@dataclass(frozen=True, eq=False)
class RateDistortion:
    """The channel of least mutual information at its distortion: `objective` is rate + beta * distortion, in nats.

    `gap` bounds how far the objective lies above the least possible; `trace` holds the objective after each step.
    """

    channel: Channel
    rate: float
    distortion: float
    beta: float
    gap: float
    trace: tuple[float, ...]

    @property
    def objective(self) -> float:
        return self.rate + self.beta * self.distortion

    def support(self, least: float = 1e-9) -> int:
        """How many observations occur with probability above `least`."""
        return int((self.channel.marginal() > least).sum())


def rate_distortion(
    prior: ArrayLike, distortion: ArrayLike, beta: float, *,
    observations: ArrayLike | None = None, gap: float = 1e-6, most: int = 10_000,
) -> RateDistortion:
    """The channel that minimises I(S; O) + beta * E[distortion(S, O)] (section 15.7.2; Cover and Thomas 2006, section 10.8).

    The iteration is q(o) = sum_s pi(s) C[s, o], C[s, o] proportional to q(o) e^(-beta d(s, o)). It stops when the objective is proved
    to lie within `gap` of the least (Csiszár 1974: the logarithm of the largest factor by which q grows), or after `most` steps.

    >>> found = rate_distortion([0.5, 0.5], [[0, 1], [1, 0]], beta=0)  # nothing to be near to: nothing is told
    >>> found.rate
    0.0
    """
    weights = np.asarray(distortion, dtype=np.float64)
    if weights.ndim != 2 or not weights.size or not np.isfinite(weights).all():
        raise ParameterError("distortion must be a matrix of finite numbers: a row for each secret, a column for each observation")
    belief = distribution("prior", prior, weights.shape[0])
    beta = float(nonnegative("beta", beta))
    gap, most = float(positive("gap", gap)), count("most", most)
    least = weights.min(axis=1)
    kernel = np.exp(-beta * (weights - least[:, None]))  # the shift cancels in every row and keeps it from vanishing
    offset = beta * float(belief @ least)
    law = np.full(weights.shape[1], 1 / weights.shape[1])
    trace: list[float] = []
    for _ in range(most):
        mass = kernel @ law
        trace.append(offset - float(belief @ np.log(mass)))  # the objective at the channel this law makes
        growth = (belief / mass) @ kernel
        left = math.log(float(growth.max()))
        if left <= gap:
            break
        law = law * growth
        law /= law.sum()
    mass = kernel @ law
    left = max(0.0, math.log(float(((belief / mass) @ kernel).max())))
    matrix = kernel
    matrix *= law
    matrix /= mass[:, None]
    channel = Channel(matrix, belief, observations)
    cost = float(belief @ np.einsum("so,so->s", matrix, weights))
    return RateDistortion(channel, channel.mutual_information(), cost, beta, left, tuple(trace))
