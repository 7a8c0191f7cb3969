"""Result files of an evaluation: one Parquet file per split, which identifies its split in its metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock import errors
from penstock.files import write_atomically
from penstock.splits import Split

# The metadata key of a result's description.
_OF = b"penstock"

_REMEDY = "check it, move or delete it, and evaluate again to read that split again"
_MAGIC = b"PAR1"
_SHOWN = 5


def about(plan: str, split: Split, report: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the description of a result: the plan, the split's ids, and the server's report of its rows."""
    return {"plan": plan, "splits": list(split.ids), "report": dict(report)}


def write(file: Path, table: pa.Table, of: Mapping[str, Any]) -> None:
    """Writes a result, atomically."""
    named = table.replace_schema_metadata(
        {**(table.schema.metadata or {}), _OF: json.dumps(of, ensure_ascii=False).encode()}
    )
    write_atomically(file, lambda out: pq.write_table(named, out, write_page_checksum=True))


def read(file: Path) -> pa.Table:
    """Reads the rows of a result, without its description.

    Raises:
        Corrupt: the file was changed after it was written.
    """
    try:
        return pq.read_table(file, page_checksum_verification=True).replace_schema_metadata()
    except (OSError, pa.ArrowException) as e:
        raise errors.Corrupt(
            f"{file} cannot be read as the result of its split: {e}", remedy=_REMEDY, file=str(file)
        ) from e


def missing(plan: str, files: Mapping[Split, Path]) -> list[Split]:
    """Returns the splits that have no result yet.

    Raises:
        Corrupt: a file with a result's name is not the complete result of its split. The file is not changed: this
            package does not write such files, so it has another origin or was modified.
    """
    left: list[Split] = []
    broken: list[tuple[Path, str]] = []
    for split, file in files.items():
        if not file.exists():
            left.append(split)
        elif why := _fault(file, plan, split):
            broken.append((file, why))
    if broken:
        more = [f"and {len(broken) - _SHOWN} more"] if len(broken) > _SHOWN else []
        raise errors.Corrupt(
            "; ".join(
                [f"{file} is not the result of its split: {why}" for file, why in broken[:_SHOWN]] + more
            ),
            remedy=_REMEDY,
            file=str(broken[0][0]),
        )
    return left


def _fault(file: Path, plan: str, split: Split) -> str:
    """Returns the reason why a file is not the complete result of a split, or "". Reads only the footer."""
    if not file.is_file():
        return "it is not a regular file"
    try:
        with pq.ParquetFile(file) as found:
            metadata = found.metadata
        if not _is_whole(file, metadata):
            return "parts of it are missing"
        of = json.loads((metadata.metadata or {}).get(_OF, b"null"))
        was, ids, rows = of["plan"], of["splits"], of["report"]["rows"]
    except (OSError, pa.ArrowException) as e:
        return f"it cannot be read as Parquet: {e}"
    except (ValueError, TypeError, KeyError):
        return "it has no description of its split"
    if was != plan:
        return f"it belongs to plan {was}, not {plan}"
    if ids != list(split.ids):
        return "it belongs to another split"
    if split.rows not in (None, rows):
        return f"it has results of {rows} rows, and the split has {split.rows}"
    return ""


def _is_whole(file: Path, metadata: pq.FileMetaData) -> bool:
    """Reports whether all column chunks in a footer lie within the file, before the footer."""
    with file.open("rb") as found:
        head = found.read(len(_MAGIC))
    end = file.stat().st_size - 2 * len(_MAGIC) - metadata.serialized_size
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            first = chunk.dictionary_page_offset or chunk.data_page_offset
            if first < len(_MAGIC) or first + chunk.total_compressed_size > end:
                return False
    return head == _MAGIC
