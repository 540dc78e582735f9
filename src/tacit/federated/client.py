"""A Flower client that lets out one vector of integers a round, and only what its policy allows.

`client_app(train, policy=...)` takes the training function of a Flower app, `(Message, Context) -> Message`, as it is.
It gets the arrays it expects and may answer with metrics; from its answer the arrays named "arrays" are read, and from
"num-examples" the weight, where the plan has weights. Everything else stays on the device: metrics, extra records,
error texts. A request that is refused gets one constant answer; the reason is kept in `app.tacit.last_refusal`.

>>> from tacit.federated import Policy, client_app, on_weights
>>> policy = Policy("p", budget="eps=8, delta=1e-5", expires="2099-01-01", clip=1, noise=0.5, trust=("central",),
...                 workloads=("any",), code=("any",))
>>> app = client_app(on_weights(lambda arrays, context: {n: a + 1 for n, a in arrays.items()}), policy=policy, book=None)
>>> type(app).__name__
'ClientApp'

What a device cannot promise: that its clock, its reachability and its time of answering say nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError, Refusal
from tacit.federated import central
from tacit.federated.analytics import vector
from tacit.federated.device import Device
from tacit.federated.errors import FederatedError, needs_flower
from tacit.federated.evaluation import evaluated
from tacit.federated.kept import KeptSums
from tacit.federated.messages import ANSWER, PHASES, RECORD, REFUSED, Ask, Layout
from tacit.federated.plan import FederatedPlan
from tacit.federated.policy import ClientBook, Policy, code_hash
from tacit.federated.secure_sum.keys import ClientIdentity, Register
from tacit.federated.words import at_level

with needs_flower():
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp

Arrays = dict[str, NDArray[Any]]
BOOK = "tacit-book"  # the name of the book's path in a node's configuration
IDENTITY, REGISTER = "tacit-identity", "tacit-register"  # those of the identity and the register


@dataclass(frozen=True)
class OnWeights:
    """Training that takes and gives named arrays, and perhaps the number of examples; made by `on_weights`."""

    #: Takes arrays and a context; what is made of a Flower function also takes its message and configuration.
    function: Callable[..., Any]


def on_weights(function: Callable[[Arrays, Context], Any]) -> OnWeights:
    """Training without Flower's messages: `function(arrays, context)` gives new arrays, or (arrays, examples)."""
    return OnWeights(function)


def client_app(
    train: Callable[[Message, Context], Message] | OnWeights | None = None, *, policy: Policy | str | Path,
    answer: Callable[[Mapping[str, Any], Context], Any] | None = None,
    evaluate: Callable[[Arrays, Context], tuple[float, float]] | None = None,
    book: str | Path | bool | None = True, signer: bytes | None = None,
    identity: Callable[[Context], ClientIdentity] | ClientIdentity | None = None, register: Register | str | Path | None = None,
) -> ClientApp:
    """A Flower app that answers the rounds of `tacit.federated.Private` under a policy, and nothing else.

    `answer(question, context)` gives this client's own value for a question of federated analytics, whose "name" says
    which; `evaluate(arrays, context)` gives the loss and the accuracy of a model on this client's held-out data. What is
    left out is not answered. `policy` is a policy or its file; with `signer`, the public key this device trusts, it must
    be signed. `book` is the file of this client's book; by default its path stands in the node's configuration as
    "tacit-book". None keeps books in memory, for simulations. Where the policy names a `register` of identities, it is
    given here or its path stands in the configuration as "tacit-register", and the file of this client's `identity`, 32
    secret bytes in hex, as "tacit-identity".
    """
    known = policy if isinstance(policy, Policy) else Policy.load(policy, signer=signer)
    if signer is not None:
        known.verify(signer)
    if isinstance(book, bool) and not book:
        raise ParameterError("book must be a path, None for simulations, or left out")
    held = register if isinstance(register, Register) or register is None else Register.load(register)
    node = _Node(train, known, book, answer, evaluate, identity, held)
    app = ClientApp()
    for phase in PHASES:
        app.train(f"tacit_{phase}")(node.answer)
    vars(app)["tacit"] = node
    return app


def _from_flower(train: Callable[[Message, Context], Message]) -> OnWeights:
    """Training on arrays from a Flower function on messages. Of its reply, arrays and the number of examples are read."""

    def run(arrays: Arrays, context: Context, message: Message | None = None, config: Mapping[str, Any] | None = None) -> Any:
        assert message is not None
        record = ArrayRecord({name: _array(array) for name, array in arrays.items()})
        message.content = RecordDict({"arrays": record, "config": ConfigRecord(dict(config or {}))})
        content = train(message, context).content
        found = {name: _numbers(array) for name, array in content.array_records["arrays"].items()}
        examples = [metrics["num-examples"] for metrics in content.metric_records.values() if "num-examples" in metrics]
        return found, examples[0] if examples else 0

    return OnWeights(run)


@lru_cache(maxsize=256)
def _header(kind: str, shape: tuple[int, ...]) -> bytes:
    """The first bytes of the file that Flower puts an array into; they depend on its type and shape alone."""
    room = BytesIO()
    np.lib.format.write_array_header_1_0(room, {"descr": kind, "fortran_order": False, "shape": shape})
    return room.getvalue()


def _array(array: NDArray[Any]) -> Array:
    """An array as Flower keeps it, without a file in memory for each: that is half of Flower's own time."""
    return Array(array.dtype.name, array.shape, "numpy.ndarray", _header(array.dtype.str, array.shape) + array.tobytes())


def _numbers(array: Array) -> NDArray[Any]:
    """The numbers of Flower's array; anything unusual goes Flower's own way."""
    try:
        kind, shape = np.dtype(array.dtype), tuple(array.shape)
    except TypeError:
        return array.numpy()
    head = _header(kind.str, shape)
    if array.stype == "numpy.ndarray" and array.data.startswith(head) and kind.kind == "f":
        return np.frombuffer(array.data, dtype=kind, offset=len(head)).reshape(shape)
    return array.numpy()


class _Node:
    """What answers the messages. One object may serve many simulated nodes; each has its own book and sums."""

    def __init__(
        self, train: Callable[..., Any] | OnWeights | None, policy: Policy, book: str | Path | bool | None,
        answer: Callable[..., Any] | None, evaluate: Callable[..., Any] | None,
        identity: Callable[[Context], ClientIdentity] | ClientIdentity | None = None, register: Register | None = None,
    ) -> None:
        self._identity, self._register = identity, register
        self._flower = train is not None and not isinstance(train, OnWeights)
        self.train = train if isinstance(train, OnWeights) or train is None else _from_flower(train)
        self.policy, self._book, self._value, self._evaluate = policy, book, answer, evaluate
        written = [train.function if isinstance(train, OnWeights) else train, answer, evaluate]
        #: One hash for each function that may run: for training, for answers, for evaluation.
        self.code = tuple(None if function is None else code_hash(function) for function in written)
        self._devices: dict[int, Device] = {}
        self._sums: dict[int, KeptSums] = {}
        self.last_refusal: str = ""

    def device(self, context: Context) -> Device:
        """The device of a node."""
        found = self._devices.get(context.node_id)
        if found is None:
            path = context.node_config.get(BOOK) if self._book is True else self._book
            if self._book is True and not isinstance(path, str):
                raise FederatedError(f'this node has no book; set "{BOOK}" in its configuration to the path of a file')
            held = None if path is None or isinstance(path, bool) else ClientBook(str(path), self.policy)
            found = Device(self.policy, held or ClientBook(None, self.policy))
            self._devices[context.node_id] = found
        return found

    def sums(self, context: Context) -> KeptSums:
        """The open secure sums of a node, beside its book."""
        found = self._sums.get(context.node_id)
        if found is None:
            found = self._sums[context.node_id] = KeptSums(self.device(context).book.path)
        return found

    def signing(self, context: Context, plan: FederatedPlan) -> tuple[ClientIdentity | None, Register | None]:
        """What this node signs its keys with, and whose keys it takes; nothing for a plan without a register."""
        if plan.register is None:
            return None, None
        config = context.node_config
        register, identity = self._register, self._identity
        if register is None and isinstance(config.get(REGISTER), str):
            register = Register.load(str(config[REGISTER]))
        if register is None or register.fingerprint != self.policy.register:  # the policy's is the one that was signed
            raise FederatedError(code="federated-register")
        if identity is None and isinstance(config.get(IDENTITY), str):
            identity = ClientIdentity.load(bytes.fromhex(Path(str(config[IDENTITY])).read_text(encoding="ascii").strip()))
        mine = identity if isinstance(identity, ClientIdentity) or identity is None else identity(context)
        if mine is None:
            raise FederatedError(code="federated-identity")
        return mine, register

    def answer(self, message: Message, context: Context) -> Message:
        """One constant word, or bytes of a length that the plan decides."""
        sent = REFUSED
        try:
            ask = Ask.read(dict(message.content.config_records[RECORD]))
            if message.metadata.message_type != f"train.tacit_{ask.phase}":
                raise FederatedError("the type of the message and its phase differ")
            sent = self._answered(ask, message, context)
        except Refusal as refusal:
            # Only what is public is kept: codes and phases, never what training said.
            self.last_refusal = refusal.code or type(refusal).__name__
        except Exception as error:  # a garbled request; nothing of it goes back
            self.last_refusal = type(error).__name__
        return Message(RecordDict({RECORD: ConfigRecord({ANSWER: sent})}), reply_to=message)

    def _answered(self, ask: Ask, message: Message, context: Context) -> bytes:
        plan, device = ask.planned(), self.device(context)
        kind = (plan.question or {}).get("kind")
        code = self.code[0 if kind is None else 2 if kind == "evaluation" else 1]
        if code is None:
            raise FederatedError(code="federated-code")
        device.check(plan, ask.threshold, code)
        if plan.trust == "distributed":
            from tacit.federated.distributed import answered

            return answered(self, ask, plan, context, lambda: self._vector(ask, plan, device, message, context))
        if ask.phase != "vector":
            raise FederatedError("a plan without a secure sum has one phase")
        radius = plan.radius(ask.threshold)
        sent = central.to_lattice(self._vector(ask, plan, device, message, context), radius)
        if plan.trust == "local":
            return central.randomised(sent, plan.noise_multiplier, radius).astype("<i8").tobytes()
        return sent.astype("<i4").tobytes()

    def _vector(
        self, ask: Ask, plan: FederatedPlan, device: Device, message: Message, context: Context
    ) -> NDArray[np.float64]:
        layout = Layout.read(ask.layout)
        before = layout.unpacked(ask.model)
        terms = plan.question
        if terms is not None and terms["kind"] == "words":
            terms = at_level(terms, ask.config, ask.turn)
        if terms is None and layout.size != plan.size:
            raise FederatedError("the model and the plan differ in size")

        def work() -> tuple[NDArray[np.float64], int]:
            if terms is not None and terms["kind"] == "evaluation":
                assert self._evaluate is not None
                return evaluated(terms, self._evaluate(before, context)), 0
            if terms is not None:
                assert self._value is not None
                return vector(terms, self._value({**terms, "name": plan.name}, context), plan.size), 0
            assert self.train is not None
            start = layout.flat(before)
            if self._flower:
                config = {**json.loads(ask.config), "server-round": ask.turn}
                found = self.train.function(before, context, message=message, config=config)
            else:
                found = self.train.function(before, context)
            after, examples = found if isinstance(found, tuple) else (found, 0)
            if plan.trust == "silo":
                if examples != plan.inside:
                    raise FederatedError("the silo's training did not cost what the plan says")
                examples = 0
            return layout.flat(after) - start, int(examples)

        return device.vector(plan, work, run=ask.run, turn=ask.turn, threshold=ask.threshold)
