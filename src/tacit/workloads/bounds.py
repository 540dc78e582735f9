"""What no mechanism can beat, and when answers are too many and too exact: limits that need no data.

Lower bounds on the error of a workload (singular values for any strategy; Hardt and Talwar 2010 for any mechanism), the
upper bound of plain Laplace noise beside them, what usefulness of synthetic data means, and two warnings before paying: so many
answers with so little error that rows can be rebuilt from them, and tables whose cells hold less than the noise.

>>> from tacit.workloads.workload import AllRanges, Cells, Product
>>> ranges = Product(age=AllRanges).on(Cells.of({"age": 4}))
>>> round(least_error(ranges, "gaussian"), 6), round(laplace_error(4, 1), 4)
(16.312243, 11.3137)
>>> recovers(questions=3013, error=5.0, rows=128), recovers(questions=3013, error=3013.0, rows=128)
(True, False)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tacit.errors import ParameterError
from tacit.mechanisms import Law
from tacit.parameters import count, positive, probability
from tacit.workloads.workload import Array, Term, Workload

if TYPE_CHECKING:
    from tacit.workloads.plan import Measured

#: The most cells for which the Gram matrix of several terms together is written out.
TOGETHER = 2048


# --- strategies ---


def least_error(workload: Workload, law: Law) -> float:
    """What the weighted sum of squared errors of no strategy is below, at the unit price: singular values (Li, Miklau 2013).

    One product multiplies. Several terms are taken together where cells are few; else the largest of their own bounds holds.
    """
    cells = workload.cells.total
    if len(workload.terms) == 1 or cells > TOGETHER:
        least = max(term.weight * _nuclear(workload, term) ** 2 / cells for term in workload.terms)
    else:
        gram: Array = np.zeros((cells, cells))
        for term in workload.terms:
            own: Array = np.ones((1, 1))
            for _, factor in workload.factors(term):
                own = np.asarray(np.kron(own, factor.gram()), dtype=np.float64)
            gram += term.weight * own
        least = _roots(gram) ** 2 / cells
    return least * (2 if law == "laplace" else 1)


def _nuclear(workload: Workload, term: Term) -> float:
    """The sum of the singular values of a product."""
    found = 1.0
    for _, factor in workload.factors(term):
        found *= _roots(factor.gram())
    return found


def _roots(gram: Array) -> float:
    """The sum of the roots of the eigenvalues; what may be rounding is left out, so that the bound stays one."""
    values = np.linalg.eigvalsh(gram)
    return float(np.sqrt(np.where(values > 1e-12 * values.max(), values, 0.0)).sum())


# --- any mechanism ---


def laplace_error(questions: int, epsilon: float) -> float:
    """At most this is E |noise| for independent Laplace noise on so many counts: sqrt(2) d^(3/2) / epsilon (4.4.1)."""
    return math.sqrt(2 * count("questions", questions) ** 3) / float(positive("epsilon", epsilon))


def hardt_talwar(questions: int, cells: int, epsilon: float) -> float:
    """The rate that no epsilon-private mechanism beats on random +-1 questions, up to a constant (Hardt and Talwar 2010).

    min(d sqrt d, d sqrt(log(N / d))) / epsilon, with the brace and the root that the text lost (erratum E3).

    >>> hardt_talwar(4, 10**6, 1) < laplace_error(4, 1)
    True
    """
    d = count("questions", questions)
    if d > count("cells", cells):
        raise ParameterError(f"the bound is for at most as many questions as cells, and {d} > {cells}")
    return min(d * math.sqrt(d), d * math.sqrt(math.log(cells / d))) / float(positive("epsilon", epsilon))


# --- synthetic data ---


def useful_at(largest_errors: Sequence[float], delta: float) -> float:
    """The least alpha for which these runs are (alpha, delta)-useful: the largest error is beyond it in at most delta of them.

    >>> useful_at([3, 1, 2, 9], 0.25)
    3.0
    """
    found = np.sort(np.asarray(largest_errors, dtype=np.float64))
    if not len(found):
        raise ParameterError("usefulness needs the largest error of at least one run")
    allowed = math.floor(float(probability("delta", delta)) * len(found))
    return float(found[max(0, len(found) - 1 - allowed)])


def blum_ligett_roth(epsilon: float, *, printed: bool = False) -> float:
    """The error, as a fraction, that epsilon-private synthetic data of at most VC / 2 rows must have for some question.

    The text prints 1 / (2 exp(epsilon) + 1); the paper has 1 / (2 (exp(epsilon) + 1)) (erratum E10), which is smaller, so safe to state.

    >>> [round(blum_ligett_roth(e, printed=True), 4) for e in (0, 0.1, 1)], [round(blum_ligett_roth(e), 4) for e in (0, 0.1, 1)]
    ([0.3333, 0.3115, 0.1554], [0.25, 0.2375, 0.1345])
    """
    grown = math.exp(epsilon)
    return 1 / (2 * grown + 1) if printed else 1 / (2 * (grown + 1))


def mwem_error(rows: int, cells: int, questions: int, rounds: int, epsilon: float) -> float:
    """The bound on MWEM's largest error: 2 n sqrt(ln cells / T) + 10 T ln questions / epsilon.

    >>> round(mwem_error(10_000, 1024, 1000, 53, 1), 0)
    10894.0
    """
    learnt = 2.0 * count("rows", rows) * math.sqrt(math.log(cells) / count("rounds", rounds))
    return learnt + 10 * rounds * math.log(questions) / float(positive("epsilon", epsilon))


# --- warnings ---


def recovers(questions: int, error: float, rows: int) -> bool:
    """Whether so many answers with so small an error suffice to rebuild the rows: n ln^2 n of them, within sqrt(n) (4.2).

    With erratum E2: the error must be below a constant times sqrt(n); at 1 an attack by least squares still finds 97.7 % of 128 bits.
    """
    n = count("rows", rows)
    return questions >= math.floor(n * math.log(max(2, n)) ** 2) and error <= math.sqrt(n)


def warnings_for(measured: Measured, rows: int) -> list[str]:
    """What to know before paying, for a public or expected number of rows; empty where nothing is amiss.

    >>> from tacit.accounting import Guarantee
    >>> from tacit.workloads import Cells, Marginals
    >>> from tacit.workloads.plan import measured as planned
    >>> wide = planned(Marginals("a", "b", "c", ways=3).on(Cells.of({"a": 30, "b": 30, "c": 30})), Guarantee(epsilon=1))
    >>> warnings_for(wide, 5000)
    ['a by b by c: figures may be off by 3, and a cell has 0.185 rows on average; ask for tables of fewer columns or cells']
    """
    expected, found = count("rows", rows), []
    for term, wide in zip(measured.workload.terms, measured.widths(measured.confidence), strict=True):
        mean = expected / math.prod(measured.workload.cells.sizes[column] for column in term.columns)
        if term.marginal and term.columns and wide > mean:
            about = " by ".join(term.columns)
            text = f"{about}: figures may be off by {wide:,.3g}, and a cell has {mean:,.3g} rows on average"
            found.append(f"{text}; ask for tables of fewer columns or cells")
    if recovers(measured.workload.questions, measured.expected_error, expected):
        found.append(
            f"{measured.workload.questions} answers with a typical error of {measured.expected_error:,.3g} are enough to rebuild most of "
            f"{expected} rows; the price allows it, so it is too high"
        )
    return found
