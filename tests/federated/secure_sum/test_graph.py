"""Degree and threshold against tails that are counted in whole numbers; neighbours are regular, symmetric
and the same everywhere."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import pytest

from tacit.errors import ParameterError
from tacit.federated import graph_for
from tacit.federated.secure_sum.graph import EXPOSED, STUCK, neighbours

#: clients, colluding, dropping out -> degree, threshold (specification 10, section 6)
TABLE = {
    (100, 0.1, 0.1): (22, 11), (100, 0.2, 0.3): (58, 29), (100, 0.3, 0.3): (60, 31),
    (1000, 0.1, 0.1): (46, 26), (1000, 0.2, 0.3): (166, 83), (1000, 0.3, 0.3): (218, 116),
    (10_000, 0.1, 0.1): (54, 30), (10_000, 0.2, 0.3): (222, 111), (10_000, 0.3, 0.3): (300, 158),
}  # fmt: skip


def tail(people: int, marked: int, drawn: int, least: int) -> Fraction:
    """P[at least so many marked], by counting."""
    ways = sum(
        comb(marked, i) * comb(people - marked, drawn - i)
        for i in range(max(least, 0), min(drawn, marked) + 1)
    )
    return Fraction(ways, comb(people, drawn))


@pytest.mark.parametrize(("given", "wanted"), TABLE.items())
def test_the_table(given: tuple[int, float, float], wanted: tuple[int, int]) -> None:
    n, colluding, dropouts = given
    found = graph_for(n, dropouts, colluding)
    assert (found.degree, found.threshold) == wanted


@pytest.mark.parametrize(("n", "colluding", "dropouts"), [(100, 20, 30), (100, 10, 10), (1000, 200, 300)])
def test_tails_are_those_of_counting(n: int, colluding: int, dropouts: int) -> None:
    found = graph_for(n, dropouts / n, colluding / n)
    k, t = found.degree, found.threshold
    exact = (
        n * tail(n - 1, colluding, k, t),
        n * tail(n - 1, dropouts, k, k - t + 1),
        comb(n, 2) * tail(n, colluding + dropouts, k, k),
    )
    for figure, truth in zip((found.exposed, found.stuck, found.divided), exact, strict=True):
        assert float(truth) <= figure <= float(truth) * (1 + 1e-6) + 1e-300
    assert found.exposed <= EXPOSED and found.divided <= EXPOSED and found.stuck <= STUCK
    # two neighbours fewer would not do, whatever the threshold from half of them on
    less = k - 2
    assert not any(
        n * tail(n - 1, colluding, less, s) <= EXPOSED
        and n * tail(n - 1, dropouts, less, less - s + 1) <= STUCK
        for s in range(less // 2, less + 1)
    )


def test_few_clients_mask_with_everyone() -> None:
    for n in range(2, 12):
        found = graph_for(n, dropouts=1 / n if n > 2 else 0, colluding=1 / n if n > 3 else 0)
        assert found.complete or n > 4
        assert 1 <= found.threshold <= found.degree - (n > 2)
    with pytest.raises(ParameterError):
        graph_for(3, dropouts=0.7, colluding=0.4)
    for bad in ((1, 0.1, 0.1), (10, -0.1, 0.1), (10, 0.1, 1.5)):
        with pytest.raises(ParameterError):
            graph_for(*bad)


@pytest.mark.parametrize(("n", "dropouts", "colluding"), [(10, 0.1, 0.1), (100, 0.2, 0.1), (300, 0.3, 0.1)])
def test_against_a_malicious_server_two_lists_open_nothing(n: int, dropouts: float, colluding: float) -> None:
    """Both secrets of a client need two times the threshold, of honest neighbours once each and of colluding
    ones twice."""
    found = graph_for(n, dropouts, colluding, malicious=True)
    assert found.complete and found.divided == 0 == found.exposed and found.stuck == 0
    bad = round(n * colluding)
    assert n * tail(n - 1, bad, found.degree, 2 * found.threshold - found.degree) <= EXPOSED
    assert (
        found.threshold > graph_for(n, dropouts, colluding).threshold
        or found.degree > graph_for(n, dropouts, colluding).degree
    )


@pytest.mark.parametrize(("n", "degree", "bad"), [(10, 4, 5), (12, 4, 6), (11, 6, 7)])
def test_survivors_fall_apart_no_more_often_than_is_claimed(n: int, degree: int, bad: int) -> None:
    """Every set of clients who are gone or collude, counted: those that leave the others in parts are within
    the union bound."""
    near = neighbours(range(n), degree, b"seed")
    apart = 0
    for lost in combinations(range(n), bad):
        left = set(range(n)) - set(lost)
        reached, open_ = set(), [min(left)]
        while open_:
            at = open_.pop()
            reached.add(at)
            open_ += [other for other in near[at] if other in left and other not in reached]
        apart += reached != left
    assert 0 < Fraction(apart, comb(n, bad)) <= comb(n, 2) * tail(n, bad, degree, degree)


def test_neighbours_are_regular_symmetric_and_known_to_all() -> None:
    clients = [7 * i + 1 for i in range(50)]
    found = neighbours(clients, 8, b"seed")
    assert all(neighbours(clients, 8, b"seed", of=client) == {client: near} for client, near in found.items())
    assert found == neighbours(list(reversed(clients)), 8, b"seed") != neighbours(clients, 8, b"other")
    for client, near in found.items():
        assert len(set(near)) == 8 and client not in near and list(near) == sorted(near)
        assert all(client in found[other] for other in near)


def test_every_pair_is_as_likely_as_any_other() -> None:
    """10 clients, degree 4: a pair is joined with chance 4/9. 3,000 seeds, each of 45 pairs within 4.5
    deviations: error rate 3e-4."""
    counts = dict.fromkeys([(i, j) for i in range(10) for j in range(i)], 0)
    for seed in range(3000):
        found = neighbours(range(10), 4, seed.to_bytes(4, "big"))
        for i, j in counts:
            counts[i, j] += j in found[i]
    spread = (3000 * 4 / 9 * 5 / 9) ** 0.5
    assert all(abs(count - 3000 * 4 / 9) < 4.5 * spread for count in counts.values())
