"""The few protobuf messages of Flight that the fake server reads and writes, by hand.

pyarrow's own Flight server can send neither a message of metadata alone nor
trailers, and supports few gRPC codes, so the fake implements gRPC itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def field(number: int, value: bytes) -> bytes:
    """One field of bytes, text or a message."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of bytes, text or messages; numbers are passed over."""
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        if key & 7 == 2:
            size, at = _number(message, at)
            yield key >> 3, message[at : at + size]
            at += size
        else:
            _, at = _number(message, at)


def _number(message: bytes, at: int) -> tuple[int, int]:
    out = shift = 0
    while message[at] > 127:
        out |= (message[at] & 127) << shift
        shift += 7
        at += 1
    return out | message[at] << shift, at + 1


def flight_data(encapsulated: pa.Buffer | None, metadata: bytes = b"") -> bytes:
    """A FlightData message of an encapsulated IPC message, of application metadata, or of both."""
    out = b""
    if encapsulated is not None:
        text = encapsulated.to_pybytes()
        size = int.from_bytes(text[4:8], "little")
        out += field(2, text[8 : 8 + size])
        out += field(1000, text[8 + size :])
    return out + (field(3, metadata) if metadata else b"")
