"""Fetch the scripts that the service's pages ship, and check them against the manifest: `make vendor`.

The manifest (`src/tacit/server/static/vendor/manifest.json`) names each package, its version, the SHA-256 of its npm tarball and of
each file taken from it. A tarball or a file with another hash is refused. To move to a new version: change the version, run with
`--pin`, read what changed, and commit the files together with the manifest.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).parent.parent / "src/tacit/server/static/vendor"


def sha256(data: bytes) -> str:
    """The hash that the manifest holds."""
    return hashlib.sha256(data).hexdigest()


def fetch(package: dict[str, Any], pin: bool) -> None:
    """Take a package's files out of its tarball."""
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run(
            ["npm", "pack", "--silent", f"{package['name']}@{package['version']}"], cwd=folder, check=True, capture_output=True, text=True
        )
        tarball = Path(folder) / made.stdout.split()[-1]
        _same(package, "tarball", tarball.read_bytes(), pin)
        with tarfile.open(tarball) as archive:
            for file in package["files"]:
                member = archive.extractfile(f"package/{file['from']}")
                assert member is not None, file["from"]
                data = member.read()
                _same(file, "sha256", data, pin)
                (VENDOR / file["to"]).write_bytes(data)


def _same(entry: dict[str, Any], name: str, data: bytes, pin: bool) -> None:
    found = sha256(data)
    if pin:
        entry[name] = found
    if entry.get(name) != found:
        sys.exit(f"{entry.get('to', entry.get('name'))}: the manifest has {entry.get(name)}, and this is {found}")


def main() -> None:
    """Fetch everything."""
    place, pin = VENDOR / "manifest.json", "--pin" in sys.argv[1:]
    manifest = json.loads(place.read_text(encoding="utf-8"))
    for package in manifest["packages"]:
        fetch(package, pin)
        print(f"{package['name']} {package['version']} ({package['licence']})")
    if pin:
        place.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
