"""T in a bucket of an S3 gateway, beside a catalog on local disk."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

import tables
from pyiceberg.catalog.sql import SqlCatalog

BUCKET = "bench"
_ACCESS, _SECRET = "testaccess", "testsecret12"  # the gateway's own
_MARK = "finished"

# The gateway occasionally refuses an upload whose checksum follows its body, as PyIceberg's do.
os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")

_CONFIG = """\
catalogs:
  default:
    type: sql
    uri: "sqlite:///{home}/catalog.db"
    warehouse: "s3://{bucket}/warehouse"
    s3.endpoint: {endpoint}
    s3.region: us-east-1
    s3.access-key-id: {access}
    s3.secret-access-key: {secret}
    s3.path-style-access: true
datasets:
  t:
    training:
      table: bench.t
    key: [request_id]
    staging:
      - table: bench.staging
"""


def config(home: Path, endpoint: str) -> str:
    """The server's configuration for the tables of a folder."""
    return _CONFIG.format(home=home, bucket=BUCKET, endpoint=endpoint, access=_ACCESS, secret=_SECRET)


def ensure(home: Path, sizes: tables.Sizes, endpoint: str) -> None:
    """Makes the tables, unless they exist with the same sizes.

    Args:
        home: the folder of the catalog, and of the folder `objects`, which the gateway serves.
        sizes: of the tables.
        endpoint: of the gateway.
    """
    mark, made = home / _MARK, json.dumps(dataclasses.asdict(sizes))
    if mark.exists() and mark.read_text() == made:
        return
    mark.unlink(missing_ok=True)
    (home / "catalog.db").unlink(missing_ok=True)
    shutil.rmtree(home / "objects" / BUCKET / "warehouse", ignore_errors=True)
    catalog = SqlCatalog(
        "default",
        uri=f"sqlite:///{home}/catalog.db",
        warehouse=f"s3://{BUCKET}/warehouse",
        **{
            "s3.endpoint": endpoint,
            "s3.region": "us-east-1",
            "s3.access-key-id": _ACCESS,
            "s3.secret-access-key": _SECRET,
        },
    )
    catalog.create_namespace("bench")
    drawn = tables.draw(sizes)
    tables.create(catalog, "staging", drawn.staging, sizes.buckets)
    tables.create(catalog, "t", drawn.training, sizes.buckets)
    catalog.close()
    mark.write_text(made)
