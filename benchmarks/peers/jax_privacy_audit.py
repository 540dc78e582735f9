"""jax-privacy's auditor on scores that the benchmark wrote: its bounds on epsilon and the processor time of each, as JSON.

Run in an environment of its own: `python jax_privacy_audit.py scores.npz delta significance`.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from jax_privacy import auditing


def main(path: str, delta: float, significance: float) -> None:
    scores = np.load(path)
    methods = {
        "Clopper-Pearson, Bonferroni": lambda a: a.epsilon_clopper_pearson(significance, delta, one_sided=False),
        "Clopper-Pearson, split": lambda a: a.epsilon_clopper_pearson(
            significance, delta, one_sided=False, threshold_strategy=auditing.Split(seed=0)
        ),
        "Gaussian": lambda a: a.epsilon_from_gdp(significance, delta),
    }
    found = {name: {"bounds": [], "seconds": 0.0} for name in methods}
    for second, first in zip(scores["second"], scores["first"], strict=True):
        for name, method in methods.items():
            start = time.process_time()
            found[name]["bounds"].append(float(method(auditing.CanaryScoreAuditor(second, first))))
            found[name]["seconds"] += time.process_time() - start
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
