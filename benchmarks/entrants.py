"""The contenders: name, module, server, and the points at which each is measured."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

# What a contender reads from: a server in a process of its own, or nothing.
Serves = Literal["penstock", "duckdb", "echo", "nothing"]


@dataclasses.dataclass(frozen=True)
class Entrant:
    """One contender.

    `over` is how client and server talk. `batch_rows` are those measured with one lane, `lanes` those measured
    with batches of 8,192 rows besides. `query` is what Penstock is asked beside data set and batch size.
    Contenders that do not join are floors, and are measured once, beside left joins. `datasets` are those that
    the contender reads by default; none: all. `by_default`: whether it also runs without being named.
    """

    name: str
    title: str
    module: str
    batch_rows: tuple[int, ...]
    serves: Serves = "nothing"
    over: Literal["tcp", "unix", "local"] = "tcp"
    joins: bool = True
    lanes: tuple[int, ...] = ()
    query: tuple[tuple[str, Any], ...] = ()
    datasets: tuple[str, ...] = ()
    by_default: bool = True


PENSTOCK = "penstock"
PENSTOCK_INDEXED = "penstock-indexed"
PENSTOCK_SHUFFLED = "penstock-shuffled"
PENSTOCK_LOCAL = "penstock-local"
PENSTOCK_LOCAL_INDEXED = "penstock-local-indexed"
DUCKDB = "duckdb"
DUCKDB_FLIGHT = "duckdb-flight"
DUCKDB_TORCH = "duckdb-torch"
POLARS = "polars"
POLARS_LOOP = "polars-loop"
DATAFUSION = "datafusion"
ECHO = "echo"
ECHO_INDEXED = "echo-indexed"

DEFAULT_ROWS = 8_192
_ALL = (1_024, DEFAULT_ROWS, 65_536)
_ENGINE = (DEFAULT_ROWS, 65_536)
_ONE = (DEFAULT_ROWS,)
# TPC-H's rows lie in random order: indexed, nearly as much is sent.
_INDEXED = ("t", "t_inner", "t_scattered", "wide")

ENTRANTS = (
    Entrant(PENSTOCK, "**Penstock**", "penstock_flight", _ALL, "penstock", lanes=(8,)),
    Entrant(
        PENSTOCK_INDEXED,
        "**Penstock, indexed**",
        "penstock_indexed",
        _ALL,
        "penstock",
        lanes=(8,),
        datasets=_INDEXED,
    ),
    Entrant(
        PENSTOCK_SHUFFLED,
        "**Penstock, shuffled**",
        "penstock_flight",
        _ONE,
        "penstock",
        lanes=(8,),
        query=(("order", "shuffled"), ("seed", 7)),
        datasets=("t",),
    ),
    Entrant(PENSTOCK_LOCAL, "**Penstock, mapped memory**", "penstock_local", _ONE, "penstock", over="local"),
    Entrant(
        PENSTOCK_LOCAL_INDEXED,
        "**Penstock, mapped memory, indexed**",
        "penstock_local",
        _ONE,
        "penstock",
        over="local",
        query=(("wire", "indexed"),),
        datasets=_INDEXED,
    ),
    Entrant(
        "penstock-expanded",
        "**Penstock, indexed, expanded by the client**",
        "penstock_expanded",
        _ONE,
        "penstock",
        by_default=False,
    ),
    Entrant(
        "penstock-python",
        "**Penstock, its Python package**",
        "penstock_python",
        _ONE,
        "penstock",
        by_default=False,
    ),
    Entrant(
        "penstock-unix",
        "**Penstock, Unix socket**",
        "penstock_flight",
        _ONE,
        "penstock",
        over="unix",
        by_default=False,
    ),
    Entrant(DUCKDB_FLIGHT, "DuckDB behind a Flight server", "duckdb_flight", _ENGINE, "duckdb"),
    Entrant(
        "duckdb-flight-unix",
        "DuckDB behind a Flight server, Unix socket",
        "duckdb_flight",
        _ENGINE,
        "duckdb",
        over="unix",
        by_default=False,
    ),
    Entrant(DUCKDB, "DuckDB, in process", "duckdb_local", _ENGINE),
    Entrant("duckdb-execute", "DuckDB, in process, execute()", "duckdb_execute", _ENGINE, by_default=False),
    Entrant(POLARS, "Polars, in process", "polars_local", _ENGINE),
    Entrant(POLARS_LOOP, "Polars, in a loop over buckets", "polars_loop", _ENGINE),
    Entrant(DATAFUSION, "DataFusion, in process", "datafusion_local", _ENGINE),
    Entrant("stage2", "Stage 2: DuckDB joins, writes, reads back", "stage2", (65_536,), by_default=False),
    Entrant("scan", "Training table alone, no join (pyarrow)", "scan_floor", (65_536,), joins=False),
    Entrant(ECHO, "Echo: the same batches from memory", "penstock_flight", _ONE, "echo", joins=False),
    Entrant(
        ECHO_INDEXED,
        "Echo, indexed",
        "penstock_indexed",
        _ONE,
        "echo",
        joins=False,
        datasets=_INDEXED,
    ),
)

# In the consumer's own process.
ENGINES = (DUCKDB, POLARS, POLARS_LOOP, DATAFUSION)

# The contenders of `--torch`: the same rows as tensors, in an environment with torch.
INTO_TORCH = (
    Entrant("penstock-torch", "**Penstock**, `IterableDataset`", "penstock_torch", _ONE, "penstock"),
    Entrant(
        "penstock-torch-indexed",
        "**Penstock**, `IterableDataset`, indexed: each request's features once",
        "penstock_torch_indexed",
        _ONE,
        "penstock",
    ),
    Entrant(DUCKDB_TORCH, "DuckDB, in process", "duckdb_torch", _ENGINE),
    Entrant("polars-torch", "Polars, in process", "polars_torch", _ENGINE),
    Entrant("ray-torch", "Ray Data, join of 16 partitions", "ray_torch", _ONE),
)
