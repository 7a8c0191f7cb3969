"""Converts decimals to the nearest binary floats, ties to even.

Arrow's own cast multiplies by powers of ten that are already rounded, and often misses the nearest float.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.torch import arrays

# Up to these limits, whole numbers and powers of ten are exact in float64, so one division or product rounds once.
_EXACT = 1 << 53
_EXACT_POWER = 22

# The midpoint between the largest float32 and the next power of two; it rounds to infinity.
_INFINITE = float(2**128 - 2**103)

Floats = npt.NDArray[np.floating]


def nearest(to: pa.DataType, array: pa.Array) -> pa.Array:
    """The nearest float64 or float32 to each decimal of an array. Nulls stay null."""
    valid = arrays.is_valid(array)
    if not valid.any():
        return pa.nulls(len(array), to)
    scale = array.type.scale
    numbers, small = _whole(array)
    numbers[~valid] = 0
    out = _divided(numbers, scale)
    large = np.flatnonzero(valid & (~small | (abs(scale) > _EXACT_POWER)))
    out[large] = _floats(_digits(array, large), scale)
    if pa.types.is_float32(to):
        with np.errstate(over="ignore"):  # overflows become infinite
            out = _narrowed(out, array, valid)
    return pa.array(out, mask=~valid)


def _words(array: pa.Array) -> npt.NDArray[np.int64]:
    """The unscaled values as 64-bit words, the lowest first."""
    kind = np.dtype("<i4" if array.type.bit_width == 32 else "<i8")
    per = array.type.bit_width // (8 * kind.itemsize)
    words = np.frombuffer(array.buffers()[1], kind, count=per * (array.offset + len(array)))
    return words.reshape(-1, per)[array.offset :].astype(np.int64)


def _whole(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The unscaled values that are exact in float64, with 0 for others, and a mask of the exact ones."""
    words = _words(array)
    low = words[:, 0].copy()
    sign = low >> 63
    small = (words[:, 1:] == sign[:, None]).all(axis=1) & (low >= -_EXACT) & (low <= _EXACT)
    low[~small] = 0
    return low, small


def _divided(numbers: npt.NDArray[np.int64], scale: int) -> Floats:
    """Divides numbers by a power of ten; rounds once if both are exact."""
    power = float(10 ** min(abs(scale), _EXACT_POWER))
    floats = numbers.astype(np.float64)
    return floats / power if scale >= 0 else floats * power


def _digits(array: pa.Array, indices: npt.NDArray[np.intp]) -> list[int]:
    """The unscaled values at some indices, of any size."""
    width = array.type.bit_width // 8
    data, start = array.buffers()[1].to_pybytes(), array.offset * width
    places = (start + i * width for i in indices.tolist())
    return [int.from_bytes(data[at : at + width], "little", signed=True) for at in places]


def _floats(digits: list[int], scale: int) -> list[float]:
    """The nearest float64 to each: Python rounds the quotient of integers of any size once."""
    times, by = 10 ** max(-scale, 0), 10 ** max(scale, 0)
    try:
        return [d * times / by for d in digits]
    except OverflowError:
        return [_float(d * times, by) for d in digits]


def _float(top: int, bottom: int) -> float:
    try:
        return top / bottom
    except OverflowError:
        return float("inf") if top > 0 else float("-inf")


def _narrowed(wide: Floats, array: pa.Array, valid: npt.NDArray[np.bool_]) -> Floats:
    """The nearest float32 to each decimal, given the nearest float64.

    Rounding twice is only wrong if the float64 is exactly between two float32: the decimal itself then
    decides.
    """
    narrow = wide.astype(np.float32)
    other = np.nextafter(narrow, np.where(wide > narrow, np.inf, -np.inf).astype(np.float32))
    middle = (narrow.astype(np.float64) + other.astype(np.float64)) / 2 == wide
    middle |= np.abs(wide) == _INFINITE
    scale = array.type.scale
    between = np.flatnonzero(valid & middle)
    for i, digits in zip(between, _digits(array, between), strict=True):
        top, bottom = wide[i].as_integer_ratio()
        exact, rounded = digits * bottom * 10 ** max(-scale, 0), top * 10 ** max(scale, 0)
        if exact != rounded:
            narrow[i] = np.float32(np.nextafter(wide[i], np.inf if exact > rounded else -np.inf))
    return narrow
