"""Where a state lives that answers for one payment: in the process that opened it, and in no copy of it.

A conversation, a stream or an in-memory budget was paid for once and remembers what it has answered. A fork (a
server that starts its workers, a pool of processes) copies that memory, and every copy would go on answering
with noise of its own: several draws for one payment. So such a state notes its process, and refuses in another.

>>> HomeProcess().insist()
"""

from __future__ import annotations

import os

from tacit.ledger.errors import LedgerError

__all__ = ["HomeProcess"]


class HomeProcess:
    """The process in which a state was opened."""

    def __init__(self) -> None:
        self._process = os.getpid()

    def insist(self) -> None:
        """A refusal in a forked child; nothing was touched. It depends on the process alone."""
        if os.getpid() != self._process:
            raise LedgerError(code="other-process")
