"""The form of an entry: one line of canonical JSON, chained by hash to the entry before it.

>>> first = sealed(1, START, {"kind": "genesis"})
>>> first.hash == digest(first.body), sealed(2, first.hash, {"kind": "note"}).body
(True, '{"kind":"note","previous":"...","seq":2}')
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.ledger.errors import LedgerError

#: The hash that the first entry points to.
START = "0" * 64


@dataclass(frozen=True)
class Entry:
    """A sealed entry: its number, its text, and the hash of the text (which holds the number and the previous hash)."""

    seq: int
    body: str
    hash: str


def canonical(value: object) -> str:
    """The one JSON text of a value: sorted keys, no spaces, ASCII, no NaN. What is not JSON is refused without showing it.

    >>> canonical({"b": [1, None], "a": "é"})
    '{"a":"\\\\u00e9","b":[1,null]}'
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        pass
    # outside the handler: the original error may quote the value
    raise LedgerError("a question or answer must be JSON: text, finite numbers, booleans, None, lists, objects with text keys")


def digest(body: str) -> str:
    """SHA-256 of an entry's text; the text contains the hash of the entry before it."""
    return hashlib.sha256(body.encode()).hexdigest()


def sealed(seq: int, previous: str, fields: Mapping[str, Any]) -> Entry:
    """The entry with its place in the chain."""
    body = canonical({**fields, "seq": seq, "previous": previous})
    return Entry(seq, body, digest(body))


def head_text(seq: int, value: str) -> str:
    """A head to write down elsewhere: "1042:9f0c...". Whoever has it can tell that nothing before it was cut off or rewritten.

    >>> parse_head(head_text(3, START)) == (3, START)
    True
    """
    return f"{seq}:{value}"


def parse_head(text: str) -> tuple[int, str]:
    """The number and hash of a remembered head."""
    number, colon, value = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not colon or not number.isascii() or not number.isdigit() or len(value) != 64:
        raise LedgerError("head must be a text 'number:hash' as returned by ledger.head()")
    return int(number), value
