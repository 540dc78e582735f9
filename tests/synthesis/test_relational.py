"""Tables that belong together: whole keys, caps, one price for a person, and the same counts in memory and in an engine."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tacit.accounting import Composed, Guarantee
from tacit.errors import ParameterError
from tacit.ledger import Budget, Ledger, price
from tacit.noise import test_mode as seeded
from tacit.release.dummy import DIAGNOSES, REGIONS, SEXES, visits
from tacit.synthesis import (
    METHODS,
    BoughtCategories,
    BoughtNumbers,
    CategoryColumn,
    CountColumn,
    Level,
    NumberColumn,
    Ordered,
    plan_tables,
    synthesize_tables,
)
from tacit.synthesis.measure import RELATION
from tacit.synthesis.relational import LevelTree, context, kept_rows
from tacit.tables import Column, Session, Source, Unit

SEX, WARD, DRUG = CategoryColumn("sex", ("f", "m")), CategoryColumn("ward", ("A", "B", "C")), CategoryColumn("drug", ("x", "y"))
AGE = NumberColumn.between("age", 0, 99, 20, whole=True)
LEVELS = [
    Level("patients", [SEX, AGE], key="id"),
    Level("visits", [WARD], of="patients", by="patient", most=4, key="visit"),
    Level("drugs", [DRUG], of="visits", by="visit", most=2),
]


def hospital(people: int = 600, seed: int = 1) -> dict[str, dict[str, list[Any]]]:
    """Women come more often and to ward A; ward A gives drug x, and more of it."""
    draws = np.random.default_rng(seed)
    female = draws.random(people) < 0.5
    times = np.minimum(draws.poisson(np.where(female, 2.2, 0.8)), 6)
    patient = np.repeat(np.arange(people), times)
    ward = np.where(draws.random(len(patient)) < np.where(female[patient], 0.8, 0.1), "A", draws.choice(["B", "C"], len(patient)))
    doses = np.where(ward == "A", 2, draws.integers(0, 2, len(patient)))
    visit = np.repeat(np.arange(len(patient)), doses)
    return {
        "patients": {"id": list(range(people)), "sex": np.where(female, "f", "m").tolist(), "age": draws.integers(0, 99, people).tolist()},
        "visits": {"visit": list(range(len(patient))), "patient": patient.tolist(), "ward": ward.tolist()},
        "drugs": {"visit": visit.tolist(), "drug": np.where(ward[visit] == "A", "x", "y").tolist()},
    }  # fmt: skip


def variation(first: Any, second: Any) -> float:
    """Total variation of two lists of values."""
    one, two = Counter(first), Counter(second)
    return sum(abs(one[key] / len(first) - two[key] / len(second)) for key in one | two) / 2


def joined(tables: Any) -> list[tuple[Any, ...]]:
    """Every drug with its visit and its patient; fails where a key leads nowhere."""
    people = {row["id"]: row for row in tables["patients"]}
    stays = {row["visit"]: row for row in tables["visits"]}
    assert len(people) == len(tables["patients"]) and len(stays) == len(tables["visits"])
    return [(people[stays[row["visit"]]["patient"]]["sex"], stays[row["visit"]]["ward"], row["drug"]) for row in tables["drugs"]]


def in_rows(tables: dict[str, dict[str, list[Any]]]) -> dict[str, list[dict[str, Any]]]:
    return {name: [dict(zip(one, values, strict=True)) for values in zip(*one.values(), strict=True)] for name, one in tables.items()}


def test_three_levels_have_whole_keys_caps_and_what_depends_across_them() -> None:
    real = hospital(3000)
    with seeded(1):
        made = synthesize_tables(real, LEVELS, epsilon=3, delta=1e-9)
        tables = made.sample()
    rows = joined(tables)  # every key leads to a row
    assert max(Counter(tables["visits"]["patient"].to_pylist()).values()) <= 4
    assert max(Counter(tables["drugs"]["visit"].to_pylist()).values()) <= 2
    assert variation(rows, joined(in_rows(real))) < 0.1
    number = Counter(min(count, 4) for count in Counter(real["visits"]["patient"]).values())
    number[0] = 3000 - sum(number.values())
    found = Counter(Counter(tables["visits"]["patient"].to_pylist()).values())
    found[0] = tables["patients"].num_rows - sum(found.values())
    assert variation(list(number.elements()), list(found.elements())) < 0.02
    assert abs(made.people_ - 3000) < 150
    assert [c.values[0] for c in made.marginal("patients", "number of visits")] == ["0", "1", "2", "3", "4 or more"]
    with seeded(2):
        few = made.sample(10)
    assert few["patients"].num_rows == 10 and set(few["visits"]["patient"].to_pylist()) <= set(range(1, 11))
    assert made.sample(0)["drugs"].num_rows == 0


def test_numbers_of_rows_reach_further_than_the_rows_that_are_counted() -> None:
    """Noise is for two visits a patient; how many she has, up to nine, is a value of hers, and made-up patients have as many."""
    draws = np.random.default_rng(3)
    people, times = 4000, draws.choice([0, 1, 2, 5, 8, 30], 4000, p=[0.1, 0.2, 0.2, 0.3, 0.19, 0.01])
    patient = np.repeat(np.arange(people), times)
    visit = np.arange(len(patient))
    real = {
        "patients": {"id": list(range(people)), "sex": ["f", "m"] * (people // 2), "age": [50] * people},
        "visits": {"visit": visit.tolist(), "patient": patient.tolist(), "ward": np.where(times[patient] > 2, "A", "B").tolist()},
        "drugs": {"visit": np.repeat(visit, 3).tolist(), "drug": ["x"] * (3 * len(visit))},
    }
    levels = [
        LEVELS[0], Level("visits", [WARD], of="patients", by="patient", most=2, up_to=9, key="visit"),
        Level("drugs", [DRUG], of="visits", by="visit", most=1, up_to=3),
    ]  # fmt: skip
    assert LevelTree.of(levels).reach(levels[2]) == 2
    with seeded(1):
        made = synthesize_tables(real, levels, epsilon=3, delta=1e-9)
        tables = made.sample()
    joined(tables)
    found = Counter(Counter(tables["visits"]["patient"].to_pylist()).values())
    found[0] = tables["patients"].num_rows - sum(found.values())
    assert max(found) <= 9 and set(Counter(tables["drugs"]["visit"].to_pylist()).values()) <= {1, 2, 3}
    # Thirty and more are in the last cell, 8 to 9, which is drawn from evenly.
    cells = CountColumn("n", (0, 1, 2, 3, 4, 5, 6, 7, 8))
    one, two = np.bincount(cells.encode(times), minlength=9) / people, np.zeros(9)
    np.add.at(two, cells.encode(list(found)), np.array(list(found.values())) / found.total())
    assert abs(one - two).sum() / 2 < 0.03
    # Which ward a patient with many visits comes to is told by the two that are counted of each.
    many = {key for key, number in Counter(tables["visits"]["patient"].to_pylist()).items() if number > 2}
    wards = Counter((row["patient"] in many, row["ward"]) for row in tables["visits"])
    assert wards[True, "A"] > 0.8 * (wards[True, "A"] + wards[True, "B"]) and wards[False, "B"] > wards[False, "A"]
    with seeded(1):
        priced = synthesize_tables(real, levels, mu=1, method="independent")
    shares = [float(weight) for weight in LevelTree.of(levels).weights()]
    for part, share, reach in zip(priced.parts, shares, (1, 2, 2), strict=True):  # noise for two rows, not for nine
        assert sum((reach / one.sigma) ** 2 for one in part.measured) == pytest.approx(share / sum(shares), rel=0.01)


def test_a_number_beyond_what_is_counted_moves_one_cell_of_the_person() -> None:
    """Thirty rows more of one person change the table of people in two cells by one row, whatever `up_to` is."""
    tree = LevelTree.of([LEVELS[0], Level("visits", [WARD], of="patients", by="patient", most=2, up_to=40, key="visit")])
    (column,) = tree.counts(tree.root)
    assert column.starts[:4] == (0, 1, 2, 3) and column.starts[-1] <= 40 and column.last == 40
    given: dict[str, Any] = {"patients": {"id": [1, 2]}, "visits": {"patient": [1, 2, 2], "visit": [1, 2, 3]}}
    more = {**given, "visits": {"patient": [1, 2, 2, *[2] * 30], "visit": list(range(33))}}
    counts = []
    for one in (given, more):
        kept = kept_rows(tree, one)["visits"]
        assert kept.size == 3  # two of hers at most
        counts.append(np.bincount(column.encode(kept.had), minlength=column.size))
    assert abs(counts[0] - counts[1]).sum() == 2


def test_the_demonstration_at_epsilon_1() -> None:
    """Patients and visits: every key valid, and visits per patient within .02 in total variation, caps and all."""
    real = visits(100_000)
    people = [CategoryColumn("region", tuple(REGIONS)), CategoryColumn("sex", SEXES), NumberColumn.between("age", 0, 110, 16, whole=True)]
    stays = [CategoryColumn("diagnosis", tuple(DIAGNOSES)), NumberColumn.between("nights", 0, 30, 10, whole=True)]
    levels = [
        Level("patients", people, key="patient_id", rows_of="visits"),
        Level("visits", stays, of="patients", by="patient_id", most=16, up_to=64, key="visit_id"),
    ]
    with seeded(3):
        tables = synthesize_tables({"visits": real}, levels, epsilon=1, delta=1e-9).sample()
    whose = tables["visits"]["patient_id"].to_pylist()
    keys = tables["patients"]["patient_id"].to_pylist()
    assert len(set(keys)) == len(keys) and set(whose) == set(keys)  # a person of the visits' table has a visit
    assert len(set(tables["visits"]["visit_id"].to_pylist())) == len(whose)
    per = [list(Counter(ids).values()) for ids in (real["patient_id"].to_pylist(), whose)]
    assert variation(*per) < 0.02
    assert variation(real["diagnosis"].to_pylist(), tables["visits"]["diagnosis"].to_pylist()) < 0.05


@pytest.mark.parametrize("method", [name for name in METHODS if name != "histogram"])
def test_every_method_keeps_the_keys_and_its_budget(method: str) -> None:
    with seeded(1):
        made = synthesize_tables(hospital(200), LEVELS, epsilon=1, delta=1e-9, method=method)
        joined(made.sample())
    part = "rho" if METHODS[method].selects else "mu2"
    assert price(Composed(*made.events_), [part], RELATION)[part] <= price(made.event_, [part], RELATION)[part]


def test_noise_is_for_all_rows_of_a_person() -> None:
    """A third level has caps 4 x 2 above it, and every measurement of it noise for eight rows."""
    with seeded(1):
        made = synthesize_tables(hospital(200), LEVELS, mu=1, method="independent")
    shares = [float(weight) for weight in LevelTree.of(LEVELS).weights()]
    for part, share, reach in zip(made.parts, shares, (1, 4, 8), strict=True):
        spent = sum((reach / one.sigma) ** 2 for one in part.measured)
        assert spent == pytest.approx(share / sum(shares), rel=0.01)


def test_rows_that_lead_to_no_one_are_left_out_and_caps_hold() -> None:
    levels = [Level("p", [SEX], key="id"), Level("v", [WARD], of="p", by="p", most=2, key="v"), Level("d", [DRUG], of="v", by="v", most=1)]
    values = {
        "p": {"id": ["a", "b", "a", None, 3.0]},
        "v": {"p": ["a", "a", "a", "b", None, "z", "3"], "v": [1, 2, 3, 4, 5, 6, 4]},
        "d": {"v": [4, 4, "4", 6, None, 7]},
    }
    for seed in range(5):
        with seeded(seed):
            kept = kept_rows(LevelTree.of(levels), values)
        assert kept["p"].size == 3 and sorted(kept["v"].number(3).tolist()) == [1, 1, 2]
        # Visits of two people have the key 4: each takes one of its drugs, and 6 and 7 lead to no one.
        assert kept["d"].size == 2 and set(kept["d"].rows.tolist()) <= {0, 1, 2} and len(set(kept["d"].person.tolist())) == 2


def test_the_context_fits_and_keeps_the_number_of_siblings() -> None:
    tree = LevelTree.of(LEVELS)
    columns = {one.name: (*one.columns, *tree.counts(one)) for one in tree.levels}
    found = context(tree, tree.named("drugs"), columns)
    assert [(one.level, one.column.name, one.column.size) for one in found] == [
        ("visits", "visits.number of drugs", 2), ("visits", "visits.ward", 4),
        ("patients", "patients.number of visits", 3), ("patients", "patients.sex", 3), ("patients", "patients.age", 9),
    ]  # fmt: skip
    small = context(tree, tree.named("drugs"), columns, most=30)
    assert np.prod([one.column.size for one in small]) <= 30 and small[0].column.name == "visits.number of drugs"
    age = found[-1]
    fine = AGE.encode([0, 13, 50, 99, None])
    assert age.coarse[fine].tolist() == age.column.encode([0, 13, 50, 99, None]).tolist()
    siblings = CountColumn("n", tuple(range(5)))
    assert siblings.encode([0, 3, 4, 9]).tolist() == [0, 3, 4, 4] and siblings.labels()[-1] == "4 or more"


def test_bins_and_categories_of_a_level_can_be_bought() -> None:
    levels = [Level("patients", [SEX, BoughtNumbers("age", (0, 99), bins=8, whole=True)], key="id"),
              Level("visits", [BoughtCategories("ward")], of="patients", by="patient", most=4)]  # fmt: skip
    with seeded(1):
        made = synthesize_tables(hospital(3000), levels, epsilon=8, delta=1e-6)
        tables = made.sample()
    assert isinstance(made.event_, Composed) and len(made.event_.events) == 3
    assert {"A", "B", "C"} <= set(tables["visits"]["ward"].to_pylist())


def test_constraints_hold_on_their_level() -> None:
    days = (0, 5, 10, 15)
    level = Level("stays", [NumberColumn("start", days, whole=True), NumberColumn("end", days, whole=True)], of="p", by="p", most=2,
                  constraints=[Ordered(("start", "end"))])  # fmt: skip
    draws = np.random.default_rng(1)
    rows = {"p": draws.integers(0, 300, 500).tolist(), "start": draws.integers(0, 15, 500).tolist(), "end": [14] * 500}
    with seeded(1):
        made = synthesize_tables({"p": {"id": range(300)}, "stays": rows}, [Level("p", [], key="id"), level], mu=1)
        found = made.sample()["stays"].to_pylist()
    assert all(row["start"] <= row["end"] for row in found if None not in (row["start"], row["end"]))


@pytest.mark.parametrize(
    "levels",
    [
        [],
        ["patients"],
        [Level("p", [SEX])],
        [Level("p", [SEX], key="id"), Level("p", [WARD], of="p", by="id")],
        [Level("p", [SEX], key="id"), Level("v", [WARD], of="q", by="p")],
        [Level("p", [SEX], key="id"), Level("v", [WARD], of="p")],
        [Level("p", [SEX], key="id"), Level("v", [WARD])],
        [Level("p", [SEX, SEX], key="id")],
        [Level("p", [CategoryColumn("id", (1,))], key="id")],
        [Level("p", [SEX], key="id"), Level("v", [WARD], of="p", by="p"), Level("d", [DRUG], of="v", by="v")],
        [Level("p", [SEX], key="id"), Level("v", [], of="p", by="p")],
        [Level("p", [SEX], key="id", rows_of="v"), Level("v", [WARD], of="p", by="other")],
        [*LEVELS[:2], Level("d", [DRUG], of="visits", by="visit", key="d"), Level("e", [SEX], of="d", by="d")],
        [Level("p", [SEX], key="id", weight=0.0)],
        [Level("absent", [SEX], key="id")],
        [Level("patients", [CategoryColumn("absent", (1,))], key="id")],
    ],
)
def test_levels_that_do_not_hang_together_are_refused_before_payment(levels: Any, tmp_path: Path) -> None:
    book = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("a", Budget(epsilon=1, delta="1e-6"))
    with pytest.raises(ParameterError):
        synthesize_tables(hospital(20), levels, epsilon=1, delta=1e-9, account=book)
    assert book.left()["epsilon"] == 1


def test_a_bad_cap_and_methods_with_listed_marginals_are_refused() -> None:
    with pytest.raises(ParameterError):
        Level("v", [WARD], of="p", by="p", most=0)
    with pytest.raises(ParameterError):
        Level("v", [WARD], of="p", by="p", up_to=0)
    for bad in (Level("v", [WARD], of="patients", by="p", most=4, up_to=3), Level("v", [WARD], of="patients", by="p", up_to=10**6)):
        with pytest.raises(ParameterError, match="how many rows are made"):
            LevelTree.of([LEVELS[0], bad])
    with pytest.raises(ParameterError, match="cannot be listed"):
        synthesize_tables(hospital(20), LEVELS, mu=1, method="histogram")
    assert LevelTree.of(LEVELS).weights()[0] == 1 and all(isinstance(one, Fraction) for one in LevelTree.of(LEVELS).weights())


# --- in an engine ----------------------------------------------------------------------------------------------


def database(folder: Path, tables: dict[str, dict[str, list[Any]]]) -> Source:
    import duckdb

    place = str(folder / "hospital.duckdb")
    with duckdb.connect(place) as connection:
        for name, columns in tables.items():
            arrow = pa.table(columns)
            connection.register("arrow", arrow)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow")
            connection.unregister("arrow")
    return Source.of(place, table=list(tables))


def session_of(folder: Path, tables: dict[str, dict[str, list[Any]]]) -> Session:
    return Session(
        database(folder, tables), name="hospital", unit=Unit.node("patients.id", max_rows=4), budget=Budget(epsilon=2, delta="1e-6"),
        ledger=Ledger.open(f"sqlite:///{folder / 'book.db'}"),
        columns={"visits.patient": Column(references="patients.id"), "drugs.visit": Column(references="visits.visit"),
                 "sex": ["f", "m"], "age": (0, 99), "ward": ["A", "B", "C"], "drug": ["x", "y"]},
    )  # fmt: skip


@pytest.mark.parametrize("more", [0, 14])
def test_the_engine_counts_what_memory_counts(more: int, tmp_path: Path) -> None:
    """No parent has more rows than its cap, so that nothing is left to chance and both count the same."""
    tables = hospital(120)
    tables["patients"]["age"][3], tables["patients"]["sex"][5] = None, "?"
    levels = [LEVELS[0], Level("visits", [WARD], of="patients", by="patient", most=6, up_to=6 + more, key="visit"), LEVELS[2]]
    desk = session_of(tmp_path, tables).desk
    planned = plan_tables(desk, levels, Guarantee(mu=1))
    seen: dict[str, Any] = {}

    class Looking:
        """Keeps the exact counts of all single columns and pairs of a level."""

        selects = False

        def fit(self, measuring: Any) -> Any:
            every = [*itertools.combinations(range(measuring.width), 1), *itertools.combinations(range(measuring.width), 2)]
            seen.setdefault(len(seen) // 1, {clique: measuring.exact(clique).tolist() for clique in every})
            return METHODS["independent"].fit(measuring)

    with seeded(1):
        synthesize_tables(tables, levels, mu=1, method=Looking())
        memory, seen = dict(seen), {}
        plan_tables(desk, levels, Guarantee(mu=1), method=Looking()).fit()
    assert seen == memory and planned.cuts["drugs"].reach == 12


def engine_counts(folder: Path, tables: dict[str, dict[str, list[Any]]], up_to: int = 6) -> dict[Any, tuple[Any, int]]:
    """Exact counts of all single columns and pairs of every level, and how many rows of a person may be in them."""
    folder.mkdir()
    levels = [LEVELS[0], Level("visits", [WARD], of="patients", by="patient", most=6, up_to=up_to, key="visit"), LEVELS[2]]
    planned = plan_tables(session_of(folder, tables).desk, levels, Guarantee(mu=1))
    found = {}
    for level in planned.tree.levels:
        every = planned.every(level)
        count = planned._counts(level, planned.columns[level.name], context(planned.tree, level, planned.columns))
        for clique in [*itertools.combinations(range(len(every)), 1), *itertools.combinations(range(len(every)), 2)]:
            found[level.name, clique] = (count(clique), planned.cuts[level.name].reach)
    return found


@pytest.mark.parametrize("up_to", [6, 900])
def test_a_person_with_a_thousand_rows_and_another_persons_keys_moves_no_count_further_than_priced(up_to: int, tmp_path: Path) -> None:
    """In an engine: she has no age, visits under keys of others, one key 950 times, and drugs for all of them. No other
    person reaches a cap, so nothing is left to chance."""
    tables = hospital(60)
    stolen = tables["visits"]["visit"][:50]
    more = copy.deepcopy(tables)
    for name, columns in {
        "patients": {"id": [10**6], "sex": ["\x00"], "age": [None]},
        "visits": {"visit": [*stolen, *([-1] * 950)], "patient": [10**6] * 1000, "ward": ["A"] * 1000},
        "drugs": {"visit": [-1] * 500, "drug": ["x"] * 500},
    }.items():
        for column, values in columns.items():
            more[name][column].extend(values)
    without, with_ = (engine_counts(tmp_path / name, one, up_to) for name, one in (("without", tables), ("with", more)))
    for key, (counts, reach) in with_.items():
        assert counts.shape == without[key][0].shape
        assert abs(counts - without[key][0]).sum() <= reach, key
    # The attack has power: she is counted as often as she may be where her rows are drawn from.
    assert with_["visits", (0,)][0].sum() - without["visits", (0,)][0].sum() == 6


def test_a_session_pays_once_and_has_whole_keys(tmp_path: Path) -> None:
    session = session_of(tmp_path, hospital(800))
    made = synthesize_tables(session, [
        Level("patients", ["sex", "age"], key="id"), Level("visits", ["ward"], of="patients", by="patient", most=4, key="visit"),
        Level("drugs", ["drug"], of="visits", by="visit", most=2),
    ], epsilon=1)  # fmt: skip
    assert round(float(session.left()["epsilon"]), 6) == 1
    joined(made.sample())
    made.report(tmp_path / "tables.html")
    page = (tmp_path / "tables.html").read_text(encoding="utf-8")
    assert page.count("data:image/png") == 3 and "number of visits" in page


def test_units_and_tables_that_cannot_be_are_refused_before_payment(tmp_path: Path) -> None:
    session = session_of(tmp_path, hospital(20))
    with pytest.raises(ParameterError, match="no private table"):
        synthesize_tables(session, [Level("people", ["sex"], key="id")], epsilon=1)
    with pytest.raises(ParameterError, match="neither categories nor bounds"):
        synthesize_tables(session, [Level("patients", ["id2"], key="id")], epsilon=1)
    rows = Session(pa.table({"id": [1], "sex": ["f"]}), unit=Unit.row(), budget=Budget(epsilon=2, delta="1e-6"), name="patients",
                   ledger=Ledger.open(f"sqlite:///{tmp_path / 'other.db'}"), columns={"sex": ["f", "m"]})  # fmt: skip
    with pytest.raises(ParameterError, match="unit with a person"):
        synthesize_tables(rows, [Level("patients", ["sex"], key="id")], epsilon=1)
    assert session.left()["epsilon"] == 2 == rows.left()["epsilon"]


def test_a_key_that_two_people_share_changes_nothing_of_the_other_persons() -> None:
    tree = LevelTree.of(LEVELS)
    given: dict[str, Any] = {
        "patients": {"id": [1, 2]}, "visits": {"patient": [1, 2], "visit": ["k", "k"]}, "drugs": {"visit": ["k"] * 9},
    }  # fmt: skip
    alone = {**given, "patients": {"id": [1]}, "visits": {"patient": [1], "visit": ["k"]}}
    both, one = kept_rows(tree, given)["drugs"], kept_rows(tree, alone)["drugs"]
    assert both.number(2).tolist() == [*one.number(1).tolist()] * 2
