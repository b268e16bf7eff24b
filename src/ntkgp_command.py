"""Where the command `ntkgp` begins: signals end it in words, also while it is still importing JAX."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


class Ended(KeyboardInterrupt):
    """A signal other than Ctrl-C asks the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def main() -> int:
    """Run the command line; the code is 128 and the number of the signal that ended it."""
    sys.unraisablehook = _again
    _handle(_end_at_once)
    from ntkgp.cli import main as run

    try:
        _handle(_end)
        return run()
    except Ended as ended:
        return _left(f"ended by {ended}", ended.number)
    except KeyboardInterrupt:
        return _left("interrupted", signal.SIGINT)


def _handle(handler: Callable[[int, FrameType | None], None]) -> None:
    ours = (signal.SIG_DFL, signal.default_int_handler, _end_at_once)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) in ours:  # nohup ignores SIGHUP
            signal.signal(number, handler)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    """While modules load there is nothing to tidy, and an exception inside one can crash the process."""
    how = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    _left(how, number)
    sys.stderr.flush()
    os._exit(128 + number)


def _end(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    signal.signal(number, signal.SIG_DFL)  # a second one ends it at once
    raise Ended(number)


def _again(unraisable: Any) -> None:
    """Send a signal again that was lost: Python drops what is raised while it collects garbage."""
    error = unraisable.exc_value
    if not isinstance(error, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    number = signal.SIGINT
    if isinstance(error, Ended):
        number = signal.Signals(error.number)
        signal.signal(number, _end)
    again = threading.Timer(0.05, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


def _left(how: str, number: int) -> int:
    print(
        f"ntkgp: {how}; nothing is half-written, and the same command can be run again.",
        file=sys.stderr,
    )
    return 128 + number


if __name__ == "__main__":
    sys.exit(main())
