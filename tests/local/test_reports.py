"""Reports on the wire: the test vectors, a second reader written from the page, and batches that are garbled in every way."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.local.oracles import ALL, supports
from tests.local.wire import VECTORS, fingerprint, supported

from tacit.errors import ParameterError
from tacit.local import (
    Collector,
    Protocol,
    Response,
    as_batch,
    frequencies,
    protocol_of,
    read_batch,
    read_reports,
    sealed,
    to_batch,
    to_report,
)
from tacit.local.reports import HEAD, PROTOCOL, read_stream, schema

VECTOR = json.loads(VECTORS.read_text(encoding="utf-8"))
PROTOCOLS = [Protocol.from_json(v["protocol"]) for v in VECTOR]


@pytest.mark.parametrize("vector", VECTOR, ids=lambda v: json.loads(v["protocol"])["randomiser"]["kind"])
def test_the_vectors(vector: dict[str, Any]) -> None:
    """The committed file, this package and the reader written from the page agree on text, fingerprint, bytes and supports."""
    protocol = Protocol.from_json(vector["protocol"])
    assert protocol.to_json() == vector["protocol"] and protocol.fingerprint.hex() == vector["fingerprint"]
    for one in vector["reports"]:
        read = read_reports(protocol, [bytes.fromhex(one["report"])])
        assert read.dropped == {} and read.nonces is not None and read.nonces.tolist() == [one["nonce"]]
        assert protocol.randomiser.to_bytes(read.reports)[0].tobytes().hex() == one["payload"]
        assert np.flatnonzero(supports(protocol.randomiser, read.reports) == 1).tolist() == one["supports"]
        assert supported(json.loads(vector["protocol"]), bytes.fromhex(one["payload"])) == one["supports"]
    (batch,) = read_stream(base64.b64decode(vector["stream"]))
    assert batch is not None and protocol_of(batch) == protocol
    assert [p.hex() for p in batch.column("report").to_pylist()] == [one["payload"] for one in vector["reports"]]


def test_the_vectors_hold_every_randomiser() -> None:
    assert {p.randomiser.kind for p in PROTOCOLS} == {kind.kind for kind in ALL}


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: p.randomiser.kind)
def test_every_short_payload_is_a_report_or_none_as_the_page_says(protocol: Protocol) -> None:
    """All bytes, or all pairs of bytes, or a thousand random rows."""
    width, text = protocol.randomiser.width, json.loads(protocol.to_json())
    if width == 1:
        rows = np.arange(256, dtype=np.uint8)[:, None]
    else:
        rows = np.random.default_rng(1).integers(0, 256, (400, width), dtype=np.uint8)
        rows[200:, -1] &= 0xE0 if width == 2 and protocol.randomiser.kind != "response" else 0x01
    _, whole = protocol.randomiser.from_bytes(rows)
    for row, good in zip(rows, whole, strict=True):
        told = supported(text, row.tobytes())
        assert (told is not None) == bool(good)
        if told is not None:
            again = protocol.randomiser.from_bytes(row[None, :])[0]
            assert np.flatnonzero(supports(protocol.randomiser, again) == 1).tolist() == told


# --- batches that are wrong ---


def garbled(protocol: Protocol, columns: dict[str, Any], *, metadata: Any = None, names: list[str] | None = None) -> pa.RecordBatch:
    metadata = {PROTOCOL: protocol.to_json().encode()} if metadata is None else metadata
    fields = [(name, a.type) for name, a in columns.items()]
    if names:
        return pa.RecordBatch.from_arrays(
            list(columns.values()), schema=pa.schema(list(zip(names, [t for _, t in fields], strict=True)), metadata=metadata)
        )
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields, metadata=metadata))


FEW = frequencies(["a", "b", "c"], epsilon=1)
ONE, NONCE = pa.array([b"\0", b"\1"], pa.binary(1)), pa.array([b"12345678", b"abcdefgh"], pa.binary(8))


@pytest.mark.parametrize(
    ("batch", "dropped"),
    [
        (garbled(FEW, {"report": ONE}), {}),
        (garbled(FEW, {"report": ONE, "nonce": NONCE}), {}),
        (garbled(FEW, {"nonce": NONCE, "report": ONE}), {}),
        (garbled(FEW, {"report": ONE}, metadata={}), {"foreign": 2}),
        (garbled(FEW, {"report": ONE}, metadata={PROTOCOL: b"\xff"}), {"foreign": 2}),
        (garbled(FEW, {"report": ONE}, metadata={PROTOCOL: frequencies(["a", "b", "d"], epsilon=1).to_json().encode()}), {"foreign": 2}),
        (garbled(FEW, {"nonce": NONCE}), {"malformed": 2}),
        (garbled(FEW, {"other": ONE}), {"malformed": 2}),
        (garbled(FEW, {"report": ONE, "other": ONE}), {"malformed": 2}),
        (garbled(FEW, {"report": ONE, "second": ONE}, names=["report", "report"]), {"malformed": 2}),
        (garbled(FEW, {"report": ONE, "a": NONCE, "b": NONCE}, names=["report", "nonce", "nonce"]), {"malformed": 2}),
        (garbled(FEW, {"report": pa.array([b"\0", b"\1"])}), {"malformed": 2}),
        (garbled(FEW, {"report": pa.array([0, 1])}), {"malformed": 2}),
        (garbled(FEW, {"report": pa.array([b"ab", b"cd"], pa.binary(2))}), {"malformed": 2}),
        (garbled(FEW, {"report": pa.array([b"", b""], pa.binary(0))}), {"malformed": 2}),
        (garbled(FEW, {"report": ONE.dictionary_encode()}), {"malformed": 2}),
        (garbled(FEW, {"report": ONE, "nonce": pa.array([1, 2], pa.uint64())}), {"malformed": 2}),
        (garbled(FEW, {"report": pa.array([b"\0", None], pa.binary(1))}), {"malformed": 1}),
        (garbled(FEW, {"report": ONE, "nonce": pa.array([b"12345678", None], pa.binary(8))}), {"malformed": 1}),
        (garbled(FEW, {"report": pa.array([b"\0", b"\3"], pa.binary(1))}), {"malformed": 1}),
        (garbled(FEW, {"report": pa.nulls(2, pa.binary(1))}), {"malformed": 2}),
        (garbled(FEW, {"report": ONE, "nonce": pa.array([b"12345678"] * 2, pa.binary(8))}), {"repeated": 1}),
        (garbled(FEW, {"report": ONE[:0]}), {}),
        (pa.RecordBatch.from_arrays([], schema=pa.schema([], metadata={PROTOCOL: FEW.to_json().encode()})), {}),
    ],
)
def test_wrong_batches_are_counted(batch: pa.RecordBatch, dropped: dict[str, int]) -> None:
    read = read_batch(FEW, batch)
    assert read.dropped == dropped and len(read.reports) == batch.num_rows - sum(dropped.values())
    assert Collector(FEW).ingest(batch).dropped == dropped


def test_a_batch_that_claims_more_rows_than_it_has_bytes() -> None:
    honest = stream_of(FEW, [to_batch(FEW, ["a"] * 777)])
    lengths = honest.count((777).to_bytes(8, "little"))
    assert lengths >= 3  # of the batch and of its two columns
    for claimed in (778, 2**40, 2**63 - 1, 2**64 - 1):
        lied = honest.replace((777).to_bytes(8, "little"), claimed.to_bytes(8, "little"))
        assert Collector(FEW).ingest_stream(lied).n == 0


@pytest.mark.parametrize("kind", ALL)
def test_sliced_and_split_batches_hold_the_same_reports(kind: Any) -> None:
    protocol = Protocol(20, kind(20, 1))
    batch = to_batch(protocol, np.arange(100) % 20)
    whole = read_batch(protocol, batch)
    parts = [read_batch(protocol, batch.slice(k, 7)) for k in range(0, 100, 7)]
    rows = np.concatenate([protocol.randomiser.to_bytes(p.reports) for p in parts])
    assert (rows == protocol.randomiser.to_bytes(whole.reports)).all()
    assert (
        np.concatenate([p.nonces for p in parts if p.nonces is not None]).tolist()
        == (whole.nonces if whole.nonces is not None else []).tolist()
    )
    hidden = pa.RecordBatch.from_arrays(
        [pa.array([None if k % 3 else v for k, v in enumerate(c.to_pylist())], c.type) for c in batch.columns], schema=batch.schema
    )
    assert read_batch(protocol, hidden.slice(5, 90)).dropped == {"malformed": 60}


def test_single_reports() -> None:
    sent = to_report(FEW, "b")
    assert len(sent) == HEAD + 1 and sent[:9] == bytes([1]) + fingerprint(FEW.to_json())
    foreign = to_report(frequencies(["a", "b", "x"], epsilon=1), "a")
    given_: list[Any] = [
        sent,
        bytearray(to_report(FEW, "a")),
        memoryview(to_report(FEW, "c")),
        sent,
        b"",
        sent[:-1],
        sent + b"\0",
        b"\2" + sent[1:],
        foreign,
        sent[:HEAD] + b"\3",
        None,
        1,
        "text",
        memoryview(np.zeros((3, 6), dtype=np.uint8)),
        memoryview(np.zeros(HEAD + 1, dtype=np.uint32)),
        [sent],
    ]
    read = read_reports(FEW, given_)
    assert len(read.reports) == 3 and read.dropped == {"malformed": 11, "foreign": 1, "repeated": 1}
    assert read_reports(FEW, []).dropped == {}


def test_nonces_are_fresh_and_uniform() -> None:
    """64 bits: each of them is set in half of 2,000 reports, within 6 deviations; none comes twice (chance 1e-13)."""
    nonces = [int.from_bytes(sealed(FEW, b"\0")[9:HEAD], "little") for _ in range(2000)]
    assert len(set(nonces)) == 2000
    for bit in range(64):
        assert abs(sum(n >> bit & 1 for n in nonces) - 1000) < 6 * math.sqrt(500)
    batch = to_batch(FEW, ["a"] * 2000)
    assert len(set(batch.column("nonce").to_pylist())) == 2000 and to_batch(FEW, ["a"], nonces=False).schema == schema(FEW, nonces=False)


@given(st.lists(st.binary(max_size=40), max_size=8))
@example([b"\1" + FEW.fingerprint + bytes(9)])
def test_fuzzed_reports_raise_nothing(rows: list[bytes]) -> None:
    for protocol in PROTOCOLS[:3]:
        read = read_reports(protocol, rows)
        assert len(read.reports) + sum(read.dropped.values()) == len(rows)


@given(st.sampled_from(PROTOCOLS), st.data())
def test_fuzzed_batches_raise_nothing(protocol: Protocol, data: st.DataObject) -> None:
    """Right schema, any bytes: every row is a report or dropped, and what is a report by the page is one here."""
    width = protocol.randomiser.width
    rows = data.draw(st.lists(st.binary(min_size=width, max_size=width) | st.none(), max_size=10))
    nonces = data.draw(st.none() | st.just([bytes(8)] * len(rows)) | st.just([bytes([k]) * 8 for k in range(len(rows))]))
    columns = {"report": pa.array(rows, pa.binary(width))}
    if nonces is not None:
        columns["nonce"] = pa.array(nonces, pa.binary(8))
    read = read_batch(protocol, garbled(protocol, columns))
    right = sum(row is not None and supported(json.loads(protocol.to_json()), row) is not None for row in rows)
    assert len(read.reports) + sum(read.dropped.values()) == len(rows)
    assert len(read.reports) == (right if nonces is None or len(set(nonces)) > 1 else min(right, 1))
    Collector(protocol).ingest(garbled(protocol, columns))


def stream_of(protocol: Protocol, batches: list[pa.RecordBatch], *, file: bool = False) -> bytes:
    sink = pa.BufferOutputStream()
    with (pa.ipc.new_file if file else pa.ipc.new_stream)(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("file", [False, True])
def test_streams_and_files_are_read_until_they_are_garbled(file: bool, tmp_path: Any) -> None:
    batches = [to_batch(FEW, ["a"] * 50) for _ in range(4)]
    whole = stream_of(FEW, batches, file=file)
    assert Collector(FEW).ingest_stream(whole).n == 200
    (tmp_path / "in.arrow").write_bytes(whole)
    assert Collector(FEW).ingest_stream(tmp_path / "in.arrow").n == 200
    for length in range(0, len(whole), 97):
        cut = Collector(FEW).ingest_stream(whole[:length])
        assert cut.n % 50 == 0 and cut.n <= 200 and set(cut.dropped) <= {"unreadable"}
    assert Collector(FEW).ingest_stream(tmp_path / "none.arrow").dropped == {"unreadable": 1}


@pytest.mark.parametrize("file", [False, True])
def test_streams_with_flipped_bytes_raise_nothing(file: bool) -> None:
    """Each of 400 places gets another byte: reports are counted or dropped, and never more than were sent."""
    whole = bytearray(stream_of(FEW, [to_batch(FEW, ["a"] * 20), to_batch(FEW, ["b"] * 20)], file=file))
    chosen = np.random.default_rng(3)
    for place in range(0, len(whole), max(1, len(whole) // 400)):
        changed = bytearray(whole)
        changed[place] ^= int(chosen.integers(1, 256))
        assert Collector(FEW).ingest_stream(bytes(changed)).n <= 40


def fuzzed(honest: bytes, chosen: np.random.Generator) -> bytes:
    """Honest bytes with some flipped, cut off, doubled, moved or made up; sometimes none."""
    given_, kind = bytearray(honest), int(chosen.integers(8))
    place, size = int(chosen.integers(len(honest))), int(chosen.integers(1, 17))
    if kind < 3:
        for at in chosen.integers(0, len(honest), size).tolist():
            given_[at] ^= int(chosen.integers(1, 256))
    elif kind == 3:
        del given_[place:]
    elif kind == 4:
        given_[place:place] = given_[place : place + size]
    elif kind == 5:
        del given_[place : place + size]
    elif kind == 6:
        given_[place : place + size] = bytes(chosen.integers(0, 256, size, dtype=np.uint8))
    else:
        given_[place : place + 8] = int(chosen.choice(EXTREMES)).to_bytes(8, "little", signed=True)
    return bytes(given_)


EXTREMES = np.array([0, 1, -1, 2**31 - 1, 2**31, 2**32, 2**40, 2**63 - 1, -(2**63)])
MANY = [pytest.param(1000, id="1,000"), pytest.param(1_000_000, id="1,000,000", marks=pytest.mark.slow)]


@pytest.mark.parametrize("many", MANY)
def test_so_many_fuzzed_reports_raise_nothing(many: int) -> None:
    """Shared out over all randomisers: each is a report or is counted as dropped, and what is kept was a whole report."""
    chosen, total = np.random.default_rng(11), 0
    for protocol in PROTOCOLS:
        honest = [to_report(protocol, value) for value in list(protocol.labels)[:4]]
        collector, left = Collector(protocol), many // len(PROTOCOLS)
        while left:
            some = [fuzzed(honest[k % len(honest)], chosen) for k in range(min(left, 5000))]
            before = collector.n + sum(collector.dropped.values())
            collector.ingest(some)
            assert collector.n + sum(collector.dropped.values()) - before == len(some)
            left -= len(some)
            total += len(some)
        assert set(collector.dropped) <= {"malformed", "foreign", "repeated"} and 0 < collector.n < many // len(PROTOCOLS)
    assert total == many // len(PROTOCOLS) * len(PROTOCOLS)


@pytest.mark.parametrize("many", MANY)
def test_so_many_fuzzed_batches_raise_nothing(many: int) -> None:
    """Arrow streams and files of two batches, garbled, shared out over all randomisers: what is counted is never more than was sent."""
    chosen = np.random.default_rng(12)
    for protocol in PROTOCOLS:
        places = list(protocol.labels)[:5]
        honest = [stream_of(protocol, [to_batch(protocol, places, nonces=k > 1), to_batch(protocol, places, nonces=k > 1)], file=k % 2 == 1)
                  for k in range(4)]  # fmt: skip
        collectors = [Collector(protocol, nonces=k > 1) for k in range(4)]
        for k in range(many // len(PROTOCOLS)):
            before = collectors[k % 4].n
            collectors[k % 4].ingest_stream(fuzzed(honest[k % 4], chosen))
            assert before <= collectors[k % 4].n <= before + 4 * len(places)
        for collector in collectors:
            assert set(collector.dropped) <= {"unreadable", "malformed", "foreign", "repeated", "mixed"}
            assert many < 10**5 or (collector.n > 0 and len(collector.dropped) >= 4)


def test_a_batch_without_a_protocol_is_refused_in_words() -> None:
    with pytest.raises(ParameterError, match="no protocol"):
        protocol_of(pa.RecordBatch.from_pydict({"a": [1]}))
    drawn = Response(3, 1).privatise([0, 1])
    assert protocol_of(as_batch(FEW, drawn)) == FEW == protocol_of(schema(FEW))
