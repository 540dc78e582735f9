"""The `tacit` command; `python -m tacit.cli` is the same.

>>> main(["--version"])
tacit 0...
0
"""

# Imports inside functions: a command loads only the rooms that it needs, so that help and refusals come at
# once.

from tacit.cli.app import app, main

__all__ = ["app", "main"]
