"""`python -m tacit.cli` runs the command."""

import sys

from tacit.cli import main

sys.exit(main())
