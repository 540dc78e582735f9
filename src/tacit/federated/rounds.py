"""Messages of a round over any Flower grid: requests out, one answer of bytes from each client, one noisy sum.

Training, questions and evaluation all go this way. A reply counts only if it has exactly one record with exactly one
value; anything else is left out, by the name of its phase alone.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.federated.errors import FederatedError, needs_flower
from tacit.federated.messages import ANSWER, RECORD, REFUSED, Ask
from tacit.federated.plan import FederatedPlan
from tacit.federated.selection import Arriving
from tacit.federated.sums import CentralSum

if TYPE_CHECKING:
    from tacit.federated.secure_sum.keys import Register

with needs_flower():
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.serverapp import Grid


class Rounds:
    """The rounds of one run of a plan. `excluded` has, for each round, how many answers were left out in which phase."""

    def __init__(self, plan: FederatedPlan, *, run: str | None = None, register: Register | None = None) -> None:
        if plan.register != (None if register is None else register.fingerprint):
            raise FederatedError(code="federated-register")
        self.plan, self.register = plan, register
        self.run = run or secrets.token_hex(16)
        self.excluded: list[dict[str, int]] = []
        self.survivors: tuple[int, ...] = ()
        self.last_total: NDArray[Any] | None = None  # exact, under central trust; modulo 2^bits and noisy otherwise
        self.riding: dict[int, dict[int, bytes]] = {}  # keys for a round that came with the answers of the one before
        self._correlated: Any = None

    def noisy_sum(self, grid: Grid, ask: Ask, nodes: list[int], timeout: float) -> NDArray[np.float64]:
        """The noisy sum of one round; raises `RoundVoid` where too few clients were left."""
        self.excluded.append({})
        if self.plan.trust == "distributed":
            from tacit.federated.distributed import secure_round

            return secure_round(self, grid, ask, nodes, timeout)
        total = CentralSum(self.plan, ask.threshold)
        heard: list[int] = []
        for node, sent in self.exchanged(grid, ask, dict.fromkeys(nodes, b""), timeout).items():
            if isinstance(self.plan.selection, Arriving) and len(heard) >= self.plan.clients:
                self.leave_out("surplus")  # asked to make up for others who would not answer
            elif total.add(sent):
                heard.append(node)
            else:
                self.leave_out("vector")
        self.survivors, self.last_total = tuple(heard), total.total.copy()
        if self.plan.strategy is None:
            return total.noisy()
        from tacit.federated.correlated import CorrelatedSums

        if self._correlated is None:
            self._correlated = CorrelatedSums(self.plan)
        found: NDArray[np.float64] = self._correlated.noisy(total)
        return found

    def exchanged(self, grid: Grid, ask: Ask, payloads: dict[int, bytes], timeout: float) -> dict[int, bytes]:
        """One phase: a request to each node, and the first well-formed answer of each; refusals are left out."""
        common, asked = ask.to_record(), []
        for node, payload in payloads.items():
            content = RecordDict({RECORD: ConfigRecord({**common, "payload": payload})})
            kind = f"train.tacit_{ask.phase}"
            asked.append(Message(content, dst_node_id=node, message_type=kind, group_id=str(ask.turn)))
        found: dict[int, bytes] = {}
        for reply in grid.send_and_receive(asked, timeout=timeout):
            sent, node = _answer(reply), reply.metadata.src_node_id
            # A reply carries the group of its request: what belongs to another round must not count in this one.
            other = reply.metadata.group_id != str(ask.turn) or reply.metadata.message_type != f"train.tacit_{ask.phase}"
            if sent is None or sent == REFUSED or node not in payloads or other:
                self.leave_out(ask.phase)
            elif node not in found:
                found[node] = sent
        return found

    def leave_out(self, phase: str) -> None:
        """Count an answer that was left out, by the name of its phase."""
        counted = self.excluded[-1]
        counted[phase] = counted.get(phase, 0) + 1


def _answer(reply: Message) -> bytes | None:
    """The bytes of a reply that has exactly one record with exactly one value; anything else is no answer."""
    if reply.has_error() or not reply.has_content() or list(reply.content) != [RECORD]:
        return None
    record = reply.content[RECORD]
    if not isinstance(record, ConfigRecord) or list(record) != [ANSWER]:
        return None
    value = record[ANSWER]
    return value if isinstance(value, bytes) else None
