"""A PyTorch dataset: the steps of one rank, for a DataLoader or a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Literal, SupportsIndex, Unpack, overload

import pyarrow as pa
import torch
from typing_extensions import TypeVar

from penstock import errors, mistakes, query
from penstock.fields import Cursor, RunQuery
from penstock.members import Ends, Member, check
from penstock.plan import Plan
from penstock.position import Position
from penstock.query import Dataset
from penstock.repeat import Repeat
from penstock.signatures import lists
from penstock.states import merge_states, of_rank
from penstock.torch import hosts, orphaned, ranks
from penstock.torch.batch import Batch
from penstock.torch.device import Mover, mover
from penstock.torch.hosts import Host
from penstock.torch.iteration import Iteration
from penstock.torch.limits import Watch
from penstock.torch.meter import LoopStats, Meter
from penstock.torch.mixed import MixMembers, MixSpec
from penstock.torch.options import Arguments, Connection, DatasetOptions, Options
from penstock.torch.readstate import ReadState
from penstock.torch.rules import Rules
from penstock.torch.shared import SharedState
from penstock.torch.source import Source, SourceSpec, StepRange, plan_steps, steps

_OWN = (
    "columns",
    "mix",
    "source",
    "ends",
    "repeat",
    "rank",
    "world",
    "device",
    "transform",
    "convert",
    "prefetch",
    "epochs",
    "skip",
    "limit",
)


# What an iteration yields.
T = TypeVar("T", covariant=True, default=Batch)
R = TypeVar("R", default=Any)


class IterableDataset(torch.utils.data.IterableDataset[T], Generic[T]):
    """The steps of one rank's shard, as a `torch.utils.data.IterableDataset`.

        ds = IterableDataset("localhost:8815", "homefeed", columns=["item_id", "label"], batch_rows=8192,
                             order="shuffled", seed=1, nulls="error")
        for epoch in range(2):
            ds.set_epoch(epoch)
            for batch in ds:  # penstock.torch.Batch
                train(batch)

    On a GPU, pass `device="cuda"`. Iteration reads ahead in a thread, which is the fastest way unless `transform` is slow
    Python code: then `DataLoader(ds, batch_size=None, num_workers=n)` distributes the steps over workers, and returns the same
    batches in the same order.

    An iteration yields a `Batch` for each step, with `cursor` and `step`. With `transform` or `convert=False`,
    it yields the resulting value and the cursor: `for value, cursor in ds`.

    Every rank reads a different shard of the rows, by its rank in torch.distributed. All ranks have the same
    number of steps, unless `tail="keep"` is set. All epochs, and all workers, read the snapshots of the first
    plan, or those of a state that is loaded.

    It can be pickled, and connects where it is read. Every failure is one of `penstock.errors`.
    """

    @overload
    def __init__(
        self: IterableDataset[Batch],
        uri: str | Sequence[str],
        dataset: Dataset | None = None,
        *,
        transform: None = None,
        convert: Literal[True] = True,
        **options: Unpack[Arguments],
    ) -> None: ...

    @overload
    def __init__(
        self: IterableDataset[tuple[R, Cursor]],
        uri: str | Sequence[str],
        dataset: Dataset | None = None,
        *,
        transform: Callable[[Any], R],
        convert: bool = True,
        **options: Unpack[Arguments],
    ) -> None: ...

    @overload
    def __init__(
        self: IterableDataset[tuple[pa.RecordBatch, Cursor]],
        uri: str | Sequence[str],
        dataset: Dataset | None = None,
        *,
        transform: None = None,
        convert: Literal[False],
        **options: Unpack[Arguments],
    ) -> None: ...

    @lists(RunQuery, Rules, Connection)
    def __init__(
        self,
        uri: str | Sequence[str],
        dataset: Dataset | None = None,
        *,
        mix: Sequence[Member] | None = None,
        source: str | None = "source",
        ends: Ends = "mix",
        repeat: Repeat | None = None,
        rank: int | None = None,
        world: int | None = None,
        device: torch.device | str | None = None,
        transform: Callable[[Any], Any] | None = None,
        convert: bool = True,
        prefetch: int = 2,
        epochs: Literal["auto"] | None = None,
        skip: int = 0,
        limit: int | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Describes what to read. Nothing is opened before the first batch.

        Args:
            uri: the address of a server, or of several, as in `penstock.connect`.
            dataset: the name of a dataset on the server, or a dataset as a mapping.
            mix: datasets to mix, instead of a single one: their names, weights and other query fields, see
                `penstock.Member` and `penstock.mix`. The query fields in `options` apply to all of them.
            source: the name of the column with the index of each row's member in the mix; None adds none.
            ends: what the end of a member of the mix means, see `penstock.mix`.
            repeat: the number of epochs that one iteration reads, one after the other and counted from epoch 0, or
                "forever". Not for a mix, whose members may repeat.
            rank: this process's rank; taken from torch.distributed if omitted.
            world: the number of ranks. Required together with `rank`.
            device: the device to copy tensors to, ahead of the loop; None does not copy. Not for DataLoader workers.
            transform: called with each batch, in the thread or worker that reads it, before the copy to the device.
            convert: False yields `pyarrow.RecordBatch` instead of `Batch`.
            prefetch: how many batches to read ahead of the loop; 0 disables read-ahead. DataLoader workers use
                `prefetch_factor` instead.
            epochs: "auto" makes each iteration the next epoch; otherwise `set_epoch` does.
            skip: how many steps to skip at the beginning of each epoch, on every rank. They are read and dropped.
            limit: how many steps of each epoch to return on every rank, after the skipped ones; all if omitted.
            options: fields of the query, see `penstock.RunQuery`; conversion rules, see `Rules`; and arguments of
                `penstock.connect`.
        """
        super().__init__()
        self._options = DatasetOptions.of(options, _OWN)
        self._uri = uri if isinstance(uri, str) else tuple(uri)
        self._options = self._options.repeated(repeat)
        self._mix = self._checked_mix(dataset, mix, source, ends)
        given: Any = dataset
        self._dataset = given
        self._name = self._mix.name if self._mix is not None else query.name(self._dataset)
        self._explicit_rank = ranks.explicit(rank, world)
        self._device = None if device is None else torch.device(device)
        self._transform = transform
        self._convert = convert
        self._prefetch = mistakes.whole("prefetch", prefetch)
        self._steps = _steps(skip, limit)
        self._check(epochs)
        self._check_repeat(epochs)
        if self._mix is not None and convert:
            self._options = self._mix.with_source_rule(self._options)
        self._shared = SharedState()
        self._watch = Watch(self._name)
        # The cursor of a mix has no query, but the cursors of its members do.
        self._state = ReadState(
            self._name,
            self._options.query if self._mix is None else self._mix.query,
            self._shared,
            counts=epochs == "auto",
            skip=self._steps.first,
        )
        self._length: tuple[Any, int] | None = None
        self._host: Host | None = None  # what a spawned worker cannot find on its stack

    @property
    def epoch(self) -> int:
        """The epoch of the next iteration: set by the user, counted, or from a loaded state."""
        return self._shared.epoch or 0

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """Sets the epoch of the next iteration, also in running workers.

        A shuffled order is different in each epoch. If it is never set, all iterations read the same order, unless
        the dataset counts epochs: then it counts from this one. Lightning's loop and the Trainer of transformers
        determine the epoch of their iterations unless it is set.
        """
        number = mistakes.whole("epoch", epoch, "set_epoch({value})")
        if not 0 <= number < 1 << 63:
            raise errors.Invalid(f"epoch: there is no epoch {number}", remedy="count from 0")
        # Accelerate sets the epoch before each iteration, on all ranks. Only here can all ranks fail.
        host = hosts.find()
        refused = host.refused(self._rank[1]) if host.divided > 1 else None
        if refused is not None:
            raise refused
        self._shared.set_epoch(number)

    def plan(self) -> Plan:
        """Returns the server's plan for the next iteration. All epochs read its snapshots.

        Raises:
            Invalid: this is a mix.
        """
        plan = plan_steps(self._spec(self._state.next_start()))[0]
        if plan is None:
            raise errors.Invalid(
                "a mix has no plan of its own", remedy="call plan of a penstock.Client for each member"
            )
        return plan

    @property
    def sources(self) -> tuple[str, ...]:
        """The members' names, indexed by the integers in the source column. Empty if this is not a mix."""
        return () if self._mix is None else self._mix.names

    def stats(self) -> LoopStats:
        """Statistics of the latest iteration in this process so far: the rows read, and where the time of steps went.

        DataLoader workers count in their own processes, including the time that they wait.
        """
        iteration = self._state.iteration
        return Meter().stats() if iteration is None else iteration.count()

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the latest iteration, just past the last batch the loop received, as plain JSON.

        `StatefulDataLoader` calls it in its workers. Lightning calls it on all ranks when it saves a checkpoint: then it
        is the merged state of all of them. The process that started DataLoader workers does not know
        their progress: save the cursor of the last batch there.

        Raises:
            Invalid: DataLoader workers read this dataset, or a framework took batches that its loop did not get yet.
        """
        ahead = self._state.ahead
        if ahead and not hosts.asked_by_loader():
            raise errors.Invalid(
                "Accelerate takes a batch ahead of the loop, so this state would lose it",
                remedy=ahead,
            )
        state = self._state.current().state()
        world = self._rank[1]
        if world == 1 or self._explicit_rank is not None or not hosts.saved_on_all_ranks():
            return state
        states: list[Any] = [None] * world
        torch.distributed.all_gather_object(states, state)
        return merge_states(states)

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Any]) -> None:
        """Makes the next iteration resume from a state. The one after it starts its epoch from the beginning.

        Args:
            state: the result of `state_dict` or `merge_states`, a batch's cursor, the cursors of all ranks, or the
                state of a StatefulDataLoader of this rank. The state of one rank needs the same number of ranks;
                merged states work with any number that divides the lanes.

        Raises:
            Invalid: the state belongs to a different dataset or query.
        """
        position = of_rank(state)
        if self._mix is not None:
            self._mix.check(position)
        elif any("mix" in cursor for cursor in position.cursors):
            raise errors.Invalid(
                "the state is from a mix, but this is a single dataset", remedy="create the dataset with mix="
            )
        self._state.load(position)
        self._length = None  # the state may have different snapshots

    def __len__(self) -> int:
        """The number of steps in the epoch for this rank, including those before a loaded state.

        Raises:
            TypeError: the number is unknown before reading.
        """
        spec = self._spec(replace(self._state.next_start(), every=(0, 1)))
        key = (spec.rank, spec.start)
        if self._length is None or self._length[0] != key:
            self._length = (key, steps(spec))
        return self._length[1]

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iteration[T]:
        host, in_worker = hosts.find(), ranks.worker() is not None
        if in_worker:
            orphaned.end_with_parent()
        if in_worker and host.loader is None and self._host is not None:
            host = self._host
        iteration, refused = self._state.begin(host)
        spec = self._spec(iteration.start)
        refused = (
            refused or host.refused(spec.rank[1]) or self._repeated_in(host) or self._misplaced(host, spec)
        )
        if in_worker and host.loader is not None and not host.loader.in_order:
            refused = errors.Invalid(
                "in_order: with in_order=False a DataLoader returns steps out of order, so a batch's cursor no "
                "longer means that all earlier steps were returned",
                remedy="leave in_order out when you create the DataLoader",
            )
        if in_worker and self._device is not None and self._device.type != "cpu":
            refused = errors.Invalid(
                f"device: DataLoader workers cannot copy batches to {self._device}",
                remedy="leave device out and move the batches in the loop, or iterate the dataset without workers",
                faults=(errors.Fault(field="device", message="not in DataLoader workers"),),
            )

        def begin() -> tuple[Source, Mover]:
            if refused is not None:
                raise refused
            bring = mover(self._device)
            return Source(spec, self._convert, self._transform, bring, host.saves_ahead), bring

        # A worker waits while the others have batches: only the loop of the main process says how long it waits.
        return (
            Iteration(spec, iteration, begin, 0, None)
            if in_worker
            else Iteration(spec, iteration, begin, self._prefetch, self._watch)
        )

    def _spec(self, start: Position) -> SourceSpec:
        given = (self._uri, self._dataset, self._options, self._rank, start, self._shared, self._steps)
        return SourceSpec(*given) if self._mix is None else MixSpec(*given, members=self._mix)

    def _checked_mix(
        self, dataset: Dataset | None, mix: Sequence[Member] | None, source: str | None, ends: Ends
    ) -> MixMembers | None:
        if mix is not None and dataset is not None:
            raise errors.Invalid("dataset: pass either a dataset or a mix", remedy="leave one of them out")
        return None if mix is None else MixMembers(check(mix, self._options.query, ends), source)

    @property
    def _rank(self) -> tuple[int, int]:
        return self._explicit_rank or ranks.current()

    def _repeated_in(self, host: Host) -> errors.Invalid | None:
        """The error if a loop that counts epochs would get several epochs per loop epoch."""
        if "repeat" not in self._options.query or host.epoch is None:
            return None
        return errors.Invalid(
            f"repeat: {host.name} begins each epoch itself, and takes all epochs of an iteration for a single one",
            remedy=f"leave repeat out, and set the number of epochs of {host.name}",
            faults=(errors.Fault(field="repeat", message=f"not in a loop of {host.name}"),),
        )

    def _misplaced(self, host: Host, spec: SourceSpec) -> errors.Invalid | None:
        """The error if a loop resumes at a different step than the dataset."""
        step = spec.start.step_of(*spec.rank)
        taken = max(0, step - self._steps.first)
        if not host.taken or not host.single or spec.start.every[1] > 1 or taken == host.taken:
            return None
        return errors.Invalid(
            f"{host.name} resumes after batch {host.taken} of its epoch, but the dataset's state is after batch {taken}",
            remedy="load the state that was saved with the checkpoint",
        )

    def _check_repeat(self, epochs: Any) -> None:
        """Refuses features of a single epoch if an iteration reads several."""
        if "repeat" not in self._options.query:
            return
        said = {"epochs": epochs is not None, "skip": self._steps.first, "limit": self._steps.end is not None}
        names = " and ".join(name for name, given in said.items() if given)
        if names:
            raise errors.Invalid(
                f"repeat: cannot be combined with {names}",
                remedy=f"leave out {names}, or leave out repeat and iterate once for each epoch",
                faults=(errors.Fault(field="repeat", message=f"not with {names}"),),
            )

    def _check(self, epochs: Any) -> None:
        """Refuses arguments that cannot be combined."""
        if epochs not in (None, "auto"):
            raise errors.Invalid(
                f"epochs: {epochs!r} is not 'auto'",
                remedy="write epochs='auto' to count epochs, or leave it out and call set_epoch",
            )
        if self._prefetch < 0:
            raise errors.Invalid(
                f"prefetch: must be at least 0, not {self._prefetch}", remedy="write prefetch=0"
            )
        if self._convert:
            return
        stated = [name for name, rule in self._options.rules.items() if rule is not None]
        if self._device is not None:
            stated.append("device")
        if stated:
            raise errors.Invalid(
                f"{', '.join(stated)}: with convert=False there are no tensors",
                remedy="leave out either convert or these arguments",
                faults=tuple(errors.Fault(field=name, message="needs tensors") for name in stated),
            )

    def __getstate__(self) -> dict[str, Any]:
        # Another process may not know its rank: a spawned DataLoader worker is not a rank of torch.distributed.
        return {**self.__dict__, "_explicit_rank": self._rank, "_host": hosts.find()}

    def __repr__(self) -> str:
        return f"<penstock.torch.IterableDataset of {self._name}, epoch {self.epoch}>"


def _steps(skip: Any, limit: Any) -> StepRange:
    """Checks which steps of an epoch to return.

    Raises:
        Invalid: they are not whole numbers, or negative.
    """
    first = mistakes.whole("skip", skip, minimum=0)
    return StepRange(first, None if limit is None else first + mistakes.whole("limit", limit, minimum=1))
