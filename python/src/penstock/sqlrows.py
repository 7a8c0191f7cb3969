"""Computes rows with SQL over the tables of a server, in the user's DuckDB."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from penstock import errors
from penstock.plan import Plan
from penstock.predicates import quoted
from penstock.query import invalid
from penstock.querying import QueryCalls

# Types of nodes of a syntax tree that refer to columns only by their names, or not at all. For other nodes, such as the
# star, a position (#1) or a natural join, all columns are read.
_NAMING = frozenset(
    (
        *("SELECT_NODE", "SET_OPERATION_NODE", "CTE_NODE", "BASE_TABLE", "SUBQUERY", "JOIN", "EMPTY"),
        *(
            "ORDER_MODIFIER",
            "LIMIT_MODIFIER",
            "DISTINCT_MODIFIER",
            "COLUMN_REF",
            "FUNCTION",
            "CONSTANT",
            "CAST",
            "CASE",
        ),
        *("COMPARISON", "CONJUNCTION", "OPERATOR", "WINDOW", "BETWEEN", "COLLATE", "LAMBDA", "TYPE"),
    )
)
_SYSTEM = frozenset(("information_schema", "pg_catalog", "main", "temp", "system", "memory"))
_MAX_PARTS = 3  # of the name of a view in DuckDB

# Types that tables do not have, and the types to which their values are cast. A value that does not fit is an error.
_CASTS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "UTINYINT", "USMALLINT"), "INTEGER"),
    **dict.fromkeys(("UINTEGER", "UBIGINT", "HUGEINT", "UHUGEINT"), "BIGINT"),
    **dict.fromkeys(("TIMESTAMP_S", "TIMESTAMP_MS"), "TIMESTAMP"),
    "JSON": "VARCHAR",
}


class _Names:
    """The names in the syntax tree of a SELECT.

    Attributes:
        tables: the parts of the names of tables of the server, by the whole name.
        pinned: whether the result depends only on the text of the SELECT and these tables.
    """

    def __init__(self, tree: Any, stable: set[str]) -> None:
        self.tables: dict[str, list[str]] = {}
        self._words: set[str] = set()
        self._single: set[str] = set()
        self._defined: set[str] = set()
        self._rows: set[str] = set()  # names and aliases of tables: a row of a table as a value
        self._lasts: set[str] = set()  # last parts of references to columns
        self._calls: set[str] = set()
        self._every = self._sampled = False
        self._walk(tree)
        self._every = self._every or bool(self._rows & self._lasts)
        clock = any(
            word.startswith(("current_", "local")) or word.endswith("user") for word in self._lasts
        )  # functions without parentheses look like columns
        self.pinned = (
            self._single <= self._defined and self._calls <= stable and not clock and not self._sampled
        )

    def needs(self, columns: Sequence[str]) -> list[str]:
        """Returns the columns that the SELECT may refer to, and at least one."""
        if self._every:
            return list(columns)
        return [c for c in columns if c.lower() in self._words] or list(columns[:1])

    def _walk(self, node: Any) -> None:
        if isinstance(node, str):
            self._words.add(node.lower())
        elif isinstance(node, list):
            for one in node:
                self._walk(one)
        elif isinstance(node, dict):
            self._visit(node)
            for one in node.values():
                self._walk(one)

    def _visit(self, node: dict[str, Any]) -> None:
        kind = node.get("class") or node.get("type")
        if isinstance(kind, str) and kind and kind not in _NAMING and "null_order" not in node:
            self._every = True
        if kind == "BASE_TABLE":
            self._table(node)
        elif kind == "COLUMN_REF":
            self._lasts.add(str(node["column_names"][-1]).lower())
        elif kind in ("FUNCTION", "WINDOW"):
            self._calls.add(str(node.get("function_name", "")).lower())
        elif kind == "JOIN" and node.get("ref_type") not in ("REGULAR", "CROSS", "ASOF"):
            self._every = True
        if kind in ("SUBQUERY", "JOIN") and node.get("alias"):
            self._rows.add(str(node["alias"]).lower())
        self._every = self._every or bool(node.get("column_name_alias"))
        self._sampled = self._sampled or bool(node.get("sample"))
        for entry in (node.get("cte_map") or {}).get("map", ()):
            self._defined.add(entry["key"].lower())
            self._rows.add(entry["key"].lower())
            self._every = self._every or bool(entry["value"].get("aliases"))

    def _table(self, node: dict[str, Any]) -> None:
        parts = list((node.get("qualified_name") or {}).get("path", ())) or [
            part for key in ("catalog_name", "schema_name", "table_name") if (part := node.get(key))
        ]
        self._rows.update(name.lower() for name in (parts[-1], node.get("alias")) if name)
        whole = ".".join(parts)
        if len(parts) == 1:
            self._single.add(whole.lower())
        elif parts[0].lower() in _SYSTEM:
            self._single.add(whole)
        elif len(parts) > _MAX_PARTS:
            raise invalid(
                "sql", f"table {whole} has a name of {len(parts)} parts, and DuckDB knows at most 3"
            )
        elif node.get("at_clause"):
            raise invalid(
                "sql", f"table {whole} is read with AT; leave it out to read the last snapshot of main"
            )
        else:
            self.tables[whole] = parts


def names_in(sql: str, session: Any) -> _Names:
    """Returns the names in a SELECT, which a session of DuckDB parses.

    Raises:
        Invalid: the text is not one SELECT.
    """
    stable = "SELECT lower(function_name) FROM duckdb_functions() GROUP BY 1 HAVING bool_and(stability IS NOT DISTINCT FROM 'CONSISTENT')"
    known = {row[0] for row in session.execute(stable).fetchall()} | {"count_star"}
    written = "SELECT CAST(json_serialize_sql(CAST(? AS VARCHAR)) AS VARCHAR)"
    tree = json.loads(session.execute(written, [sql]).fetchall()[0][0])
    if tree["error"]:
        raise invalid("sql", f"DuckDB: {tree['error_message']}; write one SELECT")
    if len(tree["statements"]) != 1:
        raise invalid("sql", f"has {len(tree['statements'])} statements; write one SELECT")
    return _Names(tree["statements"][0], known)


class _Table:
    """A table of the server at one snapshot, which DuckDB may read several times.

    Attributes:
        failure: the error with which reading failed.
    """

    def __init__(self, client: QueryCalls, name: str, plan: Plan, columns: Sequence[str]) -> None:
        self._client, self._name, self._pin = client, name, plan.pin
        self._schema = pa.schema([plan.schema.field(c) for c in columns])
        self.failure: BaseException | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns a new stream of the rows. Nothing is read before the first batch."""
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self._pin["training"]["snapshot"] in (-1, "-1"):
            return  # the table has no rows
        try:
            dataset = {"training": {"table": self._name}}
            with self._client.read(dataset, columns=self._schema.names, snapshots=self._pin) as stream:
                for batch in stream:
                    yield batch.cast(self._schema) if batch.schema != self._schema else batch
        except BaseException as failure:
            self.failure = failure
            raise


class SqlRows:
    """The rows that a SELECT returns.

    Attributes:
        schema: the schema of the rows.
        id: identifies the rows; None if they depend on more than the SELECT and the snapshots of its tables.
    """

    def __init__(self, client: QueryCalls, sql: str) -> None:
        """Checks the SELECT and pins its tables. No row is read.

        Raises:
            Invalid: DuckDB refuses the SELECT, or the module duckdb is missing.
        """
        try:
            import duckdb
        except ImportError as missing:
            raise errors.Invalid(
                "sql needs the module duckdb, which is not installed", remedy="pip install duckdb"
            ) from missing
        self._error = duckdb.Error
        self._session = duckdb.connect()
        self._tables: list[_Table] = []
        self._text = sql.rstrip("; \t\r\n")
        names = self._translated(self._parse)
        plans = {table: client.plan({"training": {"table": table}}) for table in sorted(names.tables)}
        self._translated(lambda: self._provide(client, names, plans, every=True))
        self._select = self._translated(self._described)
        empty = self._translated(lambda: self._run(f"{self._select} LIMIT 0").read_all())
        self.schema: pa.Schema = empty.schema.remove_metadata()
        self._translated(lambda: self._provide(client, names, plans, every=False))
        states = [[table, plan.pin["training"]] for table, plan in plans.items()]
        digest = hashlib.sha256(json.dumps([self._text, states], sort_keys=True).encode()).hexdigest()
        self.id = f"python sql {digest}" if names.pinned else None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Computes the rows, from the first batch on. Each call computes them anew, from the same snapshots."""
        reader = self._translated(lambda: self._run(self._select))
        while (batch := self._translated(lambda: next(reader, None))) is not None:
            yield batch.replace_schema_metadata()

    def _run(self, select: str) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_stream(self._session.sql(select))

    def _translated(self, call: Any) -> Any:
        """Calls a function, and raises errors of DuckDB as Invalid, and those of reading a table as they are."""
        try:
            return call()
        except (self._error, pa.ArrowException, OSError) as failure:
            for table in self._tables:
                if table.failure is not None:
                    raise table.failure from failure
            kind = errors.Exhausted if "Out of Memory Error" in str(failure) else errors.Invalid
            raise kind(f"DuckDB: {failure}") from failure

    def _parse(self) -> _Names:
        self._session.execute("SET TimeZone = 'UTC'")
        return names_in(self._text, self._session)

    def _provide(self, client: QueryCalls, names: _Names, plans: dict[str, Plan], *, every: bool) -> None:
        """Makes the tables known to DuckDB, with all columns or those that the SELECT needs."""
        self._tables = []
        for number, (name, plan) in enumerate(plans.items()):
            columns = plan.schema.names if every else names.needs(plan.schema.names)
            table = _Table(client, name, plan, columns)
            self._tables.append(table)
            self._session.register(f"penstock_table_{number}", table)
            path = [quoted(part) for part in names.tables[name]]
            if len(path) == _MAX_PARTS:
                self._session.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {path[0]}")
            self._session.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(path[:-1])}")
            self._session.execute(
                f"CREATE OR REPLACE VIEW {'.'.join(path)} AS SELECT * FROM temp.penstock_table_{number}"
            )

    def _described(self) -> str:
        """Returns the SELECT with the casts of columns whose types tables do not have."""
        found = self._session.execute(f"DESCRIBE {self._text}").fetchall()
        seen: set[str] = set()
        casts = []
        for name, kind, *_ in found:
            if name.lower() in seen:
                raise invalid(
                    "sql", f"returns several columns named {name}; give each a name of its own with AS"
                )
            seen.add(name.lower())
            to = _CASTS.get(kind) or ("VARCHAR" if kind.startswith("ENUM(") and kind.endswith(")") else None)
            if to is not None:
                casts.append(f"CAST({quoted(name)} AS {to}) AS {quoted(name)}")
            elif "HUGEINT" in kind:
                raise invalid("sql", f"returns column {name} of type {kind}; cast its values to BIGINT")
        replaced = f" REPLACE ({', '.join(casts)})" if casts else ""
        return f"SELECT *{replaced} FROM (\n{self._text}\n)"
