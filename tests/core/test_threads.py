"""Threads: limits that end when the last user has ended, and errors that come through."""

import threading

import pytest
from threadpoolctl import ThreadpoolController

from ntkgp.core import compilation
from ntkgp.core.threads import cores, in_threads, in_worker, one_blas_thread


def blas_threads():
    pools = ThreadpoolController().info()
    return {pool["num_threads"] for pool in pools if pool["user_api"] == "blas"}


def test_the_limit_of_blas_ends_with_its_last_user():
    """Two users overlap: the first to begin is the first to end."""
    before = blas_threads()
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def first():
        with one_blas_thread():
            first_is_in.set()
            second_is_in.wait(10)
        first_is_out.set()

    user = threading.Thread(target=first)
    user.start()
    assert first_is_in.wait(10)
    with one_blas_thread():
        second_is_in.set()
        assert first_is_out.wait(10)
        assert blas_threads() == {1}
    user.join()
    assert blas_threads() == before


def test_an_error_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setenv("NPROC", "2")
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda value: 1 / value, [1, 0])
    assert in_threads(lambda value: 1 / value, [1, 2]) == [1.0, 0.5]
    assert in_threads(lambda value: 1 / value, []) == []


def test_threads_do_not_forget_programs_that_others_run(monkeypatch):
    forgotten = []
    monkeypatch.setattr(
        compilation, "_drop_programs_above", lambda _: forgotten.append(in_worker())
    )
    monkeypatch.setattr(compilation, "_LOOK_EVERY", 1)
    monkeypatch.setenv("NPROC", "2")
    in_threads(lambda _: compilation.before_compiling(), [0, 1])
    assert forgotten == []
    compilation.before_compiling()  # the control
    assert forgotten == [False]


@pytest.mark.parametrize(("given", "expected"), [("3", 3), ("0", None), ("many", None), ("", None)])
def test_nproc_says_how_many_cores_to_use(given, expected, monkeypatch):
    monkeypatch.delenv("NPROC", raising=False)
    all_of_them = cores()
    monkeypatch.setenv("NPROC", given)
    assert cores() == (expected or all_of_them)
