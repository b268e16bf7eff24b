"""Compiled programs kept on disk, so that a new process need not compile them again."""

import os
from pathlib import Path

import jax

from ntkgp.core.files import cache_dir


def keep_compiled(directory: str | os.PathLike[str] | None = None) -> Path:
    """Let JAX keep what it compiles in a directory, and find it there from then on.

    The `ntkgp` command does so; in a program of your own, call it once at the start. It sets two
    options of JAX for the whole process. A directory that JAX was given before, by its own options
    or by JAX_COMPILATION_CACHE_DIR, stays.

    Args:
        directory: by default `compiled` in the directory of data sets (`ntkgp.data.cache_dir`).

    Returns:
        The directory that is used.
    """
    if already := jax.config.values["jax_compilation_cache_dir"]:
        return Path(already)
    chosen = Path(directory) if directory is not None else cache_dir() / "compiled"
    chosen.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(chosen))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    return chosen
