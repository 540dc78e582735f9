"""The dispatch: published optima, optimality conditions, and totality for every load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.applications.energy.cases import case

from tacit.applications.energy import EnergyError, Network, dispatch
from tacit.applications.energy.network import Cost

#: Objectives of MATPOWER's own `rundcopf`, in money for an hour (MATPOWER's manual and its test suite).
PUBLISHED = {"case9": 5216.03, "case14": 7642.59, "case30": 565.21, "case118": 125947.88, "case39": 41263.94, "case5": 17479.90}


def with_costs(network: Network, linear: list[float]) -> Network:
    """The network with linear costs."""
    return replace(network, costs=tuple(Cost(0.0, c, 0.0) for c in linear))


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_cost_is_matpowers(name: str) -> None:
    found = dispatch(case(name))
    assert found.cost == pytest.approx(PUBLISHED[name], abs=0.006)
    assert 0 <= found.cost - found.lower <= 1e-9 * found.cost


def test_linear_costs_of_nine_buses() -> None:
    """Spec 05, 10.5.2: Pg = (10, 35, 270), generators 1 and 3 at their limits, no line full; two limits, N_G - 1."""
    found = dispatch(with_costs(Network.nine_buses(), [5, 1.2, 1]))
    np.testing.assert_allclose(found.generation, [10, 35, 270], atol=1e-6)
    assert (found.at_limit, found.congested) == ((0, 2), ())


def test_a_dispatch_balances_and_keeps_its_limits() -> None:
    network = case("case118")
    found = dispatch(network)
    put_in = np.bincount(network.generator_places, weights=found.generation, minlength=118) - network.loads
    np.testing.assert_allclose(network.incidence @ found.flows, put_in, atol=1e-6)
    np.testing.assert_allclose(found.flows, network.ptdf @ put_in, atol=1e-5)
    assert (found.generation >= network.generator_limits[:, 0] - 1e-7).all()
    assert (found.generation <= network.generator_limits[:, 1] + 1e-7).all()


def test_free_generators_cost_at_the_margin_what_their_bus_pays() -> None:
    """The conditions of optimality, checked without the solver: marginal cost is the price where no limit binds."""
    network = case("case30")
    found = dispatch(network)
    margins = np.array([2 * c.square * p + c.linear for c, p in zip(network.costs, found.generation, strict=True)])
    free = [i for i in range(len(network.gen)) if i not in found.at_limit]
    np.testing.assert_allclose(margins[free], found.prices[network.generator_places[free]], rtol=1e-4)


def test_prices_are_slopes_of_the_cost() -> None:
    network = with_costs(case("case9"), [5.0, 1.2, 1.0])
    base = dispatch(network)
    for place in network.load_places:
        more = network.loads.copy()
        more[place] += 0.5
        assert dispatch(network, more).cost - base.cost == pytest.approx(0.5 * base.prices[place], rel=1e-6)


def test_loads_that_cannot_be_served_are_refused_or_shed() -> None:
    network = Network.nine_buses().with_loads([400, 400, 400])
    with pytest.raises(EnergyError, match="price="):
        dispatch(network)
    found = dispatch(network, price=100)
    assert found.shed.sum() == pytest.approx(1200 - found.generation.sum(), abs=1e-5)
    spilt = dispatch(Network.nine_buses().with_loads([0, 0, 0]), price=100)
    assert spilt.spilt.sum() == pytest.approx(30, abs=1e-6)  # what the generators must deliver at least


@pytest.mark.parametrize("load", [np.nan, np.inf, -np.inf, 1e308, -1e308])
def test_every_load_has_a_dispatch(load: float) -> None:
    network = Network.nine_buses().with_loads([load, 100, 125])
    assert np.isfinite(dispatch(network, price=50).cost)
    with pytest.raises(EnergyError):
        dispatch(network)


def test_one_load_moves_the_cost_by_at_most_the_price() -> None:
    """Spec 11, 2.7: the total dispatch is price-Lipschitz in each load, wherever the loads are."""
    rng = np.random.default_rng(3)
    for name in ("case9", "case30"):
        network = case(name)
        for price in (5.0, 300.0):
            for _ in range(12):
                loads = rng.uniform(-50, 2 * network.capacity / len(network.load_buses), len(network.bus))
                other = loads.copy()
                moved = float(rng.uniform(0.1, 30))
                other[rng.integers(len(loads))] += moved
                near = abs(dispatch(network, loads, price=price).cost - dispatch(network, other, price=price).cost)
                assert near <= price * moved * (1 + 1e-7) + 1e-4


def test_pieces_of_a_cost_are_what_the_file_says() -> None:
    """case30pwl's costs are pieces; a dispatch at their kinks is exact."""
    network = case("case30pwl")
    found = dispatch(network)
    assert found.cost == pytest.approx(sum(float(c.at(p)) for c, p in zip(network.costs, found.generation, strict=True)))
    assert found.lower == pytest.approx(found.cost)


def test_a_phase_shifter_moves_flows_and_an_angle_limit_holds() -> None:
    network = Network.nine_buses()
    branch = network.branch.copy()
    branch[1, 9] = 10.0  # line 4-5 shifts by ten degrees
    found = dispatch(replace(network, branch=branch))
    angles = found.angles
    expected = network.susceptance[1] * (angles[3] - angles[4] - np.deg2rad(10))
    assert found.flows[1] == pytest.approx(expected)
    assert abs(found.flows[1] - dispatch(network).flows[1]) > 1
    branch = network.branch.copy()
    widest = np.rad2deg((network.incidence.T @ dispatch(network).angles).max())
    branch[:, 12] = 0.95 * widest
    limited = dispatch(replace(network, branch=branch))
    assert (network.incidence.T @ limited.angles).max() <= np.deg2rad(0.95 * widest) + 1e-9
    assert limited.cost > dispatch(network).cost


def test_loads_of_another_length_are_refused() -> None:
    with pytest.raises(EnergyError, match="9 numbers"):
        dispatch(Network.nine_buses(), [1.0])
