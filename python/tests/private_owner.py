"""Owns a private server, and forks processes that hold a stream each: python private_owner.py PROGRAM CONFIG FORKS.

It prints a line when all of them read, and waits to be killed.
"""

from __future__ import annotations

import os
import sys
import time

import penstock


def main() -> None:
    program, config, forks = sys.argv[1:]
    client = penstock.open(config, program=program)
    ready, tell = os.pipe()
    for _ in range(int(forks)):
        if os.fork() == 0:
            stream = client.read("d", batch_rows=10)
            next(stream)
            os.write(tell, b".")
            time.sleep(60)
            os._exit(0)
    told = 0
    while told < int(forks):
        told += len(os.read(ready, 64))
    assert client.settings.private is not None
    print(client.settings.private.pid, flush=True)
    time.sleep(60)


if __name__ == "__main__":
    main()
