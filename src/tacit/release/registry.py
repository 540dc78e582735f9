"""The record for the public registry of deployments, generated from what ran. Fields follow the registry's own schema.

Every field is checked against `FIELDS`; what only the curator knows comes from the job's `registry` part and says so where it is empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from tacit.release.errors import JobError
from tacit.release.planning import JobPlan
from tacit.release.record import versions

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
    posts = sorted({name for o in job.outputs for name in ("nonnegative", "whole") if getattr(o.postprocess, name)})
    found: dict[str, Any] = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", job.title.lower()).strip("-") or "release",
        "status": "Published" if private else "Draft",
        "tier": 3,
        "basic": {
            "name": job.title,
            "data_curators": [contact.curator or MISSING],
            "intended_use": contact.intended_use or MISSING,
            "data_product_type": "Tables of aggregates",
            "region": contact.region or MISSING,
            "description": job.purpose,
            "publication_date": date,
            "sector": contact.sector or MISSING,
        },
        "dp_variant": {
            "variant_name": {"pure": "Pure DP", "approximate": "Approximate DP", "rho": "zCDP"}[currency],
            "data_domain": f"tables with declared columns: {', '.join(sorted(job.columns))}",
            "unprotected_quantities": "declared bounds, categories and caps; nothing computed from the data",
        },
        "privacy_loss": {
            "privacy_unit": unit.noun + window,
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
    check(found)
    return found


def check(found: Mapping[str, Any]) -> None:
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


def text_of(found: Mapping[str, Any]) -> str:
    """As YAML."""
    return yaml.safe_dump(dict(found), sort_keys=False, allow_unicode=True, width=100)
