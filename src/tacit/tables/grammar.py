"""The parts of SQL that a question may have: every kind of parsed node, and the arguments of it that are understood.

A parser that learns a new word may write it into an argument that no reader here looks at, and the question would then be answered as if
the word were not there. So `check` goes over every node of a question that was read: a node that is not in `NODES`, or an argument that
is set and not understood, is refused before anything is paid. The tests compare `NODES` with the arguments that the installed sqlglot
knows, so that a new one is noticed when sqlglot is updated.

>>> from sqlglot import parse_one
>>> check(parse_one("SELECT COUNT(*) FROM visits WHERE age IS NOT NULL"))
>>> check(parse_one("SELECT COUNT(*) FROM visits WHERE age BETWEEN SYMMETRIC 9 AND 2", read="postgres"))
Traceback (most recent call last):
...
tacit.tables.errors.Refused: BETWEEN with symmetric is not understood; write it in another way, or without it
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from tacit.tables.errors import Refused

#: sqlglot's versions that the tests have run with: the lowest, and the first that is not known. pyproject.toml says the same.
LOWEST, BEYOND = (30, 26), (30, 31)

_ONE, _TWO = "this", "this expression"
_OF_ONE = (
    exp.Abs, exp.Avg, exp.Boolean, exp.Date, exp.Day, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfWeekIso, exp.DayOfYear, exp.Exp,
    exp.From, exp.Having, exp.Hour, exp.IgnoreNulls, exp.Ln, exp.LogicalAnd, exp.LogicalOr, exp.Lower, exp.Median, exp.Minute,
    exp.Month, exp.Neg, exp.Not, exp.Paren, exp.Quarter, exp.Sign, exp.Sqrt, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Sum,
    exp.TimeStrToTime, exp.Trim, exp.Trunc, exp.Upper, exp.Var, exp.Variance, exp.VariancePop, exp.Week, exp.WeekOfYear,
    exp.WeekStart, exp.Where, exp.Year, exp.ApproxDistinct, exp.Ceil, exp.Floor, exp.Length,
    exp.RawString,
)  # fmt: skip
_OF_TWO = (
    exp.Add, exp.And, exp.ApproxQuantiles, exp.Corr, exp.CovarPop, exp.CovarSamp, exp.EQ, exp.Extract, exp.Filter, exp.GT, exp.GTE,
    exp.ILike, exp.IntDiv, exp.Is, exp.LT, exp.LTE, exp.Left, exp.Like, exp.Log, exp.Mod, exp.Mul, exp.NEQ, exp.NullSafeEQ,
    exp.NullSafeNEQ, exp.Nullif, exp.Or, exp.PercentileCont, exp.PercentileDisc, exp.Pow, exp.Right, exp.SafeDivide, exp.StartsWith,
    exp.Sub, exp.WithinGroup,
)  # fmt: skip

#: Each kind of node that a reader accepts, and the arguments that it understands.
_UNDERSTOOD: dict[type, str] = {
    **dict.fromkeys(_OF_ONE, _ONE),
    **dict.fromkeys(_OF_TWO, _TWO),
    exp.Alias: "this alias",
    exp.Anonymous: "this expressions",
    exp.ApproxQuantile: "this quantile",
    exp.AtTimeZone: "this zone",
    exp.Between: "this low high",
    exp.Bracket: "this expressions offset",
    exp.CTE: "this alias",
    exp.Case: "this ifs default",
    exp.Cast: "this to",
    exp.Coalesce: "this expressions",
    exp.Column: "this table",
    exp.Concat: "expressions coalesce",
    exp.Count: _ONE,
    exp.CountIf: _ONE,
    exp.DPipe: _TWO,
    exp.DataType: "this expressions",
    exp.DataTypeParam: _ONE,
    exp.DateAdd: "this expression unit",
    exp.DateDiff: "this expression unit",
    exp.DateSub: "this expression unit",
    exp.DateTrunc: "this unit",
    exp.DenseRank: "",
    exp.Distinct: "expressions",
    exp.Div: "this expression typed",
    exp.Fetch: "count direction limit_options",
    exp.Greatest: "this expressions ignore_nulls",
    exp.Cube: "expressions",
    exp.Group: "expressions all grouping_sets cube rollup",
    exp.GroupingSets: "expressions",
    exp.Lag: "this offset default",
    exp.Lead: "this offset default",
    exp.Rollup: "expressions",
    exp.Tuple: "expressions",
    exp.Identifier: "this quoted",
    exp.If: "this true false",
    exp.In: "this expressions",
    exp.Interval: "this unit",
    exp.Join: "this on side kind using",
    exp.Least: "this expressions ignore_nulls",
    exp.Limit: "expression limit_options",
    exp.LimitOptions: "rows",
    exp.Literal: "this is_string",
    exp.Max: _ONE,
    exp.Min: _ONE,
    exp.Null: "",
    exp.Offset: "expression",
    exp.Order: "expressions",
    exp.Ordered: "this desc nulls_first",
    exp.Quantile: "this quantile",
    exp.Rank: "",
    exp.Round: "this decimals",
    exp.RegexpExtract: "this expression group",
    exp.RegexpFullMatch: _TWO,
    exp.RegexpLike: _TWO,
    exp.RegexpReplace: "this expression replacement modifiers",
    exp.Replace: "this expression replacement",
    exp.RowNumber: "",
    exp.StrToDate: "this format",
    exp.StrToTime: "this format",
    exp.Select: "with_ expressions distinct from_ joins where group having order limit offset",
    exp.Star: "",
    exp.Subquery: "this alias with_",
    exp.Substring: "this start length",
    exp.Table: "this alias db catalog",
    exp.TableAlias: "this columns",
    exp.TimestampAdd: "this expression unit",
    exp.TimestampSub: "this expression unit",
    exp.TimestampTrunc: "this unit",
    exp.TryCast: "this to",
    exp.TsOrDsAdd: "this expression unit",
    exp.TsOrDsDiff: "this expression unit",
    exp.TsOrDsToDate: _ONE,
    exp.Union: "this expression distinct with_",
    exp.Window: "this partition_by order over",
    exp.With: "expressions",
}
NODES: Mapping[type, frozenset[str]] = {node: frozenset(arguments.split()) for node, arguments in _UNDERSTOOD.items()}

#: Arguments that may be set and change nothing of what is asked: flags for other writers of SQL, and hints. A lone parameter of DATE or
#: of a type is not among them. `safe` is a division, a cast or a text that gives NULL where others fail, as every one does here.
NO_MATTER: Mapping[type, frozenset[str]] = {
    node: frozenset(arguments.split())
    for node, arguments in {
        exp.Bracket: "safe",
        exp.CTE: "materialized",
        exp.Cast: "safe",
        exp.Coalesce: "is_nvl is_null",
        exp.Concat: "safe",
        exp.Corr: "null_on_zero_variance",
        exp.Count: "big_int",
        exp.CountIf: "zero_on_all_null",
        exp.DPipe: "safe",
        exp.DateDiff: "big_int date_part_boundary",
        exp.DateTrunc: "input_type_preserved",
        exp.Div: "safe",
        exp.Left: "negative_length_returns_empty",
        exp.RegexpExtract: "null_if_pos_overflow",
        exp.RegexpReplace: "single_replace",
        exp.Right: "negative_length_returns_empty",
        exp.Round: "casts_non_integer_decimals",
        exp.StrToDate: "safe default_year",
        exp.StrToTime: "safe default_year",
        exp.Substring: "zero_start",
        exp.TimestampTrunc: "input_type_preserved",
        exp.Trunc: "fractions_supported",
        exp.TryCast: "safe requires_string null_on_text_overflow probe_date_format",
        exp.TsOrDsAdd: "return_type",
        exp.TsOrDsToDate: "safe default_date",
    }.items()
}

#: Arguments that the tested sqlglot knows of these nodes, and that are refused where they are set.
REFUSED: Mapping[type, frozenset[str]] = {
    node: frozenset(arguments.split())
    for node, arguments in {
        exp.ApproxDistinct: "accuracy",
        exp.ApproxQuantile: "accuracy weight error_tolerance",
        exp.Between: "symmetric",
        exp.Bracket: "returns_list_for_maps json_access",
        exp.CTE: "scalar key_expressions",
        exp.Cast: "format action default",
        exp.Ceil: "decimals to",
        exp.Column: "db catalog join_mark shadow",
        exp.Count: "expressions",
        exp.DataType: "nested values kind nullable collate",
        exp.DataTypeParam: "expression",
        exp.Date: "zone expressions",
        exp.DateDiff: "zone",
        exp.DateTrunc: "zone",
        exp.DenseRank: "expressions",
        exp.Distinct: "on",
        exp.Floor: "decimals to",
        exp.Group: "totals",
        exp.ILike: "negate",
        exp.Identifier: "global_ temporary",
        exp.In: "query unnest field is_global",
        exp.Interval: "fraction_in_string",
        exp.Is: "negate",
        exp.Join: "method global_ hint match_condition nearest directed expressions pivots",
        exp.Length: "binary encoding",
        exp.Like: "negate",
        exp.Limit: "this offset expressions",
        exp.LimitOptions: "percent with_ties",
        exp.Max: "expressions count",
        exp.Min: "expressions count",
        exp.Offset: "this expressions",
        exp.Order: "this siblings",
        exp.Ordered: "with_fill",
        exp.Rank: "expressions",
        exp.RegexpExtract: "position occurrence parameters null_if_no_match empty_if_group_missing",
        exp.RegexpFullMatch: "options",
        exp.RegexpLike: "flag full_match",
        exp.RegexpReplace: "position occurrence",
        exp.Round: "truncate",
        exp.RowNumber: "this",
        exp.Select: "kind hint into operation_modifiers exclude match laterals connect pivots prewhere qualify windows distribute "
        "sort cluster locks sample settings format options for_",
        exp.Star: "except_ replace rename ilike",
        exp.StrToDate: "nlsparam",
        exp.StrToTime: "zone target_type nlsparam",
        exp.Subquery: "match laterals joins connect pivots prewhere where group having qualify windows distribute sort cluster "
        "order limit offset locks sample settings format options for_",
        exp.Table: "laterals joins pivots hints system_time version format pattern ordinality when only partition changes "
        "rows_from sample indexed",
        exp.TimeStrToTime: "zone",
        exp.TimestampTrunc: "zone",
        exp.Trim: "expression position collation",
        exp.Trunc: "decimals",
        exp.TryCast: "format action default",
        exp.TsOrDsToDate: "format",
        exp.Union: "by_name side kind on match laterals joins connect pivots prewhere where group having qualify windows distribute "
        "sort cluster order limit offset locks sample settings format options for_",
        exp.Week: "mode",
        exp.Window: "spec alias first",
        exp.With: "recursive search cycle udfs",
    }.items()
}


def check(tree: exp.Expression) -> None:
    """Refuse a question of which some node, or some argument of a node, is not understood."""
    for node in tree.walk():
        if type(node) not in NODES:
            raise Refused(code="node-unknown", node=_word(node))
        only(node)


def only(node: exp.Expr) -> None:
    """Refuse arguments of a known node that are not understood; a node that is not known is the reader's to refuse."""
    kind = type(node)
    known = NODES.get(kind)
    if known is None:
        return
    for name, value in node.args.items():
        if name not in known and value is not None and value is not False and value != [] and name not in NO_MATTER.get(kind, ()):
            raise Refused(code="argument-unknown", node=_word(node), argument=name.strip("_").replace("_", " "))


def plain(tree: exp.Expression) -> exp.Expression:
    """The tree with every negation as a node: NOT (x IS NULL). Some dialects of sqlglot have it as an argument of IS and LIKE."""
    for node in list(tree.walk()):
        if node.args.get("negate"):
            node.set("negate", None)
            outer = exp.Not()
            if node is tree:
                tree = outer
            else:
                node.replace(outer)
            outer.set("this", node)
    return tree


def _word(node: object) -> str:
    named = getattr(node, "sql_name", None)
    return str(named() if named is not None else getattr(node, "key", "")).upper()
