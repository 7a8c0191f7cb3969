"""When which fault happens to what, drawn from a seed."""

from __future__ import annotations

import dataclasses
import random

SERVERS = 3
_FIRST = 5.0  # seconds before the first fault

# Faults of calls by HTTP.
HTTP_KINDS = (
    "unavailable",
    "throttled",
    "slow",
    "silent",
    "denied",
    "cut",
    "wrong length",
    "answer lost",
    "false failure",
    "false conflict",
)


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        at: seconds after the begin of the run.
        kind: what happens, and to what, as in "relay delay".
        target: the number of what it happens to, modulo how many there are.
        lasts: seconds until it ends.
        amount: in [0, 1): how bad it is.
    """

    at: float
    kind: str
    target: int
    lasts: float
    amount: float


# The kinds with their weights. Server 0 is never killed, so that its memory can be followed: see Course.
PLAIN = {
    "kill server": 6,
    "terminate server": 4,
    "stop server": 3,
    "kill trainer": 8,
    "stop trainer": 4,
    "kill command": 8,
    "relay delay": 4,
    "relay silence": 4,
    "relay void": 3,
    "relay cut": 4,
    "relay refusal": 2,
    "clock ahead": 3,
    "clock back": 3,
    "reload": 2,
    "bad config": 2,
    "wrong certificate": 2,
    "token expires": 2,
    **{f"s3 {kind}": 3 for kind in HTTP_KINDS},
    **{f"rest {kind}": 2 for kind in HTTP_KINDS},
    "s3 false conflict": 0,  # S3 refuses no write that it makes
}
SQL = {"sql delay": 2, "sql silence": 2, "sql cut": 3, "sql refusal": 2}
SMALL = {"disk full": 5, "memory squeezed": 4}
WIRE = {"packets lost": 4, "packets delayed": 3, "packets silenced": 3}


def draw(seed: int, faults: int, seconds: float, kinds: dict[str, int]) -> list[Fault]:
    """Faults in the order of time. Each kind comes before one comes for the second time, if there are enough."""
    rng = random.Random(seed)
    names = sorted(kind for kind, weight in kinds.items() if weight)
    rng.shuffle(names)
    drawn = names[:faults]
    drawn += rng.choices(names, [kinds[name] for name in names], k=faults - len(drawn))
    rng.shuffle(drawn)
    found = [
        Fault(
            at=_FIRST + rng.random() * max(0.0, seconds - _FIRST),
            kind=kind,
            target=rng.randrange(1 << 16),
            lasts=min(rng.expovariate(1 / 5), 25) + 0.5,
            amount=rng.random(),
        )
        for kind in drawn
    ]
    return sorted(found, key=lambda fault: fault.at)
