"""What a curator's data are like beside what the job declares: read as the job would read them, and told to
the curator alone.

`check_data` says for every column what share is read, lies in the categories or bounds, is missing or is a
code for missing; how many rows and groups people have beside the caps; what caps and bounds take from every
figure; and what looks wrong with encodings, dates and codes. All of it is exact and about the private rows,
so it is NOT PRIVATE: it costs nothing, is for the screen of someone who may read the rows, and is never
published. A cap or a bound that is chosen by it is chosen by the data: take a round number that will also do
next time.

>>> import pathlib, tempfile
>>> from tacit.release.job import EXAMPLE, parse
>>> base = pathlib.Path(tempfile.mkdtemp())
>>> _ = (base / "visits.csv").write_text("patient_id,region\\n1,north\\n1,North\\nx,south\\n")
>>> found = check_data(parse(EXAMPLE.replace("visits.parquet", "visits.csv")), base=base)
>>> region = found["region"]
>>> region.rows, region.inside, region.odd
(3, 2, (('North', 1),))
>>> [hint.partition(";")[0] for hint in region.hints]
["'North' differs from 'north' only in capitals, accents or spaces"]
>>> found["patient_id"].unread, found.mark.partition(":")[0]
(1, 'NOT PRIVATE')
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tacit.release.column_checks import ColumnCheck, StoredSource, quoted, share_of
from tacit.release.errors import JobError
from tacit.release.job import Job
from tacit.release.kinds.table import TablePlan
from tacit.release.planning import plan
from tacit.release.rehearsal import CutOff, cut_off
from tacit.release.sources import as_stored, opened
from tacit.release.work import NOT_PRIVATE as ENDS
from tacit.tables import DuckDB, EngineError, TableError

MARK = "NOT PRIVATE: exact figures about the rows themselves, for the curator alone; never publish them"
#: Shares of rows that proposed caps keep.
KEEPING = (0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Spread:
    """How many rows, or groups of one output, people have beside the cap: quantiles, the most, and the share
    of rows that the cap cuts.

    `keeping` are the smallest caps that keep 90, 95 and 99 % of the rows; `curve` has the share that other
    caps would cut.
    """

    what: str
    people: int
    median: int
    most: int
    cap: int | None
    cut: float
    keeping: tuple[int, ...] = ()
    curve: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class FigureCheck:
    """What caps and bounds take from a figure: over all groups together, and in the group where it is most,
    as shares of the truth.

    `noise` is the half width of its interval beside a typical figure, for comparison.
    """

    output: str
    figure: str
    cut: float
    worst: float
    noise: float


@dataclass(frozen=True)
class DataCheck:
    """A check of one job's data. NOT PRIVATE."""

    job: Job
    rows: Mapping[str, int]
    dropped: Mapping[str, int]
    columns: tuple[ColumnCheck, ...]
    spreads: tuple[Spread, ...] = ()
    figures: tuple[FigureCheck, ...] = ()
    hints: tuple[str, ...] = ()
    mark: str = MARK
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> ColumnCheck:
        return next(column for column in self.columns if column.name == name)

    @property
    def all_hints(self) -> list[str]:
        """Everything that looks wrong, with its place."""
        said = [f"columns.{column.name}: {hint}" for column in self.columns for hint in column.hints]
        return [*self.hints, *said]

    def to_record(self) -> dict[str, Any]:
        """As JSON; the mark comes first."""
        return {
            "mark": self.mark,
            "title": self.job.title,
            "rows": dict(self.rows),
            "dropped": dict(self.dropped),
            "columns": [{**asdict(column), "read": column.read} for column in self.columns],
            "spreads": [asdict(spread) for spread in self.spreads],
            "figures": [asdict(figure) for figure in self.figures],
            "hints": self.all_hints,
            "left_out": dict(self.left_out),
        }


def check_data(job: Job, *, base: str | Path = ".") -> DataCheck:
    """Read the job's files as the job would and compare them with what it declares. NOT PRIVATE; nothing is
    spent or written.
    """
    folder = Path(base)
    if job.without_rows or any(source.url is not None for source in job.sources.values()):
        raise JobError(
            "check-data reads tables in files; ask a database, a collector or a network case itself",
            place="sources",
        )
    found: list[ColumnCheck] = []
    rows: dict[str, int] = {}
    dropped: dict[str, int] = {}
    hints: list[str] = []
    for name in job.sources:
        engine = as_stored(job, folder, name)
        try:
            table = StoredSource(job, name, engine)
            found += table.columns()
            rows[name], dropped[name] = table.rows, table.dropped
        finally:
            engine.close()
        if dropped[name]:
            hints.append(
                f"sources.{name}: {share_of(dropped[name], rows[name])} of the rows have bytes that are not "
                "UTF-8, and the job leaves these "
                "rows out; write encoding: mixed (UTF-8 and Windows' Latin letters side by side), latin-1 "
                "or cp1252"
            )
    hints += _sizes(job, rows)
    spreads, figures, left_out = _people(job, folder)
    hints += _better_cap(job, spreads)
    hints += _in_no_group(job, found)
    return DataCheck(job, rows, dropped, tuple(found), spreads, figures, tuple(hints), left_out=left_out)


def _sizes(job: Job, rows: Mapping[str, int]) -> Iterator[str]:
    expected = job.expected.rows
    private = [rows[name] for name, source in job.sources.items() if not source.public]
    if (
        expected is not None
        and len(private) == 1
        and abs(private[0] - expected) > job.expected.tolerance * expected
    ):
        yield f"expected.rows: {expected:,} are declared, and the file has {private[0]:,}"


def _in_no_group(job: Job, columns: Sequence[ColumnCheck]) -> Iterator[str]:
    """Outputs that lose more rows than the tolerance because a column that they are grouped by has no declared
    value there: a run would pay, and then hold the release back.
    """
    for output in plan(job).outputs:
        if not isinstance(output, TablePlan) or output.private_keys or not output.whole_table or job.unit.window:
            continue
        for key in output.plan.question.keys:
            column = next((one for one in columns if one.name == getattr(key.value, "name", "")), None)
            spec = None if column is None else job.columns_of(column.table)[column.name]
            if column is None or spec is None or not spec.categories or key.name in (output.spec.keys or {}):
                continue
            unlisted = 0 if spec.other is not None else column.there - (column.inside or 0)
            lost = column.empty + column.coded + unlisted
            if lost > job.expected.tolerance * column.rows:
                yield (
                    f"{output.name}: {share_of(lost, column.rows)} of the rows have no declared {column.name} "
                    "and are in none of its groups, so a run would pay and then hold the release back; declare "
                    "the values, group by COALESCE(...) with a value for what is empty, or say partial: true "
                    "if the rows are left out on purpose"
                )


# --- people, groups and figures ---


def _people(job: Job, base: Path) -> tuple[tuple[Spread, ...], tuple[FigureCheck, ...], dict[str, str]]:
    """Rows and groups of people beside the caps, and what is cut off from every figure."""
    source = opened(job, base)
    left_out: dict[str, str] = {}
    spreads: list[Spread] = []
    figures: list[FigureCheck] = []
    try:
        engine = source.engine
        assert isinstance(engine, DuckDB)
        unit = job.unit.typed()
        if unit.person is not None and unit.key is None and unit.ends is None:
            for name, given in job.sources.items():
                if not given.public and unit.person in job.columns_of(name):
                    each = (
                        f"SELECT COUNT(*) AS n FROM {quoted(name)} WHERE {quoted(unit.person)} IS NOT "
                        f"NULL GROUP BY {quoted(unit.person)}"
                    )
                    spreads.append(
                        _spread(engine, f"rows of {name}", each, None if unit.capped else unit.most_rows)
                    )
        planned = plan(job, source)
        for output in planned.outputs:
            if not isinstance(output, TablePlan):
                left_out[output.spec.name] = f"it is no table but {output.spec.kind}"
                continue
            try:
                if (
                    unit.person is not None
                    and output.plan.question.grouped
                    and not output.private_keys
                    and unit.key is None
                    and not unit.ends
                ):
                    spreads.append(_groups(engine, output))
                figures += _summed(output, cut_off(output, job, engine))
            except (EngineError, TableError):
                left_out[output.name] = "its SQL means something only to a private question"
    finally:
        source.close()
    return tuple(spreads), tuple(figures), left_out


def _better_cap(job: Job, spreads: Sequence[Spread]) -> Iterator[str]:
    """The cap with the smallest error of counts, noise and cut together, where it is clearly better than the
    declared one.
    """
    rows = next(
        (spread for spread in spreads if spread.what.startswith("rows of ") and spread.cap is not None), None
    )
    if rows is None or job.unit.max_rows is None or rows.cap != job.unit.max_rows:
        return
    errors: dict[int, float] = {}
    for cap, cut in rows.curve:
        changed = job.model_copy(update={"unit": job.unit.model_copy(update={"max_rows": cap})})
        try:
            planned = plan(changed)
        except JobError:
            continue
        shares = [
            output.errors[recipe.aggregate.name] / output.rows
            for output in planned.outputs if isinstance(output, TablePlan)
            for recipe in output.plan.recipes if recipe.aggregate.kind == "count"
        ]  # fmt: skip
        if shares:
            errors[cap] = sum(shares) / len(shares) + cut
    best = min(errors, key=lambda cap: errors[cap], default=None)
    if best is not None and rows.cap in errors and errors[best] < 0.8 * errors[rows.cap]:
        cut = dict(rows.curve)[best]
        yield (
            f"unit.max_rows: with {best} counts would be off by about {errors[best]:.1%} (noise and the "
            f"{cut:.1%} that it cuts together); with "
            f"{rows.cap} by about {errors[rows.cap]:.1%}"
        )


def _spread(engine: DuckDB, what: str, each: str, cap: int | None) -> Spread:
    """The spread of a number that each person has."""
    counts = [
        (int(n), int(people))
        for n, people in engine.looked_at(f"SELECT n, COUNT(*) FROM ({each}) GROUP BY n ORDER BY n")
    ]
    people, rows = sum(k for _, k in counts), sum(n * k for n, k in counts)
    if not people:
        return Spread(what, 0, 0, 0, cap, 0.0)
    half, seen = 0, 0
    for n, k in counts:
        seen += k
        if seen * 2 >= people:
            half = n
            break

    def kept(most: int) -> float:
        return sum(min(n, most) * k for n, k in counts) / rows

    keeping = tuple(next(n for n in range(1, counts[-1][0] + 1) if kept(n) >= share) for share in KEEPING)
    tried = sorted(
        {
            *keeping,
            counts[-1][0],
            *(2**k for k in range(12) if 2**k < counts[-1][0]),
            *([] if cap is None else [cap]),
        }
    )
    curve = tuple((one, 1 - kept(one)) for one in tried)
    return Spread(
        what, people, half, counts[-1][0], cap, 0.0 if cap is None else 1 - kept(cap), keeping, curve
    )


def _groups(engine: DuckDB, output: TablePlan) -> Spread:
    """How many groups of an output a person has."""
    from sqlglot import exp

    from tacit.tables.statement import rows_of

    question, unit = output.plan.question, output.plan.unit
    chosen = [exp.alias_(exp.column(unit.person or "", quoted=True), "p_", quoted=True)]
    chosen += [exp.alias_(key.value.copy(), f"k{i}_", quoted=True) for i, key in enumerate(question.keys)]
    query = exp.Select(expressions=chosen, distinct=exp.Distinct()).from_(rows_of(question), copy=False)
    query = query if question.where is None else query.where(question.where.copy(), copy=False)
    inner = engine.prepare(query).sql(dialect="duckdb")
    each = f"SELECT COUNT(*) AS n FROM ({inner}) WHERE p_ IS NOT NULL GROUP BY p_"
    return _spread(engine, f"groups of {output.name}", each, None if unit.capped else output.plan.reach.groups)


def _summed(output: TablePlan, found: list[CutOff]) -> list[FigureCheck]:
    checks = []
    for figure in dict.fromkeys(one.figure for one in found):
        some = [one for one in found if one.figure == figure]
        whole = math.fsum(abs(one.truth) for one in some)
        cut = math.fsum(one.truth - one.kept for one in some) / whole if whole else 0.0
        worst = max(
            ((one.truth - one.kept) / abs(one.truth) for one in some if one.truth), key=abs, default=0.0
        )
        typical = whole / len(some) if some else 0.0
        error = output.errors.get(figure, math.nan)
        checks.append(FigureCheck(output.name, figure, cut, worst, error / typical if typical else math.inf))
    return checks


# --- files ---


def save_check(found: DataCheck, out: Path, release: Path) -> None:
    """Write a check into a new file, marked, and never in the folder of the release or the one that holds it."""
    import json
    import os

    if not out.name.endswith(ENDS):
        raise JobError(
            f"a check is written into a file that ends with {' or '.join(ENDS)}, so that it is not taken "
            "for a release"
        )
    if (
        out.resolve().parent in (release.resolve(), release.resolve().parent)
        or release.resolve() in out.resolve().parents
    ):
        raise JobError("a check is not written beside a release; name another folder")
    text = (
        json.dumps(found.to_record(), indent=1, ensure_ascii=False)
        if out.name.endswith("json")
        else check_in_words(found)
    )
    try:
        with open(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text + "\n")
    except OSError as error:
        raise JobError(
            f"the check cannot be written ({error.strerror}); name a file that does not exist yet"
        ) from None


def check_in_words(found: DataCheck) -> str:
    """The check as lines of text."""
    lines = [found.mark, found.job.title, ""]
    lines += [
        f"{name}: {rows:,} rows" + (f", {found.dropped[name]:,} left out" if found.dropped[name] else "")
        for name, rows in found.rows.items()
    ]
    heads = ["column", "type", "read", "empty", "code", "in list or bounds", "below", "above"]
    table = [heads, *(_line(column) for column in found.columns)]
    widths = [max(len(row[i]) for row in table) for i in range(len(heads))]
    lines += [
        "",
        *(
            "  ".join(
                cell.rjust(w) if i > 1 else cell.ljust(w)
                for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in table
        ),
    ]
    lines += ["", *(_spread_line(spread, found.job.unit.typed().noun) for spread in found.spreads)]
    for figure in found.figures:
        what = (
            f"{figure.output}.{figure.figure}: caps and bounds take {figure.cut:z.1%} of it (in one "
            f"group {figure.worst:z.1%})"
        )
        noise = f"; noise is within {figure.noise:.1%}" if math.isfinite(figure.noise) else ""
        lines.append(what + noise + ("; MOSTLY CUT OFF" if abs(figure.cut) > 0.5 else ""))
    lines += [f"{name}: {why}" for name, why in found.left_out.items()]
    lines += (
        ["", *(f"! {hint}" for hint in found.all_hints)] if found.all_hints else ["", "nothing looks wrong"]
    )
    lines += [
        "",
        (
            "Caps and bounds that are chosen by this page are chosen by the data: take round numbers that will "
            "also do next time."
        ),
    ]
    return "\n".join(lines)


def _line(column: ColumnCheck) -> list[str]:
    rows = max(1, column.rows)
    inside = "" if column.inside is None else f"{column.inside / max(1, column.there - column.unread):.1%}"
    beyond = [
        f"{n / rows:.2%}" if column.inside is not None and (column.below or column.above) else ""
        for n in (column.below, column.above)
    ]
    return [
        column.name,
        column.type,
        f"{column.read:.1%}",
        f"{column.empty / rows:.1%}",
        f"{column.coded / rows:.1%}",
        inside,
        *beyond,
    ]


def _spread_line(spread: Spread, noun: str) -> str:
    cap = "no cap" if spread.cap is None else f"cap {spread.cap} cuts {spread.cut:.1%} of them"
    keeping = ", ".join(
        f"{cap} keep {share:.0%}" for cap, share in zip(spread.keeping, KEEPING, strict=False)
    )
    return f"{spread.what} a {noun}: median {spread.median}, most {spread.most}; {cap}" + (
        f" ({keeping})" if keeping else ""
    )
