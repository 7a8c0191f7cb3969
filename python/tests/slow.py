"""What a server says of a slow stream: the limit that `penstock status` prints, and its times."""

from __future__ import annotations

import json
import random
import re
import subprocess
from dataclasses import dataclass
from typing import Any

from pyiceberg.types import IcebergType, LongType, StringType
from server import BINARY

# The share of a stream's time that its causes may lack.
UNKNOWN = 0.05


@dataclass(frozen=True)
class Seen:
    """What the status of a server says of one stream.

    Attributes:
        limit: the cause in the column LIMIT.
        line: the line below the streams that explains it.
        stream: the stream in the status as JSON.
    """

    limit: str
    line: str
    stream: dict[str, Any]

    @property
    def known(self) -> float:
        """The share of the time that the causes have."""
        spent = sum(self.stream["waited_ms"].values()) + sum(self.stream["worked_ms"].values())
        return float(spent / self.stream["open_ms"])


def look(address: str, job: str) -> Seen:
    """Reads the status as a person does, and as a program."""
    command = [str(BINARY), "status", "--uri", f"grpc://{address}"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    answer = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout
    rows = [line for line in shown.splitlines() if line.startswith(f"{job} ")]
    assert len(rows) == 1, shown
    cell = re.split(r" {2,}", rows[0])[-1]
    limit = re.fullmatch(r"(.+) \d+%", cell)
    assert limit is not None, shown
    lines = [line for line in shown.splitlines() if line.startswith(f"{limit[1]}: ")]
    assert len(lines) == 1, shown
    streams = [one for one in json.loads(answer)["streams"] if one.get("job") == job]
    return Seen(limit[1], lines[0], streams[0])


LONGS: dict[str, IcebergType] = {name: LongType() for name in ("id", "a", "b", "c")}
TEXTS: dict[str, IcebergType] = {"id": LongType(), "text": StringType()}


def longs(rows: int) -> list[dict[str, Any]]:
    """Rows of random numbers, which no encoding makes small."""
    rng = random.Random(7)
    return [
        {"id": i, "a": rng.getrandbits(62), "b": rng.getrandbits(62), "c": rng.getrandbits(62)}
        for i in range(rows)
    ]


def texts(rows: int, length: int) -> list[dict[str, Any]]:
    """Rows of random texts."""
    rng = random.Random(8)
    return [{"id": i, "text": rng.randbytes(length // 2).hex()} for i in range(rows)]
