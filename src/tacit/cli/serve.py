"""`tacit serve`: the HTTP service, on a service's file or on a made-up hospital.

    tacit serve --demo
    tacit serve service.yaml --workers 4
    tacit serve service.yaml --link olga
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.options import OptionError, shown_examples

FOLDER = "tacit-service"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("serve", epilog=shown_examples("serve --demo", "serve service.yaml --workers 4", "serve service.yaml --link olga"))(serve)


def serve(
    file: Annotated[str | None, typer.Argument(help="The service's file.", metavar="FILE")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a made-up hospital.")] = False,
    out: Annotated[str, typer.Option("--out", help="The folder of the demonstration.", metavar="FOLDER")] = FOLDER,
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="How many processes.")] = 1,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Listen here instead.")] = None,
    link: Annotated[str | None, typer.Option("--link", help="Print a sign-in link for this person, and end.", metavar="PERSON")] = None,
) -> None:
    """Serve data sets over HTTP: analysts ask, curators publish, officers answer for it."""
    from tacit.server import demonstration, load, sign_in_link
    from tacit.server import serve as start

    if demo == (file is not None):
        raise OptionError("serve: give a service's file, or --demo")
    place = demonstration(out) if demo else Path(str(file))
    configuration = load(place)
    base = configuration.origin if port is None else configuration.origin.rpartition(":")[0] + f":{port}"
    if link is not None:
        print(f"{base}/sign-in/link/{sign_in_link(place, link)}")
        return
    if demo:
        print(f"A made-up hospital, in {place.parent}. Each link signs in once, within ten minutes:")
        for name, person in configuration.people.items():
            print(f"  {person.name or name}: {base}/sign-in/link/{sign_in_link(place, name)}")
        print(f"New links: tacit serve {place} --link ann", flush=True)
    start(place, workers=workers, port=port)
