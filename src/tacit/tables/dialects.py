"""What other dialects say, in ours: the same word where its meaning differs, and BigQuery's way of asking privately.

sqlglot reads each dialect's grammar; what a word computes it mostly leaves as it stands. CAST(2.7 AS INT) is 2 in Spark and 3 in
PostgreSQL, DAYOFWEEK counts from 0 in DuckDB and from 1 in MySQL, a week begins on Sunday in Transact-SQL. Each such node gets a mark that
`tacit.tables.expressions` obeys, so that an answer is what the plain query would have given, on whatever engine it runs.

>>> from sqlglot import parse_one
>>> tree = spoken(parse_one("SELECT CAST(x AS INT), DAYOFWEEK(d) FROM t", read="spark"), "spark")
>>> tree.expressions[0].meta["truncates"], tree.expressions[1].meta["sunday"]
(True, 1)
>>> spoken(parse_one("SELECT STDEVP(x), CONVERT(DATE, d) FROM t", read="tsql"), "tsql").sql()
'SELECT STDDEV_POP(x), CAST(d AS DATE) FROM t'

SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(...) becomes plain SQL and what it says about price and unit:

>>> text = '''SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=2, privacy_unit_column=id)
...     region, SUM(cost, contribution_bounds_per_group => (0, 100)) AS cost FROM visits GROUP BY region'''
>>> plain, asked = understood(text)
>>> plain.split(" FROM")[0].split("region, ")[1], asked.epsilon, asked.max_groups, asked.person
('SUM(contribution_bounds_per_group_(cost, 0, 100)) AS cost', '1', 2, 'id')

Bounds per group clamp what one person adds to one group. `per_group` says that with plain bounds: first each person's total in each
group, one row each, then the sum of those rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import Dialect, Token, TokenType, exp
from sqlglot.dialects.dialect import Dialects
from sqlglot.errors import SqlglotError

from tacit.tables import grammar
from tacit.tables.errors import Refused, TableError

#: Where a fraction that becomes a whole number loses its decimals; elsewhere it is rounded.
TRUNCATES = frozenset({"spark", "spark2", "databricks", "hive", "tsql", "fabric", "sqlite", "clickhouse", "teradata"})
#: Where a double halfway between two whole numbers becomes the even one; elsewhere it is rounded up here.
_TO_EVEN = frozenset({"duckdb", "postgres"})
#: The size of a plain DECIMAL, where it has one.
_DECIMALS = {
    "duckdb": (18, 3), "spark": (10, 0), "spark2": (10, 0), "databricks": (10, 0), "hive": (10, 0), "mysql": (10, 0), "tsql": (18, 0),
    "snowflake": (38, 0), "redshift": (18, 0),
}  # fmt: skip
#: The number that Sunday has, for the functions that differ; a dialect that is not here has none that could be relied on.
_SUNDAY_DAYOFWEEK = {"duckdb": 0, "snowflake": 0, "mysql": 1, "spark": 1, "spark2": 1, "databricks": 1, "hive": 1, "bigquery": 1}
_SUNDAY_DOW = {"duckdb": 0, "postgres": 0, "redshift": 0, "snowflake": 0, "spark": 1, "spark2": 1, "databricks": 1, "hive": 1}
#: Where WEEK is the ISO week, which begins on Monday.
_ISO_WEEKS = frozenset(
    {"duckdb", "postgres", "redshift", "spark", "spark2", "databricks", "hive", "snowflake", "trino", "presto", "athena"}
)
#: Names that sqlglot leaves as they are.
_AGGREGATES: dict[str, dict[str, type[exp.Expression]]] = {
    "tsql": {"STDEVP": exp.StddevPop, "VARP": exp.VariancePop, "VAR": exp.Variance},
    "spark": {"STD": exp.StddevSamp},
    "databricks": {"STD": exp.StddevSamp},
}
#: Where 1e3 is a decimal; elsewhere a number with an exponent is a double.
_EXACT_EXPONENTS = frozenset({"postgres", "redshift", "snowflake", "oracle"})
#: Marks on a node, and what they say.
TRUNCATING, TO_EVEN, SUNDAY, OTHER_WEEK, FLOATING = "truncates", "to even", "sunday", "other week", "floating"


def known_dialect(name: str) -> str:
    """The name of a dialect that questions may be written in.

    >>> known_dialect("Snowflake")
    'snowflake'
    >>> known_dialect("latin")
    Traceback (most recent call last):
    ...
    tacit.tables.errors.TableError: dialect must be the name of one, such as 'duckdb', 'postgres', 'spark', 'bigquery', 'tsql', not 'latin'
    """
    plain = name.lower() if isinstance(name, str) else ""
    if not plain or plain not in {dialect.value for dialect in Dialects} or Dialect.get(plain) is None:
        raise TableError(f"dialect must be the name of one, such as 'duckdb', 'postgres', 'spark', 'bigquery', 'tsql', not {name!r}")
    return plain


def spoken(tree: exp.Expression, dialect: str) -> exp.Expression:
    """The tree of a question in a dialect, with what differs between dialects said."""
    made: exp.Expression = grammar.plain(tree).transform(lambda node: _meant(node, dialect), copy=False)
    return made


def _meant(node: exp.Expression, dialect: str) -> exp.Expression:
    match node:
        case exp.Convert():
            if node.args.get("style") is None:
                cast = exp.TryCast if node.args.get("safe") else exp.Cast
                return _meant(cast(this=node.expression, to=node.this), dialect)
        case exp.Cast():
            if dialect in TRUNCATES:
                node.meta[TRUNCATING] = True
            elif dialect in _TO_EVEN:
                node.meta[TO_EVEN] = dialect
            _default_size(node.args["to"], dialect)
        case exp.Round():
            if dialect in ("postgres", "redshift"):
                node.meta[TO_EVEN] = dialect
        case exp.Literal():
            if not node.is_string and "e" in node.this.lower() and dialect not in _EXACT_EXPONENTS:
                node.meta[FLOATING] = True
        case exp.Anonymous():
            function = _AGGREGATES.get(dialect, {}).get(node.name.upper())
            if function is not None and len(node.expressions) == 1:
                return function(this=node.expressions[0])
        case exp.DayOfWeek():
            _mark(node, SUNDAY, _SUNDAY_DAYOFWEEK.get(dialect))
        case exp.Extract():
            part = node.this.name.upper()
            if part in ("DOW", "DAYOFWEEK"):
                _mark(node, SUNDAY, (_SUNDAY_DOW if part == "DOW" else _SUNDAY_DAYOFWEEK).get(dialect))
            elif part == "WEEK" and dialect not in _ISO_WEEKS:
                node.meta[OTHER_WEEK] = dialect
        case exp.Week() | exp.WeekOfYear() | exp.TimestampTrunc() | exp.DateTrunc():
            if dialect not in _ISO_WEEKS:
                node.meta[OTHER_WEEK] = dialect
        case exp.RawString():
            return exp.Literal.string(node.this)
        case exp.Length():
            if dialect == "bigquery":
                # Of a text BigQuery counts characters; sqlglot cannot know that it is one, and here nothing else can be counted.
                node.set("binary", None)
    return node


def _default_size(to: exp.Expression, dialect: str) -> None:
    """DECIMAL without a size is of the dialect's own."""
    size = _DECIMALS.get(dialect)
    if to.this == exp.DataType.Type.DECIMAL and not to.expressions and size is not None:
        to.set("expressions", [exp.DataTypeParam(this=exp.Literal.number(part)) for part in size])


def _mark(node: exp.Expression, name: str, value: int | None) -> None:
    if value is not None:
        node.meta[name] = value


# --- SELECT WITH DIFFERENTIAL_PRIVACY --------------------------------------------------------------------------------

_START = re.compile(r"\bSELECT\s+WITH\s+DIFFERENTIAL_PRIVACY\b", re.IGNORECASE)
_BOUNDS = ("contribution_bounds_per_group", "contribution_bounds_per_row")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?|\.[0-9]+")
MARKS = tuple(f"{name}_" for name in _BOUNDS)


@dataclass(frozen=True)
class Asked:
    """What the question says about its own price and unit, as BigQuery's OPTIONS do; None where it is silent."""

    epsilon: str | None = None
    delta: str | None = None
    max_groups: int | None = None
    rows_per_group: int | None = None
    person: str | None = None
    public_groups: bool = False


def understood(text: str) -> tuple[str, Asked]:
    """Plain SQL, and what the options say; other texts are handed back as they are.

    Contribution bounds may also stand in a plain SELECT: AVG(cost, contribution_bounds_per_row => (0, 500)).
    """
    if not _START.search(text):
        bounded = any(name in text.lower() for name in _BOUNDS)
        return (_edited(text, _marked(_tokens(text), 0)) if bounded else text), Asked()
    tokens = _tokens(text)
    words = [token.text.upper() for token in tokens]
    starts = [i for i in range(len(words) - 2) if words[i : i + 3] == ["SELECT", "WITH", "DIFFERENTIAL_PRIVACY"]]
    if not tokens or not starts:
        raise TableError("SELECT WITH DIFFERENTIAL_PRIVACY could not be read; is a quote left open?")
    if len(starts) > 1:
        raise Refused("only the outermost SELECT may be WITH DIFFERENTIAL_PRIVACY")
    first = starts[0] + 1
    edits: list[tuple[int, int, str]] = []
    asked, last = Asked(), first + 1
    if first + 2 < len(words) and words[first + 2] == "OPTIONS":
        last = _closing(tokens, first + 3)
        asked = _options(tokens[first + 4 : last])
    edits.append((tokens[first].start, tokens[last].end + 1, ""))
    edits += _marked(tokens, last + 1)
    return _edited(text, edits), asked


def _tokens(text: str) -> list[Token]:
    from sqlglot.dialects.bigquery import BigQuery  # most questions are not asked in this way

    try:
        return list(BigQuery().tokenize(text))
    except (SqlglotError, ValueError, IndexError):
        return []


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _closing(tokens: list[Token], opening: int) -> int:
    depth = 0
    for place in range(opening, len(tokens)):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[place].token_type, 0)
        if depth == 0:
            break
    else:
        raise TableError("OPTIONS must be followed by a list in parentheses: OPTIONS(epsilon = 1, delta = 1e-6)")
    if place == opening:
        raise TableError("OPTIONS must be followed by a list in parentheses: OPTIONS(epsilon = 1, delta = 1e-6)")
    return place


def _options(tokens: list[Token]) -> Asked:
    found: dict[str, str] = {}
    names = ("epsilon", "delta", "max_groups_contributed", "privacy_unit_column", "group_selection_strategy")
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.COMMA:
            parts.append([])
        else:
            parts[-1].append(token)
    for part in parts if tokens else []:
        if len(part) < 3 or part[1].token_type != TokenType.EQ:
            raise TableError(f"an option is written name = value; options are {', '.join(names)}")
        name = part[0].text.lower()
        if name not in names or name in found:
            raise TableError(f"an option of WITH DIFFERENTIAL_PRIVACY must be one of {', '.join(names)}, each once")
        found[name] = "".join(token.text for token in part[2:])
    for name in ("epsilon", "delta"):
        if name in found and not _NUMBER.fullmatch(found[name]):
            raise TableError(f"the option {name} must be a number such as 1 or 1e-6")
    groups = found.get("max_groups_contributed")
    if groups is not None and groups.upper() != "NULL" and not (groups.isdigit() and int(groups[:9]) >= 1 and len(groups) <= 9):
        raise TableError("the option max_groups_contributed must be a whole number of at least 1")
    strategy = found.get("group_selection_strategy", "LAPLACE_THRESHOLD").upper()
    if strategy not in ("LAPLACE_THRESHOLD", "PUBLIC_GROUPS"):
        raise TableError("the option group_selection_strategy must be LAPLACE_THRESHOLD or PUBLIC_GROUPS")
    most = int(groups) if groups is not None and groups.isdigit() else None
    return Asked(found.get("epsilon"), found.get("delta"), most, None, found.get("privacy_unit_column"), strategy == "PUBLIC_GROUPS")


def _marked(tokens: list[Token], start: int) -> list[tuple[int, int, str]]:
    """`SUM(x, contribution_bounds_per_row => (0, 1))` becomes `SUM(contribution_bounds_per_row_(x, 0, 1))`, which any parser reads."""
    edits: list[tuple[int, int, str]] = []
    opened: list[int] = []
    for place in range(start, len(tokens)):
        token = tokens[place]
        if token.token_type == TokenType.L_PAREN:
            opened.append(place)
        elif token.token_type == TokenType.R_PAREN and opened:
            opened.pop()
        elif token.text.lower() in _BOUNDS:
            arrow = place + 1 < len(tokens) and tokens[place + 1].text == "=>"
            closing = _closing(tokens, place + 2) if arrow and place + 2 < len(tokens) else None
            if not opened or closing is None or tokens[place - 1].token_type != TokenType.COMMA:
                raise TableError(f"{token.text.lower()} is written behind the value: SUM(x, {token.text.lower()} => (0, 100))")
            edits.append((tokens[opened[-1]].end + 1, tokens[opened[-1]].end + 1, f"{token.text.lower()}_("))
            edits.append((token.start, tokens[place + 2].end + 1, ""))
    return edits


def per_group(tree: exp.Select, person: str | None, most: int | None = None) -> exp.Select:
    """The same question with bounds of rows: each person's total in each group is one row of a sub-query.

    A COUNT beside them without bounds of its own counts at most so many rows of a person in a group, as the caps do.
    """
    marked = [node for node in tree.walk() if isinstance(node, exp.Anonymous) and node.name.lower() == MARKS[0]]
    if not marked:
        return tree
    if person is None:
        raise Refused(code="person-needed", what="contribution_bounds_per_group")
    from tacit.tables.question import named_key

    group = tree.args.get("group")
    keys: list[Any] = [named_key(key, tree.expressions) for key in (group.expressions if group is not None else [])]
    inner: list[exp.Expression] = [exp.column(person, quoted=True)]
    named: list[Any] = [exp.alias_(key.copy(), f"key_{i}_", quoted=True) for i, key in enumerate(keys)]
    inner += named
    values: list[exp.Expression] = []

    def outer(node: Any) -> Any:
        if node in keys:
            return exp.column(f"key_{keys.index(node)}_", quoted=True)
        if not isinstance(node, exp.AggFunc):
            return node
        mark = node.this
        if isinstance(node, exp.Count) and most is not None and (mark is None or isinstance(mark, (exp.Star, exp.Column))):
            counted = [mark.copy() if mark is not None else exp.Star(), exp.Literal.number(0), exp.Literal.number(most)]
            mark = exp.Anonymous(this=MARKS[0], expressions=counted)
        if not isinstance(node, (exp.Sum, exp.Count, exp.Avg)) or not isinstance(mark, exp.Anonymous) or mark.name.lower() != MARKS[0]:
            raise Refused(
                "where one aggregate has contribution_bounds_per_group, each must be a COUNT, or a SUM or AVG with them; "
                "ask for others apart"
            )
        own = node.copy()
        own.set("this", mark.expressions[0].copy())
        if own not in values:
            values.append(own)
        named = exp.Anonymous(
            this=MARKS[1], expressions=[exp.column(f"value_{values.index(own)}_", quoted=True), *(e.copy() for e in mark.expressions[-2:])]
        )
        return exp.Avg(this=named) if isinstance(node, exp.Avg) else exp.Sum(this=named)

    made = exp.Select()
    projections = []
    for projection in tree.expressions:
        shown = projection.alias or (projection.name if isinstance(projection, exp.Column) else _plain_text(projection.unalias()))
        projections.append(exp.alias_(projection.unalias().copy().transform(outer), shown, quoted=True))
    made.set("expressions", projections)
    for part in ("having", "order", "limit"):
        if tree.args.get(part) is not None:
            made.set(part, tree.args[part].copy().transform(outer))
    below = exp.Select(expressions=[*inner])
    for part in ("from_", "joins", "where", "with_"):
        if tree.args.get(part):
            value = tree.args[part]
            below.set(part, [v.copy() for v in value] if isinstance(value, list) else value.copy())
    for i, value in enumerate(values):
        below.append("expressions", exp.alias_(value, f"value_{i}_", quoted=True))
    below.set("group", exp.Group(expressions=[exp.column(person, quoted=True), *(key.copy() for key in keys)]))
    made = made.from_(exp.Subquery(this=below, alias=exp.TableAlias(this=exp.to_identifier("totals_"))), copy=False)
    if keys:
        made.set("group", exp.Group(expressions=[exp.column(f"key_{i}_", quoted=True) for i in range(len(keys))]))
    return made


def _plain_text(node: exp.Expression) -> str:
    """The default name of a column, without our marks."""

    def unmarked(inner: exp.Expression) -> exp.Expression:
        return inner.expressions[0] if isinstance(inner, exp.Anonymous) and inner.name.lower() in MARKS else inner

    return node.copy().transform(unmarked).sql().lower()


def settled(asked: Asked, person: str | None, totals: bool) -> Asked:
    """The options, once the session's unit is known."""
    if asked.person is not None and person is not None and asked.person.lower() != person.lower():
        raise Refused(f"privacy_unit_column is {asked.person}, and the declared unit is {person}")
    return replace(asked, rows_per_group=1) if totals else asked
