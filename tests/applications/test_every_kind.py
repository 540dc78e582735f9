"""Every kind of output that an application brings is attacked: its cases stand in the self-test of its room."""

from __future__ import annotations

import pytest

from tacit.applications.energy import selftest as energy
from tacit.applications.health import selftest as health
from tacit.applications.vision import selftest as vision
from tacit.release.kinds import KINDS

#: Kinds of other rooms, which those attack.
OTHERS = {"table", "workload", "synthesis", "reports", "clients", "fairness", "model"}
CASES = {
    "survival": ["health: survival curves"],
    "cohort": ["health: cohort count"],
    "contingency": ["health: contingency table"],
    "gwas": ["health: association", "health: association with a threshold and statistics"],
    "profile": ["energy: a load profile"],
    "network": ["energy: a load of a case", "energy: a complex load", "energy: a paid cost"],
    "images": ["vision: pixelized, cut cells", "vision: pixelized in colour", "vision: pixels one by one", "vision: singular values"],
    "tracks": ["vision: tracks"],
    # no kinds of a job
    "beacon": ["health: beacon"],
    "regions": ["energy: regional sums"],
    "charging": ["energy: requested energy", "energy: the busiest day"],
    "gaze": ["vision: gaze"],
}
#: The faults that must be caught, by the words of the specification.
FAULTS = {
    "one-sided clamp": ["health: one-sided clamp", "energy: one-sided clamp of noise", "vision: one-sided clamp"],
    # the ratio itself adds noise rather than taking it away: it is caught by its floor, in tests/conformance/test_chapter_9.py
    "1/eps as ratio": ["energy: 1/epsilon taken for epsilon"],
    "one price for k SNPs": ["health: one price for k variants"],
    "one scale for ragged cells": ["vision: one scale for cut cells"],
    "channels not split": ["vision: channels not split"],
    "region sums with shared noise": ["energy: region sums with shared noise"],
    "threshold of the top k unpaid": ["health: a threshold unpaid"],
}


def names(made: str) -> set[str]:
    return {one.name for room in (health, energy, vision) for one in getattr(room, made)()}


def test_every_kind_has_its_cases() -> None:
    assert set(KINDS) - OTHERS == set(CASES) - {"beacon", "regions", "charging", "gaze"}
    assert {name for group in CASES.values() for name in group} == names("cases")


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_has_its_mutant(fault: str) -> None:
    assert set(FAULTS[fault]) <= names("mutants")
