"""Files of arrays and plain facts: an ordinary .npz, checked, written whole, never unpickled."""

import contextlib
import errno
import hashlib
import importlib.metadata
import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernelpde.checking import shown
from kernelpde.errors import FileError, InputError, KernelPDEError

_FACTS = "facts.json"
_PACKAGES = ("kernelpde", "jax", "jaxlib", "numpy", "scipy", "equinox", "optax")
_LARGEST = 2**36
"""Bytes beyond which a file is not what it says."""


def versions() -> dict[str, str]:
    """Of the packages that results depend on."""
    return {name: importlib.metadata.version(name) for name in _PACKAGES}


def digest(arrays: Iterable[Any]) -> str:
    """A short name for the contents of arrays: other numbers have another."""
    found = hashlib.sha256()
    for array in map(np.asarray, arrays):
        found.update(f"{array.dtype}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[Path]:
    """A path to be written to, its directory made; what fails is a `FileError` with advice."""
    if not isinstance(path, str | os.PathLike) or not Path(path).name:
        raise InputError(f"Expected the name of a file to write; got {shown(path)}.")
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        yield Path(path)
    except KernelPDEError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        advice = _ADVICE.get(error.errno or 0, "Name another file.")
        raise FileError(f"{path}: cannot be written; {reason}. {advice}") from error


_ADVICE = {
    errno.ENOSPC: "Make room and write it again; the file that was there is as it was.",
    errno.EISDIR: "Name a file in it.",
    errno.EACCES: "Name a file in a directory of yours.",
    errno.EROFS: "Name a file in a directory of yours.",
}


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A file beside another, of the same ending, that takes its place once it is whole.

    Whatever fails, the file that was there stays as it was, and nothing is left beside it.
    """
    with writing(path) as target:
        beside = target.with_name(f"{target.stem}.{os.getpid()}.part{target.suffix}")
        try:
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            yield beside
            with open(beside, "rb+") as file:
                os.fsync(file.fileno())
            beside.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise


def write_archive(
    path: str | Path,
    kind: str,
    version: int,
    facts: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Write a file that `read_archive` accepts; at no moment is there half a file.

    **Arguments:**

    - `path`: replaced if it exists.
    - `kind`, `version`: what the file is.
    - `facts`: whatever JSON can hold; numbers come back to the last bit.
    - `arrays`: by name; of numbers.
    """
    members = {f"{name}.npy": _bytes_of(array) for name, array in arrays.items()}
    head = {"kind": kind, "version": version, "written_with": versions()}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    try:
        text = json.dumps({**head, "digests": digests, "facts": dict(facts)})
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{path}: notes must be what JSON can hold, numbers, text, lists and dictionaries; "
            f"{error}."
        ) from error
    seal = hashlib.sha256(text.encode()).hexdigest()
    with replacing(path) as beside, zipfile.ZipFile(beside, "w") as archive:
        archive.writestr(_FACTS, text)
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = seal.encode()


def read_archive(
    path: str | Path, kind: str, version: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The facts and the arrays of a file; one that is damaged or something else is refused."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"Expected the name of a {kind} file; got {shown(path)}.")
    source = Path(path)
    try:
        with zipfile.ZipFile(source) as archive:
            if sum(member.file_size for member in archive.infolist()) > _LARGEST:
                raise InputError(f"{path}: is damaged; its parts have impossible sizes.")
            contents = {name: archive.read(name) for name in archive.namelist()}
            seal = archive.comment.decode("ascii", "replace")
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such file.") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a directory; expected a file.") from error
    except PermissionError as error:
        raise InputError(f"{path}: may not be read by this user.") from error
    except _DAMAGED as error:
        raise InputError(
            f"{path}: is not a {kind} file, or is damaged ({_first_line(error)})."
        ) from error
    text = contents.pop(_FACTS, b"")
    head = _head(text, path, kind)
    if head.get("version") != version:
        raise InputError(
            f"{path}: is a {kind} file of version {head.get('version')}; "
            f"this program reads version {version}."
        )
    digests = head.get("digests")
    if (
        not isinstance(digests, dict)
        or set(digests) != set(contents)
        or hashlib.sha256(text).hexdigest() != seal
    ):
        raise InputError(f"{path}: is damaged; its parts do not belong together.")
    arrays = {}
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != digests[name]:
            raise InputError(f"{path}: is damaged; {name} has changed since it was written.")
        try:
            arrays[name.removesuffix(".npy")] = np.load(io.BytesIO(content), allow_pickle=False)
        except _DAMAGED as error:
            raise InputError(f"{path}: {name} is no array of numbers.") from error
    facts = head.get("facts")
    if not isinstance(facts, dict):
        raise InputError(f"{path}: is damaged; it holds no facts.")
    return facts, arrays


_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    IndexError,
    MemoryError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    UnicodeDecodeError,
    ValueError,
)
"""Whatever reading a damaged zip file or array can raise."""


def _head(text: bytes, path: str | Path, kind: str) -> dict[str, Any]:
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not a {kind} file of kernelpde.") from error
    if not isinstance(head, dict) or head.get("kind") != kind:
        found = head.get("kind") if isinstance(head, dict) else None
        raise InputError(f"{path}: expected a {kind} file; got {found or 'something else'}.")
    return head


def _bytes_of(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
