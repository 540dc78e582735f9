"""privacy-meter's population attack on scores that the benchmark wrote: its rates read as an epsilon, and the processor time, as JSON.

privacy-meter 1.0.1 reports rates over a grid of thresholds and no epsilon, no confidence and no claim to hold them against. So the
largest epsilon that any of its thresholds would mean, were the rates exact, is what it says: an estimate that has picked the luckiest of a
hundred thresholds. Half of the non-members set its thresholds, as its own examples do; the other half is attacked.

Run in an environment of its own: `python privacy_meter_audit.py scores.npz delta significance`. The file holds `first` and `second`
(outputs on either input), or `scores` and `bits` (canaries and their coins); one run a row.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

import numpy as np
from privacy_meter.dataset import Dataset
from privacy_meter.hypothesis_test import linear_itp_threshold_func
from privacy_meter.information_source import InformationSource
from privacy_meter.information_source_signal import ModelLoss
from privacy_meter.metric import PopulationMetric
from privacy_meter.model import Model


class Scores(Model):
    """A model whose loss on a record is the record: scores made before."""

    def __init__(self):
        super().__init__(model_obj=None, loss_fn=None)

    def get_logits(self, batch_samples):
        raise NotImplementedError

    def get_loss(self, batch_samples, batch_labels, per_point=True):
        return np.asarray(batch_samples)

    def get_grad(self, batch_samples, batch_labels):
        raise NotImplementedError

    def get_intermediate_outputs(self, layers, batch_samples, forward_pass=True):
        raise NotImplementedError


def estimate(outside, inside, delta):
    """The largest epsilon its rates would mean. Losses are scores turned round: members have low ones."""
    half = len(outside) // 2
    losses = {"train": {"x": -inside, "y": -inside}, "test": {"x": -outside[half:], "y": -outside[half:]}}
    known = {"train": {"x": -outside[:half], "y": -outside[:half]}}
    target = InformationSource(models=[Scores()], datasets=[Dataset(losses, "x", "y")])
    reference = InformationSource(models=[Scores()], datasets=[Dataset(known, "x", "y")])
    with tempfile.TemporaryDirectory() as place:  # it keeps every signal in a file
        metric = PopulationMetric(
            target_info_source=target,
            reference_info_source=reference,
            signals=[ModelLoss()],
            hypothesis_test_func=linear_itp_threshold_func,
            logs_dirname=place,
        )
        metric.prepare_metric()
        found = metric.run_metric()[0]
    fpr, tpr = found.fp / (found.fp + found.tn), found.tp / (found.tp + found.fn)
    with np.errstate(divide="ignore", invalid="ignore"):
        said = [np.log((tpr - delta) / fpr), np.log((1 - delta - fpr) / (1 - tpr))]
    return max(0.0, max(float(np.max(one[np.isfinite(one)], initial=0.0)) for one in said))


def main(path: str, delta: float) -> None:
    told = np.load(path)
    if "bits" in told:
        pairs = [(scores[~bits], scores[bits]) for scores, bits in zip(told["scores"], told["bits"], strict=True)]
    else:
        pairs = list(zip(told["first"], told["second"], strict=True))
    found = {"bounds": [], "seconds": 0.0}
    for outside, inside in pairs:
        start = time.process_time()
        found["bounds"].append(estimate(outside, inside, delta))
        found["seconds"] += time.process_time() - start
    print(json.dumps({"population attack, rates as they are": found}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
