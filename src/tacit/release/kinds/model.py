"""`kind: model`: a model trained by the job, its weights, and a card that says what it cost, what an attack found and whom it serves.

Every person has one row and one coin: the coin says whether the row is trained on or held out. So a person touches one of two things,
the fit or the counts of held-out people, and the output costs the dearer of the two, not their sum. One noisy histogram of
(group, score, label) gives accuracy, rates and calibration of every declared group with intervals. The attack runs on made-up rows
at the same price and reads no data.

>>> from tacit.release.job import EXAMPLE, parse
>>> from tacit.release.planning import plan
>>> job = parse(EXAMPLE.replace("columns:", '''columns:
...   again: {type: integer, categories: [0, 1]}
...   age: {type: number, bounds: [0, 110]}''').replace("outputs:", '''outputs:
...   - {name: again, kind: model, source: visits, estimator: LogisticRegression, label: again, positive: 1, features: [age, region],
...      groups: [region], holdout: 0.3, attack: 40, save: [json], weight: 1}'''))
>>> planned = plan(job)["again"]
>>> planned.inputs, planned.event.events[1] == planned.evaluation.event
(['age', 'region = north', 'region = south'], True)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from sqlglot import exp

from tacit import noise
from tacit.accounting import Adjacency, Event, Guarantee, Worst
from tacit.audit import Claim, held_against, rank_attack
from tacit.calculus import number_of
from tacit.exact import exact
from tacit.fairness import Calibration, Correction, Groups, PrivateRates, correct, noise_for
from tacit.mechanisms import NoisySums
from tacit.release.errors import JobError
from tacit.release.job_parts import ColumnSpec, Number, OutputSpec, Scalar
from tacit.release.kinds import Notice, Portion, Record, fields, model_card, model_trees
from tacit.release.page import plain
from tacit.tables import Desk

if TYPE_CHECKING:
    from tacit.release.job import Job

PRODUCT = "Model"
Array = NDArray[np.float64]
#: Classifiers give a score in [0, 1], regressors a number within the label's bounds.
CLASSIFIERS = ("LogisticRegression", *model_trees.CLASSIFIERS)
EVERYONE = Groups((("all", ("all",)),))
#: Made-up people that the attacked fits are about: few, so that one of them shows.
MADE_UP = 60
#: How sure the card's figure of the attack is, and how sure an alarm must be that holds a release back.
TOLD, SURE = 0.95, 0.9999


class ModelSpec(OutputSpec):
    """What is learnt from what, who is held out to measure it, and what is published.

    `holdout` is the share of people who are not trained on and measure the model. `attack` is how many fits to made-up rows the attack
    may look at. `positive` is the label whose chance is scored (classifiers); `within` is how near a prediction must be to count
    as right (regressors). `cells` is how many cells the scores are cut into for calibration. `save` lists the forms of the weights.
    With `gap` a classifier's decisions are corrected by group until true and false positive rates differ by no more, from the counts of
    held-out people: nothing more is paid, and whoever uses the model must know the group.
    """

    source: str
    estimator: Literal[
        "LogisticRegression", "LinearRegression", "Ridge",
        "DecisionTreeClassifier", "RandomForestClassifier", "GradientBoostingClassifier",
        "DecisionTreeRegressor", "RandomForestRegressor", "GradientBoostingRegressor",
    ]  # fmt: skip
    label: str
    positive: Scalar = None
    within: Number | None = None
    features: tuple[str, ...] = Field(min_length=1)
    groups: tuple[str, ...]
    holdout: Number
    gap: Number | None = None
    cells: int = Field(default=10, ge=2, le=100)
    attack: int = Field(ge=20, le=100_000)
    save: tuple[Literal["json", "npz", "onnx", "joblib"], ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        return {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _asks(self) -> ModelSpec:
        if self.accuracy is not None:
            raise ValueError("how good a model will be is not known before; give a weight")
        if not 0 < exact("holdout", self.holdout) < 1:
            raise ValueError("holdout is the share of people who measure the model: between 0 and 1, such as 0.3")
        if self.cells % 2:
            raise ValueError("cells must be even: accepted scores begin at the middle")
        if (self.positive is None) == self.classifies or (self.within is None) != self.classifies:
            needs = "positive: the label whose chance is scored" if self.classifies else "within: how near counts as right"
            raise ValueError(f"{self.estimator} needs {needs}, and only that of positive and within")
        if self.within is not None and exact("within", self.within) <= 0:
            raise ValueError("within must be greater than 0")
        if self.gap is not None and not (self.classifies and self.groups and 0 <= exact("gap", self.gap) < 1):
            raise ValueError("gap is how far the rates of a classifier's groups may differ: from 0 to below 1, with groups declared")
        if self.grows and set(self.save) - {"json", "npz"}:
            raise ValueError("trees are saved as json or npz; the file says how they are used")
        for name in ("features", "groups", "save"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} lists something twice")
        if self.label in self.features:
            raise ValueError("the label is no feature; leave it out of features")
        return self

    @property
    def classifies(self) -> bool:
        """Whether the estimator scores a label, and does not predict a number."""
        return self.estimator in CLASSIFIERS

    @property
    def grows(self) -> bool:
        """Whether the model is made of trees, and has no weights."""
        return self.estimator in model_trees.TREES


Block = ModelSpec


@dataclass(frozen=True)
class InputColumn:
    """How a column becomes numbers in [0, 1]: by its bounds, or one number for each declared category."""

    name: str
    bounds: tuple[float, float] | None
    categories: tuple[object, ...] = ()

    @property
    def inputs(self) -> list[str]:
        """The names of its numbers."""
        return [self.name] if self.bounds is not None else [f"{self.name} = {value}" for value in self.categories]

    def numbers(self, values: Sequence[object]) -> Array:
        """A row for each value. A missing number counts as the middle, an undeclared category as none of them."""
        if self.bounds is None:
            codes = Groups(((self.name, self.categories),)).codes([list(values)])
            return np.asarray(codes[:, None] == np.arange(len(self.categories)), dtype=np.float64)
        low, high = self.bounds
        read = np.array([number_of(value) for value in values], dtype=np.float64)
        cut = np.clip(np.where(np.isnan(read), (low + high) / 2, read), low, high)
        return np.asarray((cut - low) / ((high - low) or 1.0)).reshape(-1, 1)

    @property
    def record(self) -> Record:
        """What whoever applies the weights must know."""
        if self.bounds is not None:
            return {"column": self.name, "low": self.bounds[0], "high": self.bounds[1]}
        return {"column": self.name, "categories": [_plain(value) for value in self.categories]}


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float | str) else str(value)


@dataclass(frozen=True)
class ModelOutput:
    """A block that was checked. A fit has a price of its own, so it is priced in epsilon and delta."""

    spec: ModelSpec
    desk: Desk
    columns: tuple[InputColumn, ...]
    groups: Groups
    labels: tuple[object, ...]  # of a classifier: the other label, then the positive one
    range: tuple[float, float] | None  # of a regressor
    people: int | None  # where their number is public
    plain: bool = False
    figures: tuple[str, ...] = ("people",)

    @property
    def cells(self) -> int:
        """Cells of scores in the histogram of held-out people; a regressor's predictions are right or not."""
        return self.spec.cells if self.spec.classifies else 1

    @property
    def training_people(self) -> int | None:
        """How many people are trained on, on average, where the number of all is public."""
        return None if self.people is None else max(round(self.people * (1 - float(exact("holdout", self.spec.holdout)))), 1)


def prepare(block: ModelSpec, job: Job, desk: Desk, place: str) -> ModelOutput:
    """Check the block against the job's source, columns and unit."""
    fields.private_source(block, desk, place)
    unit, known = desk.unit, job.columns_of(block.source)
    if unit.key is not None or unit.ends is not None or unit.window is not None:
        raise JobError("a model has one row of each person: unit: {person: <column>, ...} without a window, or {row: true}", place="unit")
    if unit.person is not None and unit.person not in known:
        raise JobError(f"the source needs the person's column {unit.person!r} among the declared columns", place=f"{place}.source")
    people = None
    if unit.adjacency is Adjacency.REPLACE_ONE:
        people = job.expected.people if unit.person is not None else job.expected.rows
        if people is None:
            raise JobError("under replace-one the number of people is public: say it in expected: {people: ...}", place="expected")

    def declared(name: str, where: str) -> ColumnSpec:
        if name not in known:
            raise JobError(f"{name!r} is no declared column of the source", place=f"{place}.{where}")
        if unit.person is not None and name == unit.person:
            raise JobError("the person's column names people; a model must not learn it", place=f"{place}.{where}")
        return known[name]

    columns = tuple(_input(name, declared(name, "features"), f"{place}.features") for name in block.features)
    groups = {name: _listed(name, declared(name, "groups"), f"{place}.groups") for name in block.groups}
    labels: tuple[object, ...] = ()
    between: tuple[float, float] | None = None
    label = declared(block.label, "label")
    if block.classifies:
        listed = _listed(block.label, label, f"{place}.label")
        if len(listed) != 2 or block.positive not in listed:
            raise JobError("a classifier needs a label with two declared values, one of them `positive`", place=f"{place}.label")
        labels = (next(value for value in listed if value != block.positive), block.positive)
    else:
        if label.bounds is None or not exact("bound", label.bounds[0]) < exact("bound", label.bounds[1]):
            raise JobError(f"{block.label!r} needs declared bounds, the lower below the upper: columns.{block.label}.bounds", place=place)
        between = (float(exact("bound", label.bounds[0])), float(exact("bound", label.bounds[1])))
    return ModelOutput(block, desk, columns, Groups.of(groups) if groups else EVERYONE, labels, between, people)


def _listed(name: str, column: ColumnSpec, place: str) -> tuple[object, ...]:
    listed = tuple(value for value in column.listed or () if value is not None)
    if len(listed) < 2:
        raise JobError(f"{name!r} needs at least two declared values: columns.{name}.categories", place=place)
    return listed


def _input(name: str, column: ColumnSpec, place: str) -> InputColumn:
    if column.categories is not None:
        return InputColumn(name, None, _listed(name, column, place))
    if column.bounds is None:
        raise JobError(f"{name!r} needs declared bounds or categories: columns.{name}.bounds", place=place)
    low, high = (float(exact("bound", end)) for end in column.bounds)
    return InputColumn(name, (low, high))


@dataclass(frozen=True)
class PlannedModel:
    """A fit with its price, and the noise on the counts of held-out people."""

    output: ModelOutput
    portion: Portion
    training: Event
    evaluation: NoisySums

    @property
    def spec(self) -> ModelSpec:
        return self.output.spec

    @property
    def adjacency(self) -> Adjacency:
        """The relation that the price is for."""
        return self.output.desk.unit.adjacency

    @property
    def inputs(self) -> list[str]:
        """The names of the numbers that the model takes."""
        return [name for column in self.output.columns for name in column.inputs]

    @property
    def event(self) -> Event:
        """One of two: a person is trained on, or held out."""
        return Worst(self.training, self.evaluation.event)

    @property
    def noise(self) -> str:
        return self.evaluation.law

    @property
    def size(self) -> int:
        return len(self.inputs) + 1 + self.output.groups.size * self.output.cells * 2

    @property
    def score(self) -> float:
        return math.log(self.evaluation.deviation())

    @property
    def errors(self) -> dict[str, float]:
        return self.errors_at(self.output.desk.confidence)

    def errors_at(self, confidence: float) -> dict[str, float]:
        """How far a count of held-out people may be off. How good the model is cannot be known before."""
        return {"people": self.evaluation.error(confidence)}

    def estimator(self) -> Any:
        """The estimator of the plan, yet to be fitted."""
        return _estimator(self.output, self.portion.spend)


def _estimator(output: ModelOutput, spend: Guarantee) -> Any:
    from tacit import learning

    spec, columns = output.spec, output.columns
    terms: dict[str, Any] = {
        "guarantee": spend, "adjacency": output.desk.unit.adjacency.value,
    }  # fmt: skip
    if not spec.estimator.startswith("GradientBoosting"):  # boosting plans nothing by a number of rows
        terms["n_public"] = output.training_people
    if spec.grows:
        terms["bounds"] = (0.0, 1.0)
    else:
        # A column of numbers and the numbers of one category all lie in [0, 1], so no row is longer.
        terms["data_norm"] = math.sqrt(len(columns))
    if spec.classifies:
        terms["classes"] = [0, 1]
    else:
        terms["label_bounds"] = output.range
    return getattr(learning, spec.estimator)(**terms)


@functools.lru_cache(maxsize=256)
def _training_event(make: _Rehearsed) -> Event:
    """What the fit will cost: an event follows from public numbers, so a fit to rows of zeros shows it."""
    width = sum(len(column.inputs) for column in make.output.columns)
    found: Event = _estimator(make.output, make.spend).fit(np.zeros((20, width)), np.zeros(20)).event_
    return found


@dataclass(frozen=True, eq=False)
class _Rehearsed:
    """What a fit's event depends on, as a key."""

    output: ModelOutput
    spend: Guarantee

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Rehearsed) and self._key == other._key

    @property
    def _key(self) -> tuple[object, ...]:
        out = self.output
        return (
            out.spec.estimator, out.columns, out.range, out.training_people, out.desk.unit.adjacency, str(self.spend), self.spend.words
        )  # fmt: skip


def plan(output: ModelOutput, portion: Portion) -> PlannedModel:
    """Fit and counts, each for the whole portion: one person touches one of them. No data is touched."""
    evaluation = noise_for(portion.spend, output.desk.unit.adjacency)
    if output.spec.estimator.startswith("GradientBoosting") and portion.spend.pure:
        raise JobError(
            "boosting adds Gaussian noise, which has no price without a delta: give the budget a delta, or grow a forest",
            place=f"{output.spec.name}.estimator",
        )
    return PlannedModel(output, portion, _training_event(_Rehearsed(output, portion.spend)), evaluation)


def notices(planned: PlannedModel, job: Job, place: str) -> list[Notice]:
    """Groups that the noise would hide, a model without declared groups, and files that run code."""
    found, output = [], planned.output
    if not planned.spec.groups:
        text = "no group is declared, so the figures cannot show whom the model serves worse; list columns with categories"
        found.append(Notice("no groups", f"{place}.groups", text))
    rows = job.expected.people or job.expected.rows
    if rows is not None:
        held = rows * float(exact("holdout", planned.spec.holdout)) / output.groups.size
        off = planned.errors["people"] * math.sqrt(output.cells) / max(held, 1.0)
        if off > 0.1:
            text = f"the accuracy of an average group would be off by up to {off:.2g}; hold out more, or compare fewer groups"
            found.append(Notice("accuracy mostly noise", f"{place}.groups", text))
    if planned.spec.gap is not None:
        text = "corrected decisions need the group of everyone the model is used on: check that it may be known and used there"
        found.append(Notice("needs the group in use", f"{place}.gap", text))
    if "joblib" in planned.spec.save:
        text = "a joblib file runs code when it is loaded: whoever takes it must trust whoever made it; json and npz hold numbers only"
        found.append(Notice("joblib runs code", f"{place}.save", text))
    return found


def explain(planned: PlannedModel) -> tuple[str, str]:
    """What is done in words, and the statement that is sent."""
    spec = planned.spec
    words = (
        f"{spec.estimator} of {spec.label} from {len(planned.inputs)} numbers, one row a person; {planned.training!r} for people "
        "whose rows are used for training, "
        f"{planned.evaluation.event!r} for those held out (about {float(exact('holdout', spec.holdout)):.0%})"
    )
    return words, _statement(planned).sql(dialect=planned.output.desk.engine.dialect, pretty=True)


def _statement(planned: PlannedModel) -> exp.Select:
    spec, person = planned.spec, planned.output.desk.unit.person
    names = dict.fromkeys([*([] if person is None else [person]), spec.label, *spec.features, *spec.groups])
    columns = [exp.column(name, quoted=True) for name in names]
    return exp.Select(expressions=columns).from_(exp.to_table(spec.source, quoted=True))


# --- the draw ---------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """One row of each person: numbers, label and group. A label or a group that was not declared is NaN or -1."""

    X: Array
    label: Array
    group: NDArray[np.int64]

    def part(self, chosen: NDArray[np.bool_]) -> Rows:
        """Some of the rows."""
        return Rows(self.X[chosen], self.label[chosen], self.group[chosen])


def _rows(planned: PlannedModel) -> Rows:
    output = planned.output
    table = output.desk.engine.run(_statement(planned))
    values = dict(zip((column.alias_or_name for column in _statement(planned).expressions), table.columns, strict=True))
    read = {name: column.to_pylist() for name, column in values.items()}
    count, person = table.num_rows, output.desk.unit.person
    kept = np.arange(count) if person is None else one_of_each(read[person])
    read = {name: [column[place] for place in kept] for name, column in read.items()}
    X = np.hstack([column.numbers(read[column.name]) for column in output.columns])
    if planned.spec.classifies:
        codes = Groups(((planned.spec.label, output.labels),)).codes([read[planned.spec.label]])
        label = np.where(codes >= 0, codes, np.nan).astype(np.float64)
    else:
        label = np.array([number_of(value) for value in read[planned.spec.label]], dtype=np.float64)
    named = planned.spec.groups
    group = output.groups.codes([read[name] for name in named]) if named else np.zeros(len(kept), dtype=np.int64)
    return Rows(X, label, group)


def one_of_each(people: Sequence[object]) -> NDArray[np.int64]:
    """The place of one row of each person, chosen at random among that person's rows; rows without a person are left out.

    Which row is chosen depends on no other person. A missing identifier (null or NaN) is no person.

    >>> sorted(int(place) for place in one_of_each(["a", None, "b", float("nan")]))
    [0, 2]
    """
    # A random order of the rows, and the first of each person in it.
    order = noise.permutation(len(people))
    first: dict[object, int] = {}
    for place in order.tolist():
        who = people[place]
        if who is None or who != who:
            continue
        try:
            first.setdefault(who, place)
        except TypeError:  # a list or a struct, which no unit of people is
            first.setdefault(repr(who), place)
    return np.array(sorted(first.values()), dtype=np.int64)


def draw(planned: PlannedModel) -> Record:
    """Toss a coin for each person, fit, count held-out people with noise, and attack made-up fits; once."""
    rows = _rows(planned)
    held = noise.bernoulli(Fraction(exact("holdout", planned.spec.holdout)), len(rows.X)).astype(bool)
    model = fitted(planned, rows.part(~held))
    counts = counted(planned, model, rows.part(held))
    found = attacked(planned)
    if model.event_ != planned.training:  # a fit that costs something else than was paid for is not released
        raise RuntimeError("the fit has another price than its plan")
    start, trees = model_trees.tree_form(model) if planned.spec.grows else (float(np.ravel(model.intercept_)[0]), [])
    return {
        "coef": [] if planned.spec.grows else [plain(float(value)) for value in np.ravel(model.coef_)],
        "intercept": plain(start),
        **({"trees": trees} if planned.spec.grows else {}),
        "counts": planned.evaluation.add(counts).tolist(),
        "attack": found,
    }


def fitted(planned: PlannedModel, rows: Rows) -> Any:
    """The estimator, fitted. A person without a declared label counts for nothing in a classifier."""
    label = np.where(np.isnan(rows.label), -1, rows.label).astype(np.int64) if planned.spec.classifies else rows.label
    return planned.estimator().fit(rows.X, label)


def counted(planned: PlannedModel, model: Any, rows: Rows) -> NDArray[np.int64]:
    """Counts of (group, cell of the score, label), or of (group, all, right) for a regressor; each person in one of them, or in none."""
    output, cells = planned.output, planned.output.cells
    if len(rows.X) == 0:
        return np.zeros((output.groups.size, cells, 2), dtype=np.int64)
    if planned.spec.classifies:
        scores = np.nan_to_num(model.predict_proba(rows.X)[:, 1], nan=0.5)
        cell = np.minimum((np.clip(scores, 0.0, 1.0) * cells).astype(np.int64), cells - 1)
        outcome = np.nan_to_num(rows.label, nan=0.0).astype(np.int64)
    else:
        assert planned.spec.within is not None
        cell = np.zeros(len(rows.X), dtype=np.int64)
        outcome = (np.abs(model.predict(rows.X) - rows.label) <= float(exact("within", planned.spec.within))).astype(np.int64)
    size = output.groups.size * cells * 2
    at = np.where((rows.group >= 0) & ~np.isnan(rows.label), (rows.group * cells + cell) * 2 + outcome, size)
    return np.bincount(at, minlength=size + 1)[:-1].reshape(output.groups.size, cells, 2)


def attacked(planned: PlannedModel) -> Record:
    """What an attack on fits to made-up rows finds: half of them are about one person more (or another one), who stands in a corner.

    The attacker knows all other rows and sees the released weights. No row of the data is read.
    """
    output, spec = planned.output, planned.spec
    random = np.random.default_rng(1729)  # made-up rows are public, and the same in every run
    width = len(planned.inputs)
    X = np.zeros((MADE_UP + 1, width))
    place = 0
    for column in output.columns:
        if column.bounds is not None:
            X[:, place] = random.random(MADE_UP + 1)
        else:
            X[np.arange(MADE_UP + 1), place + random.integers(0, len(column.inputs), MADE_UP + 1)] = 1.0
        place += len(column.inputs)
    low, high = (0.0, 1.0) if output.range is None else output.range
    y = np.where(random.random(MADE_UP + 1) < 0.5, low, high)
    target = np.concatenate([np.eye(len(column.inputs))[0] for column in output.columns])  # a corner of the declared rows
    X[-1], scores = target, np.zeros((2, spec.attack // 2))
    for world in (0, 1):
        label = y.copy()
        label[-1] = high if world else low
        count = MADE_UP + 1 if world or planned.adjacency is Adjacency.REPLACE_ONE else MADE_UP
        for run in range(scores.shape[1]):
            model = planned.estimator().fit(X[:count], label[:count].astype(np.int64) if spec.classifies else label[:count])
            scores[world, run] = _score(planned, model, target)
    claim = Claim.of(planned.portion.spend, adjacency=planned.adjacency)
    delta = claim.delta
    scores = np.nan_to_num(scores, nan=0.0, posinf=1e300, neginf=-1e300)
    told, sure, most = (
        rank_attack(*pair, delta=delta, confidence=confidence, attack="weights at a made-up person", game="worst case")
        for pair, confidence in ((scores, TOLD), (scores, SURE), ((np.zeros_like(scores[0]), np.ones_like(scores[1])), TOLD))
    )
    return {
        "fits": 2 * int(scores.shape[1]),
        "lower": plain(told.lower),
        "most": plain(most.lower),
        "claimed": plain(claim.epsilon(delta)),
        "delta": delta,
        "confidence": TOLD,
        "broken": bool(held_against(claim, sure).broken),
    }


def _score(planned: PlannedModel, model: Any, row: Array) -> float:
    """What a fitted estimator makes of one row of inputs, before a link."""
    if planned.spec.grows:
        start, trees = model_trees.tree_form(model)
        return float(model_trees.summed(start, trees, row[None])[0])
    return float(np.ravel(model.coef_) @ row + np.ravel(model.intercept_)[0])


# --- what was drawn ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class TrainedModel:
    """Weights, noisy counts of held-out people by group, and what the attack found."""

    coef: Array
    intercept: float
    calibration: Calibration
    rates: PrivateRates | None  # of a classifier
    attack: Record
    private: bool
    correction: Correction | None = None  # of a classifier that must know the group in use
    trees: tuple[Record, ...] = ()  # instead of weights

    def __repr__(self) -> str:
        made = f"{len(self.trees)} trees" if self.trees else f"{len(self.coef)} numbers"
        return f"a model of {made}, measured on {self.calibration.groups.size} groups"


def result(planned: PlannedModel, drawn: Record, private: bool, entry: int | None) -> TrainedModel:
    """The model and its figures."""
    output, counts = planned.output, np.array(drawn["counts"], dtype=np.int64)
    price, confidence = planned.portion.spend.price(planned.evaluation.event, planned.adjacency), output.desk.confidence
    calibration = Calibration(output.groups, counts.astype(np.float64), planned.evaluation, price, private, confidence)
    rates, correction = None, None
    if planned.spec.classifies:
        half = output.cells // 2
        # (group, cell, label) becomes (group, label, accepted): scores of a half and more are accepted
        table = np.stack([counts[:, :half].sum(axis=1), counts[:, half:].sum(axis=1)], axis=2)
        rates = PrivateRates(output.groups, table, planned.evaluation, price, private, confidence, merged=half)
        if planned.spec.gap is not None:
            correction = correct(table, gap=float(exact("gap", planned.spec.gap)))
    coef = np.array([math.nan if value is None else value for value in drawn["coef"]], dtype=np.float64)
    intercept = math.nan if drawn["intercept"] is None else float(drawn["intercept"])
    trees = tuple(drawn.get("trees", ()))
    return TrainedModel(coef, intercept, calibration, rates, drawn["attack"], private, correction, trees)


def checks(planned: PlannedModel, result: TrainedModel) -> list[tuple[str, bool]]:
    """Soundness of what was released; no data."""
    finite = bool(np.isfinite(result.coef).all()) and math.isfinite(result.intercept)
    if planned.spec.grows:
        shape = ("every tree is full, with finite values", bool(result.trees) and model_trees.sound(result.trees, len(planned.inputs)))
    else:
        shape = ("there is a weight for every input", len(result.coef) == len(planned.inputs))
    return [
        ("every weight is a finite number", finite),
        shape,
        ("the attack stays below the price", not result.attack["broken"]),
    ]


def files(planned: PlannedModel, result: TrainedModel, formats: Sequence[str]) -> dict[str, bytes]:
    """The weights in the forms that were asked for, and the card for people and for programs."""
    return {**model_card.weights(planned, result), **model_card.card_files(planned, described(planned, result), result.private)}


def recorded(planned: PlannedModel, result: TrainedModel) -> Record:
    """What was trained on what, and its price."""
    spec = planned.spec
    return fields.recorded_of(
        planned, source=spec.source, estimator=spec.estimator, label=spec.label, features=list(spec.features),
        groups=list(spec.groups), holdout=float(exact("holdout", spec.holdout)),
        files=[f"{spec.name}_weights", f"{spec.name}_card"],
    )  # fmt: skip


def post_processing(planned: PlannedModel) -> list[str]:
    """Figures by group follow from one noisy histogram, and so does a correction."""
    corrected = [] if planned.spec.gap is None else ["a correction of decisions by group from the same counts"]
    return ["accuracy, rates and calibration from noisy counts of held-out people", *corrected]


def described(planned: PlannedModel, result: TrainedModel | None) -> Record:
    """What the report and the card say."""
    return model_card.described(planned, result)


def section(described: Record, confidence: str) -> str:
    """The figures of every group, the attack and the weights."""
    return model_card.section(described, confidence)


def review(outputs: Sequence[PlannedModel], private: bool) -> Mapping[str, str]:
    """What a reviewer asks about models."""
    return {
        "Who bears the noise?": "The noise of training moves predictions for rare kinds of people most; accuracy and calibration of every "
        "declared group are measured on held-out people, and small groups have the wider intervals.",
        "Do bounds or groups come from the data?": "No: features, bounds, categories, labels and groups are declared in the job.",
    }
