"""Prints the kept statistics of the table ml.events in the catalog of a folder, as PyIceberg and this file read them."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.puffin import PuffinFile


def main() -> None:
    """Read the table's statistics file."""
    folder = Path(sys.argv[1])
    catalog = SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    table = catalog.load_table("ml.events")
    (statistics,) = table.metadata.statistics
    content = Path(statistics.statistics_path.removeprefix("file://")).read_bytes()
    if len(content) != statistics.file_size_in_bytes:
        sys.exit("the metadata has another size")
    file = PuffinFile(content)
    sketch, report = file.footer.blobs
    text = f"snapshot is current: {statistics.snapshot_id == table.current_snapshot().snapshot_id}; "
    text += (
        f"theta of {sketch.fields}: ndv {sketch.properties['ndv']}, {theta(file.get_blob_payload(sketch))}; "
    )
    text += f"report of {report.fields}: {json.loads(file.get_blob_payload(report))}"
    print(text)


def theta(blob: bytes) -> str:
    """Describe a compact theta sketch, by the layout of DataSketches."""
    preamble, version, family, _, _, flags, seed = struct.unpack_from("<BBBBBBH", blob)
    if (version, family, seed) != (3, 3, 0x93CC) or flags & 0x18 != 0x18:
        sys.exit("it is not an ordered compact sketch")
    count, probability = struct.unpack_from("<If", blob, 8)
    hashes = struct.unpack_from(f"<{count}Q", blob, 8 * preamble)
    if list(hashes) != sorted(set(hashes)) or len(blob) != 8 * (preamble + count):
        sys.exit("its hashes are not in order")
    return f"{count} hashes, theta {probability}"


if __name__ == "__main__":
    main()
