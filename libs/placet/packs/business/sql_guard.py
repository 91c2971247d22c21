"""What a model may ask of the database: one SELECT, rebuilt from a tree in which every node is on an allow-list.

The text that runs is written from the checked tree, never the text that came in, so a difference between this parser
and PostgreSQL's cannot smuggle anything through. Whatever is not listed here is refused: new syntax fails closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

MAX_SQL_CHARS = 4000
MAX_DEPTH = 60

_UNARY = ("this",)
_BINARY = ("this", "expression")

# Node class -> the parts it may have. A part that is set but not named here (locks, into, with, sample ...) is refused.
_SHAPES: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Select: ("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct"),
    exp.Distinct: ("expressions",),
    exp.From: _UNARY,
    exp.Join: ("this", "on", "using", "side", "kind"),
    exp.Where: _UNARY,
    exp.Having: _UNARY,
    exp.Group: ("expressions",),
    exp.Order: ("expressions",),
    exp.Ordered: ("this", "desc", "nulls_first"),
    exp.Limit: ("expression",),
    exp.Offset: ("expression",),
    exp.Subquery: ("this", "alias"),
    exp.Table: ("this", "db", "alias"),
    exp.TableAlias: _UNARY,
    exp.Alias: ("this", "alias"),
    exp.Column: ("this", "table"),
    exp.Identifier: ("this", "quoted"),
    exp.Literal: ("this", "is_string"),
    exp.Star: (),
    exp.Null: (),
    exp.Boolean: _UNARY,
    exp.Paren: _UNARY,
    exp.Not: _UNARY,
    exp.Neg: _UNARY,
    exp.And: _BINARY,
    exp.Or: _BINARY,
    exp.EQ: _BINARY,
    exp.NEQ: _BINARY,
    exp.GT: _BINARY,
    exp.GTE: _BINARY,
    exp.LT: _BINARY,
    exp.LTE: _BINARY,
    exp.Is: ("this", "expression", "negate"),
    exp.Like: _BINARY,
    exp.ILike: _BINARY,
    exp.Add: _BINARY,
    exp.Sub: _BINARY,
    exp.Mul: _BINARY,
    exp.Div: ("this", "expression", "typed", "safe"),
    exp.Mod: _BINARY,
    exp.DPipe: ("this", "expression", "safe"),
    exp.Between: ("this", "low", "high"),
    exp.In: ("this", "expressions", "query"),
    exp.Exists: _UNARY,
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true"),
    exp.Cast: ("this", "to"),
    exp.DataType: ("this", "expressions", "nested"),
    exp.DataTypeParam: _UNARY,
    exp.Count: ("this", "big_int"),
    exp.Sum: _UNARY,
    exp.Avg: _UNARY,
    exp.Min: _UNARY,
    exp.Max: _UNARY,
    exp.Abs: _UNARY,
    exp.Lower: _UNARY,
    exp.Upper: _UNARY,
    exp.Length: _UNARY,
    exp.Round: ("this", "decimals"),
    exp.Coalesce: ("this", "expressions"),
    exp.Nullif: _BINARY,
    exp.TimestampTrunc: ("this", "unit"),
    exp.Extract: _BINARY,
    exp.Var: _UNARY,
    exp.CurrentDate: (),
    exp.CurrentTimestamp: (),
}

# Parts that are plain values, not nodes, and would be written into the text as they are.
_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "DOW"})
_JOIN_WORDS = frozenset({"", "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "CROSS"})
_TYPES = frozenset(
    {
        exp.DType.TEXT,
        exp.DType.INT,
        exp.DType.BIGINT,
        exp.DType.DECIMAL,
        exp.DType.DATE,
        exp.DType.TIMESTAMP,
        exp.DType.TIMESTAMPTZ,
        exp.DType.BOOLEAN,
    }
)
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?")


class SqlRefusedError(ValueError):
    """The text is not a query this tool runs. `str(error)` names the first thing that was in the way."""


def compile_select(sql: str, tables: Mapping[str, frozenset[str]], schema: str, max_rows: int) -> str:
    """The one SELECT in `sql`, rewritten over `schema`'s views, every name quoted, with at most `max_rows` rows.

    `tables` names the readable views and their columns. Raises `SqlRefusedError` for everything else.
    """
    tree = _parse(sql)
    nodes = list(_walk(tree))
    for node in nodes:
        _check_shape(node)
        _check_value(node)
        _check_source(node)
    _check_names(nodes, tables, schema)
    _limit(tree, max_rows)
    return tree.sql(dialect="postgres", identify=True, comments=False)


def _parse(sql: str) -> exp.Select:
    if len(sql) > MAX_SQL_CHARS:
        raise SqlRefusedError(f"longer than {MAX_SQL_CHARS} characters")
    if any(not char.isprintable() and char not in "\n\r\t" for char in sql):
        raise SqlRefusedError("control characters")
    try:
        statements = [found for found in sqlglot.parse(sql, dialect="postgres") if found is not None]
    except (SqlglotError, RecursionError) as error:
        raise SqlRefusedError("not a query this parser understands") from error
    if len(statements) != 1:
        raise SqlRefusedError("exactly one statement is allowed")
    tree = statements[0]
    if type(tree) is not exp.Select:
        raise SqlRefusedError("only SELECT is allowed")
    return tree


def _walk(root: exp.Expr) -> Iterator[exp.Expr]:
    pending: list[tuple[exp.Expr, int]] = [(root, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise SqlRefusedError("nested too deeply")
        yield node
        pending.extend((child, depth + 1) for child in node.iter_expressions())


def _check_shape(node: exp.Expr) -> None:
    # The exact class: a subclass may be written as something else entirely.
    allowed = _SHAPES.get(type(node))
    if allowed is None:
        raise SqlRefusedError(f"{type(node).__name__} is not allowed")
    for part, value in node.args.items():
        if value not in (None, False, []) and part not in allowed:
            raise SqlRefusedError(f"{part.strip('_')} in {type(node).__name__} is not allowed")


def _check_value(node: exp.Expr) -> None:
    if isinstance(node, exp.Identifier):
        if not node.args.get("quoted"):
            node.set("this", node.name.lower())  # as PostgreSQL folds it; every name is quoted on the way out
        if not _NAME.fullmatch(node.name):
            raise SqlRefusedError("a name outside a-z, 0-9 and _")
    elif isinstance(node, exp.Literal):
        if not node.is_string and not _NUMBER.fullmatch(node.name):
            raise SqlRefusedError("a number this tool does not take")
        if node.is_string and "\\" in node.name:
            raise SqlRefusedError("a backslash in a text")
    elif isinstance(node, exp.Var):
        if node.name.upper() not in _UNITS:
            raise SqlRefusedError("an unknown unit of time")
    elif isinstance(node, exp.Join):
        if {str(node.args.get(part) or "").upper() for part in ("side", "kind")} - _JOIN_WORDS:
            raise SqlRefusedError("this kind of join")
    elif isinstance(node, exp.DataType) and node.this not in _TYPES:
        raise SqlRefusedError("this type")


def _check_source(node: exp.Expr) -> None:
    """A query without parentheses in place of a table would be written as words that mean something else."""
    if isinstance(node, exp.Select) and not node.expressions:
        raise SqlRefusedError("a SELECT of nothing")
    if isinstance(node, exp.From | exp.Join) and not isinstance(node.this, exp.Table | exp.Subquery):
        raise SqlRefusedError("only a table or a query in parentheses can be read from")


def _check_names(nodes: list[exp.Expr], tables: Mapping[str, frozenset[str]], schema: str) -> None:
    """Every table is a view of the list, every column one of theirs or a name that the query itself gives."""
    used = [table for table in nodes if isinstance(table, exp.Table)]
    for table in used:
        if not isinstance(table.this, exp.Identifier) or table.name not in tables or table.db not in ("", "business"):
            raise SqlRefusedError(f"only these tables can be read: {', '.join(sorted(tables))}")
    stored = frozenset().union(*(tables[table.name] for table in used))
    given = {node.alias for node in nodes if isinstance(node, exp.Alias)}
    derived = _derived(nodes, {table.alias_or_name for table in used}, stored)
    for column in (node for node in nodes if isinstance(node, exp.Column)):
        # "o.f" calls the function f on the row o when there is no column f: a given name counts only where it is given.
        known = derived.get(column.table, stored) if column.table else stored | given
        if not isinstance(column.this, exp.Star) and column.name not in known:
            raise SqlRefusedError(f"unknown column {column.name}")
    for table in used:
        if not table.alias:  # "orders.state" must mean the same after the schema is put in front
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        table.set("db", exp.to_identifier(schema, quoted=True))


def _derived(nodes: list[exp.Expr], taken: set[str], stored: frozenset[str]) -> dict[str, frozenset[str]]:
    """The columns of each named subquery. Its name must be its own: scopes are not told apart here."""
    found: dict[str, frozenset[str]] = {}
    for query in (node for node in nodes if isinstance(node, exp.Subquery) and node.alias):
        if query.alias in taken or query.alias in found:
            raise SqlRefusedError(f"the name {query.alias} is used twice")
        columns = frozenset(column.alias_or_name for column in query.unnest().expressions)
        found[query.alias] = columns | stored if "*" in columns else columns
    return found


def _limit(tree: exp.Select, max_rows: int) -> None:
    asked = tree.args.get("limit")
    if asked is None:
        tree.limit(max_rows, copy=False)
        return
    if not isinstance(asked.expression, exp.Literal) or asked.expression.is_string:
        raise SqlRefusedError("LIMIT takes a plain number")
    if float(asked.expression.name) > max_rows:
        tree.limit(max_rows, copy=False)
