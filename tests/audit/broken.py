"""The broken functions of the self-test, under the name the other tests know them by."""

from tacit.audit.selftest.case import Mutant
from tacit.audit.selftest.mutants import MUTANTS, count, half_noise, reset

__all__ = ["MUTANTS", "Mutant", "count", "half_noise", "reset"]
