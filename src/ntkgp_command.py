"""Where the command `ntkgp` begins: signals end it in words, also while it is still importing JAX."""

import signal
import sys
from types import FrameType


class Ended(KeyboardInterrupt):
    """A signal other than Ctrl-C asks the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def main() -> int:
    """Run the command line; the code is 128 and the number of the signal that ended it."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores it
            signal.signal(number, _end)
    try:
        from ntkgp.cli import main as run

        return run()
    except Ended as ended:
        return _left(f"ended by {ended}", ended.number)
    except KeyboardInterrupt:
        return _left("interrupted", signal.SIGINT)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second one ends it at once
    raise Ended(number)


def _left(how: str, number: int) -> int:
    print(f"ntkgp: {how}; run the same command again to continue.", file=sys.stderr)
    return 128 + number


if __name__ == "__main__":
    sys.exit(main())
