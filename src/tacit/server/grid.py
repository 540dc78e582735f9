"""When answers leave: at times that follow from public facts, whatever the rows made of the engine's work.

A question that was asked at time t leaves at t + g 2^k. The least k is the one whose stretch holds the public estimate
for the data set; an answer that is not ready by then waits for the next doubling. So a time tells at most how often
the wait was doubled, and a failure leaves when an answer would.

>>> grid = Grid(step=0.25)
>>> grid.due(100.0, estimate=0.3, ready=100.01), grid.due(100.0, estimate=0.3, ready=100.49)
(100.5, 100.5)
>>> grid.due(100.0, estimate=0.3, ready=100.6)
101.0
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.server.errors import ConfigurationError

#: Beyond so many doublings of a step an answer is not waited for: a week, for a step of a quarter of a second.
MOST = 22


@dataclass(frozen=True)
class Grid:
    """Times at which answers may leave; a step of 0 lets them leave at once, and is for tests of the grid alone."""

    step: float

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
