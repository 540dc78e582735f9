"""Every place that pays, driven through its public function until something inside shows a row: nothing of it comes out.

The places are found in the source. A new one fails `test_every_place_that_pays_has_a_case` until it has a case here: a
function that calls the room's public function with an account (or None) and makes the work inside call `explode`.
"""

from __future__ import annotations

import ast
import importlib
import logging
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from tests.ledger.leaks import leak, secret, shown

import tacit
from tacit import fairness, learning
from tacit.accounting import PureDP
from tacit.applications import energy, health, vision
from tacit.calculus import AddRemove, Integers, Measurement, Rows, Space
from tacit.deep import FullBatch, evaluate, make_private, make_user_private, pate
from tacit.deep.clipping import Clipper
from tacit.deep.pate import Ensemble, LaplaceVotes
from tacit.deep.tune import Trials, tune, tune_grid
from tacit.ledger import (
    Account,
    Budget,
    BudgetExceeded,
    InteractiveMeasurement,
    Ledger,
    LedgerError,
    ReleaseFailed,
    queryable,
)
from tacit.local import Client, Protocol, frequencies
from tacit.release import run
from tacit.release.errors import OutputFailed
from tacit.release.job import EXAMPLE, parse
from tacit.synthesis import (
    CategoryColumn,
    Level,
    from_session,
    neural_synthesizer,
    relational,
    synthesize_tables,
    synthesizer,
    tables_from_session,
)
from tacit.tables import Cut, EngineError, Periods, desk
from tacit.workloads import Identity, Marginals, Product, View, open_online, plan, plan_above, plan_dawa, stream, views

SOURCE = Path(tacit.__file__).parent
distance_module = importlib.import_module("tacit.synthesis.paid_distance")
ROWS = Space(Rows(Integers()), AddRemove())
TEXT = "the computation failed after the data was touched. {} stays spent, and the reason is withheld"


def explode(*_: Any, **__: Any) -> Any:
    """Stands in for the work on the data: it warns, logs and fails, and shows a row each time."""
    warnings.warn(f"overflow at {secret()}", RuntimeWarning, stacklevel=1)
    logging.getLogger("solver").error("no convergence for %s", secret())
    leak()


@dataclass(frozen=True)
class Case:
    """One way to fail inside a place that pays. `run` gets an account, or None where `free`.

    `error` is what the room raises. `resumable` work leaves its entry open, because it can be gone on with.
    """

    site: str
    run: Callable[..., object]
    name: str
    free: bool = True
    error: type[Exception] = ReleaseFailed
    resumable: bool = False


CASES: list[Case] = []


def case(*sites: str, free: bool = True, **more: Any) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Mark a function as a case of a site, "room/module.py:Class.function"."""

    def mark(run: Callable[..., object]) -> Callable[..., object]:
        CASES.extend(Case(site, run, run.__name__, free, **more) for site in sites)
        return run

    return mark


# --- the places ---------------------------------------------------------------------------------------------


def sites() -> set[str]:
    """Every function in the source that calls `paying`, as "room/module.py:Class.function"."""
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        if module.startswith("audit/selftest/") or module.endswith("/selftest.py"):  # attacks on made-up rows, which show what they did
            continue
        text = path.read_text(encoding="utf-8")
        if "paying" in text:
            found |= {f"{module}:{name}" for name in callers(ast.parse(text), "paying")}
    return found


def callers(tree: ast.Module, wanted: str) -> set[str]:
    """The qualified names of the functions of a module that call something of this name."""
    found = set()

    def visit(node: ast.AST, place: tuple[str, ...]) -> None:
        if isinstance(node, ast.Call):
            called = node.func
            name = (
                called.id
                if isinstance(called, ast.Name)
                else called.attr
                if isinstance(called, ast.Attribute)
                else ""
            )
            if name == wanted:
                found.add(".".join(place))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            place = (*place, node.name)
        for child in ast.iter_child_nodes(node):
            visit(child, place)

    visit(tree, ())
    return found


def test_every_place_that_pays_has_a_case() -> None:
    assert sites() == {one.site for one in CASES}


def test_the_search_finds_both_ways_to_pay() -> None:
    tree = ast.parse(
        "class A:\n def f(self):\n  with self.account.paying(1): pass\ndef g():\n  paying(None, 1)"
    )
    assert callers(tree, "paying") == {"A.f", "g"}


# --- the ledger ---------------------------------------------------------------------------------------------


def costly(function: Callable[[Any], Any], epsilon: float = 0.25) -> Measurement:
    return Measurement(ROWS, function, lambda d: PureDP(epsilon * d), "costly", proof="by fiat")


@case("ledger/account.py:Account.release", free=False)
def released(account: Account) -> object:
    return account.release(costly(explode), [1, 2, 3])


@case("ledger/account.py:Account.paying", free=False)
def paid(account: Account) -> object:
    with account.paying(PureDP(0.25)):
        explode()
    return None


def purse(account: Account | None) -> Account | Budget:
    return Budget(epsilon=1, delta="1e-5") if account is None else account


@case("ledger/queryable.py:Queryable.ask")
def asked(account: Account | None) -> object:
    return queryable([1, 2, 3], ROWS, purse(account)).ask(costly(explode))


@case("ledger/queryable.py:Conversation.ask")
def talked_with(account: Account | None) -> object:
    interactive = InteractiveMeasurement(
        ROWS, lambda rows: explode, lambda d: PureDP(0.25 * d), "talk", proof="by fiat"
    )
    return queryable([1, 2, 3], ROWS, purse(account)).spawn(interactive).ask("how many?")


@case("ledger/queryable.py:Programme.ask")
def asked_in_a_programme(account: Account | None) -> object:
    return queryable([1, 2, 3], ROWS, purse(account)).sequence([PureDP(0.25)]).ask(costly(explode, 0.125))


# --- fairness -----------------------------------------------------------------------------------------------


def grouped(account: Account | None, patched: pytest.MonkeyPatch) -> dict[str, Any]:
    """Terms of a release by group, in which placing people into groups fails."""
    patched.setattr(fairness.Groups, "codes", explode)
    return {"groups": {"sex": ["F", "M"]}, "sensitive_features": ["F", "M"], "account": account, "epsilon": 0.5}


@case("fairness/private_rates.py:private_rates")
def rated(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    return fairness.private_rates([1, 0], [1, 0], **grouped(account, patched))


@case("fairness/calibration.py:private_calibration")
def calibrated(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    return fairness.private_calibration([0.5, 0.5], [1, 0], **grouped(account, patched))


@case("fairness/multicalibration.py:multicalibrate")
def multicalibrated(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    return fairness.multicalibrate([0.5, 0.5], [1, 0], **grouped(account, patched), delta=1e-7)


@case("fairness/impact.py:disparate_impact")
def compared_by_group(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    return fairness.disparate_impact([1, 0], [1, 0], y=[1, 0], **grouped(account, patched))


@case("fairness/game.py:fair_mixture")
def mixed(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    return fairness.fair_mixture(np.ones((2, 2)), [1, 0], **grouped(account, patched), rounds=2)


@case("fairness/thresholds.py:EqualizedOdds.fit")
def corrected_by_group(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    terms = grouped(account, patched)
    features = terms.pop("sensitive_features")
    model = learning.LogisticRegression(epsilon=0.25, delta=1e-7, bounds=(-1, 1), classes=[0, 1])
    return fairness.EqualizedOdds(model, **terms).fit(X[:2], [1, 0], sensitive_features=features)


# --- pictures, tracks and gaze ------------------------------------------------------------------------------

PIXELATE = vision.Pixelize(cell=2, pixels=1, epsilon=0.25)
PRESENCE = vision.Presence(keyframes=2, epsilon=1)
GAZE = vision.GazeStream(radius=1, window=1, epsilon=0.25)
PICTURE = np.zeros((4, 4), np.uint8)


def for_unit(account: Account | None, unit: str) -> Account | None:
    """An account of the same book for pixels, objects or points."""
    if account is None:
        return None
    return account.ledger.account(unit, Budget(epsilon=1, delta="1e-5"), unit=unit, adjacency="replace-one")


@case("applications/vision/images.py:release")
def picture_hidden(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(vision.Pixelize, "hidden", explode)
    return vision.release(PIXELATE, PICTURE, account=for_unit(account, PIXELATE.unit))


@case("applications/vision/video.py:release_frames")
def frames_hidden(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(vision.Pixelize, "hidden", explode)
    unit = f"{PIXELATE.unit}, in each of 2 frames"
    return vision.release_frames(PIXELATE, [PICTURE] * 2, account=for_unit(account, unit))


@case("applications/vision/tracks.py:release_tracks")
def tracks_randomised(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(vision.Presence, "reports", explode)
    return vision.release_tracks(PRESENCE, np.ones((40, 2), int), account=for_unit(account, PRESENCE.unit))


@case("applications/vision/gaze.py:release_gaze")
def gaze_hidden(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(vision.GazeStream, "hidden", explode)
    return vision.release_gaze(GAZE, np.zeros((2, 2)), account=for_unit(account, GAZE.unit))


# --- estimators ---------------------------------------------------------------------------------------------

X = np.random.default_rng(0).uniform(-1, 1, size=(40, 2))
Y = (X[:, 0] > 0).astype(int)
PLAIN: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-6, "bounds": (-1, 1)}
LABELLED = PLAIN | {"classes": [0, 1]}
PURE = LABELLED | {"delta": 0}
MEASURED = PLAIN | {"label_bounds": (0, 1)}
MODELS: dict[str, Callable[[Account | None], Any]] = {
    "StandardScaler": lambda a: learning.StandardScaler(**PLAIN, account=a),
    "MinMaxScaler": lambda a: learning.MinMaxScaler(epsilon=0.5, delta=1e-6, bounds=(-1, 1), account=a),
    "PCA": lambda a: learning.PCA(n_components=1, **PLAIN, account=a),
    "KMeans": lambda a: learning.KMeans(n_clusters=2, **PLAIN, account=a),
    "GaussianNB": lambda a: learning.GaussianNB(**LABELLED, account=a),
    **{
        f"LogisticRegression {solver}": lambda a, solver=solver: learning.LogisticRegression(  # type: ignore[misc]
            **LABELLED, solver=solver, account=a
        )
        for solver in ("descent", "objective", "output")
    },
    **{
        f"LogisticRegression {solver}": lambda a, solver=solver: learning.LogisticRegression(  # type: ignore[misc]
            **PURE, solver=solver, account=a
        )
        for solver in ("sums", "cube", "tilted")
    },
    "LinearSVC": lambda a: learning.LinearSVC(**LABELLED, account=a),
    "DecisionTree": lambda a: learning.DecisionTreeClassifier(**PURE, account=a),
    "RandomForest": lambda a: learning.RandomForestClassifier(**LABELLED, account=a),
    "GradientBoosting": lambda a: learning.GradientBoostingClassifier(**LABELLED, account=a),
    "DecisionTreeRegressor": lambda a: learning.DecisionTreeRegressor(**MEASURED, account=a),
    "RandomForestRegressor": lambda a: learning.RandomForestRegressor(**MEASURED, account=a),
    "GradientBoostingRegressor": lambda a: learning.GradientBoostingRegressor(**MEASURED, account=a),
    **{
        f"LinearRegression {solver}": lambda a, solver=solver: learning.LinearRegression(  # type: ignore[misc]
            **MEASURED, solver=solver, account=a
        )
        for solver in ("staged", "descent", "moments", "objective")
    },
    "Ridge": lambda a: learning.Ridge(**MEASURED, account=a),
    "Lasso": lambda a: learning.Lasso(**MEASURED, account=a),
    "HuberRegressor": lambda a: learning.HuberRegressor(threshold=0.5, **MEASURED, account=a),
    "PoissonRegressor": lambda a: learning.PoissonRegressor(**PLAIN, label_bounds=(0, 5), account=a),
    "QuantileRegressor": lambda a: learning.QuantileRegressor(**MEASURED, account=a),
}
FITTING = "learning/estimator.py:Fitting.__init__"


def fitted(name: str) -> Callable[..., object]:
    def run(account: Account | None, patched: pytest.MonkeyPatch) -> object:
        patched.setattr(learning.RowSpace, "scale", explode)  # the first thing that every fit does with values
        return MODELS[name](account).fit(X, Y)

    return run


CASES.extend(Case(FITTING, fitted(name), f"fit {name}") for name in MODELS)


@case(FITTING)
def calibrated_probabilities(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    model = learning.LogisticRegression(**LABELLED).fit(X, Y)
    patched.setattr(learning.CalibratedClassifier, "_odds", explode)
    return learning.CalibratedClassifier(model, epsilon=0.5, delta=1e-6, account=account).fit(X, Y)


@case("learning/search.py:PrivateSearchCV.fit")
def searched(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    search = learning.PrivateSearchCV(learning.LogisticRegression(**LABELLED), {"solver": ["descent"]}, mean_trials=2, account=account)
    search.price(X)  # on zeros
    patched.setattr(learning.PrivateSearchCV, "price", lambda self, X: PureDP(0.1))
    patched.setattr(learning.RowSpace, "scale", explode)
    return search.fit(X, Y)


@case(FITTING)
def fitted_with_a_seed(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(learning.RowSpace, "scale", explode)
    with tacit.noise.test_mode(1):
        return learning.StandardScaler(**PLAIN, account=account, random_state=3).fit(X)


class FailsOnRows(learning.StandardScaler):
    """A private step that goes through on the zeros that the pipeline is priced with, and fails on the data."""

    def fit(self, X: Any, y: object = None) -> Any:
        return explode() if np.any(X) else super().fit(X, y)


def steps() -> list[tuple[str, Any]]:
    return [("odd", FailsOnRows(**PLAIN)), ("scale", learning.StandardScaler(**PLAIN))]


@case("learning/pipeline.py:Pipeline._paid")
def fitted_in_a_pipeline(account: Account | None) -> object:
    return learning.Pipeline(steps(), account=account).fit(X)


@case("learning/columns.py:ColumnTransformer._fit")
def fitted_by_columns(account: Account | None) -> object:
    parts = [(name, step, list(range(X.shape[1]))) for name, step in steps()[:1]]
    return learning.ColumnTransformer(parts, account=account).fit(X)


@case("learning/pipeline.py:Pipeline._paid")
def fitted_and_transformed_in_a_pipeline(account: Account | None) -> object:
    return learning.Pipeline(steps(), account=account).fit_transform(X)


@case("learning/pipeline.py:Pipeline._paid")
def fitted_and_clustered_in_a_pipeline(account: Account | None) -> object:
    last = ("cluster", learning.KMeans(n_clusters=2, **PLAIN))
    return learning.Pipeline([steps()[0], last], account=account).fit_predict(X)


# --- deep ---------------------------------------------------------------------------------------------------

TUNING: dict[str, Any] = {"event": PureDP(0.05), "score_event": "public", "delta": 1e-6}


@case("deep/tune.py:tune")
def tuned_by_a_failing_run(account: Account | None) -> object:
    return tune(explode, [1, 2], score=float, trials=Trials(2, shape=0), account=account, **TUNING)


@case("deep/tune.py:tune")
def tuned_by_a_failing_score(account: Account | None) -> object:
    return tune(lambda s: s, [1, 2], score=explode, trials=Trials(2, shape=0), account=account, **TUNING)


@case("deep/tune.py:tune_grid")
def tuned_over_a_grid(account: Account | None) -> object:
    return tune_grid(explode, [1, 2], score=float, account=account, **TUNING)


def teachers(account: Account | None, *more: Any) -> Ensemble[Any]:
    agreeing = [lambda x: [0] * len(x)] * 10
    return Ensemble([*agreeing, *more], 2, LaplaceVotes(0.1), account=account, delta=1e-7)


@case("deep/pate.py:Ensemble.label")
def labelled_by_a_failing_teacher(account: Account | None) -> object:
    return teachers(account, explode).label([1, 2])


@case("deep/pate.py:Ensemble.report")
def published_at_a_price(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    ensemble = teachers(account)
    ensemble.label([1, 2])
    patched.setattr(pate, "publish_cost", explode)
    return ensemble.report(1e-5, sanitise=0.1)


class Records(torch.utils.data.Dataset[Any]):
    """Records of which one cannot be read."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, place: int) -> Any:
        return explode() if place == 5 else (torch.ones(2), torch.zeros(1))


HOW: dict[str, Any] = {"noise_multiplier": 20.0, "clip": 1.0, "steps": 2}
DATA = torch.ones(8, 2), torch.zeros(8, 1)


def trained(run: Any, after: Callable[[Any], None] = lambda run: None) -> None:
    model, optimizer, loader = run
    for x, y in loader:
        after(run)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


def training(data: Any, account: Account | None) -> Any:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return make_private(model, optimizer, data, sampler=FullBatch(8), account=account, delta=1e-6, **HOW)


BEGIN = "deep/private.py:PrivateTraining.begin"


@case(BEGIN)
def trained_on_a_record_that_fails(account: Account | None) -> object:
    return trained(training(Records(), account))


@case(BEGIN)
def trained_with_a_failing_sum(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    run = training(DATA, account)
    patched.setattr(Clipper, "collect", explode)
    return trained(run)


@case(BEGIN)
def trained_with_failing_noise(account: Account | None) -> object:
    run = training(DATA, account)
    run._noisy_gradients = explode
    return trained(run)


@case("deep/watching.py:evaluate")
def evaluated_with_a_failing_record(account: Account | None) -> object:
    run = training(DATA, None)
    return evaluate(run, DATA[0], DATA[1][:, 0], groups=Told(), known=["a"], epsilon=0.05, account=account, delta=1e-6)


class Told(list[Any]):
    """Groups that cannot be read."""

    def __iter__(self) -> Any:
        return explode()


@case("deep/private.py:PrivateTraining.admitted")
def trained_step_by_step(account: Account | None) -> object:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    how: dict[str, Any] = {"sampler": FullBatch(8), "stop_at": "eps=1, delta=1e-6", "reserve": "step"} | HOW
    return trained(make_private(model, optimizer, Records(), account=account, delta=1e-6, **how))


@case(BEGIN)
def trained_by_user(account: Account | None) -> object:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    users = [0, 0, 1, 1, 2, 2, 3, 3]
    how: dict[str, Any] = {"most": 2, "sampler": FullBatch(4), "account": account, "delta": 1e-6} | HOW
    return trained(make_user_private(model, optimizer, Records(), users, **how))


@case("deep/private.py:PrivateTraining.touching")
def trained_after_the_entry_was_closed(account: Account | None) -> object:
    def close(run: Any) -> None:
        run.close()
        run._noisy_gradients = explode

    return trained(training(DATA, account), close)


# --- tables and jobs ----------------------------------------------------------------------------------------

VISITS = {"patient_id": [1, 1, 2], "region": ["north", "south", "north"]}


@case("tables/session.py:Session._answered", "tables/session.py:Session.paying", free=False, error=EngineError)
def asked_in_sql(account: Account, patched: pytest.MonkeyPatch) -> object:
    unit = tacit.Unit("patient_id", max_rows=2)
    session = tacit.Session(VISITS, unit=unit, budget=Budget(epsilon=1), name="visits", ledger=account.ledger)
    patched.setattr(desk, "release", explode)
    return session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1)


@case("workloads/plan.py:WorkloadPlan.run", free=False, error=EngineError)
def asked_as_a_workload(account: Account, patched: pytest.MonkeyPatch) -> object:
    unit = tacit.Unit("patient_id", max_rows=2)
    columns = {"region": ["north", "south"]}
    session = tacit.Session(
        VISITS, unit=unit, budget=Budget(epsilon=1), name="visits", ledger=account.ledger, columns=columns
    )
    patched.setattr(Cut, "counts", explode)
    return plan(session, Marginals("region", ways=1), epsilon=1).run()


@case("applications/health/cohort.py:cohort_count", free=False, error=EngineError)
def counted_as_a_cohort(account: Account, patched: pytest.MonkeyPatch) -> object:
    session = tacit.Session(
        VISITS, unit=tacit.Unit("patient_id", max_rows=2), budget=Budget(epsilon=1), name="visits", ledger=account.ledger
    )
    patched.setattr(Cut, "counts", explode)
    return health.cohort_count(session, "SELECT COUNT(*) FROM visits", epsilon=1, at_most=100)


@case("applications/health/survival.py:KaplanMeier.fit")
def fitted_as_a_survival_curve(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(health.SurvivalPlan, "tables_of", explode)
    return health.KaplanMeier(epsilon=1, bins=[0, 1, 2], account=account).fit([0.5, 1.5], [1, 0])


@case("applications/health/contingency.py:contingency_test")
def independence_tested(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(health.ContingencyPlan, "draw", explode)
    return health.contingency_test(["a"], ["b"], rows=["a", "c"], columns=["b", "d"], epsilon=1, account=account)


@case("applications/health/gwas.py:top_snps")
def variants_chosen(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(health.Genotypes, "blocks", explode)
    study = health.Genotypes.of_array(np.array([[0, 1], [2, 1]]), status=[2, 1])
    own = None if account is None else account.ledger.account("study", Budget(epsilon=1), adjacency="replace-one")
    return health.top_snps(study, k=1, cases=1, controls=1, epsilon=1, gamma=1, account=own)


@case("applications/health/beacon.py:Beacon.query")
def asked_of_a_beacon(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    variant = health.Variant("1", 5, "A", "T")
    return health.Beacon(explode, at_most=10, epsilon=1).query(variant, account)


@case("applications/health/clinical.py:clinical_card")
def put_on_a_card(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(importlib.import_module("tacit.applications.health.clinical"), "_histogram", explode)
    return health.clinical_card([1, 0], {"model": [0.2, 0.4]}, epsilon=1, account=account)


@case("workloads/views.py:ViewsPlan.run", free=False, error=EngineError)
def seen_in_a_view(account: Account, patched: pytest.MonkeyPatch) -> object:
    unit, columns = tacit.Unit("patient_id", max_rows=2), {"region": ["north", "south"]}
    session = tacit.Session(VISITS, unit=unit, budget=Budget(epsilon=1), name="visits", ledger=account.ledger, columns=columns)
    patched.setattr(Cut, "counts", explode)
    return views(session, {"v": View("SELECT region FROM visits", Marginals("region", ways=1))}, epsilon=1).run()


@case("workloads/series.py:stream", free=False, error=EngineError)
def streamed(account: Account, patched: pytest.MonkeyPatch) -> object:
    unit = tacit.Unit("patient_id", max_rows=2, capped=True)
    visits = pa.table({**VISITS, "day": pa.array([0, 1, 2], pa.date32())})
    session = tacit.Session(visits, unit=unit, budget=Budget(epsilon=1), name="visits", ledger=account.ledger)
    patched.setattr(Cut, "counts", explode)
    return stream(session, "day", Periods("1970-01-01", "day", 3), epsilon=1).advance()


def counted_session(account: Account) -> tacit.Session:
    unit, columns = tacit.Unit("patient_id", max_rows=2), {"region": ["north", "south"]}
    return tacit.Session(VISITS, unit=unit, budget=Budget(epsilon=1), name="visits", ledger=account.ledger, columns=columns)


@case("workloads/adaptive.py:AdaptivePlan.run", free=False, error=EngineError)
def partitioned(account: Account, patched: pytest.MonkeyPatch) -> object:
    asked_for = plan_dawa(counted_session(account), Marginals("region", ways=1), epsilon=1)
    patched.setattr(Cut, "counts", explode)
    return asked_for.run()


@case("workloads/above.py:AbovePlan.run.pay", free=False, error=EngineError)
def asked_in_rounds(account: Account, patched: pytest.MonkeyPatch) -> object:
    unit, columns = tacit.Unit("patient_id", max_rows=2), {"region": ["north", "south"]}
    session = tacit.Session(VISITS, unit=unit, budget=Budget(rho=1), name="rounds", ledger=account.ledger, columns=columns)
    patched.setattr(Cut, "counts", explode)
    return plan_above(session, ["region"], at=1, within=1).run()


@case("workloads/online.py:open_online", free=False, error=EngineError)
def opened_online(account: Account, patched: pytest.MonkeyPatch) -> object:
    session = counted_session(account)
    patched.setattr(Cut, "counts", explode)
    return open_online(session, ["region"], epsilon=1)


@case("workloads/online.py:Online._answer", free=False, error=EngineError)
def asked_online(account: Account, patched: pytest.MonkeyPatch) -> object:
    counter = open_online(counted_session(account), ["region"], epsilon=1)
    patched.setattr(counter, "_sparse", Exploding())
    return counter.ask(Product(region=Identity))


class Exploding:
    halted = False
    ask = staticmethod(explode)


def device(account: Account, values: int | None) -> Client:
    """A device whose book is the case's."""
    protocol = frequencies(["north", "south"], epsilon=Fraction(1, 4))
    made = Client(protocol, ledger=Path(tempfile.mkdtemp()) / "me.db", lifetime="eps=1", values=values)
    made.account = account.ledger.account("lifetime", Budget(epsilon=1), unit="person", adjacency="replace-one")
    return made


@case("local/client.py:Client._anew", free=False, error=LedgerError)
def reported_anew(account: Account, patched: pytest.MonkeyPatch) -> object:
    own = device(account, None)
    patched.setattr(Client, "_sent", explode)
    return own.report("north")


@case("local/client.py:Client._memorised", free=False, error=LedgerError)
def reported_again(account: Account, patched: pytest.MonkeyPatch) -> object:
    own = device(account, 1)
    patched.setattr(Client, "_remember", explode)
    return own.report("north")


@case("local/client.py:Client._sent", free=False, error=LedgerError)
def drawn_on_a_device(account: Account, patched: pytest.MonkeyPatch) -> object:
    own = device(account, 1)
    patched.setattr(Protocol, "place", explode)
    return own.report("north")


@case("synthesis/paid_distance.py:paid_distance")
def measured_distance(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(distance_module, "distances", explode)
    declared = [CategoryColumn("region", ("north", "south"))]
    rows = pa.table(VISITS)
    return distance_module.paid_distance(rows, rows, declared, ways=1, total=3, epsilon=1, account=account)


@case("synthesis/in_engine.py:from_session", free=False, error=EngineError)
def synthesized_in_an_engine(account: Account, patched: pytest.MonkeyPatch) -> object:
    columns = {"region": ["north", "south"]}
    budget = Budget(epsilon=1, delta="1e-6")
    session = tacit.Session(
        VISITS, unit=tacit.Unit("patient_id", max_rows=2), budget=budget, name="visits", ledger=account.ledger, columns=columns
    )
    patched.setattr(Cut, "counts", explode)
    return from_session(session, ["region"], epsilon=1)


@case("synthesis/relational_engine.py:tables_from_session", free=False, error=EngineError)
def tables_in_an_engine(account: Account, patched: pytest.MonkeyPatch) -> object:
    columns = {"region": ["north", "south"]}
    budget = Budget(epsilon=1, delta="1e-6")
    session = tacit.Session(
        VISITS, unit=tacit.Unit("patient_id", max_rows=2), budget=budget, name="visits", ledger=account.ledger, columns=columns
    )
    patched.setattr(Cut, "counts", explode)
    return tables_from_session(session, [Level("patients", ["region"], key="patient_id", rows_of="visits"),
        Level("visits", ["region"], of="patients", by="patient_id", most=2)], epsilon=1)  # fmt: skip


@case("synthesis/relational.py:synthesize_tables")
def tables_synthesized(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(relational, "counted", explode)
    levels = [Level("visits", [CategoryColumn("region", ("north", "south"))], key="patient_id")]
    return synthesize_tables({"visits": pa.table(VISITS)}, levels, epsilon=1, delta=1e-6, account=account)


@case("synthesis/synthesizer.py:synthesize")
def synthesized(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(synthesizer, "counted", explode)
    declared = [CategoryColumn("region", ("north", "south"))]
    return synthesizer.synthesize(pa.table(VISITS), declared, epsilon=1, delta=1e-6, account=account)


@case("applications/energy/private_case.py:release_case")
def released_case(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(energy.CasePlan, "draw", explode)
    own = account and account.ledger.account("loads", Budget(epsilon=1), unit=energy.protected_unit(5), adjacency="replace-one")
    return energy.release_case(energy.Network.nine_buses(), change=5, epsilon=1, cost=5216, account=own)


@case("applications/energy/regions.py:DispatchPlan.release")
def released_regions(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(energy.DispatchPlan, "exact", explode)
    own = account and account.ledger.account("sums", Budget(epsilon=1), unit=energy.protected_unit(5), adjacency="replace-one")
    plan = energy.plan_regions(energy.Network.nine_buses(), {"all": [5, 7, 9]}, change=5, epsilon=1, box=(30, 150))
    return plan.release(own)


def charging(account: Account) -> tacit.Session:
    rows = energy.read_acn(energy.made_up_month())
    return tacit.Session(rows, unit=tacit.Unit.row(), budget=Budget(epsilon=2), name="charging", ledger=account.ledger)


@case("applications/energy/charging.py:request_histogram", free=False, error=EngineError)
def counted_requests(account: Account, patched: pytest.MonkeyPatch) -> object:
    session = charging(account)
    patched.setattr(Cut, "counts", explode)
    return energy.request_histogram(session, range(0, 101, 10), epsilon=1)


@case("applications/energy/charging.py:busiest_day", free=False, error=EngineError)
def chosen_day(account: Account, patched: pytest.MonkeyPatch) -> object:
    session = charging(account)
    patched.setattr(Cut, "counts", explode)
    return energy.busiest_day(session, "2019-11-01", days=30, clamp=100, epsilon=1)


@case("synthesis/neural_synthesizer.py:train")
def trained_rows(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(neural_synthesizer, "counted", explode)
    declared = [CategoryColumn("region", ("north", "south"))]
    return synthesizer.synthesize(pa.table(VISITS), declared, epsilon=1, delta=1e-6, method="dpgan", account=account)


# --- federations --------------------------------------------------------------------------------------------

ROUND: dict[str, Any] = {"clients": 10, "epsilon": 0.5, "delta": 1e-7}
UPDATES: dict[str, Any] = {"size": 2, "clip": 1.0, "rounds": 1}


def federation() -> Any:
    from tacit import federated

    assert federated.InProcessGrid  # loads Flower, whose packages warn of their own future, before the case looks for warnings
    return federated


def client_policy() -> Any:
    terms = {"budget": "eps=1, delta=1e-5", "expires": "2099-01-01", "clip": 2, "noise": 0.01, "trust": ("central",)}
    return federation().Policy("p", **terms, workloads=("any",), code=("any",))


@case("federated/policy.py:ClientBook._payment")
def trained_on_a_device(account: Account | None) -> object:
    made = federation().plan(**ROUND, **UPDATES)
    book = federation().ClientBook(None if account is None else Path(tempfile.mkdtemp()) / "me.db", client_policy())
    book._account = account
    with book.enter(made, run="r", turn=1).touching():
        explode()
    return None


@case("federated/simulate.py:simulate")
def simulated(account: Account | None) -> object:
    return federation().simulate(federation().plan(**ROUND, **UPDATES), np.zeros(2), explode, account=account)


def exploding_grid() -> Any:
    federation()
    from flwr.clientapp import ClientApp

    grid = federation().InProcessGrid(ClientApp(), nodes=10)
    grid.send_and_receive = explode
    return grid


@case("federated/checkpoint.py:KeptRun.payment")
def ran_private_rounds(account: Account | None) -> object:
    federation()
    from flwr.app import Array, ArrayRecord
    from flwr.serverapp.strategy import FedAvg

    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    strategy = federation().Private(FedAvg(), federation().plan(**ROUND, **UPDATES), account)
    return strategy.start(exploding_grid(), ArrayRecord({"w": Array(np.zeros(2))}))


@case("federated/analytics.py:ClientQuestion.ask")
def asked_clients(account: Account | None) -> object:
    return federation().count(**ROUND).ask(exploding_grid(), account, window="2026")


@case("federated/analytics.py:ClientQuestion.simulate")
def asked_values(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(federation().ClientQuestion, "_counts", explode)
    return federation().count(**ROUND).simulate([[0]], account)


@case("federated/words.py:WordSearch.ask")
def searched_clients(account: Account | None) -> object:
    return federation().heavy_hitters("ab", 2, **ROUND).ask(exploding_grid(), account, window="2026")


@case("federated/words.py:WordSearch.found")
def searched_words(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(federation().WordSearch, "_found", explode)
    return federation().heavy_hitters("ab", 2, **ROUND).found(["a"], account)


@case("federated/evaluation.py:ModelQuestion.ask")
def evaluated_on_clients(account: Account | None) -> object:
    federation()
    from flwr.app import Array, ArrayRecord

    question = federation().evaluation(most_loss=1, **ROUND)
    return question.ask(exploding_grid(), ArrayRecord({"w": Array(np.zeros(2))}), account, window="2026")


@case("federated/evaluation.py:ModelQuestion.simulate")
def evaluated_at_hand(account: Account | None) -> object:
    return federation().evaluation(most_loss=1, **ROUND).simulate((explode() for _ in range(1)), account)


@case("federated/buffered.py:BufferedRounds.__init__")
def buffered_updates(account: Account | None, patched: pytest.MonkeyPatch) -> object:
    module = importlib.import_module("tacit.federated.sums")
    patched.setattr(module.CentralSum, "add", explode)
    return federation().BufferedRounds(federation().plan(**ROUND, **UPDATES), np.zeros(2), account).offer(1, b"")


@case("federated/threats.py:KeyLog.release", free=False)
def handed_out_a_key(account: Account, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(federation().KeyLog, "_handed", explode)
    return federation().KeyLog(client_policy(), account).release(federation().plan(**ROUND, **UPDATES), code="ab")


@case("release/running.py:_Run.pay", free=False, error=OutputFailed, resumable=True)
def run_as_a_job(account: Account, patched: pytest.MonkeyPatch) -> object:
    patched.setattr(desk, "release", explode)
    folder = Path(tempfile.mkdtemp())
    return run(parse(EXAMPLE), base=folder, ledger=account.ledger, tables={"visits": pa.table(VISITS)})


# --- what comes out -----------------------------------------------------------------------------------------


WAYS = [(one, booked) for one in CASES for booked in (True, False) if booked or one.free]


@pytest.mark.parametrize(
    ("one", "booked"),
    WAYS,
    ids=[f"{one.site}-{one.name}-{'account' if booked else 'free'}" for one, booked in WAYS],
)
def test_a_failure_inside_shows_nothing(
    one: Case,
    booked: bool,
    sqlite_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    ledger = Ledger.open(sqlite_url)
    account = ledger.account("people", Budget(epsilon=1, delta="1e-5")) if booked else None
    given = (account, monkeypatch) if one.run.__code__.co_argcount == 2 else (account,)  # type: ignore[attr-defined]
    with warnings.catch_warnings(record=True) as told, pytest.raises(one.error) as failure:
        warnings.simplefilter("always")
        one.run(*given)
    monkeypatch.undo()
    entries = list(ledger.entries())
    ledger.close()
    printed = capfd.readouterr()
    assert type(failure.value) is one.error
    assert shown(failure.value) == []
    assert told == [] and caplog.records == [] and printed.out == printed.err == ""
    assert secret().encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    spends = [entry for entry in entries if entry["kind"] in ("reserve", "spend")]
    assert bool(spends) is booked
    if one.resumable:
        assert entries[-1] == spends[-1]
        return
    if str(failure.value).startswith(TEXT.format("What it cost")):
        # no entry of its own: there is none, or a queryable's payers or an early close concluded it
        assert not booked or spends[-1]["kind"] == "spend" or entries[-1].get("status") == "done"
        return
    assert str(failure.value).startswith(TEXT.format(f"Entry {spends[-1]['seq']}"))
    assert entries[-1]["reservation"] == spends[-1]["seq"] and entries[-1]["status"] == "failed"


def test_a_search_that_prints_its_failures_prints_nothing_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """scikit-learn's search puts the tracebacks of failed fits into a warning."""
    monkeypatch.setattr(learning.RowSpace, "scale", explode)
    search = GridSearchCV(
        MODELS["GaussianNB"](None), {"epsilon": [0.5, 0.6]}, cv=2, error_score=0.0, refit=False
    )
    with (
        warnings.catch_warnings(record=True) as told,
        pytest.raises(ValueError, match="All the 4 fits failed") as failure,
    ):
        warnings.simplefilter("always")
        search.fit(X, Y)
    assert secret() not in "".join([str(failure.value), *(str(one.message) for one in told)])


def test_a_refused_fit_leaves_no_seed_behind(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url) as ledger, tacit.noise.test_mode(1):
        account = ledger.account("people", Budget(epsilon="0.1", delta="1e-5"))
        before = tacit.noise.uniform_integers(2**60, size=3).tolist()
        with pytest.raises(BudgetExceeded):
            learning.StandardScaler(**PLAIN, account=account, random_state=1).fit(X)
        assert tacit.noise.uniform_integers(2**60, size=3).tolist() != before


def test_the_case_would_show_a_row_without_a_payment() -> None:
    """The mutant: the same work without `paying` around it."""
    with pytest.warns(RuntimeWarning, match=secret()), pytest.raises(Exception, match=secret()) as failure:
        explode()
    assert "printed" in shown(failure.value)
