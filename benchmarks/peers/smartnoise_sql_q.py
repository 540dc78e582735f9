"""Task Q with smartnoise-sql: epsilon is for each column, so a half for the count and a half for the sum, and the mean is their quotient.
(Asking for AVG would count a second time.)"""

from __future__ import annotations

import pandas as pd
import snsql
from timing import Answers, report

# --- what a user writes, beside the imports

COLUMNS = {
    "max_ids": 10,
    "censor_dims": False,
    "user_id": {"type": "int", "private_id": True},
    "key": {"type": "int"},
    "v": {"type": "float", "lower": 0, "upper": 100},
}


def asked(path: str) -> Answers:
    frame = pd.read_parquet(path)
    privacy = snsql.Privacy(epsilon=0.5, delta=5e-7)
    reader = snsql.from_df(frame, privacy=privacy, metadata={"": {"q": {"q": COLUMNS}}})
    rows = reader.execute("SELECT key, COUNT(*) AS n, SUM(v) AS s FROM q.q GROUP BY key ORDER BY key")[1:]
    found = {int(key): (float(n), float(s) / float(n)) for key, n, s in rows}
    return [found[key][0] for key in range(100)], [found[key][1] for key in range(100)]


# --- until here

if __name__ == "__main__":
    report(asked)
