"""Attacks on measurements, training runs, channels and releases: a lower bound, with its confidence, beside every proof.

>>> from tacit.noise import discrete_laplace
>>> def count(rows):
...     return len(rows) + discrete_laplace(2)  # half of what is claimed
>>> report = audit_mechanism(count, "eps=1", data=[1, 2, 3], trials=2000, seed=1)
>>> report.broken, report.worst.share < 0.6
(False, True)
"""

from tacit.audit.claim import Claim, Evidence, Verdict, judge
from tacit.audit.mechanisms.exact_laws import Pair, worst_pair
from tacit.audit.mechanisms.ranks import rank_attack
from tacit.audit.mechanisms.report import MechanismReport, audit_mechanism
from tacit.audit.mechanisms.search import attack, band, certify
from tacit.audit.mechanisms.sequential import audit_until
from tacit.audit.models.games import Game, MembershipGame
from tacit.audit.models.report import ModelReport, audit_model
from tacit.audit.page import Page, page_of
from tacit.audit.rates import OperatingPoint, epsilon_of, mu_of, operating_point

__all__ = [
    "Claim",
    "Evidence",
    "Game",
    "MechanismReport",
    "MembershipGame",
    "ModelReport",
    "OperatingPoint",
    "Page",
    "Pair",
    "Verdict",
    "attack",
    "audit_mechanism",
    "audit_model",
    "audit_until",
    "band",
    "certify",
    "epsilon_of",
    "judge",
    "mu_of",
    "operating_point",
    "page_of",
    "rank_attack",
    "worst_pair",
]
