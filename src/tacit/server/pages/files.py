"""The files of the pages: style sheet, scripts, and the vendored ones. They are read once and kept, with their compressed form.

An address holds a hash of all files, so that a browser keeps them for good and a new version is another address. They are public
and the same for everyone; answers are never compressed.

>>> address("tacit.css").startswith("/static/"), address("tacit.css").endswith("/tacit.css")
(True, True)
"""

from __future__ import annotations

import gzip
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi import Path as Part

from tacit.server.errors import not_found

router = APIRouter(include_in_schema=False)
STATIC = Path(__file__).parent.parent / "static"
MEDIA = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain", ".json": "application/json"}


@lru_cache(maxsize=1)
def kept() -> tuple[str, dict[str, tuple[bytes, bytes]]]:
    """A hash of all files, and each file as it is and compressed."""
    found = {
        path.relative_to(STATIC).as_posix(): path.read_bytes()
        for path in sorted(STATIC.rglob("*")) if path.is_file() and path.suffix in MEDIA
    }  # fmt: skip
    whole = hashlib.sha256(b"".join(name.encode() + b"\0" + data for name, data in found.items())).hexdigest()[:16]
    return whole, {name: (data, gzip.compress(data, 9, mtime=0)) for name, data in found.items()}


def address(name: str) -> str:
    """Where a file is."""
    return f"/static/{kept()[0]}/{name}"


@router.get("/static/{version}/{name:path}")
def static_file(
    version: Annotated[str, Part(max_length=64)], name: Annotated[str, Part(max_length=200)],
    accept_encoding: Annotated[str, Header(max_length=500)] = "",
) -> Response:  # fmt: skip
    """A file by its name; only those that were there when the process started."""
    found = kept()[1].get(name)
    if found is None:
        raise not_found()
    small, current = "gzip" in accept_encoding, version == kept()[0]
    # a page of an older process may ask a newer one: it gets the file, and must not keep it under the older address
    headers = {"cache-control": "public, max-age=31536000, immutable" if current else "no-store", "vary": "accept-encoding"}
    if small:
        headers["content-encoding"] = "gzip"
    return Response(found[1] if small else found[0], media_type=MEDIA[Path(name).suffix], headers=headers)
