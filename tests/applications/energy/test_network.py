"""Networks: files in and out, what is private, what is refused, and the matrices of the direct-current model."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.applications.energy.cases import case, case_file, needs_pandapower

from tacit.applications.energy import EnergyError, Network, dispatch, release_case
from tacit.applications.energy.network import region_matrix
from tacit.errors import PackageMissing

NINE = Network.nine_buses().to_matpower()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["case9", "case14", "case30", "case118", "case24_ieee_rts"])
def test_tables_are_those_of_another_reader(name: str) -> None:
    frames = pytest.importorskip("matpowercaseframes").CaseFrames(str(case_file(name)))
    network = case(name)
    bus = frames.bus.to_numpy(dtype=float)
    on = frames.gen.to_numpy(dtype=float)[:, 7] > 0
    assert network.buses.tolist() == bus[:, 0].astype(int).tolist()
    np.testing.assert_array_equal(network.loads, bus[:, 2])
    np.testing.assert_array_equal(network.reactive, bus[:, 3])
    np.testing.assert_array_equal(network.branch[:, :11], frames.branch.to_numpy(dtype=float)[:, :11])
    np.testing.assert_array_equal(network.gen[:, [0, 8, 9]], frames.gen.to_numpy(dtype=float)[on][:, [0, 8, 9]])
    np.testing.assert_array_equal(network.gencost, frames.gencost.to_numpy(dtype=float)[: len(on)][on])
    assert network.load_buses == tuple(int(row[0]) for row in bus if row[2] or row[3])


def test_every_case_of_the_wheel_is_read_or_refused_with_its_line() -> None:
    files = [file for file in sorted(case_file("case9").parent.glob("case*.m")) if file.stat().st_size < 400_000]
    assert len(files) > 40
    read = 0
    for file in files:
        try:
            Network.from_matpower(file)
            read += 1
        except EnergyError as error:
            if error.code:
                assert error.facts["name"] == file.name and int(str(error.facts["line"])) > 1
    assert read >= 20


def test_the_nine_buses_are_matpowers_own() -> None:
    ours, theirs = Network.nine_buses(), case("case9")
    np.testing.assert_array_equal(ours.branch[:, [0, 1, 2, 3, 4, 5]], theirs.branch[:, [0, 1, 2, 3, 4, 5]])
    np.testing.assert_array_equal(ours.loads, theirs.loads)
    np.testing.assert_array_equal(ours.gencost, theirs.gencost)


@pytest.mark.parametrize("name", ["case9", "case30", "case118", "case30pwl"])
def test_what_is_written_reads_back_as_the_same_numbers(name: str) -> None:
    network = case(name)
    again = Network.from_matpower(network.to_matpower())
    for table in ("bus", "branch", "gen", "gencost", "loads", "reactive"):
        np.testing.assert_array_equal(getattr(again, table), getattr(network, table))
    assert again.load_buses == network.load_buses


def test_a_file_is_read_as_its_text_is(tmp_path: Path) -> None:
    path = tmp_path / "nine.m"
    Network.nine_buses().to_matpower(path)
    assert repr(Network.read(path)) == repr(Network.from_matpower(NINE))
    path.write_text(NINE.replace("\n", "\r\n"), encoding="utf-8")
    np.testing.assert_array_equal(Network.read(path).branch, Network.from_matpower(NINE).branch)


def test_a_repr_shows_no_load() -> None:
    assert "125" not in repr(Network.nine_buses())


def test_nothing_that_was_computed_from_loads_is_kept() -> None:
    """Voltages, set points, solved flows and comments of a file are not written again."""
    secret = 7.654321
    rows, block = [], ""
    for line in NINE.splitlines():
        block = line if line.startswith("mpc") else block
        cells = line.split("\t")
        if line.startswith("\t") and "mpc.bus " in block:  # voltage and angle
            cells[8], cells[9] = f"{secret}", f"{secret}"
            line = "\t".join(cells)
        elif line.startswith("\t") and "mpc.gen " in block:  # set points
            cells[2], cells[3], cells[6] = f"{secret}", f"{secret}", f"{secret}"
            line = "\t".join(cells)
        elif line.startswith("\t") and "mpc.gencost " in block:
            line = line.replace(";", "; % 7.654321 MW")
        rows.append(line)
    text = "\n".join(rows).replace("function mpc = nine_buses", "function mpc = nine_buses % loads of 7.654321")
    assert text.count("7.654321") > 10
    assert "7.654321" not in Network.from_matpower(text).to_matpower()
    assert "7.654321" not in json.dumps(Network.from_matpower(text).bus.tolist())


def changed(old: str, new: str) -> tuple[str, int]:
    """The nine buses with one change, and the line it is in."""
    assert old in NINE
    return NINE.replace(old, new, 1), NINE[: NINE.index(old)].count("\n") + 1


BUS_5 = next(line for line in NINE.splitlines() if line.startswith("\t5\t1\t90"))
LINE_45 = next(line for line in NINE.splitlines() if line.startswith("\t4\t5\t"))
GEN_2 = next(line for line in NINE.splitlines() if line.startswith("\t2\t0\t0\t300"))
COST_2 = next(line for line in NINE.splitlines() if line.startswith("\t2\t2000"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (BUS_5, BUS_5.replace("90", "ninety"), "column 3 of mpc.bus is no plain number"),
        (BUS_5, BUS_5.replace("\t90", "\t9_0"), "no plain number"),
        (BUS_5, BUS_5.replace("\t90\t30", "\t90+30"), "no plain number"),
        (BUS_5, "\t5\t1\t90;", "has 3 numbers and needs 13"),
        (BUS_5, BUS_5.replace("\t5\t1", "\t4\t1"), "two buses have this number"),
        (BUS_5, BUS_5.replace("\t5\t1", "\t5.5\t1"), "the bus has no whole number"),
        (LINE_45, LINE_45.replace("0.092", "-0.092"), "the reactance is not positive"),
        (LINE_45, LINE_45.replace("0.092", "0"), "the reactance is not positive"),
        (LINE_45, LINE_45.replace("0.092", "NaN"), "the reactance is not positive"),
        (LINE_45, LINE_45.replace("\t5\t", "\t55\t", 1), "ends at no bus"),
        (LINE_45, LINE_45.replace("250", "-250", 1), "limit is missing or negative"),
        (GEN_2, GEN_2.replace("\t2\t", "\t22\t", 1), "stands at no bus"),
        (GEN_2, GEN_2.replace("\t300\t10;", "\tInf\t10;"), "limits are missing"),
        (GEN_2, GEN_2.replace("\t300\t10;", "\t300\t310;"), "Pmin is above Pmax"),
        (COST_2, COST_2.replace("0.085", "-0.085"), "not convex"),
        (COST_2, COST_2.replace("\t3\t", "\t9\t", 1), "not convex, or not complete"),
        ("mpc.version = '2';", "mpc.branch(:, 3) = mpc.branch(:, 3) / 100;", "computes something"),
        ("mpc.version = '2';", "define_constants;", "computes something"),
        ("mpc.version = '2';", "mpc.dcline = [1 2 1 10 8.9 0 0 1.01 1 1 10 -10 10 -10 10 0 0];", "is not supported"),
        ("mpc.baseMVA = 100;", "mpc.baseMVA = 0;", "no positive number"),
        ("mpc.baseMVA = 100;", "mpc.baseMVA = 10 * 10;", "no single value"),
        ("function mpc = nine_buses", "function [baseMVA, bus, gen] = nine", "not a case of format 2"),
    ],
)  # fmt: skip
def test_a_fault_is_refused_with_its_line_and_a_fix(old: str, new: str, words: str) -> None:
    text, line = changed(old, new)
    with pytest.raises(EnergyError, match=words) as caught:
        Network.from_matpower(text)
    assert caught.value.code == "case-unreadable"
    assert caught.value.facts["line"] == line
    assert str(caught.value.facts["fix"])
    for value in ("ninety", "9_0", "90+30", "0.092", "310"):
        assert value not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (NINE.replace("];", "", 1).rpartition("];")[0], "no plain table|never closed"),
        ("mpc.bus = [\n1 2", "never closed"),
        (NINE.replace("mpc.gencost", "mpc.genprice"), "mpc.gencost is missing"),
        (NINE.replace("mpc.version = '2'", "mpc.version = '1'"), "not of format 2"),
        (NINE + "mpc.bus = [];\n", "assigned twice"),
        ("\n", "mpc.baseMVA is missing"),
    ],
)
def test_a_text_that_is_no_case_is_refused(text: str, words: str) -> None:
    with pytest.raises(EnergyError, match=words):
        Network.from_matpower(text)


def test_a_file_that_is_no_text_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "case.m").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EnergyError, match=r"case.m, line 1: it is not UTF-8"):
        Network.read(tmp_path / "case.m")
    with pytest.raises(EnergyError, match=r"none.m, line 1: it cannot be read"):
        Network.read(tmp_path / "none.m")


def test_an_island_is_refused_by_a_bus() -> None:
    with pytest.raises(EnergyError, match="bus 5 has no link"):
        Network.from_matpower("\n".join(line for line in NINE.splitlines() if line not in (LINE_45,) and "\t5\t6\t" not in line))


@pytest.mark.parametrize("load", ["NaN", "Inf", "-Inf", "1e308", "-1e308", "1e999", "0"])
def test_absurd_loads_are_read_as_they_are(load: str) -> None:
    text, _ = changed(BUS_5, BUS_5.replace("\t90\t", f"\t{load}\t"))
    network = Network.from_matpower(text)
    assert network.load_buses == (5, 7, 9)  # its reactive load is still there
    np.testing.assert_array_equal(network.loads[4], float(load))


def test_comments_continuations_and_cells_are_understood() -> None:
    text = NINE.replace("mpc.baseMVA = 100;", "%{\nmpc.baseMVA = 7;\n%}\nmpc.baseMVA = 100; % it's MVA")
    text = text.replace(BUS_5, BUS_5.replace("\t90\t", "\t90 ...\n\t"))
    text += "mpc.bus_name = {\n\t'north % bus';\n\t'b'};\nmpc.genfuel = {};\n"
    network = Network.from_matpower(text)
    np.testing.assert_array_equal(network.loads, Network.nine_buses().loads)
    assert network.base_mva == 100


@settings(max_examples=150)
@given(st.data())
def test_no_text_raises_anything_but_a_refusal(data: st.DataObject) -> None:
    text = NINE
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text) - 1))
        end = data.draw(st.integers(start, min(len(text), start + 40)))
        text = text[:start] + data.draw(st.text(max_size=12)) + text[end:]
    if "\n" not in text:
        return
    try:
        found = Network.from_matpower(text)
    except EnergyError:
        return
    assert np.isfinite(found.laplacian.toarray()).all()


def test_load_buses_are_declared_by_their_numbers() -> None:
    network = Network.nine_buses()
    assert network.declare_load_buses().load_buses == tuple(range(1, 10))
    fewer = network.declare_load_buses([9, 5])
    assert fewer.load_buses == (5, 9)
    assert fewer.loads[6] == 0  # a load that is not declared counts for nothing
    with pytest.raises(EnergyError, match="no bus 10"):
        network.declare_load_buses([10])
    with pytest.raises(EnergyError, match="3 numbers"):
        network.with_loads([1.0])


def test_matrices_agree_with_their_definitions() -> None:
    network = case("case118")
    buses, dense = len(network.bus), np.zeros((118, 118))
    for (a, b), weight in zip(network.ends, network.susceptance, strict=True):
        dense[a, a] += weight
        dense[b, b] += weight
        dense[a, b] -= weight
        dense[b, a] -= weight
    np.testing.assert_allclose(network.laplacian.toarray(), dense, atol=1e-9)
    put_in = np.random.default_rng(1).normal(size=buses)
    put_in[network.reference] -= put_in.sum()
    angles = np.linalg.lstsq(dense, put_in, rcond=None)[0]
    flows = network.susceptance * (angles[network.ends[:, 0]] - angles[network.ends[:, 1]])
    np.testing.assert_allclose(network.ptdf @ put_in, flows, atol=1e-8)


def test_regions_that_overlap_are_refused_by_the_bus() -> None:
    with pytest.raises(EnergyError) as caught:
        region_matrix({"a": [1, 2], "b": [3, 2]}, Network.nine_buses())
    assert caught.value.code == "regions-overlap" and caught.value.facts["bus"] == 2
    with pytest.raises(EnergyError, match="bus 77"):
        region_matrix({"a": [77]}, Network.nine_buses())
    with pytest.raises(EnergyError, match="no region"):
        region_matrix({}, Network.nine_buses())


def test_without_pandapower_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pandapower", None)
    with pytest.raises(PackageMissing, match=r"tacit\[energy\]"):
        Network.nine_buses().to_pandapower()


@needs_pandapower
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["case9", "case14", "case30", "case118"])
def test_the_matrix_is_pandapowers_own(name: str) -> None:
    """Spec 11, 10.4: loaders agree with pandapower's B matrix to 1e-9 (in per unit)."""
    from pandapower.pypower.makeBdc import makeBdc

    network = case(name)
    bus, branch = network.bus.copy(), np.zeros((len(network.branch), 25))
    bus[:, 0] = np.arange(len(bus))
    branch[:, :13] = network.branch
    branch[:, :2] = network.ends
    theirs = makeBdc(bus, branch)[0].toarray()
    np.testing.assert_allclose(network.laplacian.toarray() / network.base_mva, theirs, atol=1e-9)


@needs_pandapower
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["case9", "case30", "case118"])
def test_pandapower_networks_go_in_and_out(name: str, tmp_path: Path) -> None:
    import pandapower

    network = case(name)
    path = tmp_path / "net.json"
    net = network.to_pandapower(path)
    again = Network.read(path)
    assert math.isclose(again.loads.sum(), network.loads.sum(), rel_tol=1e-9)
    pandapower.rundcopp(net)
    from tacit.applications.energy import dispatch

    assert dispatch(network).cost == pytest.approx(float(net.res_cost), rel=1e-6)
    assert dispatch(again).cost == pytest.approx(float(net.res_cost), rel=1e-6)


@needs_pandapower
@pytest.mark.filterwarnings("ignore")
def test_what_is_no_pandapower_network_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text('{"loads": [12.5]}', encoding="utf-8")
    with pytest.raises(EnergyError) as caught:
        Network.read(tmp_path / "net.json")
    assert "12.5" not in str(caught.value)
    with pytest.raises(EnergyError, match="pandapower network"):
        Network.from_pandapower(7)


@needs_pandapower
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["case9", "case118", "example_multivoltage", "mv_oberrhein"])
def test_loads_of_pandapower_are_those_of_its_own_conversion(name: str) -> None:
    import pandapower.networks
    from pandapower.converter.pypower.to_ppc import to_ppc

    net = getattr(pandapower.networks, name)()
    if len(net.gen):
        net.gen["min_p_mw"], net.gen["max_p_mw"] = 0.0, 500.0  # an optimal power flow asks for limits
    from tacit.applications.energy.network import _loads_apart, _put_back

    own = np.real(to_ppc(net, calculate_voltage_angles=True, mode="opf", init="flat")["bus"])
    bare, taken = _loads_apart(net)
    found = to_ppc(bare, calculate_voltage_angles=True, mode="opf", init="flat")
    _put_back(found, bare, taken)
    assert np.abs(own[:, 2:4]).max() > 0 and np.allclose(found["bus"][:, 2:4], own[:, 2:4], rtol=0, atol=1e-9 * np.abs(own[:, 2:4]).sum())


@needs_pandapower
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("odd", [math.nan, math.inf, 1e308, -1e308, 1e16, "much", None])
def test_an_absurd_load_changes_no_other_bus(odd: object) -> None:
    """pandapower adds up by differences of running totals: 1e308 at one bus made the others 0, NaN made them NaN."""
    import pandapower.networks

    net = pandapower.networks.case9()
    clean = Network.from_pandapower(net)
    net.load["p_mw"] = net.load["p_mw"].astype(object)
    net.load.loc[0, "p_mw"] = odd
    found = Network.from_pandapower(net)
    assert found.load_buses == clean.load_buses and found.loads[found.load_places][1:].tolist() == [100.0, 125.0]
    released = release_case(found, change=5, epsilon=1, cost=5216.03, band=0.01)
    assert abs(dispatch(released.network).cost / 5216.03 - 1) <= 0.01
