"""What Gaussian votes cost on the very votes that were cast: the data-dependent bound of Papernot et al. 2018, re-derived.

>>> votes = [[240, 5, 5], [200, 30, 20]] * 50
>>> law = GaussianLaw(sigma=20)
>>> round(dependent_epsilon(votes, law, delta=1e-5), 3), round(worst_epsilon(100, law, delta=1e-5), 3)
(0.34, 3.645)

The first figure depends on the data: never publish it. `publish_cost(votes, law, ...)` of `tacit.deep.pate_cost` releases a bound.

**The moment.** Let q be the chance that the noisy winner is not the true one, P the law of the answer on these votes, P' on a neighbour's,
both within eps_1 and eps_2 of each other in Renyi divergence of orders mu_1 and mu_2 (for Gaussian votes eps = mu / sigma^2). The true
winner contributes (1 - q) ((1 - q) / (1 - q'))^lambda to E_P (P / P')^lambda, and q' <= (q e^eps_2)^(1 - 1/mu_2) = g by Hoelder's
inequality; the others contribute at most q (e^eps_1 q^(-1/(mu_1 - 1)))^lambda by Jensen's, if lambda + 1 <= mu_1. So with
A = (1 - q)/(1 - g) and B = e^eps_1 q^(-1/(mu_1 - 1)) the log moment is at most log((1 - q) A^lambda + q B^lambda) (Papernot et al. 2018,
Theorem 6).

**Where an upper bound on q may stand for q.** The derivative in q is at least (mu_1 - 1 - lambda)/(mu_1 - 1) (B^lambda - A^lambda) wherever
g' >= mu_1/(mu_1 - 1), which is the theorem's q <= e^((mu_2 - 1) eps_2) / (mu_1/(mu_1 - 1) mu_2/(mu_2 - 1))^mu_2. That alone is not
enough: it lets g pass 1, and A pass B, and then the bound falls with q. Required here as well: g < 1 and A <= B. As A grows with q and
B falls, both hold for all smaller q too. The orders are those of the paper's Proposition 10, mu_2 = sigma sqrt(log 1/q) and
mu_1 = mu_2 + 1, which nearly minimise it; any others would be as valid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfc

from tacit.accounting import ParameterError
from tacit.deep.pate_cost import FINE, LAMBDAS, LEAST, Array, Counts, chances, gaps
from tacit.deep.pate_cost import worst_epsilon as worst_epsilon
from tacit.parameters import count, positive, probability

_MARGIN = 1 + 1e-10  # over the rounding of a few library functions


@dataclass(frozen=True)
class GaussianLaw:
    """The cost of `GaussianVotes`: noise of deviation `sigma` on every count, and perhaps a check first, which at most `answers` pass."""

    sigma: float
    check_sigma: float | None = None
    answers: int | None = None

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        if (self.check_sigma is None) != (self.answers is None):
            raise ParameterError("a confident aggregator needs check_sigma and answers together")
        if self.check_sigma is not None:
            positive("check_sigma", self.check_sigma)
            count("answers", self.answers)

    @property
    def limit(self) -> float:
        return 0.5

    def tail(self, gap: Counts) -> Array:
        """P[Z' - Z >= gap - 1/FINE]: noisy counts are rounded, and a tie may go to the wrong one.

        >>> float(GaussianLaw(20).tail(np.array([0]))[0]) >= 0.5
        True
        """
        ahead = np.asarray(gap, dtype=np.float64) - 1 / FINE
        return np.asarray(erfc(ahead / (2 * self.sigma)) / 2 * _MARGIN)

    def fixed(self, lam: float) -> float:
        """Two counts move by one: a Gaussian mechanism of distance sqrt 2."""
        return lam * (lam + 1) / float(self.sigma) ** 2

    def moments(self, lam: float, q: ArrayLike) -> Array:
        """The log moment of order `lam` for these chances of disagreement, or upper bounds on them: the fixed one where nothing is proved.

        >>> law = GaussianLaw(20)
        >>> [float(f"{value:.2g}") for value in law.moments(10, [1e-30, 1e-9, 1e-3, 0.5])], law.fixed(10)
        ([4.2e-27, 1e-07, 0.016, 0.28], 0.275)
        """
        chance = np.maximum(np.asarray(q, dtype=np.float64), LEAST)  # it may have been too small for the machine, not zero
        fixed = self.fixed(lam)
        log_q = np.log(np.minimum(chance, 0.5))  # where it is more the fixed moment is told
        second = float(self.sigma) * np.sqrt(-log_q)
        usable = (chance < 0.5) & (second > max(1.0, lam))  # mu_1 = mu_2 + 1 must reach lam + 1; at equality nothing is gained
        order_2 = np.where(usable, second, 2.0)
        order_1 = order_2 + 1
        eps_1, eps_2 = order_1 / float(self.sigma) ** 2, order_2 / float(self.sigma) ** 2
        log_g = (log_q + eps_2) * (1 - 1 / order_2)
        usable &= log_g < -1e-9
        log_g = np.where(usable, log_g, -1.0)
        log_a = np.log1p(-np.exp(log_q)) - np.log1p(-np.exp(log_g))
        log_b = eps_1 - log_q / (order_1 - 1)
        slope = (order_2 - 1) * eps_2 - order_2 * (np.log(order_1 / (order_1 - 1)) + np.log(order_2 / (order_2 - 1)))
        usable &= (log_q <= slope) & (log_a <= log_b)
        dependent = np.logaddexp(np.log1p(-np.exp(log_q)) + lam * log_a, log_q + lam * log_b)
        return np.asarray(np.where(usable, np.minimum(np.maximum(dependent, 0.0) * _MARGIN, fixed), fixed))

    def overhead(self, lam: float) -> float:
        """The check of every question: the largest count moves by one."""
        return 0.0 if self.check_sigma is None else lam * (lam + 1) / (2 * float(self.check_sigma) ** 2)

    def pure(self, questions: int) -> float:
        return math.inf


def dependent_epsilon(votes: ArrayLike, law: GaussianLaw, delta: float) -> float:
    """The epsilon of `GaussianVotes` on these very votes. It depends on the data: never publish it.

    Of a confident aggregator the checks are charged for every question, and the answers as if the dearest questions had been answered.

    >>> confident = GaussianLaw(sigma=20, check_sigma=100, answers=10)
    >>> round(dependent_epsilon([[240, 5, 5]] * 100, confident, delta=1e-5), 3)
    0.485
    """
    small = float(probability("delta", positive("delta", delta)))
    q = chances(gaps(votes), law)
    best = worst_epsilon(len(q), law, small)
    for lam in LAMBDAS:
        each = law.moments(lam, q)
        paid = each.sum() if law.answers is None else np.sort(each)[::-1][: law.answers].sum()
        best = min(best, (float(paid) + len(q) * law.overhead(lam) - math.log(small)) / lam)
    return best
