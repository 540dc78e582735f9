"""Task Q with pipeline-dp, in the setting that makes its error least: Gaussian noise, accounting by privacy-loss distributions, and for
every person ten keys with one row in each."""

from __future__ import annotations

import pipeline_dp
import pyarrow.parquet as pq
from timing import Answers, report

# --- what a user writes, beside the imports


def asked(path: str) -> Answers:
    columns = pq.read_table(path).to_pydict()
    rows = list(zip(columns["user_id"], columns["key"], columns["v"], strict=True))
    accountant = pipeline_dp.PLDBudgetAccountant(total_epsilon=1, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    params = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.MEAN],
        max_partitions_contributed=10,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=100,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1], value_extractor=lambda row: row[2]
    )
    result = engine.aggregate(rows, params, extractors, public_partitions=list(range(100)))
    accountant.compute_budgets()
    found = dict(result)
    return [found[key].count for key in range(100)], [found[key].mean for key in range(100)]


# --- until here

if __name__ == "__main__":
    report(asked)
