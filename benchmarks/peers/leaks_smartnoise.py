"""smartnoise-sql, for `bench_leaks.py`: it answers queries, and a query takes a second. So one is asked about many groups, each of
which holds the same rows: with rows as its privacy unit every group's answer is an answer on those rows, drawn by itself.

Its promise is for one row more or less, at the epsilon and delta that it says the query costs; an exchanged row is two steps.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pandas as pd
import snsql
from leaks_sampling import Asked, main

GROUPS = 2000  # answers of one query
COLUMNS = {
    "row_privacy": True,
    "censor_dims": False,
    "k": {"type": "int"},
    "v": {"type": "float", "lower": 0.0, "upper": 1.0},
}
SLOW = 0.4  # a query takes seconds
waiting: dict[str, list[Any]] = {}


def asked(question: str, rows: list[float]) -> Any:
    """The next answer on these rows."""
    kept = waiting.setdefault(f"{question} {rows!r}", [])
    if not kept:
        frame = pd.DataFrame({"k": [k for k in range(GROUPS) for _ in rows], "v": list(rows) * GROUPS})
        reader = snsql.from_df(frame, privacy=snsql.Privacy(epsilon=1.0, delta=1e-6), metadata={"": {"q": {"q": COLUMNS}}})
        kept.extend(row[1] for row in reader.execute(f"SELECT k, {question} AS a FROM q.q GROUP BY k")[1:])
    return kept.pop()


if __name__ == "__main__":
    main(
        version("smartnoise-sql"),
        {
            "count, geometric": Asked(lambda rows: asked("COUNT(*)", [0.5] * rows), "eps=1,delta=2e-6", share=SLOW),
            "float noise": Asked(lambda value: asked("SUM(v)", [value]), "eps=2,delta=4e-6", share=SLOW),
            "sum, one row more": Asked(lambda rows: asked("SUM(v)", rows), "eps=1,delta=2e-6", share=SLOW),
            "sum, one row NaN": Asked(lambda rows: asked("SUM(v)", rows), "eps=2,delta=4e-6", share=SLOW),
            "sum, one row 1e308": Asked(lambda rows: asked("SUM(v)", rows), "eps=2,delta=4e-6", share=SLOW),
            "mean, one row NaN": Asked(lambda rows: asked("AVG(v)", rows), "eps=4,delta=4e-6", share=SLOW),
            "mean, one row 1e308": Asked(lambda rows: asked("AVG(v)", rows), "eps=4,delta=4e-6", share=SLOW),
        },
    )
