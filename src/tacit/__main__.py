"""`python -m tacit` is the command `tacit`, for environments whose scripts are not on the path."""

from __future__ import annotations

import sys

from tacit.cli import main

if __name__ == "__main__":
    sys.argv[0] = "tacit"
    sys.exit(main())
