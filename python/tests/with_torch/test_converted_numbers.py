"""What numbers, booleans, times and decimals become as tensors."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest
import torch
from converted import converted, listed, same

from penstock.torch import Converter

NUMBERS: list[tuple[pa.DataType, torch.dtype]] = [
    (pa.int8(), torch.int8),
    (pa.int16(), torch.int16),
    (pa.int32(), torch.int32),
    (pa.int64(), torch.int64),
    (pa.uint8(), torch.uint8),
    (pa.uint16(), torch.uint16),
    (pa.uint32(), torch.uint32),
    (pa.uint64(), torch.uint64),
    (pa.float16(), torch.float16),
    (pa.float32(), torch.float32),
    (pa.float64(), torch.float64),
]


# spec: tensor-2
@pytest.mark.parametrize(("arrow", "dtype"), NUMBERS)
def test_numbers_are_views(arrow: pa.DataType, dtype: torch.dtype) -> None:
    column = pa.array([1, 2, 3, 100, 0], pa.int64()).cast(arrow)
    found = converted(column, nulls="error")["c"]
    assert found.dtype == dtype
    assert found.tolist() == column.to_pylist()
    address, width = column.buffers()[1].address, arrow.bit_width // 8
    assert found.data_ptr() == address
    convert = Converter(pa.schema({"c": arrow}), nulls="error")
    part = pa.RecordBatch.from_arrays([column.slice(2)], ["c"])
    assert convert(part)["c"].data_ptr() == address + 2 * width


@pytest.mark.parametrize(("arrow", "dtype"), NUMBERS)
def test_nulls_of_numbers(arrow: pa.DataType, dtype: torch.dtype) -> None:
    column = pa.array([1, None, 3, None, 5], pa.int64()).cast(arrow)
    zero, one = (0.0, 1.0) if dtype.is_floating_point else (0, 1)
    there = [True, False, True, False, True]
    filled = converted(column, nulls={"c": 7})
    assert same(listed(filled["c"]), [one, 7 * one, 3 * one, 7 * one, 5 * one])
    assert list(filled) == ["c"]
    masked = converted(column, nulls={"c": "mask"})
    assert same(listed(masked["c"]), [one, zero, 3 * one, zero, 5 * one])
    assert same(listed(masked["c_mask"]), there)
    if dtype.is_floating_point:
        assert same(listed(converted(column)["c"]), [1.0, math.nan, 3.0, math.nan, 5.0])
        assert same(listed(converted(column, nulls={"c": "nan"})["c"])[1], math.nan)


def test_booleans_are_unpacked() -> None:
    values = [True, False, False, True, None, True, False, True, True, False, None]
    column = pa.array(values)
    found = converted(column, nulls={"c": True})
    assert found["c"].dtype == torch.bool
    assert listed(found["c"]) == [value is not False for value in values]
    masked = converted(column, nulls={"c": "mask"})
    assert listed(masked["c"]) == [value is True for value in values]
    assert listed(masked["c_mask"]) == [value is not None for value in values]


EPOCH = datetime.datetime(1970, 1, 1)


# spec: tensor-3
@pytest.mark.parametrize(
    ("arrow", "unit", "values", "expected"),
    [
        (pa.timestamp("us"), "us", [EPOCH, EPOCH + datetime.timedelta(seconds=2)], [0, 2_000_000]),
        (pa.timestamp("ns", "UTC"), "ns", [5, -7], [5, -7]),
        (pa.timestamp("s"), "s", [1, 2**40], [1, 2**40]),
        (pa.timestamp("ms"), "ms", [-1, 3], [-1, 3]),
        (pa.date32(), "D", [datetime.date(1970, 1, 3), datetime.date(1969, 12, 31)], [2, -1]),
        (pa.date64(), "ms", [datetime.date(1970, 1, 2)], [86_400_000]),
        (pa.time64("us"), "us", [datetime.time(0, 0, 1, 5)], [1_000_005]),
        (pa.time32("s"), "s", [datetime.time(1, 0, 1)], [3601]),
        (pa.duration("us"), "us", [datetime.timedelta(milliseconds=3)], [3000]),
    ],
)
def test_times_count_their_unit(
    arrow: pa.DataType, unit: str, values: list[Any], expected: list[int]
) -> None:
    column = pa.array([*values, None], arrow)
    found = converted(column, nulls={"c": -(2**31)})
    assert found["c"].dtype == torch.int64
    assert listed(found["c"]) == [*expected, -(2**31)]
    convert = Converter(pa.schema({"c": arrow}), nulls="mask")
    assert convert.columns["c"].unit == unit
    assert listed(converted(column, nulls="mask")["c_mask"])[-1] is False


DECIMALS = [decimal.Decimal("12.50"), decimal.Decimal("-0.01"), None, decimal.Decimal("9999999999.99")]


@pytest.mark.parametrize("arrow", [pa.decimal128(12, 2), pa.decimal256(18, 2), pa.decimal64(12, 2)])
def test_decimals_by_a_rule(arrow: pa.DataType) -> None:
    column = pa.array(DECIMALS, arrow)
    exact = converted(column, decimals={"c": "unscaled"}, nulls={"c": 3})
    assert exact["c"].dtype == torch.int64
    assert listed(exact["c"]) == [1250, -1, 300, 999_999_999_999]
    assert (
        Converter(pa.schema({"c": arrow}), decimals={"c": "unscaled"}, nulls="error").columns["c"].scale == 2
    )
    nearest = converted(column, decimals={"c": "float64"})
    assert same(listed(nearest["c"]), [12.5, -0.01, math.nan, 9999999999.99])
    assert converted(column, decimals={"c": "float32"}, nulls={"c": 0.5})["c"].dtype == torch.float32
