"""Task Q with OpenDP: zero-concentrated privacy, one row in each of ten keys for every person, and a sum centred by hand.

Its own conversion gives the rho whose epsilon is 1 at delta 1e-6. A person is truncated to one row in a key and to ten keys (eleven are
asked for, because one fewer is kept).
"""

from __future__ import annotations

import math

import opendp.prelude as dp
import polars as pl
from timing import Answers, report

# --- what a user writes, beside the imports

dp.enable_features("contrib")
#: epsilon = rho + 2 sqrt(rho log(1/delta)), solved for rho
RHO = (math.sqrt(math.log(1e6) + 1) - math.sqrt(math.log(1e6))) ** 2


def asked(path: str) -> Answers:
    rows = pl.scan_parquet(path).with_columns((pl.col("v") - 50).alias("c"))
    context = dp.Context.compositor(
        data=rows,
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user_id")),
        privacy_loss=dp.loss_of(rho=RHO),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["key"], max_length=200_000)],
    )
    query = (
        context.query()
        .truncate_per_group(1, by=["key"])
        .truncate_num_groups(11, by=["key"], keep="first")
        .group_by("key")
        .agg(dp.len(), pl.col("c").fill_null(0.0).fill_nan(0.0).dp.sum((-50, 50)))
        .with_keys(pl.LazyFrame({"key": list(range(100))}))
    )
    found = query.release().collect().sort("key")
    return found["len"].to_list(), (50 + found["c"] / found["len"]).to_list()


# --- until here

if __name__ == "__main__":
    report(asked)
