"""Estimators of `tacit.learning` and training by `tacit.deep`, each once, on small data from seeds.

Everything here draws from test mode: the estimators from exact integer noise, training from a cipher whose key is drawn there. torch's own
generator, which sets first weights, is seeded as well. Left out, because no seed reaches them: training by several processes
(`make_private_distributed`) and loaders with workers, whose order is the machine's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.before.frozen import Cases

from tacit.accounting import Gaussian

# --- what follows when a name moves ------------------------------------------------------------------------------------------------------


def guarantee(**amounts: Any) -> tuple[Any, ...]:
    """How much privacy the textbook's algorithms are planned with, and the relation; the old code had both in one object."""
    from tacit import accounting, learning

    if hasattr(learning, "Promise"):
        return (learning.Promise.of(**amounts),)
    return accounting.Guarantee(**amounts), accounting.Adjacency.ADD_REMOVE


def logistic() -> Any:
    """The logistic loss."""
    from tacit.learning.linear.losses import logistic as found

    return found


def poisson(batch: int, size: int) -> Any:
    """Poisson sampling of batches."""
    from tacit import deep

    return (getattr(deep, "PoissonBatches", None) or deep.Poisson)(expected_batch=batch, size=size)


# --- estimators --------------------------------------------------------------------------------------------------------------------------


def data() -> tuple[Any, Any, Any]:
    """Three hundred rows in the unit square with a label and a number; no library's generator is asked."""
    place = np.arange(300)
    X = np.column_stack([(place * 37 % 300) / 300, (place * 101 % 300) / 300])
    return X, (X[:, 0] + X[:, 1] / 4 > 0.6).astype(int), 3 * X[:, 0] - X[:, 1]


def fitted(make: Callable[[], Any], *names: str, number: bool = False, predict: str = "predict") -> Any:
    """A fit's event and price, its fitted attributes, and what it says about a few rows."""

    def case() -> Any:
        X, label, value = data()
        model = make().fit(X, value if number else label)
        return [model.event_, *(getattr(model, name) for name in names), getattr(model, predict)(X[:7])]

    return case


def estimators() -> Cases:
    """Every public estimator and every algorithm of the textbook."""
    from tacit import learning as at

    square: dict[str, Any] = {"bounds": (0, 1)}
    both: dict[str, Any] = {"epsilon": 2, "delta": 1e-5, **square}
    classes: dict[str, Any] = {**both, "classes": [0, 1]}
    numbers: dict[str, Any] = {**both, "label_bounds": (-1, 3)}
    linear = ("coef_", "intercept_")

    def regressor(kind: Any, *parameters: Any, **more: Any) -> Any:
        return fitted(lambda: kind(*parameters, **{**numbers, **more}), *linear, number=True)

    found: Cases = {
        f"LogisticRegression, {solver}": fitted(lambda solver=solver: at.LogisticRegression(**classes, solver=solver), *linear)
        for solver in ("auto", "output", "objective", "descent")
    }
    rho = {**square, "classes": [0, 1], "rho": 0.5}
    found |= {
        "LogisticRegression, rho": fitted(lambda: at.LogisticRegression(**rho), *linear),
        "LogisticRegression, replace-one": fitted(
            lambda: at.LogisticRegression(**classes, adjacency="replace-one", n_public=300), *linear
        ),
        "LinearSVC": fitted(lambda: at.LinearSVC(**classes), *linear),
        "LinearRegression": regressor(at.LinearRegression),
        "Ridge": regressor(at.Ridge, 2.0),
        "Lasso": regressor(at.Lasso, 1.0),
        "HuberRegressor": regressor(at.HuberRegressor, 0.5),
        "QuantileRegressor": regressor(at.QuantileRegressor, 0.7),
        "PoissonRegressor": fitted(lambda: at.PoissonRegressor(**{**numbers, "label_bounds": (0, 3)}), *linear, number=True),
        "GaussianNB": fitted(lambda: at.GaussianNB(**classes), "theta_", "var_"),
        "DecisionTreeClassifier": fitted(lambda: at.DecisionTreeClassifier(max_depth=2, **classes), predict="predict_proba"),
        "DecisionTreeClassifier, pure": fitted(
            lambda: at.DecisionTreeClassifier(max_depth=2, **{**classes, "delta": 0}), predict="predict_proba"
        ),
        "RandomForestClassifier": fitted(lambda: at.RandomForestClassifier(3, max_depth=2, **classes), predict="predict_proba"),
        "GradientBoostingClassifier": fitted(lambda: at.GradientBoostingClassifier(5, **classes), predict="predict_proba"),
        "KMeans": fitted(lambda: at.KMeans(3, **both), "cluster_centers_"),
        "PCA": fitted(lambda: at.PCA(1, **both), "components_", "mean_", predict="transform"),
        "StandardScaler": fitted(lambda: at.StandardScaler(**both), "mean_", "scale_", predict="transform"),
        "MinMaxScaler": fitted(lambda: at.MinMaxScaler(**both), predict="transform"),
        "MinMaxScaler, declared": fitted(lambda: at.MinMaxScaler(bounds=(0, 1)), predict="transform"),
        "RandomFourierFeatures": fitted(lambda: at.RandomFourierFeatures(5, gamma=0.5), predict="transform"),
        "NystroemFeatures": fitted(lambda: at.NystroemFeatures([[0.2, 0.2], [0.7, 0.4]]), predict="transform"),
        "Pipeline": fitted(
            lambda: at.Pipeline(
                [
                    ("scale", at.StandardScaler(epsilon=0.5, delta=1e-6, bounds=(0, 1))),
                    ("classify", at.LogisticRegression(epsilon=0.5, delta=1e-6, data_norm=4.0, classes=[0, 1])),
                ]
            )
        ),
        **_textbook(),
    }
    return {f"learning: {name}": case for name, case in found.items()}


def _textbook() -> Cases:
    from tacit import learning as at

    X, label, _ = data()
    rows, signs = X[:100], 2.0 * label[:100] - 1

    def slopes(theta: Any, chosen: Any = slice(None)) -> Any:
        away = -signs[chosen] / (1 + np.exp(signs[chosen] * (rows[chosen] @ theta)))
        return away[:, None] * rows[chosen]

    def planned(make: Callable[[], Any], run: Callable[[Any], Any]) -> Any:
        return lambda: [(plan := make()).event, run(plan)]

    ball = at.L2Ball(2, radius=2.0)
    exact: dict[str, Any] = {"epsilon": 2, "delta": 0}
    both: dict[str, Any] = {"epsilon": 2, "delta": 1e-5}
    grid = np.linspace(-1, 1, 21)[:, None]
    few: dict[str, Any] = {"size": 100, "steps": 6, "clip": 1.0, "epsilon": 2.0}

    def followed(plan: Any) -> Any:
        return [plan.partial_fit(slopes(plan.theta, [place])[0]) for place in range(8)]

    def prefixes(sums: Any) -> Any:
        found = []
        for item in rows[:8]:
            sums.add(item)
            found.append(sums.get())
        return found

    def descended(plan: Any) -> Any:
        return plan.run(slopes, 100, ball, length=0.5)

    return {
        "ExponentialERM": planned(
            lambda: at.ExponentialERM(*guarantee(**exact), grid, lipschitz=1.0),
            lambda plan: plan.run(lambda points: np.abs(rows[:, :1] - points.T)),
        ),
        "FrankWolfe": planned(
            lambda: at.FrankWolfe.plan(*guarantee(**both), at.L1Ball(2), gradient_bound=1.0, steps=5), lambda plan: plan.run(slopes)
        ),
        "FrankWolfe, pure": planned(
            lambda: at.FrankWolfe.plan(*guarantee(**exact), at.L1Ball(2), gradient_bound=1.0, steps=5), lambda plan: plan.run(slopes)
        ),
        "GradientDescent": planned(
            lambda: at.GradientDescent.plan(*guarantee(**both), ball, clip=1.0, rows=100, steps=6), lambda plan: plan.run(slopes)
        ),
        "FollowTheLeader": planned(lambda: at.FollowTheLeader.plan(guarantee(**both)[0], ball, n=8, clip=1.0, ridge=2.0), followed),
        "PrefixSums": planned(lambda: at.PrefixSums(8, 2, 1.5, 3.0), prefixes),
        "ObjectivePerturbation": planned(
            lambda: at.ObjectivePerturbation.plan(*guarantee(**both), logistic(), 2), lambda plan: plan.run(rows, signs)
        ),
        "ObjectivePerturbation, pure": planned(
            lambda: at.ObjectivePerturbation.plan(*guarantee(**exact), logistic(), 2), lambda plan: plan.run(rows, signs)
        ),
        "OutputPerturbation": planned(
            lambda: at.OutputPerturbation.plan(*guarantee(**both), logistic(), 2, rows=100), lambda plan: plan.run(rows, signs)
        ),
        "OutputPerturbation, pure": planned(
            lambda: at.OutputPerturbation.plan(*guarantee(**exact), logistic(), 2, rows=100), lambda plan: plan.run(rows, signs)
        ),
        "StochasticDescent, poisson": planned(lambda: at.StochasticDescent.plan("poisson", batch=20, delta=1e-5, **few), descended),
        "StochasticDescent, full batch": planned(lambda: at.StochasticDescent.plan("full-batch", delta=1e-5, **few), descended),
        "StochasticDescent, pure": planned(lambda: at.StochasticDescent.plan("pure", batch=20, **few), descended),
    }


# --- training ----------------------------------------------------------------------------------------------------------------------------


def trained(**how: Any) -> Any:
    """Four steps of a tiny network: its event and its weights after. The sampler is made by the case, since a run keeps its own."""

    def case() -> Any:
        import torch

        from tacit import deep

        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)).double()
        rows, label, _ = data()
        given = torch.from_numpy(rows[:60].copy()), torch.from_numpy(label[:60].copy())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        plan = {name: value() if callable(value) else value for name, value in how.items()}
        if "noise" in plan:
            plan["noise"] = deep.correlated_noise(plan["sampler"], steps=plan["steps"], kind=plan["noise"])
        make = deep.make_private_with_epsilon if "epsilon" in plan else deep.make_private
        private = make(model, optimizer, given, **plan)
        batches = []
        while private.remaining():
            for x, y in private.loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                batches.append(len(x))
        weights = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
        return [private.event, batches, weights.numpy()]

    return case


def networks() -> Cases:
    """Every sampler, every rule of clipping, exact and fast noise, correlated noise, users, teachers and trials."""
    found = {**_training(), **_teachers(), "users": _users, "tune": _tuned, "add noise": _noise}
    return {f"deep: {name}": case for name, case in found.items()}


def _training() -> Cases:
    from tacit import deep

    base: dict[str, Any] = {"noise_multiplier": 1.0, "clip": 0.3, "steps": 4}
    sampler: dict[str, Any] = {"sampler": lambda: poisson(12, 60)}
    passes: dict[str, Any] = {**base, "steps": 8, "sampler": lambda: deep.Passes(steps=4, size=60)}
    cyclic: dict[str, Any] = {**base, "sampler": lambda: deep.CyclicPoisson(expected_batch=10, size=60, parts=3)}
    return {
        "poisson": trained(**base, **sampler),
        "poisson, exact": trained(**base, **sampler, exact=True),
        "poisson, in pieces": trained(**base, **sampler, physical_batch=5),
        "poisson, epsilon": trained(epsilon=3, delta=1e-5, clip=0.3, steps=4, **sampler),
        "allocation": trained(**base, sampler=lambda: deep.Allocation(4, 60)),
        "fixed size": trained(**base, sampler=lambda: deep.FixedSize(12, 60)),
        "full batch, exact": trained(**base, sampler=lambda: deep.FullBatch(60), exact=True),
        "per layer": trained(**{**base, "clip": lambda: deep.per_layer(0.3)}, **sampler),
        "automatic": trained(**{**base, "clip": lambda: deep.automatic(0.3)}, **sampler),
        "adaptive": trained(**{**base, "clip": lambda: deep.adaptive(0.3, count_noise=4.0)}, **sampler),
        "passes": trained(**passes),
        **{f"correlated, {kind}": trained(**passes, noise=kind) for kind in ("tree", "square_root", "banded", "buffered")},
        "cyclic poisson": trained(**cyclic),
    }


def _teachers() -> Cases:
    from tacit import deep

    def labelled(votes: Any) -> Any:
        def case() -> Any:
            teachers = [lambda x, k=k: [(int(q) + (k % 4 == 0)) % 3 for q in x] for k in range(40)]
            ensemble = deep.Ensemble(teachers, classes=3, votes=votes)
            labels = ensemble.label([0, 1, 2, 3, 4, 5])
            report = ensemble.report(1e-5, sanitise=0.5)
            return [labels, report.independent, report.published, ensemble.event]

        return case

    return {
        "votes, Laplace": labelled(deep.LaplaceVotes(gamma=0.4)),
        "votes, Gaussian": labelled(deep.GaussianVotes(sigma=6.0)),
        "votes, confident": labelled(deep.GaussianVotes(sigma=6.0, threshold=25.0, check_sigma=8.0, answers=4)),
    }


def _users() -> Any:
    import torch

    from tacit import deep

    torch.manual_seed(2)
    model = torch.nn.Linear(2, 2).double()
    rows, label, _ = data()
    given = torch.from_numpy(rows[:60].copy()), torch.from_numpy(label[:60].copy())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    private = deep.make_user_private(
        model, optimizer, given, users=np.arange(60) // 4, most=3, noise_multiplier=1.0, clip=0.3, sampler=poisson(5, 15), steps=3
    )
    while private.remaining():
        for x, y in private.loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return [private.event, model.weight.detach().numpy(), model.bias.detach().numpy()]


def _tuned() -> Any:
    from tacit import deep

    found = deep.tune(
        lambda rate: {"rate": rate},
        [0.1, 0.3, 1.0],
        event=Gaussian(5),
        score_event="public",
        score=lambda model: -abs(model["rate"] - 0.5),
        trials=deep.Trials(mean=4),
    )
    drawn = [deep.Trials(mean=4, shape=shape).draw() for shape in (0, 0.5, 1, float("inf"))]
    return [found.parameters, found.event, drawn]


def _noise() -> Any:
    """The fast Gaussian noise itself. It is not public: the one place that knows where it lives."""
    import torch

    from tacit.deep.noise import add_noise, step_noise

    zeros = torch.zeros(5, dtype=torch.float64)
    return [add_noise(zeros.float(), step_noise(1.0, 1.0, 0.0)).numpy(), add_noise(zeros.clone(), step_noise(2.0, 1.0, 0.0), 0.5).numpy()]
