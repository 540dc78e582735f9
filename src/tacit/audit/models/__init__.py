"""Attacks on trained models: membership games, canaries, poisoning, attributes and extraction.

`audit_model` plays a game with the usual membership attacks and holds the result against a claim. `audit_gradients`,
`audit_poisoning` and `audit_one_run` use records made for the purpose; `disclosure` asks what else a model gives away.
The submodules `membership`, `signals`, `roc` and `one_run` hold the attacks, what they measure, and what scores prove;
`synthetic` attacks synthesizers, and is loaded where it is used.
"""

from tacit.audit.models import disclosure, membership, one_run, roc, signals
from tacit.audit.models.canaries import (
    audit_gradients,
    audit_poisoning,
    canary_bank,
    gradient_scores,
    group_epsilon,
    watched_steps,
)
from tacit.audit.models.canary_clients import audit_clients, audit_question
from tacit.audit.models.games import Game, GameResult, MembershipGame
from tacit.audit.models.independent import coin_evidence, rank_attack
from tacit.audit.models.one_run import audit_one_run
from tacit.audit.models.poisoning import least_cost, most_success, poisoning_success, records_needed
from tacit.audit.models.report import ModelReport, audit_model

__all__ = [
    "Game",
    "GameResult",
    "MembershipGame",
    "ModelReport",
    "audit_clients",
    "audit_gradients",
    "audit_model",
    "audit_one_run",
    "audit_poisoning",
    "audit_question",
    "canary_bank",
    "coin_evidence",
    "disclosure",
    "gradient_scores",
    "group_epsilon",
    "least_cost",
    "membership",
    "most_success",
    "one_run",
    "poisoning_success",
    "rank_attack",
    "records_needed",
    "roc",
    "signals",
    "watched_steps",
]
