"""The input of a contender: the data files of pinned snapshots, and the expected answer.

`tables.py` writes it as JSON beside the tables it made, and every contender
reads it. No contender lists folders or opens a catalog: all read the same
files.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Literal

from checks import Summary

# A left join keeps training rows without a match, an inner join drops them.
JoinKind = Literal["left", "inner"]


@dataclasses.dataclass(frozen=True)
class Source:
    """One table at one snapshot.

    `largest_row_group` and `largest_bucket` are bytes in Arrow memory. With
    `rows` and `bytes_on_disk`, reports have them.
    """

    table: str
    snapshot: int
    files: list[str]
    columns: list[str]
    rows: int
    bytes_on_disk: int
    largest_row_group: int
    largest_bucket: int


@dataclasses.dataclass(frozen=True)
class Inputs:
    """One data set: both sides of the join, its key and kind, and the joined answer.

    `staging_key` is the key's name in the staging table, if it is another name.
    """

    dataset: str
    key: str
    training: Source
    staging: Source
    expected: Summary
    staging_key: str = ""
    join: JoinKind = "left"

    @property
    def keys(self) -> tuple[str, str]:
        """The key's names in the training and in the staging table."""
        return self.key, self.staging_key or self.key

    @property
    def features(self) -> list[str]:
        """The staging columns in the join: all except the key."""
        return [name for name in self.staging.columns if name != self.keys[1]]

    def save(self, path: Path) -> None:
        """Write the JSON form."""
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Inputs:
        """Read the JSON form."""
        text = json.loads(path.read_text())
        return Inputs(
            dataset=text["dataset"],
            key=text["key"],
            training=Source(**text["training"]),
            staging=Source(**text["staging"]),
            expected=Summary.from_json(text["expected"]),
            staging_key=text.get("staging_key", ""),
            join=text.get("join", "left"),
        )
