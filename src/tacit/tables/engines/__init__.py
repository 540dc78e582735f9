"""Engines: where the rows live. Each is one small file that runs a statement and returns Arrow.

DuckDB is the default; `tacit.tables.engines.postgres` and `tacit.tables.engines.spark` need their extras, and are not imported here.
"""
