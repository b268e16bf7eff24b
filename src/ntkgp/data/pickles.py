"""Lists, dictionaries, texts, numbers and arrays of bytes from pickles, which run nothing here.

A pickle is a program that may call any function of Python. This reads the part of it that plain data
need, and interprets it by itself: no call, no import. The names that NumPy's arrays need stand for plain
records, and every other name is refused. Memory stays within a few times the pickle's own size: counts
and places that it declares allocate nothing.
"""

import pickletools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_ARRAY = ("numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype")
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = {
    *("BININT", "BININT1", "BININT2", "LONG1"),
    *("BINSTRING", "SHORT_BINSTRING", "BINUNICODE", "SHORT_BINBYTES", "BINBYTES"),
}
_MARK = object()


class Name(NamedTuple):
    """A name that a pickle asks for, and no more than that."""

    name: str


class Record:
    """What a pickle would make by a call: the name, the arguments, and the state that it sets."""

    def __init__(self, name: str, arguments: Any) -> None:
        self.name, self.arguments, self.state = name, arguments, None


def load(content: bytes) -> Any:
    """The value of a pickle of plain data; a ValueError for any other."""
    return _Machine().run(content)


def byte_array(value: Any) -> NDArray[np.uint8]:
    """The array of bytes, in C order, that a record of a pickle stands for."""
    state = value.state if isinstance(value, Record) else None
    if not isinstance(state, tuple) or len(state) != 5:
        raise ValueError("it has no array where one should be")
    _, shape, dtype, fortran_order, content = state
    code = dtype.arguments[0] if isinstance(dtype, Record) and dtype.arguments else None
    if code not in (b"u1", "u1") or fortran_order is not False:
        words = repr(code[:20]) if isinstance(code, (bytes, str)) else "that it names"
        raise ValueError(f"images must be bytes in C order, not of type {words}")
    if not isinstance(content, bytes) or not isinstance(shape, tuple):
        raise ValueError("its array has no content or no shape")
    return np.frombuffer(content, np.uint8).reshape(shape)


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[Any, Any] = {}

    def run(self, content: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(content):
            if opcode.name == "STOP":
                return self.stack.pop()
            self.step(opcode.name, argument)
        raise ValueError("it has no end")

    def step(self, name: str, argument: Any) -> None:
        stack = self.stack
        match name:
            case "PROTO":
                pass
            case "MARK":
                stack.append(_MARK)
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_TUPLE":
                stack.append(())
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                size = int(name[-1])
                stack[-size:] = [tuple(stack[-size:])]
            case "TUPLE":
                items = self.since_mark()
                stack.append(tuple(items))
            case "APPEND" | "APPENDS":
                items = self.since_mark() if name == "APPENDS" else [stack.pop()]
                _of(list, stack[-1]).extend(items)
            case "SETITEM" | "SETITEMS":
                items = self.since_mark() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
                if not all(type(key) in (bytes, str, int) for key in items[::2]):
                    raise ValueError("it has a dictionary whose keys are no texts")
                _of(dict, stack[-1]).update(zip(items[::2], items[1::2], strict=True))
            case "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self.memo[argument])
            case "GLOBAL":
                stack.append(_known(argument))
            case "REDUCE":
                arguments, called = stack.pop(), stack.pop()
                stack.append(Record(_of(Name, called).name, _of(tuple, arguments)))
            case "BUILD":
                state = stack.pop()
                _of(Record, stack[-1]).state = state
            case "BINSTRING" | "SHORT_BINSTRING":
                stack.append(argument.encode("latin-1"))
            case _ if name in _CONSTANTS:
                stack.append(_CONSTANTS[name])
            case _ if name in _VALUES:
                stack.append(argument)
            case _:
                raise ValueError(
                    f"it has the instruction {name}, which plain data do not need; nothing was run"
                )

    def since_mark(self) -> list[Any]:
        """What was put on the stack after the last mark, and the stack as before it."""
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise ValueError("it ends a list that it has not begun")
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items


def _known(name: str) -> Name:
    if name not in _ARRAY:
        raise ValueError(
            f"it asks for {name.replace(' ', '.')[:80]}, which plain data have no use for, and it may be "
            "an attempt to run code; nothing was run"
        )
    return Name(name)


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"it has a {type(value).__name__} where it needs a {kind.__name__}")
    return value
