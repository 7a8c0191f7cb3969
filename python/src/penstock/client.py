"""The client: one server's datasets, plans and streams."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors, query
from penstock.channel import Channel, Settings
from penstock.plan import DatasetDescription, Plan
from penstock.stream import Reading, Stream

Dataset = str | Mapping[str, Any]


def connect(
    uri: str,
    *,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    tls_roots: bytes | None = None,
    tls_chain: bytes | None = None,
    tls_key: bytes | None = None,
    timeout: float | None = 120.0,
    lookahead: int | None = None,
) -> Client:
    """Makes a client of a server. It connects at the first call.

    Args:
        uri: host:port, grpc://host:port, grpc+tls://host:port or grpc+unix:///path.
        token: bearer token.
        headers: sent with every call.
        tls_roots: PEM certificates to trust instead of the system's.
        tls_chain: PEM certificate chain of the client, for mutual TLS.
        tls_key: PEM key of the client, for mutual TLS.
        timeout: seconds that a call may take, None for no limit. Streams have none, and plans for which
            rows are counted.
        lookahead: bytes that the transport reads ahead of a stream's reader. None
            lets it choose: the fastest, with up to 40 MB held for a reader that
            is slow. About two batches hold the memory down at nearly the speed.

    Raises:
        Invalid: the URI cannot be read.
    """
    sent = {name.lower(): value for name, value in (headers or {}).items()}
    if token is not None:
        sent["authorization"] = f"Bearer {token}"
    location = uri if "://" in uri else f"grpc://{uri}"
    scheme, _, rest = location.partition("://")
    if rest in ("", "/"):
        raise query.invalid("uri", f"{uri!r} names no host")
    if scheme != "grpc+unix" and "@" in rest:
        # Not repeated: what stands before the @ may be a password.
        raise query.invalid("uri", "it names a user, which is not sent; give a token or headers")
    try:
        flight.Location(location)
    except pa.ArrowInvalid as e:
        raise query.invalid(
            "uri", f"{uri!r} is not a server's address: {errors.from_arrow(e).message}"
        ) from e
    return Client(
        Settings(
            location=location,
            headers=tuple(sorted(sent.items())),
            tls_roots=tls_roots,
            tls_chain=tls_chain,
            tls_key=tls_key,
            timeout=timeout,
            lookahead=lookahead,
        )
    )


class Client:
    """A server's datasets, plans and streams. Made by `connect`.

    It may be used by several threads, may be forked (but not while a stream
    of the process is open), and can be pickled, credentials included. Whoever
    connects closes; closing ends the client's streams.

    The keyword arguments of a query are its fields: `columns`, `filter`,
    `sample`, `since`, `order`, `seed`, `epoch`, `lanes`, `shard`, `every`, `batch_rows`, `tail`,
    `count`, `limit`, `cursor` and so on. None leaves one out, `shard` may be a pair (index, of),
    and the server refuses by name what it does not serve.

    Every method raises one of `penstock.errors` if it fails.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._channel = Channel(settings)

    def datasets(self) -> list[DatasetDescription]:
        """Lists the datasets, with those that cannot be resolved and why."""
        listed = self._channel.call(lambda client, options: list(client.list_flights(options=options)))
        return [DatasetDescription.of(found) for found in listed]

    def schema(self, dataset: Dataset, **fields: Any) -> pa.Schema:
        """The schema of a query's batches."""
        descriptor = _descriptor(dataset, fields)
        return self._channel.call(lambda client, options: client.get_schema(descriptor, options).schema)

    def plan(self, dataset: Dataset, **fields: Any) -> Plan:
        """What the server plans for a query.

        With `tail="drop"` or `count="exact"` the server may count rows first, for which no `timeout` holds.
        """
        return Plan.of(self._found(dataset, fields))

    def read(self, dataset: Dataset, **fields: Any) -> Stream:
        """Opens the stream of a query.

        The query is planned now, and fails here if it is wrong; its rows are
        read from the first batch on. Without `shard`, or with one without an
        index, the rows of all shards come, one shard after the other. With
        `wire="auto"` the server indexes what saves bytes, and batches are made plain
        here, see `expand`.
        """
        found = self._found(dataset, fields)
        plan = Plan.of(found)
        start = query.cursor(fields["cursor"]) if fields.get("cursor") is not None else None
        auto = fields.get("wire") == "auto"
        readings = [
            Reading(self._channel, endpoint.ticket, plan.schema, auto=auto) for endpoint in found.endpoints
        ]
        if not readings:
            raise errors.Internal("the server planned the query without an endpoint to read from")
        return Stream(readings, plan, start, ordered=found.ordered)

    def explain(self, dataset: Dataset, **fields: Any) -> str:
        """What a query reads, in which order and why, as text for people."""
        return self._act("explain", dataset, fields).decode()

    def manifest(self, dataset: Dataset, **fields: Any) -> dict[str, Any]:
        """All that a query's stream is made of, to be kept with a model: its `query` reads the same rows again."""
        kept: dict[str, Any] = json.loads(self._act("manifest", dataset, fields))
        return kept

    def verify(self, dataset: Dataset, **fields: Any) -> dict[str, Any]:
        """Whether the tables of a query's dataset are what the join takes them for.

        All of their keys are read, which may take longer than the client's
        `timeout`. What breaks a stream or a rule of the dataset is in the
        report's `findings`, which is empty if all is well.
        """
        report: dict[str, Any] = json.loads(self._act("verify", dataset, fields))
        return report

    def close(self) -> None:
        """Ends the client's streams and its connection."""
        self._channel.close()

    def _found(self, dataset: Dataset, fields: Mapping[str, Any]) -> flight.FlightInfo:
        descriptor = _descriptor(dataset, fields)
        counts = fields.get("tail") == "drop" or fields.get("count") == "exact"
        return self._channel.call(
            lambda client, options: client.get_flight_info(descriptor, options), unlimited=counts
        )

    def _act(self, name: str, dataset: Dataset, fields: Mapping[str, Any]) -> bytes:
        action = flight.Action(name, query.encode(dataset, fields))
        results = self._channel.call(lambda client, options: list(client.do_action(action, options)))
        if len(results) != 1:
            raise errors.Internal(f"the server answered {name} with {len(results)} results, not with one")
        return bytes(results[0].body.to_pybytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Client, (self._settings,))

    def __repr__(self) -> str:
        return f"<penstock.Client of {self._settings.location}{', closed' if self._channel.closed else ''}>"


def _descriptor(dataset: Dataset, fields: Mapping[str, Any]) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(query.encode(dataset, fields))
