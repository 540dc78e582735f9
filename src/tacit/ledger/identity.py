"""What makes two data sets the same, so that a copy or a new name gets no second budget.

A file or a table of rows is known by a digest of its content. The book stores the digest only under a secret
of its own, so it cannot be used to test guesses about the data without that secret. A source is known by its
normalised address, without user names and passwords.

>>> DataIdentity.source("PostgreSQL://ann:secret@DB.example.org:5432/health", table="Visits") == \\
...     DataIdentity.source("postgresql://bob@db.example.org/health", table="visits")
True
>>> DataIdentity.rows([{"age": 31}, {"age": 40}]) == DataIdentity.rows([{"age": 40}, {"age": 31}])
True
"""

from __future__ import annotations

import hashlib
import hmac
import os
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tacit.ledger.errors import LedgerError

_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433, "oracle": 1521, "http": 80, "https": 443}


@dataclass(frozen=True)
class DataIdentity:
    """A digest of content or of an address. Only `kind` is shown when it is printed."""

    kind: str
    digest: bytes = field(repr=False)

    @staticmethod
    def declared(name: str) -> DataIdentity:
        """Data that the curator names; letter case, surrounding blanks and Unicode variants make no difference.

        >>> DataIdentity.declared("Visits 2026") == DataIdentity.declared(" visits  2026 ")
        True
        """
        if not isinstance(name, str) or not name.strip():
            raise LedgerError("data must be a DataIdentity or a name that is not empty")
        return _of("declared", " ".join(unicodedata.normalize("NFKC", name).casefold().split()).encode())

    @staticmethod
    def file(path: str | os.PathLike[str]) -> DataIdentity:
        """A file by its bytes: a copy or a new name is the same data."""
        found = hashlib.sha256()
        try:
            with open(path, "rb") as stream:
                while block := stream.read(1 << 20):
                    found.update(block)
        except OSError as reason:
            raise LedgerError(f"the data file cannot be read: {type(reason).__name__}") from None
        return _of("content", found.digest())

    @staticmethod
    def rows(rows: Iterable[object], *, ordered: bool = False) -> DataIdentity:
        """A table by its rows: mappings or sequences of plain values. Without `ordered`, the order of rows makes no difference.

        An Arrow table is `DataIdentity.rows(table.to_pylist())`.
        """
        digests = [hashlib.sha256(_row(row)).digest() for row in rows]
        if not ordered:
            digests.sort()
        return _of("rows", hashlib.sha256(b"".join(digests)).digest())

    @staticmethod
    def source(url: str, *, table: str = "") -> DataIdentity:
        """A table in a database by its address. Name the base table, not the view: a view is only a question about it."""
        parts = urlsplit(url)
        if not parts.scheme:
            raise LedgerError("a source needs an address such as postgresql://host/database or file:///data/visits.parquet")
        scheme = parts.scheme.lower().partition("+")[0]
        scheme = "postgresql" if scheme == "postgres" else scheme
        try:
            port = parts.port or _PORTS.get(scheme, 0)
        except ValueError:
            raise LedgerError("the port of a source must be a number between 0 and 65535") from None
        path = os.path.normpath(parts.path) if parts.path else ""
        address = f"{scheme}://{(parts.hostname or '').lower()}:{port}{path}"
        return _of("source", f"{address}\n{table.strip().casefold()}".encode())

    def apart(self, name: str) -> DataIdentity:
        """The same content, declared to be other data under this name."""
        return _of("apart", DataIdentity.declared(name).digest + self.kind.encode() + b"\0" + self.digest)

    def key(self, secret: bytes) -> str:
        """The identity as it is stored: keyed, so that it says nothing without the book's secret."""
        return hmac.new(secret, self.kind.encode() + b"\0" + self.digest, hashlib.sha256).hexdigest()


def _of(kind: str, content: bytes) -> DataIdentity:
    return DataIdentity(kind, hashlib.sha256(kind.encode() + b"\0" + content).digest())


def _row(row: object) -> bytes:
    """A row's bytes with lengths and types, so that no two different rows look alike; column order makes no difference."""
    if isinstance(row, Mapping):
        return b"m" + b"".join(_value(name) + _value(row[name]) for name in sorted(row, key=repr))
    if isinstance(row, (list, tuple)):
        return b"s" + b"".join(_value(item) for item in row)
    return b"v" + _value(row)


def _value(value: object) -> bytes:
    if isinstance(value, (Mapping, list, tuple)):
        text = _row(value)
    elif isinstance(value, (bytes, bytearray)):
        text = bytes(value)
    else:
        text = repr(value).encode("utf-8", "surrogatepass")
    name = type(value).__name__.encode()
    return b"%d:%s%d:%s" % (len(name), name, len(text), text)
