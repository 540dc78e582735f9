"""The base of every error that Tacit raises on purpose, and the errors of the accountant.

A refusal that a second front door words differently, or that code must recognise, has a `code` and `facts`.
Facts are public: names of columns, declared numbers; never a value from the data. `str(error)` is the wording
for Python, from the room's table `WORDS`; job files and commands have tables of their own, keyed by the same
codes. A simple fault of a parameter may be a plain message without a code.
`docs/errors.md` lists the codes.

>>> error = ParameterError(code="parameter-range", parameter="delta", range="between 0 and 1", given=2)
>>> str(error), error.code, error.facts["parameter"]
('delta must be between 0 and 1, not 2', 'parameter-range', 'delta')
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

#: The accountant's refusals, worded for Python.
WORDS: Mapping[str, str] = {
    "parameter-range": "{parameter} must be {range}, not {given}",
    "delta-needed": (
        "{parameter} must be positive: this event has no finite epsilon at delta = 0 (Gaussian noise and "
        "approximate guarantees never do); ask for a delta well below one over the number of people, such as "
        "1e-6"
    ),
    "relation-not-covered": (
        "a guarantee stated for {stated.value} says nothing about {asked.value}: the number of records is "
        "public in the first and private in the second. Pass null_record=True if the computation treats an "
        "absent record exactly as a public null record, or ask for adjacency={stated!r}."
    ),
    "poisson-needs-add-remove": (
        "Poisson sampling amplifies guarantees for add/remove, because its sample size is random; the inner "
        "event is stated for replace-one. State it with adjacency=Adjacency.ADD_REMOVE, or sample "
        "WithoutReplacement."
    ),
    "fixed-size-is-public": (
        "sampling without replacement keeps the size of the data public, so it has no guarantee for "
        "add/remove; ask for adjacency=Adjacency.REPLACE_ONE, or sample with Poisson."
    ),
    "allocation-not-replaced": (
        "random allocation is proved for add/remove and zero-out; ask for adjacency=Adjacency.ADD_REMOVE"
    ),
    "price-not-gaussian": (
        "mu admits Gaussian noise, GDP guarantees and pure steps, and {event} is none of them: its trade-off curve "
        "is above no Gaussian one without slack; use rho, or epsilon with delta"
    ),
    "shares-too-small": (
        "{clients} shares of discrete Gaussian noise with sigma {sigma} are too small for {dimension} coordinates: their sum is too far "
        "from one draw to be priced; use Skellam noise, or scale values up before they are rounded"
    ),
    "package-missing": "{package} is not installed; run: pip install {install}",
    "bounds-without-names": (
        "bounds are given by column name, but X has no names; give a data frame, or one pair of bounds for all columns"
    ),
    "bounds-of-other-columns": (
        "bounds must have one pair for each column of X and no other: missing {missing}, unknown {extra}"
    ),
    "account-left-behind": (
        "this model was loaded without its account {account!r}, and a fit would not be paid for; "
        "give it an account first"
    ),
    "width-undeclared": (
        "X is a list of rows, and nothing says how many features a row has: give bounds with one number for each "
        "feature, or give an array or a data frame"
    ),
    "step-not-row-wise": (
        "{step} cannot transform one row of zeros by itself, so it cannot be run row by row; give a step that makes "
        "the same number of numbers of every row"
    ),
    "step-sees-all-rows": (
        "step {step} was given all rows at once and may carry one row into another; use tacit.learning.Pipeline, "
        "which runs such a step row by row"
    ),
    "function-raises": (
        "the function raised {type} in {share} of {inputs} runs, so it was never attacked; it receives {receives}. "
        "Give data of its own with data=, or the form it takes with form='pandas', 'list' or 'arrow'"
    ),
    "values-not-numbers": "{what} holds no numbers; convert it to numbers with public units first",
}


def _worded(template: str, facts: Mapping[str, object]) -> str:
    """A wording filled in with the facts of a refusal; several names are joined by commas.

    >>> _worded("there are {tables}", {"tables": ("visits", "codes")})
    'there are visits, codes'
    """
    joined = {name: ", ".join(map(str, fact)) for name, fact in facts.items() if isinstance(fact, tuple)}
    return template.format(**{**facts, **joined})


class TacitError(Exception):
    """The base of every exception that Tacit raises on purpose: `except tacit.TacitError` catches them all."""


class Refusal(TacitError):
    """What is refused: `message` in the words of Python and, where it has one, a `code` with its `facts`."""

    words: ClassVar[Mapping[str, str]] = {}
    code: str
    facts: Mapping[str, object]

    def __init__(self, message: str = "", *, code: str = "", **facts: object) -> None:
        self.code, self.facts = code, facts
        self.message = _worded(self.words[code], facts) if code and not message else message
        super().__init__(self.message)

    def coded_as(self, other: Refusal) -> Self:
        """This error with the code and the facts of the one that it passes on."""
        self.code, self.facts = other.code, other.facts
        return self

    def said(self, wording: Mapping[str, str], otherwise: str | None = None, **shown: object) -> str:
        """The refusal in the words of a front door's table; where it has none, `otherwise` or the words of Python.

        `shown` replaces facts that the front door has other names for, such as the option for a parameter.
        """
        if self.code in wording:
            return _worded(wording[self.code], {**self.facts, **shown})
        return self.message if otherwise is None else otherwise


class Note(str):
    """A sentence under an answer, with the code and the facts that another front door words it from.

    >>> note = Note.of({"rows-lost": "{share:.0%} of the rows were lost"}, "rows-lost", share=0.25)
    >>> note, note.said({"rows-lost": "lost: {share}"})
    ('25% of the rows were lost', 'lost: 0.25')
    """

    code: str = ""
    facts: Mapping[str, object] = {}

    @staticmethod
    def of(words: Mapping[str, str], code: str, **facts: object) -> Note:
        """The note of a code, in the words of Python."""
        note = Note(_worded(words[code], facts))
        note.code, note.facts = code, facts
        return note

    def said(self, wording: Mapping[str, str]) -> str:
        """The note in the words of a front door's table; where the table has none, in the words of Python."""
        return _worded(wording[self.code], self.facts) if self.code in wording else str(self)


class AccountingError(Refusal, ValueError):
    """Something about the event or the question cannot be accounted."""

    words = WORDS


class ParameterError(AccountingError):
    """A parameter is outside its range; the message names it, its range and the fix."""


class AdjacencyError(AccountingError):
    """Relations are mixed, or a guarantee is asked for under a relation it does not cover."""


class UnsupportedError(AccountingError):
    """No proof is known for this combination, so no figure is given."""


class PackageMissing(Refusal, ImportError):
    """An optional package is not installed; the message names the command that installs it."""

    words = WORDS
