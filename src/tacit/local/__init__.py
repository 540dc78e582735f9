"""Local and shuffled privacy: reports are randomised on people's devices, so no collector is trusted.

>>> oracle = Projective(1000, epsilon=1)
>>> oracle.privatise([7, 7, 900]).shape
(3,)
"""

from tacit.local.hadamard import Hadamard
from tacit.local.hashing import LocalHash
from tacit.local.projective import Projective
from tacit.local.randomiser import Randomiser
from tacit.local.response import Response
from tacit.local.subset import Subset
from tacit.local.unary import SymmetricUnary, Unary

__all__ = ["Hadamard", "LocalHash", "Projective", "Randomiser", "Response", "Subset", "SymmetricUnary", "Unary"]
