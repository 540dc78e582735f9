"""Every auditor of the package beside a mechanism whose truth is known: the table that `test_validity` runs a thousand times.

An auditor here is one way to get a number with a confidence out of `tacit.audit`. Its run returns that number; it is wrong where it lies
above the truth, which may happen in at most `error` of the runs. Tests that only say "found" or not return 1 or 0, with a truth of 1/2.
The mutant is what one would get by a mistake that is made in practice: a point estimate, the luckiest of many thresholds, a look after
each batch, an interval where two are needed. It is run through the same check and must fail it.
"""

from __future__ import annotations

from tests.audit.auditors.auditor import Auditor, Run
from tests.audit.auditors.black_boxes import floats, rates, searches
from tests.audit.auditors.leaks import clocks, leakage, secrets
from tests.audit.auditors.models import games
from tests.audit.auditors.scores import canaries, scores

__all__ = ["AUDITORS", "Auditor", "Run"]

AUDITORS: tuple[Auditor, ...] = (
    *rates(), *searches(), *floats(), *scores(), *canaries(), *games(), *secrets(), *leakage(), *clocks(),
)  # fmt: skip
