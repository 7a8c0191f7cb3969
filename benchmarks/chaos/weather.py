"""What happens to calls of storage and of a catalog: faults that begin and end, for all callers."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable

from accidents import Accidents, Answer, changes

_LONGEST = 40.0  # seconds that a silent call is held
_LOOK = 0.05


class Weather(Accidents):
    """Faults of all calls of one server.

    Attributes:
        hits: how many calls each kind of fault has hit.
    """

    def __init__(self, seed: int, xml: bool) -> None:
        """XML is the form of errors on S3; a catalog's is JSON."""
        super().__init__()
        self._faults: dict[str, float] = {}
        self._rng, self._xml, self._guard = random.Random(seed), xml, threading.Lock()
        self.hits: dict[str, int] = {}

    def begin(self, kind: str, share: float) -> None:
        """Begins a fault of a share of the calls."""
        self._faults[kind] = share

    def end(self, kind: str) -> None:
        """Ends a fault."""
        self._faults.pop(kind, None)

    def heal(self) -> None:
        """Ends all faults."""
        self._faults.clear()

    def around(self, name: str, call: Callable[[], Answer]) -> Answer | None:
        """Makes a call, or has it meet a fault; None closes the connection without an answer."""
        kind = self._drawn(name)
        if kind == "slow":
            time.sleep(self._rng.uniform(0.05, 1.5))
        if kind == "silent":
            until = time.monotonic() + _LONGEST
            while kind in self._faults and time.monotonic() < until:
                time.sleep(_LOOK)
            return None
        refusal = {"unavailable": 503, "throttled": 429, "denied": 403}.get(kind)
        if refusal is not None:
            return self._refusal(refusal)
        answer = call()
        if answer.status >= 300:
            return answer  # the call itself has failed
        if kind == "cut" and answer.body:
            return Answer(answer.status, answer.body[: len(answer.body) // 2], _sized(answer), cut=True)
        if kind == "wrong length" and answer.body:
            half = answer.body[: len(answer.body) // 2]
            others = [(k, v) for k, v in answer.headers if k.lower() != "content-length"]
            return Answer(answer.status, half, others)
        if kind == "answer lost":
            return None
        if kind in ("false failure", "false conflict"):
            return self._refusal(500 if kind == "false failure" else 409)
        return answer

    def _drawn(self, name: str) -> str:
        with self._guard:
            for kind, share in list(self._faults.items()):
                if kind in ("answer lost", "false failure", "false conflict") and not changes(name):
                    continue
                if kind in ("cut", "wrong length") and not name.startswith("GET"):
                    continue
                if self._rng.random() < share:
                    self.hits[kind] = self.hits.get(kind, 0) + 1
                    return kind
        return ""

    def _refusal(self, status: int) -> Answer:
        code = {403: "ExpiredToken", 409: "ConditionalRequestConflict", 429: "SlowDown"}.get(
            status, "InternalError"
        )
        if self._xml:
            text = f"<Error><Code>{code}</Code><Message>a fault</Message></Error>"
            return Answer(status, text.encode(), [("Content-Type", "application/xml")])
        kind = {403: "ForbiddenException", 409: "CommitFailedException"}.get(
            status, "ServiceFailureException"
        )
        error = {"error": {"message": "a fault", "type": kind, "code": status}}
        return Answer(status, json.dumps(error).encode(), [("Content-Type", "application/json")])


def _sized(answer: Answer) -> list[tuple[str, str]]:
    others = [(k, v) for k, v in answer.headers if k.lower() != "content-length"]
    return [*others, ("Content-Length", str(len(answer.body)))]
