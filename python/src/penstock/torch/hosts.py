"""Finds the training framework whose loop iterates a dataset: its epoch, and what it does with batches.

Lightning, Accelerate and the Trainer of transformers do not tell a dataset at which epoch and batch they are, or that
they will divide its batches between processes. The functions that call the dataset know: they are on the stack, also
on that of a forked DataLoader worker, and of the process that pickles a dataset for a worker.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch.distributed

from penstock import errors

_MODULES = (
    "torch.utils.data.dataloader",
    "torchdata.stateful_dataloader",
    "accelerate.data_loader",
    "transformers.trainer",
    "lightning.",
    "pytorch_lightning.",
)
_EVALUATION = ("evaluate", "evaluation_loop", "predict", "prediction_loop")
_OWN_SHARDS = (
    "wrap it yourself: accelerate.data_loader.prepare_data_loader(DataLoader(ds, batch_size=None), "
    "device=accelerator.device, num_processes=1, process_index=0, put_on_device=True, dispatch_batches=False)"
)
_CURSOR = "save the cursor of the last batch: ds.load_state_dict(batch.cursor)"
_DISPATCHED = f"prepare the loader with dispatch_batches=False, and {_CURSOR}"


@dataclass(frozen=True)
class Host:
    """The training framework of an iteration, found from the functions on the stack.

    Attributes:
        name: the framework that counts epochs; "" if none.
        epoch: the number of its epoch; None if unknown.
        taken: how many batches of this epoch its loop took before it was interrupted; 0 for a whole epoch.
        over: whether the loop took all batches of the epoch before this one, so that a state of it has no more.
        single: whether its loop reads this dataset alone.
        evaluates: whether its loop evaluates.
        loader: the DataLoader that iterates; None if there is none.
        divided: how many processes share the batches of one process; 1 if batches stay where they are read.
        ahead: how to save the position of a loop that gets batches later than the framework; "" if it does not.
        loses: whether its loop will end the resumed epoch after one batch.
    """

    name: str = ""
    epoch: int | None = None
    taken: int = 0
    over: bool = False
    single: bool = True
    evaluates: bool = False
    loader: LoaderTraits | None = None
    divided: int = 1
    ahead: str = ""
    loses: bool = False

    @property
    def saves_ahead(self) -> str:
        """The framework that saves the dataset's state ahead of its loop if the number of steps is unknown."""
        saves = self.loader is None or self.loader.stateful
        return self.name if self.name == "Lightning" and saves and not self.evaluates else ""

    def later(self) -> Host:
        """The same host, for a later iteration of persistent workers, which cannot see its progress."""
        return replace(self, epoch=None, taken=0, over=False)

    def refused(self, world: int) -> errors.Invalid | None:
        """The error if the framework would lose batches or change their form.

        Args:
            world: the number of ranks that the dataset divides the rows between.
        """
        if self.divided > 1 and world > 1:
            return errors.Invalid(
                f"Accelerate would divide each rank's batches between {self.divided} processes, but each rank already "
                "reads its own shard: most rows would be lost",
                remedy=_OWN_SHARDS,
            )
        if self.loses:
            return errors.Invalid(
                "Lightning without max_epochs resumes from a checkpoint at the end of an epoch with an epoch of one batch",
                remedy="set max_epochs, or resume from a checkpoint within an epoch: "
                "ModelCheckpoint(every_n_train_steps=n)",
            )
        if self.loader is not None and self.loader.stacks:
            return errors.Invalid(
                "the collator of transformers would stack batches, but each is already a whole batch",
                remedy="override get_train_dataloader (and get_eval_dataloader) of the Trainer to return a loader with "
                "batch_size=None; docs/pytorch.md has an example",
            )
        return None


@dataclass(frozen=True)
class LoaderTraits:
    """The relevant settings of a DataLoader.

    Attributes:
        in_order: whether it returns batches in the order of steps.
        stateful: whether it is torchdata's StatefulDataLoader.
        stacks: whether its collator stacks batches without an error.
    """

    in_order: bool
    stateful: bool
    stacks: bool

    @classmethod
    def of(cls, loader: Any) -> LoaderTraits:
        """Reads them from a DataLoader."""
        collate = getattr(loader, "collate_fn", None)
        collate = getattr(collate, "data_collator", collate)  # within one that leaves out columns
        module = getattr(collate, "__module__", "") or ""
        return cls(
            in_order=bool(getattr(loader, "in_order", True)),
            stateful=type(loader).__module__.startswith("torchdata."),
            stacks=loader.batch_size is not None and module.startswith("transformers."),
        )


def find() -> Host:
    """Looks at the functions that led to this call."""
    host, fetches = Host(), False
    for frame in _frames():
        module, function = frame.f_globals["__name__"], frame.f_code.co_name
        if module.startswith("torch"):
            if function == "__init__" and host.loader is None and "loader" in frame.f_code.co_varnames:
                host = replace(host, loader=LoaderTraits.of(frame.f_locals["loader"]))
        elif module.startswith("accelerate."):
            host = _accelerate(host, frame.f_locals.get("self"))
        elif module.startswith("transformers."):
            if function in _EVALUATION:
                return replace(host, evaluates=True)
            if function in ("_run_epoch", "_inner_training_loop") and "epoch" in frame.f_locals:
                return replace(host, name="the Trainer", epoch=int(frame.f_locals["epoch"]))
        elif module.endswith((".loops.fetchers", ".utilities.combined_loader")):
            fetches = True
        elif module.endswith(".loops.fit_loop"):
            # A dataset read inside a training step is not the loop's dataset.
            return _of_fit_loop(host, frame.f_locals["self"]) if fetches else host
        elif module.endswith((".loops.evaluation_loop", ".loops.prediction_loop")):
            return replace(host, evaluates=True)
    return host


def asked_by_loader() -> bool:
    """Whether a StatefulDataLoader led to this call."""
    return any(frame.f_globals["__name__"].startswith("torchdata.") for frame in _frames())


def saved_on_all_ranks() -> bool:
    """Whether Lightning is saving a checkpoint: all ranks request states, and only the first rank's is kept."""
    return any(
        frame.f_globals["__name__"].endswith(".loops.fit_loop")
        and frame.f_code.co_name == "on_save_checkpoint"
        for frame in _frames()
    )


def _frames() -> Iterator[FrameType]:
    """The functions on the stack that may belong to a framework, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(_MODULES):
            yield frame
        frame = frame.f_back


def _accelerate(host: Host, loader: Any) -> Host:
    name = type(loader).__name__  # its __class__ is that of the DataLoader that it wraps
    if name == "IterableDatasetShard":
        return replace(host, divided=int(loader.num_processes))
    if name == "DataLoaderDispatcher":
        return replace(host, divided=_processes(loader), ahead=_DISPATCHED)
    return replace(host, ahead=_CURSOR) if name == "DataLoaderShard" else host


def _processes(dispatcher: Any) -> int:
    """The number of processes that a dispatcher divides batches between; it iterates before its state exists."""
    state = getattr(dispatcher, "state", None)
    if state is not None:
        return int(state.num_processes)
    ready = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if ready else 1


def _of_fit_loop(host: Host, loop: Any) -> Host:
    """The state of Lightning's fit loop.

    Raises:
        Invalid: the loop does not have the form of any known version.
    """
    try:
        return _lightning(host, loop)
    except AttributeError as e:
        raise errors.Invalid(
            f"the fit loop of this version of Lightning is not known: {e}",
            remedy="install lightning 2.6, or train without Lightning's loop",
        ) from e


def _lightning(host: Host, loop: Any) -> Host:
    """What Lightning's fit loop says; its first iteration begins before it sets the epoch of samplers."""
    epochs, batches = loop.epoch_progress.current, loop.epoch_loop.batch_progress
    loaders = getattr(loop, "_combined_loader", None)
    host = replace(
        host, name="Lightning", epoch=epochs.processed, single=loaders is None or len(loaders.flattened) == 1
    )
    if not loop.restarting:
        return host
    if epochs.ready == epochs.processed:  # it resumes after a complete epoch, and there is no max_epochs
        return replace(host, over=True, loses=batches.current.ready > 0)
    if batches.is_last_batch:  # it only lacks its end
        return replace(host, epoch=epochs.processed + 1, over=True)
    return replace(host, taken=batches.current.ready)
