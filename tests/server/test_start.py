"""How a worker process starts: what was made by then is not looked at again by the collector, and what is made later is collected."""

from __future__ import annotations

import subprocess
import sys

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
