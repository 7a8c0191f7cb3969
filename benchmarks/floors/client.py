"""Reads streams of ready batches with pyarrow's Flight client, as trainers do.

It answers requests, one JSON object per line (ways.go), until its input ends.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import flight

_WRAP = 1 << 64


def main() -> None:
    """Answer requests."""
    clients: dict[str, flight.FlightClient] = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = _pass(clients, request)
        except Exception as failure:  # the caller reports it
            answer = {"error": f"pyarrow, {request['way']}: {failure}"}
        print(json.dumps(answer), flush=True)


def _pass(clients: dict[str, flight.FlightClient], request: dict[str, Any]) -> dict[str, Any]:
    address = request["address"]
    if address not in clients:
        scheme = "grpc+unix" if address.startswith("/") else "grpc"
        clients[address] = flight.FlightClient(f"{scheme}://{address}")
    client = clients[address]
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    rows = size = ints = 0
    floats = 0.0
    descriptor = flight.FlightDescriptor.for_command(json.dumps({"dataset": request["form"]}))
    for endpoint in client.get_flight_info(descriptor).endpoints:
        reader = client.do_get(endpoint.ticket)
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                break
            if chunk.data is None:
                continue
            rows += chunk.data.num_rows
            size += chunk.data.nbytes
            if request["sum"]:
                for column in chunk.data.columns:
                    more = _total(column)
                    ints, floats = ints + more[0], floats + more[1]
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": time.perf_counter() - begun,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "waits": after.ru_nvcsw - before.ru_nvcsw,
        "rows": rows,
        "bytes": size,
        "ints": (ints + _WRAP // 2) % _WRAP - _WRAP // 2,
        "floats": floats,
    }


def _total(column: pa.Array) -> tuple[int, float]:
    """The sums of integers and of floats, as in totals.go."""
    if pa.types.is_dictionary(column.type):
        return _sum([_total(column.indices), _total(column.dictionary)])
    if pa.types.is_struct(column.type):
        return _sum([_total(child) for child in column.flatten()])
    if pa.types.is_list(column.type):
        return _total(column.flatten())
    if pa.types.is_string(column.type):
        column = pc.binary_length(column)
    if pa.types.is_floating(column.type):
        return 0, pc.sum(column.cast(pa.float64())).as_py() or 0.0
    return pc.sum(column).as_py() or 0, 0.0


def _sum(parts: list[tuple[int, float]]) -> tuple[int, float]:
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


if __name__ == "__main__":
    main()
