"""penstock.ray.read on a real server and a real Ray, against rows that were written."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lake
import pyarrow as pa
import pytest
import ray
from lake import Lake, Row, Written
from pyiceberg.io.pyarrow import schema_to_pyarrow
from ray import cloudpickle
from ray.data.expressions import col, lit
from server import BINARY, Server

import penstock
import penstock.ray
from penstock import errors
from penstock.access import Access
from penstock.ray.held import hold_once
from penstock.ray.source import PenstockDatasource, _undivided

pytest_plugins = ["local_ray"]
pytestmark = pytest.mark.usefixtures("local_ray", "context")
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # which the workers of Ray do not find

ROWS, BATCH = 3000, 40
COLUMNS = ["row", "label", "tags", "country"]


@dataclass(frozen=True)
class World:
    """A configuration, the joined rows by `row`, and the training table."""

    config: Path
    rows: dict[int, Row]
    events: Written

    def commit(self) -> None:
        """Appends rows that no earlier plan has."""
        extra = [{**dict.fromkeys(lake.EVENTS), "row": 10**6 + i, "request_id": i} for i in range(50)]
        self.events.table.refresh()
        self.events.table.append(pa.Table.from_pylist(extra, schema_to_pyarrow(self.events.table.schema())))


def make(folder: Path, **more: Any) -> World:
    made, rng = Lake(folder), random.Random(57)
    events = made.write("ml.events", lake.EVENTS, ("request_id", 8), lake.events(rng, ROWS, 300), files=2)
    history = made.write("features.history", lake.HISTORY, ("req", 4), lake.history(rng, 300))
    joined = lake.join(events.rows, history.rows, ("request_id", "req"))
    rows = {r["row"]: {name: r[name] for name in COLUMNS} for r in joined}
    staging = [{"table": "features.history", "key": {"request_id": "req"}}]
    training = {"training": {"table": "ml.events"}, "key": ["request_id"], "staging": staging}
    distinct = {"table": "ml.events", "distinct": {"by": ["request_id"], "keep": "last", "order_by": ["row"]}}
    datasets = {"d": training, "distinct": {**training, "training": distinct}}
    return World(made.config(datasets, **more), rows, events)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make(tmp_path_factory.mktemp("read") / "lake")


@pytest.fixture(scope="session")
def address(world: World) -> Iterator[str]:
    with Server(world.config) as server:
        yield server.address


@pytest.fixture
def context() -> Iterator[ray.data.DataContext]:
    """The settings of Ray Data, which are as before in the end."""
    before = ray.data.DataContext.get_current().copy()
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    yield context
    ray.data.DataContext._set_current(before)


def read(address: str, dataset: str = "d", **fields: Any) -> ray.data.Dataset:
    query: Any = {"columns": COLUMNS, "batch_rows": BATCH, **fields}
    return penstock.ray.read(address, dataset, **query)


def rows_of(dataset: ray.data.Dataset) -> list[Row]:
    return pa.concat_tables(ray.get(dataset.to_arrow_refs())).to_pylist()


def by_row(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: int(row["row"]))


@pytest.mark.parametrize("wire", ["plain", "indexed"])
def test_each_row_comes_once(world: World, address: str, wire: str) -> None:
    found = read(address, wire=wire)
    assert found.count() == ROWS
    assert found.schema().names == COLUMNS
    assert by_row(rows_of(found)) == [world.rows[k] for k in sorted(world.rows)]


def test_tasks_for_all_cpus_are_not_divided(address: str) -> None:
    """Ray copies the rows of a divided task, and does not fuse it with the next function."""

    def operators(**options: Any) -> str:
        ds = penstock.ray.read(address, "d", columns=["row"], options=options).map_batches(
            lambda batch: batch
        )
        return str(ds.materialize().stats())

    assert "ReadPenstock->MapBatches" in operators()
    assert "ReadPenstock->SplitBlocks(2)" in operators(override_num_blocks=16)


def test_few_tasks_are_divided() -> None:
    cpus = ray.cluster_resources()["CPU"]
    assert _undivided(int(2 * cpus) - 1) == {}
    assert _undivided(int(2 * cpus)) == {"override_num_blocks": 2 * cpus}
    least = ray.data.DataContext.get_current().read_op_min_num_blocks
    assert _undivided(least) == {}, "these are read by tasks of several splits"


def test_preserve_order_gives_the_order_of_the_stream(address: str, context: ray.data.DataContext) -> None:
    query: dict[str, Any] = {"order": "shuffled", "shuffle": "splits", "seed": 3, "epoch": 2}
    context.execution_options.preserve_order = True
    with penstock.connect(address) as client, client.read("d", columns=COLUMNS, **query) as stream:
        assert rows_of(read(address, **query)) == stream.read_all().to_pylist()


def test_columns_come_as_selected(world: World, address: str) -> None:
    selected = read(address).select_columns(["country", "row"])
    assert selected.schema().names == ["country", "row"]
    found = by_row(rows_of(selected))
    assert found == [{name: world.rows[k][name] for name in ("country", "row")} for k in sorted(world.rows)]
    assert [list(row) for row in found[:1]] == [["country", "row"]]
    packed = read(address, columns=["row"], dense={"x": {"columns": ["label", "row"], "fill": 0}})
    assert rows_of(packed.select_columns(["x"]).limit(1))[0].keys() == {"x"}


CONDITIONS: dict[str, tuple[Any, bool]] = {
    "equal": (col("label") == 1, True),
    "mirrored": (lit(100) > col("row"), True),
    "text": (col("country") != "de", True),
    "junctions": (((col("row") >= 5) & (col("label") <= 0)) | col("country").is_null(), True),
    "not null": (col("label").is_not_null(), True),
    "negation": (~(col("label") == 1), False),
    "computed": (col("row") % 3 == 0, False),
    "other type": (col("row") < 100.5, False),
    "no column": (col("label").is_in([1, None]), False),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_in_the_query_mean_the_same(world: World, address: str, name: str) -> None:
    condition, pushed = CONDITIONS[name]
    source = PenstockDatasource(Access.of(address, {}), form(filter="row > 50"))
    filtered = source.apply_predicate(condition)
    assert (filtered is not source) == pushed
    if pushed:
        written = pa.Table.from_pylist(by_row(list(world.rows.values())))
        found = [row for task in filtered.get_read_tasks(1) for table in task() for row in table.to_pylist()]
        expected = [row for row in written.filter(condition.to_pyarrow()).to_pylist() if row["row"] > 50]
        assert by_row(found) == expected != []


def test_all_conditions_hold(world: World, address: str) -> None:
    """Those in the query as well as those that Ray checks."""
    found = read(address).filter(expr=(col("label") == 1) & ~(col("row") < 100))
    expected = [row for row in by_row(list(world.rows.values())) if row["label"] == 1 and row["row"] >= 100]
    assert found.count() == len(expected)
    assert by_row(rows_of(found)) == expected


def test_conditions_come_after_distinct(world: World, address: str) -> None:
    """The query's filter comes before it, and would keep another row of the last requests."""
    request = {row["row"]: row["request_id"] for row in world.events.rows}
    last = {request[row["row"]]: row for row in by_row(list(world.rows.values()))}
    found = read(address, "distinct").filter(expr=col("row") < ROWS - 20)
    assert by_row(rows_of(found)) == by_row([row for row in last.values() if row["row"] < ROWS - 20])


def test_counts_without_reading_only_if_exact(address: str) -> None:
    def sizes(**fields: Any) -> list[Any]:
        source = PenstockDatasource(Access.of(address, {}), form(**fields))
        return [task.metadata.num_rows for task in source.get_read_tasks(1)]

    assert sum(sizes()) == ROWS
    assert set(sizes(filter="label = 1")) == {None}


def test_no_row_still_has_columns(address: str) -> None:
    for nothing in ("FALSE", "row < 0"):
        found = read(address, filter=nothing)
        assert found.count() == 0
        assert found.schema().names == COLUMNS
        assert found.take_all() == []


def test_a_limit_ends_early(address: str) -> None:
    assert len(rows_of(read(address).limit(7))) == 7


@pytest.mark.parametrize("wire", ["plain", "indexed"])
def test_all_columns_have_the_order_of_plain_batches(address: str, wire: str) -> None:
    with penstock.connect(address) as client:
        whole = client.plan("d", wire="plain").schema
    found = penstock.ray.read(address, "d", wire=wire)  # type: ignore[arg-type]
    assert found.schema().base_schema.remove_metadata() == whole.remove_metadata()
    no_row = penstock.ray.read(address, "d", wire=wire, filter="row < 0")  # type: ignore[arg-type]
    assert no_row.schema().names == whole.names
    assert no_row.take_all() == []


def form(**fields: Any) -> dict[str, Any]:
    query = {"columns": COLUMNS, "batch_rows": BATCH, **fields}
    return {"dataset": "d", "endpoints": "splits", "wire": "plain", **query}


@pytest.mark.parametrize("wire", ["auto", "grouped"])
def test_other_forms_of_batches_are_refused(address: str, wire: str) -> None:
    with pytest.raises(errors.Invalid, match=r"wire: must be plain or indexed for penstock\.ray\.read"):
        read(address, wire=wire)


@pytest.mark.parametrize("name", ["cursor", "endpoints", "lanes", "limit", "shard", "tail"])
def test_fields_that_it_sets_are_refused(address: str, name: str) -> None:
    fields: dict[str, Any] = {name: 1}
    with pytest.raises(errors.Invalid, match=f"{name}: is set by penstock.ray.read"):
        read(address, **fields)


class KillOnce:
    """A function for `map_batches` that kills its process in the middle of some tasks, the first time."""

    def __init__(self, folder: Path, rows: set[int]) -> None:
        self.folder, self.rows = folder, rows

    def __call__(self, batch: pa.Table) -> pa.Table:
        for row in self.rows.intersection(batch.column("row").to_pylist()):
            try:
                (self.folder / str(row)).touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
        return batch


@pytest.mark.parametrize("ordered", [False, True])
def test_killed_workers_neither_lose_nor_repeat_rows(
    address: str, tmp_path: Path, context: ray.data.DataContext, ordered: bool
) -> None:
    context.target_max_block_size = 4000  # some blocks for each task
    context.execution_options.preserve_order = ordered
    with penstock.connect(address) as client, client.read("d", columns=COLUMNS) as stream:
        whole = stream.read_all().to_pylist()
    killed = {row["row"] for row in whole[500:2500:1000]}
    found = read(address).map_batches(
        KillOnce(tmp_path, killed), batch_format="pyarrow", batch_size=BATCH, zero_copy_batch=True
    )
    rows = rows_of(found)
    assert {int(file.name) for file in tmp_path.iterdir()} == killed
    assert (rows if ordered else by_row(rows)) == (whole if ordered else by_row(whole))


class KillServerOnce:
    """A function that kills a server in the middle of a task, the first time."""

    def __init__(self, marker: Path, pid: int) -> None:
        self.marker, self.pid = marker, pid

    def __call__(self, batch: pa.Table) -> pa.Table:
        if 1500 in batch.column("row").to_pylist() and not self.marker.exists():
            self.marker.touch()
            os.kill(self.pid, signal.SIGKILL)
        return batch


def test_a_killed_server_costs_no_row(world: World, tmp_path: Path) -> None:
    """Commits that came after the plan change nothing, either."""
    made = make(tmp_path / "lake")
    marker = tmp_path / "killed"
    with Server(made.config) as first, Server(made.config) as second:
        addresses = f"{first.address},{second.address}"
        found = read(addresses).map_batches(KillServerOnce(marker, first.pid), batch_format="pyarrow")
        made.commit()
        assert by_row(rows_of(found)) == [world.rows[k] for k in sorted(world.rows)]
        assert marker.exists()
        assert by_row(rows_of(found)) == [world.rows[k] for k in sorted(world.rows)]


def cuts(access: Access, wire: str) -> list[list[tuple[int, int]]]:
    tasks = PenstockDatasource(access, form(wire=wire)).get_read_tasks(1)
    return [[(table.num_rows, table.nbytes) for table in task()] for task in tasks]


@pytest.mark.parametrize("wire", ["plain", "indexed"])
def test_blocks_do_not_depend_on_the_way_of_batches(world: World, tmp_path: Path, wire: str) -> None:
    """Ray cuts blocks by bytes, and drops those that it has by number."""
    with Server(world.config, "--local-socket", f"{tmp_path}/s") as server:
        over_network = cuts(Access((f"grpc://{server.address}",), local=False), wire)
        mapped = cuts(Access((f"grpc://{server.address}",)), wire)
    assert over_network == mapped
    assert sum(rows for task in mapped for rows, _ in task) == ROWS


@pytest.mark.parametrize("wire", ["plain", "indexed"])
def test_blocks_do_not_depend_on_where_a_stream_resumed(address: str, wire: str) -> None:
    query: dict[str, Any] = {"columns": COLUMNS, "batch_rows": BATCH, "wire": wire}
    with penstock.connect(address) as client:

        def sizes(cursor: Any) -> list[tuple[int, Any]]:
            with client.read("d", **query, cursor=cursor) as stream:
                return [(penstock.expand(batch).nbytes, stream.cursor) for batch in stream]

        whole = sizes(None)
        for done, (_, cursor) in enumerate(whole[:-1], 1):
            assert sizes(cursor) == whole[done:]


def test_a_task_that_ends_short_fails(address: str) -> None:
    task = PenstockDatasource(Access.of(address, {}), form()).get_read_tasks(1)[0]
    reads = task.read_fn
    endpoint = reads.part.endpoints[0]
    object.__setattr__(endpoint, "rows", endpoint.rows + 1)
    with pytest.raises(
        errors.Corrupt, match=f"planned {endpoint.rows} rows, but {endpoint.rows - 1} arrived"
    ) as raised:
        list(reads())
    assert raised.value.__notes__ == [f"This was <penstock.Split 0 of d: {endpoint.rows} rows>."]


def test_a_failure_keeps_its_kind(tmp_path: Path) -> None:
    made = make(tmp_path / "lake")
    made.events.files()[0].unlink()
    with Server(made.config) as server, pytest.raises(errors.Corrupt, match=r"ml\.events") as raised:
        read(server.address).materialize()
    assert "This was <penstock.Split " in str(raised.value)


def test_secrets_are_not_pickled(world: World, tmp_path: Path) -> None:
    """Files are read where a task runs, and a client that has a secret is refused."""
    tokens = tmp_path / "tokens"
    command: list[str | Path] = [BINARY, "token", "new", "--subject", "reader", "--tokens", tokens]
    token = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    held = tmp_path / "token"
    held.write_text(token)
    with Server(world.config, "--tokens", str(tokens)) as server:
        source = PenstockDatasource(Access.of(server.address, {"token_file": held}), form())
        tasks = source.get_read_tasks(1)
        sent = cloudpickle.dumps([source, tasks])
        assert token.encode() not in sent
        again, read_again = cloudpickle.loads(sent)
        assert [task.metadata for task in again.get_read_tasks(1)] == [task.metadata for task in tasks]
        assert sum(table.num_rows for task in read_again for table in task()) == ROWS
        held.write_text("another")
        with pytest.raises(errors.Unauthenticated):
            list(tasks[0]())
        with (
            penstock.connect(server.address, token=token) as client,
            pytest.raises(errors.Invalid) as refused,
        ):
            penstock.ray.read(client, "d")
        assert "token_file=" in refused.value.remedy
        assert token not in str(refused.value)
    for name in ("token_file", "tls_roots", "tls_chain", "tls_key"):
        with pytest.raises(errors.Invalid, match=f"{name}: must be the path"):
            Access.of("127.0.0.1:1", {name: b"PEM"})  # type: ignore[misc]
    with pytest.raises(errors.Invalid, match="cannot be read on this node"):
        Access.of("127.0.0.1:1", {"tls_key": tmp_path / "none"}).settings()


def test_tickets_may_expire_before_a_dataset_is_read(world: World, tmp_path: Path) -> None:
    """As an hour later: another server, whose keys are others, has the address."""
    made = make(tmp_path / "lake")
    with Server(made.config) as server:
        found, address = read(server.address), server.address
    made.commit()
    with Server(made.config, listen=address):
        assert by_row(rows_of(found)) == [world.rows[k] for k in sorted(world.rows)]


def tags(made: World) -> set[str]:
    made.events.table.refresh()
    return {name for name in made.events.table.refs() if name != "main"}


def holding() -> set[threading.Thread]:
    gc.collect()
    return {thread for thread in threading.enumerate() if thread.name == "penstock-hold"}


def test_snapshots_are_held_as_long_as_a_dataset_is_used(tmp_path: Path) -> None:
    made = make(tmp_path / "lake", pin_tags={"keep": "1h"})
    others = holding()
    with Server(made.config) as server:
        source = PenstockDatasource(Access.of(server.address, {}), form())
        reads = source.get_read_tasks(1)[0].read_fn
        snapshot = made.events.snapshot
        made.commit()
        assert tags(made) == set(), "planning sets none"
        hold_once(reads.access, reads.form)
        assert tags(made) == {f"penstock-{snapshot}"}
        (thread,) = holding() - others
        copy = source.apply_projection({"row": "row"})
        del source
        assert thread in holding(), "a copy reads the same snapshots"
        del copy
        gc.collect()
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.timeout(240)
def test_a_lost_node_costs_no_row(address: str, tmp_path: Path) -> None:
    """In a process of its own, which has a Ray of three nodes."""
    with penstock.connect(address) as client, client.read("d", columns=["row"]) as stream:
        whole = stream.read_all().column("row").to_pylist()
    program = Path(__file__).with_name("lost_node.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(program.parent), *sys.path])}
    subprocess.run([sys.executable, program, address, tmp_path], env=environment, timeout=200, check=True)
    assert (tmp_path / "lost").exists()
    assert json.loads((tmp_path / "rows").read_text()) == whole
