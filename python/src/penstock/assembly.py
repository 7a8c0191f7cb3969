"""Where the tensors of a stream are assembled: by the server or a receiver on this host, or in this process."""

from __future__ import annotations

from penstock import receivers
from penstock.errors import Error, Unavailable
from penstock.messages import Messages
from penstock.settings import Settings


class Assembly:
    """Decides whether a stream asks for blocks instead of batches, and whether through a receiver.

    Attributes:
        plan: the tensor plan of the blocks; None to get batches.
        why: why no receiver is used; "" if there is no reason.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._receives = False  # whether a receiver may be used
        self._skips = False  # the next time
        self.plan: bytes | None = None
        self.why = ""

    def accept_blocks(self, plan: bytes) -> None:
        """Accepts blocks of a tensor plan, where the server or a receiver can assemble them on this host."""
        self.plan = plan
        self._receives = self._settings.local and self._settings.private is None
        if not self._settings.local:
            self.why = "local=False"

    @property
    def receives(self) -> bool:
        """Whether the next connection may use a receiver."""
        return self._receives and not self._skips

    def opened(self) -> None:
        """Notes that a connection was prepared. Later ones may use a receiver again."""
        self._skips = False

    def avoid_receiver(self, messages: Messages, failure: Error) -> bool:
        """Decides whether a stream that failed is read again at once, because its receiver may be the cause.

        Args:
            messages: the connection that failed, through a receiver.
            failure: its failure.
        """
        if messages.refusal:  # now: it may have memory, or reach the server, when the stream is opened again
            self._skips, self.why = True, messages.refusal
            return True
        if isinstance(failure, Unavailable) and (messages.lost_receiver or not messages.batches):
            # The server may be unreachable only for the receiver, and the receiver may be what fails.
            self._skips, self.why = True, failure.message
            return True
        # Without retries, the receiver that has broken the connection may still be ending.
        ending = isinstance(failure, Unavailable) and not self._settings.reconnect
        return receivers.is_gone(self._settings, messages.receiver, wait=ending)
