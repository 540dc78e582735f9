"""A curator's file as it really comes: mixed encodings, dates as texts, codes for what is missing,
households, 40 columns.

`write` makes the file of one month and returns the truth, computed from the clean rows before they are made
messy. The same households come back in the next month, as they do in a survey.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

CANTONS = (
    "Zürich", "Bern", "Luzern", "Uri", "Schwyz", "Glarus", "Zug", "Fribourg", "Solothurn", "Basel-Stadt", "Genève", "Neuchâtel",
    "Graubünden", "Ticino", "Vaud", "Valais",
)  # fmt: skip
#: Shares of the households; Zürich is the largest.
WEIGHTS = np.array(
    [0.18, 0.13, 0.05, 0.02, 0.03, 0.02, 0.03, 0.05, 0.05, 0.06, 0.1, 0.04, 0.05, 0.06, 0.08, 0.05]
)
HEATING = ("gas", "oil", "heat pump", "wood")
EXTRA = 31


@dataclass(frozen=True)
class Truth:
    """What is true of the rows: by canton, by month of the interview, by heating; and over all of them."""

    rows: int
    households: int
    by_canton: dict[str, int]
    age: dict[str, float]
    by_day: dict[str, int]
    income: dict[str, float]
    rent: dict[str, float]


def write(
    file: Path,
    rows: int,
    *,
    month: str = "2026-01",
    seed: int = 0,
    latin: float = 0.3,
    text_dates: bool = True,
) -> Truth:
    """Write a file of about so many rows: one line for each person of a household, at most 9 of them.

    Households are drawn from `seed` alone: those of the next month are the same ones, with other answers.
    """
    year, number = (int(part) for part in month.split("-"))
    draw = np.random.default_rng(seed)
    sizes = np.minimum(1 + draw.poisson(1.3, rows), 9)
    many = int(np.searchsorted(np.cumsum(sizes), rows)) + 1
    sizes = sizes[:many]
    house = np.repeat(np.arange(many), sizes)
    count = len(house)
    weights = WEIGHTS / WEIGHTS.sum()
    canton = draw.choice(len(CANTONS), many, p=weights)[house]
    heating = draw.choice(4, many)[house]
    draw = np.random.default_rng([seed, year, number])
    age = np.clip(draw.normal(42, 22, count), 0, 99).astype(int)
    income = np.round(draw.lognormal(8.3, 0.5, count), 2)
    rent = np.round(np.clip(draw.normal(1500, 400, count), 200, 3500), 2)
    day = draw.integers(1, 29, many)[house]
    unknown_age, unknown_income = draw.random(count) < 0.06, draw.random(count) < 0.1
    code = draw.random(count) < 0.5
    in_latin = draw.random(count) < latin
    extra = draw.integers(0, 5, (count, EXTRA))
    names = [
        "household_id",
        "line",
        "canton",
        "interviewed",
        "age",
        "income",
        "rent",
        "heating",
        "weight",
    ] + [f"q{i:02}" for i in range(EXTRA)]
    with file.open("wb") as out:
        out.write((";".join(names) + "\n").encode())
        for i in range(count):
            when = datetime.date(year, number, int(day[i]))
            cells = [
                f"H{house[i]:07}", str(i % 9), CANTONS[canton[i]], when.strftime("%d.%m.%Y") if text_dates else when.isoformat(),
                ("-9" if code[i] else "999") if unknown_age[i] else str(age[i]),
                ("-9" if code[i] else "") if unknown_income[i] else _swiss(income[i]), _swiss(rent[i]), HEATING[heating[i]], "1,00",
                *map(str, extra[i]),
            ]  # fmt: skip
            out.write((";".join(cells) + "\n").encode("latin-1" if in_latin[i] else "utf-8"))
    return Truth(
        count, many,
        {name: int((canton == k).sum()) for k, name in enumerate(CANTONS)},
        {name: float(age[(canton == k) & ~unknown_age].mean()) for k, name in enumerate(CANTONS) if (canton == k).any()},
        {f"{month}-{d:02}": int((day == d).sum()) for d in range(1, 29)},
        {name: float(income[(heating == k) & ~unknown_income].sum()) for k, name in enumerate(HEATING)},
        {name: float(rent[canton == k].mean()) for k, name in enumerate(CANTONS)},
    )  # fmt: skip


def _swiss(value: float) -> str:
    """1.234,56: points between thousands, a comma before the decimals."""
    return f"{value:,.2f}".replace(",", " ").replace(".", ",").replace(" ", ".")


def job(
    rows: int,
    *,
    clean: bool = True,
    series: bool = True,
    folder: str = "release",
    caps: int = 6,
    expected: bool = True,
) -> str:
    """The job of the survey. With `clean` it says how the file is written; without it is what a newcomer
    writes first.
    """
    cantons = ", ".join(CANTONS)
    said: dict[str, Any] = dict.fromkeys(("encoding", "date", "number", "codes", "money"), "")
    if clean:
        said = {
            "encoding": ", encoding: mixed", "date": ", format: dd.mm.yyyy", "number": ', format: "1.234,56"',
            "codes": ", missing: [-9, 999]", "money": ", missing: [-9]",
        }  # fmt: skip
    name = "survey-{period}.csv" if series else "survey-2026-01.csv"
    lines = [
        "version: 1",
        f"title: {'Household survey, {period}' if series else 'Household survey'}",
        "purpose: Show how households live, so that the canton's offices can plan.",
        f'sources: {{survey: {{path: "{name}", delimiter: ";"{said["encoding"]}}}}}',
        f"unit: {{person: household_id, called: household, max_rows: {caps}, adjacency: add-remove}}",
        "budget: {epsilon: 2, delta: 1e-7, reserve: 0.1}",
        *(
            [
                (
                    "series: {name: survey, every: month, budget: {epsilon: 6, delta: 1e-6, reserve: 0.1}, "
                    "per: total}"
                )
            ]
            if series
            else []
        ),
        *(
            [f"expected: {{people: {int(rows / 2.3)}, rows: {rows}, missing: {{age: 0.06, income: 0.1}}}}"]
            if expected
            else []
        ),
        "columns:",
        "  household_id: {type: text}",
        f"  canton: {{type: text, categories: [{cantons}]}}",
        f"  interviewed: {{type: date{said['date']}}}",
        f"  age: {{type: integer, bounds: [0, 100]{said['codes']}}}",
        f"  income: {{type: number, bounds: [0, 15000]{said['number']}{said['money']}}}",
        f"  rent: {{type: number, bounds: [0, 4000]{said['number']}}}",
        f"  heating: {{type: text, categories: [{', '.join(HEATING)}]}}",
        "outputs:",
        "  - {name: by_canton, sql: 'SELECT canton, COUNT(*) AS people, AVG(age) AS age, AVG(rent) AS rent "
        "FROM survey GROUP BY canton', "
        "weight: 4, beyond: true}",
        f"  - {{name: by_day, sql: 'SELECT interviewed, COUNT(*) AS people FROM survey GROUP BY interviewed', weight: 1, "
        f"keys: {{interviewed: [{', '.join(_days(series))}]}}}}",
        (
            "  - {name: by_heating, sql: 'SELECT heating, SUM(income) AS income FROM survey GROUP BY heating', "
            "weight: 2, beyond: true}"
        ),
        (
            "  - {name: households, sql: 'SELECT COUNT(DISTINCT household_id) AS households FROM survey', "
            "weight: 1}"
        ),
        f"publication: {{folder: '{folder}{'-{period}' if series else ''}', formats: [csv, parquet], confidence: 0.95, "
        "intervals: [noise, total]}",
    ]
    return "\n".join(lines) + "\n"


def _days(series: bool) -> list[str]:
    """All days on which there are interviews; those of two months for a series, so that its questions stay
    the same.
    """
    return [f"2026-{m:02}-{d:02}" for m in ((1, 2) if series else (1,)) for d in range(1, 29)]
