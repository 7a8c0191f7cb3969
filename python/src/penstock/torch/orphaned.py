"""Ends DataLoader workers whose training process has ended.

A worker of torch notices the end of its parent only if the parent ends after the worker has begun to wait for work.
Otherwise, it waits forever, and keeps its stream, its memory and its receiver.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time

# Seconds between two looks at the parent.
_POLL = 1.0

_watching = 0  # the process that has the thread; a forked process does not inherit it


def end_with_parent() -> None:
    """Ends this process once its training process has ended, if this process is a DataLoader worker.

    Call this in the thread that reads the dataset. Calls after the first do nothing.
    """
    global _watching
    parent = multiprocessing.parent_process()
    is_process = (
        threading.current_thread() is threading.main_thread()
    )  # workers can also be threads of the trainer
    if parent is None or not is_process or _watching == os.getpid():
        return
    _watching = os.getpid()
    adopter = os.getppid()  # the parent, a fork server, or the process that adopted this one

    def watch() -> None:
        # The parent counts as alive while another worker has a copy of the pipe that it inherited. The last worker is
        # alone with its own, so that workers that were adopted before this call end one after the other.
        while parent.is_alive() and os.getppid() == adopter:
            time.sleep(_POLL)
        os._exit(1)  # nothing of the interpreter runs, since it could wait for the parent

    threading.Thread(target=watch, name="penstock-parent", daemon=True).start()
