"""The data dictionary of a release: datapackage.json, as frictionless data packages have it.

It names every file with its hash, and for every column of a table its type, what it means, and which values
it may have, so that software reads a release as it was meant without opening its report. It is made of public
parameters alone.

>>> from tacit.release.job import EXAMPLE, parse
>>> from tacit.release.planning import plan
>>> package(plan(parse(EXAMPLE)), {}, {})["title"]
'Visits by region'
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from tacit.release import kinds
from tacit.release.planning import JobPlan

NAME = "datapackage.json"
_MEDIA = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
    "png": "image/png",
}


def package(plan: JobPlan, answers: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    """The content of datapackage.json; `files` are those of the outputs, by name."""
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


def text_of(plan: JobPlan, answers: Mapping[str, Any], files: Mapping[str, bytes]) -> str:
    """As JSON."""
    return json.dumps(package(plan, answers, files), indent=2, ensure_ascii=False) + "\n"
