"""dpmm's AIM on cell numbers, in its own environment: `python dpmm_aim.py ROWS.npy SIZES EPSILON MEGABYTES OUT.npy`.

Its defaults (1,000 iterations a round, 16 rounds a column, compression), except for one process and the size of the model that is given.
Prints one line of JSON with processor seconds, rounds and memory.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import numpy as np
import pandas as pd
from dpmm.models.aim import AIMGM


def main(rows: str, sizes: str, epsilon: str, megabytes: str, out: str) -> None:
    data = np.load(rows)
    names = [f"c{place}" for place in range(data.shape[1])]
    domain = dict(zip(names, (int(size) for size in sizes.split(",")), strict=True))
    state = np.random.RandomState()
    model = AIMGM(epsilon=float(epsilon), delta=1e-9, max_model_size=float(megabytes), domain=domain, random_state=state, n_jobs=1)
    model.set_domain(domain)
    model.set_random_state(state)
    start = time.process_time()
    model.fit(pd.DataFrame(data, columns=names))
    made = model.generate(n_records=len(data))
    seconds = time.process_time() - start
    np.save(out, made[names].to_numpy())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu": seconds, "rounds": len(model.generator.cliques) - len(names), "mb": peak}))


if __name__ == "__main__":
    main(*sys.argv[1:])
