"""The book: its accounts, and the record of every spend, which is never changed.

`Ledger.open` opens or makes a book; `ledger.account` opens or finds an account in it. Data that is known to
the book under any name has one account and one budget: `DataIdentity` says what makes two data sets the same. A
file or a table of rows is known by a digest of its content. The book stores the digest only under a secret of its
own, so it cannot be used to test guesses about the data without that secret. A source is known by its normalised
address, without user names and passwords.

>>> import pathlib, tempfile
>>> from tacit.accounting import PureDP
>>> from tacit.ledger.budget import Budget
>>> ledger = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> visits = ledger.account("visits-2026", Budget(epsilon=1))
>>> for _ in range(10):
...     receipt = visits.spend(PureDP(0.1), purpose="weekly table")
>>> visits.spend(PureDP(1e-12))
Traceback (most recent call last):
tacit.ledger.errors.BudgetExceeded: account 'visits-2026' refuses: asked epsilon 1e-12, left epsilon 0 of epsilon 1; nothing was spent. ...
>>> ledger.verify().ok
True
>>> DataIdentity.source("PostgreSQL://ann:secret@DB.example.org:5432/health", table="Visits") == \\
...     DataIdentity.source("postgresql://bob@db.example.org/health", table="visits")
True
>>> DataIdentity.rows([{"age": 31}, {"age": 40}]) == DataIdentity.rows([{"age": 40}, {"age": 31}])
True
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tacit.accounting import Adjacency, Guarantee, ParameterError
from tacit.ledger import journal
from tacit.ledger.account import Account
from tacit.ledger.budget import Budget
from tacit.ledger.errors import LedgerError
from tacit.ledger.journal import head_text, rules_of
from tacit.ledger.paying import showing
from tacit.ledger.spec import Amount, Rules, Spec
from tacit.ledger.store import Connection, Store

if TYPE_CHECKING:
    from tacit.ledger.governance import Governance
    from tacit.ledger.verify import Verification
import hashlib
import hmac
import os
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

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


#: How many of the latest entries tell which analysts use a book.
LATEST = 2000


class Ledger:
    """An open book. Threads may share it; a process opens its own (a forked child may use its parent's)."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.specs: dict[int, Spec] = {}  # terms never change, so they are read once
        self.seen = 0  # the last entry that this process knows of: a book never gets shorter
        self.rules = Rules()  # what officers decided, as far as it was read
        self._secret: bytes | None = None
        self.priced: dict[Any, tuple[list[Spec], dict[str, Amount], dict[str, Any]]] = {}  # prices are functions of terms and event

    @staticmethod
    def open(url: str | PathLike[str], *, timeout: float = 30.0, create: bool = True) -> Ledger:
        """The book at a file, `tacit.db`, or a URL: `sqlite:///tacit.db`, `postgresql+psycopg://user@host/database`.

        It is made if it is not there. `timeout` is how many seconds to wait for other writers before giving up with nothing spent.
        """
        if showing():
            raise LedgerError(code="made-up-book")
        store = Store(address(url), timeout=timeout)
        written = store.format_found()
        if written is not None:
            journal.known_format(written)  # before a connection that may write is made
        try:
            if not store.exists():
                if not create:
                    raise LedgerError(code="ledger-missing")
                journal.create(store)
            ledger = Ledger(store)
            ledger.seen = store.read(journal.last).seq
            store.read(lambda connection: rules_of(connection, ledger.rules))
        except BaseException:
            store.close()
            raise
        return ledger

    @staticmethod
    def at(place: str, *, create: bool = True) -> Ledger:
        """The book that was named in a command: a URL, or else a file, whatever it is called."""
        return Ledger.open(place if not place or "://" in place else Path(place), create=create)

    @staticmethod
    def of(book: Ledger | str | PathLike[str]) -> Ledger:
        """An open book as it is; what names one, a file or a URL, opened."""
        return book if isinstance(book, Ledger) else Ledger.open(book)

    def close(self) -> None:
        """Give the database connections back."""
        self.store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- accounts -----------------------------------------------------------------------------------------------------------------

    def account(
        self, name: str, budget: Budget | Guarantee | str | None = None, *,
        data: DataIdentity | str | Sequence[DataIdentity | str] | None = None,
        parent: Account | str | None = None, adjacency: Adjacency | str | None = None,
        unit: str | None = None, rule: str | None = None, collusion: bool | None = None,
        window: str | None = None, growing: bool | None = None, null_record: bool | None = None,
        cache: bool | None = None, called: str | None = None, new_dataset: bool = False,
    ) -> Account:
        """Open an account, or find the one that the name or the data already has. `tacit.ledger.spec.Spec` says what the terms mean.

        An account is known by its data. Another name for known data (a copy of the file, a renamed view, a second session) becomes an
        alias of the same account with the same budget; other terms than the account's own are refused. Without `data` and `parent`, the
        name stands for the data. An account below another one shares its parent's data. `new_dataset=True` says that this name means
        other people's rows, though they look the same: it opens an account of its own, and the book remembers that it was said.
        """
        listed: Sequence[Any] = data if isinstance(data, (list, tuple)) else [] if data is None else [data]
        given = [item if isinstance(item, DataIdentity) else DataIdentity.declared(item) for item in listed]
        if not given and parent is None:
            given = [DataIdentity.declared(name)]
        if budget is not None:
            budget, window = _with_window(Budget.of(budget), window)
        terms: dict[str, Any] = {"budget": budget, "adjacency": _relation(adjacency), "unit": unit}
        terms |= {"rule": rule, "collusion": collusion, "window": window, "growing": growing}
        terms |= {"null_record": null_record, "cache": cache, "called": called}
        asked = {key: value for key, value in terms.items() if value is not None}

        def found(connection: Connection, *, write: bool = False) -> Spec | None:
            secret = self.secret(connection)
            keys = [self._own(connection, name, identity, secret, new=new_dataset) for identity in given]
            above = self._parent(connection, parent)
            return self._opened(connection, name, keys, above, asked, write=write)

        # most of the time nothing is new, and then no writer has to wait
        spec = self.store.read(found) or self.store.write(lambda connection: found(connection, write=True))
        assert spec is not None
        return Account(self, spec)

    def _own(self, connection: Connection, name: str, identity: DataIdentity, secret: bytes, *, new: bool) -> str:
        """The key of an identity; where it was declared to be other data under this name, the key of that."""
        key, apart = identity.key(secret), identity.apart(name).key(secret)
        if journal.account_of_data(connection, apart) is not None:
            return apart
        owner, named = journal.account_of_data(connection, key), journal.account_named(connection, name)
        if new and named is not None and self.spec(connection, named).name != name:
            raise LedgerError(f"name: {name!r} stands for account {self.spec(connection, named).name!r}; give new data another name")
        return apart if new and owner is not None and owner != named else key

    def knows(self, identity: DataIdentity) -> bool:
        """Whether this data has an account here, under any name."""
        return self.store.read(
            lambda connection: journal.account_of_data(connection, identity.key(self.secret(connection))) is not None
        )

    def _parent(self, connection: Connection, parent: Account | str | None) -> Spec | None:
        if parent is None:
            return None
        if isinstance(parent, Account):
            return parent.spec
        found = journal.account_named(connection, parent)
        if found is None:
            raise LedgerError(f"parent: there is no account {parent!r}; open it first")
        return self.spec(connection, found)

    def _opened(
        self, connection: Connection, name: str, keys: list[str], above: Spec | None, asked: dict[str, Any], *, write: bool
    ) -> Spec | None:
        """The account by name, by data, or new. What is new is written; without `write`, None is returned."""
        owners = {key: journal.account_of_data(connection, key) for key in keys}
        fresh = [key for key, owner in owners.items() if owner is None]
        named = journal.account_named(connection, name)
        known = {owner for owner in owners.values() if owner is not None}
        spec = self._found(connection, name, named, known, above, asked)
        if not write and (spec is None or named is None or fresh):
            return None
        if spec is None:
            spec = self._created(connection, name, above, asked)
        elif named is None:
            alias = {"kind": "alias", "account": spec.id, "name": name, "time": journal.now()}
            journal.append(connection, [alias])
            journal.add_name(connection, name, spec.id)
        if fresh:
            records = [{"kind": "identity", "account": spec.id, "key": key, "time": journal.now()} for key in fresh]
            journal.append(connection, records)
            journal.add_identities(connection, fresh, spec.id)
        return spec

    def _found(
        self,
        connection: Connection,
        name: str,
        named: int | None,
        known: set[int],
        above: Spec | None,
        asked: dict[str, Any],
    ) -> Spec | None:
        """The account that has the name (`named`) or the data (`known`); None if a new one may be opened."""
        if named is not None:
            spec = self.spec(connection, named)
            _same_terms(spec, name, above, asked)
            if not known <= {s.id for s in self.path(connection, spec)}:
                raise LedgerError(f"data: this data belongs to another account than {name!r}; open it under its own name")
            return spec
        if known and above is None:
            if len(known) > 1:
                raise LedgerError("data: these data sets belong to different accounts; open each under its own name")
            spec = self.spec(connection, next(iter(known)))
            _same_terms(spec, name, above, asked)
            return spec
        if not known <= ({spec.id for spec in self.path(connection, above)} if above is not None else set()):
            raise LedgerError(
                f"data: this data already has an account, which is not above {name!r}; a second budget for the same data is refused. "
                "Open the new account with parent= that account"
            )
        if "budget" not in asked:
            raise LedgerError(f"there is no account {name!r}; give a budget to open it")
        return None

    def _created(self, connection: Connection, name: str, above: Spec | None, asked: dict[str, Any]) -> Spec:
        inherited = {} if above is None else {key: getattr(above, key) for key in ("adjacency", "unit", "window", "null_record", "called")}
        head = journal.last(connection)
        spec = Spec(head.seq + 1, name, **{**inherited, **asked}, parent=None if above is None else above.id).checked(above)
        record = {"kind": "account", "account": spec.id, "terms": spec.to_record(), "time": journal.now()}
        journal.append(connection, [record], head=head)
        journal.add_account(connection, spec)
        return spec

    def accounts(self) -> list[Account]:
        """Every account, in the order they were opened."""

        def work(connection: Connection) -> list[Spec]:
            return [self.spec(connection, number) for number in journal.all_accounts(connection)]

        return [Account(self, spec) for spec in self.store.read(work)]

    def spec(self, connection: Connection, account: int) -> Spec:
        """The terms of an account, read once."""
        found = self.specs.get(account)
        if found is None:
            found = self.specs.setdefault(account, journal.spec_of(connection, account))
        return found

    def path(self, connection: Connection, spec: Spec) -> list[Spec]:
        """The account and all accounts above it, nearest first."""
        found = [spec]
        while found[-1].parent is not None:
            found.append(self.spec(connection, found[-1].parent))
        return found

    def secret(self, connection: Connection) -> bytes:
        """The book's secret, read once."""
        if self._secret is None:
            self._secret = journal.secret_of(connection)
        return self._secret

    # --- officers and analysts ------------------------------------------------------------------------------------

    @property
    def governance(self) -> Governance:
        """Decisions of officers: closing accounts, barring analysts, amending terms."""
        from tacit.ledger.governance import Governance

        return Governance(self)

    def analysts(self) -> list[str]:
        """The analysts that use the book, as its latest entries have them."""
        end = journal.parse_head(self.head())[0]
        found = {str(fields.get("analyst", "")) for fields in self.entries(since=max(1, end - LATEST))}
        return sorted(found - {""})

    def analyst(self, given: str | None = None) -> str:
        """Who asks: as given, or the user of the system; refused where several analysts use the book and it is unclear."""
        if given:
            return given
        import getpass

        try:
            user = getpass.getuser()
        except (OSError, KeyError, ImportError):
            user = ""
        known = self.analysts()
        if len(known) > 1 and user not in known:
            raise LedgerError(code="analyst-needed", analysts=tuple(known))
        return user

    # --- the record ---------------------------------------------------------------------------------------------------------------

    def head(self) -> str:
        """The last entry's number and hash. Keep a copy elsewhere: `verify(head=...)` then notices a cut or rewritten book."""
        found = self.store.read(journal.last)
        return head_text(found.seq, found.hash)

    def entries(self, *, since: int = 1) -> Iterator[dict[str, Any]]:
        """Every entry's fields from a number on, in order, read in portions."""
        place = since
        while True:
            rows = self.store.read(partial(journal.portion, since=place, most=1000))
            if not rows:
                return
            for _, body in rows:
                yield json.loads(body)
            place = rows[-1][0] + 1

    def verify(self, *, head: str | None = None) -> Verification:
        """Read the whole book and say what is wrong with it, if anything; `head` is one remembered from an earlier `head()`."""
        from tacit.ledger.verify import verify

        return verify(self.store, head=head)


def address(book: str | PathLike[str]) -> str:
    """The URL of a book; a bare file name is a file of SQLite.

    >>> address("tacit.db"), address("postgresql+psycopg://host/books")
    ('sqlite:///tacit.db', 'postgresql+psycopg://host/books')
    """
    try:
        text = fspath(book)
    except TypeError:
        text = ""
    # A word without an end or a folder is likelier a slip than a file.
    slip = isinstance(book, str) and not any(mark in book for mark in "./\\")
    if not isinstance(text, str) or slip:
        raise LedgerError("a ledger is a file such as 'tacit.db', or a URL such as 'postgresql+psycopg://host/books'")
    # A question mark or a percent sign of a file's name is no part of a URL.
    return text if "://" in text else "sqlite:///" + quote(text, safe="/ :\\")


def _relation(adjacency: Adjacency | str | None) -> Adjacency | None:
    try:
        return None if adjacency is None else Adjacency.parse(adjacency)
    except ParameterError as error:
        raise LedgerError(str(error)) from None


def _with_window(budget: Budget, window: str | None) -> tuple[Budget, str | None]:
    """The budget as it is stored, and the window: a budget's period is the account's window."""
    if budget.period is None:
        return budget, window
    if window not in (None, budget.period):
        raise LedgerError(f"window must be the budget's period, {budget.period!r}, not {window!r}; leave one of them out")
    return Budget(budget.guarantee, reserve=budget.reserve), budget.period


def _same_terms(spec: Spec, name: str, above: Spec | None, asked: dict[str, Any]) -> None:
    """An account's terms are fixed: asking for it with other terms is an error."""
    if above is not None and above.id != spec.parent:
        raise LedgerError(f"parent: account {spec.name!r} was opened below another account")
    for key, value in asked.items():
        if key != "called" and getattr(spec, key) != value:
            raise LedgerError(code="terms-fixed", term=key, name=name, account=spec.name, opened=getattr(spec, key))
