"""The tables of a book, as statements that SQLite and PostgreSQL both run. Entries are never updated or deleted: triggers say so.

>>> [table.split()[2] for table in TABLES]
['tacit_facts', 'tacit_head', 'tacit_entries', 'tacit_accounts', 'tacit_names', 'tacit_identities', 'tacit_totals']
>>> len(statements("sqlite")), len(statements("postgresql"))
(11, 12)
"""

from __future__ import annotations

#: Whether this one is there says whether there is a book.
FACTS = "tacit_facts"
#: `{number}` is the type of an entry's number: in SQLite only a column of the type INTEGER is the number of the row itself.
#: - facts: the format of the book, and the secret under which contents are digested.
#: - head: the last entry; its row is the lock of all writers.
#: - entries: the book. Every other table can be rebuilt from it; the columns beside `body` and `hash` are copies for searching.
#:   One conclusion for each reservation.
#: - totals: running totals for each account and period; the period "" is the whole life.
TABLES = (
    "CREATE TABLE tacit_facts (name VARCHAR(40) NOT NULL, value TEXT NOT NULL, PRIMARY KEY (name))",
    "CREATE TABLE tacit_head (id INTEGER NOT NULL, seq BIGINT NOT NULL, hash VARCHAR(64) NOT NULL, PRIMARY KEY (id))",
    "CREATE TABLE tacit_entries (seq {number} NOT NULL, kind VARCHAR(12) NOT NULL, account BIGINT, reservation BIGINT, "
    "question VARCHAR(64), body TEXT NOT NULL, hash VARCHAR(64) NOT NULL, PRIMARY KEY (seq), UNIQUE (reservation))",
    "CREATE TABLE tacit_accounts (id BIGINT NOT NULL, parent BIGINT, spec TEXT NOT NULL, PRIMARY KEY (id))",
    "CREATE TABLE tacit_names (name VARCHAR(200) NOT NULL, account BIGINT NOT NULL, PRIMARY KEY (name))",
    'CREATE TABLE tacit_identities ("key" VARCHAR(64) NOT NULL, account BIGINT NOT NULL, PRIMARY KEY ("key"))',
    "CREATE TABLE tacit_totals (account BIGINT NOT NULL, period VARCHAR(12) NOT NULL, body TEXT NOT NULL, PRIMARY KEY (account, period))",
)
INDEXES = (
    "CREATE INDEX ix_tacit_entries_account ON tacit_entries (account)",
    "CREATE INDEX ix_tacit_entries_question ON tacit_entries (question)",
)
TRIGGERS = {
    "sqlite": tuple(
        f"CREATE TRIGGER IF NOT EXISTS tacit_no_{verb.lower()} BEFORE {verb} ON tacit_entries "
        "BEGIN SELECT RAISE(ABORT, 'entries of the ledger are never changed'); END"
        for verb in ("UPDATE", "DELETE")
    ),
    "postgresql": (
        "CREATE OR REPLACE FUNCTION tacit_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'entries of the ledger are never changed'; END $$",
        "DROP TRIGGER IF EXISTS tacit_no_change ON tacit_entries",
        "CREATE TRIGGER tacit_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON tacit_entries "
        "FOR EACH STATEMENT EXECUTE FUNCTION tacit_append_only()",
    ),
}


def statements(kind: str) -> list[str]:
    """All of a new book's tables, indexes and triggers, in order, for "sqlite" or "postgresql"."""
    number = "INTEGER" if kind == "sqlite" else "BIGINT"
    return [table.format(number=number) for table in TABLES] + [*INDEXES, *TRIGGERS[kind]]
