"""What a Bayes risk says about epsilon, and what epsilon says about a Bayes risk.

The Bayes risk R* of a system is the error of the best guess of a secret from one observation. A small epsilon keeps it high:

- `local_risk_floor`, `graph_risk_floor`, `central_risk_floor`, `pair_risk_floor`: no attacker against an epsilon-DP channel errs less;
- `local_epsilon_floor`, `graph_epsilon_floor`, `central_epsilon_floor`: the inverses. An attacker who errs less refutes the claim.

The direction matters. The error of *any* attacker is at least R*, so a measured error, with its upper confidence limit, bounds the leakage
and epsilon from **below**. Nothing measured bounds them from above: a passed audit is no proof of privacy.

>>> round(local_risk_floor(1.0, 10), 6)
0.768031
>>> round(local_epsilon_floor(0.768031, 10), 4)
1.0

One argument carries them all (it sharpens Alvim et al. 2011, which asks for a vertex-transitive graph). Let a channel be epsilon-DP on
a graph of secrets with distances d. For each output o let s_o be its likeliest secret: C[s, o] >= e^(-eps d(s, s_o)) C[s_o, o]. Summing
over s and o, |S| >= sum_o max_s C[s, o] * min_t sum_s e^(-eps d(s, t)), and the attacker succeeds with probability at most max pi times
the first factor. The complete graph gives the local bound, the hypercube of present and absent records the central one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import ParameterError
from tacit.parameters import count, nonnegative, probability


def _likeliest(guess_risk: float | None, secrets: float) -> float:
    """The largest prior probability, 1/|S| where the prior is uniform."""
    if guess_risk is None:
        return 1 / secrets
    guess = float(probability("guess_risk", guess_risk))
    if guess > (1 - 1 / secrets) * (1 + 1e-12):
        raise ParameterError(f"guess_risk must be at most 1 - 1/|S| = {1 - 1 / secrets}, as for the uniform prior, not {guess}")
    return max(1 - guess, 1 / secrets)


def _down(epsilon: float) -> float:
    """A lower bound on epsilon after rounding: never above the exact value, never below zero."""
    return epsilon if math.isinf(epsilon) and epsilon > 0 else max(0.0, epsilon - 1e-15 * (1 + abs(epsilon)))


# --- local: every two secrets are neighbours -------------------------------------------------------------------------------------------


def local_risk_floor(epsilon: float, secrets: int, *, guess_risk: float | None = None, delta: float = 0.0) -> float:
    """The least Bayes risk of any (epsilon, delta)-locally private channel over `secrets` values; zero where the bound says nothing.

    Uniform prior unless the error `guess_risk` of guessing without an observation is given. With delta = 0 these are theorems 15.6 and
    15.9 of the textbook, attained by randomised response. With delta, sum C[s, A_s] <= e^eps C[t, A_s] + delta over decision regions
    A_s and all t.

    >>> round(local_risk_floor(math.log(3), 2), 12)
    0.25
    >>> round(local_risk_floor(1.0, 10, guess_risk=0.8), 6)
    0.536061
    """
    epsilon, delta = float(nonnegative("epsilon", epsilon)), float(probability("delta", delta))
    secrets = count("secrets", secrets, least=2)
    small = math.exp(-epsilon)
    success = secrets * (1 + (secrets - 1) * delta * small) / (1 + (secrets - 1) * small)
    if guess_risk is None:
        return (secrets - 1) * (1 - delta) * small / (1 + (secrets - 1) * small)
    return max(0.0, 1 - _likeliest(guess_risk, secrets) * success)


def local_epsilon_floor(risk: float, secrets: int, *, guess_risk: float | None = None, delta: float = 0.0) -> float:
    """A channel whose Bayes risk is at most `risk` is (epsilon, delta)-locally private for no epsilon below this (15.42, 15.46 inverted).

    `risk` must be an upper bound on the Bayes risk: an exact value, or an upper confidence limit on some attacker's error.

    >>> round(local_epsilon_floor(0.25, 2), 9) == round(math.log(3), 9)
    True
    >>> local_epsilon_floor(0.0, 2)
    inf
    """
    risk, delta = float(probability("risk", risk)), float(probability("delta", delta))
    secrets = count("secrets", secrets, least=2)
    gain = (1 - risk) / _likeliest(guess_risk, secrets)  # how many times likelier a right guess has become
    excess = gain - secrets * delta
    if excess <= 0:
        return 0.0
    if gain >= secrets:
        return math.inf
    return _down(math.log(secrets - 1) + math.log(excess) - math.log(secrets - gain))


def local_leakage_ceiling(epsilon: float, secrets: int) -> float:
    """The largest min-entropy leakage, in nats, of an epsilon-locally private channel over all priors.

    >>> round(local_leakage_ceiling(1.0, 100), 6)
    0.982963
    """
    epsilon, secrets = float(nonnegative("epsilon", epsilon)), count("secrets", secrets, least=2)
    return math.log(secrets) - math.log1p((secrets - 1) * math.exp(-epsilon))


# --- graphs ----------------------------------------------------------------------------------------------------------------------------


def graph_distances(vertices: int, pairs: Iterable[Sequence[int]] | NDArray[np.integer]) -> NDArray[np.float64]:
    """The number of steps between any two secrets of an undirected graph; infinite where no path leads.

    >>> graph_distances(4, [(0, 1), (1, 2), (2, 3)])[0].tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    vertices = count("vertices", vertices)
    edges = np.asarray(list(pairs) if not isinstance(pairs, np.ndarray) else pairs, dtype=np.int64).reshape(-1, 2)
    if edges.size and (edges.min() < 0 or edges.max() >= vertices):
        raise ParameterError(f"pairs must name secrets 0 to {vertices - 1}")
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(vertices, vertices))
    return np.asarray(shortest_path(graph.tocsr(), directed=False, unweighted=True), dtype=np.float64)


def _reach(epsilon: float, distances: NDArray[np.float64]) -> float:
    """min over t of the sum over s other than t of e^(-eps d(s, t))."""
    far = np.isinf(distances)
    weights = np.where(far, 0.0, np.exp(-epsilon * np.where(far, 0.0, distances)))
    np.fill_diagonal(weights, 0.0)  # the secret itself has weight one; left out so that a small rest keeps its digits
    return float(weights.sum(axis=0).min())


def _checked(distances: ArrayLike) -> NDArray[np.float64]:
    found = np.asarray(distances, dtype=np.float64)
    if found.ndim != 2 or found.shape[0] != found.shape[1] or found.shape[0] < 2:
        raise ParameterError("distances must be a square matrix over at least two secrets; graph_distances makes one from pairs")
    if np.isnan(found).any() or found.min() < 0 or np.diagonal(found).any() or (found != found.T).any():
        raise ParameterError("distances must be symmetric, zero on the diagonal and not negative")
    return found


def graph_risk_floor(epsilon: float, distances: ArrayLike, *, guess_risk: float | None = None) -> float:
    """The least Bayes risk of a channel that is epsilon-DP along the edges of a graph of secrets (theorem 15.5, for every graph).

    `distances[s, t]` is the number of steps from s to t, or any metric for which log C[s, o] changes by at most epsilon d(s, t).

    >>> cycle = graph_distances(8, [(i, (i + 1) % 8) for i in range(8)])
    >>> round(graph_risk_floor(1.0, cycle), 6)
    0.529261
    """
    steps = _checked(distances)
    others = _reach(float(nonnegative("epsilon", epsilon)), steps)
    if guess_risk is None:
        return others / (1 + others)
    return max(0.0, 1 - _likeliest(guess_risk, len(steps)) * len(steps) / (1 + others))


def transitive_risk_floor(epsilon: float, counts: Sequence[int]) -> float:
    """Theorem 15.5 as printed, corrected: 1 - 1 / sum_d n_d e^(-eps d), with n_d secrets d steps from any one, for the uniform prior.

    >>> round(transitive_risk_floor(1.0, [1, 9]), 6) == round(local_risk_floor(1.0, 10), 6)
    True
    """
    epsilon = float(nonnegative("epsilon", epsilon))
    numbers = [count("counts", n, least=0) for n in counts]
    if not numbers or numbers[0] != 1:
        raise ParameterError("counts must start with 1: the secret itself is at distance zero")
    others = math.fsum(n * math.exp(-epsilon * d) for d, n in enumerate(numbers) if d)
    return others / (1 + others)


def graph_epsilon_floor(risk: float, distances: ArrayLike, *, guess_risk: float | None = None) -> float:
    """A channel whose Bayes risk is at most `risk` is epsilon-DP on the graph for no epsilon below this.

    >>> cycle = graph_distances(8, [(i, (i + 1) % 8) for i in range(8)])
    >>> round(graph_epsilon_floor(0.529261, cycle), 5)
    1.0
    """
    steps, risk = _checked(distances), float(probability("risk", risk))
    if graph_risk_floor(0.0, steps, guess_risk=guess_risk) <= risk:
        return 0.0
    if risk == 0 and guess_risk is None:  # the floor is positive for every epsilon, though it underflows
        return math.inf
    low, high = 0.0, 1.0
    while graph_risk_floor(high, steps, guess_risk=guess_risk) > risk:
        low, high = high, 2 * high
    while high - low > 1e-14 * (1 + high):
        middle = (low + high) / 2
        low, high = (middle, high) if graph_risk_floor(middle, steps, guess_risk=guess_risk) > risk else (low, middle)
    return _down(low)


# --- central: records present or absent ------------------------------------------------------------------------------------------------


def central_risk_floor(epsilon: float, records: int, *, guess_risk: float | None = None) -> float:
    """The least Bayes risk of guessing which of `records` records are present, from an epsilon-DP answer (theorems 15.10 and 15.11).

    The attacker knows all other records, as differential privacy assumes. `records=1` is the usual test of two neighbours.

    >>> round(central_risk_floor(math.log(3), 2), 12)
    0.4375
    """
    epsilon, records = float(nonnegative("epsilon", epsilon)), count("records", records)
    each = -math.log1p(math.exp(-epsilon))  # log of e^eps / (1 + e^eps)
    if guess_risk is None:
        return -math.expm1(records * each)
    likeliest = _log_likeliest(guess_risk, records)
    return max(0.0, -math.expm1(likeliest + records * (each + math.log(2))))


def _log_likeliest(guess_risk: float | None, records: int) -> float:
    if guess_risk is None:
        return -records * math.log(2)
    return math.log(_likeliest(guess_risk, 2.0**records)) if records < 1000 else math.log1p(-float(probability("guess_risk", guess_risk)))


def central_epsilon_floor(risk: float, records: int, *, guess_risk: float | None = None) -> float:
    """A measurement from which `records` presence bits are guessed with Bayes risk at most `risk` is epsilon-DP for no epsilon below this.

    >>> round(central_epsilon_floor(0.4375, 2), 9) == round(math.log(3), 9)
    True
    """
    risk, records = float(probability("risk", risk)), count("records", records)
    if risk == 1:
        return 0.0
    each = (math.log1p(-risk) - _log_likeliest(guess_risk, records)) / records - math.log(2)  # log of e^eps / (1 + e^eps)
    if each >= 0:
        return math.inf
    return _down(each - math.log(-math.expm1(each)))


def central_leakage_ceiling(epsilon: float, records: int) -> float:
    """The largest min-entropy leakage, in nats, about `records` presence bits, over all priors (15.48).

    >>> round(central_leakage_ceiling(1.0, 1), 6)
    0.379885
    """
    return count("records", records) * local_leakage_ceiling(epsilon, 2)


def pair_risk_floor(epsilon: float, delta: float = 0.0, *, prior: float = 0.5) -> float:
    """The least error of telling two neighbours apart when (epsilon, delta) holds and one has prior probability `prior`.

    The vertices of the region of errors {a + e^eps b >= 1 - delta, b + e^eps a >= 1 - delta} (Kairouz, Oh and Viswanath 2015, theorem 2.1).

    >>> round(pair_risk_floor(1.0), 6), round(pair_risk_floor(1.0, 0.1), 6)
    (0.268941, 0.242047)
    """
    epsilon, delta = float(nonnegative("epsilon", epsilon)), float(probability("delta", delta))
    prior = float(probability("prior", prior))
    small = math.exp(-epsilon)
    return (1 - delta) * min(prior, 1 - prior, small / (1 + small))


# --- what an observer learns -------------------------------------------------------------------------------------------------------------


def posterior_range(prior: float, epsilon: float) -> tuple[float, float]:
    """Between which probabilities an epsilon-DP answer can move a belief of `prior` in one of two neighbours (proposition 15.2).

    >>> [round(p, 6) for p in posterior_range(0.01, 1.0)]
    [0.003702, 0.026724]
    """
    prior, small = float(probability("prior", prior)), math.exp(-float(nonnegative("epsilon", epsilon)))
    if prior in (0, 1):
        return prior, prior
    return prior * small / (1 - prior + prior * small), prior / (prior + (1 - prior) * small)


def information_ceiling(epsilon: float, secrets: int | None = None) -> float:
    """The most mutual information, in nats, that an epsilon-locally private channel can have under any prior over its secrets.

    Any two rows of the channel are a post-processing of the two answers of randomised response (Kairouz, Oh and Viswanath 2015), whose
    Kullback-Leibler divergence is epsilon tanh(epsilon / 2). Mutual information is the mean divergence of a row from the mixture of all,
    and divergence is convex, so it is at most that; of `secrets` values no more than log |S|; and of two values no more than the
    capacity of randomised response itself, which attains it.

    >>> round(information_ceiling(1.0), 6), round(information_ceiling(1.0, secrets=2), 6)
    (0.462117, 0.110944)
    """
    epsilon = float(nonnegative("epsilon", epsilon))
    most = epsilon * math.tanh(epsilon / 2)
    if secrets is None:
        return most
    secrets = count("secrets", secrets, least=1)
    if secrets == 2:
        small = math.exp(-epsilon)
        lie = small / (1 + small)
        entropy = (math.log1p(small) + epsilon * lie) if lie > 0 else 0.0  # of a coin that lies so often
        most = min(most, math.log(2) - entropy)
    return max(0.0, min(most, math.log(secrets)))


def information_epsilon_floor(information: float, secrets: int | None = None) -> float:
    """A channel with at least this mutual information, in nats, is epsilon-locally private for no epsilon below this.

    >>> round(information_epsilon_floor(information_ceiling(1.0, secrets=2), secrets=2), 6)
    1.0
    >>> information_epsilon_floor(math.log(2), secrets=2)
    inf
    """
    information = float(nonnegative("information", information))
    if secrets is not None and information >= math.log(count("secrets", secrets, least=1)):
        return math.inf if information > 0 else 0.0
    low, high = 0.0, 1.0
    while information_ceiling(high, secrets) < information:
        low, high = high, 2 * high
        if high > 1e4:
            return _down(low)
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if information_ceiling(middle, secrets) < information else (low, middle)
    return max(0.0, low * (1 - 1e-9) - 1e-12)  # the ceiling is rounded in its last digits


def cover_hart_floor(nearest_risk: float, secrets: int) -> float:
    """The Bayes risk that goes with a *limit* error of the nearest-neighbour rule: at least this (Cover and Hart 1967).

    A statement about infinitely many examples. At finite n it is an estimate from below, not a bound.

    >>> round(cover_hart_floor(0.375, 2), 12), round(cover_hart_floor(0.5, 100), 6)
    (0.25, 0.293509)
    """
    secrets = count("secrets", secrets, least=2)
    top = (secrets - 1) / secrets
    error = min(float(probability("nearest_risk", nearest_risk)), top)
    return top * (1 - math.sqrt(max(0.0, 1 - error / top)))


def frequentist_rate(bayes_risk: float, guess_risk: float, outputs: int, examples: int) -> float:
    """A rough guide to the frequentist error after n examples (15.60); it assumes equally likely outputs and is optimistic elsewhere.

    >>> round(frequentist_rate(0.6, 0.99, 10_000, 0), 6), round(frequentist_rate(0.6, 0.99, 10_000, 10**7), 6)
    (0.99, 0.6)
    """
    unseen = math.exp(count("examples", examples, least=0) * math.log1p(-1 / count("outputs", outputs, least=2)))
    return float(probability("bayes_risk", bayes_risk)) * (1 - unseen) + float(probability("guess_risk", guess_risk)) * unseen


@dataclass(frozen=True)
class Leakage:
    """A Bayes risk beside the error of guessing blindly, in every unit in use. Shared by exact channels and by estimates.

    >>> leak = Leakage(bayes_risk=0.25, guess_risk=0.5, secrets=2)
    >>> leak.multiplicative, leak.additive, leak.bayes_security, round(leak.min_entropy(base=2), 6)
    (1.5, 0.25, 0.5, 0.584963)
    """

    bayes_risk: float
    guess_risk: float
    secrets: int

    def __post_init__(self) -> None:
        probability("bayes_risk", self.bayes_risk)
        probability("guess_risk", self.guess_risk)
        count("secrets", self.secrets)

    @property
    def multiplicative(self) -> float:
        """By what factor the chance of a right guess grows: (1 - R*) / (1 - R^pi)."""
        return (1 - self.bayes_risk) / (1 - self.guess_risk)

    @property
    def additive(self) -> float:
        """By how much the chance of a right guess grows: R^pi - R*."""
        return self.guess_risk - self.bayes_risk

    @property
    def bayes_security(self) -> float:
        """R* / R^pi: one where nothing leaks, zero where everything does; one where nothing was secret."""
        return self.bayes_risk / self.guess_risk if self.guess_risk > 0 else 1.0

    def min_entropy(self, base: float = math.e) -> float:
        """The logarithm of the multiplicative leakage: nats unless another base is given (2 for bits)."""
        if self.bayes_risk == 1:
            return -math.inf
        return (math.log1p(-self.bayes_risk) - math.log1p(-self.guess_risk)) / math.log(base)

    def local_epsilon(self) -> float:
        """The channel is epsilon-locally private for no epsilon below this, if `bayes_risk` is an upper bound on the Bayes risk."""
        return local_epsilon_floor(self.bayes_risk, self.secrets, guess_risk=self.guess_risk)

    def central_epsilon(self, records: int) -> float:
        """The same for secrets which say which of `records` records are present."""
        return central_epsilon_floor(self.bayes_risk, records, guess_risk=self.guess_risk)
