"""Exact random draws on integers, from the operating system's entropy.

The probability of every value is the textbook's, not an approximation of it, whatever the parameters:

>>> from fractions import Fraction
>>> noise = discrete_laplace(Fraction(1000, 3), size=5)
>>> noise.dtype, bernoulli(Fraction(1, 3)) in (0, 1)
(dtype('int64'), True)

There are no seeds. Tests may repeat draws in `test_mode`, and everything drawn there can be told from private draws:

>>> with watch() as seen, test_mode(1):
...     value = discrete_gaussian(10)
>>> seen.mark
'NOT PRIVATE'

Parameters are exact: an int, a Fraction, or a float, which stands for its exact binary value. Mechanisms that
build samplers of their own use `words`, `Table` and the enclosures of exp(-x).
"""

# Imports inside functions: only `test_mode` may reach a seeded generator.

from typing import TYPE_CHECKING

from tacit.lazy import lazily
from tacit.noise.enclosed import CUTOFF, Table, bernoulli, bernoulli_exp, exp_bounds, odds_bits, rough_exp
from tacit.noise.laplace import discrete_laplace, geometric, rounded_laplace
from tacit.noise.lattice import from_lattice, granularity_for, round_to_lattice, steps_apart
from tacit.noise.source import WORD, SeedRefusedError, Seen, Size, is_private, permutation, test_mode, uniform_integers, watch, words

if TYPE_CHECKING:
    from tacit.noise.choice import choose, choose_weighted
    from tacit.noise.gaussian import discrete_gaussian, rounded_gaussian
    from tacit.noise.gaussian_sums import Fill, add_gaussian
    from tacit.noise.poisson import poisson, skellam

#: Laws that most questions about a table do not draw from, loaded when they are first used.
__getattr__, __dir__ = lazily(__name__, {
    "choice": ("choose", "choose_weighted"),
    "gaussian": ("discrete_gaussian", "rounded_gaussian"),
    "gaussian_sums": ("Fill", "add_gaussian"),
    "poisson": ("poisson", "skellam"),
})  # fmt: skip

__all__ = [
    "CUTOFF", "WORD", "Fill", "SeedRefusedError", "Seen", "Size", "Table", "add_gaussian", "bernoulli", "bernoulli_exp", "choose",
    "choose_weighted", "discrete_gaussian", "discrete_laplace", "exp_bounds", "from_lattice", "geometric",
    "granularity_for", "is_private", "odds_bits", "permutation", "poisson", "rough_exp", "round_to_lattice", "rounded_gaussian",
    "rounded_laplace", "skellam", "steps_apart", "test_mode", "uniform_integers", "watch", "words",
]  # fmt: skip
