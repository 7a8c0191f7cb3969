"""The demo's tables in a bucket: a local S3 gateway, with a REST catalog in front of it."""

from __future__ import annotations

import os
import secrets
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import catalog
import lakehouse
from failure import DemoError
from pyiceberg.exceptions import NoSuchTableError

_ROOT = Path(__file__).resolve().parent.parent
_BUCKET = "lake"
_REGION = "us-east-1"
_START_LIMIT = 30.0


@contextmanager
def place(folder: Path) -> Iterator[lakehouse.Place]:
    """Serve the bucket and its catalog; returns where the tables are.

    The server gets the catalog's address and a token. It gets the keys of the bucket from the
    catalog, table by table.
    """
    # The gateway occasionally refuses an upload whose checksum follows its body.
    os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    home = folder.resolve() / "lake"
    served = home / "s3"
    (served / _BUCKET).mkdir(parents=True, exist_ok=True)
    access, secret, token = "demo", secrets.token_hex(16), secrets.token_hex(16)
    with _gateway(served, access, secret) as endpoint:
        keys = {
            "s3.endpoint": endpoint,
            "s3.region": _REGION,
            "s3.access-key-id": access,
            "s3.secret-access-key": secret,
        }
        tables = lakehouse.Place(home, f"s3://{_BUCKET}/demo", served / _BUCKET / "demo", keys, {})

        def load(name: str) -> tuple[str, str]:
            written = lakehouse.open_catalog(tables)
            try:
                location = written.load_table(name).metadata_location
            except NoSuchTableError as e:
                raise LookupError(str(e)) from e
            finally:
                written.close()
            return location, Path(tables.local(location)).read_text()

        with catalog.serving(load, token, keys) as uri:
            tables.catalog.update({"type": "rest", "uri": uri, "token": token})
            yield tables


@contextmanager
def _gateway(folder: Path, access: str, secret: str) -> Iterator[str]:
    """Start the S3 gateway, which stops when its standard input closes; returns its address."""
    binary = Path(os.environ.get("PENSTOCK_S3GATEWAY", _ROOT / ".bin" / "s3gateway"))
    if not binary.exists():
        raise DemoError(f"there is no {binary}: run `make demo-s3`")
    command = [str(binary), "-access", access, "-secret", secret, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            spoke, _, _ = select.select([process.stdout], [], [], _START_LIMIT)
            address = process.stdout.readline().strip() if spoke else ""
            if not address:
                raise DemoError(f"the S3 gateway did not start: {folder} needs extended attributes (xattr)")
            yield address
        finally:
            process.terminate()
