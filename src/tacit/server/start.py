"""Starting the service: one process, or several that share a database.

It refuses to listen beyond this machine without TLS or a declared proxy (see `config`), keeps no log of requests, and turns
off the logs of parsers and engines, which may quote what they read.
"""

from __future__ import annotations

import gc
import logging
import os
from pathlib import Path
from typing import Any

from tacit.accounting import PackageMissing
from tacit.server.config import Configuration, load
from tacit.server.errors import ConfigurationError

#: Where a worker process finds the service's file.
_FILE = "TACIT_SERVICE_FILE"
#: Seconds in which a worker must answer its parent. It answers only after its imports, which take a second on a free machine and far
#: longer on a busy one; with uvicorn's 5 seconds such a worker is ended and begun again without end.
STARTING = 120
#: Loggers that may repeat what they were given.
TALKATIVE = ("sqlglot", "sqlalchemy", "duckdb", "py4j", "pyspark", "multipart", "authlib", "httpx", "httpcore", "asyncio")


def serve(path: str | Path, *, workers: int = 1, host: str | None = None, port: int | None = None) -> None:
    """Run the service until it is stopped."""
    try:
        import uvicorn
    except ImportError:
        raise PackageMissing(code="package-missing", package="uvicorn", install="'tacit[server]'") from None
    configuration = load(path)
    check(configuration)
    listen = configuration.listen
    if not 1 <= workers <= 64:
        raise ConfigurationError("workers: must be between 1 and 64")
    os.environ[_FILE] = str(Path(path).resolve())
    tls: dict[str, Any] = {}
    if listen.tls is not None:
        tls = {"ssl_certfile": configuration.base / listen.tls.certificate, "ssl_keyfile": configuration.base / listen.tls.key}
    uvicorn.run(
        "tacit.server.start:make", factory=True, host=host or listen.host, port=listen.port if port is None else port,
        workers=workers, access_log=False, log_level="warning", server_header=False, date_header=False, proxy_headers=False,
        http="tacit.server.wire:Prompt", timeout_worker_healthcheck=STARTING, timeout_keep_alive=30,
        limit_concurrency=4096, h11_max_incomplete_event_size=65536, **tls,
    )  # fmt: skip


def make() -> Any:
    """The application of a worker process."""
    from tacit.server.api.app import application
    from tacit.server.desk import Service

    quiet()
    made = application(Service.open(load(os.environ[_FILE])))
    settled()
    return made


def settled() -> None:
    """Have the collector of garbage pass over what was made up to now: it lives as long as the process.

    The collector stops every thread while it looks, and looks at everything again and again, because statements
    leave garbage: it took an eighth of the time of a question, and a third of a second at a time, for which
    answers were late. A full look after every hundred of the smaller ones keeps some garbage longer: after every
    hundred and fifty a process that had answered 250 questions had 35 MB more, of 390, than after every fifty.
    """
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, 100)


def quiet() -> None:
    """Turn off the loggers that may repeat what they were given."""
    for name in TALKATIVE:
        found = logging.getLogger(name)
        found.disabled = True
        found.propagate = False


def check(configuration: Configuration) -> None:
    """Refuse to start in a way that would give secrets or errors away."""
    if configuration.production and (os.environ.get("TACIT_TRACEBACK") or os.environ.get("PYTHONASYNCIODEBUG")):
        raise ConfigurationError("production: debugging is on (TACIT_TRACEBACK or PYTHONASYNCIODEBUG); unset it")
    if configuration.listen.tls is not None:
        for name in (configuration.listen.tls.certificate, configuration.listen.tls.key):
            if not (configuration.base / name).is_file():
                raise ConfigurationError(f"listen.tls: there is no file {name}")


def demonstration(folder: str | Path) -> Path:
    """The made-up hospital in a folder, written where it is not there yet: its service's file."""
    from tacit.server.demo import write

    return write(folder)


def sign_in_link(path: str | Path, person: str) -> str:
    """The secret of a new sign-in link for someone whom the service knows; the address is `/sign-in/link/` and the secret."""
    from tacit.server.database import Database
    from tacit.server.people import Register

    configuration = load(path)
    database = Database(configuration.url)
    try:
        register = Register(database)
        register.set(configuration.people)
        if register.find(person) is None:
            raise ConfigurationError(f"{path}: people has no {person}")
        return register.link(person)
    finally:
        database.close()
