"""Refusals of the energy package: a code with its facts, and the words for Python.

A file that does not parse is refused with its name, the line and the fix, before anything is paid. The words never
quote what stands in the file: a load is a customer's data.

>>> str(EnergyError(code="case-unreadable", name="case9.m", line=12, reason="a row has 12 numbers", fix="give 13"))
'case9.m, line 12: a row has 12 numbers; give 13'
"""

from __future__ import annotations

from collections.abc import Mapping

from tacit.errors import PackageMissing, Refusal

#: The refusals of this package, worded for Python.
WORDS: Mapping[str, str] = {
    "case-unreadable": "{name}, line {line}: {reason}; {fix}",
    "congestion-sets-needed": (
        "{sets} congestion sets would have to be checked, and {limit} are the most; which lines and generators may be "
        "at their limits together must be declared, as congestion. No sample of the sets gives a bound"
    ),
    "cost-out-of-reach": (
        "no loads of this network have a cost within {band:.3g} of {cost:.10g}: what it can spend lies between "
        "{least:.10g} and {most:.10g}; correct the public cost"
    ),
    "regions-overlap": "bus {bus} is in two regions; each bus belongs to one region, or the sums do not add up",
    "unit-differs": (
        "the account protects {unit!r}, and this release {needed!r}; open an account for that unit under replace-one, "
        "because losses of different units are never added up"
    ),
}


class EnergyError(Refusal, ValueError):
    """A file, a network or a request of the energy package that is refused."""

    words = WORDS


def pandapower() -> object:
    """The package pandapower, or a refusal that names the extra."""
    try:
        import pandapower as found
    except ImportError:
        raise PackageMissing(code="package-missing", package="pandapower", install="'tacit[energy]'") from None
    return found
