"""Writers that are killed at a call of storage or of a catalog, or get no answer to it.

The table has the whole change or nothing, the change can be repeated, and penstock orphans lists the orphan files.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from accidents import DEATHS, LOSSES, Accident, changes
from bucket_lake import BucketLake, bucket_lake
from trials import CHANGES, OLD, REWRITES, Change, Row, Trial

_LARGE = 18 << 20  # bytes of a file that is uploaded in parts

# The calls that tests try: with PENSTOCK_LONG each one, and else one of these, beginning at another one for each
# kind of accident.
_STEP = 1 if "PENSTOCK_LONG" in os.environ else 8


@pytest.fixture(scope="module", params=["sql", "rest"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketLake]:
    with bucket_lake(tmp_path_factory.mktemp("lake"), rest=request.param == "rest") as made:
        yield made


def _each_call(
    lake: BucketLake,
    change: Change,
    folder: Path,
    accidents: tuple[Accident, ...],
    counted: Callable[[str], bool] = changes,
    step: int | None = None,
) -> None:
    step = step or _STEP
    for i, what in enumerate(accidents):
        for nth in itertools.count(1 + (3 * i + 1) % step, step):
            if Trial(lake, dataclasses.replace(change, counted=counted), folder).run(nth, what) < nth:
                break


# A death before a call that only reads is one after the call before.
#
# spec: write-22, write-23, stage-33
def test_a_killed_stage_is_made_once_when_repeated(lake: BucketLake, tmp_path: Path) -> None:
    _each_call(lake, CHANGES["append"], tmp_path, (Accident.DEATH_AFTER,), step=1)


# spec: write-22, write-23, stage-33
@pytest.mark.more
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(CHANGES))
def test_deaths_at_each_call(lake: BucketLake, tmp_path: Path, name: str) -> None:
    _each_call(lake, CHANGES[name], tmp_path, DEATHS)


# spec: write-22, write-23
@pytest.mark.more
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(CHANGES))
def test_lost_answers_at_each_call(lake: BucketLake, tmp_path: Path, name: str) -> None:
    _each_call(lake, CHANGES[name], tmp_path, LOSSES, lambda _: True)


# In SQL catalogs: the numbers are those of calls between two commits of a change, or before its only one.
#
# spec: write-22, compact-12, compact-26, promote-6, promote-9, promote-12
@pytest.mark.parametrize("lake", ["sql"], indirect=True)
@pytest.mark.parametrize(("name", "nth"), [("compact", 9), ("restore", 4), ("promote", 14), ("demote", 1)])
def test_killed_rewrites_are_made_when_repeated(
    lake: BucketLake, tmp_path: Path, name: str, nth: int
) -> None:
    change = dataclasses.replace(REWRITES[name], counted=changes)
    assert Trial(lake, change, tmp_path).run(nth, Accident.DEATH_AFTER) == nth


# spec: write-22, compact-12, compact-26, promote-6, promote-9, promote-12
@pytest.mark.more
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(REWRITES))
def test_deaths_at_each_call_of_rewrites(lake: BucketLake, tmp_path: Path, name: str) -> None:
    _each_call(lake, REWRITES[name], tmp_path, DEATHS)


# spec: write-22, compact-12, compact-26, promote-8, promote-9, promote-12
@pytest.mark.more
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", sorted(REWRITES))
def test_lost_answers_at_each_call_of_rewrites(lake: BucketLake, tmp_path: Path, name: str) -> None:
    _each_call(lake, REWRITES[name], tmp_path, LOSSES)


def _uploads(name: str) -> bool:
    return "uploads" in name or "uploadId" in name


# spec: write-22, write-23
@pytest.mark.more
@pytest.mark.timeout(900)
def test_accidents_of_uploads_in_parts(lake: BucketLake, tmp_path: Path) -> None:
    new: list[Row] = [{"id": 8, "day": 1, "note": os.urandom(_LARGE // 2).hex()}]
    change = dataclasses.replace(CHANGES["append"], new=new, after=OLD + new)
    _each_call(lake, change, tmp_path, (*DEATHS, *LOSSES), _uploads)


def _commits(name: str) -> bool:
    return name.startswith("POST /v1/")


# A REST catalog makes commits, and answers each time that it did not.
#
# spec: write-22
@pytest.mark.parametrize("lake", ["rest"], indirect=True)
@pytest.mark.parametrize("what", [Accident.NO_ANSWER, Accident.FALSE_FAILURE, Accident.FALSE_CONFLICT])
@pytest.mark.parametrize("name", ["branch", "create", "undo"])
def test_commits_without_a_true_answer(lake: BucketLake, tmp_path: Path, name: str, what: Accident) -> None:
    change = dataclasses.replace(CHANGES[name], counted=_commits)
    Trial(lake, change, tmp_path).run(1, what, times=1000)


# spec: write-22, promote-8
@pytest.mark.more
@pytest.mark.parametrize("lake", ["rest"], indirect=True)
@pytest.mark.parametrize("what", [Accident.NO_ANSWER, Accident.FALSE_FAILURE, Accident.FALSE_CONFLICT])
@pytest.mark.parametrize("name", sorted(REWRITES))
def test_rewrites_without_a_true_answer(lake: BucketLake, tmp_path: Path, name: str, what: Accident) -> None:
    change = dataclasses.replace(REWRITES[name], counted=_commits)
    Trial(lake, change, tmp_path).run(1, what, times=1000)


# spec: stage-33
@pytest.mark.parametrize("name", ["append", "create", "branch", "replace"])
def test_processes_with_one_token(lake: BucketLake, tmp_path: Path, name: str) -> None:
    trial = Trial(lake, CHANGES[name], tmp_path)
    running = [subprocess.Popen(trial.command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    trial.check_whole(str(said))
    assert lake.unneeded(trial.name) == (set(), 0), said


# spec: write-24
@pytest.mark.more
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["append", "replace", "evolve"])
def test_tables_created_again_during_a_stage(lake: BucketLake, tmp_path: Path, name: str) -> None:
    for nth in itertools.count(1 + sum(map(ord, name)) % _STEP, _STEP):
        trial = Trial(lake, CHANGES[name], tmp_path)
        first = lake.accidents.run(trial.command, nth, trial.make_anew, changes)
        if first.returncode != 0:
            assert lake.rows(trial.name) == OLD, first.stderr
            assert lake.accidents.run(trial.command).returncode == 0
        if len(lake.accidents.calls) < nth:
            break
        trial.check_whole(first.stdout + first.stderr)
