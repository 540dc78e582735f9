"""Attacks on a function of a data set, seen from outside.

`audit_mechanism` runs them all: `neighbours` makes pairs of inputs, `replay` compares two runs with frozen answers,
`attack` searches over outputs, `search_inputs` over inputs, `check_floats` looks at low-order bits, `compare_times` at the
clock. Where both laws are known, `LawPair` gives exact figures instead. `audit_reports` does the same for devices of a local protocol.
"""

from tacit.audit.mechanisms import neighbours, replay
from tacit.audit.mechanisms.exact_laws import LawPair, OutputSet, worst_pair
from tacit.audit.mechanisms.floats import FloatReport, bit_attack, check_floats, porous_attack
from tacit.audit.mechanisms.inputs import FoundInputs, search_inputs
from tacit.audit.mechanisms.local_reports import audit_reports
from tacit.audit.mechanisms.neighbours import Neighbours
from tacit.audit.mechanisms.outputs import Outputs, Sampler, outcomes
from tacit.audit.mechanisms.replay import Divergence, intercepted, probe
from tacit.audit.mechanisms.report import MechanismReport, audit_mechanism
from tacit.audit.mechanisms.search import Band, attack, band, certify
from tacit.audit.mechanisms.sequential import Sequential, audit_until
from tacit.audit.mechanisms.timing import TimingReport, compare_times, regress_times, time_draws

__all__ = [
    "Band", "Divergence", "FloatReport", "FoundInputs", "LawPair", "MechanismReport", "Neighbours", "OutputSet", "Outputs", "Sampler",
    "Sequential", "TimingReport", "attack", "audit_mechanism", "audit_reports", "audit_until", "band", "bit_attack", "certify",
    "check_floats", "compare_times", "intercepted", "neighbours", "outcomes", "porous_attack", "probe",
    "regress_times", "replay", "search_inputs", "time_draws", "worst_pair",
]
