"""How much memory does the server take for tables much larger than its budget?

Joins a training table and a staging table of 1 GB of Arrow each through
`penstock serve`, and asks for exact rows and for a peak of resident memory
(VmHWM) of at most 1.25 times the budget and 256 MiB, as the server promises. Three
layouts of the same columns:

- `even`: every one of 16 buckets has as many rows as the next;
- `bucket`: one bucket has half of the rows of both tables;
- `key`: one request has half of the training rows.

Rows and sums are compared with those of DuckDB over the same files. The client
is this process; only the server is measured, from its start on.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import tables
from checks import Integers, Summary
from process import cpu_seconds, peak_bytes
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType
from running import Program, serving

ROOT = Path(__file__).resolve().parent.parent
LAYOUTS = ("even", "bucket", "key")
_MIB = 1 << 20
_BESIDE = 256 * _MIB
_BUCKETS = 16
_CROWDED = 5
_STOP_LIMIT = 30
_SEED = 11
# Row groups of about 60 MB, as written by writers with a limit of 128 MB in memory.
_ROW_GROUP_ROWS = {"training": 524_288, "staging": 131_072}
_GENERATION = 2


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Rows of both tables. The full size is 1 GB of Arrow each."""

    rows: int = 10_500_000
    requests: int = 2_250_000
    batch_rows: int = 8_192


# Batches of 8,192 rows exceed a budget of 8 MiB.
QUICK = Sizes(rows=210_000, requests=45_000, batch_rows=512)


def main(arguments: list[str] | None = None) -> int:
    """Make the tables, serve and read each layout, and print the costs."""
    parser = argparse.ArgumentParser(description="Peak memory of the server for tables of 1 GB")
    parser.add_argument(
        "--memory",
        type=int,
        default=160,
        metavar="MIB",
        help="the server's memory budget",
    )
    parser.add_argument("--only", choices=LAYOUTS, action="append", help="a layout; default: all")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the rows")
    parser.add_argument(
        "--binary",
        type=Path,
        default=os.environ.get("PENSTOCK_BIN", ROOT / "bin" / "penstock"),
    )
    given = parser.parse_args(arguments)
    sizes = QUICK if given.quick else Sizes()
    home = ROOT / ".bench" / ("memory-quick" if given.quick else "memory")
    failed = 0
    print("| layout | training MB | staging MB | rows | exact | peak MiB | spilled MB | seconds | CPU s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for layout in given.only or LAYOUTS:
        folder = home / layout
        files = ensure(folder, layout, sizes)
        measured = _measure(given.binary, folder, f"{given.memory}MiB", sizes.batch_rows, files)
        print(
            f"| {layout} | {measured.training / 1e6:.0f} | {measured.staging / 1e6:.0f} | {measured.rows} "
            f"| {'no' if measured.differences else 'yes'} | {measured.peak / (1 << 20):.0f} "
            f"| {measured.spilled / 1e6:.0f} | {measured.seconds:.1f} | {measured.cpu:.1f} |",
            flush=True,
        )
        for difference in measured.differences:
            print(f"  {difference}", file=sys.stderr)
        failed += bool(measured.differences) or measured.peak > given.memory * _MIB * 5 // 4 + _BESIDE
    return 1 if failed else 0


@dataclasses.dataclass
class Measured:
    """The bytes and seconds of one layout, and its failures."""

    training: int
    staging: int
    rows: int
    peak: int
    spilled: int
    seconds: float
    cpu: float
    differences: list[str]


def ensure(folder: Path, layout: str, sizes: Sizes) -> dict[str, list[str]]:
    """Make the tables of a layout unless they are there; return their files."""
    marker = {
        "generation": _GENERATION,
        "folder": str(folder),
        **dataclasses.asdict(sizes),
    }
    finished = folder / tables.FINISHED
    if finished.exists():
        known = json.loads(finished.read_text())
        if known["made"] == marker:
            return dict(known["files"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = _write(folder, layout, sizes)
    finished.write_text(json.dumps({"made": marker, "files": files}))
    return files


def _write(folder: Path, layout: str, sizes: Sizes) -> dict[str, list[str]]:
    rng = np.random.default_rng(_SEED)
    ids = _ids(sizes.requests + 1, layout == "bucket")
    requests = ids[: sizes.requests]
    if layout == "key":
        rest = rng.integers(0, sizes.requests, sizes.rows - sizes.rows // 2)
        of = np.concatenate([np.zeros(sizes.rows // 2, np.int64), rest])
        rng.shuffle(of)
    else:
        of = rng.integers(0, sizes.requests, sizes.rows)
        of.sort()
        # Requests are adjacent, as in logs, but not in the order of ids.
    training = tables.draw_training(rng, requests[of])
    # One request in a hundred has no features, one row of features no request.
    known = np.concatenate([requests[sizes.requests // 100 :], ids[sizes.requests :]])
    if layout == "key":
        known = np.concatenate([requests[:1], known])
    staging = tables.draw_staging(rng, rng.permutation(known), 50)
    catalog = tables.open_catalog(folder)
    catalog.create_namespace("bench")
    files = {}
    for name, rows in (("training", training), ("staging", staging)):
        limit = {"write.parquet.row-group-limit": str(_ROW_GROUP_ROWS[name] * sizes.rows // Sizes.rows)}
        table = tables.create(catalog, name, rows, _BUCKETS, limit)
        files[name] = sorted(
            planned.file.file_path.removeprefix("file://") for planned in table.scan().plan_files()
        )
        files[f"{name} bytes"] = [str(rows.nbytes)]
    catalog.close()
    tables.write_config(folder, _DATASETS)
    return files


def _ids(count: int, crowded: bool) -> Integers:
    """Distinct ids; optionally half of them in one bucket."""
    if not crowded:
        return tables.spread(count, _SEED)
    ids = tables.spread(count * _BUCKETS, _SEED)
    bucket = BucketTransform(_BUCKETS).pyarrow_transform(LongType())(pa.array(ids)).to_numpy()
    inside = ids[bucket == _CROWDED][: count // 2]
    outside = ids[bucket != _CROWDED][: count - len(inside)]
    return np.random.default_rng(_SEED).permutation(np.concatenate([inside, outside]))


_DATASETS = """\
datasets:
  joined:
    training:
      table: bench.training
    key: [request_id]
    staging:
      - table: bench.staging
"""


def _measure(
    binary: Path,
    folder: Path,
    memory: str,
    batch_rows: int,
    files: dict[str, list[str]],
) -> Measured:
    expected = answer(folder, files)
    config = folder / "penstock.yaml"
    with (
        tempfile.TemporaryDirectory(dir=folder) as spool,
        serving(
            Program(binary, (("memory", memory), ("spool", spool))).command(config, "127.0.0.1:0")
        ) as server,
    ):
        began, spent = time.perf_counter(), cpu_seconds(server.pid)
        got, report = _read(server.first, batch_rows)
        seconds, cpu, peak = (
            time.perf_counter() - began,
            cpu_seconds(server.pid) - spent,
            peak_bytes(server.pid),
        )
    staging = report["staging"].values()
    return Measured(
        training=int(files["training bytes"][0]),
        staging=int(files["staging bytes"][0]),
        rows=got.rows,
        peak=peak,
        spilled=sum(counts.get("spilled_bytes", 0) for counts in staging),
        seconds=seconds,
        cpu=cpu,
        differences=got.differences(expected),
    )


def answer(folder: Path, files: dict[str, list[str]]) -> Summary:
    """The sums of DuckDB's join; cached, since the files do not change."""
    kept = folder / "answer.json"
    if kept.exists():
        return Summary.from_json(json.loads(kept.read_text()))
    joined = Summary()
    with duckdb.connect(config={"preserve_insertion_order": "false"}) as database:
        for name in ("training", "staging"):
            database.read_parquet(files[name]).create_view(name)
        rows = database.sql("SELECT * FROM training LEFT JOIN staging USING (request_id)")
        for batch in rows.to_arrow_reader(65_536):
            joined.add(batch)
    kept.write_text(json.dumps(dataclasses.asdict(joined)))
    return joined


def _read(address: str, batch_rows: int) -> tuple[Summary, dict[str, dict[str, dict[str, int]]]]:
    client = flight.FlightClient(f"grpc://{address}")
    client.wait_for_available(timeout=_STOP_LIMIT)
    query = json.dumps({"dataset": "joined", "batch_rows": batch_rows}).encode()
    got = Summary()
    report: dict[str, dict[str, dict[str, int]]] = {}
    for endpoint in client.get_flight_info(flight.FlightDescriptor.for_command(query)).endpoints:
        reader = client.do_get(endpoint.ticket)
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                break
            if chunk.data is not None and chunk.data.num_rows > 0:
                got.add(chunk.data)
            if chunk.app_metadata is not None:
                told = json.loads(chunk.app_metadata.to_pybytes())
                report = told.get("report", report)
    client.close()
    if "staging" not in report:
        raise SystemExit("the stream ended without a report")
    return got, report


if __name__ == "__main__":
    sys.exit(main())
