"""Converts Arrow arrays without nulls to tensors, as views of Arrow's memory where possible."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch.utils.dlpack import from_dlpack

# The types whose memory a tensor can view. For unsigned types other than uint8, torch has few operations.
DTYPES: dict[pa.DataType, torch.dtype] = {
    pa.int8(): torch.int8,
    pa.int16(): torch.int16,
    pa.int32(): torch.int32,
    pa.int64(): torch.int64,
    pa.uint8(): torch.uint8,
    pa.uint16(): torch.uint16,
    pa.uint32(): torch.uint32,
    pa.uint64(): torch.uint64,
    pa.float16(): torch.float16,
    pa.float32(): torch.float32,
    pa.float64(): torch.float64,
    pa.bool_(): torch.bool,
}


def view(array: pa.Array) -> torch.Tensor:
    """The values of an array without nulls, of one of the types in `DTYPES`.

    Numbers are a view, which keeps Arrow's memory alive. Booleans are unpacked, since Arrow stores eight per byte.
    """
    if len(array) == 0:  # may have no memory at all
        return torch.empty(0, dtype=DTYPES[array.type], device="cpu")
    if pa.types.is_boolean(array.type):
        return torch.from_numpy(_unpacked(array.buffers()[1], array.offset, len(array)))
    return from_dlpack(array)


def ends(array: pa.ListArray | pa.LargeListArray) -> tuple[int, int]:
    """The offsets of the first list's first element and of the last list's end."""
    form, width = ("<q", 8) if pa.types.is_large_list(array.type) else ("<i", 4)
    offsets, start = array.buffers()[1], array.offset
    if offsets is None:  # there are no lists
        return 0, 0
    [first] = struct.unpack_from(form, offsets, start * width)
    [last] = struct.unpack_from(form, offsets, (start + len(array)) * width)
    return first, last


def validity(array: pa.Array) -> torch.Tensor:
    """For each value, whether it is not null, as a tensor."""
    valid = is_valid(array)
    if isinstance(array, pa.ExtensionArray):
        return validity(array.storage)
    if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
        valid[valid] = is_valid(array.dictionary)[array.indices.drop_null().to_numpy()]
    return torch.from_numpy(valid)


def masked(array: pa.Array, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """The same values, with nulls in addition where `valid` is False. Extension types become their storage."""
    if isinstance(array, pa.ExtensionArray):
        return masked(array.storage, valid)
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(masked(array.indices, valid), array.dictionary)
    before = np.zeros(array.offset, np.bool_)
    bits = np.packbits(np.concatenate([before, valid & is_valid(array)]), bitorder="little")
    buffers = [pa.py_buffer(bits), *array.buffers()[1:]]
    return pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset)


def is_valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    """For each value, whether it is not null, as a new numpy array."""
    bitmap = array.buffers()[0] if array.null_count else None
    if bitmap is None:
        return np.ones(len(array), np.bool_)
    return _unpacked(bitmap, array.offset, len(array))


def _unpacked(bitmap: pa.Buffer, start: int, length: int) -> npt.NDArray[np.bool_]:
    """Unpacks bits, starting at `start`, to one byte each, in new memory."""
    first = start // 8
    packed = np.frombuffer(bitmap, np.uint8)[first : (start + length + 7) // 8]
    bits: npt.NDArray[Any] = np.unpackbits(packed, bitorder="little")
    return bits[start - first * 8 :][:length].view(np.bool_)
