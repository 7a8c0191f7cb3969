"""The ways in which programs send rows to a table: the client, plain Flight, and Parquet files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pyarrow.parquet as pq

import penstock

Options = dict[str, Any]
"""Of client.stage, apart from the table and its rows."""


class RefusedError(Exception):
    """Nothing was written, and this is why."""


class Ways:
    """A private server, and what sends rows to it or to the catalog itself."""

    def __init__(self, config: Path, program: str) -> None:
        self._config, self._program = config, program
        self._client = penstock.open(config, program=program, settings={"memory": "2GiB"})
        self._flight = flight.connect(self._client.uri)

    def close(self) -> None:
        """Ends the server."""
        self._flight.close()
        self._client.close()

    def by_client(
        self,
        draw: np.random.Generator,
        table: str,
        rows: pa.Table,
        options: Options,
        meanwhile: Callable[[], None],
    ) -> int:
        """Sends rows as Python programs do. Meanwhile is called between two of the batches."""
        batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]

        def generated() -> Any:
            yield batches[0]
            meanwhile()
            yield from batches[1:]

        forms: list[Any] = [generated, generated(), rows, rows.to_reader()]
        form = int(draw.integers(len(forms)))
        if form > 1:
            meanwhile()
        try:
            return self._client.stage(table, forms[form], **options).snapshot
        except penstock.Error as failure:
            raise RefusedError(str(failure)) from failure

    def by_flight(
        self,
        draw: np.random.Generator,
        table: str,
        rows: pa.Table,
        options: Options,
        meanwhile: Callable[[], None],
    ) -> int:
        """Sends rows as any program may: dictionaries as they are, and bodies compressed."""
        compression = [None, "lz4", "zstd"][draw.integers(3)]
        written = pa.ipc.IpcWriteOptions(compression=compression)
        command = json.dumps({"stage": {"table": table, **options}}).encode()
        calling = flight.FlightCallOptions(timeout=60, write_options=written)
        result: dict[str, Any] = {}
        batches = rows.to_batches()
        try:
            writer, answers = self._flight.do_put(
                flight.FlightDescriptor.for_command(command), rows.schema, calling
            )
            answers.read()
            for batch in batches[:1]:
                writer.write_batch(batch)
            meanwhile()
            for batch in batches[1:]:
                writer.write_batch(batch)
            writer.write_metadata(json.dumps({"rows": rows.num_rows}).encode())
            writer.done_writing()
            while (answer := answers.read()) is not None:
                result = json.loads(answer.to_pybytes()).get("result", result)
            writer.close()
        except (pa.ArrowException, flight.FlightError) as failure:
            raise RefusedError(str(failure)) from failure
        return int(result.get("snapshot", 0))

    def by_file(
        self,
        draw: np.random.Generator,
        table: str,
        rows: pa.Table,
        options: Options,
        meanwhile: Callable[[], None],
    ) -> int:
        """Stages Parquet files, as their writers choose to encode them."""
        cut = int(draw.integers(0, rows.num_rows + 1))
        files, store = [], bool(draw.random() < 0.5)
        for i, part in enumerate((rows.slice(0, cut), rows.slice(cut))):
            files.append(self._config.with_name(f"part-{i}.parquet"))
            pq.write_table(
                part,
                files[-1],
                use_dictionary=bool(draw.random() < 0.5),
                data_page_version=["1.0", "2.0"][draw.integers(2)],
                compression=["snappy", "zstd", "none", "gzip"][draw.integers(4)],
                row_group_size=int(draw.choice([3, 100, 100_000])),
                store_schema=store,
            )
        command = [self._program, "stage", table, *map(str, files), "--json", "--config", str(self._config)]
        with subprocess.Popen(
            command + _flags(options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            meanwhile()
            out, error = process.communicate(timeout=100)
        if process.returncode != 0:
            raise RefusedError(error)
        return int(json.loads(out)["snapshot"])


def _flags(options: Options) -> list[str]:
    out = []
    for name, value in options.items():
        if name == "partition":
            out += [word for field in value for word in ("--partition", field)]
        elif value is True:
            out.append(f"--{name.replace('_', '-')}")
        else:
            out += [f"--{name}", ",".join(value) if isinstance(value, list) else str(value)]
    return out
