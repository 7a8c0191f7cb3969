"""Ray Data's way into a query: a `ray.data.Datasource` of the splits of a plan."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

import pyarrow as pa
import ray.data
from ray.data.block import BlockMetadata
from ray.data.expressions import Expr

from penstock import answers, manifests, query
from penstock.access import Access, Files
from penstock.bound import BoundQuery, PlannedQuery
from penstock.client import Client
from penstock.fields import RunQuery
from penstock.indexed import plain_schema
from penstock.parts import Part, Query, dealt, separated, with_rows
from penstock.query import Dataset
from penstock.ray.held import Held
from penstock.ray.predicates import filter_of
from penstock.ray.tasks import ReadSplits
from penstock.servers import Servers
from penstock.signatures import lists

T = TypeVar("T")

# The query fields of which one sets the size of batches.
_SIZES = {"batch_rows", "global_batch_rows", "batch_requests"}

# Tasks for each CPU that keep all of them busy until the end, nearly.
_TASKS_OF_CPU = 2

# Bytes of a value whose size its type does not tell, for the estimate that Ray begins with.
_TEXT, _LIST = 24, 160


@lists(RunQuery, Files, Query)
def read(
    servers: Client | str | Sequence[str],
    dataset: Dataset,
    *,
    options: Mapping[str, Any] | None = None,
    **fields: Unpack[Query],
) -> ray.data.Dataset:
    """Reads every row of a query once as a `ray.data.Dataset`, for inference, evaluation and preprocessing.

    The query is planned once, here. All executions of the dataset, whenever they happen, read the snapshots of this plan.
    Each read task reads consecutive splits of the plan. `select_columns` and simple conditions of `filter` are pushed into the
    query. Blocks come in any order unless Ray's `preserve_order` is set.

    Args:
        servers: the servers' addresses as in `penstock.connect`, or a client without credentials of its own.
        dataset: the name of a dataset on the server, or a dataset as a mapping.
        options: options of `ray.data.read_datasource`, such as `concurrency` or `num_cpus`. Without `override_num_blocks`,
            tasks are not divided into more blocks if they are enough for all CPUs.
        fields: the query's other fields, and files with credentials. `wire` is `plain`, or `indexed` to send the columns of
            staging tables and requests once for all rows of a batch that repeat them; the blocks are the same.

    Raises:
        Invalid: a field is set that `read` sets itself, or the client's credentials would be pickled.
    """
    given, files = separated("penstock.ray.read", fields, wires=("plain", "indexed"))
    form = query.form(dataset, {**given, "endpoints": "splits", "wire": given.get("wire") or "plain"})
    source = PenstockDatasource(Access.of(servers, files), form)
    return ray.data.read_datasource(source, **(_undivided(source.splits) | dict(options or {})))


def _undivided(splits: int) -> dict[str, int]:
    """Returns the option with which Ray does not divide tasks into blocks, if there are enough tasks for the cluster's CPUs.

    To divide a task, Ray collects its rows, copies them, and does not fuse the task with the transforms that follow.
    """
    if not ray.is_initialized():
        ray.init()
    cpus = ray.cluster_resources().get("CPU", 1.0)
    # With this many tasks, Ray divides none, and a task may read several splits.
    undivided = ray.data.DataContext.get_current().read_op_min_num_blocks
    return {"override_num_blocks": splits} if _TASKS_OF_CPU * cpus <= splits < undivided else {}


class Plans:
    """The plans of a dataset's queries in this process. Pickling it sends only how to reach the servers."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._servers: Servers | None = None
        self._known: dict[bytes, PlannedQuery] = {}
        self._held: Held | None = None

    def of(self, form: Mapping[str, Any]) -> PlannedQuery:
        """Returns the plan of a query, the same one each time."""
        text = query.text(form)
        if text not in self._known:
            self._known[text] = self._ask(form, BoundQuery.plan)
        return self._known[text]

    def is_distinct(self, form: Mapping[str, Any]) -> bool:
        """Reports whether the query's dataset drops repeated rows, and also if the caller may not know."""
        return manifests.is_distinct(lambda: self._ask(form, manifests.ask))

    def hold(self, form: Mapping[str, Any]) -> None:
        """Holds the snapshots of a pinned query as long as this object is in use."""
        self._held = Held(self._access, form)

    def _ask(self, form: Mapping[str, Any], ask: Callable[[BoundQuery], T]) -> T:
        if self._servers is None:
            self._servers = Servers(self._access.settings())
            weakref.finalize(self, self._servers.close)
        bound = BoundQuery(self._servers, form)
        return self._servers.retried(lambda: ask(bound))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Plans, (self._access,))


class PenstockDatasource(ray.data.Datasource):
    """The splits of a query's plan.

    Copies of it, with fewer columns or rows, read the same snapshots. A process that unpickles it plans again, at these
    snapshots.
    """

    def __init__(self, access: Access, form: Mapping[str, Any]) -> None:
        """Plans a query, and holds its snapshots as long as this object or a copy is in use in this process.

        Args:
            access: the servers.
            form: the query with `endpoints: splits`, and plain or indexed batches.
        """
        super().__init__()
        self._access = access
        self._plans = Plans(access)
        # Its columns have the order of plain batches.
        plan = self._plans.of({**form, "wire": "plain"}).plan
        packed = form.get("dense", {})
        # A dataset that gets another column meanwhile, or a server with another batch size, changes nothing.
        self._form: dict[str, Any] = {
            "columns": [name for name in plan.schema.names if name not in packed],
            **({} if _SIZES & form.keys() else {"batch_rows": plan.batch_rows}),
            **form,
            "snapshots": plan.pin,
        }
        self._plans.hold(self._form)
        self._whole = plan.schema
        self._names = tuple(plan.schema.names)
        self._condition: Expr | None = None

    @property
    def splits(self) -> int:
        """The number of splits with rows."""
        return len(with_rows(self._plans.of(self._selected())))

    def get_name(self) -> str:
        """The name of the read tasks."""
        return "Penstock"

    def estimate_inmemory_data_size(self) -> int | None:
        """The estimated bytes of all rows; None if their number is unknown."""
        return answers.total(task.metadata.size_bytes for task in self.get_read_tasks(1))

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: ray.data.DataContext | None = None,  # noqa: ARG002 - Ray's signature
    ) -> list[ray.data.ReadTask]:
        """Tasks of consecutive splits that join the same staging files; without any row, one task that returns the schema.

        A task has at most one `parallelism`th of the rows, unless it has a single split.
        """
        form = self._selected()
        found = self._plans.of(form)
        whole = plain_schema(found.plan.schema)
        schema = pa.schema([whole.field(name) for name in self._names])
        width = sum(_width(field.type) for field in schema)
        tasks = []
        for part in dealt(found.plan, with_rows(found), parallelism) or [Part(found.plan, (), 0)]:
            reads = ReadSplits(self._access, form, part, self._names)
            about = BlockMetadata(
                num_rows=reads.rows,
                size_bytes=None if reads.rows is None else reads.rows * width,
                exec_stats=None,
                input_files=None,
            )
            tasks.append(ray.data.ReadTask(reads, about, schema, per_task_row_limit))
        return tasks

    def supports_projection_pushdown(self) -> bool:
        """Whether columns can be selected in the query."""
        return True

    def get_projection_map(self) -> dict[str, str] | None:
        """The selected columns; None for all."""
        return None if self._names == tuple(self._whole.names) else {name: name for name in self._names}

    def apply_projection(self, projection_map: Mapping[str, str] | None) -> PenstockDatasource:
        """Returns a copy that reads only these columns, in this order; for no column, the narrowest one."""
        out = copy.copy(self)
        if projection_map is not None:
            names = tuple(name for name in projection_map if name in self._names)
            # Without any column, a block has no number of rows.
            out._names = names or (min(self._whole, key=lambda field: _width(field.type)).name,)
        return out

    def supports_predicate_pushdown(self) -> bool:
        """Whether conditions can be added to the query's filter."""
        return True

    def get_current_predicate(self) -> Expr | None:
        """The conditions that were added; None if there are none."""
        return self._condition

    def apply_predicate(self, predicate_expr: Expr) -> PenstockDatasource:
        """Returns a copy with a condition in the query's filter; this object if the filter would not mean the same."""
        # Only columns under their own names are columns of a filter.
        plain = [name for name in self._form["columns"] if isinstance(name, str)]
        more = filter_of(predicate_expr, pa.schema([self._whole.field(name) for name in plain]))
        # Of equal rows, `distinct` keeps one among those that pass the filter, but Ray's condition comes after it.
        if more is None or self._plans.is_distinct(self._form):
            return self
        out = copy.copy(self)
        out._form = {
            **self._form,
            "filter": f"({self._form['filter']}) AND {more}" if self._form.get("filter") else more,
        }
        out._condition = predicate_expr if self._condition is None else self._condition & predicate_expr
        return out

    def _selected(self) -> dict[str, Any]:
        """The query with the selected columns."""
        names = self._names
        if set(names) == set(self._whole.names):
            return self._form
        plain = self._form["columns"]
        # A query has at least one column beside those that it packs.
        columns = [one for one in plain if _output(one) in names] or plain[:1]
        packed = {name: pack for name, pack in self._form.get("dense", {}).items() if name in names}
        rest = {name: value for name, value in self._form.items() if name != "dense"}
        return {**rest, "columns": columns, **({"dense": packed} if packed else {})}


def _output(column: str | Mapping[str, Any]) -> str:
    """Returns the name that a column has in batches."""
    return column if isinstance(column, str) else str(column.get("name", column["column"]))


def _width(of: pa.DataType) -> int:
    """Returns the estimated bytes of a value."""
    if pa.types.is_fixed_size_list(of):
        return int(of.list_size) * _width(of.value_type)
    if pa.types.is_struct(of):
        return sum(_width(field.type) for field in of)
    if pa.types.is_nested(of):
        return _LIST
    try:
        return max(1, int(of.bit_width) // 8)
    except ValueError:
        return _TEXT
