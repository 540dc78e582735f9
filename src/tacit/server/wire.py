"""One connection of the HTTP server: who opens one sends the head of a request soon, or is cut off.

Bodies have their limits in `api.app`, because the application reads them. Before a head is complete there is no application:
without this a connection that says nothing, or one word a minute, or headers without end, stays open for good.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    Base: Any = asyncio.Protocol
else:
    Base = AutoHTTPProtocol

#: The head of a request comes within so many seconds of its first byte, or of the connection, and in so many bytes.
SECONDS, BYTES = 10.0, 65_536


class Prompt(Base):  # type: ignore[misc]
    """A connection whose request has to begin within a limit; while one is answered, and between two, it is not hurried."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._late: asyncio.TimerHandle | None = None
        self._head = 0

    def connection_made(self, transport: Any) -> None:
        """Open it."""
        super().connection_made(transport)
        self._hurry()

    def data_received(self, data: bytes) -> None:
        """Read what came; a head that is complete stops the clock."""
        before = self.cycle
        super().data_received(data)
        if self._answering() or self.cycle is not before:
            self._calm()
            return
        # what is left of a body that was answered before its end is let pass, so that the answer is read
        self._head += 0 if self.cycle is not None and self.cycle.more_body else len(data)
        if self._head > BYTES:
            self.transport.close()
        self._hurry()

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed."""
        self._calm()
        super().connection_lost(exc)

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _hurry(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(SECONDS, self._too_late)

    def _calm(self) -> None:
        self._head = 0
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        if not self._answering():
            self.transport.close()
