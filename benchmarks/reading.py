"""Streams that the harness itself reads, which is not timed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
from address import location
from running import RunError


def batches(address: str, query: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """The batches of all endpoints of a query; messages that hold only metadata are passed over."""
    try:
        with flight.FlightClient(location(address)) as client:
            found = client.get_flight_info(flight.FlightDescriptor.for_command(json.dumps(query).encode()))
            for endpoint in found.endpoints:
                for chunk in client.do_get(endpoint.ticket):
                    if chunk.data is not None:
                        yield chunk.data
    except pa.ArrowException as failed:
        raise RunError(f"{query}: {failed}") from None
