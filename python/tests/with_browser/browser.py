"""Chromium, driven over the WebDriver protocol of chromedriver."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

START_TIME = 60.0  # seconds
CALL_TIME = 60.0


def _descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have started."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [*_descendants(int(child)), int(child)]
    return found


class Browser:
    """A browser without a window. Use it in a with statement."""

    def __init__(self, width: int, height: int, *, dark: bool = False) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._base = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._size = (width, height)
        self._dark = dark
        self._session = ""

    def __enter__(self) -> Self:
        until = time.monotonic() + START_TIME
        while not self._ready():
            if time.monotonic() > until or self._process.poll() is not None:
                self._process.kill()
                raise RuntimeError("chromedriver does not start")
            time.sleep(0.05)
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            f"--window-size={self._size[0]},{self._size[1]}",
        ]
        if self._dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        options = {"args": arguments}
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"
        # Windows have a smallest width, which is larger than that of telephones.
        self._post(
            "/goog/cdp/execute",
            cmd="Emulation.setDeviceMetricsOverride",
            params={
                "width": self._size[0],
                "height": self._size[1],
                "deviceScaleFactor": 1,
                "mobile": self._size[0] < 500,
            },
        )
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._session:
                self._call("DELETE", self._session)
        finally:
            self._process.terminate()
            self._process.wait(CALL_TIME)

    def kill(self) -> None:
        """Kills the browser and all of its processes, as a crash does."""
        for pid in [*_descendants(self._process.pid), self._process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(CALL_TIME)
        self._session = ""

    def open(self, url: str) -> None:
        """Opens a page, and returns when it is loaded."""
        self._post("/url", url=url)

    def run(self, script: str) -> Any:
        """Runs a script in the page, and returns its result."""
        return self._post("/execute/sync", script=script, args=[])

    def wait(self, script: str, seconds: float = 60) -> Any:
        """Returns the first result of a script that is true."""
        until = time.monotonic() + seconds
        while not (result := self.run(script)):
            assert time.monotonic() < until, script
            time.sleep(0.05)
        return result

    def picture(self, path: Path) -> None:
        """Writes a picture of the window."""
        path.write_bytes(base64.b64decode(self._call("GET", f"{self._session}/screenshot")))

    def errors(self) -> list[str]:
        """What the console has said since the last call."""
        return [entry["message"] for entry in self._post("/se/log", type="browser")]

    def requests(self) -> list[str]:
        """The addresses that the browser has requested since the last call."""
        found = []
        for entry in self._post("/se/log", type="performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    def _ready(self) -> bool:
        try:
            return bool(self._call("GET", "/status")["ready"])
        except OSError:
            return False

    def _post(self, path: str, **body: Any) -> Any:
        return self._call("POST", self._session + path, body)

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._base + path, data=data, method=method, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=CALL_TIME) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None
