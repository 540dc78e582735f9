"""Task Q with diffprivlib: bounding, the division by ten and the composition over keys are by hand.

A person has ten rows at most, so a budget for rows is a tenth of hers; half of it for each figure. The number of rows below a mean is taken
for public, and the noise is drawn in floats: both are the package's way. It has no use for a delta here.
"""

from __future__ import annotations

import duckdb
from diffprivlib.tools import histogram, mean
from timing import Answers, report

# --- what a user writes, beside the imports


def asked(path: str) -> Answers:
    rows = duckdb.sql(f"""SELECT key, v FROM (SELECT key, v, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY h) AS place
        FROM (SELECT *, RANDOM() AS h FROM read_parquet('{path}'))) WHERE place <= 10""").fetchnumpy()
    counts, _ = histogram(rows["key"], epsilon=0.05, bins=100, range=(-0.5, 99.5))
    means = [float(mean(rows["v"][rows["key"] == key], epsilon=0.05, bounds=(0, 100))) for key in range(100)]
    return [float(count) for count in counts], means


# --- until here

if __name__ == "__main__":
    report(asked)
