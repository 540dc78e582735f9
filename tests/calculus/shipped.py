"""Every transformation that ships, on spaces it is proved for: what the property tests and the edge-case matrix run over."""

from __future__ import annotations

from fractions import Fraction

from tacit.calculus import (
    L1,
    L2,
    AddRemove,
    Anything,
    Categories,
    Domain,
    Edges,
    Graphs,
    Hamming,
    Identifiers,
    Integers,
    LInfinity,
    Metric,
    Reals,
    Records,
    ReplaceOne,
    Rows,
    Space,
    Step,
    Transformation,
    Vectors,
    append,
    as_add_remove,
    as_norm,
    bins,
    cap_rows,
    cast,
    clamp,
    clip_norm,
    column,
    count,
    degree_histogram,
    distinct,
    drop_missing,
    edge_count,
    filter_rows,
    flat_map,
    group_by,
    histogram,
    impute,
    join_public,
    map_rows,
    marginal,
    mean,
    one_hot,
    quantile_scores,
    resize,
    round_to,
    select,
    table,
    total,
    union,
    unordered,
    vector,
)

LETTERS = Categories(("a", "b", "rare"))
PERSON = table(id=Integers(0, 3), age=Reals(0, 9), city=LETTERS)
RECORD = PERSON.element
assert isinstance(RECORD, Records)
RIVERS = {"city": ["a", "a", "b", "nowhere"], "river": ["x", "y", "y", "x"]}
NORMS = (L1(), L2(), LInfinity(), LInfinity(monotone=True))
POINTS = Vectors(Integers(-2, 3), 3)


def join_rivers() -> Step:
    return join_public("city", RIVERS, river=Categories(("x", "y")))


#: Steps on rows of an element, each proved under add/remove, replace-one and Hamming.
ON_ROWS: list[tuple[Domain, Step]] = [
    *((Integers(-3, 7), step) for step in (clamp(0, 5), cast(Reals()), cast(Categories((0, 1, 2))), bins([0, 3]))),
    (Integers(-3, 7), map_rows(lambda x: 12 // x, Integers(0, 9))),
    (Integers(-3, 7), filter_rows(lambda x: 6 // x > 1)),
    (Integers(-3, 7), flat_map(lambda x: range(x), 2, Integers(0, 9))),
    *((Integers(-3, 7), step) for step in (distinct(), append([1, 1, 2]), resize(3, 1), resize(3), count(), total())),
    *((Integers(-3, 7), quantile_scores([-1, 0, 2.5], level)) for level in (Fraction(1, 2), Fraction(1, 3), 0, 1)),
    *((Integers(), step) for step in (clamp(0, 5), clamp(-3, 2) >> total(), cast(Reals(0, 1)), distinct(), count())),
    *((Reals(-2, 5), step) for step in (clamp(0, 1), impute(1), drop_missing(), round_to(Fraction(1, 3)), round_to(0.25) >> total())),
    *((Reals(-2, 5), step) for step in (bins([0, 0.5]), cast(Integers(-3, 7)), quantile_scores([0, 0.5]), resize(2, 1.0), distinct())),
    *((Reals(), step) for step in (clamp(0, 1), impute(0), round_to(1), round_to(2.0**-20) >> clamp(-4, 4) >> total(), cast(Integers()))),
    *((Anything(), step) for step in (cast(Reals()), cast(Integers(0, 5)) >> total(), cast(LETTERS) >> histogram(), count())),
    *((Anything(), step) for step in (distinct(), resize(2), append([None]), filter_rows(bool), map_rows(lambda v: v["a"], Anything()))),
    *((LETTERS, histogram(norm)) for norm in NORMS),
    *((LETTERS, one_hot() >> total(norm)) for norm in NORMS),
    (LETTERS, one_hot()),
    *((POINTS, total(norm)) for norm in NORMS),
    *((POINTS, clip_norm(p, radius) >> total(norm)) for p in (1, 2) for radius in (2, Fraction(5, 2)) for norm in NORMS),
    *((POINTS, step) for step in (clamp(0, 1), clip_norm(2, 2), resize(2), distinct())),
    *((RECORD, step) for step in (column("age"), select("id", "city"), resize(2), distinct())),
    *((RECORD, step) for step in (marginal("city"), marginal("city", norm=L2()))),
    *((RECORD, step) for step in (clamp(0, 1, column="age"), cast(Reals(), column="city"), impute(3, column="age"))),
    *((RECORD, step) for step in (round_to(1, column="age"), bins([1, 2], column="age"), one_hot(column="city"), drop_missing("age"))),
    *((RECORD, group_by("city", len, Integers(0, 9), most=most)) for most in (None, 2)),
    (RECORD, join_rivers()),
    (RECORD, append({"id": [1], "age": [2], "city": ["a"]})),
    (RECORD, map_rows(lambda row: row["age"], Reals())),
    (RECORD, flat_map(lambda row: [row] * 3, 2, RECORD)),
    (RECORD, round_to(1, column="age") >> select("age") >> vector("age") >> total(L1())),
]

ON_PEOPLE: list[Step] = [
    cap_rows("id", 1),
    cap_rows("id", 2),
    group_by("id", len, Integers(0, 9)),
    group_by("id", len, Integers(0, 9), most=1),
    clamp(0, 1, column="age"),
    select("id", "city"),
    filter_rows(lambda row: row["age"] > 3),
    map_rows(lambda row: {"id": 0, "x": 1}, Records(id=Integers(), x=Integers(0, 1))),
    flat_map(lambda row: [{"x": 1}, {"x": 0}], 2, Records(x=Integers(0, 1))),
    distinct(),
    drop_missing("age"),
    join_rivers(),
]


def _plans() -> list[Transformation]:
    metrics: tuple[Metric, ...] = (AddRemove(), ReplaceOne(), Hamming())
    found = [Space(Rows(element), metric) >> step for element, step in ON_ROWS for metric in metrics]
    found += [Space(PERSON, Identifiers("id")) >> step for step in ON_PEOPLE]
    both = union(clamp(-3, 7), clamp(0, 1))
    found += [Space(Rows(Integers(-3, 7)), metric) >> both for metric in (AddRemove(), ReplaceOne())]
    fixed = [Space(Rows(Integers(-3, 7), size=3), metric) for metric in (ReplaceOne(), Hamming())]
    found += [space >> step for space in fixed for step in (mean(), as_add_remove(), as_add_remove() >> total())]
    found += [Space(Rows(Integers()), Hamming()) >> unordered()]
    found += [Space(Rows(POINTS, size=3), ReplaceOne()) >> mean(norm) for norm in NORMS]
    found += [Space(Vectors(Integers(), 3), have) >> as_norm(want) for have in NORMS for want in NORMS]
    found += [Space(Vectors(Integers(0, 4), 1), have) >> as_norm(want) for have in NORMS for want in NORMS]
    found += [Space(Graphs(), Edges()) >> step for step in (edge_count(), *(degree_histogram(2, norm) for norm in NORMS))]
    return found


PLANS = _plans()


def label(plan: Transformation) -> str:
    """A short name for a test, without addresses in it."""
    return f"{type(plan.input.metric).__name__}-{plan.name}"[:90]
