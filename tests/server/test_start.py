"""How a worker process starts: how long it may take, and what the collector of garbage looks at afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from tacit.server import start

SCRIPT = """
import gc, weakref
from tacit.server.start import settled

class Node:
    pass

def ring():
    node = Node()
    node.itself = node
    return weakref.ref(node), node

before = gc.get_threshold()
early, kept = ring()
settled()
late, other = ring()
del kept, other
gc.collect()
print(gc.get_freeze_count() > 10_000, late() is None, early() is not None, gc.get_threshold() == (*before[:2], 100), gc.isenabled())
"""


def test_the_collector_passes_over_what_lives_as_long_as_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 5


def test_a_worker_that_is_slow_to_import_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn ends a worker that does not answer within five seconds: on a busy machine two workers never served anything."""
    given: dict[str, Any] = {}
    listen = SimpleNamespace(host="127.0.0.1", port=0, tls=None)
    monkeypatch.setattr(start, "load", lambda path: SimpleNamespace(listen=listen, base=Path()))
    monkeypatch.setattr(start, "check", lambda configuration: None)
    monkeypatch.setattr(uvicorn, "run", lambda app, **options: given.update(options))
    monkeypatch.setenv("TACIT_SERVICE_FILE", "")
    start.serve("service.yaml", workers=2)
    assert uvicorn.Config("app", **given).timeout_worker_healthcheck >= 60
