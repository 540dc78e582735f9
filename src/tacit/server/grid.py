"""When answers leave: at times that follow from public facts, whatever the rows made of the engine's work.

A question that was asked at time t leaves at t + g 2^k. The least k is the one whose stretch holds the public estimate
for the data set; an answer that is not ready by then waits for the next doubling. So a time tells at most how often
the wait was doubled, and a failure leaves when an answer would. What other work of the machine adds to it, fractions of a millisecond,
is drowned by a random part of a step that only the service knows.

>>> grid = Grid(step=0.25)
>>> grid.due(100.0, estimate=0.3, ready=100.01), grid.due(100.0, estimate=0.3, ready=100.49)
(100.5, 100.5)
>>> grid.due(100.0, estimate=0.3, ready=100.6)
101.0
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field

from tacit.server.errors import ConfigurationError

#: Beyond so many doublings of a step an answer is not waited for: a week, for a step of a quarter of a second.
MOST = 22
#: The part of a step over which answers are spread.
SPREAD = 0.2


@dataclass(frozen=True)
class Grid:
    """Times at which answers may leave; a step of 0 lets them leave at once, and is for tests of the grid alone."""

    step: float
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.step <= 3600:
            raise ConfigurationError("grid.step: must be between 0 and 3600 seconds, such as 0.25 s")

    def due(self, asked: float, *, estimate: float, ready: float) -> float:
        """When the answer to a question that was asked then, and was ready then, may be seen."""
        if self.step == 0:
            return ready
        return asked + self.wait(estimate, ready - asked)

    def wait(self, estimate: float, took: float = 0.0) -> float:
        """The first stretch of the grid that holds both times."""
        found = self.step
        for _ in range(MOST):
            if found >= estimate and found >= took:
                break
            found *= 2
        return found

    def spread(self, question: str) -> float:
        """How much later than at its time the answer to this question leaves: always the same, and not to be guessed from its name.

        >>> grid = Grid(step=0.25)
        >>> 0 <= grid.spread("a") < 0.05, grid.spread("a") == grid.spread("a"), Grid(0).spread("a")
        (True, True, 0.0)
        """
        part = int.from_bytes(hashlib.blake2b(question.encode(), key=self.key, digest_size=8).digest(), "big") / 2**64
        return self.step * SPREAD * part
