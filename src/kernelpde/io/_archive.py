"""Archives of arrays with JSON attributes.

An archive is an ordinary .npz with one JSON member. It is replaced atomically and never unpickled.
"""

import contextlib
import hashlib
import importlib.metadata
import io
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from kernelpde.checking import format_value
from kernelpde.errors import FileError, InputError, KernelPDEError

Attributes: TypeAlias = dict[str, Any]
"""JSON-serializable values by name."""

_FACTS = "facts.json"
_PACKAGES = ("kernelpde", "jax", "jaxlib", "numpy", "scipy", "equinox", "optax")


def versions() -> dict[str, str]:
    """Return the versions of the packages that results depend on."""
    return {name: importlib.metadata.version(name) for name in _PACKAGES}


def digest(arrays: Iterable[Any]) -> str:
    """Return a short hash of the contents of arrays."""
    checksum = hashlib.sha256()
    for array in map(np.asarray, arrays):
        checksum.update(f"{array.dtype}{array.shape}".encode())
        checksum.update(np.ascontiguousarray(array).tobytes())
    return checksum.hexdigest()[:16]


def _is_path(path: object) -> bool:
    return isinstance(path, str | os.PathLike)


@contextlib.contextmanager
def prepare_write(path: str | Path) -> Iterator[Path]:
    """Make the directory of a file to be written; raise `FileError` for what fails."""
    if not _is_path(path) or not Path(path).name:
        raise InputError(f"Expected the name of a file to write; got {format_value(path)}.")
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        yield Path(path)
    except KernelPDEError:
        raise
    except OSError as error:
        raise FileError(
            f"{path}: cannot be written; {error.strerror or type(error).__name__}. Free disk space "
            "or name another file; an existing file is unchanged."
        ) from error


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Write a temporary file of the same suffix, which replaces the target if nothing fails."""
    with prepare_write(path) as target:
        temporary = target.with_name(f"{target.stem}.{os.getpid()}.part{target.suffix}")
        try:
            yield temporary
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_archive(
    path: str | Path,
    kind: str,
    version: int,
    attributes: Attributes,
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Write a file that `read_archive` accepts, by atomic replacement.

    **Arguments:**

    - `path`: replaced if it exists.
    - `kind`, `version`: identify the format.
    - `attributes`: JSON-serializable; numbers are restored exactly.
    - `arrays`: numeric arrays by name.
    """
    head = {"kind": kind, "version": version, "written_with": versions(), "arrays": list(arrays)}
    try:
        text = json.dumps({**head, "facts": dict(attributes)})
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{path}: notes must be JSON-serializable (numbers, text, lists, dictionaries); "
            f"{error}."
        ) from error
    with atomic_write(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        archive.writestr(_FACTS, text)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def read_archive(
    path: str | Path, kind: str, version: int
) -> tuple[Attributes, dict[str, np.ndarray]]:
    """Return the attributes and arrays of a file; raise `InputError` if it is not readable."""
    if not _is_path(path):
        raise InputError(f"Expected the name of a {kind} file; got {format_value(path)}.")
    try:
        with zipfile.ZipFile(path) as archive:
            # A member that is read to its end is compared with its checksum.
            contents = {name: archive.read(name) for name in archive.namelist()}
        head = json.loads(contents[_FACTS])
        header, attributes = (head["kind"], head["version"]), head["facts"]
        arrays = {
            name: np.load(io.BytesIO(contents[f"{name}.npy"]), allow_pickle=False)
            for name in head["arrays"]
        }
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file.") from error
    except Exception as error:  # damaged contents raise errors of many types
        cause = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"{path}: is not a {kind} file, or is damaged ({cause}).") from error
    if header[0] != kind:
        raise InputError(f"{path}: expected a {kind} file; got {header[0]}.")
    if header[1] != version:
        raise InputError(
            f"{path}: is a {kind} file of version {header[1]}; this program reads version "
            f"{version}."
        )
    return attributes, arrays
