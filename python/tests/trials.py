"""Changes of tables by penstock with an accident at one call, and what PyIceberg reads before and after.

Nothing here shares code with the writers.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from accidents import DEATHS, Accident
from bucket_lake import BucketLake, needed, tokens, write
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from shuffled_tables import delete_places

Row = dict[str, object]

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "day", LongType()), NestedField(3, "note", StringType())
)
SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "day"), PartitionField(1, 1001, BucketTransform(2), "bucket")
)


def _rows(first: int, day: int, note: str, **more: object) -> list[Row]:
    return [{"id": i, "day": day, "note": note, **more} for i in range(first, first + 4)]


OLD = _rows(0, 1, "old") + _rows(4, 2, "old")
NEW = _rows(8, 1, "new")


@dataclass
class Change:
    """What is done to a table, and what the table has before and after.

    Attributes:
        command: of penstock, which names the table as TABLE, the new rows as ROWS and the token as TOKEN.
        new: rows of the file.
        old: rows of the table; None: there is no table.
        after: the rows of the branch in the end.
        branch: that is changed.
        prepare: what is done before; it returns further words of the command.
        counted: which calls have accidents.
        commits: the snapshots that it makes; None: any number, and none when it is repeated.
        files: of the branch in the end, all of them penstock's; None: any.
    """

    command: list[str]
    after: list[Row]
    new: list[Row] = field(default_factory=lambda: NEW)
    old: list[Row] | None = field(default_factory=lambda: OLD)
    branch: str = "main"
    before: tuple[list[Row] | None, ...] = (OLD,)
    prepare: Callable[[BucketLake, str, list[str]], list[str]] = lambda _lake, _name, _stage: []
    counted: Callable[[str], bool] = lambda _: True
    commits: int | None = 1
    files: int | None = None

    @property
    def staged(self) -> bool:
        """Whether the command has a token."""
        return "TOKEN" in self.command


def _staged_to_branch(lake: BucketLake, _name: str, stage: list[str]) -> list[str]:
    assert lake.accidents.run([*stage, "--branch", "next"]).returncode == 0
    return []


def _staged_to_main(lake: BucketLake, _name: str, stage: list[str]) -> list[str]:
    done = lake.accidents.run([*stage, "--json"])
    made, parent = (re.search(rf'"{key}": ?"(\d+)"', done.stdout) for key in ("snapshot", "parent"))
    assert made is not None
    assert parent is not None
    return ["--from", parent[1], "--to", made[1]]


def _noted(rows: list[Row], later: str | None) -> list[Row]:
    return [{**row, "later": later} for row in rows]


_STAGE = ["stage", "TABLE", "ROWS", "--token", "TOKEN"]
CHANGES = {
    "append": Change(_STAGE, OLD + NEW),
    "replace": Change([*_STAGE, "--mode", "replace"], OLD[4:] + NEW),
    "evolve": Change([*_STAGE, "--evolve"], _noted(OLD, None) + _noted(NEW, "x"), new=_noted(NEW, "x")),
    "branch": Change([*_STAGE, "--branch", "next"], OLD + NEW, branch="next", before=(None, OLD)),
    "create": Change([*_STAGE, "--key", "id", "--buckets", "2"], NEW, old=None, before=([],)),
    "publish": Change(["publish", "TABLE", "next"], OLD + NEW, prepare=_staged_to_branch, commits=0),
    "undo": Change(["undo", "TABLE"], OLD, before=(OLD + NEW,), prepare=_staged_to_main, commits=0),
}


def _in_small_files(lake: BucketLake, name: str, _stage: list[str]) -> list[str]:
    """Adds files to one day, and deletes a row of the other."""
    table = lake.catalog.load_table(name)
    for rows in (NEW[:2], NEW[2:]):
        table.append(arrow(rows))
    _delete_first(table, OLD[4:])
    return []


def _delete_first(table: Table, rows: list[Row]) -> None:
    """Deletes the first of some rows by position."""
    for task in table.scan().plan_files():
        with table.io.new_input(task.file.file_path).open() as source:
            ids = pq.read_table(pa.BufferReader(source.read()), columns=["id"])["id"].to_pylist()
        if rows[0]["id"] in ids:
            delete_places(table, [(task.file, [ids.index(rows[0]["id"])])])


def _replaced(lake: BucketLake, name: str, stage: list[str]) -> list[str]:
    """Deletes a row, and replaces a day."""
    table = lake.catalog.load_table(name)
    _delete_first(table, OLD)
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    at = stage.index("--token")
    done = lake.accidents.run([*stage[:at], *stage[at + 2 :], "--mode", "replace"])
    assert done.returncode == 0, done.stderr
    return ["--snapshot", str(snapshot.snapshot_id)]


def _with_features(lake: BucketLake, name: str, _stage: list[str]) -> list[str]:
    """Makes a table of features and a dataset, and adds files of another partition spec and a delete."""
    table = lake.catalog.load_table(name)
    with table.update_spec() as spec:
        spec.remove_field("bucket")
    table.append(arrow(NEW))
    _delete_first(table, NEW)
    if lake.table(_FEATURES) is None:
        features = Schema(NestedField(1, "key", LongType()), NestedField(2, "pin", LongType()))
        made = lake.catalog.create_table(_FEATURES, features)
        made.append(pa.Table.from_pylist(_PINS, pa.schema({"key": pa.int64(), "pin": pa.int64()})))
    staging = {"table": _FEATURES, "key": {"id": "key"}}
    lake.configure({"home": {"training": {"table": name}, "key": ["id"], "staging": [staging]}})
    return []


def _promoted(lake: BucketLake, name: str, stage: list[str]) -> list[str]:
    _with_features(lake, name, stage)
    done = lake.accidents.run(lake.command(*_PROMOTE))
    assert done.returncode == 0, done.stderr
    return []


_FEATURES = "features.pins"
_PINS: list[Row] = [{"key": i, "pin": 100 + i} for i in range(0, 12, 2)]
_PROMOTE = ["promote", "home", "pins"]
_TRAINED = OLD + NEW[1:]
_COMPACTED = OLD[:4] + OLD[5:] + NEW
_JOINED = [{**row, "pin": {p["key"]: p["pin"] for p in _PINS}.get(row["id"])} for row in _TRAINED]

# Changes that rewrite or copy files, or change the schema alone.
REWRITES = {
    "compact": Change(
        ["compact", "TABLE", "--min-files", "2"],
        _COMPACTED,
        before=(_COMPACTED,),
        prepare=_in_small_files,
        commits=None,
    ),
    "restore": Change(
        ["restore", "TABLE", "--token", "TOKEN"], OLD[1:], before=(OLD[4:] + NEW,), prepare=_replaced, files=4
    ),
    "promote": Change(_PROMOTE, _JOINED, before=(_TRAINED,), prepare=_with_features, commits=None, files=5),
    "demote": Change(
        ["demote", "TABLE", "pin", "--yes"],
        _TRAINED,
        before=(_JOINED,),
        prepare=_promoted,
        commits=0,
        files=5,
    ),
}


_numbers = itertools.count()


class Trial:
    """A change of a new table, with an accident, and once more without."""

    def __init__(self, lake: BucketLake, change: Change, folder: Path) -> None:
        number = next(_numbers)
        self._lake, self._change, self.name = lake, change, f"features.t{number}"
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.000Z")
        self.token = f"{now}-trial-{number}"
        if change.old is not None:
            self._create(change.old)
        words = {
            "TABLE": self.name,
            "ROWS": write(folder / "rows.parquet", arrow(change.new)),
            "TOKEN": self.token,
        }
        stage = lake.command(*(words.get(word, word) for word in _STAGE))
        more = change.prepare(lake, self.name, stage)
        self._command = lake.command(*(words.get(word, word) for word in change.command), *more)
        self._before = len(self._table().snapshots()) if change.old is not None else 0

    def _create(self, rows: list[Row]) -> None:
        self._lake.catalog.create_table(self.name, SCHEMA, partition_spec=SPEC).append(arrow(rows))

    def make_anew(self) -> None:
        """Drops the table, and makes another one of its name with the same rows."""
        assert self._change.old is not None
        self._lake.catalog.drop_table(self.name)
        self._create(self._change.old)

    def _table(self) -> Table:
        return self._lake.catalog.load_table(self.name)

    @property
    def command(self) -> list[str]:
        """The command line."""
        return self._command

    def run(self, nth: int, what: Accident, times: int = 1) -> int:
        """Makes the change with an accident, checks everything, and returns the number of calls."""
        lake, change = self._lake, self._change
        first = lake.accidents.run(self._command, nth, what, change.counted, times)
        calls = list(lake.accidents.calls)
        told = f"call {nth} of {calls}: {what.value}: {first.stdout}{first.stderr}"
        hit = nth <= len(calls)
        rows = lake.rows(self.name, change.branch)
        assert rows in (*change.before, change.after), told
        if first.returncode == 0:
            assert rows == change.after, told
        if hit and what in DEATHS:
            assert first.returncode < 0, told
        self.check_orphans(told)
        again = lake.accidents.run(self._command)
        assert again.returncode == 0, f"{told}\n{again.stderr}"
        self.check_whole(told)
        self._check_repeated(told)
        if hit:
            self.check_orphans(told)
            self._check_removal(told)
        return len(calls)

    def check_whole(self, told: str) -> None:
        """Checks that the change was made, and once."""
        lake, change = self._lake, self._change
        assert lake.rows(self.name, change.branch) == change.after, told
        table = self._table()
        if change.commits is not None:
            assert len(table.snapshots()) == self._before + change.commits, told
        if change.files is not None:
            files = [task.file.file_path.rpartition("/")[2] for task in table.scan().plan_files()]
            assert len(files) == change.files, told
            assert all(file.startswith("penstock-") for file in files), told
        if change.staged:
            assert len(tokens(table, self.token)) == 1, told
        if change.branch != "main":
            assert lake.rows(self.name) == change.old, told

    def check_orphans(self, told: str) -> None:
        """Checks that penstock lists the orphan files."""
        if self._lake.table(self.name) is not None:
            assert self._lake.orphans(self.name) == self._lake.unneeded(self.name), told

    def _check_repeated(self, told: str) -> None:
        if self._change.commits is not None:
            return
        before = self._table()
        assert self._lake.accidents.run(self._command).returncode == 0, told
        assert self._table().metadata_location == before.metadata_location, told
        made = before.snapshots()[self._before :]
        assert made, told
        assert all(s.summary is not None and s.summary.operation is Operation.REPLACE for s in made), told

    def _check_removal(self, told: str) -> None:
        lake, before = self._lake, needed(self._table())
        lake.orphans(self.name, "--remove")
        assert lake.unneeded(self.name) == (set(), 0), told
        assert needed(self._table()) == before, told
        self.check_whole(told)
        for snapshot in self._table().snapshots():
            read = self._table().scan(snapshot_id=snapshot.snapshot_id).to_arrow()
            assert snapshot.summary is not None
            totals = snapshot.summary.additional_properties
            total, deleted = int(totals["total-records"]), int(totals["total-position-deletes"])
            assert total - deleted <= read.num_rows <= total, told  # deletes of files that are gone may stay


def arrow(rows: list[Row]) -> pa.Table:
    """Rows as a table of Arrow."""
    names = {name: pa.int64() if name in ("id", "day") else pa.large_string() for name in rows[0]}
    return pa.Table.from_pylist(rows, pa.schema(names.items()))
