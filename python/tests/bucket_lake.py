"""Tables in a bucket of a local S3 gateway, as PyIceberg reads them, and the files that nothing needs."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import rest_catalog
from accidents import Accidents, storage
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from server import BINARY, START_LIMIT

GATEWAY = Path(os.environ.get("PENSTOCK_S3GATEWAY", Path(__file__).parents[2] / ".bin" / "s3gateway"))
_ACCESS, _SECRET = "testaccess", "testsecret12"
_DAY = 86400
_UPLOADS = ".sgwtmp"  # where the gateway keeps parts

# The gateway occasionally refuses an upload whose checksum follows its body, as PyIceberg's do.
os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")

# Names of the files of penstock's commits, as docs/spec/write.md has them.
_OWNED = re.compile(
    r"(penstock-[0-9a-f]{16}-.*|\d+-70656e73-746f-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\.metadata\.json)"
)


class BucketLake:
    """A bucket, a catalog, and penstock's commands on them.

    Attributes:
        catalog: PyIceberg's, which reaches the gateway without accidents.
        accidents: of penstock's calls.
        endpoint: of the gateway, without accidents.
    """

    def __init__(self, folder: Path, endpoint: str, stack: ExitStack, *, rest: bool) -> None:
        self._folder, self._bucket, self.endpoint = folder, folder / "s3" / "lake", endpoint
        uri, warehouse = f"sqlite:///{folder}/catalog.db", "s3://lake/warehouse"
        keys = {"s3.region": "us-east-1", "s3.access-key-id": _ACCESS, "s3.secret-access-key": _SECRET}
        self.catalog = SqlCatalog(
            "default", uri=uri, warehouse=warehouse, **{"s3.endpoint": endpoint}, **keys
        )
        stack.callback(self.catalog.engine.dispose)
        self.catalog.create_namespace("features")
        self.accidents = Accidents()
        keys["s3.endpoint"] = stack.enter_context(storage(endpoint, self.accidents)).uri
        block: dict[str, object] = {"type": "sql", "uri": uri, "warehouse": warehouse, **keys}
        if rest:
            served = stack.enter_context(rest_catalog.serve(self.catalog, keys, self.accidents))
            block = {"type": "rest", "uri": served.uri}
        block["writes"] = {"namespaces": ["features"]}
        self._config = folder / "penstock.yaml"
        self._settings: dict[str, object] = {"catalogs": {"default": block}, "server": {"memory": "512MiB"}}
        self.configure({})

    def configure(self, datasets: dict[str, object]) -> None:
        """Writes the config file with these datasets."""
        self._config.write_text(json.dumps({**self._settings, "datasets": datasets}))

    def datasets(self, datasets: dict[str, object]) -> None:
        """Configures datasets."""
        config = json.loads(self._config.read_text())
        self._config.write_text(json.dumps({**config, "datasets": datasets}))

    def command(self, *arguments: str) -> list[str]:
        """The command line of penstock."""
        return [str(BINARY), *arguments, "--config", str(self._config)]

    def table(self, name: str) -> Table | None:
        """A table as PyIceberg has it now, or None."""
        try:
            return self.catalog.load_table(name)
        except NoSuchTableError:
            return None

    def rows(self, name: str, branch: str = "main") -> list[dict[str, object]] | None:
        """The rows of a branch in the order of id; None if there is no such branch."""
        table = self.table(name)
        if table is None:
            return [] if branch == "main" else None
        if branch not in table.metadata.refs:
            return [] if branch == "main" else None
        # A snapshot has the schema of its time, main the current one.
        at = None if branch == "main" else table.metadata.refs[branch].snapshot_id
        read = table.scan(snapshot_id=at).to_arrow()
        return read.sort_by("id").to_pylist()

    def unneeded(self, name: str) -> tuple[set[str], int]:
        """Files of ours in a table's folder that its metadata does not lead to, and the number of unfinished uploads."""
        table = self.catalog.load_table(name)
        folder = self._bucket / "warehouse" / "features" / name.partition(".")[2]
        there = {f"s3://lake/{p.relative_to(self._bucket)}" for p in folder.rglob("*") if p.is_file()}
        left = there - needed(table)
        uploads = [p for p in (self._bucket / _UPLOADS / "multipart").glob("*/*") if p.is_dir()]
        return {at for at in left if _OWNED.fullmatch(at.rpartition("/")[2])}, len(uploads)

    def orphans(self, name: str, *flags: str) -> tuple[set[str], int]:
        """What penstock lists, or removes, when all files are two days old."""
        old = time.time() - 2 * _DAY
        for path in [self._bucket, *self._bucket.rglob("*")]:
            os.utime(path, (old, old))
        done = self.accidents.run(self.command("orphans", name, "--older-than", "1h", *flags))
        assert done.returncode == 0, done.stderr
        files, uploads = set(), 0
        for line in done.stdout.splitlines()[:-1]:
            location = line.split(", ")[0]
            if location.startswith("unfinished upload of "):
                uploads += 1
            else:
                files.add(location)
        return files, uploads

    def clear_uploads(self) -> None:
        """Removes what killed processes left in the gateway's folder."""
        shutil.rmtree(self._bucket / _UPLOADS, ignore_errors=True)


def needed(table: Table) -> set[str]:
    """All files that a table's metadata leads to, whichever snapshot does."""
    out = {table.metadata_location} | {entry.metadata_file for entry in table.metadata.metadata_log}
    for snapshot in table.snapshots():
        out.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            out.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            out |= {entry.data_file.file_path for entry in entries}
    return out


def tokens(table: Table, token: str) -> list[int]:
    """The snapshots that have a token."""
    return [
        s.snapshot_id
        for s in table.snapshots()
        if s.summary is not None and s.summary.additional_properties.get("penstock.token") == token
    ]


@contextmanager
def bucket_lake(folder: Path, *, rest: bool) -> Iterator[BucketLake]:
    """Starts the gateway, which ends with its standard input, and what else a lake needs."""
    assert GATEWAY.exists(), f"there is no {GATEWAY}: make .bin/s3gateway"
    (folder / "s3" / "lake").mkdir(parents=True)
    with (
        subprocess.Popen(
            [str(GATEWAY), str(folder / "s3")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
        ExitStack() as stack,
    ):
        assert process.stdout is not None
        spoke, _, _ = select.select([process.stdout], [], [], START_LIMIT)
        endpoint = process.stdout.readline().strip() if spoke else ""
        assert endpoint, "the S3 gateway did not start"
        yield BucketLake(folder, endpoint, stack, rest=rest)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(START_LIMIT)


def write(path: Path, rows: pa.Table) -> str:
    """Writes rows to a Parquet file, and returns its path."""
    pa.parquet.write_table(rows, path)
    return str(path)
