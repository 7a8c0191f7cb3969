"""The contenders: name, module, server, and the batch sizes to try."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Entrant:
    """One line of the result.

    `server` makes the command of a server from the binary, the batch size, the
    server's configuration file and the address to listen on; None if the
    contender needs none. `over` is how client and server talk. All `batch_rows`
    are run, and the fastest is shown: which one that is depends on the machine.
    """

    name: str
    title: str
    module: str
    batch_rows: tuple[int, ...]
    server: Callable[[Path, int, Path, str], list[str]] | None = None
    over: Literal["tcp", "unix"] = "tcp"
    joins: bool = True


def _penstock(binary: Path, _batch_rows: int, config: Path, listen: str) -> list[str]:
    return [str(binary), "serve", "--config", str(config), "--listen", listen]


def needs_binary(entrant: Entrant) -> bool:
    """Whether the entrant reads from `bin/penstock`."""
    return entrant.server is _penstock


def _duckdb(_binary: Path, batch_rows: int, _config: Path, listen: str) -> list[str]:
    module = "peers.duckdb_flight_server"
    return [sys.executable, "-m", module, "--batch-rows", str(batch_rows), "--listen", listen]


PENSTOCK = "penstock"
DUCKDB = "duckdb"
DUCKDB_EXECUTE = "duckdb-execute"
PENSTOCK_PYTHON = "penstock-python"
PENSTOCK_UNIX = "penstock-unix"
PENSTOCK_INDEXED = "penstock-indexed"
PENSTOCK_EXPANDED = "penstock-expanded"
PENSTOCK_EXPANDED_UNIX = "penstock-expanded-unix"
DUCKDB_FLIGHT = "duckdb-flight"
DUCKDB_FLIGHT_UNIX = "duckdb-flight-unix"
STAGE2 = "stage2"
DUCKDB_TORCH = "duckdb-torch"

_BOTH = (8_192, 65_536)

ENTRANTS = (
    Entrant(PENSTOCK, "**Penstock**", "penstock_flight", (8_192,), _penstock),
    Entrant(PENSTOCK_INDEXED, "**Penstock, indexed**", "penstock_indexed", (8_192,), _penstock),
    Entrant(
        PENSTOCK_EXPANDED,
        "**Penstock, indexed, expanded by the client**",
        "penstock_expanded",
        (8_192,),
        _penstock,
    ),
    Entrant(PENSTOCK_PYTHON, "**Penstock, its Python package**", "penstock_python", (8_192,), _penstock),
    Entrant(DUCKDB_FLIGHT, "DuckDB behind a Flight server", "duckdb_flight", _BOTH, _duckdb),
    Entrant(PENSTOCK_UNIX, "**Penstock, Unix socket**", "penstock_flight", (8_192,), _penstock, over="unix"),
    Entrant(
        PENSTOCK_EXPANDED_UNIX,
        "**Penstock, indexed, expanded by the client, Unix socket**",
        "penstock_expanded",
        (8_192,),
        _penstock,
        over="unix",
    ),
    Entrant(
        DUCKDB_FLIGHT_UNIX,
        "DuckDB behind a Flight server, Unix socket",
        "duckdb_flight",
        _BOTH,
        _duckdb,
        over="unix",
    ),
    Entrant(DUCKDB, "DuckDB, in process", "duckdb_local", _BOTH),
    Entrant(DUCKDB_EXECUTE, "DuckDB, in process, execute()", "duckdb_execute", _BOTH),
    Entrant("polars", "Polars, in process", "polars_local", _BOTH),
    Entrant("datafusion", "DataFusion, in process", "datafusion_local", _BOTH),
    Entrant(STAGE2, "Stage 2: DuckDB joins, writes, reads back", "stage2", (65_536,)),
    Entrant("scan", "Training table alone, no join (pyarrow)", "scan_floor", (65_536,), joins=False),
)

# The contenders of `--torch`: the same rows as tensors, in an environment with torch.
INTO_TORCH = (
    Entrant("penstock-torch", "**Penstock**, `IterableDataset`", "penstock_torch", (8_192,), _penstock),
    Entrant(
        "penstock-torch-indexed",
        "**Penstock**, `IterableDataset`, indexed: each request's features once",
        "penstock_torch_indexed",
        (8_192,),
        _penstock,
    ),
    Entrant(DUCKDB_TORCH, "DuckDB, in process", "duckdb_torch", _BOTH),
    Entrant("polars-torch", "Polars, in process", "polars_torch", _BOTH),
    Entrant("ray-torch", "Ray Data, join of 16 partitions", "ray_torch", (8_192,)),
)
