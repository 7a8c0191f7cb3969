"""Merges the states of workers and ranks into one state, from which any number of them can resume."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock import errors
from penstock.position import Position, check_ranks, listed, parsed


def merge_states(states: Iterable[Any] | Mapping[str, Any] | str | bytes) -> dict[str, Any]:
    """Merges the states of all ranks into one state, from which any number of ranks and workers can resume.

    Args:
        states: one state per rank, in any order: the state of a `penstock.torch.IterableDataset`, the state of a
            StatefulDataLoader that reads such a dataset with any number of workers, or a batch's cursor.

    Raises:
        Invalid: a rank is missing or duplicated; or the states are from different runs, steps, epochs or
            datasets, or have gaps.
    """
    given = [states] if isinstance(states, (Mapping, str, bytes)) else list(states)
    positions = [_rank(state) for state in given]
    if not positions:
        raise errors.Invalid("there are no states to merge", remedy="pass the state of each rank")
    for name in ("dataset", "epoch"):
        # A bare cursor does not contain the dataset's name.
        found = sorted({str(getattr(one, name)) for one in positions} - {""})
        if len(found) > 1:
            raise errors.Invalid(
                f"the states are from different {name}s: {', '.join(found)}",
                remedy="merge states that were saved at the same step",
            )
    furthest = max(positions, key=lambda one: one.step)
    behind = {one.step for one in positions if one.step != furthest.step and not one.ended}
    if behind:
        raise errors.Invalid(
            f"the states are from different steps: {listed(sorted({*behind, furthest.step}))}",
            remedy="save the state of every rank after the same step",
        )
    cursors = {json.dumps(c, sort_keys=True): c for one in positions for c in one.cursors}
    check_ranks(list(cursors.values()))
    _check_no_rank_missing(positions)
    _check_one_run(list(cursors.values()))
    return replace(
        furthest,
        dataset=next((one.dataset for one in positions if one.dataset), ""),
        cursors=tuple(sorted(cursors.values(), key=lambda cursor: int(cursor["shard"]["index"]))),
        ended=all(one.ended for one in positions),
    ).state()


def of_rank(state: Any) -> Position:
    """Decodes the position of a rank or of one of its workers.

    Args:
        state: the state of a dataset or of a StatefulDataLoader, or one or more cursors.

    Raises:
        Invalid: the value is none of these.
    """
    if isinstance(state, (str, bytes)):
        state = parsed(state)
    of_loader = isinstance(state, Mapping) and ("_snapshot" in state or "_num_yielded" in state)
    return _rank(state) if of_loader else Position.of(state)


# The fields of a cursor that depend on the shard and its position, rather than on the run.
_OF_SHARD = {"plan", "shard", "step", "rows", "requests", "uneven", "at", "counted", "sum"}


def _check_one_run(cursors: Sequence[Mapping[str, Any]]) -> None:
    """Checks that all cursors are from one plan; the error names the fields that differ."""
    fields = {name for cursor in cursors for name in cursor} - _OF_SHARD
    differs = sorted(name for name in fields if any(c.get(name) != cursors[0].get(name) for c in cursors))
    if not differs and len({cursor.get("plan") for cursor in cursors}) > 1:
        differs = ["plan"]
    if differs:
        raise errors.Invalid(
            f"the states are from different runs: their cursors differ in {', '.join(differs)}",
            remedy="merge the states of one run; ranks that plan separately must use the same snapshots, "
            "seed and filter",
            differs=tuple(differs),
        )


def _check_no_rank_missing(positions: Sequence[Position]) -> None:
    """Checks that no rank is missing or duplicated.

    Before its first batch, a rank that loaded a merged state still has the position of that state. Each position then
    has the cursors of all ranks, and all positions are equal.
    """
    ranks = [int(cursor["shard"]["index"]) for one in positions for cursor in one.cursors]
    if not ranks or all(len(one.cursors) == one.shards for one in positions):
        return
    of = max(one.shards for one in positions)
    missing = sorted(set(range(of)) - set(ranks))
    twice = sorted({rank for rank in ranks if ranks.count(rank) > 1})
    faults = [f"no state is from rank {listed(missing)}"] if missing else []
    faults += [f"two states are from rank {listed(twice)}"] if twice else []
    if faults:
        raise errors.Invalid(
            f"of {of} ranks {' and '.join(faults)}",
            remedy="merge one state of each rank; load_state_dict accepts the state of one rank only for that rank",
        )


def _rank(state: Any) -> Position:
    """Returns the position of a rank, from its own state or its workers' states."""
    if isinstance(state, (str, bytes)):
        state = parsed(state)
    if isinstance(state, Mapping) and "_snapshot" in state:
        return _furthest(_workers(state))
    if isinstance(state, Mapping) and "_num_yielded" in state:
        return Position.of(_datasets(state))
    at = Position.of(state)
    if at.every[1] > 1:
        raise errors.Invalid(
            f"the state is from one of {at.every[1]} DataLoader workers",
            remedy="merge the state of the StatefulDataLoader, which contains those of all workers",
        )
    return at


def _workers(state: Mapping[str, Any]) -> list[Position]:
    """Returns the positions of the workers of a StatefulDataLoader."""
    behind = int(state.get("_steps_since_snapshot", 0))
    if behind:
        raise errors.Invalid(
            f"the loader's state is {behind} steps old",
            remedy="make the StatefulDataLoader with snapshot_every_n_steps=1",
        )
    snapshots = state["_snapshot"]["_worker_snapshots"]
    workers = [Position.of(_datasets(one)) for one in snapshots.values()]
    of = max((one.every[1] for one in workers), default=1)
    missing = [number for number in range(of) if f"worker_{number}" not in snapshots]
    if missing or len(workers) != of:
        raise errors.Invalid(
            f"the loader's state has {len(workers)} of {of} workers"
            + (f", and none of worker {listed(missing)}" if missing else ""),
            remedy="load the state as the StatefulDataLoader returned it",
        )
    return workers


def _datasets(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the dataset's part of torchdata's state."""
    own = state.get("dataset_state")
    if not isinstance(own, Mapping):
        raise errors.Invalid(
            "the loader's state does not contain the state of a penstock dataset",
            remedy="merge states of a StatefulDataLoader that reads a penstock.torch.IterableDataset",
        )
    return own


def _furthest(workers: list[Position]) -> Position:
    """Returns the position of a rank, given the positions of its workers.

    If batches were consumed in order, the workers' next steps are consecutive. They begin right after the furthest
    worker's last step, unless the dataset skips its first steps and no worker has read any.
    """
    if len({one.epoch for one in workers}) > 1:
        raise errors.Invalid(
            "the loader's workers are in different epochs",
            remedy="merge the cursor of each rank's last batch instead",
        )
    due = sorted(one.step + one.every[0] for one in workers)
    furthest = max(workers, key=lambda one: one.step)
    first = furthest.step if any(one.cursors for one in workers) else due[0]
    if due != list(range(first, first + len(workers))):
        raise errors.Invalid(
            f"the loader's workers are not at consecutive steps: {listed(due)} come next",
            remedy="make the StatefulDataLoader with in_order=True",
        )
    return replace(furthest, every=(0, 1), ended=all(one.ended for one in workers))
