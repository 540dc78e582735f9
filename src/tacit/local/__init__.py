"""Local and shuffled privacy: reports are randomised on people's devices, so no collector is trusted.

>>> protocol = frequencies(["smile", "wink", "cry"], epsilon=1)
>>> reports = protocol.randomiser.privatise(protocol.places(["smile", "cry", "cry"]))
>>> reports.shape
(3,)
"""

from tacit.local.choose import best, candidates, explain, frequencies
from tacit.local.client import Client
from tacit.local.collector import Collector, Estimates, detectable
from tacit.local.hadamard import Hadamard
from tacit.local.hashing import LocalHash
from tacit.local.noise_shares import poisson, polya_share, skellam_share
from tacit.local.planner import LocalPlan, Option, people_needed, plan
from tacit.local.poisoning import Suspicion, forge, forged_for, shift, suspicious
from tacit.local.postprocess import clip, iterative_bayes, norm_sub, simplex
from tacit.local.projective import Projective
from tacit.local.protocol import Label, Protocol
from tacit.local.randomiser import Randomiser
from tacit.local.rappor import BloomCounts, Decoded, Device, Rappor, joint_shares
from tacit.local.replicas import Replicas, noised, update_event
from tacit.local.reports import as_batch, protocol_of, read_batch, read_reports, read_stream, schema, sealed, to_batch, to_report
from tacit.local.response import Response
from tacit.local.shuffler import Shuffler
from tacit.local.subset import Subset
from tacit.local.telemetry import BitFlip, OneBitMean, RoundingDevice
from tacit.local.unary import SymmetricUnary, Unary

# what a protocol is, and which one to take
__all__ = ["Label", "Protocol", "Randomiser", "best", "candidates", "detectable", "explain", "frequencies"]
# randomisers for frequencies
__all__ += ["Hadamard", "LocalHash", "Projective", "Response", "Subset", "SymmetricUnary", "Unary"]
# reports, and who counts them
__all__ += ["Client", "Collector", "Estimates", "as_batch", "protocol_of", "read_batch", "read_reports", "schema", "sealed"]
__all__ += ["to_batch", "to_report"]
# between people and the collector: shuffling, shares of noise, forged reports
__all__ += ["Shuffler", "Suspicion", "forge", "forged_for", "poisson", "polya_share", "shift", "skellam_share", "suspicious"]
# before anything is sent
__all__ += ["LocalPlan", "Option", "people_needed", "plan"]
# streams, applications
__all__ += ["clip", "iterative_bayes", "norm_sub", "read_stream", "simplex"]
__all__ += ["BitFlip", "BloomCounts", "Decoded", "Device", "OneBitMean", "Rappor", "RoundingDevice", "joint_shares"]
__all__ += ["Replicas", "noised", "update_event"]
