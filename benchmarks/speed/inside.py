"""Time of a membership test of a million points for each kind of shape."""

import time
from importlib import import_module
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.spatial import ConvexHull, Delaunay

import kernelpde as kp
from benchmarks._report import parser, record

L_SHAPE = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
HOLE = [(0.2, 0.2), (0.6, 0.2), (0.6, 0.6), (0.2, 0.6)]


def torus(x, y, z):
    return (jnp.sqrt(x**2 + y**2) - 1) ** 2 + z**2 - 0.16


def sphere(levels: int) -> tuple[np.ndarray, np.ndarray]:
    """20 · 4^levels triangles."""
    phi = (1 + 5**0.5) / 2
    points = np.array([(0, a, b * phi) for a in (-1, 1) for b in (-1, 1)], dtype=float)
    points = np.concatenate([np.roll(points, shift, axis=1) for shift in range(3)])
    corners = (points / np.linalg.norm(points[0]))[ConvexHull(points).simplices]
    for _ in range(levels):
        a, b, c = np.moveaxis(corners, 1, 0)
        ab, bc, ca = (m / np.linalg.norm(m, axis=1, keepdims=True) for m in (a + b, b + c, c + a))
        parts = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        corners = np.concatenate([np.stack(part, axis=1) for part in parts])
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inwards = np.sum(across * corners[:, 0], axis=1) < 0
    corners[inwards] = corners[inwards][:, ::-1]
    return corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3)


def domain_of(page: str) -> Any:
    """The shape of a page of the gallery."""
    return import_module(f"kernelpde.gallery.pages.{page}").domain


def cube() -> kp.Mesh:
    """Tetrahedra."""
    rng = np.random.default_rng(0)
    corners = np.array(np.meshgrid(*[[0.0, 1.0]] * 3)).reshape(3, -1).T
    points = np.concatenate([rng.random((60, 3)), corners])
    return kp.Mesh(points, Delaunay(points).simplices)


SHAPES: dict[str, Any] = {
    "polygon with a hole": lambda: kp.Polygon(L_SHAPE, holes=[HOLE]),
    "flower": lambda: domain_of("poisson_flower"),
    "mesh of an annulus": lambda: domain_of("mesh"),
    "polygon less disc": lambda: kp.Polygon(L_SHAPE) - kp.Ball((0.5, 0.5), 0.3),
    "torus": lambda: kp.Implicit(torus, x=(-1.5, 1.5), y=(-1.5, 1.5), z=(-0.5, 0.5)),
    "surface of 20480 triangles": lambda: kp.Mesh(*sphere(5)),
    "tetrahedra": cube,
}


def main(arguments: list[str]) -> None:
    parser(__doc__).parse_args(arguments)
    for name, make in SHAPES.items():
        domain = make()
        low, high = domain.bounds.T
        points = np.random.default_rng(0).uniform(low, high, (1_000_000, len(low)))
        domain.contains(points[:10])
        start = time.perf_counter()
        share = np.mean(domain.contains(points))
        seconds = time.perf_counter() - start
        volume = domain.volume / np.prod(high - low)
        record(
            "inside", {"case": name, "seconds": seconds, "share": share, "share by volume": volume}
        )
