"""A run that can go on after its server died: what is kept on the disk between two rounds, and what is never done again.

A checkpoint holds the run's name, the last round that was begun, and the model after the last one that ended; both are
public. A round is noted as begun before its first message, so no round is ever run a second time: one that was under way
when the server died is lost, and spent. The run goes on with new noise under the payment it has.

>>> import pathlib, tempfile
>>> path = pathlib.Path(tempfile.mkdtemp()) / "run.checkpoint"
>>> Checkpoint("0" * 64, "monday", 3, 1.0, {"w": np.zeros(2)}).write(path)
>>> found = Checkpoint.read(path)
>>> found.run, found.begun, found.arrays["w"].tolist()
('monday', 3, [0.0, 0.0])
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import disk
from tacit.errors import ParameterError
from tacit.federated.errors import FederatedError
from tacit.federated.plan import FederatedPlan
from tacit.ledger import Account, Payment, paying

FACTS = "tacit checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run: its plan's fingerprint, its name, the last round that was begun, threshold and model."""

    plan: str
    run: str
    begun: int
    threshold: float
    arrays: dict[str, NDArray[Any]]

    def write(self, path: Path) -> None:
        """Put it on the disk, whole or not at all."""
        facts = {"plan": self.plan, "run": self.run, "begun": self.begun, "threshold": self.threshold, "names": list(self.arrays)}
        room = io.BytesIO()
        numbered: dict[str, Any] = {f"array{place}": array for place, array in enumerate(self.arrays.values())}
        np.savez(room, **{FACTS: np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8), **numbered})
        disk.write_whole(path, room.getvalue())

    @staticmethod
    def read(path: Path) -> Checkpoint:
        """The state in a file."""
        try:
            with np.load(path, allow_pickle=False) as held:
                facts = json.loads(held[FACTS].tobytes().decode())
                arrays = {name: held[f"array{place}"] for place, name in enumerate(facts.pop("names"))}
            return Checkpoint(arrays=arrays, **facts)
        except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile):
            raise ParameterError(f"{path.name} is not the checkpoint of a run; name another file for a new run") from None


class KeptRun:
    """The disk's side of a run. Without a path nothing is kept, and nothing can be resumed."""

    def __init__(self, path: Path | None, plan: FederatedPlan, run: str, arrays: dict[str, NDArray[Any]]) -> None:
        self._path, self._plan = path, plan
        self.resumed = path is not None and path.exists()
        self.state = Checkpoint(plan.fingerprint, run, 0, plan.clip, arrays)
        if path is not None and self.resumed:
            self.state = self._checked(Checkpoint.read(path))

    def _checked(self, found: Checkpoint) -> Checkpoint:
        if found.plan != self._plan.fingerprint:
            raise FederatedError(code="federated-checkpoint")
        if self._plan.strategy is not None:
            raise FederatedError("correlated noise is lost with its process; begin a new run from these arrays, which pays for itself")
        shapes = [{name: (array.shape, array.dtype) for name, array in held.items()} for held in (found.arrays, self.state.arrays)]
        if shapes[0] != shapes[1]:
            raise ParameterError("the model and the one in the checkpoint have other names, shapes or types")
        return found

    def payment(self, account: Account | None) -> Payment:
        """The open payment of the run; a new run opens one, for the whole plan."""
        plan, run = self._plan, self.state.run
        if self.resumed and account is not None:
            open_ones = [found for found in account.payments(run=run) if found.status == "open" and found.event == plan.event]
            if not open_ones:
                raise FederatedError(code="federated-checkpoint")
            return open_ones[-1]
        return paying(account, plan.event, purpose=plan.name, run=run, delta=plan.delta).open()

    def begin(self, turn: int) -> None:
        """Note that a round begins, durably: whatever happens, it is not begun again."""
        self._keep(begun=turn)

    def end(self, arrays: dict[str, NDArray[Any]], threshold: float) -> None:
        """Keep the model after a round."""
        self._keep(arrays=arrays, threshold=threshold)

    def _keep(self, **changes: Any) -> None:
        self.state = Checkpoint(**{**vars(self.state), **changes})
        if self._path is not None:
            self.state.write(self._path)
