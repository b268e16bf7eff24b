"""Threads: how many there may be, those of linear algebra, and our own."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock, local
from typing import Any, TypeVar

import jax
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")

_here = local()


def cores() -> int:
    """Processors that this process may use; NPROC, which XLA heeds, can say fewer.

    >>> cores() >= 1
    True
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    given = os.environ.get("NPROC", "")
    return int(given) if given.isdigit() and int(given) > 0 else usable or 1


def in_threads(f: Callable[[T], R], values: Sequence[T]) -> list[R]:
    """f of each value, in as many threads as there are cores, with this thread's settings of JAX.

    >>> in_threads(abs, [-1, 2])
    [1, 2]
    """
    config: Any = jax.config
    x64, precision = config.jax_enable_x64, config.jax_default_matmul_precision
    device = config.jax_default_device

    def with_settings(value: T) -> R:
        _here.worker = True
        with (
            jax.enable_x64(x64),
            jax.default_device(device),
            jax.default_matmul_precision(precision),
        ):
            return f(value)

    threads = min(cores(), len(values))
    if threads <= 1:
        return [f(value) for value in values]
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(with_settings, values))


def in_worker() -> bool:
    """Whether this is one of several threads of `in_threads`."""
    return getattr(_here, "worker", False)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


class _Limit:
    """One thread for BLAS in the whole process, from the first user's start to the last one's end."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.users = 0
        self.limit: Any = None

    def begin(self) -> None:
        with self.lock:
            if not self.users:
                self.limit = _controller().limit(limits=1, user_api="blas")
            self.users += 1

    def end(self) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                self.limit.restore_original_limits()


_LIMIT = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """For many products of small matrices: BLAS' threads would wait for each other on a busy machine.

    >>> with one_blas_thread():
    ...     product = np.eye(2) @ np.eye(2)
    """
    _LIMIT.begin()
    try:
        yield
    finally:
        _LIMIT.end()


@contextmanager
def one_openmp_thread() -> Iterator[None]:
    """For short work of other libraries on several threads, which wait for each other on a busy machine.

    >>> with one_openmp_thread():
    ...     pass
    """
    with ThreadpoolController().limit(
        limits=1, user_api="openmp"
    ):  # libraries that came since, too
        yield
