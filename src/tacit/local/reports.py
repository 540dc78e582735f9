"""Reports on the wire: one report as bytes, and many as an Arrow record batch whose schema carries the protocol.

A report is one byte of version, the protocol's 8 bytes of fingerprint, a random nonce of 8 bytes and the randomised value in the
randomiser's fixed width. In a batch the nonce is a column of its own, or gone once the reports were shuffled. What is read may be
garbled: rows that are no reports are counted and dropped. They never raise, and nothing of them is logged.

>>> from tacit.local import frequencies
>>> protocol = frequencies(["yes", "no"], epsilon=1)
>>> sent = to_report(protocol, "yes")
>>> len(sent), read_reports(protocol, [sent, b"garbled", sent]).dropped
(18, {'malformed': 1, 'repeated': 1})
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit import noise
from tacit.errors import ParameterError
from tacit.local.protocol import VERSION, Protocol
from tacit.local.randomiser import Reports

PROTOCOL = b"tacit.protocol"  # key of the protocol's text in a batch's schema
NONCE = 8
HEAD = 1 + 8 + NONCE  # bytes before the payload: version, fingerprint, nonce


@dataclass(frozen=True)
class Read:
    """What was read: the reports, their nonces where they had any, a digest where not, and how many rows were dropped and why."""

    reports: Reports
    nonces: NDArray[np.uint64] | None
    digest: bytes
    dropped: dict[str, int] = field(default_factory=dict)


def to_report(protocol: Protocol, value: object) -> bytes:
    """One person's report of a value, as bytes; draws once. Nothing is paid here: `Client` keeps the person's book."""
    drawn = protocol.randomiser.privatise(np.array([protocol.place(value)]))
    return sealed(protocol, protocol.randomiser.to_bytes(drawn)[0].tobytes())


def sealed(protocol: Protocol, payload: bytes) -> bytes:
    """A randomised value with version, fingerprint and a fresh nonce in front."""
    return bytes([VERSION]) + protocol.fingerprint + noise.words(1).astype("<u8").tobytes() + payload


def to_batch(protocol: Protocol, values: Iterable[object], *, nonces: bool = True) -> pa.RecordBatch:
    """Reports of many values as one batch.

    >>> from tacit.local import frequencies
    >>> to_batch(frequencies(1000, epsilon=1), [3, 5, 7]).num_rows
    3
    """
    return as_batch(protocol, protocol.randomiser.privatise(protocol.places(values)), nonces=nonces)


def as_batch(protocol: Protocol, reports: Reports, *, nonces: bool = True) -> pa.RecordBatch:
    """Reports that were drawn already, as one batch."""
    rows = protocol.randomiser.to_bytes(reports)
    columns = {"report": _binary(rows)}
    if nonces:
        columns = {"nonce": _binary(noise.words(len(rows)).astype("<u8").view(np.uint8).reshape(-1, NONCE)), **columns}
    return pa.RecordBatch.from_pydict(columns, schema=schema(protocol, nonces=nonces))


def schema(protocol: Protocol, *, nonces: bool = True) -> pa.Schema:
    """The schema of batches of this protocol."""
    fields = [("nonce", pa.binary(NONCE))] if nonces else []
    return pa.schema([*fields, ("report", pa.binary(protocol.randomiser.width))], metadata={PROTOCOL: protocol.to_json().encode()})


def _binary(rows: NDArray[np.uint8]) -> pa.Array:
    whole = np.ascontiguousarray(rows)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(rows.shape[1]), len(rows), [None, pa.py_buffer(whole)])


def _rows(column: pa.Array, width: int) -> NDArray[np.uint8]:
    """The bytes of a column of fixed width."""
    buffer = column.buffers()[1]
    if buffer is None:
        return np.empty((0, width), dtype=np.uint8)
    flat = np.frombuffer(buffer, dtype=np.uint8)
    return flat[column.offset * width : (column.offset + len(column)) * width].reshape(len(column), width)


def read_batch(protocol: Protocol, batch: pa.RecordBatch) -> Read:
    """The reports of a batch of this protocol; anything else of it is dropped and counted."""
    width, known = protocol.randomiser.width, batch.schema.metadata or {}
    nothing = Read(protocol.randomiser.from_bytes(np.empty((0, width), dtype=np.uint8))[0], None, b"")
    if known.get(PROTOCOL) != protocol.to_json().encode():
        return _dropping(nothing, "foreign", batch.num_rows)
    try:
        types = {field.name: field.type for field in batch.schema}
        batch.validate(full=True)  # what came over a network may claim more rows than it has bytes
    except (pa.ArrowException, ValueError):  # names that are no text are a ValueError
        return _dropping(nothing, "malformed", batch.num_rows)
    right = {"report": pa.binary(width), "nonce": pa.binary(NONCE)}
    if "report" not in types or len(batch.schema) != len(types) or any(right.get(name) != kind for name, kind in types.items()):
        return _dropping(nothing, "malformed", batch.num_rows)
    column = batch.column("report")
    rows = _rows(column, width)
    nonces = _rows(batch.column("nonce"), NONCE) if len(types) == 2 else None
    present = np.ones(len(rows), dtype=np.bool_)
    for part in batch.columns:
        if part.null_count:
            present &= ~np.asarray(part.is_null())
    if nonces is None:
        digest = hashlib.sha256(b"%d reports of %d\n" % (len(rows), width) + np.packbits(present).tobytes() + rows.tobytes())
        return _checked(protocol, rows, None, present, digest.digest(), {})
    return _checked(protocol, rows, np.ascontiguousarray(nonces).view("<u8").ravel(), present, b"", {})


def read_reports(protocol: Protocol, reports: Iterable[bytes]) -> Read:
    """The reports among many strings of bytes."""
    head, length = bytes([VERSION]) + protocol.fingerprint, HEAD + protocol.randomiser.width
    kept, dropped = [], {"malformed": 0, "foreign": 0}
    for one in reports:
        told = bytes(one) if isinstance(one, bytes | bytearray | memoryview) else b""
        if len(told) != length or told[:1] != head[:1]:
            dropped["malformed"] += 1
        elif told[:9] != head:
            dropped["foreign"] += 1
        else:
            kept.append(told)
    rows = np.frombuffer(b"".join(kept), dtype=np.uint8).reshape(len(kept), length)
    nonces = np.ascontiguousarray(rows[:, 9:HEAD]).view("<u8").ravel()
    return _checked(protocol, np.ascontiguousarray(rows[:, HEAD:]), nonces, np.ones(len(kept), dtype=np.bool_), b"", dropped)


def read_stream(source: str | Path | bytes | pa.Buffer) -> Iterator[pa.RecordBatch | None]:
    """The batches of an Arrow stream or file, a path or its bytes; None where the rest cannot be read.

    >>> from tacit.local import frequencies
    >>> list(read_stream(b"garbled"))
    [None]
    """
    try:
        with pa.memory_map(str(source)) if isinstance(source, str | Path) else pa.BufferReader(source) as opened:
            if opened.read(6) == b"ARROW1":
                reader = pa.ipc.open_file(opened)
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)
            else:
                opened.seek(0)
                yield from pa.ipc.open_stream(opened)
    except (pa.ArrowException, OSError, ValueError):
        yield None


def batch_sizes(source: str | Path) -> list[int]:
    """How many reports each batch of an Arrow stream or file has, of those that can be read.

    >>> batch_sizes("no such file")
    []
    """
    return [batch.num_rows for batch in read_stream(source) if batch is not None]


def _checked(
    protocol: Protocol, rows: NDArray[np.uint8], nonces: NDArray[np.uint64] | None, present: NDArray[np.bool_], digest: bytes,
    dropped: dict[str, int],
) -> Read:  # fmt: skip
    reports, whole = protocol.randomiser.from_bytes(rows)
    good = whole & present
    dropped = {**dropped, "malformed": dropped.get("malformed", 0) + int(len(rows) - np.count_nonzero(good))}
    if nonces is not None:
        first = np.zeros(len(rows), dtype=np.bool_)
        places = np.flatnonzero(good)
        first[places[np.unique(nonces[places], return_index=True)[1]]] = True
        dropped["repeated"] = int(np.count_nonzero(good) - np.count_nonzero(first))
        good, nonces = first, nonces[first]
    return Read(reports[good], nonces, digest, {why: number for why, number in dropped.items() if number})


def _dropping(read: Read, why: str, rows: int) -> Read:
    return Read(read.reports, read.nonces, read.digest, {why: rows} if rows else {})


def protocol_of(batch: pa.RecordBatch | pa.Schema) -> Protocol:
    """The protocol that a batch or schema carries."""
    found = (batch if isinstance(batch, pa.Schema) else batch.schema).metadata or {}
    if PROTOCOL not in found:
        raise ParameterError("the batch carries no protocol; it was not written by `to_batch`")
    return Protocol.from_json(found[PROTOCOL])
