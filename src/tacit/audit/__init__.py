"""Attacks on measurements, training runs, channels and releases: a lower bound, with its confidence, beside every proof.

`audit_mechanism` attacks a function of a data set, `audit_reports` a local protocol's reports and `audit_model` a training;
all hold what they find against a claim and return a report. `attack`, `rank_attack` and the others below are their parts, for
samples or scores that you have. Nothing here says that something is safe: an attack that fails proves nothing.

>>> from tacit.noise import discrete_laplace
>>> def count(rows):
...     return len(rows) + discrete_laplace(2)  # half of what is claimed
>>> report = audit_mechanism(count, "eps=1", data=[1, 2, 3], trials=2000, seed=1)
>>> report.broken, report.worst.share < 0.6
(False, True)

The folders `mechanisms`, `models` and `leakage` hold more of the same; `demonstrations` shows known attacks on releases,
and `selftest` attacks Tacit itself. The last three are loaded where they are used.
"""

# Imports inside functions: torch and scikit-learn are extras, and pictures and data frames are needed by few
# attacks.

from tacit.audit import mechanisms, models, rates
from tacit.audit.claim import Claim, Evidence, Verdict, held_against, judge
from tacit.audit.credible import Credible, credible, private_probability
from tacit.audit.experiment import generator
from tacit.audit.mechanisms import LawPair, MechanismReport, attack, audit_mechanism, audit_reports, audit_until, band, certify, worst_pair
from tacit.audit.mechanisms.report import page_of
from tacit.audit.models import (
    Game,
    MembershipGame,
    ModelReport,
    audit_gradients,
    audit_model,
    audit_one_run,
    audit_poisoning,
    coin_evidence,
    rank_attack,
)
from tacit.audit.page import Page
from tacit.audit.rates import OperatingPoint, epsilon_of, mu_of, operating_point

__all__ = [
    "Claim", "Credible", "Evidence", "Game", "LawPair", "MechanismReport", "MembershipGame", "ModelReport",
    "OperatingPoint", "Page", "Verdict", "attack", "audit_gradients", "audit_mechanism", "audit_model", "audit_one_run",
    "audit_poisoning", "audit_reports",
    "audit_until", "band", "certify", "coin_evidence", "credible", "demonstrations", "epsilon_of", "generator",
    "held_against", "judge", "leakage", "mechanisms", "models", "mu_of", "operating_point", "page_of", "private_probability", "rank_attack",
    "rates", "selftest", "worst_pair",
]
