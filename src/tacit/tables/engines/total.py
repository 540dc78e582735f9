"""Statements that cannot fail on a row: whether an error is raised must not depend on the data.

A cast that fails gives NULL, on every engine. What is said here of trees is said once: a prepared tree is marked and not prepared again.

>>> from sqlglot import parse_one
>>> never_failing(parse_one("SELECT SUM(CAST(a AS BIGINT)), CAST(1.5 AS DOUBLE) FROM t")).sql("duckdb")
'SELECT SUM(TRY_CAST(a AS BIGINT)), CAST(1.5 AS DOUBLE) FROM t'
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

_DONE = "tacit_total"


def prepared(statement: exp.Expression, change: Callable[[exp.Expression], exp.Expression]) -> exp.Expression:
    """The statement with `change` applied to every node, inner nodes first, once: a second call returns it as it is."""
    if statement.meta.get(_DONE):
        return statement
    root = statement.copy()
    # Parents come after their children, so that a change may rely on what is below it.
    for node in reversed(list(root.walk(bfs=True))):
        if isinstance(node, (exp.Greatest, exp.Least)):
            # All engines skip NULL here; without this, sqlglot writes a CASE around each that gives NULL, and is slower.
            node.set("ignore_nulls", True)
        changed = change(node)  # type: ignore[arg-type]  # sqlglot's walk says Expr, the class above Expression
        if changed is not node:
            if node is root:
                root = changed
            else:
                node.replace(changed)
    root.meta[_DONE] = True
    return root


def constant(node: exp.Expression) -> bool:
    """Whether a node is a public literal, perhaps with a sign or a type."""
    while isinstance(node, (exp.Paren, exp.Neg, exp.Cast)):
        node = node.this
    return isinstance(node, (exp.Literal, exp.Null, exp.Boolean))


def try_cast(node: exp.Expression) -> exp.Expression:
    """CAST as TRY_CAST, where its operand comes from a row. `safe` is what sqlglot asks for before it writes TRY_CAST for Spark."""
    if isinstance(node, exp.Cast) and not node.args.get("safe") and not constant(node.this):
        return exp.TryCast(this=node.this.copy(), to=node.args["to"].copy(), safe=True)
    return node


def never_failing(statement: exp.Expression) -> exp.Expression:
    """The statement with casts that give NULL where they would fail."""
    return prepared(statement, try_cast)
