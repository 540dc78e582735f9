"""`tacit selftest`: every mechanism of Tacit attacked, and every known fault put in and caught.

>>> from tacit.audit.claim import Claim
>>> flip = Mutant("a fair coin that is not", lambda yes, n: [yes] * n, lambda yes, n: [0] * n, (0, 1), Claim.of(epsilon=1), 1000, bulk=True)
>>> "epsilon ≥" in flip.caught(seed=1), flip.caught(seed=1, broken=False)
(True, '')
"""

from tacit.audit.selftest.case import Case, Mutant, Outcome, promise
from tacit.audit.selftest.running import Catch, Part, SelfTest, run

__all__ = ["Case", "Catch", "Mutant", "Outcome", "Part", "SelfTest", "promise", "run"]
