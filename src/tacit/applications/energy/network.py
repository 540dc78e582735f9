"""Networks from the files that grid operators have: MATPOWER cases (`.m`) and pandapower networks, in and out.

A `Network` keeps two things apart. Public are the buses, branches, generators, limits, costs, and which buses have a
load. Private are the loads. Everything else in a file that was computed from the loads (voltages, set points,
solved flows) is dropped while reading, so it cannot slip into a release.

>>> network = Network.nine_buses()
>>> network
Network('nine buses': 9 buses, 9 branches, 3 generators, loads at 3 buses)
>>> network.load_buses, network.laplacian.shape, Network.from_matpower(network.to_matpower()).buses.tolist()
((5, 7, 9), (9, 9), [1, 2, 3, 4, 5, 6, 7, 8, 9])

The direct-current model is that of MATPOWER: a branch has susceptance 1 / (x tap), in MW for each radian, and a phase
shifter moves its flow by a constant. Buses without a link to the others, generators without limits, costs that are
not convex and files that compute something are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from tacit.applications.energy.errors import EnergyError, pandapower
from tacit.applications.energy.files import text_of, unreadable
from tacit.applications.energy.matpower import WIDTHS, case_text, parse

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Columns of MATPOWER's tables, format 2.
BUS, KIND, PD, QD, GS, BS, AREA, VM, VA, BASE_KV, ZONE, VMAX, VMIN = range(13)
GEN_BUS, PG, QG, QMAX, QMIN, VG, MBASE, GEN_STATUS, PMAX, PMIN = range(10)
FROM, TO, R, X, B, RATE_A, RATE_B, RATE_C, TAP, SHIFT, STATUS, ANGMIN, ANGMAX = range(13)
MODEL, STARTUP, SHUTDOWN, NCOST, COST = range(5)
REFERENCE, ISOLATED = 3, 4
#: pandapower's word for "no limit"; a generator without a limit is refused.
UNLIMITED = 1e8


@dataclass(frozen=True, repr=False, eq=False)
class Network:
    """A grid: public tables in MATPOWER's columns, and the loads in MW and Mvar of every bus, which are private.

    `load_buses` are the numbers of the buses that have a load; that they do is public, how large it is is not. Loads
    of other buses are 0. Make one with `from_matpower`, `from_pandapower` or `read`.
    """

    name: str
    base_mva: float
    bus: Floats
    branch: Floats
    gen: Floats
    gencost: Floats
    load_buses: tuple[int, ...]
    loads: Floats
    reactive: Floats
    costs: tuple[Cost, ...] = field(default=())

    def __repr__(self) -> str:
        return (
            f"Network({self.name!r}: {len(self.bus)} buses, {len(self.branch)} branches, {len(self.gen)} generators, "
            f"loads at {len(self.load_buses)} buses)"
        )

    # --- in ---------------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: str | Path) -> Network:
        """A network from a file: a MATPOWER case (.m), or a pandapower network (.json)."""
        file = Path(path)
        if file.suffix.lower() == ".json":
            return cls.from_pandapower(file)
        return cls.from_matpower(file)

    @classmethod
    def from_matpower(cls, case: str | Path) -> Network:
        """A network from a MATPOWER case: a path, or the text of one.

        >>> Network.from_matpower("function mpc = tiny\\nmpc.bus = [\\n1 3 0;\\n];")
        Traceback (most recent call last):
        tacit.applications.energy.errors.EnergyError: the text, line 3: a row of mpc.bus has 3 numbers and needs 13; ...
        """
        name, text = text_of(case, lambda given: "\n" in given, "save it with savecase in MATPOWER")
        tables, lines, title = parse(text, name)
        return _made(tables, lines, name, title)

    @classmethod
    def from_tables(cls, tables: Mapping[str, ArrayLike], name: str = "tables") -> Network:
        """A network from a dictionary as PYPOWER and pandapower's converters have it: baseMVA, bus, gen, branch, gencost."""
        found: dict[str, Any] = {}
        for key in ("bus", "gen", "branch", "gencost"):
            if key not in tables:
                raise EnergyError(f"{name} has no {key}; give baseMVA, bus, gen, branch and gencost")
            found[key] = np.array(np.real(np.asarray(tables[key])), dtype=float, ndmin=2)
            if found[key].shape[1] < WIDTHS[key]:
                raise EnergyError(f"{key} of {name} has fewer than {WIDTHS[key]} columns; give MATPOWER's format 2")
        found["baseMVA"] = float(np.asarray(tables.get("baseMVA", 100.0)))
        return _made(found, {}, name, name)

    @classmethod
    def from_pandapower(cls, net: Any) -> Network:
        """A network from pandapower: a network, or the path of its JSON file."""
        power: Any = pandapower()
        from pandapower.converter.pypower.to_ppc import to_ppc

        name = "the network"
        if isinstance(net, (str, Path)):
            name = Path(net).name
            try:
                net = power.from_json(str(net))
            except Exception as error:
                reason = f"pandapower cannot read it ({type(error).__name__})"
                raise unreadable(name, 1, reason, "write it with pandapower.to_json") from None
        if not isinstance(net, power.pandapowerNet):
            raise EnergyError("a pandapower network is needed, or the path of its JSON file")
        found = None
        try:
            bare, taken = _loads_apart(net)
            found = to_ppc(bare, calculate_voltage_angles=True, mode="opf", init="flat")
            _put_back(found, bare, taken)
        except Exception:
            found = None  # its words may quote a load
        if found is None:
            raise EnergyError("pandapower cannot convert this network for an optimal power flow; try rundcopp on it")
        return cls.from_tables(found, str(getattr(net, "name", "") or name))

    @staticmethod
    def nine_buses() -> Network:
        """The nine buses of Anderson and Fouad 1977 (Example 2.6), with the limits and costs of Chow 1982, for examples.

        Its loads are published ones, not a customer's data.
        """
        return _nine()

    # --- out --------------------------------------------------------------------------------------------------------

    def to_matpower(self, path: str | Path | None = None, *, generation: ArrayLike | None = None) -> str:
        """The network as the text of a MATPOWER case, with its loads; also written to `path` where one is given.

        `generation` fills in the generators' set points. Everything else that depends on loads is left at a flat start.
        """
        text = case_text(self._tables(generation), self.name, self.base_mva)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_pandapower(self, path: str | Path | None = None, *, generation: ArrayLike | None = None) -> Any:
        """The same as a pandapower network, built from nothing but these tables; also written as JSON to `path`."""
        power: Any = pandapower()
        from pandapower.converter.pypower.from_ppc import from_ppc

        tables = self._tables(generation)
        places = {int(number): place for place, number in enumerate(self.buses)}
        for key, columns in (("bus", [BUS]), ("gen", [GEN_BUS]), ("branch", [FROM, TO])):
            for column in columns:  # pandapower numbers buses from 0
                tables[key][:, column] = [places[int(number)] for number in tables[key][:, column]]
        net = from_ppc({"version": "2", "baseMVA": self.base_mva, **tables}, f_hz=50)
        net.name = self.name
        net.bus["name"] = [str(number) for number in self.buses]
        if path is not None:
            power.to_json(net, str(path))
        return net

    def _tables(self, generation: ArrayLike | None) -> dict[str, Floats]:
        tables = {"bus": self.bus.copy(), "gen": self.gen.copy(), "branch": self.branch.copy(), "gencost": self.gencost.copy()}
        tables["bus"][:, PD], tables["bus"][:, QD] = self.loads, self.reactive
        if generation is not None:
            tables["gen"][:, PG] = np.asarray(generation, dtype=float)
        return tables

    # --- what is private --------------------------------------------------------------------------------------------

    def with_loads(self, loads: ArrayLike, reactive: ArrayLike | None = None) -> Network:
        """The same network with other loads: a number for each of `load_buses`, in MW (and Mvar)."""
        full, other = np.zeros(len(self.bus)), np.zeros(len(self.bus))
        given = np.asarray(loads, dtype=float)
        if given.shape != (len(self.load_buses),):
            raise EnergyError(f"loads must be {len(self.load_buses)} numbers, one for each of load_buses")
        full[self.load_places] = given
        other[self.load_places] = 0.0 if reactive is None else np.asarray(reactive, dtype=float)
        return replace(self, loads=full, reactive=other)

    def declare_load_buses(self, numbers: Iterable[int] | None = None) -> Network:
        """The same network, with these buses declared to have loads; without numbers all of them.

        A case file says only which loads are not 0. Where even that must not be told, declare all buses that could
        have one. A load of the file at a bus that is not declared counts for nothing.
        """
        wanted = set(self.buses.tolist()) if numbers is None else {int(number) for number in numbers}
        unknown = sorted(wanted - set(self.buses.tolist()))
        if unknown:
            raise EnergyError(f"the network has no bus {unknown[0]}; load buses are named by their numbers")
        chosen = tuple(int(number) for number in self.buses if int(number) in wanted)
        inside = np.isin(self.buses, chosen)
        loads, reactive = np.where(inside, self.loads, 0.0), np.where(inside, self.reactive, 0.0)
        return replace(self, load_buses=chosen, loads=loads, reactive=reactive)

    # --- what is public ---------------------------------------------------------------------------------------------

    @cached_property
    def buses(self) -> Integers:
        """The numbers of the buses, in the order of the file."""
        return self.bus[:, BUS].astype(np.int64)

    @cached_property
    def places(self) -> dict[int, int]:
        """Where a bus stands in the tables, by its number."""
        return {int(number): place for place, number in enumerate(self.buses)}

    @cached_property
    def load_places(self) -> Integers:
        """Where the load buses stand in the tables."""
        return np.array([self.places[number] for number in self.load_buses], dtype=np.int64)

    @cached_property
    def generator_places(self) -> Integers:
        """The bus of every generator, as a place in the tables."""
        return np.array([self.places[int(number)] for number in self.gen[:, GEN_BUS]], dtype=np.int64)

    @cached_property
    def reference(self) -> int:
        """The place of the reference (slack) bus."""
        found = np.flatnonzero(self.bus[:, KIND] == REFERENCE)
        return int(found[0]) if len(found) else 0

    @cached_property
    def ends(self) -> Integers:
        """The two ends of every branch, as places."""
        return np.array([[self.places[int(a)], self.places[int(b)]] for a, b in self.branch[:, [FROM, TO]]]).reshape(-1, 2)

    @cached_property
    def incidence(self) -> Any:
        """The sparse matrix with a row for each bus and a column for each branch: 1 at its start, -1 at its end."""
        count = len(self.branch)
        both = np.tile(np.arange(count), 2)
        signs = np.repeat([1.0, -1.0], count)
        return sparse.csr_array((signs, (self.ends.T.ravel(), both)), shape=(len(self.bus), count))

    @cached_property
    def susceptance(self) -> Floats:
        """MW for each radian across every branch."""
        tap = np.where(self.branch[:, TAP] == 0, 1.0, self.branch[:, TAP])
        found: Floats = self.base_mva / (self.branch[:, X] * tap)
        return found

    @cached_property
    def shifted(self) -> Floats:
        """The flow that a phase shifter takes away, in MW."""
        found: Floats = self.susceptance * np.deg2rad(self.branch[:, SHIFT])
        return found

    @cached_property
    def laplacian(self) -> Any:
        """The weighted Laplacian: injections in MW for angles in radians."""
        return (self.incidence * self.susceptance[None, :]) @ self.incidence.T

    @cached_property
    def shunts(self) -> Floats:
        """Public consumption of shunts at nominal voltage, in MW."""
        found: Floats = self.bus[:, GS].copy()
        return found

    @cached_property
    def flow_limits(self) -> Floats:
        """The most MW that a branch may carry; infinite where the file says 0."""
        rates = self.branch[:, RATE_A]
        return np.where(rates == 0, np.inf, rates)

    @cached_property
    def angle_limits(self) -> Floats:
        """The least and largest angle across every branch, in radians; infinite where the file sets none."""
        if self.branch.shape[1] <= ANGMAX:
            return np.tile([-np.inf, np.inf], (len(self.branch), 1))
        low, high = self.branch[:, ANGMIN], self.branch[:, ANGMAX]
        free = (low == 0) & (high == 0)
        low = np.where(free | (low <= -360), -np.inf, np.deg2rad(low))
        high = np.where(free | (high >= 360), np.inf, np.deg2rad(high))
        return np.column_stack([low, high])

    @cached_property
    def generator_limits(self) -> Floats:
        """The least and most MW of every generator."""
        return self.gen[:, [PMIN, PMAX]].copy()

    @property
    def capacity(self) -> float:
        """What all generators can deliver together, in MW."""
        return float(self.gen[:, PMAX].sum())

    @cached_property
    def ptdf(self) -> Floats:
        """Flow of every branch for one MW put in at each bus and taken out at the reference bus (dense)."""
        count = len(self.bus)
        keep = np.delete(np.arange(count), self.reference)
        reduced = self.laplacian.tocsc()[keep][:, keep].toarray()
        angles = np.zeros((count, count))
        angles[np.ix_(keep, keep)] = np.linalg.inv(reduced)
        found: Floats = self.susceptance[:, None] * (self.incidence.T @ angles)
        return found


@dataclass(frozen=True)
class Cost:
    """What a generator costs, in money for an hour: convex pieces from `start` on, or a parabola where `square` is positive.

    `points` are the ends of linear pieces, in MW, and `values` the cost there.
    """

    square: float
    linear: float
    constant: float
    points: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    def at(self, power: ArrayLike) -> Floats:
        """The cost of some MW; beyond the last point the last piece goes on."""
        power = np.asarray(power, dtype=float)
        if not self.points:
            polynomial: Floats = (self.square * power + self.linear) * power + self.constant
            return polynomial
        points, values = np.array(self.points), np.array(self.values)
        slopes = np.diff(values) / np.diff(points)
        lines = values[:-1, None] + slopes[:, None] * (power.reshape(1, -1) - points[:-1, None])
        found: Floats = lines.max(axis=0).reshape(power.shape)  # convex: the largest of its lines
        return found


# --- checking it ----------------------------------------------------------------------------------------------------


class _Checks:
    """Refuses a fault of a public table with the line of its row."""

    def __init__(self, name: str, lines: Mapping[str, list[int]]) -> None:
        self.name, self.lines = name, lines

    def insist(self, good: Any, key: str, reason: str, fix: str) -> None:
        """Refuse the first row that is not good."""
        bad = np.flatnonzero(~np.asarray(good, dtype=bool))
        if len(bad):
            where = self.lines.get(key)
            if where is None:
                raise EnergyError(f"{self.name}, row {bad[0] + 1} of {key}: {reason}; {fix}")
            raise unreadable(self.name, where[bad[0]], f"mpc.{key}: {reason}", fix)


def _made(tables: Mapping[str, Any], lines: Mapping[str, list[int]], name: str, title: str) -> Network:
    """The network of parsed tables: faults of public columns are refused, private columns are moved or dropped."""
    bus, gen, branch = (np.array(tables[key], dtype=float) for key in ("bus", "gen", "branch"))
    costs = np.array(tables["gencost"], dtype=float)
    checks = _Checks(name, lines)
    numbers = bus[:, BUS]
    checks.insist((numbers == np.floor(numbers)) & (np.abs(numbers) < 2**31), "bus", "the bus has no whole number", "number the buses")
    first = np.zeros(len(numbers), dtype=bool)
    first[np.unique(numbers, return_index=True)[1]] = True
    checks.insist(first, "bus", "two buses have this number", "give each bus a number of its own")
    checks.insist(np.isfinite(bus[:, GS]), "bus", "the shunt is not finite", "write 0 where there is none")
    checks.insist(np.isin(gen[:, GEN_BUS], numbers), "gen", "the generator stands at no bus of the case", "correct its bus")
    known = np.isin(branch[:, FROM], numbers) & np.isin(branch[:, TO], numbers)
    checks.insist(known, "branch", "the branch ends at no bus of the case", "correct its ends")
    if len(costs) < len(gen):
        raise EnergyError(f"{name}: gencost has {len(costs)} rows, and there are {len(gen)} generators; give each a cost")
    # What is switched off is no part of the network.
    present = bus[:, KIND] != ISOLATED
    inside = numbers[present]
    on = (gen[:, GEN_STATUS] > 0) & np.isin(gen[:, GEN_BUS], inside)
    closed = (branch[:, STATUS] > 0) & np.isin(branch[:, FROM], inside) & np.isin(branch[:, TO], inside)
    _electrical(checks, gen, branch, on, closed)
    functions = _costs(checks, costs[: len(gen)], gen, on)
    bus, gen, costs, branch = bus[present], gen[on], costs[: len(on)][on], branch[closed]
    if not len(gen) or not len(bus):
        raise EnergyError(f"{name}: no generator is switched on; there is nothing to dispatch")
    loads, reactive = bus[:, PD].copy(), bus[:, QD].copy()
    load_buses = tuple(int(number) for number, p, q in zip(bus[:, BUS], loads, reactive, strict=True) if p != 0 or q != 0)
    found = Network(
        title, float(tables["baseMVA"]), _public_buses(bus), branch[:, : min(branch.shape[1], 13)].copy(),
        _public_generators(gen), costs, load_buses, loads, reactive, functions,
    )  # fmt: skip
    pieces = connected_components(found.laplacian, directed=False)
    if pieces[0] > 1:
        apart = int(np.bincount(pieces[1]).argmin())
        number = int(found.buses[pieces[1] == apart][0])
        raise EnergyError(f"{name}: bus {number} has no link to the rest; release each island as a case of its own")
    return found


#: Elements of pandapower that draw power, or with a minus feed it in.
_DRAWING = {"load": 1.0, "storage": 1.0, "sgen": -1.0}


def _loads_apart(net: Any) -> tuple[Any, dict[str, Any]]:
    """A copy of a pandapower network without its loads, and their MW and Mvar by element.

    pandapower adds loads up as differences of running totals, so an absurd load at one bus would change those of
    others, and NaN would be NaN everywhere. What is no number is NaN here, and is refused nowhere.
    """
    import pandas as pd

    bare, taken = deepcopy(net), {}
    for element, sign in _DRAWING.items():
        table = bare[element]
        if not len(table):
            continue
        free = table["controllable"].eq(True) if "controllable" in table else pd.Series(False, index=table.index)
        columns = []
        for column in ("p_mw", "q_mvar"):
            numbers = pd.to_numeric(table[column], errors="coerce").astype(float)
            columns.append(np.where(free, 0.0, sign * numbers * table["scaling"].astype(float)))
            table[column] = numbers.where(free, 0.0)
        taken[element] = np.array(columns)
    return bare, taken


def _put_back(tables: Any, bare: Any, taken: Mapping[str, Any]) -> None:
    """Add every load to its own bus and to no other. What is switched off or cut off counts for nothing, as in pandapower."""
    bus, places = np.real(tables["bus"]).copy(), bare["_pd2ppc_lookups"]["bus"]
    for element, numbers in taken.items():
        on = np.asarray(bare["_is_elements"][element], dtype=bool)
        rows = places[bare[element]["bus"].to_numpy(dtype=np.int64)]
        np.add.at(bus, (rows[on], PD), numbers[0][on])
        np.add.at(bus, (rows[on], QD), numbers[1][on])
    tables["bus"] = bus


def _electrical(checks: _Checks, gen: Floats, branch: Floats, on: Any, closed: Any) -> None:
    """Reactances and limits that the model needs."""
    reactance = branch[:, X]
    fix = "give the series reactance in per unit"
    checks.insist(~closed | (np.isfinite(reactance) & (reactance > 0)), "branch", "the reactance is not positive", fix)
    taps = np.isfinite(branch[:, TAP]) & (branch[:, TAP] >= 0)
    checks.insist(~closed | taps, "branch", "the tap ratio is negative", "write 0 or a ratio")
    checks.insist(~closed | np.isfinite(branch[:, SHIFT]), "branch", "the phase shift is not finite", "write 0, or degrees")
    checks.insist(~closed | (branch[:, RATE_A] >= 0), "branch", "the limit is missing or negative", "write 0 for a branch without limit")
    limits = gen[:, [PMIN, PMAX]]
    bounded = np.isfinite(limits).all(axis=1) & (np.abs(limits) < UNLIMITED).all(axis=1)
    checks.insist(~on | bounded, "gen", "the generator's limits are missing", "give Pmin and Pmax in MW")
    checks.insist(~on | (limits[:, 0] <= limits[:, 1]), "gen", "Pmin is above Pmax", "swap them")


def _costs(checks: _Checks, costs: Floats, gen: Floats, on: Any) -> tuple[Cost, ...]:
    """What each generator that is on costs; refused where it is not convex, for then one linear program is not the optimum."""
    found: list[Cost] = []
    good = np.ones(len(costs), dtype=bool)
    for place in np.flatnonzero(on):
        cost = _cost(costs[place], gen[place, PMIN], gen[place, PMAX])
        good[place] = cost is not None
        found += [] if cost is None else [cost]
    fix = "give a polynomial of degree 2 at most with c2 >= 0, or rising pieces"
    checks.insist(good, "gencost", "the cost is not convex, or not complete", fix)
    return tuple(found)


def _cost(row: Floats, low: float, high: float) -> Cost | None:
    if not np.isfinite(row[: COST]).all() or not 0 < row[NCOST] <= (len(row) - COST) or row[NCOST] != int(row[NCOST]):
        return None
    count = int(row[NCOST])
    if row[MODEL] == 2:
        given = row[COST : COST + count]
        if not np.isfinite(given).all() or (count > 3 and np.any(given[:-3] != 0)):
            return None
        square, linear, constant = np.concatenate([np.zeros(3), given])[-3:]
        return Cost(float(square), float(linear), float(constant)) if square >= 0 else None
    given = row[COST : COST + 2 * count]
    if row[MODEL] != 1 or count < 2 or len(given) < 2 * count or not np.isfinite(given).all():
        return None
    points, values = given[::2], given[1::2]
    steps = np.diff(points)
    if np.any(steps <= 0):
        return None
    slopes = np.diff(values) / steps
    # MATPOWER's own test of convexity allows for rounding in the file.
    if np.any(np.diff(slopes) < -1e-6 * (1 + np.abs(slopes[1:]))):
        return None
    return Cost(0.0, 0.0, 0.0, tuple(points.tolist()), tuple(values.tolist()))


def _public_buses(bus: Floats) -> Floats:
    """The table of buses at a flat start, without loads and voltages."""
    found = bus[:, :13].copy()
    found[:, [PD, QD, VA]] = 0.0
    found[:, VM] = 1.0
    return found


def _public_generators(gen: Floats) -> Floats:
    """The table of generators without set points: a solved case has its loads in them."""
    found = gen[:, : min(gen.shape[1], 21)].copy()
    found[:, [PG, QG]] = 0.0
    found[:, VG] = 1.0
    return found


def _nine() -> Network:
    """Reactances, limits and costs of the nine buses; loads of 90, 100 and 125 MW."""
    bus = np.zeros((9, 13))
    bus[:, BUS], bus[:, KIND] = np.arange(1, 10), [3, 2, 2, 1, 1, 1, 1, 1, 1]
    bus[[4, 6, 8], PD], bus[[4, 6, 8], QD] = [90, 100, 125], [30, 35, 50]
    bus[:, [AREA, VM, ZONE]], bus[:, BASE_KV], bus[:, VMAX], bus[:, VMIN] = 1, 345, 1.1, 0.9
    ends = [(1, 4), (4, 5), (5, 6), (3, 6), (6, 7), (7, 8), (8, 2), (8, 9), (9, 4)]
    ohms = [0, 0.017, 0.039, 0, 0.0119, 0.0085, 0, 0.032, 0.01]
    reactances = [0.0576, 0.092, 0.17, 0.0586, 0.1008, 0.072, 0.0625, 0.161, 0.085]
    charging = [0, 0.158, 0.358, 0, 0.209, 0.149, 0, 0.306, 0.176]
    branch = np.zeros((9, 13))
    branch[:, [FROM, TO]], branch[:, R], branch[:, X], branch[:, B] = ends, ohms, reactances, charging
    branch[:, [RATE_A, RATE_B, RATE_C]] = np.array([250, 250, 150, 300, 150, 250, 250, 250, 250])[:, None]
    branch[:, STATUS], branch[:, ANGMIN], branch[:, ANGMAX] = 1, -360, 360
    gen = np.zeros((3, 10))
    gen[:, GEN_BUS], gen[:, QMAX], gen[:, QMIN], gen[:, VG] = [1, 2, 3], 300, -300, 1
    gen[:, MBASE], gen[:, GEN_STATUS], gen[:, PMAX], gen[:, PMIN] = 100, 1, [250, 300, 270], 10
    gencost = np.array([[2, 1500, 0, 3, 0.11, 5, 150], [2, 2000, 0, 3, 0.085, 1.2, 600], [2, 3000, 0, 3, 0.1225, 1, 335]])
    return _made({"baseMVA": 100.0, "bus": bus, "gen": gen, "branch": branch, "gencost": gencost}, {}, "nine buses", "nine buses")


def region_matrix(regions: Mapping[str, Sequence[int]], network: Network) -> Floats:
    """One row for each region with a 1 for every place of a bus in it. Regions that overlap are refused by the bus.

    >>> region_matrix({"north": [5, 6], "south": [7]}, Network.nine_buses()).sum(axis=1).tolist()
    [2.0, 1.0]
    >>> region_matrix({"north": [5, 6], "south": [6]}, Network.nine_buses())
    Traceback (most recent call last):
    tacit.applications.energy.errors.EnergyError: bus 6 is in two regions; ...
    """
    found = np.zeros((len(regions), len(network.bus)))
    if not regions:
        raise EnergyError("there is no region; name at least one, with the numbers of its buses")
    for row, (name, numbers) in enumerate(regions.items()):
        for number in numbers:
            if int(number) not in network.places:
                raise EnergyError(f"region {name} names bus {int(number)}, which the network does not have")
            column = network.places[int(number)]
            if found[:, column].any():
                raise EnergyError(code="regions-overlap", bus=int(number))
            found[row, column] = 1.0
    return found
