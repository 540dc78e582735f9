"""What travels with a released value."""

from __future__ import annotations

import pytest

from tacit.accounting import Adjacency, PureDP
from tacit.calculus import Absolute, AddRemove, Anything, Integers, Measurement, Release, Rows, Space, UnprovedError, count
from tacit.noise import discrete_laplace
from tacit.noise import test_mode as seeded

PLAN = Space(Rows(Anything()), AddRemove()) >> count()
NOISE = Measurement(
    Space(Integers(), Absolute()), lambda x: x + discrete_laplace(2), lambda d: PureDP(d / 2), "noise", "textbook 1.10"
)


def test_a_live_release_is_private_and_priced() -> None:
    found = (PLAN >> NOISE).release([1, 2, 3])
    assert found.private and found.adjacency is Adjacency.ADD_REMOVE
    assert found.epsilon().upper == 0.5
    assert found.marks == ()


def test_a_seeded_release_says_so_everywhere() -> None:
    with seeded(1):
        found = (PLAN >> NOISE).release([1, 2, 3])
    for release in (found, found.map(str), found.map(lambda v: v).map(abs)):
        assert not release.private
        assert "NOT PRIVATE" in repr(release)
        with pytest.raises(UnprovedError, match="NOT PRIVATE"):
            release.epsilon()


def test_an_unproved_release_names_the_claim_and_has_no_epsilon() -> None:
    found = Release(4, PureDP(1), unproved=("mine",))
    assert "UNPROVED: mine" in repr(found)
    with pytest.raises(UnprovedError, match="mine"):
        found.epsilon()
    both = Release(4, PureDP(1), private=False, unproved=("mine",))
    assert len(both.marks) == 2


def test_post_processing_is_free() -> None:
    found = Release(-3, PureDP(1)).map(abs)
    assert found.value == 3 and found.event == PureDP(1)
