"""release.json: what was measured, at what price, by which code, under which entry of the ledger. Enough to check the release by machine.

Everything in it is public: parameters, events, hashes of code and job. No figure and no row is in it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import tacit
from tacit.accounting import Bound, Event, account, to_json
from tacit.errors import AccountingError
from tacit.exact import to_text
from tacit.release.planning import JobPlan
from tacit.tables.answer import MARK, Answer

#: Packages whose versions a reader needs to repeat the run.
PACKAGES = ("numpy", "scipy", "duckdb", "pyarrow", "sqlglot", "sqlalchemy", "pydantic")
#: Deltas at which the whole release is also priced, for comparison with other releases.
DELTAS = (1e-5, 1e-6, 1e-8, 1e-10)


@functools.cache
def code_hash() -> str:
    """One hash of every source file of this package, by name and content."""
    root = Path(tacit.__file__).parent
    found = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        found.update(f"{file.relative_to(root).as_posix()}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


def versions() -> dict[str, str]:
    """Of Python, this package and what it stands on."""
    found = {"tacit": str(getattr(tacit, "__version__", "unknown")), "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def bracket(bound: Bound) -> dict[str, Any]:
    """Both ends and the method; JSON has no infinity, so it is spelt out."""
    lower, upper = (end if math.isfinite(end) else "infinity" for end in (bound.lower, bound.upper))
    return {"lower": lower, "upper": upper, "method": bound.method}


def totals(plan: JobPlan, event: Event) -> dict[str, Any]:
    """The price of the whole release in every currency that has one."""
    priced = account(event, plan.job.unit.typed().adjacency)
    found: dict[str, Any] = {}
    for delta in sorted({float(plan.delta), *DELTAS}, reverse=True):
        found[f"epsilon at delta {delta:g}"] = bracket(priced.epsilon(delta))
    try:
        found["rho"] = bracket(priced.rho())
    except (AccountingError, ValueError):
        found["rho"] = None  # some part has no price in it
    return found


def record(
    plan: JobPlan,
    answers: Mapping[str, Answer],
    event: Event,
    ledger: Mapping[str, Any],
    *,
    private: bool,
    time: str,
    files: list[str],
    left_out: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The content of release.json; `event` is everything that was paid for, corrections included."""
    job = plan.job
    unit = job.unit.typed()
    outputs = []
    for output in plan.outputs:
        if output.name in left_out:
            continue
        answer = answers[output.name]
        outputs.append(
            {
                "name": output.name,
                "title": output.spec.title,
                "sql": output.spec.sql,
                "part": float(output.part),
                "price": output.spend.words,
                "event": json.loads(to_json(output.plan.event)),
                "keys": "selected privately" if output.private_keys else "public",
                "noise": [{"measure": n.measure, "law": n.law, "deviation": n.deviation} for n in answer.noise],
                "notes": list(answer.notes),
            }
        )
    return {
        "format": 1,
        "mark": "private" if private else MARK,
        "private": private,
        "title": job.title,
        "purpose": job.purpose,
        "time": time,
        "unit": {"text": repr(unit), "person": unit.person, "adjacency": unit.adjacency.value, "window": unit.window, "period": job.period},
        "budget": {name: to_text(value) for name, value in plan.charge.items()},
        "total": totals(plan, event),
        "event": json.loads(to_json(event)),
        "outputs": outputs,
        "left_out": list(left_out),
        "ledger": dict(ledger),
        "job": {"hash": job.digest(), "content": without_secrets(job.model_dump(mode="json"))},
        "code": {"hash": code_hash(), "versions": versions()},
        "files": sorted(files),
    }


def without_secrets(content: dict[str, Any]) -> dict[str, Any]:
    """The job without the addresses of its sources: where data is kept is nobody's business, and a url may hold a password."""
    return {**content, "sources": {name: {"public": source["public"]} for name, source in content["sources"].items()}}


def text_of(content: Mapping[str, Any]) -> str:
    """As it is written: sorted, and NaN is impossible."""
    return json.dumps(content, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"
