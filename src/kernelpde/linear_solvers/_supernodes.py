"""Supernodes of a sparse triangular factor, and the steps that eliminate them.

Neighboring columns of a level form a supernode. One small Gram matrix, of its columns and of all
previous neighboring functionals, yields all of them. The supernodes of a level are colored such
that supernodes of the same color are not coupled and can be eliminated simultaneously.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from kernelpde.arrays import FLOAT_BYTES
from kernelpde.linear_solvers._ordering import Level
from kernelpde.linear_solvers._trees import make_tree, nearest_distances
from kernelpde.linear_solvers._zero_rows import pad_indices
from kernelpde.memory import CACHE_BYTES

_MAX_COLUMNS = 32
"""Maximum number of columns of a supernode."""

_MAX_SIZES, _MIN_SUPERNODES_PER_SIZE = 6, 150
"""Maximum number of padded sizes of supernodes, and minimum number of supernodes of each size.
Every size has to be compiled."""

_MAX_BATCH = 16
"""Maximum number of supernodes that are eliminated at a time. More of them are padding where few
are independent, fewer make small factorizations wait for each other. Not measured."""


@dataclass(frozen=True)
class _Supernode:
    """Columns of a supernode, the rows they are coupled to, and the time of their elimination."""

    time: int
    columns: Int[np.ndarray, " c"]
    rows: Int[np.ndarray, " r"]


@dataclass(frozen=True)
class _Cell:
    """Neighboring columns of a level, with their center and their distance from it."""

    members: Int[np.ndarray, " c"]
    center: Float[np.ndarray, " d"]
    width: float

    @staticmethod
    def of(points: Float[np.ndarray, "N d"], members: Int[np.ndarray, " c"]) -> "_Cell":
        center = points[members].mean(0)
        width = np.sqrt(((points[members] - center) ** 2).sum(1).max())
        return _Cell(members, center, float(width))


class Supernodes(eqx.Module):
    """Supernodes of the same padded size, by step and position in the step.

    **Attributes:**

    - `columns`: indices of their columns, padded.
    - `rows`: indices of the previous elements that they are coupled to, padded.
    """

    columns: Int[Array, "_ b c"]
    rows: Int[Array, "_ b r"]

    @property
    def width(self) -> int:
        """Number of rows and columns of each supernode."""
        return self.rows.shape[-1] + self.columns.shape[-1]


class Pattern(eqx.Module):
    """Sparsity pattern of a triangular factor as a sequence of elimination steps.

    **Attributes:**

    - `batches`: supernodes of each padded size.
    - `batch_kind`, `position`: for each step the index of its batch and its index in the batch.
    - `padding_index`: number of elements, which is the index of the padding element.
    - `mesh`: devices that share the small factorizations.
    """

    batches: tuple[Supernodes, ...]
    batch_kind: Int[Array, " s"]
    position: Int[Array, " s"]
    padding_index: int = eqx.field(static=True)
    mesh: Mesh | None = eqx.field(static=True, default=None)

    @property
    def num_gram_entries(self) -> float:
        """Number of entries of the Gram matrices of all supernodes."""
        return sum(float(np.prod(batch.rows.shape[:2]) * batch.width**2) for batch in self.batches)

    @property
    def bytes(self) -> float:
        """Memory of a factor with this pattern."""
        return sum(
            FLOAT_BYTES * batch.columns.size * (batch.width + batch.columns.shape[-1])
            for batch in self.batches
        )


def make_pattern(
    points: Float[np.ndarray, "N d"],
    groups: Sequence[Level],
    radius: float,
    mesh: Mesh | None = None,
) -> Pattern:
    """Group elements into supernodes and elimination steps.

    **Arguments:**

    - `points`: locations of the elements.
    - `groups`: elements in the order of elimination.
    - `radius`: ρ, distance within which elements are coupled, in units of the scale of the group.
    - `mesh`: devices that share the small factorizations.
    """
    tree = make_tree(points)
    times = np.full(len(points), np.iinfo(np.int64).max)
    supernodes: list[_Supernode] = []
    clock = 0
    first = groups[0].members
    for start in range(0, len(first), _MAX_COLUMNS):
        # Elements of the first group are coupled to all previous ones.
        columns = first[start : start + _MAX_COLUMNS]
        times[columns] = clock
        supernodes.append(_Supernode(clock, columns, first[:start]))
        clock += 1
    for group in groups[1:]:
        distance = radius * group.scale
        cells = [_Cell.of(points, members) for members in split_cells(points, group.members)]
        centers = np.stack([cell.center for cell in cells])
        widths = np.array([cell.width for cell in cells])
        colors = _colors(centers, distance, widths)
        for cell, color in zip(cells, colors, strict=True):
            times[cell.members] = clock + color
        neighbors = tree.query_ball_point(centers, distance + widths, workers=-1)
        for n, cell in enumerate(cells):
            time, rows = clock + int(colors[n]), np.asarray(neighbors[n], dtype=np.int64)
            rows = rows[times[rows] < time]
            rows = rows[nearest_distances(points[rows], points[cell.members]) <= distance]
            rows = rows[np.argsort(times[rows], kind="stable")]
            supernodes.append(_Supernode(time, cell.members, rows))
        clock += int(colors.max()) + 1
    return _pack(supernodes, len(points), mesh)


def split_cells(
    points: Float[np.ndarray, "N d"], members: Int[np.ndarray, " n"], max_width: float = np.inf
) -> list[Int[np.ndarray, " _"]]:
    """Bisect points across the longest side until cells are small enough.

    No cell has more members than a supernode has columns, and none is wider than `max_width`.
    """
    cells, pending = [], [(members, -(-len(members) // _MAX_COLUMNS))]
    while pending:
        cell, count = pending.pop()
        extents = np.ptp(points[cell], axis=0)
        if count == 1 and len(cell) > 1 and extents.max() > max_width:
            count = 2
        if count == 1:
            cells.append(cell)
            continue
        half = count // 2
        middle = len(cell) * half // count
        order = cell[np.argpartition(points[cell, int(np.argmax(extents))], middle)]
        pending += [(order[:middle], half), (order[middle:], count - half)]
    return cells


def _colors(
    centers: Float[np.ndarray, "n d"], distance: float, widths: Float[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
    """Color cells such that cells of the same color are not coupled."""
    colors = np.full(len(centers), -1)
    max_distance = distance + 2.0 * float(widths.max())
    neighbors = make_tree(centers).query_ball_point(centers, max_distance, workers=-1)
    for n, candidates in enumerate(map(np.asarray, neighbors)):
        distances = np.sqrt(((centers[candidates] - centers[n]) ** 2).sum(1))
        coupled = candidates[distances <= distance + widths[candidates] + widths[n]]
        neighbor_colors = set(colors[coupled].tolist())
        colors[n] = next(c for c in range(len(centers)) if c not in neighbor_colors)
    return colors


def _pack(supernodes: list[_Supernode], padding_index: int, mesh: Mesh | None) -> Pattern:
    """Collect supernodes of similar size in padded arrays."""
    lengths = np.array([max(1, len(node.rows)) for node in supernodes])
    sizes = _padded_sizes(lengths)
    kinds = np.searchsorted(sizes, lengths)
    times = np.array([node.time for node in supernodes])
    steps: list[tuple[int, int, int]] = []
    batches = []
    none = np.zeros(0, dtype=np.int64)
    empty = _Supernode(0, none, none)
    for kind, size in enumerate(sizes):
        # The small matrices that are factored at a time use a few caches.
        batch_size = max(1, min(_MAX_BATCH, 4 * CACHE_BYTES // (FLOAT_BYTES * size**2)))
        members = np.flatnonzero(kinds == kind)
        members = members[np.argsort(times[members], kind="stable")]
        padded: list[_Supernode] = []
        for simultaneous in np.split(members, np.flatnonzero(np.diff(times[members])) + 1):
            for start in range(0, len(simultaneous), batch_size):
                chunk = [supernodes[n] for n in simultaneous[start : start + batch_size]]
                steps.append((chunk[0].time, kind, len(padded) // batch_size))
                padded += chunk + [empty] * (batch_size - len(chunk))
        columns = pad_indices([node.columns for node in padded], _MAX_COLUMNS, padding_index)
        rows = pad_indices([node.rows for node in padded], size, padding_index)
        batches.append(
            Supernodes(
                jnp.asarray(columns.reshape(-1, batch_size, _MAX_COLUMNS)),
                jnp.asarray(rows.reshape(-1, batch_size, size)),
            )
        )
    steps.sort(key=lambda step: step[0])
    order = np.array(steps, dtype=np.int32)
    return Pattern(
        tuple(batches), jnp.asarray(order[:, 1]), jnp.asarray(order[:, 2]), padding_index, mesh
    )


def _padded_sizes(lengths: Int[np.ndarray, " n"]) -> list[int]:
    """Choose few padded sizes that minimize the work of all small factorizations."""
    max_sizes = int(np.clip(len(lengths) // _MIN_SUPERNODES_PER_SIZE, 1, _MAX_SIZES))
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, 40), method="higher"))
    counts = np.diff(np.searchsorted(np.sort(lengths), edges, side="right"), prepend=0)
    work = (edges + _MAX_COLUMNS).astype(float) ** 3
    num_edges = len(edges)
    cumulative = np.concatenate([[0], np.cumsum(counts)])
    # best[k][j]: the least work for the first j edges with k sizes.
    best = np.full((max_sizes + 1, num_edges + 1), np.inf)
    split = np.zeros((max_sizes + 1, num_edges + 1), dtype=int)
    best[0, 0] = 0.0
    for k in range(1, max_sizes + 1):
        for j in range(1, num_edges + 1):
            options = best[k - 1, :j] + (cumulative[j] - cumulative[:j]) * work[j - 1]
            split[k, j] = int(np.argmin(options))
            best[k, j] = options[split[k, j]]
    k, j, sizes = int(np.argmin(best[:, num_edges])), num_edges, []
    while j > 0:
        sizes.append(int(edges[j - 1]))
        j, k = int(split[k, j]), k - 1
    return sorted(sizes)
