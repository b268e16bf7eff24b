"""Threads of linear algebra."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """For many products of small matrices: BLAS' threads would wait for each other on a busy machine.

    >>> with one_blas_thread():
    ...     product = np.eye(2) @ np.eye(2)
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield


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
