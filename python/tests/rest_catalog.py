"""A REST catalog of Iceberg with the requests that writers make: PyIceberg makes the commits."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

from accidents import Accidents, Answer, Server
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.sorting import SortOrder

_TABLES = re.compile(r"/v1/namespaces/([^/?]+)/tables(?:/([^/?]+))?")


def serve(catalog: SqlCatalog, config: dict[str, str], accidents: Accidents) -> Server:
    """Serves the tables of a catalog; config comes with each table."""
    turn = threading.Lock()

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> Answer | None:
        path = handler.path.partition("?")[0]

        def call() -> Answer:
            with turn:
                status, out = _answer(catalog, handler.command, path, body, config)
            return Answer(status, json.dumps(out).encode(), [("Content-Type", "application/json")])

        return accidents.around(f"{handler.command} {path}", call)

    return Server(answer)


def _answer(
    catalog: SqlCatalog, method: str, path: str, body: bytes, config: dict[str, str]
) -> tuple[int, dict[str, Any]]:
    if path == "/v1/config":
        return 200, {"defaults": {}, "overrides": {}}
    found = _TABLES.fullmatch(path)
    if found is None:
        return 404, _error("NoSuchEndpointException", path)
    name = (found[1], found[2] or "")
    try:
        if method == "GET":
            return 200, _described(catalog.load_table(name)) | {"config": config}
        if not name[1]:
            return 200, _described(_create(catalog, name[0], body)) | {"config": config}
        request = CommitTableRequest.model_validate(
            json.loads(body) | {"identifier": {"namespace": [name[0]], "name": name[1]}}
        )
        made = catalog.commit_table(catalog.load_table(name), request.requirements, request.updates)
        return 200, json.loads(made.model_dump_json(by_alias=True))
    except NoSuchTableError as e:
        return 404, _error("NoSuchTableException", str(e))
    except (CommitFailedException, TableAlreadyExistsError) as e:
        return 409, _error(type(e).__name__, str(e))


def _create(catalog: SqlCatalog, namespace: str, body: bytes) -> Table:
    request = CreateTableRequest.model_validate(
        {"location": None, "partition-spec": None, "write-order": None} | json.loads(body)
    )
    return catalog.create_table(
        (namespace, request.name),
        request.table_schema,
        partition_spec=request.partition_spec or PartitionSpec(),
        sort_order=request.write_order or SortOrder(),
        properties=request.properties,
    )


def _described(table: Table) -> dict[str, Any]:
    return {
        "metadata-location": table.metadata_location,
        "metadata": json.loads(table.metadata.model_dump_json(by_alias=True, exclude_none=True)),
    }


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": 0}}
