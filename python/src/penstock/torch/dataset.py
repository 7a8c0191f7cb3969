"""A dataset of PyTorch: the steps of one rank, for a DataLoader or a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, SupportsIndex, Unpack

import torch

from penstock import errors, mistakes, query
from penstock.plan import Plan
from penstock.position import Position
from penstock.query import Dataset
from penstock.states import of_rank
from penstock.stream import Stats
from penstock.torch import ranks
from penstock.torch.device import Mover, mover
from penstock.torch.iteration import Iteration
from penstock.torch.options import Asked, Options
from penstock.torch.shared import Shared
from penstock.torch.source import Source, Wanted, planned, steps
from penstock.torch.standing import Standing

_OWN = ("columns", "rank", "world", "device", "transform", "convert", "prefetch")


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """The steps of one rank's shard, as a `torch.utils.data.IterableDataset`.

        ds = IterableDataset("localhost:8815", "homefeed", columns=["item_id", "label"], batch_rows=8192,
                             order="shuffled", seed=1, nulls="error")
        for epoch in range(2):
            ds.set_epoch(epoch)
            for batch in ds:  # penstock.torch.Batch
                train(batch)

    Iterating it reads ahead in a thread, which is the fastest way unless `transform` is Python that
    takes long: then `DataLoader(ds, batch_size=None, num_workers=n)` divides the steps among workers, and
    gives the same batches in the same order.

    An iteration gives a `Batch` for each step, with `cursor` and `step`; where `transform` or
    `convert=False` make something else of it, that and the cursor: `for value, cursor in ds`.

    Every rank reads another shard of the rows; which one follows from torch.distributed. Ranks give
    equally many steps each, unless `tail="keep"` is said. All epochs, and all workers, read the snapshots of
    the first plan, or those of a state that is loaded.

    It can be pickled, and connects where it is read. Any failure is one of `penstock.errors`.
    """

    def __init__(
        self,
        uri: str | Sequence[str],
        dataset: Dataset,
        *,
        rank: int | None = None,
        world: int | None = None,
        device: torch.device | str | None = None,
        transform: Callable[[Any], Any] | None = None,
        convert: bool = True,
        prefetch: int = 2,
        **options: Unpack[Options],
    ) -> None:
        """Describes what is read. Nothing is opened before the first batch.

        Args:
            uri: of the server, or of several, as `penstock.connect` takes it.
            dataset: the name of one that the server knows, or a dataset as a mapping.
            rank: which rank this is; torch.distributed says it, if it is left out.
            world: how many ranks there are. Given together with `rank`.
            device: where tensors are brought to, ahead of the loop; None leaves them. Not for DataLoader workers.
            transform: called with each batch, in the thread or worker that reads it, before it is
                brought to the device.
            convert: False gives `pyarrow.RecordBatch` in the place of `Batch`.
            prefetch: how many batches are ready ahead of the loop; 0 reads when asked. DataLoader's workers
                have `prefetch_factor` in its place.
            options: fields of the query, see `penstock.RunQuery`; rules of the conversion, see `Rules`; and what
                `penstock.connect` takes.
        """
        super().__init__()
        self._asked = Asked.of(options, _OWN)
        self._uri = uri if isinstance(uri, str) else tuple(uri)
        self._dataset = dataset
        self._name = query.name(dataset)
        self._given = ranks.given(rank, world)
        self._device = None if device is None else torch.device(device)
        self._transform = transform
        self._convert = convert
        self._prefetch = mistakes.whole("prefetch", prefetch)
        self._check()
        self._shared = Shared()
        self._standing = Standing(self._name, self._asked.query, self._shared)
        self._length: tuple[Any, int] | None = None
        self._out_of_order = False  # the DataLoader that this process reads for says in_order=False

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration reads."""
        return self._shared.epoch or 0

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """Sets which epoch the next iteration reads, also in workers that are there already.

        A shuffled order is another one in each epoch. Where nobody sets it, each iteration reads the same one.
        """
        number = mistakes.whole("epoch", epoch, "set_epoch({value})")
        if not 0 <= number < 1 << 63:
            raise errors.Invalid(f"epoch: there is no epoch {number}", remedy="count from 0")
        self._shared.say_epoch(number)

    def plan(self) -> Plan:
        """What the server plans for the next iteration. Its snapshots are those that all epochs read."""
        return planned(self._wanted(self._standing.upcoming()))[0]

    def stats(self) -> Stats:
        """How the latest iteration in this process went so far: what the loop took, and how long it waited.

        DataLoader's workers count in their own processes, and what they wait for there.
        """
        place = self._standing.place
        return Stats(0, 0, 0.0, 0.0, 0) if place is None else place.stats

    def state_dict(self) -> dict[str, Any]:
        """Where the latest iteration stands, behind the batch that the loop took last, as plain JSON.

        `StatefulDataLoader` calls it in its workers. In the process that started DataLoader's workers nobody
        knows how far they are: save the cursor of the last batch there.

        Raises:
            Invalid: DataLoader workers read.
        """
        return self._standing.saved().state()

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Any]) -> None:
        """Has the next iteration go on where a state was saved. The one after it begins its epoch anew.

        Args:
            state: what `state_dict` or `merge_states` gave, a batch's cursor, or those of all ranks, or the state
                of a StatefulDataLoader of this rank. The state of one rank goes on with as many ranks, merged
                states with any number that the lanes permit.

        Raises:
            Invalid: it is a state of another dataset or query.
        """
        self._standing.load(of_rank(state))
        self._length = None  # it may be of other snapshots

    def __len__(self) -> int:
        """How many steps the epoch has for this rank, those before a loaded state too.

        Raises:
            TypeError: nobody knows before it is read.
        """
        wanted = self._wanted(replace(self._standing.upcoming(), every=(0, 1)))
        key = (wanted.rank, wanted.start)
        if self._length is None or self._length[0] != key:
            self._length = (key, steps(wanted))
        return self._length[1]

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iteration:
        place, refused = self._standing.take()
        wanted = self._wanted(place.start)
        in_worker = ranks.worker() is not None
        if in_worker and (self._out_of_order or ranks.loads_out_of_order()):
            refused = errors.Invalid(
                "in_order: with in_order=False a DataLoader gives steps out of their order, and a batch's cursor no "
                "longer means that all steps before it were given",
                remedy="leave in_order out when you make the DataLoader",
            )
        if in_worker and self._device is not None and self._device.type != "cpu":
            refused = errors.Invalid(
                f"device: DataLoader workers cannot bring batches to {self._device}",
                remedy="leave device out and move the batches in the loop, or iterate the dataset without workers",
                faults=(errors.Fault(field="device", message="not in DataLoader workers"),),
            )

        def begin() -> tuple[Source, Mover]:
            if refused is not None:
                raise refused
            bring = mover(self._device)
            return Source(wanted, self._convert, self._transform, bring), bring

        return Iteration(wanted, place, begin, 0 if in_worker else self._prefetch)

    def _wanted(self, start: Position) -> Wanted:
        return Wanted(
            self._uri, self._dataset, self._asked, self._given or ranks.current(), start, self._shared
        )

    def _check(self) -> None:
        """Refuses arguments that do not go together."""
        if self._prefetch < 0:
            raise errors.Invalid(f"prefetch: {self._prefetch} batches", remedy="0 or more")
        if self._convert:
            return
        stated = [name for name, rule in self._asked.rules.items() if rule is not None]
        if self._device is not None:
            stated.append("device")
        if stated:
            raise errors.Invalid(
                f"{', '.join(stated)}: with convert=False there are no tensors",
                remedy="leave convert out, or these",
                faults=tuple(errors.Fault(field=name, message="needs tensors") for name in stated),
            )

    def __getstate__(self) -> dict[str, Any]:
        # Another process may not know its rank: a spawned DataLoader worker is no rank of torch.distributed.
        given = self._given or ranks.current()
        return {**self.__dict__, "_given": given, "_out_of_order": ranks.loads_out_of_order()}

    def __repr__(self) -> str:
        return f"<penstock.torch.IterableDataset of {self._name}, epoch {self.epoch}>"
