"""Leakage of channels: Bayes risk, capacity, estimators that learn from examples, and what they say about epsilon.

Use `Channel` where the law of every observation is known (`builders` makes some), and `convergence` or `audit_local`
where there are only examples. `bounds` says what a Bayes risk means for epsilon and the other way round. Figures of a
channel are exact up to rounding; what is measured bounds a leak from below only.

>>> coin = builders.randomised_response(2, 1.0)
>>> round(coin.bayes_risk(), 6), round(bounds.local_epsilon_floor(coin.bayes_risk(), 2), 6)
(0.268941, 1.0)
"""

from tacit.audit.leakage import bounds, builders
from tacit.audit.leakage.attack import (
    LeakageAudit,
    RiskEstimate,
    audit_examples,
    audit_local,
    audit_neighbours,
    estimate_risk,
    risk_upper,
    validation_size,
)
from tacit.audit.leakage.channel import Capacity, Channel, RateDistortion, capacity, rate_distortion
from tacit.audit.leakage.estimators import RULES, Convergence, Rule, convergence, fit, geometric_sizes, k_nearest, support_vectors
from tacit.audit.leakage.information import Information, mine

__all__ = [
    "RULES", "Capacity", "Channel", "Convergence", "Information", "LeakageAudit", "RateDistortion", "RiskEstimate", "Rule",
    "audit_examples", "audit_local", "audit_neighbours", "bounds", "builders", "capacity", "convergence",
    "estimate_risk", "fit", "geometric_sizes", "k_nearest", "mine", "rate_distortion", "risk_upper", "support_vectors",
    "validation_size",
]
