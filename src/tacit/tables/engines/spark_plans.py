"""What Spark computes as it reads a frame or a view, from the plan it has made of it: the counterpart of `tacit.tables.engines.views`.

A frame is a plan, not rows: `frame.withColumn("n", frame.code.cast("int"))` is computed anew inside every statement about it, and fails
there on a code that is no number. Spark's plan has every cast in it, also those that it adds itself, so that expressions need no types.
"""

from __future__ import annotations

import re
from typing import Any

#: Rows as they are stored, and what passes rows on as they are. Not those that a frame keeps: they are computed when they are first read.
STORED = frozenset({
    "LogicalRelation", "LogicalRelationWithTable", "HiveTableRelation", "DataSourceV2Relation", "LocalRelation", "LogicalRDD",
    "OneRowRelation", "Range",
})  # fmt: skip
PASSING = frozenset({"SubqueryAlias", "View", "Repartition", "RepartitionByExpression", "ResolvedHint", "Union"})
#: What never fails if its parts do not.
SURE = frozenset({
    "AttributeReference", "Alias", "Literal", "EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan",
    "GreaterThanOrEqual", "And", "Or", "Not", "IsNull", "IsNotNull", "In", "InSet", "Coalesce", "CaseWhen", "If",
    "Lower", "Upper", "StringTrim", "Length",
    "Concat", "Collate", "Year", "Quarter", "Month", "DayOfMonth", "DayOfYear", "StartsWith", "EndsWith", "Contains",
})  # fmt: skip
#: How steps begin that read rows and pass them on, in the text of a plan.
READ = (
    "== Physical Plan ==",
    "LocalTableScan",
    "FileScan",
    "BatchScan",
    "Scan ",
    "ColumnarToRow",
    "Range ",
    "Coalesce ",
    "AdaptiveSparkPlan",
)
#: An attribute in the text of a plan, such as id#12L or id#12L AS key#20L.
_ATTRIBUTE = re.compile(r"[^\[\](),]+#\d+L?( AS [^\[\](),]+#\d+L?)?")


class _Unsure(Exception):
    """Which rows there are depends on something that may fail."""


class PlanReader:
    """Reads the plans of one Java."""

    def __init__(self, java: Any) -> None:
        self._cast = getattr(getattr(java.org.apache.spark.sql.catalyst.expressions, "Cast$"), "MODULE$")

    def odd(self, plan: Any) -> list[str]:
        """The names of the columns of a plan that may fail."""
        failing = self._failing(plan)
        return [str(output.name()) for output in _all(plan.output()) if output.exprId().id() in failing]

    def _failing(self, plan: Any) -> set[int]:
        """The numbers of all columns below that may fail."""
        name = plan.getClass().getSimpleName()
        failing = {number for child in _all(plan.children()) for number in self._failing(child)}
        if name in STORED:
            return set()
        if name == "Project":
            for made in _all(plan.expressions()):
                if not self._sure(made, failing):
                    failing.add(made.exprId().id())
            return failing
        if name == "Union" and failing:
            raise _Unsure  # its columns are matched by their places
        if name in PASSING:
            return failing
        if name in ("Filter", "Join") and all(self._sure(part, failing) for part in _all(plan.expressions())):
            return failing
        raise _Unsure

    def _sure(self, expression: Any, failing: set[int]) -> bool:
        kind = expression.getClass().getSimpleName()
        if kind == "AttributeReference":
            return expression.exprId().id() not in failing
        children = _all(expression.children())
        if not all(self._sure(child, failing) for child in children):
            return False
        if kind == "Cast":
            # Those that hold every value of the type they come from, and those that give NULL in place of an error.
            trying = str(expression.evalMode().toString()) in ("TRY", "LEGACY")
            return trying or bool(self._cast.canUpCast(children[0].dataType(), expression.dataType()))
        return kind in SURE


def _all(sequence: Any) -> list[Any]:
    """The elements of a sequence of Scala."""
    return [sequence.apply(place) for place in range(sequence.size())]


def explained(frame: Any) -> list[str]:
    """Of a server that shows its plans as text alone: nothing, where it reads columns and passes them on; anything else is not sure."""
    for line in str(frame._explain_string(mode="simple")).splitlines():
        step = re.sub(r"^[\s:+*|(\d)-]*", "", line)
        if step and not step.startswith(READ) and not _plain(step):
            raise _Unsure
    return []


def _plain(step: str) -> bool:
    """Whether a projection names attributes and nothing else."""
    listed = re.fullmatch(r"Project \[(.*)\]", step)
    return listed is not None and all(_ATTRIBUTE.fullmatch(part.strip()) for part in listed[1].split(","))
