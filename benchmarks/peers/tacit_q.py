"""Task Q with Tacit. With the word `groups` on the command line a person's rows are capped as the peers' experts do it, at one row in each
of ten keys; otherwise at ten rows, as a newcomer does. The session is kept, with a large budget,
because the benchmark asks again."""

from __future__ import annotations

import os
import sys
import tempfile
from functools import cache

from timing import Answers, report

from tacit.ledger import Budget
from tacit.tables import Session, Unit

os.environ["TACIT_LEDGER"] = f"sqlite:///{tempfile.mkdtemp()}/book.db"
UNIT = Unit("user_id", max_groups=10, rows_per_group=1) if "groups" in sys.argv else Unit("user_id", max_rows=10)
BUDGET = Budget(epsilon=10**6, delta="0.5")
QUESTION = "SELECT key, COUNT(*) AS n, AVG(v) AS m FROM q GROUP BY key"
# --- what a user writes, beside the imports


@cache
def session(path: str) -> Session:
    made = Session(path, unit=UNIT, budget=BUDGET, name="q")
    return made


def asked(path: str) -> Answers:
    answer = session(path).sql(QUESTION, bounds={"v": (0, 100)}, keys={"key": list(range(100))}, epsilon=1, delta="1e-6")
    return answer["n"].tolist(), answer["m"].tolist()


# --- until here

if __name__ == "__main__":
    report(asked)
