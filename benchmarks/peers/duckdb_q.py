"""Task Q without privacy: the plain query, or with the word `hand` the same with ten random rows of each person."""

from __future__ import annotations

import sys

import duckdb
from timing import Answers, report

PLAIN = "SELECT key, COUNT(*), AVG(v) FROM read_parquet('{path}') GROUP BY key"
BY_HAND = """SELECT key, COUNT(*), AVG(v) FROM (SELECT key, v, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY h) AS place
    FROM (SELECT *, RANDOM() AS h FROM read_parquet('{path}'))) WHERE place <= 10 GROUP BY key"""


def asked(path: str) -> Answers:
    query = BY_HAND if "hand" in sys.argv else PLAIN
    found = {key: (float(n), float(m)) for key, n, m in duckdb.execute(query.format(path=path)).fetchall()}
    return [found[key][0] for key in range(100)], [found[key][1] for key in range(100)]


if __name__ == "__main__":
    report(asked)
