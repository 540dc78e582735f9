"""A linear or logistic model as an ONNX file, written byte by byte: no package is needed to write it, and loading it runs no code.

The file takes the columns as they are, one input each: numbers (NaN where missing) or the declared values. It scales, cuts and encodes
them as the fit did, so whoever applies it need not know how. ONNX is a protocol buffer, of which a file needs three kinds of
fields: whole numbers, bytes, and messages within messages.

>>> varint(300)
b'\\xac\\x02'
>>> field(1, "ab")
b'\\n\\x02ab'
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

#: Element types of TensorProto, and the versions that this file is written for (operators of 19, which compare texts).
INT64, STRING, BOOL, DOUBLE = 7, 8, 9, 11
IR, OPERATORS = 9, 19


def varint(number: int) -> bytes:
    """A whole number of 0 or more, seven bits a byte, low bits first."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def field(place: int, value: int | str | bytes) -> bytes:
    """A field of a message: a whole number (two's complement in 64 bits), or a text, bytes or an inner message with its length."""
    if isinstance(value, int):
        return varint(place << 3) + varint(value & (1 << 64) - 1)
    held = value.encode() if isinstance(value, str) else value
    return varint(place << 3 | 2) + varint(len(held)) + held


def constant(name: str, values: Sequence[Any], shape: Sequence[int], kind: int) -> bytes:
    """A TensorProto: numbers as little-endian bytes, texts one by one."""
    head = b"".join(field(1, size) for size in shape) + field(2, kind) + field(8, name)
    if kind == STRING:
        return head + b"".join(field(6, str(value)) for value in values)
    packed = {DOUBLE: "<d", INT64: "<q", BOOL: "<?"}[kind]
    return head + field(9, b"".join(struct.pack(packed, value) for value in values))


def column(name: str, kind: int) -> bytes:
    """A ValueInfoProto: a column of any number of rows."""
    rows, one = field(1, field(2, "rows")), field(1, field(1, 1))
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, rows + one)))


class Graph:
    """Nodes, constants, inputs and outputs, one after the other. No name may be a column's."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.parts: list[bytes] = []
        self.taken = set(columns)

    def free(self, name: str) -> str:
        """A name that is not taken, and now is: with a number behind it if need be."""
        found, turn = name, 1
        while found in self.taken:
            found, turn = f"{name} {turn}", turn + 1
        self.taken.add(found)
        return found

    def constant(self, values: Sequence[Any], shape: Sequence[int], kind: int = DOUBLE) -> str:
        """A constant's name."""
        name = self.free("constant")
        self.parts.append(field(5, constant(name, values, shape, kind)))
        return name

    def node(self, operator: str, *given: str, output: str | None = None, **whole: int) -> str:
        """The name of what an operator makes of its inputs; `whole` are attributes that are whole numbers."""
        name = output or self.free("value")
        attributes = b"".join(field(5, field(1, key) + field(3, value) + field(20, 2)) for key, value in whole.items())
        inputs = b"".join(field(1, one) for one in given)
        self.parts.append(field(1, inputs + field(2, name) + field(3, f"make {name}") + field(4, operator) + attributes))
        return name

    def input(self, name: str, kind: int) -> str:
        """A column that is given."""
        self.parts.append(field(11, column(name, kind)))
        return name

    def output(self, name: str, kind: int) -> None:
        """A column that is answered."""
        self.parts.append(field(12, column(name, kind)))

    def file(self, name: str, about: Mapping[str, str]) -> bytes:
        """The ModelProto."""
        told = b"".join(field(14, field(1, key) + field(2, value)) for key, value in about.items())
        graph, operators = b"".join(self.parts) + field(2, name), field(1, "") + field(2, OPERATORS)
        return field(1, IR) + field(2, "tacit") + field(7, graph) + field(8, operators) + told


def kind_of(values: Sequence[object]) -> int:
    """How declared values are given: truth values, whole numbers, numbers, or texts for anything else.

    >>> kind_of([True, False]) == BOOL, kind_of([1, 2]) == INT64, kind_of([1, 2.5]) == DOUBLE, kind_of([1, "a"]) == STRING
    (True, True, True, True)
    """
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return BOOL
    if kinds == {int} and all(isinstance(value, int) and -(2**63) <= value < 2**63 for value in values):
        return INT64
    near = all(isinstance(value, (int, float)) and abs(value) <= 2**53 for value in values)
    return DOUBLE if kinds <= {int, float} and near else STRING


def _scaled(graph: Graph, given: str, low: float, high: float) -> str:
    """A number between its bounds as a part of the way; the middle where it is missing."""
    middle, least, most, span = (graph.constant([x], [1, 1]) for x in ((low + high) / 2, low, high, (high - low) or 1.0))
    known = graph.node("Where", graph.node("IsNaN", given), middle, given)
    cut = graph.node("Min", graph.node("Max", known, least), most)
    return graph.node("Div", graph.node("Sub", cut, least), span)


def onnx_file(record: Mapping[str, Any], about: Mapping[str, str]) -> bytes:
    """The file of a record of weights (`weights_record`). A classifier answers `chance` and `label`, a regressor `prediction`.

    `about` is kept in the file's metadata: the price, and that it is not private where it is not.
    """
    graph, parts = Graph([one["column"] for one in record["columns"]]), []
    for one in record["columns"]:
        if "categories" in one:
            kind = kind_of(one["categories"])
            given = graph.input(one["column"], kind)
            listed = graph.constant(one["categories"], [1, len(one["categories"])], kind)
            parts.append(graph.node("Cast", graph.node("Equal", given, listed), to=DOUBLE))
        else:
            parts.append(_scaled(graph, graph.input(one["column"], DOUBLE), one["low"], one["high"]))
    weights = graph.constant(record["weights"], [len(record["weights"]), 1])
    weighted = graph.node("MatMul", graph.node("Concat", *parts, axis=1), weights)
    score = graph.constant([record["intercept"]], [1, 1])
    if "positive" not in record:
        graph.output(graph.node("Add", weighted, score, output=graph.free("prediction")), DOUBLE)
        return graph.file(str(record["label"]), about)
    chance = graph.node("Sigmoid", graph.node("Add", weighted, score), output=graph.free("chance"))
    accepted = graph.node("GreaterOrEqual", chance, graph.constant([0.5], [1, 1]))
    labels = [graph.constant([record[name]], [1, 1], STRING) for name in ("positive", "other")]
    graph.output(chance, DOUBLE)
    graph.output(graph.node("Where", accepted, *labels, output=graph.free("label")), STRING)
    return graph.file(str(record["label"]), about)
