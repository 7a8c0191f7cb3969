"""The loops of training frameworks: they get the rows of each epoch once, or an error that says what to write."""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
import transformers
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader
from trained import QUERY, Served, served

import penstock
from penstock.torch import IterableDataset

HERE = Path(__file__).parent
STEPS, EPOCHS = 10, 3
Made = list[tuple[int, int, list[int]]]

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore"),  # the frameworks have many
    pytest.mark.filterwarnings("error:epoch .* is read again"),
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    for name in ("lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    multiprocessing.set_forkserver_preload(["penstock.torch", "torchdata.stateful_dataloader"])
    with served(tmp_path_factory.mktemp("frameworks") / "lake") as found:
        yield found


def whole(here: Served, epochs: int = EPOCHS) -> Made:
    """Epoch, step and rows of each step, as a plain read gives them."""
    return [
        (epoch, step, rows) for epoch in range(epochs) for step, rows in enumerate(here.steps(epoch=epoch))
    ]


class KilledError(Exception):
    """Ends a fit as a signal does."""


class Model(lightning.LightningModule):
    """Records the steps that it is trained on."""

    def __init__(self, kill: int = -1) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.made: Made = []
        self.kill = kill

    def training_step(self, batch: Any, _: int) -> Any:
        if self.global_step == self.kill:
            raise KilledError
        self.made.append((self.current_epoch, batch.step, batch["row"].tolist()))
        return self.layer(batch["row"].float()[:, None] / 1200).square().mean()

    def validation_step(self, batch: Any, _: int) -> None:
        assert batch.rows

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def fit(
    model: Model, loader: Any, *others: Any, callbacks: tuple[Callback, ...] = (), **options: Any
) -> Made:
    """The steps that Lightning makes until it ends or is killed."""
    checkpoint = options.pop("checkpoint", None)
    trainer = lightning.Trainer(
        **{"max_epochs": EPOCHS, **options},
        accelerator="cpu",
        logger=False,
        callbacks=list(callbacks),
        enable_checkpointing=bool(callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    with contextlib.suppress(KilledError):
        trainer.fit(model, loader, *others, ckpt_path=checkpoint)
    return model.made


def loader_of(ds: IterableDataset[Any], kind: str) -> Any:
    if kind == "bare":
        return ds
    made: Any = StatefulDataLoader if kind.startswith("stateful") else DataLoader
    workers = int(kind[-1])
    return made(
        ds, batch_size=None, num_workers=workers, multiprocessing_context="forkserver" if workers else None
    )


# spec: trainer-24
@pytest.mark.parametrize("kind", ["bare", "plain-0", "stateful-0"])
@pytest.mark.parametrize("options", [{}, {"epochs": "auto"}, {"skip": 2, "limit": 5}])
def test_lightning_reads_each_epoch(here: Served, kind: str, options: Any) -> None:
    first, end = options.get("skip", 0), 7 if options.get("limit") else STEPS
    expected = [made for made in whole(here) if first <= made[1] < end]
    validation = here.dataset(order="stored", seed=None)
    assert fit(Model(), loader_of(here.dataset(**options), kind), validation) == expected


# spec: trainer-24
@pytest.mark.parametrize("kind", ["bare", "stateful-0"])
@pytest.mark.parametrize(("every", "kill"), [(4, 6), (4, 14), (4, 19), (5, 10), (10, 10), (10, 13)])
@pytest.mark.parametrize("by_steps", [False, True])
def test_lightning_resumes_at_any_step(
    here: Served, tmp_path: Path, kind: str, every: int, kill: int, by_steps: bool
) -> None:
    saves = ModelCheckpoint(tmp_path, every_n_train_steps=every, save_last=True)
    options: Any = {"max_epochs": -1, "max_steps": EPOCHS * STEPS} if by_steps else {}
    made = fit(Model(kill), loader_of(here.dataset(), kind), callbacks=(saves,), **options)
    at = kill // every * every
    resumed = fit(Model(), loader_of(here.dataset(), kind), checkpoint=tmp_path / "last.ckpt", **options)
    assert [made[1:] for made in made[:at] + resumed] == [made[1:] for made in whole(here)]


# spec: trainer-24
@pytest.mark.parametrize("kind", ["plain-2", "stateful-2"])
def test_lightning_with_workers(here: Served, tmp_path: Path, kind: str) -> None:
    saves = ModelCheckpoint(tmp_path, every_n_train_steps=4, save_last=True)
    made = fit(Model(14), loader_of(here.dataset(), kind), callbacks=(saves,))
    assert made == whole(here)[:14]
    again = loader_of(here.dataset(), kind)
    if kind == "plain-2":
        with pytest.raises(penstock.Invalid, match="Lightning resumes after batch 2 of epoch 1"):
            fit(Model(), again, checkpoint=tmp_path / "last.ckpt")
    else:
        assert fit(Model(), again, checkpoint=tmp_path / "last.ckpt") == whole(here)[12:]


# spec: trainer-24
@pytest.mark.parametrize("kind", ["bare", "plain-0", "stateful-0"])
def test_lightning_resumes_between_epochs(here: Served, tmp_path: Path, kind: str) -> None:
    saves = ModelCheckpoint(tmp_path, every_n_epochs=1, save_last=True)
    fit(Model(13), loader_of(here.dataset(), kind), callbacks=(saves,))
    last = tmp_path / "last.ckpt"
    assert fit(Model(), loader_of(here.dataset(), kind), checkpoint=last) == whole(here)[STEPS:]
    by_steps: Any = {"max_epochs": -1, "max_steps": EPOCHS * STEPS}
    fit(Model(13), loader_of(here.dataset(), kind), callbacks=(saves,), **by_steps)
    with pytest.raises(
        penstock.Invalid, match=r"Lightning without max_epochs.*epoch of one batch; set max_epochs"
    ):
        fit(Model(), loader_of(here.dataset(), kind), checkpoint=last, **by_steps)


# spec: trainer-24
def test_lightning_with_a_plain_loader_in_mid_epoch(here: Served, tmp_path: Path) -> None:
    saves = ModelCheckpoint(tmp_path, every_n_train_steps=4, save_last=True)
    fit(Model(14), loader_of(here.dataset(), "plain-0"), callbacks=(saves,))
    last = tmp_path / "last.ckpt"
    with pytest.raises(
        penstock.Invalid,
        match=r"after batch 2 of epoch 1, but a plain DataLoader does not.*trainer.fit\(model, ds\).*Stateful",
    ):
        fit(Model(), loader_of(here.dataset(), "plain-0"), checkpoint=last)
    ds = here.dataset()
    ds.set_epoch(1)
    cursor = list(islice(ds, 2))[-1].cursor
    ds = here.dataset()
    ds.load_state_dict(cursor)
    assert fit(Model(), loader_of(ds, "plain-0"), checkpoint=last) == whole(here)[12:]
    other = here.dataset()
    other.set_epoch(1)
    further = list(islice(other, 3))[-1].cursor
    ds = here.dataset()
    ds.load_state_dict(further)
    with pytest.raises(
        penstock.Invalid, match="after batch 2 of its epoch, but the dataset's state is after batch 3"
    ):
        fit(Model(), loader_of(ds, "plain-0"), checkpoint=last)


# spec: trainer-24
def test_lightning_needs_to_know_the_number_of_steps(here: Served, tmp_path: Path) -> None:
    with pytest.raises(
        penstock.Invalid, match=r"takes a batch ahead of its loop.*tail='drop' or count='exact'"
    ):
        fit(Model(), here.dataset(filter="row < 777"))
    saves = ModelCheckpoint(tmp_path, every_n_train_steps=3, save_last=True)
    exact: Any = {"filter": "row < 777", "count": "exact"}
    made = fit(Model(5), here.dataset(**exact), callbacks=(saves,), max_epochs=1)
    resumed = fit(Model(), here.dataset(**exact), checkpoint=tmp_path / "last.ckpt", max_epochs=1)
    assert [rows for _, _, rows in made[:3] + resumed] == here.steps(**exact)


# spec: trainer-24
def test_lightning_reads_each_epoch_of_a_mix(here: Served, tmp_path: Path) -> None:
    query: Any = {**QUERY, "nulls": {"label": -1, "*": "error"}}

    def mixed(**options: Any) -> IterableDataset[Any]:
        members: Any = [{"dataset": "d", "weight": 2}, {"dataset": "e", "weight": 1, "seed": 5}]
        return IterableDataset(here.address, mix=members, **query, **options)

    ds, expected = mixed(), []
    for epoch in range(EPOCHS):
        ds.set_epoch(epoch)
        expected += [(epoch, batch.step, batch["row"].tolist()) for batch in ds]
    assert fit(Model(), mixed()) == expected
    saves = ModelCheckpoint(tmp_path, every_n_train_steps=4, save_last=True)
    kill = len(expected) // EPOCHS + 6
    made = fit(Model(kill), mixed(), callbacks=(saves,))
    at = kill // 4 * 4
    assert made[:at] + fit(Model(), mixed(), checkpoint=tmp_path / "last.ckpt") == expected
    with pytest.raises(
        penstock.Invalid, match=r"takes a batch ahead of its loop.*ends='mix', or pass DataLoader"
    ):
        fit(Model(), mixed(ends="repeat"))
    options: Any = {"max_epochs": 1, "limit_train_batches": 12}
    assert len(fit(Model(), loader_of(mixed(ends="repeat"), "plain-0"), **options)) == 12


# spec: mix-20
@pytest.mark.parametrize("kind", ["bare", "stateful-0", "plain-2"])
def test_lightning_counts_epochs_that_must_not_repeat(here: Served, kind: str) -> None:
    why = "repeat: Lightning begins each epoch itself, .*; leave repeat out, and set the number of epochs of Lightning"
    with pytest.raises(penstock.Invalid, match=why):
        fit(Model(), loader_of(here.dataset(repeat=2), kind))
    validation = here.dataset(repeat=2)
    assert fit(Model(), here.dataset(), validation, max_epochs=1) == whole(here, 1)


# spec: trainer-24
def test_lightning_does_not_determine_what_a_training_step_reads(here: Served, tmp_path: Path) -> None:
    other = here.dataset(epochs="auto")
    found: list[Any] = []

    class Reading(Model):
        def training_step(self, batch: Any, number: int) -> Any:
            if number % 5 == 4:
                found.append([one["row"].tolist() for one in other])
            return super().training_step(batch, number)

    saves = ModelCheckpoint(tmp_path, every_n_train_steps=3, save_last=True)
    fit(Reading(4), here.dataset(), callbacks=(saves,))
    fit(Reading(), here.dataset(), checkpoint=tmp_path / "last.ckpt", max_epochs=1)
    assert found == [here.steps(epoch=epoch) for epoch in range(len(found))]
    assert len(found) >= 2


@pytest.fixture
def accelerator() -> Iterator[Accelerator]:
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    yield Accelerator(cpu=True)
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()


# spec: trainer-24
@pytest.mark.parametrize("dispatch", [None, True, False])
def test_accelerate_prepares_a_loader_of_one_process(
    here: Served, accelerator: Accelerator, dispatch: bool | None
) -> None:
    accelerator.dataloader_config.dispatch_batches = dispatch
    loader = accelerator.prepare(DataLoader(here.dataset(), batch_size=None))
    for epoch in range(2):
        assert [batch["row"].tolist() for batch in loader] == here.steps(epoch=epoch)


# spec: trainer-24
def test_accelerate_takes_a_batch_ahead(here: Served, accelerator: Accelerator) -> None:
    ds = here.dataset()
    next(iter(accelerator.prepare(DataLoader(ds, batch_size=None))))
    with pytest.raises(
        penstock.Invalid, match=r"prepare the loader with dispatch_batches=False, and save the cursor"
    ):
        ds.state_dict()
    accelerator.dataloader_config.dispatch_batches = False
    ds = here.dataset()
    loader = accelerator.prepare(DataLoader(ds, batch_size=None))
    for batch in loader:
        if batch.step == 3:
            with pytest.raises(
                penstock.Invalid, match=r"Accelerate takes a batch ahead.*load_state_dict\(batch.cursor"
            ):
                ds.state_dict()
            break
    again = here.dataset()
    again.load_state_dict(batch.cursor)
    loader = accelerator.prepare(DataLoader(again, batch_size=None))
    assert [batch["row"].tolist() for batch in loader] == here.steps()[4:]
    assert again.state_dict()["ended"] is True
    assert [batch["row"].tolist() for batch in loader] == here.steps(epoch=1)
    later = here.dataset()
    later.set_epoch(2)
    cursor = next(iter(later)).cursor
    fresh = here.dataset()
    fresh.load_state_dict(cursor)
    loader = accelerator.prepare(DataLoader(fresh, batch_size=None))
    with pytest.raises(
        penstock.Invalid, match=r"from epoch 2, but the epoch was set to 0.*loader.set_epoch\(2\)"
    ):
        next(iter(loader))
    fresh.load_state_dict(cursor)
    loader.set_epoch(fresh.epoch or 2)
    fresh.load_state_dict(cursor)
    assert [batch["row"].tolist() for batch in loader] == here.steps(epoch=2)[1:]


# spec: trainer-24
@pytest.mark.parametrize("dispatch", [True, False])
def test_accelerate_saves_a_stateful_loader(here: Served, accelerator: Accelerator, dispatch: bool) -> None:
    accelerator.dataloader_config.dispatch_batches = dispatch
    accelerator.dataloader_config.use_stateful_dataloader = True
    loader = accelerator.prepare(DataLoader(here.dataset(), batch_size=None))
    made = [batch["row"].tolist() for batch in islice(loader, 4)]
    state = loader.state_dict()
    again = accelerator.prepare(DataLoader(here.dataset(), batch_size=None))
    again.load_state_dict(state)
    resumed = [batch["row"].tolist() for batch in again]
    assert made + resumed == here.steps()
    assert [batch["row"].tolist() for batch in again] == here.steps(epoch=1)


def accelerated(here: Served, *arguments: str) -> dict[int, Any]:
    """What each of two processes got from Accelerate."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    command = [*run, "--nproc-per-node", "2", str(HERE / "accelerated.py"), here.address, *arguments]
    paths = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, env=paths)
    assert ran.returncode == 0, ran.stderr
    return {int(rank): found for rank, found in map(json.loads, ran.stdout.splitlines())}


# spec: trainer-24
@pytest.mark.parametrize("dispatch", ["null", "true", "false"])
def test_accelerate_must_not_divide_the_batches_of_ranks(here: Served, dispatch: str) -> None:
    for found in accelerated(here, dispatch, "all").values():
        assert found.startswith("Invalid: Accelerate would divide each rank's batches between 2 processes")
        assert "prepare_data_loader(DataLoader(ds, batch_size=None), " in found
        assert "num_processes=1, process_index=0" in found


# spec: trainer-24
def test_accelerate_with_two_processes(here: Served) -> None:
    for rank, found in accelerated(here, "own", "all").items():
        assert found == [[rows, 60, "Batch"] for rows in here.steps(rank, 2)]
    # One process reads everything and sends the others their parts.
    divided = accelerated(here, "true", "one")
    assert [rows for rows, _, _ in divided[0]] == here.steps()[0::2]
    assert [rows for rows, _, _ in divided[1]] == here.steps()[1::2]


class Scores(torch.nn.Module):
    """A model whose inputs are a batch's columns."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.made: list[list[int]] = []

    def forward(self, row: Any, label: Any = None, score: Any = None) -> Any:
        assert label is not None
        assert score is not None
        self.made.append(row.tolist())
        return {"loss": self.layer(row.float()[:, None] / 1200).square().mean()}


def settings(folder: Path, **options: Any) -> Any:
    return transformers.TrainingArguments(
        str(folder), num_train_epochs=2, use_cpu=True, report_to="none", disable_tqdm=True, **options
    )


class Streamed(transformers.Trainer):
    """A Trainer with a loader of whole batches, which Accelerate did not prepare."""

    def get_train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.train_dataset, batch_size=None)


# spec: trainer-24
def test_a_trainer_resumes_in_its_epoch(here: Served, tmp_path: Path) -> None:
    model = Scores()
    args = settings(tmp_path, save_steps=4, max_steps=-1)
    Streamed(model, args, train_dataset=here.dataset()).train()
    expected = [rows for _, _, rows in whole(here, 2)]
    assert model.made == expected
    for step in (4, 12, 16):
        model = Scores()
        trainer = Streamed(model, args, train_dataset=here.dataset())
        trainer.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        assert model.made == expected[step:]


# spec: mix-20
def test_a_trainer_counts_epochs_that_must_not_repeat(here: Served, tmp_path: Path) -> None:
    args = settings(tmp_path, max_steps=3)
    trainer = Streamed(Scores(), args, train_dataset=here.dataset(repeat=2))
    with pytest.raises(penstock.Invalid, match="repeat: the Trainer begins each epoch itself"):
        trainer.train()


# spec: trainer-24
@pytest.mark.parametrize("size", [1, 4])
def test_a_trainer_that_would_stack_batches_is_refused(here: Served, tmp_path: Path, size: int) -> None:
    args = settings(tmp_path, per_device_train_batch_size=size, max_steps=3, save_strategy="no")
    trainer = transformers.Trainer(Scores(), args, train_dataset=here.dataset())
    with pytest.raises(
        penstock.Invalid, match=r"would stack batches.*override get_train_dataloader.*batch_size=None"
    ):
        trainer.train()
    if size == 1:
        model = Scores()
        own = transformers.Trainer(
            model, args, train_dataset=here.dataset(), data_collator=lambda batches: batches[0]
        )
        own.train()
        assert model.made == here.steps()[:3]
