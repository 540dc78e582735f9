"""What is written about a release for machines: release.json, the data dictionary, the record for the public registry of deployments.

release.json says what was measured, at what price, by which code, under which entry of the ledger: enough to check the release. All of it
is public (parameters, events, hashes of code and job); no figure and no row is in it. The registry's record has the fields of its own
schema, which `FIELDS` lists; what only the curator knows comes from the job's `registry` part, and says so where it is empty.
The dictionary, datapackage.json, names every file with its hash, and for every column of a table its type, what it means, and which values
it may have, so that software reads a release as it was meant without opening its report. It is made of public parameters alone.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

import tacit
from tacit.accounting import Bound, Event, account, to_json
from tacit.errors import AccountingError
from tacit.exact import to_text
from tacit.release import kinds
from tacit.release.errors import JobError
from tacit.release.planning import JobPlan
from tacit.release.preparation import described_preparation
from tacit.tables import MARK

#: Packages whose versions a reader needs to repeat the run.
PACKAGES = ("numpy", "scipy", "duckdb", "pyarrow", "sqlglot", "sqlalchemy", "pydantic")
#: The data dictionary.
PACKAGE = "datapackage.json"
_MEDIA = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
    "png": "image/png",
}
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
    plan: JobPlan, answers: Mapping[str, Any], event: Event, ledger: Mapping[str, Any], *, private: bool,
    time: str, files: list[str], left_out: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The content of release.json; `event` is everything that was paid for, corrections included."""
    job = plan.job
    unit = job.unit.typed()
    other = kinds.deployment(plan.outputs)
    outputs = []
    for output in plan.outputs:
        spec = output.spec
        if spec.name not in left_out:
            # A table is what was meant before there were kinds, and its record stays as it was.
            kind = {} if spec.kind == "table" else {"kind": spec.kind}
            own = kinds.of(output).recorded(output, answers[spec.name])
            outputs.append({"name": spec.name, "title": spec.title, **kind, **own})
    return {
        "format": 1,
        "mark": "private" if private else MARK,
        "private": private,
        "title": job.title,
        "purpose": job.purpose,
        **({} if job.preparation is None else {"preparation": described_preparation(plan)}),
        "time": time,
        "unit": {
            "text": repr(unit) if other is None else f"{other.unit['short']}; {other.unit['cap']}",
            "person": unit.person, "adjacency": unit.adjacency.value, "window": unit.window, "period": job.period,
        },
        **({} if other is None else {"deployment": {"model": other.model, **other.record}}),
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
    """The job without the addresses of its sources: where data is kept is not published, and a url may hold a password."""
    silent = [name for name in ("policy", "preparation") if content.get(name) is None]
    content = {name: value for name, value in content.items() if name not in silent}
    return {**content, "sources": {name: {"public": source["public"]} for name, source in content["sources"].items()}}


def text_of(content: Mapping[str, Any]) -> str:
    """As it is written: sorted, and NaN is impossible."""
    return json.dumps(content, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


# --- the registry of deployments --------------------------------------------------------------------------------------------------------

VARIANTS = ("Pure DP", "Approximate DP", "zCDP", "Renyi DP", "Custom")
MODELS = ("Local", "Central", "Shuffle", "Federated")
#: The registry's sections with their fields.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "basic": ("name", "data_curators", "intended_use", "data_product_type", "region", "description", "publication_date", "sector"),
    "dp_variant": ("variant_name", "data_domain", "unprotected_quantities"),
    "privacy_loss": ("privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"),
    "deployment_model": ("model_name", "actors", "release_type", "data_source_type", "access_type"),
    "accounting": ("post_processing", "composition"),
    "implementation": ("preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"),
    "administrative": ("sources", "registry_authors"),
}
TOP = ("url_slug", "status", "tier")
MISSING = "not stated"


def registry_record(plan: JobPlan, *, date: str, private: bool) -> dict[str, Any]:
    """The registry's record of one release."""
    job, unit = plan.job, plan.job.unit.typed()
    contact = job.registry
    currency = job.budget.typed().currency
    caps = f"{unit!r}" if unit.noun != "row" else "one row"
    window = f" within one {unit.window}" if unit.window else ""
    parameters = {"epsilon": plan.cost.upper, "delta": float(plan.delta), "rho": float(plan.charge["rho"]) if currency == "rho" else None}
    posts = sorted({name for output in plan.outputs for name in kinds.of(output).post_processing(output)})
    given = [words for output in plan.outputs for words in kinds.unprotected(output)]
    other = kinds.deployment(plan.outputs)
    products = list(dict.fromkeys(kinds.of(output).PRODUCT for output in plan.outputs))
    found: dict[str, Any] = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", job.title.lower()).strip("-") or "release",
        "status": "Published" if private else "Draft",
        "tier": 3,
        "basic": {
            "name": job.title,
            "data_curators": [contact.curator or MISSING],
            "intended_use": contact.intended_use or MISSING,
            "data_product_type": "; ".join(products),
            "region": contact.region or MISSING,
            "description": job.purpose,
            "publication_date": date,
            "sector": contact.sector or MISSING,
        },
        "dp_variant": {
            "variant_name": {"pure": "Pure DP", "approximate": "Approximate DP", "rho": "zCDP"}[currency],
            "data_domain": f"tables with declared columns: {', '.join(sorted(job.columns))}",
            "unprotected_quantities": "; ".join(
                ["declared bounds, categories and caps; nothing computed from the data", *dict.fromkeys(given)]
            ),
        },
        "privacy_loss": {
            "privacy_unit": (f"{plan.protects} of one " if plan.protects else "") + unit.noun + window,
            "privacy_unit_details": f"{caps}; neighbouring tables differ by {unit.adjacency.value}",
            "privacy_parameters": {name: value for name, value in parameters.items() if value is not None},
            "privacy_parameters_details": "certified upper bound for all outputs together, priced as one plan",
        },
        "deployment_model": {
            "model_name": "Central",
            "actors": "the curator holds the rows; readers see released tables only",
            "release_type": "Static",
            "data_source_type": "Static" if unit.window is None else "Dynamic",
            "access_type": "Non-interactive: one fixed plan; every analyst sees the same tables, so collusion changes nothing",
        },
        "accounting": {
            "post_processing": ", ".join(posts) if posts else "none",
            "composition": f"{len(job.outputs)} outputs with {plan.noise} noise, composed as one plan fixed in advance",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": "bounds, caps and categories are public; nothing was tuned on the data",
            "mechanisms": {
                "library": f"tacit {versions()['tacit']}",
                "noise": plan.noise,
                "floating_point": "sums are exact integers; noise is drawn exactly on integers from the operating system's entropy",
                "timing": "figures are published at once, by a batch job; response times are not seen by readers",
                "access_control": "readers get the published folder only; spends are in a hash-chained ledger",
            },
            "justification": job.purpose,
        },
        "administrative": {"sources": ["release.json"], "registry_authors": list(contact.authors) or [MISSING]},
    }
    if other is not None:
        _deployed(found, other)
    check_registry(found)
    return found


def _deployed(found: dict[str, Any], other: kinds.Deployment) -> None:
    """Say of a release from reports what is said differently of one from rows."""
    found["dp_variant"] |= {"data_domain": other.domain, "unprotected_quantities": " ".join(other.limits)}
    found["privacy_loss"] |= {
        "privacy_unit": other.unit["one"],
        "privacy_unit_details": f"{other.unit['cap']}; {other.unit['relation']}",
        "privacy_parameters_details": other.parameters,
    }
    found["deployment_model"] |= {"model_name": other.model, "actors": other.actors, "data_source_type": "Dynamic"}
    found["accounting"]["composition"] = other.composition
    found["implementation"]["mechanisms"] |= other.mechanisms


def check_registry(found: Mapping[str, Any]) -> None:
    """Refuse a record that lacks a field of the registry, has one that it does not know, or a value outside its lists."""
    wanted = {*TOP, *FIELDS}
    if set(found) != wanted:
        raise JobError(f"a registry record has the parts {', '.join(sorted(wanted))}", place="registry")
    for part, names in FIELDS.items():
        if set(found[part]) != set(names):
            raise JobError(f"this part of a registry record has {', '.join(names)}", place=f"registry.{part}")
    if found["dp_variant"]["variant_name"] not in VARIANTS:
        raise JobError(f"must be one of {', '.join(VARIANTS)}", place="registry.dp_variant.variant_name")
    if found["deployment_model"]["model_name"] not in MODELS:
        raise JobError(f"must be one of {', '.join(MODELS)}", place="registry.deployment_model.model_name")
    if found["tier"] not in (1, 2, 3) or not re.fullmatch(r"[a-z0-9-]+", found["url_slug"]):
        raise JobError("tier must be 1, 2 or 3, and url_slug small letters, digits and dashes", place="registry")


def registry_text(found: Mapping[str, Any]) -> str:
    """As YAML."""
    return yaml.safe_dump(dict(found), sort_keys=False, allow_unicode=True, width=100)


# --- the data dictionary ---


def package(plan: JobPlan, answers: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    """The content of datapackage.json, as frictionless data packages have it; `files` are those of the outputs, by name.

    >>> from tacit.release.job import EXAMPLE, parse
    >>> from tacit.release.planning import plan
    >>> package(plan(parse(EXAMPLE)), {}, {})["title"]
    'Visits by region'
    """
    resources = []
    for file, content in files.items():
        name, _, ending = file.rpartition(".")
        output = next(
            (o for o in plan.outputs if o.spec.name in (name, file) and o.spec.name in answers), None
        )
        resource: dict[str, Any] = {
            "name": re.sub(r"[^a-z0-9._-]+", "-", file.lower()),
            "path": file,
            "format": ending,
            "mediatype": _MEDIA.get(ending, "application/octet-stream"),
            "bytes": len(content),
            "hash": f"sha256:{hashlib.sha256(content).hexdigest()}",
        }
        described = None if output is None else kinds.dictionary(output, answers[output.spec.name])
        if output is not None:
            resource |= {"title": output.spec.title or output.spec.name}
        if described is not None:
            resource |= {
                "profile": "tabular-data-resource",
                "schema": {"fields": described, "missingValues": [""]},
            }
            if ending == "csv":
                resource |= {"encoding": "utf-8", "dialect": {"delimiter": ",", "header": True}}
        resources.append(resource)
    slug = re.sub(r"[^a-z0-9]+", "-", plan.job.title.lower()).strip("-") or "release"
    found: dict[str, Any] = {
        "profile": "data-package",
        "name": slug[:100],
        "title": plan.job.title,
        "description": plan.job.purpose,
    }
    if plan.job.registry.curator:
        found["contributors"] = [{"title": plan.job.registry.curator, "role": "publisher"}]
    return {**found, "resources": resources}


def package_text(plan: JobPlan, answers: Mapping[str, Any], files: Mapping[str, bytes]) -> str:
    """datapackage.json, as it is written."""
    return json.dumps(package(plan, answers, files), indent=2, ensure_ascii=False) + "\n"
