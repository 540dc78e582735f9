"""The Jacobian and the monotonicity ratio: the textbook's system, finite differences, published numbers, honest refusal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.applications.energy.cases import case

from tacit.applications.energy import Congestion, EnergyError, Network, count_sets, dispatch, jacobian, monotonicity
from tacit.applications.energy.network import Cost


def textbook(network: Network, congestion: Congestion) -> NDArray[np.float64]:
    """Theorem 10.11 as corrected: M = [I_VL L; I_SG L; I_SB B C'; e_1'], Z = inverse of M, J = -(I_VG L Z) on the loads' columns.

    For networks with one generator at a bus, and loads elsewhere.
    """
    laplacian = network.laplacian.toarray()
    generators = network.generator_places
    loads = np.setdiff1d(np.arange(len(network.bus)), generators)
    fixed = [int(network.places[bus]) for bus in congestion.generators]
    flows = (network.incidence * network.susceptance[None, :]).T.toarray()
    pairs = [{int(network.buses[a]), int(network.buses[b])} for a, b in network.ends]
    full = [flows[pairs.index(set(line))] for line in congestion.lines]
    slack = np.eye(len(network.bus))[network.reference]
    matrix = np.vstack([laplacian[loads], laplacian[fixed], *(row[None, :] for row in full), slack[None, :]])
    found = -(laplacian[generators] @ np.linalg.inv(matrix))[:, : len(loads)]
    out = np.full((len(generators), len(network.bus)), np.nan)
    out[:, loads] = found
    return out


@pytest.mark.parametrize(
    "congestion",
    [Congestion((1, 3)), Congestion((1,), ((8, 9),)), Congestion((1,), ((5, 6),)), Congestion((), ((4, 5), (7, 8)))],
)
def test_the_jacobian_is_the_textbooks_as_corrected(congestion: Congestion) -> None:
    network = Network.nine_buses()
    ours, theirs = jacobian(network, congestion), textbook(network, congestion)
    known = ~np.isnan(theirs)
    np.testing.assert_allclose(ours[known], theirs[known], atol=1e-9)
    np.testing.assert_allclose(ours.sum(axis=0), 1, atol=1e-9)


def test_the_theorem_as_printed_has_no_square_matrix() -> None:
    """E10: with I_VG in the second block the rows are N_L + N_G + |S_B| + 1, which is not N."""
    network = Network.nine_buses()
    loads, generators, lines = 6, 3, 1
    assert loads + generators + lines + 1 != len(network.bus)
    assert loads + 1 + lines + 1 == len(network.bus)  # with one generator at its limit


def test_figure_10_3() -> None:
    """Spec 05: bus 9 with generator 1 and line 8-9 gives (0, -2.0081, 3.0081), bus 5 with line 5-6 (0, 2.956, -1.956)."""
    network = Network.nine_buses()
    nine = jacobian(network, Congestion((1,), ((8, 9),)))[:, network.places[9]]
    five = jacobian(network, Congestion((1,), ((5, 6),)))[:, network.places[5]]
    np.testing.assert_allclose(nine, [0, -2.008102, 3.008102], atol=1e-6)
    np.testing.assert_allclose(five, [0, 2.956, -1.956], atol=5e-4)


def test_the_jacobian_is_the_slope_of_the_linear_program() -> None:
    """Finite differences of the dispatch itself, for random costs, limits and loads: equal to 1e-8."""
    rng = np.random.default_rng(11)
    checked = set()
    for _ in range(120):
        name = ("case9", "case6ww")[rng.integers(2)]
        network = case(name)
        branch = network.branch.copy()
        branch[:, 5] = rng.uniform(20, 160, len(branch))
        costs = tuple(Cost(0.0, float(c), 0.0) for c in rng.uniform(1, 10, len(network.gen)))
        drawn = replace(network, branch=branch, costs=costs).with_loads(rng.uniform(20, 110, len(network.load_buses)))
        try:
            base = dispatch(drawn)
        except EnergyError:
            continue
        if len(base.at_limit) + len(base.congested) != len(network.gen) - 1:
            continue
        binding = Congestion(
            tuple(int(drawn.gen[i, 0]) for i in base.at_limit),
            tuple((int(drawn.buses[a]), int(drawn.buses[b])) for a, b in drawn.ends[list(base.congested)]),
        )
        slopes = jacobian(drawn, binding)
        for place in drawn.load_places:
            step = np.zeros(len(drawn.bus))
            step[place] = 0.05
            up, down = dispatch(drawn, drawn.loads + step), dispatch(drawn, drawn.loads - step)
            if up.at_limit == down.at_limit == base.at_limit and up.congested == down.congested == base.congested:
                found = (up.generation - down.generation) / 0.1
                np.testing.assert_allclose(found, slopes[:, place], atol=1e-8 * max(1.0, np.abs(slopes).max()))
                checked.add((name, binding))
    assert len(checked) >= 15 and any(binding.lines for _, binding in checked)


@pytest.mark.parametrize(
    ("name", "ratio", "sets"), [("case9", 2.008102, 60), ("case6ww", 48.6532, 91), ("case14", 2633.6341, 6144)]
)
def test_published_ratios(name: str, ratio: float, sets: int) -> None:
    """Spec 11, E21. The number of case14 ignores its transformers' taps, as the book's model does."""
    network = case(name)
    branch = network.branch.copy()
    branch[:, 8] = 0
    found = monotonicity(replace(network, branch=branch))
    assert (round(found.ratio, len(str(ratio).split(".")[1])), found.sets) == (ratio, sets)
    assert found.scale(5, 1) == 2 * (1 + found.ratio) * 5


def test_with_taps_fourteen_buses_have_a_slightly_smaller_ratio() -> None:
    found = monotonicity(case("case14"))
    assert (round(found.ratio, 3), found.sets, found.bus) == (2560.092, 6144, 12)
    assert "2560.09 MW in all" in found.words() and "every set" in found.words()


def test_random_networks_of_nine_buses_never_exceed_the_ratio_and_come_near() -> None:
    """Random costs, limits and loads (spec 05: the ratio is attained, never exceeded), by the linear program alone."""
    rng = np.random.default_rng(5)
    network, worst = Network.nine_buses(), 0.0
    for _ in range(250):
        branch = network.branch.copy()
        branch[rng.integers(9), 5] = rng.uniform(5, 100)
        branch[7, 5] = rng.uniform(5, 80)  # line 8-9
        costs = tuple(Cost(0.0, float(c), 0.0) for c in rng.uniform(1, 10, 3) * [3, 1, 1])
        drawn = replace(network, branch=branch, costs=costs)
        loads = np.zeros(9)
        loads[network.load_places] = rng.uniform(20, 120, 3)
        other = loads.copy()
        other[network.load_places[rng.integers(3)]] += 0.5
        try:
            first, second = dispatch(drawn, loads), dispatch(drawn, other)
        except EnergyError:
            continue
        worst = max(worst, float(np.maximum(0, first.generation - second.generation).sum() / 0.5))
    assert 1.9 < worst <= 2.008102 + 1e-6


def test_too_many_sets_are_refused_and_declared_ones_are_taken() -> None:
    network = case("case30")
    with pytest.raises(EnergyError) as caught:
        monotonicity(network)
    assert caught.value.code == "congestion-sets-needed"
    assert caught.value.facts == {"sets": count_sets(network), "limit": 100_000}
    declared = [Congestion((2, 13, 22, 23, 27)), Congestion((2, 13, 22, 23), ((6, 8),))]
    found = monotonicity(network, declared)
    assert found.declared and found.sets == 2 and "declared congestion only" in found.words()
    assert found.ratio == pytest.approx(
        max(float(np.maximum(0, -jacobian(network, one)[:, network.load_places]).sum(axis=0).max()) for one in declared)
    )


@pytest.mark.parametrize(
    ("congestion", "words"),
    [
        ([], "no congestion"),
        ([Congestion((1,))], "2 free generators and 0 full lines"),
        ([Congestion((4,))], "no generator at bus 4"),
        ([Congestion((1,), ((1, 9),))], "no line 1-9"),
        ([Congestion((), ((8, 9), (9, 8)))], "declared twice"),
    ],
)
def test_declared_sets_that_determine_nothing_are_refused(congestion: list[Congestion], words: str) -> None:
    with pytest.raises(EnergyError, match=words):
        monotonicity(Network.nine_buses(), congestion)


def test_a_set_that_cannot_bind_is_refused() -> None:
    """Line 1-4 is the only way from generator 1: full while that generator is at its limit, it says nothing new."""
    with pytest.raises(EnergyError, match="cannot bind together"):
        jacobian(Network.nine_buses(), Congestion((1,), ((1, 4),)))


def test_loads_at_generators_are_served_where_they_are() -> None:
    """Spec 11, 2.9: a load beside a free generator moves that one alone; beside one at its limit it is like any other."""
    network = Network.nine_buses().declare_load_buses()
    slopes = jacobian(network, Congestion((1, 3)))
    np.testing.assert_allclose(slopes[:, network.places[2]], [0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(slopes[:, network.places[1]], [0, 1, 0], atol=1e-12)
    assert monotonicity(network).ratio == pytest.approx(2.008102, abs=1e-6)
