"""Decimals as floats: the nearest one, by exact fractions."""

from __future__ import annotations

import decimal
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from penstock.torch import Converter

FORMS = {"float64": np.float64, "float32": np.float32}


def tensor(column: pa.Array, form: str, **rules: Any) -> torch.Tensor:
    batch = pa.record_batch({"c": column})
    found = Converter(batch.schema, decimals={"c": form}, **rules)(batch)["c"]
    assert isinstance(found, torch.Tensor)
    return found


def of_digits(kind: pa.DataType, digits: list[int]) -> pa.Array:
    """Decimals by their unscaled values, since pyarrow takes none with a large exponent from Python."""
    width = kind.bit_width // 8
    raw = b"".join(d.to_bytes(width, "little", signed=True) for d in digits)
    return pa.Array.from_buffers(kind, len(digits), [None, pa.py_buffer(raw)])


def is_nearest(got: Any, exact: Fraction) -> bool:
    """Whether no other float of its type is nearer, or as near and even."""
    largest = Fraction(float(np.finfo(type(got)).max))
    step = largest - Fraction(float(np.nextafter(np.finfo(type(got)).max, type(got)(0))))
    if not np.isfinite(got) or abs(exact) >= largest + step / 2:
        # Infinity is as far as the next float would be, if there were one.
        return bool(np.isinf(got)) and abs(exact) >= largest + step / 2 and (got > 0) == (exact > 0)
    off = abs(Fraction(float(got)) - exact)
    width = {8: np.int64, 4: np.int32}[got.dtype.itemsize]
    for side in (-np.inf, np.inf):
        with np.errstate(over="ignore"):
            other = np.nextafter(got, type(got)(side))
        if not np.isfinite(other):
            continue
        further = abs(Fraction(float(other)) - exact)
        if further < off or (further == off and int(got.view(width)) & 1):
            return False
    return True


def check(kind: pa.DataType, digits: list[int], form: str) -> None:
    found = tensor(of_digits(kind, [1, *digits])[1:], form).numpy()
    assert found.dtype == FORMS[form]
    wrong = [
        (d, float(got))
        for d, got in zip(digits, found, strict=True)
        if not is_nearest(got, Fraction(d) / Fraction(10) ** kind.scale)
    ]
    assert wrong == []


# spec: tensor-15
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal128(20, 4),
        pa.decimal128(38, 0),
        pa.decimal128(38, 22),
        pa.decimal128(38, 23),
        pa.decimal128(38, 38),
        pa.decimal128(12, -3),
        pa.decimal128(38, -30),
        pa.decimal128(9, 60),
        pa.decimal32(9, 5),
        pa.decimal64(18, 9),
        pa.decimal256(70, 30),
    ],
    ids=str,
)
def test_a_decimal_becomes_the_nearest_float(kind: pa.DataType, form: str) -> None:
    rng = random.Random(str(kind))
    largest = 10**kind.precision - 1
    digits = [0, 1, -1, largest, -largest]
    for power in (24, 25, 31, 32, 53, 54, 63, 64, 90):
        digits += [2**power + off for off in (-1, 0, 1)] + [-(2**power) + off for off in (-1, 0, 1)]
    digits += [rng.randrange(-largest, largest + 1) for _ in range(1000)]
    digits += [rng.randrange(-(1 << 54), 1 << 54) for _ in range(500)]
    digits += [rng.randrange(-(10 ** rng.randrange(1, 16)), 10**15) for _ in range(500)]
    check(kind, [d for d in digits if abs(d) <= largest], form)


# spec: tensor-15
@pytest.mark.parametrize("form", FORMS)
def test_decimals_near_the_midpoint_of_two_floats(form: str) -> None:
    """In the middle itself the even one is meant; a digit further, the one on that side."""
    rng = random.Random(7)
    bits = 24 if form == "float32" else 53
    scale = 8
    digits = []
    for _ in range(400):
        odd = rng.randrange(1 << bits, 1 << (bits + 1)) | 1  # one bit more than the float has
        middle = odd * 10**scale // 2 ** rng.randrange(3)
        digits += [sign * (middle + off) for sign in (1, -1) for off in (-1, 0, 1)]
    check(pa.decimal128(38, scale), digits, form)


# spec: tensor-15
def test_floats_beside_the_largest() -> None:
    step = 2 ** (1023 - 52)
    largest = (2**53 - 1) * step
    for digits in (largest, largest + step // 2 - 1, largest + step // 2):
        # The nearest multiples of the column's unit, below and above.
        check(pa.decimal256(76, -240), [digits // 10**240, digits // 10**240 + 1], "float64")
    border = 2**128 - 2**103  # from here on, infinity is nearer than the largest float32
    check(pa.decimal256(50, 0), [s * (border + off) for s in (1, -1) for off in (-1, 0, 1)], "float32")
    check(pa.decimal128(38, -10), [int(d) // 10**10 for d in (3.4028235e38, 3.5e38, 1e48)], "float32")


# spec: tensor-5, tensor-15
def test_nulls_and_slices_of_decimals() -> None:
    kind = pa.decimal128(30, 4)
    values = [decimal.Decimal("0.3"), None, decimal.Decimal(10**25), decimal.Decimal("-0.7"), None]
    raw = pa.py_buffer(b"\xff" * 16 + pa.array(values, kind).buffers()[1].to_pybytes()[16:])
    hidden = pa.Array.from_buffers(kind, 5, [pa.py_buffer(b"\x0c"), raw])  # the first is null, and not zero
    assert tensor(hidden, "float64", nulls={"c": 9}).tolist() == [9, 9, 1e25, -0.7, 9]
    assert tensor(hidden[1:4], "float64", nulls={"c": 9}).tolist() == [9, 1e25, -0.7]
    assert tensor(hidden[4:], "float64", nulls={"c": 9}).tolist() == [9]
    assert tensor(hidden[:0], "float64", nulls={"c": 9}).tolist() == []
    assert tensor(pa.nulls(2, kind), "float32", nulls={"c": "nan"}).isnan().all()
    coded = pa.array(values, kind).dictionary_encode()
    assert tensor(coded, "float64", nulls={"c": 9}).tolist() == [0.3, 9, 1e25, -0.7, 9]
