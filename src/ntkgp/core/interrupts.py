"""SIGINT and SIGTERM that wait for a good moment."""

import signal
import sys
import threading
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequests:
    """While the block runs, a first SIGINT or SIGTERM is only noted; a second acts at once.

    Work asks `noted` at moments when it can stop, saves itself and calls `act`, which does what the signal
    would have done before: KeyboardInterrupt for SIGINT, exit code 143 for SIGTERM, or a handler of the
    user's own. Python has signals in the main thread only; elsewhere nothing changes.

    >>> with StopRequests() as requests:
    ...     signal.raise_signal(signal.SIGINT)
    ...     requests.noted
    ...     try:
    ...         requests.act()
    ...     except KeyboardInterrupt:
    ...         print("stopped")
    True
    stopped
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._received: int | None = None

    @property
    def noted(self) -> bool:
        """Whether a signal has come."""
        return self._received is not None

    def __enter__(self) -> "StopRequests":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                before = signal.getsignal(number)
                if before not in (None, signal.SIG_IGN):
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._restore()
        if self.noted and error is not None:
            print(f"before it could stop: {kind.__name__}: {error}", file=sys.stderr)
        self.act()  # one that came too late to be asked for

    def act(self) -> None:
        """Do what the signal asks for, if one has come."""
        number, self._received = self._received, None
        if number is None:
            return
        before = self._before[number]
        if not callable(before):
            raise SystemExit(128 + number)
        before(number, None)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.noted:
            self.act()
            return
        self._received = number
        name = signal.Signals(number).name
        print(
            f"{name}: the checkpoint is written at the next good moment. Send it again to leave "
            "at once.",
            file=sys.stderr,
        )

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
