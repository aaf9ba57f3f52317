"""Memory requirements of dense systems, compared with the memory of the machine."""

import os

from kernelpde.errors import InputError

SOLVE_MATRICES, LEARN_MATRICES = 2.2, 3.6
"""Matrices of the full size alive at once in `solve` and in `learn`, from peak memory at 3000
rows."""

_USABLE_FRACTION = 0.9
"""Fraction of the physical memory that a computation may require."""


def physical_bytes() -> float | None:
    """Return the memory of this machine, or None if the system does not report it."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):  # pragma: no cover
        return None


def dense_bytes(rows: int, matrices: float) -> float:
    """Return 8 M² bytes for each matrix of M rows."""
    return matrices * 8.0 * rows**2


def fits_in_memory(rows: int, matrices: float) -> bool:
    """Return whether dense matrices with that many rows fit into the memory of this machine."""
    available = physical_bytes()
    return available is None or dense_bytes(rows, matrices) <= _USABLE_FRACTION * available


def require_bytes(label: str, required: float, advice: str) -> None:
    """Raise an `InputError` if a computation requires more memory than the machine has."""
    available = physical_bytes()
    if available is not None and required > _USABLE_FRACTION * available:
        raise InputError(
            f"{label} need about {required / 1e9:.3g} GB, and this machine has "
            f"{available / 1e9:.3g} GB. {advice}"
        )


def require_memory(caller: str, rows: int, matrices: float) -> None:
    """Raise an `InputError` if a dense system does not fit into the memory of the machine."""
    max_rows = int((_USABLE_FRACTION * (physical_bytes() or 0.0) / (8.0 * matrices)) ** 0.5)
    require_bytes(
        f"{caller}: {rows} rows",
        dense_bytes(rows, matrices),
        f"Use at most {max_rows} rows in total, or split time into windows with march.",
    )
