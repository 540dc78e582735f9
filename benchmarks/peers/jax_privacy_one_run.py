"""jax-privacy's bounds on canary scores that the benchmark wrote: each method's bounds on epsilon and its processor time, as JSON.

Run in an environment of its own: `python jax_privacy_one_run.py scores.npz delta significance`.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from jax_privacy import auditing


def main(path: str, delta: float, significance: float) -> None:
    told = np.load(path)
    split = auditing.Split(seed=0)
    methods = {
        "one run": lambda a: a.epsilon_one_run(significance, delta),
        "one run, split": lambda a: a.epsilon_one_run(significance, delta, threshold_strategy=split),
        "one run, Gaussian": lambda a: a.epsilon_one_run_fdp(significance, delta),
        "one run, Gaussian, split": lambda a: a.epsilon_one_run_fdp(significance, delta, threshold_strategy=split),
        "independent": lambda a: a.epsilon_clopper_pearson(significance, delta, one_sided=False),
        "independent, split": lambda a: a.epsilon_clopper_pearson(significance, delta, one_sided=False, threshold_strategy=split),
        "independent, Gaussian": lambda a: a.epsilon_from_gdp(significance, delta),
    }
    found = {name: {"bounds": [], "seconds": 0.0} for name in methods}
    for scores, bits in zip(told["scores"], told["bits"], strict=True):
        for name, method in methods.items():
            start = time.process_time()
            found[name]["bounds"].append(float(method(auditing.CanaryScoreAuditor(scores[bits], scores[~bits]))))
            found[name]["seconds"] += time.process_time() - start
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
