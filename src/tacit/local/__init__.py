"""Local and shuffled privacy: reports are randomised on people's devices, so no collector is trusted.

>>> protocol = frequencies(["smile", "wink", "cry"], epsilon=1)
>>> reports = protocol.randomiser.privatise(protocol.places(["smile", "cry", "cry"]))
>>> reports.shape
(3,)
"""

from tacit.local.choose import best, candidates, explain, frequencies
from tacit.local.collector import Collector, Estimates, detectable
from tacit.local.hadamard import Hadamard
from tacit.local.hashing import LocalHash
from tacit.local.projective import Projective
from tacit.local.protocol import Label, Protocol
from tacit.local.randomiser import Randomiser
from tacit.local.reports import as_batch, protocol_of, read_batch, read_reports, read_stream, sealed, to_batch, to_report
from tacit.local.response import Response
from tacit.local.subset import Subset
from tacit.local.unary import SymmetricUnary, Unary

# what a protocol is, and which one to take
__all__ = ["Label", "Protocol", "Randomiser", "best", "candidates", "detectable", "explain", "frequencies"]
# randomisers for frequencies
__all__ += ["Hadamard", "LocalHash", "Projective", "Response", "Subset", "SymmetricUnary", "Unary"]
# reports, and who counts them
__all__ += ["Collector", "Estimates", "as_batch", "protocol_of", "read_batch", "read_reports", "sealed", "to_batch", "to_report"]
__all__ += ["read_stream"]
