"""Models as ONNX files: read back by a reader that shares no code with the writer, worked out in numpy, and run by onnxruntime."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest

from tacit.release.kinds.model_card import applied
from tacit.release.kinds.model_onnx import onnx_file, varint

RECORD: dict[str, Any] = {
    "label": "again", "positive": "yes", "other": "no", "intercept": -0.3, "inputs": [],
    "columns": [
        {"column": "age", "low": 0, "high": 100}, {"column": "ward", "categories": ["surgery", "m\u00e9decine"]},
        {"column": "floor", "categories": [1, 2**60 + 1]}, {"column": "dose", "categories": [0.5, 2]},
        {"column": "old", "categories": [True, False]}, {"column": "same", "low": 3, "high": 3},
        # names that the file itself would like to use
        {"column": "chance", "low": -1, "high": 1}, {"column": "value", "low": 0, "high": 1},
        {"column": "constant", "categories": ["a", "b"]},
    ],
    "weights": [1.0, 2, -3, 0.5, 0.25, -0.125, 4, 1e-3, -2, 1.5, 0.75, -0.2, 0.3, 0.1],
}  # fmt: skip
NAMES = [one["column"] for one in RECORD["columns"]]
ROWS: list[dict[str, Any]] = [dict(zip(NAMES, row, strict=True)) for row in [
    (50.0, "surgery", 1, 0.5, True, 3.0, 0.0, 0.2, "a"),
    (1e308, "m\u00e9decine", 2**60 + 1, 2.0, False, 9.0, -5.0, 1.0, "b"),
    (-math.inf, "elsewhere", 2**60, 7.0, True, 0.0, 1.0, 0.0, "c"),
    (None, "surgery", 1, 2.0, False, 3.0, 0.3, None, "a"),
]]  # fmt: skip
TYPES: dict[int, Any] = {7: np.int64, 8: object, 9: np.bool_, 11: np.float64}


def fields(data: bytes) -> dict[int, list[Any]]:
    """The fields of a message: whole numbers, and bytes of what has a length."""
    found: dict[int, list[Any]] = {}
    at = 0

    def number() -> int:
        nonlocal at
        value, shift = 0, 0
        while True:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            value: Any = number()
        else:
            assert key & 7 == 2
            size = number()
            value, at = data[at : at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def worked_out(file: bytes, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the graph answers, operator by operator, by the definitions of ONNX."""
    graph = fields(fields(file)[7][0])
    values = dict(given)
    for one in graph[5]:
        held = fields(one)
        kind, shape = held[2][0], held[1]
        if kind == 8:
            flat = np.array([text.decode() for text in held[6]], dtype=object)
        else:
            size = {7: "q", 9: "?", 11: "d"}[kind]
            flat = np.array([x for (x,) in struct.iter_unpack("<" + size, held[9][0])], dtype=TYPES[kind])
        values[held[8][0].decode()] = flat.reshape(shape)
    does = {
        "IsNaN": np.isnan, "Where": np.where, "Max": np.maximum, "Min": np.minimum, "Sub": np.subtract, "Div": np.divide,
        "Equal": lambda x, y: np.asarray(x == y), "MatMul": np.matmul, "Add": np.add, "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "GreaterOrEqual": np.greater_equal,
    }  # fmt: skip
    for one in graph[1]:
        held = fields(one)
        inputs, (output,), (operator,) = ([x.decode() for x in held[place]] for place in (1, 2, 4))
        attributes = {fields(a)[1][0].decode(): fields(a)[3][0] for a in held.get(5, [])}
        assert output not in values, "a name is made twice"
        if operator == "Cast":
            values[output] = values[inputs[0]].astype(TYPES[attributes["to"]])
        elif operator == "Concat":
            values[output] = np.concatenate([values[x] for x in inputs], axis=attributes["axis"])
        else:
            values[output] = does[operator](*(values[x] for x in inputs))
    return {name: values[name] for name in (fields(one)[1][0].decode() for one in graph[12])}


def columns(file: bytes) -> dict[str, np.ndarray]:
    """The rows as the file's inputs want them."""
    found = {}
    for one in fields(fields(file)[7][0])[11]:
        held = fields(one)
        name, kind = held[1][0].decode(), fields(fields(held[2][0])[1][0])[1][0]
        cells = [math.nan if row[name] is None else row[name] for row in ROWS]
        found[name] = np.array(cells, dtype=TYPES[kind]).reshape(-1, 1)
    return found


def expected() -> np.ndarray:
    """By the weights' own words, row by row."""
    return np.array([[applied(RECORD, row)] for row in ROWS])


def test_the_file_answers_what_the_weights_say() -> None:
    file = onnx_file(RECORD, {"price": "epsilon 1"})
    chance, label = worked_out(file, columns(file)).values()
    assert chance == pytest.approx(1 / (1 + np.exp(-expected())), abs=1e-12)
    assert label.ravel().tolist() == ["yes" if one >= 0 else "no" for one in expected().ravel()]
    plain = {name: value for name, value in RECORD.items() if name not in ("positive", "other")}
    numbers = onnx_file(plain, {})
    (answer,) = worked_out(numbers, columns(numbers)).values()
    assert answer == pytest.approx(expected(), abs=1e-12)


def test_the_head_of_the_file() -> None:
    found = fields(onnx_file(RECORD, {"price": "epsilon 1", "NOT PRIVATE": "drawn in test mode"}))
    assert found[1] == [9] and fields(found[8][0]) == {1: [b""], 2: [19]}
    assert [tuple(fields(one)[k][0].decode() for k in (1, 2)) for one in found[14]] == [
        ("price", "epsilon 1"), ("NOT PRIVATE", "drawn in test mode"),
    ]  # fmt: skip
    assert [varint(n) for n in (0, 127, 128)] == [b"\x00", b"\x7f", b"\x80\x01"]


def test_onnxruntime_answers_the_same() -> None:
    """The engine that such files are made for, and ONNX's own checker where it is there."""
    engine = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    file = onnx_file(RECORD, {"price": "epsilon 1"})
    session = engine.InferenceSession(file, providers=["CPUExecutionProvider"])
    chance, label = session.run(None, columns(file))
    assert chance == pytest.approx(1 / (1 + np.exp(-expected())), abs=1e-12)
    assert label.ravel().tolist() == ["yes" if one >= 0 else "no" for one in expected().ravel()]
    assert session.get_modelmeta().custom_metadata_map == {"price": "epsilon 1"}
