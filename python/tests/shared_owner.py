"""Opens a private server as one of several processes: python shared_owner.py PROGRAM CONFIG.

It prints the server's process and the rows that it reads, reads all again for each line of input, and closes the client after
the last one.
"""

from __future__ import annotations

import os
import sys

import penstock


def main() -> None:
    program, config = sys.argv[1:]
    with penstock.open(config, program=program) as client:
        assert client.settings.private is not None
        print(client.settings.private.pid, client.read("d").read_all().num_rows, flush=True)
        for line in sys.stdin:
            if line == "fork\n":
                child = os.fork()
                if child == 0:
                    client.close()
                    os._exit(0)
                os.waitpid(child, 0)
            print(client.settings.private.pid, client.read("d").read_all().num_rows, flush=True)


if __name__ == "__main__":
    main()
