"""Evaluation: figures against plain pandas and scipy, steps that add up, models that tell good tables from bad ones."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats.contingency import association

from tacit.errors import PackageMissing, ParameterError
from tacit.noise import test_mode as seeded
from tacit.synthesis import CategoryColumn, NumberColumn, evaluate, synthesize
from tacit.synthesis import evaluate as public
from tacit.synthesis.evaluate import STAMP, cramers_v

COLUMNS = [
    CategoryColumn("sex", ("f", "m")),
    NumberColumn.between("age", 18, 89, 8, whole=True),
    CategoryColumn("region", ("N", "S", "W")),
    NumberColumn.between("income", 0, 100, 10),
    CategoryColumn("rich", ("no", "yes")),
]


def people(rows: int, seed: int) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    sex = draws.choice(["f", "m"], rows)
    age = draws.integers(18, 90, rows)
    income = np.clip(age * 0.8 + draws.normal(0, 8, rows) + np.where(sex == "m", 8, 0), 0, 100)
    rich = np.where(income + draws.normal(0, 6, rows) > 50, "yes", "no")
    region = draws.choice(["N", "S", "W"], rows, p=[0.6, 0.3, 0.1])
    return pd.DataFrame({"sex": sex, "age": age, "region": region, "income": income, "rich": rich})


REAL, OTHER = people(800, 1), people(600, 2)
SHUFFLED = OTHER.apply(lambda column: column.sample(frac=1, random_state=sum(map(ord, column.name))).to_numpy())


def test_distances_are_those_of_plain_crosstabs() -> None:
    found = evaluate(REAL, OTHER, columns=COLUMNS)
    cut = {c.name: c for c in COLUMNS}
    for clique in [("sex",), ("sex", "region"), ("age", "region", "rich")]:
        shares = []
        for table in (REAL, OTHER):
            cells = pd.DataFrame({name: cut[name].encode(table[name].to_list()) for name in clique})
            shares.append(cells.value_counts(normalize=True))
        expected = shares[0].sub(shares[1], fill_value=0).abs().sum() / 2
        assert found.distances[len(clique)][clique] == pytest.approx(expected)
    assert found.distance(2) == pytest.approx(np.mean(list(found.distances[2].values())))
    assert len(found.distances[2]) == 10 and len(found.distances[3]) == 10
    with pytest.raises(ParameterError):
        found.distance(4)


def test_associations_and_correlations_are_those_of_scipy_and_pandas() -> None:
    found = evaluate(REAL, OTHER, columns=COLUMNS)
    table = pd.crosstab(REAL["sex"], REAL["region"]).to_numpy()
    assert cramers_v(table) == pytest.approx(association(table, method="cramer"))
    a, b = found.columns.index("sex"), found.columns.index("region")
    assert found.associations.real[a, b] == pytest.approx(association(table, method="cramer"))
    expected = [frame[["age", "income"]].corr().to_numpy()[0, 1] for frame in (REAL, OTHER)]
    assert [found.correlations.real[0, 1], found.correlations.synthetic[0, 1]] == pytest.approx(expected)
    assert found.correlations.difference == pytest.approx(abs(expected[0] - expected[1]))


def test_a_classifier_tells_bad_tables_from_good_ones() -> None:
    same, apart = evaluate(REAL, OTHER), evaluate(REAL, SHUFFLED)
    # 2 x 600 scores: the area deviates by .017, and 4 of that is one in 16,000
    assert same.two_sample == pytest.approx(0.5, abs=0.07)
    assert apart.two_sample is not None and apart.two_sample > 0.8
    assert same.distance(1) < 0.06 and apart.distance(2) > same.distance(2)


def test_models_trained_on_either_table_are_tested_on_real_rows() -> None:
    fresh = people(700, 9)
    good = {(one.model, one.trained_on): one for one in evaluate(REAL, OTHER, target="rich", test=fresh).utility}
    bad = {(one.model, one.trained_on): one for one in evaluate(REAL, SHUFFLED, target="rich", test=fresh).utility}
    boosted = good["gradient boosting", "synthetic rows"]
    assert boosted.auc is not None and boosted.auc > 0.85 and boosted.score > 0.75
    assert good["gradient boosting", "real rows"] == bad["gradient boosting", "real rows"]
    worse = bad["gradient boosting", "synthetic rows"]
    assert worse.auc is not None and worse.auc < boosted.auc - 0.1 and worse.score < boosted.score - 0.1
    for found, least in ((evaluate(REAL, OTHER, target="rich", test=fresh), 0.7), (evaluate(REAL, SHUFFLED, target="rich"), -1)):
        assert found.importance is not None and found.importance.agreement >= least
        assert found.importance.columns == ("sex", "age", "region", "income")
    assert any("flatter" in note for note in evaluate(REAL, SHUFFLED, target="rich").notes)


def test_a_number_is_predicted_by_its_variance() -> None:
    fresh = people(400, 9)
    found = evaluate(REAL, OTHER, columns=[*COLUMNS[:3], NumberColumn.between("income", 0, 100, 20)], target="income", test=fresh)
    linear = next(one for one in found.utility if one.model == "linear regression" and one.trained_on == "real rows")
    x = np.column_stack([(fresh["sex"] == "m"), fresh["age"], np.ones(400)]).astype(float)
    beta = np.linalg.lstsq(
        np.column_stack([(REAL["sex"] == "m"), REAL["age"], np.ones(800)]).astype(float), REAL["income"], rcond=None
    )[0]
    left = fresh["income"] - x @ beta
    assert linear.auc is None and linear.score == pytest.approx(1 - left.var() / fresh["income"].var(), abs=0.02)


def test_subgroups_have_their_own_figures() -> None:
    bad = OTHER.copy()
    bad.loc[bad["region"] == "W", "age"] = 20
    found = evaluate(REAL, bad, columns=COLUMNS, by=["region"], target="rich", test=people(500, 9))
    off = {group.value: group for group in found.subgroups}
    assert off["N"].real == (REAL["region"] == "N").sum()
    assert off["W"].distance > 2 * off["N"].distance
    assert off["N"].score_real is not None and off["N"].score_real > 0.7
    assert "missing" not in off


def test_losses_of_the_steps_add_up_to_the_distance() -> None:
    with seeded(2):
        made = synthesize(REAL, COLUMNS, epsilon=2, delta=1e-9)
        exact = synthesize(REAL, COLUMNS, rho=1e7, method="independent")
        found, quiet = evaluate(REAL, made), evaluate(REAL, exact)
    assert set(found.losses) == {"bins", "selection", "model", "noise", "rows"}
    assert sum(found.losses[step] for step in ("selection", "model", "noise", "rows")) == pytest.approx(found.distance(2), abs=0.03)
    assert quiet.losses["selection"] > 0.05 and abs(quiet.losses["noise"]) < 1e-3  # all columns apart: no noise, no pairs
    assert found.losses["noise"] > 10 * abs(quiet.losses["noise"])
    assert 0 < found.losses["bins"] < 0.05


def test_tables_of_any_make_and_strange_ones() -> None:
    strange = {"sex": [None, "x"] * 20, "age": [float("nan"), 1e308] * 20, "income": ["?"] * 40}
    for table in (REAL, pa.Table.from_pandas(REAL), REAL.to_dict("list")):
        assert evaluate(table, strange).columns == ("sex", "age", "income")
    tiny: dict[str, list[Any]] = {"a": [1], "b": [None]}
    assert evaluate(tiny, tiny).two_sample is None
    assert evaluate(tiny, tiny, target="a").utility == ()
    with pytest.raises(ParameterError):
        evaluate(REAL, {"other": [1]})
    with pytest.raises(ParameterError):
        evaluate(REAL, OTHER, target="height")


def test_everything_says_curator_only() -> None:
    found = evaluate(REAL, OTHER)
    assert found.stamp == STAMP and str(found).startswith(STAMP) and found.to_json()["stamp"] == STAMP


def test_without_scikit_learn_a_target_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    assert public(REAL, OTHER).two_sample is None
    with pytest.raises(PackageMissing, match=r"tacit\[learn\]"):
        evaluate(REAL, OTHER, target="rich")


def test_all_triples_of_many_columns_are_drawn_from() -> None:
    wide = {f"c{i}": np.random.default_rng(i).integers(0, 2, 60).tolist() for i in range(16)}
    found = evaluate(wide, wide)
    assert len(found.distances[3]) == 400 < len(list(itertools.combinations(range(16), 3)))
    assert found.distance(3) == 0
