"""What this room refuses, each with a code and its facts. All of them are raised before anything is paid for.

>>> str(FairnessError(code="attribute-missing", attribute="sex"))
"there is no attribute 'sex' among the sensitive features; name it there, or leave it out of groups"
"""

from __future__ import annotations

from collections.abc import Mapping

from tacit.errors import Refusal

WORDS: Mapping[str, str] = {
    "groups-undeclared": (
        "groups is missing: declare the attributes and, for each, the values that can occur; they must be public"
    ),
    "groups-values": "the group attribute {attribute!r} must list at least two different values",
    "features-missing": "sensitive_features is missing: give one column for each declared attribute",
    "attribute-missing": (
        "there is no attribute {attribute!r} among the sensitive features; name it there, or leave it out of groups"
    ),
    "column-shape": "a column must be a list of values or an array with one axis, one value for each person",
    "rows-differ": "{column} has another number of rows than the labels",
    "rate-unknown": "there is no rate {given!r}; the rates are {known}",
    "notion-unknown": "there is no notion {given!r}; the notions are {known}, or the name of a rate",
    "distances-square": "distances must be a square matrix of finite numbers, one row for each individual",
    "distances-negative": "the distance between individuals {first} and {second} is negative; distances are 0 or more",
    "distances-asymmetric": (
        "the distance between individuals {first} and {second} differs from that between {second} and {first}"
    ),
    "distances-self": "individual {first} has a distance to itself; it must be 0",
    "distances-triangle": (
        "the distance between {first} and {third} is larger than the way over {second}: this is no metric. Use the "
        "shortest ways (shortest_paths), or correct the distances"
    ),
    "loss-shape": "loss must be a matrix of finite numbers: one row for each individual, one column for each label",
    "weights-sum": "weights must be non-negative numbers, one for each individual, not all 0",
    "scores-range": "{name} must be declared between 0 and 1; scores outside are moved to the nearest end",
    "gap-uncertain": (
        "a gap of {gap:g} is below what this budget can certify ({least:.2g} for the smallest group that was declared): "
        "ask for a larger gap, or give the correction more of the budget"
    ),
    "lp-failed": "the linear programme was not solved: {reason}",
    "hypotheses-empty": "give at least two hypotheses, each a function of the rows that is fixed beforehand",
    "session-other": "this session was begun for other items; begin a new one, or give the items it was begun with",
    "answer-unknown": "an answer is {known}, not {given!r}",
}


class FairnessError(Refusal, ValueError):
    """Something about groups, metrics, scores or the budget cannot be worked with; the message names the fix."""

    words = WORDS
