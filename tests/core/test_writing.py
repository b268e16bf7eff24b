"""One file is replaced by another in one step, whoever else writes, reads or is killed meanwhile."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from ntkgp.core import files, locks
from ntkgp.core.files import replacing
from ntkgp.core.locks import Locked, locked

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps open files in place")


def write(path, content):
    with replacing(path) as file:
        file.write(content)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_is_written_takes_the_place_of_what_was_there(tmp_path):
    path = tmp_path / "a" / "file"
    write(path, b"old")
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(path.parent) == ["file"]


def fail_halfway(path, error):
    with replacing(path) as file:
        file.write(b"half of the new")
        raise error


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_error_leaves_what_was_there_and_nothing_else(tmp_path, error):
    path = tmp_path / "file"
    write(path, b"old")
    with pytest.raises(type(error)) as raised:
        fail_halfway(path, error)
    if isinstance(error, OSError):
        assert str(path) in str(raised.value)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@posix
def test_a_read_only_directory_is_named_in_the_error(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied", str(tmp_path / ".file.0.partial"))

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(PermissionError, match=r"Permission denied: '.*/file'"):
        write(tmp_path / "file", b"new")


@posix
def test_no_link_is_followed_and_no_name_foreseen(tmp_path, monkeypatch):
    """An attacker who guesses the name puts a link there: it is not written through."""
    victim, path = tmp_path / "victim", tmp_path / "file"
    victim.write_bytes(b"precious")
    guesses = iter(["0" * 16])
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: next(guesses))
    (tmp_path / f".file.{'0' * 16}.partial").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write(path, b"new")
    assert victim.read_bytes() == b"precious"
    monkeypatch.undo()
    write(path, b"new")
    seen = set()
    for _ in range(3):
        with replacing(path) as file:
            seen.add(file.name)
            file.write(b"newer")
    assert len(seen) == 3
    assert all(re.fullmatch(r".*/\.file\.[0-9a-f]{16}\.partial", name) for name in seen)


@posix
def test_what_killed_writers_left_is_removed_and_what_others_write_is_not(tmp_path):
    path = tmp_path / "file"
    code = f"""
import os, signal
from pathlib import Path
from ntkgp.core.files import replacing
with replacing(Path({str(path)!r})) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == -9
    (left,) = names(tmp_path)
    assert left.endswith(".partial")
    (tmp_path / ".file.of-the-user.partial").touch()
    (tmp_path / f".other.{'0' * 16}.partial").touch()
    with replacing(path) as file:
        file.write(b"slow")
        write(path, b"quick")  # another writer cleans up meanwhile
        assert left not in names(tmp_path)
    assert path.read_bytes() == b"slow"
    assert names(tmp_path) == sorted(
        ["file", ".file.of-the-user.partial", f".other.{'0' * 16}.partial"]
    )


@posix
def test_a_file_without_locks_is_abandoned_after_a_day(tmp_path, monkeypatch):
    def no_locks(_):
        raise locks.Unlockable

    monkeypatch.setattr(files, "lock", no_locks)
    old, young = (tmp_path / f".file.{digit * 16}.partial" for digit in "01")
    for path in (old, young):
        path.touch()
    os.utime(old, (time.time() - 90_000,) * 2)
    write(tmp_path / "file", b"new")
    assert names(tmp_path) == [young.name, "file"]


def test_many_threads_write_and_read_one_file(tmp_path):
    path = tmp_path / "file"
    contents = [bytes([65 + i]) * 50_000 for i in range(4)]
    write(path, contents[0])
    errors, done = [], threading.Event()

    def keep(do):
        try:
            do()
        except BaseException as error:
            errors.append(error)

    def read():
        while not done.is_set():
            assert path.read_bytes() in contents

    readers = [threading.Thread(target=keep, args=(read,)) for _ in range(2)]
    writers = [
        threading.Thread(target=keep, args=(lambda c=c: [write(path, c) for _ in range(20)],))
        for c in contents
    ]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert errors == []
    assert names(tmp_path) == ["file"]


# Locks


def test_one_process_at_a_time_holds_a_lock_and_names_itself(tmp_path):
    path = tmp_path / "lock"
    with (
        locked(path, "the table"),
        pytest.raises(Locked, match=rf"another process.*({os.getpid()})?.* is writing the table"),
        locked(path, "the table"),
    ):
        pass
    assert names(tmp_path) == []
    with locked(path, "the table"):
        assert names(tmp_path) == ["lock"]


@posix
def test_a_killed_process_holds_no_lock(tmp_path):
    path = tmp_path / "lock"
    context = multiprocessing.get_context("spawn")
    ready, end = context.Event(), context.Event()
    process = context.Process(target=hold, args=(path, ready, end))
    process.start()
    assert ready.wait(60)
    with pytest.raises(Locked, match=rf"\({process.pid}\)"), locked(path, "it"):
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert names(tmp_path) == ["lock"]
    with locked(path, "it"):
        pass
    assert names(tmp_path) == []


def hold(path, ready, end):
    with locked(path, "it"):
        ready.set()
        end.wait()


def test_a_place_without_locks_is_named_and_no_obstacle(tmp_path, monkeypatch):
    def no_locks(_):
        raise locks.Unlockable

    monkeypatch.setattr(locks, "lock", no_locks)
    with pytest.warns(UserWarning, match="no locks here"), locked(tmp_path / "lock", "it"):
        pass
