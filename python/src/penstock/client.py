"""The client: one server's datasets, plans and streams."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors, given, manifests, mistakes, query
from penstock.asked import Asked
from penstock.channel import Settings
from penstock.evaluation import Evaluation, run
from penstock.fields import Query
from penstock.plan import DatasetDescription, Plan
from penstock.progress import Wanted
from penstock.query import Dataset
from penstock.reading import Reading
from penstock.servers import Servers
from penstock.splits import Splits
from penstock.stream import Stream

T = TypeVar("T")


def connect(
    uri: str | Sequence[str],
    *,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    tls_roots: bytes | None = None,
    tls_chain: bytes | None = None,
    tls_key: bytes | None = None,
    timeout: float | None = 120.0,
    lookahead: int | None = None,
    reconnect: float = 300.0,
) -> Client:
    """Makes a client of a server, or of several that serve the same. It connects at the first call.

    A stream whose server is killed, restarted or drained, or whose connection is lost, goes on with the
    very next row: it is asked for again with its own cursor, of the next address if there are
    several. So does one whose ticket no server knows any more. Between two tries it waits, at
    first a tenth of a second and then longer and longer, up to ten seconds, and writes a
    line to the log "penstock". What another try cannot mend is raised at once.

    Args:
        uri: host:port, grpc://host:port, grpc+tls://host:port or grpc+unix:///path; the port is 8815
            where it is left out. Of several servers a list of these, or a text with commas between them.
            The first one is used until it fails, then the next one; give trainers different orders to
            spread them over the servers.
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
        reconnect: seconds after a failure for which a stream is tried again before it raises; each batch
            that comes begins them anew. 0 raises at once.

    Raises:
        Invalid: an argument cannot be read.
    """
    return Client(
        Settings(
            locations=given.locations(uri),
            headers=given.headers(headers, token),
            tls_roots=given.pem("tls_roots", tls_roots),
            tls_chain=given.pem("tls_chain", tls_chain),
            tls_key=given.pem("tls_key", tls_key),
            timeout=None if timeout is None else given.seconds("timeout", timeout),
            lookahead=None if lookahead is None else mistakes.whole("lookahead", lookahead, least=0),
            reconnect=given.seconds("reconnect", reconnect, zero=True),
        )
    )


class Client:
    """The datasets, plans and streams of a service. Made by `connect`.

    It may be used by several threads, may be forked (but not while a stream
    of the process is open), and can be pickled, credentials included. Whoever
    connects closes; closing ends the client's streams.

    The keyword arguments of a query are its fields, see `Query`. None leaves one out, `shard` may be a
    pair (index, of), and the server refuses by name what it does not serve. Where the query says
    no `wire`, batches come in the form that takes fewer bytes, and are made plain here.

    Every method raises one of `penstock.errors` if it fails. Of several addresses each is tried once.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._servers = Servers(settings)

    def datasets(self) -> list[DatasetDescription]:
        """Lists the datasets, with those that cannot be resolved and why."""
        listed = self._servers.call(lambda client, options: list(client.list_flights(options=options)))
        return [DatasetDescription.of(found) for found in listed]

    def schema(self, dataset: Dataset, **fields: Unpack[Query]) -> pa.Schema:
        """The schema of a query's batches."""

        def ask(form: dict[str, Any]) -> pa.Schema:
            descriptor = flight.FlightDescriptor.for_command(query.text(form))
            return self._servers.call(lambda client, options: client.get_schema(descriptor, options).schema)

        return _in_a_form(dataset, fields, ask)

    def plan(self, dataset: Dataset, **fields: Unpack[Query]) -> Plan:
        """What the server plans for a query.

        With `tail="drop"` or `count="exact"` the server may count rows first, for which no `timeout` holds.
        """
        return _in_a_form(dataset, fields, lambda form: Asked(self._servers, form).found().plan)

    def read(self, dataset: Dataset, *, progress: Wanted = False, **fields: Unpack[Query]) -> Stream:
        """Opens the stream of a query.

        The query is planned now, and fails here if it is wrong; its rows are
        read from the first batch on. Without `shard`, or with one without an
        index, the rows of all shards come, one shard after the other.

        Args:
            dataset: the name of one that the server knows, or a dataset as a mapping.
            progress: whether to show how far the stream is; "auto" shows it on a terminal.
            fields: the query's other fields.
        """

        def ask(form: dict[str, Any]) -> Stream:
            return self._opened(Asked(self._servers, form), progress)

        return _in_a_form(dataset, fields, ask)

    def explain(self, dataset: Dataset, **fields: Unpack[Query]) -> str:
        """What a query reads, in which order and why, as text for people."""
        return _in_a_form(dataset, fields, lambda form: Asked(self._servers, form).act("explain")).decode()

    def manifest(
        self, dataset: Dataset, *, file: str | os.PathLike[str] | None = None, **fields: Unpack[Query]
    ) -> dict[str, Any]:
        """All that a query's stream is made of, to be kept with a model; `replay` reads the same rows again.

        `Stream.manifest` does so for a stream that is open.

        Args:
            dataset: the name of one that the server knows, or a dataset as a mapping.
            file: also written there, as JSON, at once or not at all.
            fields: the query's other fields.

        Raises:
            OSError: the file cannot be written.
        """
        kept = _in_a_form(dataset, fields, lambda form: manifests.ask(Asked(self._servers, form)))
        if file is not None:
            manifests.save(kept, file)
        return kept

    def replay(
        self,
        manifest: Mapping[str, Any] | str | os.PathLike[str],
        *,
        progress: Wanted = False,
        **fields: Unpack[Query],
    ) -> Stream:
        """Opens the stream that a manifest was made of: the same rows in the same batches.

        It reads the snapshots of the manifest, and the dataset as it was then, also where the server's
        configuration has changed.

        Args:
            manifest: what `manifest` gave, or the file that it was written to.
            progress: as that of `read`.
            fields: what is to be read of it, where that is not all: such as `shard`, `limit` or `cursor`.

        Raises:
            Invalid: the server plans other rows than the manifest says, or other columns.
        """
        asked = manifests.again(self._servers, manifests.load(manifest), query.form("", fields))
        return self._opened(asked, progress)

    def read_splits(self, dataset: Dataset, **fields: Unpack[Query]) -> Splits:
        """Plans a query as splits, each of which is read on its own, in any order, by any process.

        Together they have every row once. The query is one of one lane, which is what
        `lanes` then is by default.
        """
        form_fields: Mapping[str, Any] = {**fields, "endpoints": fields.get("endpoints") or "splits"}
        return _in_a_form(dataset, form_fields, lambda form: Splits.of(Asked(self._servers, form)))

    def evaluate(
        self,
        dataset: Dataset,
        folder: str | os.PathLike[str],
        evaluate: Callable[[Stream], Any],
        *,
        threads: int = 4,
        part: tuple[int, int] = (0, 1),
        progress: Wanted = False,
        **fields: Unpack[Query],
    ) -> Evaluation:
        """Evaluates every split of a query once, and keeps one Parquet file for each in a folder.

        A file takes its name when it is whole, and splits that have one are not read again: a job that
        was killed goes on where it was, on the snapshots of its first run, which the folder's
        `manifest.json` holds.

        Args:
            dataset: the name of one that the server knows, or a dataset as a mapping.
            folder: made if it does not exist. One run has one folder.
            evaluate: takes the stream of a split, reads it to its end, and returns its result as a table:
                pyarrow's, Polars', pandas', or anything that gives an Arrow stream.
            threads: how many splits are evaluated side by side. `evaluate` is called by as many threads.
            part: (i, n): only the splits i, i + n, … of the plan, where n jobs share the work and the folder.
            progress: whether to show how far it is.
            fields: the query's other fields.

        Raises:
            Invalid: the folder belongs to another run, or `evaluate` left rows of its stream unread.
            Corrupt: a file of the folder is not the whole result of its split. It stays as it is.
            OSError: a file cannot be written.
        """

        def ask(form: dict[str, Any]) -> Evaluation:
            return run(Asked(self._servers, form), Path(folder), evaluate, threads, part, progress)

        form_fields: Mapping[str, Any] = {**fields, "endpoints": fields.get("endpoints") or "splits"}
        return _in_a_form(dataset, form_fields, ask)

    def verify(self, dataset: Dataset, **fields: Unpack[Query]) -> dict[str, Any]:
        """Whether the tables of a query's dataset are what the join takes them for.

        All of their keys are read, which may take longer than the client's
        `timeout`. What breaks a stream or a rule of the dataset is in the
        report's `findings`, which is empty if all is well.
        """
        report: dict[str, Any] = json.loads(Asked(self._servers, query.form(dataset, fields)).act("verify"))
        return report

    def tell(self, name: str, message: Mapping[str, Any], *, timeout: float) -> None:
        """Tells the server in use something, by an action whose answer does not matter.

        Args:
            name: of the action.
            message: its body, as JSON.
            timeout: seconds that it may take.
        """
        action = flight.Action(name, query.text(message))
        options = replace(self._settings, timeout=timeout).options(unlimited=False)
        self._servers.current.call(lambda client, _: list(client.do_action(action, options)))

    @property
    def reconnect(self) -> float:
        """Seconds for which what has begun waits for a server that does not answer."""
        return self._settings.reconnect

    def close(self) -> None:
        """Ends the client's streams and its connections."""
        self._servers.close()

    def _opened(self, asked: Asked, progress: Wanted) -> Stream:
        found = asked.found()
        start = asked.form.get("cursor") or None
        stream = Stream(asked, Reading.all_of(asked, found), found.plan, start, ordered=found.ordered)
        stream.show_progress(progress)
        return stream

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Client, (self._settings,))

    def __repr__(self) -> str:
        locations = ", ".join(self._settings.locations)
        return f"<penstock.Client of {locations}{', closed' if self._servers.closed else ''}>"


def _in_a_form(dataset: Dataset, fields: Mapping[str, Any], ask: Callable[[dict[str, Any]], T]) -> T:
    """Asks a query with the wire that it names, or else with the one of fewest bytes that goes.

    Batches are indexed by columns that are named after staging tables, which cannot be where other
    columns have these names.
    """
    mistakes.refuse(fields)
    form = query.form(dataset, fields)
    if "wire" in form:
        return ask(form)
    try:
        return ask({**form, "wire": "auto"})
    except errors.Invalid as e:
        if [fault.field for fault in e.faults] != ["wire"]:
            raise
    return ask({**form, "wire": "plain"})
