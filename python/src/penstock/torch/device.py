"""Copies batches to the training device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import torch

from penstock.rings import Block, Ring
from penstock.torch.batch import Batch
from penstock.torch.deduplicated import Deduplicated
from penstock.torch.jagged import Jagged

# Tensors in a buffer are aligned to this, which suits every type and every copy.
_ALIGNMENT = 256
# While one buffer is copied to the device, the next one is filled.
_BUFFERS = 2


class Sent(NamedTuple):
    """A value that is being copied to a device.

    Attributes:
        value: the value; its tensors must not be used before the copy is complete.
        memory: the device memory that all of its tensors are views of; None if nothing is copied.
        event: completes when the copy is complete.
    """

    value: Any
    memory: torch.Tensor | None = None
    event: Any = None


class Mover(Protocol):
    """Copies values to a device: one thread sends, another one receives.

    Attributes:
        copies: whether values are copied.
    """

    copies: bool

    def send(self, value: Any) -> Sent:
        """Starts to copy a value."""

    def send_block(self, block: Block, made: Callable[[torch.Tensor], Any]) -> Sent:
        """Starts to copy a block.

        Args:
            block: the block.
            made: makes the value, of views of the memory that it is called with: the block's bytes, on the device.
        """

    def receive(self, sent: Sent) -> Any:
        """Returns the value, for operations that the calling thread then starts on the device."""


class Stay:
    """The mover for values that are not copied."""

    copies = False

    def send(self, value: Any) -> Sent:
        """The value itself."""
        return Sent(value)

    def send_block(self, block: Block, made: Callable[[torch.Tensor], Any]) -> Sent:
        """The value, in the memory of the block."""
        return self.send(made(memory_of(block)))

    def receive(self, sent: Sent) -> Any:
        """The value itself."""
        return sent.value


class Move(Stay):
    """The mover to devices other than CUDA, without asynchronous copies."""

    copies = True

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def send(self, value: Any) -> Sent:
        """Copies it."""
        return Sent(replaced(value, lambda tensor: tensor.to(self._device)))


class Copies(Protocol):
    """The device operations that `Buffered` uses."""

    def pinned(self, size: int) -> torch.Tensor:
        """Allocates pinned memory."""

    def copy(self, memory: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Starts to copy pinned memory; returns the device memory, and an event for the end of the copy."""

    def pin(self, address: int, size: int) -> Callable[[], object] | None:
        """Makes copies from memory asynchronous. Returns the function that ends this; None if it is impossible."""

    def is_done(self, event: Any) -> bool:
        """Whether an event has completed."""

    def wait(self, event: Any) -> None:
        """Blocks this thread until an event has completed."""

    def use(self, memory: torch.Tensor, event: Any) -> None:
        """Makes this thread's next operations on the device wait for an event, and keeps the memory for them."""


class Cuda:
    """Copies to a GPU, in a separate CUDA stream."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def pinned(self, size: int) -> torch.Tensor:
        """Allocates pinned memory."""
        return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)

    def copy(self, memory: torch.Tensor) -> tuple[torch.Tensor, torch.cuda.Event]:
        """Starts to copy, concurrently with other streams."""
        with torch.cuda.stream(self._stream):
            found = memory.to(self._device, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self._stream)
        return found, event

    def pin(self, address: int, size: int) -> Callable[[], object] | None:
        """Registers memory with CUDA."""
        runtime = torch.cuda.cudart()
        if int(runtime.cudaHostRegister(address, size, 0)):
            return None
        return lambda: runtime.cudaHostUnregister(address)

    def is_done(self, event: torch.cuda.Event) -> bool:
        """Whether a copy is complete."""
        return event.query()

    def wait(self, event: torch.cuda.Event) -> None:
        """Waits for a copy."""
        event.synchronize()

    def use(self, memory: torch.Tensor, event: torch.cuda.Event) -> None:
        """Makes the current stream wait for the copy, so that it can use the memory."""
        current = torch.cuda.current_stream(self._device)
        current.wait_event(event)
        memory.record_stream(current)


class Buffered:
    """The mover through pinned memory: copies all tensors of a value at once.

    The memory of a block is pinned with its whole ring. All other values go through reused pinned buffers.
    """

    copies = True

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        self._ring: Ring | None = None  # of the last block
        self._is_pinned = False  # this ring
        self._copied: deque[tuple[torch.Tensor, Any]] = (
            deque()
        )  # blocks that are being copied, and their events
        self._buffers: list[tuple[torch.Tensor | None, Any]] = [(None, None)] * _BUFFERS
        self._at = 0

    def send(self, value: Any) -> Sent:
        """Fills a buffer, and starts to copy it."""
        tensors = _strided(value)
        starts, size = [], 0
        for tensor in tensors:
            starts.append(size)
            size += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
        if not size:
            size = _ALIGNMENT
        buffer = self._free(size)
        for tensor, start in zip(tensors, starts, strict=True):
            _part(buffer, start, tensor).copy_(tensor)
        memory, event = self._sent(buffer[:size])
        moved = iter([_part(memory, start, tensor) for tensor, start in zip(tensors, starts, strict=True)])
        return Sent(
            replaced(value, lambda found: next(moved) if _is_strided(found) else found.to(memory.device)),
            memory,
            event,
        )

    def send_block(self, block: Block, made: Callable[[torch.Tensor], Any]) -> Sent:
        """Starts to copy a block from its ring. The slot is returned after the copy."""
        while self._copied and self._copies.is_done(self._copied[0][1]):
            self._copied.popleft()
        if block.ring is not self._ring:
            self._pin(block.ring)
        source = memory_of(block)
        if self._is_pinned:
            memory, event = self._copies.copy(source)
            self._copied.append((source, event))
        else:
            buffer = self._free(block.size)[: block.size]
            buffer.copy_(source)
            memory, event = self._sent(buffer)
        return Sent(made(memory), memory, event)

    def _pin(self, ring: Ring) -> None:
        unpin = self._copies.pin(ring.address, ring.size)
        if unpin is not None:
            ring.before_unmapping(unpin)
        self._ring, self._is_pinned = ring, unpin is not None

    def receive(self, sent: Sent) -> Any:
        """Makes the thread's next device operations wait for the copy, without blocking the thread."""
        assert sent.memory is not None
        self._copies.use(sent.memory, sent.event)
        return sent.value

    def _sent(self, filled: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Starts to copy the buffer that was filled, and turns to the next one."""
        memory, event = self._copies.copy(filled)
        self._buffers[self._at] = (self._buffers[self._at][0], event)
        self._at = (self._at + 1) % _BUFFERS
        return memory, event

    def _free(self, size: int) -> torch.Tensor:
        """Returns the least recently used buffer, after its copy is complete."""
        buffer, event = self._buffers[self._at]
        if event is not None:
            self._copies.wait(event)
        if buffer is None or len(buffer) < size:
            # Batch sizes vary a little: leave room for the next one.
            buffer = self._copies.pinned(size + size // 4)
        self._buffers[self._at] = (buffer, None)
        return buffer


def mover(device: torch.device | None) -> Mover:
    """Creates the mover to a device. Call it in the thread that will use the values."""
    if device is None or device.type == "cpu":
        return Stay()
    if device.type != "cuda":
        return Move(device)
    if device.index is None:  # the current device depends on the thread
        device = torch.device("cuda", torch.cuda.current_device())
    return Buffered(Cuda(device))


def memory_of(block: Block) -> torch.Tensor:
    """The bytes of a block. The block's slot is returned when nothing uses them anymore."""
    return torch.frombuffer(block.memory, dtype=torch.uint8, count=block.size)


def replaced(value: Any, replace: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Replaces all tensors of a value, in dicts, lists, tuples and batches."""
    if isinstance(value, torch.Tensor):
        return replace(value)
    if isinstance(value, (Batch, Jagged, Deduplicated)):
        return value.replaced(lambda found: replaced(found, replace))
    if isinstance(value, Mapping):
        return {name: replaced(found, replace) for name, found in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(replaced(found, replace) for found in value))
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(found, replace) for found in value)
    return value


def _strided(value: Any) -> list[torch.Tensor]:
    """The tensors of a value that are in plain CPU memory."""
    found: list[torch.Tensor] = []

    def see(tensor: torch.Tensor) -> torch.Tensor:
        if _is_strided(tensor):
            found.append(tensor)
        return tensor

    replaced(value, see)
    return found


def _is_strided(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.layout == torch.strided and not tensor.is_nested


def _part(memory: torch.Tensor, start: int, like: torch.Tensor) -> torch.Tensor:
    """A view of memory, starting at an offset, with the type and shape of another tensor."""
    return memory[start : start + like.nbytes].view(like.dtype).view(like.shape)
