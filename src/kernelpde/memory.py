"""What a dense system takes, and whether it fits."""

import os

from kernelpde.errors import InputError

SOLVE, LEARN = 2.2, 3.6
"""Matrices of the full size alive at once in a solve and in learning: peak memory at 3000 rows."""

_USABLE = 0.9
"""The part of a machine's memory that may be asked for."""


def physical_bytes() -> float | None:
    """The memory of this machine, if it can be found out."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):  # pragma: no cover
        return None


def dense_bytes(rows: int, matrices: float) -> float:
    """8 M² bytes for each matrix of M rows."""
    return matrices * 8.0 * rows**2


def fits(rows: int, matrices: float) -> bool:
    """Whether dense matrices with that number of rows fit into the memory of this machine."""
    available = physical_bytes()
    return available is None or dense_bytes(rows, matrices) <= _USABLE * available


def require_bytes(what: str, needed: float, advice: str) -> None:
    """Refuse what cannot fit, before it is allocated."""
    available = physical_bytes()
    if available is not None and needed > _USABLE * available:
        raise InputError(
            f"{what}: about {needed / 1e9:.3g} GB are needed, and this machine has "
            f"{available / 1e9:.3g} GB. {advice}"
        )


def require_memory(what: str, rows: int, matrices: float) -> None:
    """Refuse a dense system that cannot fit, before anything is allocated for it."""
    available, needed = physical_bytes(), dense_bytes(rows, matrices)
    if available is not None and not fits(rows, matrices):
        most = int((_USABLE * available / (8.0 * matrices)) ** 0.5)
        raise InputError(
            f"{what}: {rows} rows need about {needed / 1e9:.3g} GB, and this machine has "
            f"{available / 1e9:.3g} GB. Take fewer points, at most some {most} rows in all, or cut "
            "time into windows with march."
        )
