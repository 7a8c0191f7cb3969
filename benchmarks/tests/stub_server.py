"""A server with the calls of Penstock that the benchmark's plain Flight client uses.

DuckDB joins; the columns of `wire: indexed` are as on Penstock's wire. `--wrong`
alters one row, `--plain` sends plain batches whatever is asked. The benchmark
must find such answers, and Penstock itself gives none.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as flight

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from address import bound, location
from inputs import Inputs
from peers import sql


class Stub(flight.FlightServerBase):
    """One endpoint per query; the ticket is the query."""

    def __init__(self, folder: Path, wrong: bool, plain: bool, listen: str) -> None:
        super().__init__(location(listen))
        self._folder = folder
        self._wrong = wrong
        self._plain = plain

    def get_flight_info(
        self, _context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        """Plan nothing."""
        endpoint = flight.FlightEndpoint(flight.Ticket(descriptor.command), [])
        return flight.FlightInfo(pa.schema([]), descriptor, [endpoint], -1, -1)

    def do_get(self, _context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        """Join the inputs of the data set that the ticket names."""
        query = json.loads(ticket.ticket)
        inputs = Inputs.load(self._folder / f"{query['dataset']}.json")
        connection = sql.connect()
        reader = connection.sql(sql.join(inputs)).to_arrow_reader(query["batch_rows"])
        messages = self._messages(reader)
        if self._plain or query.get("wire") != "indexed":
            return flight.GeneratorStream(reader.schema, messages)
        # A generator of batches sends no dictionaries.
        count = len(inputs.training.columns)
        schema = _indexed(pa.RecordBatch.from_pylist([], reader.schema), count).schema
        batches = (_indexed(batch, count) for batch, _ in messages)
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(schema, batches))

    def _messages(self, reader: pa.RecordBatchReader) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        wrong = self._wrong
        for batch in reader:
            given = batch
            if wrong:
                position = batch.schema.get_field_index("item_id")
                items = batch.column(position).to_pylist()
                items[0] += 1
                given = batch.set_column(position, batch.schema.field(position), pa.array(items))
                wrong = False
            yield given, b"{}"


def _indexed(batch: pa.RecordBatch, count: int) -> pa.RecordBatch:
    """The batch with all but its first `count` columns as one dictionary, in which rows lie backwards."""
    features = pa.StructArray.from_arrays(batch.columns[count:], fields=list(batch.schema)[count:])
    backwards = pa.array(range(batch.num_rows - 1, -1, -1), pa.int32())
    indexed = pa.DictionaryArray.from_arrays(backwards, features.take(backwards))
    fields = [*list(batch.schema)[:count], pa.field("features", indexed.type, nullable=False)]
    return pa.RecordBatch.from_arrays([*batch.columns[:count], indexed], schema=pa.schema(fields))


def main() -> None:
    """`serve --config FILE --listen ADDRESS`; the tables lie beside FILE."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("call", choices=["serve"])
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--listen", required=True)
    arguments = parser.parse_args()
    server = Stub(arguments.config.parent, arguments.wrong, arguments.plain, arguments.listen)
    print(bound(arguments.listen, server.port), flush=True)
    server.serve()


if __name__ == "__main__":
    main()
