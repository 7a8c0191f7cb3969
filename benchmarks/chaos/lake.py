"""The tables, on S3, in a REST catalog and in a SQL catalog in PostgreSQL, and the faults of what leads to them."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import rest_catalog
from accidents import Answer, storage
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StagedTable, StaticTable, Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import DoubleType, IntegerType, ListType, LongType, NestedField

from chaos import postgres, sessions, values
from chaos.keys import Keys
from chaos.relay import Relay
from chaos.weather import Weather

_ACCESS, _SECRET = "testaccess", "testsecret12"
_FILES = 4  # of a training table, in each bucket
WRITTEN = ("features.written", "sql.features.written")  # the tables of the writers
# The gateway refuses uploads whose checksum follows their body, as PyIceberg's do.
os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
_LONGS = ListType(element_id=90, element_type=LongType(), element_required=False)
_TRAINING = {"row": LongType(), "key": LongType(), "label": IntegerType(), "score": DoubleType()}


class _Catalog(SqlCatalog):
    """PyIceberg's catalog, whose tables never seem older than before, as those of other catalogs: writers' clocks differ."""

    def _update_and_stage_table(self, *given: Any) -> StagedTable:
        staged = super()._update_and_stage_table(*given)
        at, log = 0, []
        for entry in staged.metadata.snapshot_log:
            at = max(at, entry.timestamp_ms)
            log.append(entry.model_copy(update={"timestamp_ms": at}))
        logged = (entry.timestamp_ms for entry in staged.metadata.metadata_log)
        at = max(at, staged.metadata.last_updated_ms, *logged)
        changed = staged.metadata.model_copy(update={"snapshot_log": log, "last_updated_ms": at})
        return StagedTable(staged.name(), changed, staged.metadata_location, staged.io, self)


class Lake:
    """All tables, and the config file of servers and commands.

    Attributes:
        config: the config file.
        s3, rest: the faults of calls.
        sql: the way to PostgreSQL; None: there is no PostgreSQL here.
    """

    def __init__(self, folder: Path, gateway: Path, keys: Keys, seed: int, stack: ExitStack) -> None:
        self._folder, self._keys = folder, keys
        (folder / "s3" / "lake").mkdir(parents=True)
        process = stack.enter_context(
            subprocess.Popen(
                [str(gateway), str(folder / "s3")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
        assert process.stdin is not None
        assert process.stdout is not None
        stack.callback(process.stdin.close)
        self._endpoint = process.stdout.readline().strip()
        self._secrets = {
            "s3.region": "us-east-1",
            "s3.access-key-id": _ACCESS,
            "s3.secret-access-key": _SECRET,
        }
        self.s3, self.rest = Weather(seed, xml=True), Weather(seed + 1, xml=False)
        passed = stack.enter_context(storage(self._endpoint, self.s3, self._refusal)).uri
        self._catalog = self._made("default", stack)
        self._vended: dict[str, str] = {"s3.endpoint": passed, **self._secrets}
        self.vend()
        served = stack.enter_context(rest_catalog.serve(self._catalog, self._vended, self.rest))
        writes = {"namespaces": ["ml", "features"]}
        more: dict[str, Any] = {"writes": writes, "pin_tags": {"keep": "1h"}}
        self._write("home", self._catalog)
        self._write("other", self._catalog, "other_")
        self._create(self._catalog, "features.written", {"id": LongType(), "value": LongType()}, "id")
        blocks: dict[str, Any] = {"default": {"type": "rest", "uri": served.uri, **more}}
        self.sql: Relay | None = None
        self._postgres: postgres.Postgres | None = None
        if (programs := postgres.programs()) is not None:
            uri = self._start_postgres(programs, stack)
            static = {"warehouse": "s3://lake/sql", "s3.endpoint": passed, **self._secrets}
            blocks["sql"] = {"type": "sql", "uri": uri, **static, **more}
        self.config = folder / "penstock.yaml"
        self._settings = {"catalogs": blocks, "datasets": self._datasets(blocks)}
        self.configure()

    def configure(self, extra: int = 0, damage: str = "") -> None:
        """Writes the config file: with a further dataset of a number, or with damage at the end."""
        datasets = {**self._settings["datasets"]}
        if extra:
            datasets[f"extra{extra}"] = datasets["home"]
        part = self.config.with_suffix(".part")
        part.write_text(json.dumps({**self._settings, "datasets": datasets}) + damage)
        part.rename(self.config)

    def vend(self) -> None:
        """Has the REST catalog vend new keys."""
        self._vended.update(self._keys.vend())

    def heal(self) -> None:
        """Ends all faults."""
        for part in (self.s3, self.rest, self.sql):
            if part is not None:
                part.heal()
        self.configure()

    def table(self, name: str) -> Table:
        """A table as it is now, read without faults."""
        if not name.startswith("sql."):
            return self._catalog.load_table(name)
        assert self._postgres is not None
        _, namespace, table = name.split(".")
        at = self._postgres.ask(
            f"SELECT metadata_location FROM iceberg_tables WHERE table_namespace = '{namespace}' AND table_name = '{table}'"
        )
        return StaticTable.from_metadata(at, {"s3.endpoint": self._endpoint, **self._secrets})

    def expire(self) -> None:
        """Expires all snapshots of the training table of `home` that no ref keeps. Pins of trainers are refs."""
        table = self._catalog.load_table("ml.home")
        current = table.current_snapshot()
        kept = {ref.snapshot_id for ref in table.metadata.refs.values()}
        old = [s.snapshot_id for s in table.snapshots() if s.snapshot_id not in kept and s != current]
        if old:
            table.maintenance.expire_snapshots().by_ids(old).commit()

    def _refusal(self, request: BaseHTTPRequestHandler) -> Answer | None:
        session = request.headers.get(sessions.TOKEN)
        if self._keys.admits(session):
            if session is not None:
                sessions.sign_without(request, _SECRET)
            return None
        text = "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
        return Answer(400, text.encode(), [("Content-Type", "application/xml")])

    def _made(self, name: str, stack: ExitStack) -> SqlCatalog:
        warehouse = "s3://lake/warehouse" if name == "default" else "s3://lake/sql"
        made = _Catalog(
            name,
            uri=f"sqlite:///{self._folder}/{name}.db",
            warehouse=warehouse,
            **{"s3.endpoint": self._endpoint},
            **self._secrets,
        )
        stack.callback(made.engine.dispose)
        for namespace in ("ml", "features"):
            made.create_namespace(namespace)
        return made

    def _create(
        self, catalog: SqlCatalog, name: str, columns: dict[str, Any], key: str, buckets: int = 4
    ) -> Table:
        schema = Schema(
            *[NestedField(i, n, t, required=False) for i, (n, t) in enumerate(columns.items(), 1)]
        )
        source = schema.find_field(key).field_id
        spec = PartitionSpec(PartitionField(source, 1000, BucketTransform(buckets), f"{key}_bucket"))
        return catalog.create_table(name, schema, partition_spec=spec)

    def _write(self, name: str, catalog: SqlCatalog, prefix: str = "") -> None:
        """Writes the tables of a dataset."""
        table, rows = self._create(catalog, f"ml.{name}", _TRAINING, "key"), values.ROWS[name]
        for i in range(_FILES):
            table.append(values.training(rows * i // _FILES, rows * (i + 1) // _FILES))
        columns = {"key": LongType(), "history": _LONGS}
        self._create(catalog, f"features.{prefix}history", columns, "key", 1).append(values.history())
        columns = {"key": LongType(), "score": DoubleType()}
        self._create(catalog, f"features.{prefix}fixed", columns, "key", 2).append(values.fixed())

    def _start_postgres(self, programs: Path, stack: ExitStack) -> str:
        self._postgres = server = postgres.Postgres(programs)
        stack.callback(server.close)
        made = self._made("sql", stack)
        self._write("sql", made)
        self._create(made, "features.written", {"id": LongType(), "value": LongType()}, "id")
        for namespace in ("ml", "features"):
            server.ask(
                f"INSERT INTO iceberg_namespace_properties VALUES ('sql', '{namespace}', 'exists', 'true')"
            )
            for _, table in made.list_tables(namespace):
                at = made.load_table(f"{namespace}.{table}").metadata_location
                server.ask(
                    f"INSERT INTO iceberg_tables VALUES ('sql', '{namespace}', '{table}', '{at}', NULL, 'TABLE')"
                )
        self.sql = Relay("127.0.0.1:0", f"127.0.0.1:{server.port}")
        return f"postgresql://{postgres.USER}:{postgres.PASSWORD}@{self.sql.address}/postgres?sslmode=disable"

    def _datasets(self, catalogs: dict[str, Any]) -> dict[str, Any]:
        def of(training: str, prefix: str) -> dict[str, Any]:
            overlay = {"table": f"{prefix}fixed", "join": "overlay", "name": "fixed"}
            staging = [{"table": f"{prefix}history", "name": "history"}, overlay]
            return {"training": {"table": training}, "key": ["key"], "staging": staging}

        found = {"home": of("ml.home", "features."), "other": of("ml.other", "features.other_")}
        return {**found, "sql": of("sql.ml.sql", "sql.features.")} if "sql" in catalogs else found
