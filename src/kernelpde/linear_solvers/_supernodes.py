"""Columns of a sparse triangular factor, grouped so that they are found together.

Columns of one level that lie close to each other form a supernode: one small Gram matrix, of them
and of all earlier functionals nearby, gives them all. Supernodes of one level get colors, such
that none of a color sees another of that color: they can be eliminated at the same time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from kernelpde.linear_solvers._ordering import Level
from kernelpde.linear_solvers._trees import tree_of

COLUMNS = 32
"""How many columns a supernode has at most."""

_KINDS, _EACH = 6, 150
"""Maximum number of different sizes to which supernodes are filled up, and minimum number of
supernodes of each size: every kind has to be compiled."""

_BATCHES = ((512, 16), (1100, 4), (np.inf, 1))
"""How many supernodes are eliminated at the same time, by the number of their rows."""


@dataclass(frozen=True)
class _Supernode:
    """Columns with the rows they see, and when they are eliminated."""

    time: int
    columns: Int[np.ndarray, " c"]
    rows: Int[np.ndarray, " r"]


@dataclass(frozen=True)
class Elimination:
    """The steps in which a factor is built up, each of a number of supernodes.

    Steps that see about as many rows are of one kind, and their arrays have the same shape.

    **Attributes:**

    - `columns`: for each kind, step and supernode its columns, filled up with `idle`.
    - `rows`: likewise those before them that they see.
    - `kind`, `position`: where each step is found, in the order of elimination.
    - `idle`: the number of elements.
    """

    columns: tuple[Int[np.ndarray, "_ _b c"], ...]
    rows: tuple[Int[np.ndarray, "_ _b _r"], ...]
    kind: Int[np.ndarray, " s"]
    position: Int[np.ndarray, " s"]
    idle: int


def elimination(
    points: Float[np.ndarray, "N d"], groups: Sequence[Level], radius: float
) -> Elimination:
    """Supernodes for elements at points.

    **Arguments:**

    - `points`: where each element is.
    - `groups`: the elements from first to last.
    - `radius`: ρ, how far an element sees in units of the length scale of its group.
    """
    tree = tree_of(points)
    time = np.full(len(points), np.iinfo(np.int64).max)
    found: list[_Supernode] = []
    clock = 0
    top = groups[0].members
    for start in range(0, len(top), COLUMNS):
        # The first see everything before them.
        columns = top[start : start + COLUMNS]
        time[columns] = clock
        found.append(_Supernode(clock, columns, top[:start]))
        clock += 1
    for group in groups[1:]:
        reach = radius * group.scale
        leaves = leaves_of(points, group.members)
        centers = np.stack([points[leaf].mean(0) for leaf in leaves])
        widths = np.array(
            [
                np.sqrt(((points[leaf] - center) ** 2).sum(1).max())
                for leaf, center in zip(leaves, centers, strict=True)
            ]
        )
        colors = _colors(centers, reach, widths)
        for leaf, color in zip(leaves, colors, strict=True):
            time[leaf] = clock + color
        near = tree.query_ball_point(centers, reach + widths, workers=-1)
        for leaf, color, around in zip(leaves, colors, near, strict=True):
            rows = np.asarray(around, dtype=np.int64)
            rows = rows[time[rows] < clock + color]
            rows = rows[_nearest(points[rows], points[leaf]) <= reach]
            rows = rows[np.argsort(time[rows], kind="stable")]
            found.append(_Supernode(clock + int(color), leaf, rows))
        clock += int(colors.max()) + 1
    return _packed(found, len(points))


def _nearest(
    points: Float[np.ndarray, "n d"], others: Float[np.ndarray, "m d"]
) -> Float[np.ndarray, " n"]:
    """How far each point is from the nearest of some others."""
    squares = np.zeros((len(points), len(others)))
    for a, b in zip(points.T, others.T, strict=True):
        squares += (a[:, None] - b[None, :]) ** 2
    return np.sqrt(squares.min(1, initial=np.inf))


def near_to(
    tree: Any,
    points: Float[np.ndarray, "N d"],
    some: Float[np.ndarray, "m d"],
    reach: float,
) -> Int[np.ndarray, " n"]:
    """The numbers of the points, those in the tree, that are within reach of any of some others."""
    center = some.mean(0)
    width = np.sqrt(((some - center) ** 2).sum(1).max())
    around = np.asarray(tree.query_ball_point(center, reach + width), dtype=np.int64)
    return around[_nearest(points[around], some) <= reach]


def leaves_of(
    points: Float[np.ndarray, "N d"], members: Int[np.ndarray, " n"], widest: float = np.inf
) -> list[Int[np.ndarray, " _"]]:
    """Parts of nearly equal number, cut again and again across the long side.

    None has more members than a supernode has columns, and none is wider than `widest`.
    """
    finished, todo = [], [(members, -(-len(members) // COLUMNS))]
    while todo:
        part, count = todo.pop()
        if count == 1 and len(part) > 1 and np.ptp(points[part], axis=0).max() > widest:
            count = 2
        if count == 1:
            finished.append(part)
            continue
        along = int(np.argmax(np.ptp(points[part], axis=0)))
        half = count // 2
        cut = len(part) * half // count
        order = part[np.argpartition(points[part, along], cut)]
        todo += [(order[:cut], half), (order[cut:], count - half)]
    return finished


def _colors(
    centers: Float[np.ndarray, "n d"], reach: float, widths: Float[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
    """Numbers such that no two that may see each other have the same."""
    colors = np.full(len(centers), -1)
    most = reach + 2.0 * float(widths.max())
    near = tree_of(centers).query_ball_point(centers, most, workers=-1)
    for n, others in enumerate(near):
        others = np.asarray(others)
        apart = np.sqrt(((centers[others] - centers[n]) ** 2).sum(1))
        taken = set(colors[others[apart <= reach + widths[others] + widths[n]]].tolist())
        colors[n] = next(c for c in range(len(centers)) if c not in taken)
    return colors


def _packed(supernodes: list[_Supernode], idle: int) -> Elimination:
    """Supernodes as arrays, one for each kind."""
    lengths = np.array([max(1, len(node.rows)) for node in supernodes])
    sizes = _sizes(lengths)
    kinds = np.searchsorted(sizes, lengths)
    times = np.array([node.time for node in supernodes])
    steps: list[tuple[int, int, np.ndarray]] = []
    batches = [next(number for most, number in _BATCHES if size <= most) for size in sizes]
    for kind, batch in enumerate(batches):
        mine = np.flatnonzero(kinds == kind)
        mine = mine[np.argsort(times[mine], kind="stable")]
        for same in np.split(mine, np.flatnonzero(np.diff(times[mine])) + 1):
            for start in range(0, len(same), batch):
                part = same[start : start + batch]
                steps.append((int(times[part[0]]), kind, part))
    steps.sort(key=lambda step: step[0])
    columns, rows = [], []
    position = np.zeros(len(steps), dtype=np.int32)
    for kind, size in enumerate(sizes):
        places = [n for n, step in enumerate(steps) if step[1] == kind]
        some = np.full((len(places), batches[kind], COLUMNS), idle, dtype=np.int32)
        seen = np.full((len(places), batches[kind], size), idle, dtype=np.int32)
        for place, number in enumerate(places):
            position[number] = place
            for n, which in enumerate(steps[number][2]):
                node = supernodes[which]
                some[place, n, : len(node.columns)] = node.columns
                seen[place, n, : len(node.rows)] = node.rows
        columns.append(some)
        rows.append(seen)
    kind = np.array([step[1] for step in steps], dtype=np.int32)
    return Elimination(tuple(columns), tuple(rows), kind, position, idle)


def _sizes(lengths: Int[np.ndarray, " n"]) -> list[int]:
    """Few sizes to fill up to, such that factors of all blocks take the least work."""
    kinds = int(np.clip(len(lengths) // _EACH, 1, _KINDS))
    edges = np.unique(np.quantile(lengths, np.linspace(0, 1, 40), method="higher"))
    counts = np.diff(np.searchsorted(np.sort(lengths), edges, side="right"), prepend=0)
    work = (edges + COLUMNS).astype(float) ** 3
    many = len(edges)
    before = np.concatenate([[0], np.cumsum(counts)])
    # best[k][j]: the least work for the first j sizes with k kinds.
    best = np.full((kinds + 1, many + 1), np.inf)
    cut = np.zeros((kinds + 1, many + 1), dtype=int)
    best[0, 0] = 0.0
    for k in range(1, kinds + 1):
        for j in range(1, many + 1):
            options = best[k - 1, :j] + (before[j] - before[:j]) * work[j - 1]
            cut[k, j] = int(np.argmin(options))
            best[k, j] = options[cut[k, j]]
    k, j, found = int(np.argmin(best[:, many])), many, []
    while j > 0:
        found.append(int(edges[j - 1]))
        j, k = int(cut[k, j]), k - 1
    return sorted(found)
