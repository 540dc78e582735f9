"""A client's secure sum between two messages: in memory, or in a file where every message starts a new process.

Flower's SuperNodes run each message in a process of its own, so the secrets of a round must wait on the disk. Whoever
answers takes the file away first, by renaming it: two processes that are asked at once cannot both answer, so no second
list of survivors is ever answered. The file is readable by its owner alone and gone when the round is over.

>>> import pathlib, tempfile
>>> from tacit.federated.secure_sum.client import SumClient
>>> from tacit.federated.secure_sum.wire import SumRound
>>> about = SumRound(1, bytes(32), clients=3, fewest=2, degree=2, threshold=2, length=2, bits=16)
>>> store = KeptSums(pathlib.Path(tempfile.mkdtemp()) / "me.db")
>>> client = SumClient(1, about)
>>> sent = client.keys()
>>> store.keep("run", client)
>>> again = store.take("run")
>>> again.about == about, store.take("run") is None
(True, True)
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tacit import disk
from tacit.federated.errors import needs_flower
from tacit.federated.secure_sum.client import SumClient
from tacit.federated.secure_sum.keys import ClientIdentity, KeyPair, Register
from tacit.federated.secure_sum.wire import Phase, SumRound

FORGOTTEN = 86400.0  # seconds after which an open sum is deleted: no round takes a day


class KeptSums:
    """The open sums of one client: `keep` one after an answer, `take` it for the next; what is taken is gone."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._held: dict[str, SumClient] = {}

    def keep(self, run: str, client: SumClient) -> None:
        """Keep a sum until the next message of its run; an older one of the same run is forgotten."""
        if self._path is None:
            self._held[run] = client
            return
        place = self._place(run)
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_suffix(f".{secrets.token_hex(8)}")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(json.dumps(_written(client)))
        disk.sync_file(fresh)
        os.replace(fresh, place)
        self._sweep(place.parent)

    def take(self, run: str, identity: ClientIdentity | None = None, register: Register | None = None) -> SumClient | None:
        """The sum of a run, which is no longer kept; None where there is none, or another process has taken it.

        Identity and register are not written beside it; whoever takes a signed sum gives them again.
        """
        if self._path is None:
            return self._held.pop(run, None)
        place = self._place(run)
        mine = place.with_suffix(f".{secrets.token_hex(8)}")
        try:
            os.rename(place, mine)
        except FileNotFoundError:
            return None
        # A crash of the machine must not bring back what is answered next: a sum that was taken twice gives two answers.
        disk.sync_folder(place.parent)
        try:
            return _read(json.loads(mine.read_text(encoding="ascii")), identity, register)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(mine)

    @staticmethod
    def _sweep(folder: Path) -> None:
        """Forget sums that nobody came back for: of rounds that were given up, and of processes that died."""
        for path in folder.iterdir():
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > FORGOTTEN:
                    os.unlink(path)

    def _place(self, run: str) -> Path:
        assert self._path is not None
        return Path(f"{self._path}.sums") / f"{hashlib.sha256(run.encode()).hexdigest()}.open"


def _written(client: SumClient) -> dict[str, Any]:
    """Everything that a sum holds, whatever it is called; a value of a kind that is not known here is refused."""
    return {name: _as_text(value) for name, value in vars(client).items() if name not in ("_identity", "_register")}


def _as_text(value: Any) -> Any:
    """A value as JSON, with its kind. The order matters: a phase is a number, too."""
    match value:
        case None | bool():
            return value
        case Phase():
            return {"phase": int(value)}
        case int():
            return {"number": str(value)}
        case bytes():
            return {"bytes": value.hex()}
        case tuple() | frozenset():
            kind = "tuple" if isinstance(value, tuple) else "set"
            return {kind: [_as_text(part) for part in (value if kind == "tuple" else sorted(value))]}
        case dict():
            return {"map": [[_as_text(key), _as_text(held)] for key, held in value.items()]}
        case KeyPair():
            return {"key": value._private.private_bytes_raw().hex()}
        case SumRound():
            return {"round": [_as_text(getattr(value, name)) for name in SumRound.__dataclass_fields__]}
    raise TypeError("a secure sum holds something that is not kept on the disk")


def _from_text(held: Any) -> Any:
    """The value that `_as_text` wrote."""
    if held is None or isinstance(held, bool):
        return held
    ((kind, value),) = held.items()
    match kind:
        case "phase":
            return Phase(value)
        case "number":
            return int(value)
        case "bytes":
            return bytes.fromhex(value)
        case "tuple":
            return tuple(map(_from_text, value))
        case "set":
            return frozenset(map(_from_text, value))
        case "map":
            return {_from_text(key): _from_text(part) for key, part in value}
        case "round":
            return SumRound(*map(_from_text, value))
    with needs_flower():
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    return KeyPair(X25519PrivateKey.from_private_bytes(bytes.fromhex(value)))


def _read(record: dict[str, Any], identity: ClientIdentity | None, register: Register | None) -> SumClient:
    client = SumClient.__new__(SumClient)  # no new secrets: those of the file go on
    vars(client).update({name: _from_text(value) for name, value in record.items()})
    client._identity, client._register = identity, register
    return client
