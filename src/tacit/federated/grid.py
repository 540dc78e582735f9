"""A Flower grid in one process: the same apps run without ray and without sockets, and faults can be scripted.

Every node has a context of its own, and messages are copied on the way, as a network would. A fault names a phase
and a node: its request is lost, its answer is lost, cut, garbled, doubled or late.

>>> from flwr.app import ConfigRecord, Message, RecordDict
>>> from flwr.clientapp import ClientApp
>>> app = ClientApp()
>>> @app.train()
... def train(message, context):
...     return Message(RecordDict({"me": ConfigRecord({"node": context.node_id})}), reply_to=message)
>>> grid = InProcessGrid(app, nodes=3, faults={("train", 2): "lost"})
>>> asked = [Message(RecordDict(), dst_node_id=node, message_type="train") for node in grid.get_node_ids()]
>>> sorted(reply.content["me"]["node"] for reply in grid.send_and_receive(asked))
[1, 3]
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args

from tacit.errors import ParameterError
from tacit.federated.errors import needs_flower
from tacit.parameters import count

with needs_flower():
    from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid
    from flwr.supercore.run import Run

    # Not part of Flower's public interface: who a process is. Set here alone; a test says when it moves.
    from flwr.supercore.task_identity import TaskIdentity

SERVER = 0
Fault = Literal["lost", "silent", "cut", "garbled", "doubled", "late", "error", "extra"]
#: Which fault befalls a message of this type to this node, if any; called once for each message.
Script = Callable[[str, int], Fault | None]


class InProcessGrid(Grid):
    """Nodes 1 to `nodes` of one app. `node_config(i)` is the configuration of node i; "partition-id" is i - 1.

    `faults` maps (type of message, node) to a fault, or is a function of both. "lost": the node never sees the
    request. "silent": it answers and the answer is lost. "cut", "garbled", "doubled": the answer's bytes are. "late":
    the answer of its previous message of this type arrives instead. "error": an error arrives. "extra": the answer
    carries a record more.
    """

    def __init__(
        self, app: ClientApp, *, nodes: int, node_config: Callable[[int], dict[str, Any]] | None = None,
        faults: Mapping[tuple[str, int], Fault] | Script | None = None,
    ) -> None:
        self._app = app
        self._run = Run.create_empty(run_id=1)
        self._script: Script = faults if callable(faults) else lambda kind, node: (faults or {}).get((kind, node))
        self._contexts = {
            node: Context(1, node, {"partition-id": node - 1, **(node_config(node) if node_config else {})}, RecordDict(), {})
            for node in range(1, count("nodes", nodes) + 1)
        }
        self._replies: dict[str, list[Message]] = {}
        self._earlier: dict[tuple[str, int], Message] = {}
        self._sent = 0
        self.bytes_out = self.bytes_in = 0
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, SERVER, 1

    def set_run(self, run: Run) -> None:
        self._run = run

    @property
    def run(self) -> Run:
        return self._run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return Message(content, dst_node_id=dst_node_id, message_type=message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> list[int]:
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Run each message's node now; the replies wait to be pulled."""
        ids = []
        for message in messages:
            self._sent += 1
            name = f"{self._sent:x}"
            ids.append(name)
            self._replies[name] = self._delivered(message, name)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [reply for name in message_ids for reply in self._replies.pop(name, [])]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))

    def _delivered(self, message: Message, name: str) -> list[Message]:
        kind, node = message.metadata.message_type, message.metadata.dst_node_id
        fault = self._script(kind, node)
        if fault is not None and fault not in get_args(Fault):
            raise ParameterError(f"a fault is one of {', '.join(get_args(Fault))}, not {fault!r}")
        if fault == "lost" or node not in self._contexts:
            return []
        arrived = _copied(message, name)
        self.bytes_out += _size(arrived)
        try:
            reply = self._app(arrived, self._contexts[node])
        except Exception:  # as a SuperNode does, which sends an error; what it says stays here
            return [Message(Error(code=0, reason="the client app failed"), reply_to=arrived)]
        reply = _copied(reply, f"{name}r")
        self.bytes_in += _size(reply)
        before, self._earlier[kind, node] = self._earlier.get((kind, node)), reply
        match fault:
            case "silent":
                return []
            case "late":
                return [] if before is None else [before]
            case "doubled":
                return [reply, reply]
            case "error":
                return [Message(Error(code=0, reason="scripted"), reply_to=arrived)]
            case "cut" | "garbled" | "extra":
                return [_damaged(reply, fault)]
        return [reply]


def _copied(message: Message, name: str) -> Message:
    """The message as it arrives: another object, with an id."""
    metadata = copy.copy(message.metadata)
    metadata.__dict__["_message_id"] = name
    make: Any = Message  # its metadata are an argument for Flower's own use
    arrived: Message = (
        make(error=message.error, metadata=metadata)
        if message.has_error()
        else make(content=_records(message.content), metadata=metadata)
    )
    return arrived


def _records(content: RecordDict) -> RecordDict:
    return RecordDict({name: copy.deepcopy(record) for name, record in content.items()})


def _size(message: Message) -> int:
    """The bytes of values in a message."""
    if message.has_error():
        return 0
    total = 0
    for record in message.content.config_records.values():
        total += sum(len(value) if isinstance(value, bytes | str) else 8 for value in record.values())
    for arrays in message.content.array_records.values():
        total += sum(len(array.data) for array in arrays.values())
    return total


def _damaged(reply: Message, fault: str) -> Message:
    """The reply with its byte values cut or changed in the middle, or with a record that does not belong there."""
    for record in reply.content.config_records.values():
        for key, value in list(record.items()):
            if isinstance(value, bytes) and value:
                middle = len(value) // 2
                changed = bytes([value[middle] ^ 0xFF])
                record[key] = value[:middle] if fault == "cut" else value[:middle] + changed + value[middle + 1 :]
    if fault == "extra":
        reply.content["metrics"] = ConfigRecord({"loss": 0.5})
    return reply
