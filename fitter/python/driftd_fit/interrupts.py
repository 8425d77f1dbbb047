# SPDX-License-Identifier: MIT
"""Ctrl-C while C calls back. Python would raise KeyboardInterrupt as the callback is entered, where
ctypes drops it, and the call would go on to its end."""
import contextlib
import signal
import threading


class Noted:
    """Whether there was a Ctrl-C. It raises at once while `raises`."""

    def __init__(self) -> None:
        self.seen = self.raises = False

    def handle(self, *_) -> None:
        self.seen = True
        if self.raises:
            raise KeyboardInterrupt


@contextlib.contextmanager
def noted():
    """Raises KeyboardInterrupt when the block is left after a Ctrl-C. Does nothing where that would
    not raise anyway: in other threads, and where the program has its own handler."""
    interrupt = Noted()
    if (threading.current_thread() is not threading.main_thread()
            or signal.getsignal(signal.SIGINT) is not signal.default_int_handler):
        yield interrupt
        return
    signal.signal(signal.SIGINT, interrupt.handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if interrupt.seen:
        raise KeyboardInterrupt
