"""Shapes: Poisson's equation on each kind of them, and how fast points are told to be inside.

    python benchmarks/shapes.py poisson [--seeds 0:5] [--only SHAPE]
    python benchmarks/shapes.py inside
    python benchmarks/shapes.py flux [--seeds 0:5]

`poisson`: -Δu = f with a manufactured solution of a few oscillations, Dirichlet data on the first
piece of the boundary and Neumann data on the others; 2500 rows at most, `kp.learn` without options.
Relative rms error at 2000 points inside. `inside`: seconds for a million points. `flux`: two
materials, 1 : 100, learned; jumps of temperature and flux between collocation points, relative to
their sizes.
"""

import argparse
import time
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from _report import write
from scipy.spatial import ConvexHull, Delaunay

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

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


def solution_2d(x):
    return jnp.sin(2 * x[0] + x[1]) * jnp.exp(0.3 * x[1]) + x[0] ** 2


def solution_3d(x):
    return jnp.sin(x[0] + 0.5 * x[1]) * jnp.cos(x[2]) + 0.3 * x[0] * x[1]


def problem_on(domain: Any) -> kp.Problem:
    dimension = len(domain.space.coordinates)
    exact = solution_2d if dimension == 2 else solution_3d

    def equation(x, u):
        return u.laplacian - jnp.trace(jax.hessian(exact)(x))

    def value(x, u):
        return u.value - exact(x)

    def flux(x, normal, u):
        return u.normal_derivative - jax.grad(exact)(x) @ normal

    first, *others = domain.pieces
    conditions = [
        kp.Condition("equation", domain.interior, equation),
        kp.Condition(first, domain[first], value),
        *(kp.Condition(name, domain[name], flux) for name in others),
    ]
    return kp.Problem(*conditions, fields=[kp.Field("u", kp.Gaussian(0.5))])


def poisson(seeds: range, only: str | None) -> None:
    found: dict[str, Any] = {}
    for name, make in SHAPES.items():
        if only not in (None, name):
            continue
        domain = make()
        problem = problem_on(domain)
        flat = len(domain.space.coordinates) == 2
        edges = [condition.name for condition in problem.conditions[1:]]
        points = {"equation": 1200 if flat else 1500} | {
            edge: (400 if flat else 900) // len(edges) for edge in edges
        }
        exact = solution_2d if flat else solution_3d
        test = domain.interior.sample(2000, np.random.default_rng(99), "halton").points
        truth = np.asarray(jax.vmap(exact)(test))
        runs = []
        for seed in seeds:
            begin = time.process_time()
            learned = kp.learn(problem, points, seed=seed)
            error = np.asarray(learned.solution["u"](test)) - truth
            runs.append(
                {
                    "seed": seed,
                    "relative error": float(np.sqrt(np.mean(error**2) / np.mean(truth**2))),
                    "converged": bool(learned.solution.converged),
                    "cpu": time.process_time() - begin,
                }
            )
            print(name, seed, f"{runs[-1]['relative error']:.1e}", runs[-1]["converged"])
        rows = sum(points.values())
        errors = [run["relative error"] for run in runs]
        found[name] = {"rows": rows, "median": float(np.median(errors)), "runs": runs}
    if only is None:
        write("shapes-poisson", {"shapes": found})


def inside() -> None:
    found = {}
    for name, make in SHAPES.items():
        domain = make()
        low, high = domain.bounds.T
        trial = np.random.default_rng(0).uniform(low, high, (1_000_000, len(low)))
        domain.contains(trial[:10])
        begin = time.perf_counter()
        share = float(np.mean(domain.contains(trial)))
        seconds = time.perf_counter() - begin
        exact = domain.volume / float(np.prod(high - low))
        found[name] = {"seconds": seconds, "share": share, "share by its volume": exact}
    write("shapes-inside", {"points": 1_000_000, "shapes": found})


def flux(seeds: range) -> None:
    page = import_module("kernelpde.gallery.pages.two_materials")
    border = page.around.interface(page.disc).sample(500, np.random.default_rng(11), "uniform")
    points, normals = jnp.asarray(border.points), jnp.asarray(border.normals)

    def across(view: Any) -> np.ndarray:
        slopes = jnp.stack([view.d("x")(points), view.d("y")(points)], axis=1)
        return np.asarray(jnp.sum(slopes * normals, axis=1))

    runs = []
    for seed in seeds:
        found = kp.learn(page.problem, page.points, seed=seed, throw=False).solution
        u, v = found["u"], found["v"]
        outer, inner = across(u), page.K * across(v)
        jump = np.asarray(u(points) - v(points))
        runs.append(
            {
                "seed": seed,
                "result": found.result.name,
                "temperature": float(np.abs(jump).max() / np.abs(u(points)).max()),
                "flux": float(np.abs(outer - inner).max() / np.abs(outer).max()),
            }
        )
    medians = {k: float(np.median([run[k] for run in runs])) for k in ("temperature", "flux")}
    write("shapes-flux", {"largest jumps, medians": medians, "runs": runs})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("poisson", "inside", "flux"))
    parser.add_argument("--seeds", default="0:5")
    parser.add_argument("--only", choices=list(SHAPES))
    given = parser.parse_args()
    if given.what == "inside":
        return inside()
    seeds = range(*map(int, given.seeds.split(":")))
    return flux(seeds) if given.what == "flux" else poisson(seeds, given.only)


if __name__ == "__main__":
    main()
