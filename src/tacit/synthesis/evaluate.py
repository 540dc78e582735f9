"""How good a synthetic table is, measured against the private rows: for the curator's eyes only.

`evaluate(real, synthetic, target=...)` compares marginals, associations and correlations, trains models on either table
and tests them on real rows, lets a classifier tell the two apart, and says which subgroups are off and, with the fitted
synthesizer, at which step the error came in. It reads private rows and no one has paid for that, so whatever it returns
and writes says CURATOR ONLY. The one figure that can be bought and published is `paid_distance`.

>>> from tacit.noise import test_mode
>>> from tacit.synthesis import CategoryColumn, synthesize
>>> rows = {"sex": ["f", "m"] * 300, "smokes": [True, False, False] * 200}
>>> declared = [CategoryColumn("sex", ("f", "m")), CategoryColumn("smokes", (True, False))]
>>> with test_mode(1):
...     made = synthesize(rows, declared, epsilon=1, delta=1e-9)
...     found = evaluate(rows, made)
>>> found.distance(1) < 0.1, found.stamp
(True, 'CURATOR ONLY')
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PackageMissing, ParameterError
from tacit.synthesis.columns import CategoryColumn, Cells, Column, NumberColumn, as_numbers, same_text
from tacit.synthesis.constraints import possible
from tacit.synthesis.estimate import NoisyMarginal, fit
from tacit.synthesis.sample import counted
from tacit.synthesis.synthesizer import Synthesizer, column_of, values_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
STAMP = "CURATOR ONLY"
WHY = "computed from private rows that were not paid for; not for publication"
FEW = 20  # distinct values that still are categories where no column is declared
BINS = 20
MOST_MARGINALS = 400  # of one size; more are drawn at random
NOTHING = 0.005  # importance below this is chance, and tied
CLASSES = 12  # cells of a target that is still a class


@dataclass(frozen=True)
class Utility:
    """How a model does on real test rows: accuracy and area under the curve, or the explained variance of a number."""

    model: str
    trained_on: str
    score: float
    auc: float | None


@dataclass(frozen=True)
class Importance:
    """How much each column matters to models trained on either table, and how well the two orders agree (Spearman)."""

    columns: tuple[str, ...]
    real: tuple[float, ...]
    synthetic: tuple[float, ...]
    agreement: float


@dataclass(frozen=True)
class Subgroup:
    """People with one value: rows on either side, how far the other columns are off, and how a model does on them."""

    column: str
    value: str
    real: int
    synthetic: int
    distance: float
    score_real: float | None = None
    score_synthetic: float | None = None


@dataclass(frozen=True)
class Grid:
    """A number for every two columns, in both tables."""

    columns: tuple[str, ...]
    real: Floats
    synthetic: Floats

    @property
    def difference(self) -> float:
        """The mean absolute difference over pairs of columns."""
        off = ~np.eye(len(self.columns), dtype=bool)
        return float(np.abs(self.real - self.synthetic)[off].mean()) if len(self.columns) > 1 else 0.0


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found. All of it is about private rows."""

    columns: tuple[str, ...]
    rows: tuple[int, int]
    distances: Mapping[int, Mapping[tuple[str, ...], float]]
    associations: Grid
    correlations: Grid
    utility: tuple[Utility, ...] = ()
    two_sample: float | None = None
    importance: Importance | None = None
    subgroups: tuple[Subgroup, ...] = ()
    losses: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, tuple[list[str], list[float], list[float]]] = field(default_factory=dict, repr=False)
    target: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def stamp(self) -> str:
        """What every form of this says."""
        return STAMP

    def distance(self, ways: int) -> float:
        """The mean total variation of all marginals of so many columns."""
        if ways not in self.distances:
            raise ParameterError(f"marginals of {ways} columns were not compared")
        return float(np.mean(list(self.distances[ways].values())))

    def __str__(self) -> str:
        told = ", ".join(f"{ways}-way {self.distance(ways):.4f}" for ways in self.distances)
        lines = [f"{STAMP}: {WHY}", f"total variation: {told}"]
        lines += [f"{one.model} trained on {one.trained_on}: {one.score:.3f}" for one in self.utility]
        lines += [] if self.two_sample is None else [f"a classifier tells the tables apart with AUC {self.two_sample:.3f}"]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain values, stamped."""
        from tacit.synthesis.evaluation_page import as_json

        return as_json(self)

    def figures(self) -> dict[str, Figure]:
        """The pictures, each stamped."""
        from tacit.synthesis.evaluation_page import figures

        return figures(self)

    def to_html(self) -> str:
        """A page of its own, stamped."""
        from tacit.synthesis.evaluation_page import page

        return page(self)

    def report(self, path: str | Path) -> None:
        """Write the page (a name that ends in .html) or the values (.json)."""
        from tacit.synthesis.evaluation_page import write

        write(self, path)


def evaluate(
    real: Any, synthetic: Any, *, target: str | None = None, columns: Sequence[Column] | None = None, by: Sequence[str] = (),
    test: Any = None, ways: Sequence[int] = (1, 2, 3), seed: int = 0,
) -> Evaluation:
    """Compare a synthetic table, or a fitted `Synthesizer`, with the real one. It costs nothing and must stay with the curator.

    `target` is the column that models predict; they are tested on `test`, real rows that the synthesizer has not seen, or
    on half of the real ones where there are none. `by` names columns whose values are the subgroups. `columns` says how
    values are cut into cells; a synthesizer has its own, otherwise both tables are looked at. What uses models needs
    scikit-learn: `pip install 'tacit[learn]'`.
    """
    made = synthetic if isinstance(synthetic, Synthesizer) else None
    table = made.sample() if made is not None else synthetic
    names = [c.name for c in columns or (made.columns if made else ())] or _shared(real, table)
    left, right = ({name: values_of(column_of(one, name)) for name in names} for one in (real, table))
    used = list(columns or (made.columns if made is not None else _looked_at(left, right)))
    sizes = [column.size for column in used]
    own, other = ([column.encode(side[column.name]) for column in used] for side in (left, right))
    draws = np.random.default_rng(seed)
    compared = {k: _distances(own, other, sizes, names, k, draws) for k in ways if k <= len(names)}
    found = Evaluation(
        tuple(names), (len(own[0]), len(other[0])), compared, _associations(own, other, sizes, names),
        _correlations(used, left, right), shares=_shares(used, own, other), target=target,
        subgroups=_subgroups(used, own, other, _places(names, by)), losses=_losses(made, left, own, sizes, draws, other),
    )  # fmt: skip
    found = replace(found, two_sample=_two_sample(_features(used, left, own), _features(used, right, other), seed))
    if target is None:
        return found
    (place,) = _places(names, [target])
    held = None if test is None else {name: values_of(column_of(test, name)) for name in names}
    return _with_models(found, used, place, left, right, held, seed)


# --- tables ----------------------------------------------------------------------------------------------------


def _shared(real: Any, synthetic: Any) -> list[str]:
    def listed(table: Any) -> list[str]:
        known = getattr(table, "column_names", None)
        return [str(name) for name in (list(table) if known is None else known)]

    names = [name for name in listed(synthetic) if name in listed(real)]
    if not names:
        raise ParameterError("the two tables share no column")
    return names


def _looked_at(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[Column]:
    """Columns as the values suggest: the curator may look, a release may not."""
    found: list[Column] = []
    for name in left:
        together = [*left[name], *right[name]]
        distinct = {same_text(value) for value in together} - {None}
        numbers = as_numbers(together)
        numbers = numbers[np.isfinite(numbers)]
        if len(distinct) > FEW and len(numbers) > 0.9 * len(together):
            edges = np.unique(np.quantile(numbers, np.linspace(0, 1, BINS + 1)))
            if len(edges) > 2:
                found.append(NumberColumn(name, tuple(edges.tolist())))
                continue
        found.append(CategoryColumn(name, tuple(sorted(distinct)) or ("none",)))
    return found


def _places(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    for name in wanted:
        if name not in names:
            raise ParameterError(f"there is no column {name} in both tables; there are {', '.join(names)}")
    return [list(names).index(name) for name in wanted]


# --- marginals -------------------------------------------------------------------------------------------------


def total_variation(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Half of the L1 distance of two tables of counts, each as shares of its total.

    >>> total_variation(np.array([1, 1]), np.array([3, 1]))
    0.25
    """
    return float(np.abs(one / max(1.0, one.sum()) - other / max(1.0, other.sum())).sum() / 2)


def _distances(
    own: Sequence[Cells], other: Sequence[Cells], sizes: Sequence[int], names: Sequence[str], ways: int, draws: np.random.Generator
) -> dict[tuple[str, ...], float]:
    marginals = list(itertools.combinations(range(len(sizes)), ways))
    if len(marginals) > MOST_MARGINALS:
        marginals = [marginals[i] for i in np.sort(draws.choice(len(marginals), MOST_MARGINALS, replace=False)).tolist()]
    return {
        tuple(names[c] for c in clique): total_variation(counted(own, sizes, clique), counted(other, sizes, clique))
        for clique in marginals
    }


def _associations(own: Sequence[Cells], other: Sequence[Cells], sizes: Sequence[int], names: Sequence[str]) -> Grid:
    real, made = np.eye(len(names)), np.eye(len(names))
    for a, b in itertools.combinations(range(len(names)), 2):
        real[a, b] = real[b, a] = cramers_v(counted(own, sizes, (a, b)))
        made[a, b] = made[b, a] = cramers_v(counted(other, sizes, (a, b)))
    return Grid(tuple(names), real, made)


def cramers_v(table: NDArray[np.int64]) -> float:
    """How strongly two columns depend on each other, from 0 to 1 (Cramér 1946); 0 where one of them is constant.

    >>> cramers_v(np.array([[5, 0], [0, 5]])), cramers_v(np.array([[2, 2], [3, 3]]))
    (1.0, 0.0)
    """
    kept = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0].astype(float)
    least = min(kept.shape, default=0) - 1
    if least < 1:
        return 0.0
    expected = np.outer(kept.sum(axis=1), kept.sum(axis=0)) / kept.sum()
    return float(math.sqrt(((kept - expected) ** 2 / expected).sum() / (kept.sum() * least)))


def _correlations(used: Sequence[Column], left: Mapping[str, Any], right: Mapping[str, Any]) -> Grid:
    numeric = [column.name for column in used if isinstance(column, NumberColumn)]
    matrices = []
    for side in (left, right):
        values = [as_numbers(side[name]) for name in numeric]
        matrix = np.eye(len(numeric))
        for a, b in itertools.combinations(range(len(numeric)), 2):
            both = np.isfinite(values[a]) & np.isfinite(values[b])
            x, y = values[a][both], values[b][both]
            varies = len(x) > 1 and x.std() > 0 and y.std() > 0
            matrix[a, b] = matrix[b, a] = float(np.corrcoef(x, y)[0, 1]) if varies else 0.0
        matrices.append(matrix)
    return Grid(tuple(numeric), *matrices)


def _shares(
    used: Sequence[Column], own: Sequence[Cells], other: Sequence[Cells]
) -> dict[str, tuple[list[str], list[float], list[float]]]:
    found = {}
    for column, one, two in zip(used, own, other, strict=True):
        sides = [(np.bincount(cells, minlength=column.size) / max(1, len(cells))).tolist() for cells in (one, two)]
        found[column.name] = (column.labels(), sides[0], sides[1])
    return found


def _subgroups(used: Sequence[Column], own: Sequence[Cells], other: Sequence[Cells], by: Sequence[int]) -> tuple[Subgroup, ...]:
    found = []
    sizes = [column.size for column in used]
    for place in by:
        for cell, label in enumerate(used[place].labels()):
            here, there = (own[place] == cell, other[place] == cell)
            if not here.any() and not there.any():
                continue
            off = [
                total_variation(counted([own[c][here]], [sizes[c]], (0,)), counted([other[c][there]], [sizes[c]], (0,)))
                for c in range(len(used)) if c != place
            ]  # fmt: skip
            found.append(Subgroup(used[place].name, label, int(here.sum()), int(there.sum()), float(np.mean(off or [0.0]))))
    return tuple(found)


# --- where the error comes in ----------------------------------------------------------------------------------


def _losses(
    made: Synthesizer | None, left: Mapping[str, Any], own: Sequence[Cells], sizes: Sequence[int],
    draws: np.random.Generator, other: Sequence[Cells],
) -> dict[str, float]:
    """Bins by how far values move, in parts of their range; the other steps by what they add to the distance of pairs.

    Selection: what the measured marginals cannot say even without noise. Model: what a fit to exact marginals misses of
    them. Noise: what the noisy fit is off beyond that. Rows: what drawing rows adds.
    """
    if made is None or len(sizes) < 2:
        return {}
    moved = []
    for column, cells in zip(made.columns, own, strict=True):
        if isinstance(column, NumberColumn):
            values = as_numbers(left[column.name])
            known = np.isfinite(values)
            back = as_numbers(column.decode(cells[known], draws))
            span = column.edges[-1] - column.edges[0]
            inside = np.clip(values[known], column.edges[0], column.edges[-1])
            moved.append(float(np.abs(np.sort(inside) - np.sort(back)).mean() / span) if known.any() else 0.0)
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    exact = {pair: counted(own, sizes, pair) for pair in pairs}
    cliques = list(dict.fromkeys(one.columns for one in made.measured_))
    true = [NoisyMarginal(c, counted(own, sizes, c).astype(float), 1.0) for c in cliques]
    quiet = fit(sizes, true, steps=400, possible=possible(made.columns, made.constraints))
    wanted = float(np.mean([total_variation(quiet.marginal(pair), exact[pair]) for pair in pairs]))
    misfit = float(np.mean([total_variation(quiet.marginal(one.columns), one.values) for one in true]))
    noisy = float(np.mean([total_variation(made.model.marginal(pair), exact[pair]) for pair in pairs]))
    drawn = float(np.mean([total_variation(counted(other, sizes, pair), exact[pair]) for pair in pairs]))
    return {
        "bins": float(np.mean(moved or [0.0])), "selection": wanted - misfit, "model": misfit,
        "noise": noisy - wanted, "rows": drawn - noisy,
    }  # fmt: skip


# --- models ----------------------------------------------------------------------------------------------------


def _sklearn() -> Any:
    try:
        import sklearn
        import sklearn.ensemble
        import sklearn.inspection
        import sklearn.linear_model
        import sklearn.metrics
        import sklearn.model_selection
        import sklearn.pipeline
        import sklearn.preprocessing
    except ModuleNotFoundError:
        raise PackageMissing(code="package-missing", package="scikit-learn", install="'tacit[learn]'") from None
    return sklearn


def _features(used: Sequence[Column], side: Mapping[str, Any], cells: Sequence[Cells]) -> Floats:
    """Numbers as they are, everything else by its cell."""
    columns = [
        as_numbers(side[column.name]) if isinstance(column, NumberColumn) else part.astype(float)
        for column, part in zip(used, cells, strict=True)
    ]
    return np.column_stack([np.clip(column, -1e12, 1e12) for column in columns])


def _two_sample(real: Floats, synthetic: Floats, seed: int) -> float | None:
    """How well a classifier tells the tables apart, on rows it was not trained on: .5 is not at all."""
    try:
        sklearn = _sklearn()
    except PackageMissing:
        return None
    size = min(len(real), len(synthetic), 20_000)
    if size < 20:
        return None
    draws = np.random.default_rng(seed)
    x = np.vstack([part[draws.choice(len(part), size, replace=False)] for part in (real, synthetic)])
    y = np.repeat([0, 1], size)
    model = sklearn.ensemble.HistGradientBoostingClassifier(max_iter=50, random_state=seed)
    folds = sklearn.model_selection.StratifiedKFold(3, shuffle=True, random_state=seed)
    scores = sklearn.model_selection.cross_val_predict(model, x, y, cv=folds, method="predict_proba")[:, 1]
    return float(sklearn.metrics.roc_auc_score(y, scores))


def _with_models(
    found: Evaluation, used: Sequence[Column], place: int, left: Mapping[str, Any], right: Mapping[str, Any],
    held: Mapping[str, Any] | None, seed: int,
) -> Evaluation:
    """Train on real and on synthetic rows, test on real ones."""
    sklearn = _sklearn()
    rest = [column for spot, column in enumerate(used) if spot != place]
    goal = used[place]

    def table(side: Mapping[str, Any]) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        features = _features(rest, side, [column.encode(side[column.name]) for column in rest])
        if classes:
            labels = goal.encode(side[goal.name])
            return features, labels.astype(float), labels < goal.size - 1
        numbers = as_numbers(side[goal.name])
        return features, numbers, np.isfinite(numbers)

    classes = not isinstance(goal, NumberColumn) or goal.size <= CLASSES
    real, made = table(left), table(right)
    notes = found.notes
    if held is None:
        notes += ("tested on half of the real rows, which the synthesizer has seen: scores may flatter it",)
        half = np.random.default_rng(seed).random(len(real[1])) < 0.5
        checked = (real[0][half], real[1][half], real[2][half])
        real = (real[0][~half], real[1][~half], real[2][~half])
    else:
        checked = table(held)
    train = {"real rows": (real[0][real[2]], real[1][real[2]]), "synthetic rows": (made[0][made[2]], made[1][made[2]])}
    x, y = checked[0][checked[2]], checked[1][checked[2]]
    scores, fitted = [], {}
    for source, (features, labels) in train.items():
        enough = len(labels) > 10 and (not classes or len(np.unique(labels)) > 1) and len(y) > 1
        for name, model in _models(sklearn, classes, [column.size for column in rest], seed).items():
            if not enough:
                notes += (f"{source} are too few, or have one class only: no model was trained on them",)
                continue
            model.fit(features, labels)
            scores.append(Utility(name, source, float(model.score(x, y)), _auc(sklearn, model, x, y) if classes else None))
            if name == BOOSTING:
                fitted[source] = model
    if len(fitted) < 2:
        return replace(found, utility=tuple(scores), notes=notes)
    ranks = [
        sklearn.inspection.permutation_importance(
            model, x[:2000], y[:2000], n_repeats=5, random_state=seed
        ).importances_mean
        for model in fitted.values()
    ]
    agreement = _spearman(*(np.where(one < NOTHING, 0.0, one) for one in ranks))
    importance = Importance(tuple(c.name for c in rest), tuple(ranks[0].tolist()), tuple(ranks[1].tolist()), agreement)
    groups = []
    for group in found.subgroups:
        if group.column == goal.name:
            groups.append(group)
            continue
        column = next(c for c in used if c.name == group.column)
        cells = column.encode(held[column.name]) if held is not None else column.encode(left[column.name])[half]
        inside = (cells == column.labels().index(group.value))[checked[2]]
        both = [float(model.score(x[inside], y[inside])) if inside.sum() > 1 else None for model in fitted.values()]
        groups.append(replace(group, score_real=both[0], score_synthetic=both[1]))
    return replace(found, utility=tuple(scores), importance=importance, subgroups=tuple(groups), notes=notes)


BOOSTING = "gradient boosting"


def _models(sklearn: Any, classes: bool, sizes: Sequence[int], seed: int) -> dict[str, Any]:
    linear = sklearn.linear_model
    steps = (sklearn.preprocessing.FunctionTransformer(np.nan_to_num), sklearn.preprocessing.StandardScaler())
    ensemble = sklearn.ensemble
    if classes:
        return {
            BOOSTING: ensemble.HistGradientBoostingClassifier(max_iter=80, random_state=seed),
            "logistic regression": sklearn.pipeline.make_pipeline(*steps, linear.LogisticRegression(max_iter=300)),
        }
    return {
        BOOSTING: ensemble.HistGradientBoostingRegressor(max_iter=80, random_state=seed),
        "linear regression": sklearn.pipeline.make_pipeline(*steps, linear.Ridge()),
    }


def _auc(sklearn: Any, model: Any, x: Floats, y: Floats) -> float | None:
    if len(model.classes_) != 2 or set(np.unique(y)) - set(model.classes_) or len(np.unique(y)) < 2:
        return None
    return float(sklearn.metrics.roc_auc_score(y == model.classes_[1], model.predict_proba(x)[:, 1]))


def _spearman(first: Floats, second: Floats) -> float:
    """Rank correlation with mean ranks for ties; 0 where one side has no order."""
    from scipy.stats import rankdata

    a, b = rankdata(first), rankdata(second)
    return float(np.corrcoef(a, b)[0, 1]) if a.std() > 0 and b.std() > 0 else 0.0
