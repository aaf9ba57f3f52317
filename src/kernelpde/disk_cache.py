"""Compiled programs on disk, where the next process finds them.

XLA's own cache, in the user's cache directory, for the programs of this library. The environment
variable `KERNELPDE_CACHE` names another directory, or is `off`. Who has set
`jax_compilation_cache_dir` has a cache already, which is left as it is.
"""

import contextlib
import functools
import hashlib
import os
import platform
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

VARIABLE = "KERNELPDE_CACHE"

_LARGEST = 2**29
"""Bytes of programs that are kept; the oldest go first. One takes some 20 kB."""

_WHERE = "jax_compilation_cache_dir"
_SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@contextlib.contextmanager
def used(name: str) -> Iterator[None]:
    """Find the program of a function on disk while it is called for the first time, or leave it.

    Nothing that is wrong with the disk is of any consequence: a program that cannot be read is
    removed and compiled, one that cannot be written is compiled again by the next process.

    **Arguments:**

    - `name`: of the function.
    """
    theirs = not _before and getattr(jax.config, _WHERE)
    directory = None if theirs else _directory(os.environ.get(VARIABLE))
    if directory is None:
        yield
        return
    others: list[tuple[Any, ...]] = []

    def heard(message: Any, category: Any, filename: str, lineno: int, *rest: Any) -> None:
        del rest
        if "persistent compilation cache" in str(message):
            # At once: what is there when the program has been compiled is not replaced.
            _remove(directory.glob(f"*{name}-*"))
        else:
            others.append((message, category, filename, lineno))

    with _settings(directory), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = heard
        yield
    for other in others:
        warnings.warn_explicit(*other)


_lock = threading.Lock()
_before: list[dict[str, Any]] = []
"""What JAX was told before, once for each thread that compiles now."""


@contextlib.contextmanager
def _settings(directory: Path) -> Iterator[None]:
    """Tell JAX where, until the last of those who compile is done."""
    settings = {_WHERE: str(directory), **_SETTINGS}
    with _lock:
        _before.append(_before[0] if _before else {k: getattr(jax.config, k) for k in settings})
        for key, value in settings.items():
            jax.config.update(key, value)
    try:
        yield
    finally:
        with _lock:
            old = _before.pop()
            for key, value in () if _before else old.items():
                jax.config.update(key, value)


@functools.cache
def _directory(wanted: str | None) -> Path | None:
    """Where programs are kept; `None` if nowhere."""
    if wanted is not None and wanted.lower() in ("", "0", "off", "no", "false"):
        return None
    try:
        home = Path(wanted) if wanted is not None else _user_cache() / "kernelpde"
        # Programs are made for one processor.
        directory = home / f"jax-{jax.__version__}-{_processor()}"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid") and directory.stat().st_uid != os.getuid():
            return None  # somebody else could put programs there
        with tempfile.TemporaryFile(dir=directory):
            pass
        entries = sorted(directory.iterdir(), key=lambda entry: -entry.stat().st_mtime)
        sizes = [entry.stat().st_size for entry in entries]
    except (OSError, RuntimeError):
        return None
    total = 0
    for number, size in enumerate(sizes):
        total += size
        if total > _LARGEST:
            _remove(iter(entries[number:]))
            break
    return directory


def _user_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home()))
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _processor() -> str:
    """A short name for this kind of processor and what it can do."""
    known = platform.machine() + platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        known += "".join(sorted({x for x in lines if x.startswith(("flags", "Features"))}))
    return hashlib.sha256(known.encode()).hexdigest()[:8]


def _remove(entries: Iterator[Path]) -> None:
    for entry in entries:
        with contextlib.suppress(OSError):
            entry.unlink()
