"""Refusals in the words of the command: options instead of parameters, commands instead of functions.

A refusal is found by its code (see `tacit.errors`) and worded from its facts. A code that is not in
the table keeps the words it came with.

>>> from tacit.accounting import ParameterError
>>> in_options(ParameterError(code="parameter-range", parameter="delta", range="between 0 and 1", given=2))
'--delta must be between 0 and 1, not 2'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command must answer --help without the accountant
    from tacit.accounting import Refusal

#: The options behind the parameters that the accountant names.
OPTIONS = {
    "delta": "--delta",
    "epsilon": "--epsilon",
    "categories": "--categories",
    "noise_multiplier": "--noise",
    "sigma": "--noise",
    "scale": "--noise",
    "rate": "--sampling",
}

#: The refusals that name a parameter, a function or a keyword of Python, in the words of the command.
WORDS: Mapping[str, str] = {
    "allocation-not-replaced": (
        "random allocation is proved for add/remove and zero-out; ask for --adjacency add-remove"
    ),
    "correction-refused": (
        "{names} cannot be paid for once more: no delta is left for corrections. Run again with --lost "
        "leave-out to publish the others, and in the next job keep a share for corrections with "
        "budget.reserve, such as 0.05"
    ),
    "delta-needed": (
        "{parameter} must be positive: this event has no finite epsilon at delta = 0 (Gaussian noise and "
        "approximate guarantees never do); ask for a delta well below one over the number of people, such as "
        "1e-6"
    ),
    "fixed-size-is-public": (
        "sampling without replacement keeps the size of the data public, so it has no guarantee for "
        "add/remove; ask for --adjacency replace-one, or --scheme poisson"
    ),
    "ledger-missing": "there is no ledger here; check the path (tacit run makes a new one)",
    "output-failed": (
        "an output failed, or was stopped, after the data was touched: what was paid stays paid, and it is "
        "not drawn again. Run again with --lost correct to pay for it once more, or with --lost leave-out to "
        "publish the others"
    ),
    "output-lost": (
        "an earlier run began {names} and was stopped before the answer was stored. A draw is never repeated "
        "under the same reservation: run again with --lost correct to pay for it once more (a correction), "
        "or with --lost leave-out to publish the others"
    ),
    "parameter-range": "{parameter} must be {range}, not {given}",
    "poisson-needs-add-remove": (
        "Poisson sampling amplifies guarantees for add/remove, because its sample size is random; the inner "
        "event is stated for replace-one. State it for add-remove, or use --scheme without-replacement"
    ),
    "relation-not-covered": (
        "a guarantee stated for {stated.value} says nothing about {asked.value}: the number of records is "
        "public in the first and private in the second. Add --null-record if the computation treats an "
        "absent record exactly as a public null record, or ask for --adjacency {stated.value}"
    ),
    "statement-failed": "{engine} could not run the statement; tacit explain shows it",
}


def in_options(error: Refusal, otherwise: str | None = None) -> str:
    """What is refused, in the words of the command; where it has none, `otherwise` or the error's own."""
    parameter = error.facts.get("parameter")
    return error.said(WORDS, otherwise, parameter=OPTIONS.get(str(parameter), parameter))
