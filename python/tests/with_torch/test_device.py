"""Bringing batches to a device: where tensors go, and how pinned buffers are used, without a GPU."""

from __future__ import annotations

import fcntl
import os
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from trained import Served, rows, served

import penstock
from penstock import rings
from penstock.rings import Block, Packet, Ring
from penstock.torch import Batch, Deduplicated, Jagged
from penstock.torch.device import Buffered, Move, Stay, mover, replaced

Pair = namedtuple("Pair", "left right")


class Event:
    """A copy that ends when a caller waits for it."""

    def __init__(self) -> None:
        self.happened = False


class FakeCopies:
    """Copies from memory of this machine to memory of this machine, and notes what was asked."""

    def __init__(self) -> None:
        self.buffers: list[torch.Tensor] = []
        self.copied: list[tuple[int, torch.Tensor, Event]] = []
        self.used: list[torch.Tensor] = []
        self.pins: list[tuple[int, int]] = []
        self.can_pin = True

    def pin(self, address: int, size: int) -> Callable[[], object] | None:
        if not self.can_pin:
            return None
        self.pins.append((address, size))
        return lambda: self.pins.remove((address, size))

    def is_done(self, event: Event) -> bool:
        return event.happened

    def pinned(self, size: int) -> torch.Tensor:
        # Poisoned: what is not written over would be seen.
        self.buffers.append(torch.full((size,), 0xEE, dtype=torch.uint8))
        return self.buffers[-1]

    def copy(self, memory: torch.Tensor) -> tuple[torch.Tensor, Event]:
        found, event = memory.clone(), Event()
        self.copied.append((memory.data_ptr(), found, event))
        return found, event

    def wait(self, event: Event) -> None:
        event.happened = True

    def use(self, memory: torch.Tensor, event: Event) -> None:
        del event
        self.used.append(memory)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("device") / "lake") as found:
        yield found


def value(seed: int, length: int) -> Any:
    numbers = torch.arange(seed, seed + length)
    lists = Jagged(numbers.float(), torch.tensor([0, 1, length], dtype=torch.int32))
    batch = Batch(
        {
            "x": numbers.double(),
            "mask": numbers % 2 == 0,
            "dense": numbers.reshape(1, -1).half(),
            "every second": numbers[::2],
            "none": numbers[:0],
            "one": torch.tensor(seed),
            "tags": lists,
            "user": Deduplicated({"age": numbers[:2], "tags": lists}, numbers.int() % 2, 2),
        },
        rows=length,
        cursor={"step": seed},
        step=seed,
    )
    return Pair(batch, [({"more": numbers}, "text", None)])


def tensors(found: Any) -> list[torch.Tensor]:
    seen: list[torch.Tensor] = []
    replaced(found, lambda tensor: seen.append(tensor) or tensor)  # type: ignore[func-returns-value]
    return seen


# spec: trainer-17
def test_all_tensors_of_a_value_are_copied_together() -> None:
    copies = FakeCopies()
    buffered = Buffered(copies)
    for seed in range(5):
        expected = value(seed, 100 + seed)
        sent = buffered.send(expected)
        found = buffered.receive(sent)
        assert isinstance(found, Pair)
        assert (found.left.rows, found.left.step, found.left.cursor) == (100 + seed, seed, {"step": seed})
        assert found.right[0][1:] == ("text", None)
        assert type(found.left["user"]) is Deduplicated
        for was, new in zip(tensors(expected), tensors(found), strict=True):
            assert (new.dtype, new.shape) == (was.dtype, was.shape)
            assert torch.equal(new, was)
            assert new.untyped_storage().data_ptr() == sent.memory.data_ptr()  # type: ignore[union-attr]
    assert len(copies.copied) == 5
    assert [id(memory) for memory in copies.used] == [id(memory) for _, memory, _ in copies.copied]


# spec: trainer-17
def test_two_buffers_take_turns_once_they_were_copied() -> None:
    copies = FakeCopies()
    buffered = Buffered(copies)
    for seed in range(6):
        buffered.send(value(seed, 100))
        # The one before is still on its way; the one before that was waited for.
        assert [event.happened for _, _, event in copies.copied] == [i < seed - 1 for i in range(seed + 1)]
    assert len(copies.buffers) == 2
    assert [at for at, _, _ in copies.copied] == [buffer.data_ptr() for buffer in copies.buffers] * 3
    buffered.send(value(0, 105))  # a little larger fits
    assert len(copies.buffers) == 2
    buffered.send(value(0, 1000))
    assert len(copies.buffers) == 3


def test_value_without_tensors_is_passed_on() -> None:
    buffered = Buffered(FakeCopies())
    assert buffered.receive(buffered.send(("text", {"step": 1}))) == ("text", {"step": 1})


def test_mover_for_each_kind_of_device() -> None:
    assert type(mover(None)) is Stay
    assert type(mover(torch.device("cpu"))) is Stay
    move = mover(torch.device("meta"))
    assert type(move) is Move
    assert {tensor.device.type for tensor in tensors(move.receive(move.send(value(1, 10))))} == {"meta"}


def test_dataset_copies_batches_to_a_device(here: Served) -> None:
    found = list(here.dataset(device="meta"))
    assert len(found) == 10
    assert {tensor.device.type for batch in found for tensor in batch.tensors()} == {"meta"}
    assert [batch.step for batch in found] == list(range(10))
    assert rows(here.dataset(device="cpu")) == here.steps()
    summed = list(
        here.dataset(device=torch.device("meta"), transform=lambda batch: {"sum": batch["row"].sum()})
    )
    assert {value["sum"].device.type for value, _ in summed} == {"meta"}
    assert all(cursor["step"] == step for step, (_, cursor) in enumerate(summed, 1))


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_a_dataset_reads_through_pinned_buffers(
    here: Served, prefetch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = FakeCopies()
    monkeypatch.setattr("penstock.torch.dataset.mover", lambda _: Buffered(copies))
    found = list(here.dataset(device="cuda", prefetch=prefetch))
    assert rows(found) == here.steps()
    assert len(copies.used) == len(copies.copied) == 10
    assert len(copies.buffers) == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_first_batch_raises_without_a_gpu(here: Served) -> None:
    with pytest.raises((RuntimeError, AssertionError), match=r"NVIDIA|CUDA|cuda"):
        next(iter(here.dataset(device="cuda")))


def test_a_device_needs_tensors() -> None:
    with pytest.raises(penstock.Invalid, match="device: with convert=False there are no tensors"):
        penstock.torch.IterableDataset("127.0.0.1:1", "d", convert=False, device="cuda")


def ring_block(returned: list[int], content: bytes = bytes(range(200))) -> Block:
    """A block with this content, in a ring of its own. The number of its delivery is added to `returned`."""
    file = os.memfd_create("ring", os.MFD_ALLOW_SEALING)
    os.truncate(file, 8 * 4096)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, 0x0002)  # F_SEAL_SHRINK
    os.pwrite(file, content + b"{}", 4096)
    ring = Ring(file, returned.append)
    os.close(file)
    return ring.block(Packet(rings.NEW_RING, 7, 4096, len(content), 2, 25, 1))


needs_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="memory can be passed to other processes only on Linux"
)


@needs_linux
def test_blocks_are_copied_from_their_pinned_ring() -> None:
    copies, returned = FakeCopies(), list[int]()
    bring, block = Buffered(copies), ring_block(returned)
    assert block.cursor == b"{}"
    ring = (block.ring.address, block.ring.size)
    sent = bring.send_block(block, lambda memory: {"x": memory.view(torch.int64)})
    assert copies.pins == [ring]
    assert copies.copied[0][0] == ring[0] + 4096  # no other copy in between
    del block
    assert returned == []  # the copy may not have ended
    assert bring.receive(sent)["x"].numpy().tobytes() == bytes(range(200))
    copies.copied[0][2].happened = True
    other = ring_block([])
    bring.send_block(other, lambda memory: memory)
    assert returned == [7]
    assert copies.pins == [(other.ring.address, other.ring.size)]


@needs_linux
def test_rings_that_cannot_be_pinned_go_through_buffers() -> None:
    copies, returned = FakeCopies(), list[int]()
    copies.can_pin = False
    bring = Buffered(copies)
    for number in range(4):
        content = bytes([number] * 200)
        sent = bring.send_block(ring_block(returned, content), lambda memory: memory)
        assert len(returned) == number + 1
        assert bring.receive(sent).numpy().tobytes() == content
    assert len(copies.buffers) == 2


@needs_linux
def test_blocks_outside_of_their_ring_are_refused() -> None:
    block = ring_block([])
    for offset, size in ((4095, 10), (8 * 4096, 10), (4096, 4096), (0, 1 << 40)):
        with pytest.raises(penstock.errors.Corrupt, match="of a ring"):
            block.ring.block(Packet(rings.IN_RING, 8, offset, size, 2, 1, 1))
