"""The `tacit` command; `python -m tacit.cli` is the same.

>>> main(["--version"])
tacit 0...
0
"""

from tacit.cli.app import app, main

__all__ = ["app", "main"]
