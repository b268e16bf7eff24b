"""What a command says: prose for people, or one JSON document for programs."""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from ntkgp.core.progress import printable


class Talk:
    """Lines as they come, or facts gathered for the end."""

    def __init__(self, command: str, as_json: bool) -> None:
        self.as_json = as_json
        self.facts: dict[str, Any] = {"command": command}

    def say(self, text: str = "") -> None:
        """A line for people; at once, so that a log shows it."""
        if not self.as_json:
            print(printable(text), flush=True)

    def record(self, **facts: Any) -> None:
        """Facts for programs."""
        self.facts |= facts

    @contextmanager
    def timed(self, doing: str, fact: str) -> Iterator[None]:
        """Say what takes long, and record the seconds."""
        self.say(f"{doing} …")
        started = perf_counter()
        yield
        seconds = perf_counter() - started
        self.say(f"  {seconds:.1f} s")
        self.record(**{fact: round(seconds, 3)})

    def finish(self) -> None:
        """Print what was recorded, if a program listens."""
        if self.as_json:
            json.dump(_plain(self.facts), sys.stdout, indent=2, ensure_ascii=False)
            print(flush=True)


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document, no prose")


def _plain(value: Any) -> Any:
    """Without what JSON has no name for: null in place of NaN."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
