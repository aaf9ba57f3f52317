"""The lid-driven cavity: the Navier-Stokes equations at Re = 100, against a table.

    python benchmarks/cavity.py [--points 400]
    python benchmarks/cavity.py --smooth

    ψ_y Δψ_x - ψ_x Δψ_y = Δ²ψ / Re,    ψ = 0 and ∂ψ/∂n = 0 on the walls,    ψ_y = 1 on the lid

Where lid and walls meet the velocity jumps; Stokes flow in such a corner is known, and `Features`
says that the solution has some multiple of it. Compared with the velocities on the two middle lines
of Ghia, Ghia and Shin (J. Comput. Phys. 48, 1982), as parts of the velocity of the lid. Compiles
for minutes. Writes `results/cavity.json`.

With `--smooth` the page of the gallery, whose lid is at rest where it meets the walls: relative
errors of the velocity with three numbers of points, and by how much the reference differs from a
finer one. Writes `results/cavity-smooth.json`.
"""

import argparse
import time
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
from _report import write

import kernelpde as kp
from kernelpde.gallery._chebyshev import ChebyshevCavity

jax.config.update("jax_enable_x64", True)

Y = np.array([0.0547, 0.1016, 0.2813, 0.4531, 0.5, 0.6172, 0.7344, 0.8516, 0.9531, 0.9766])
U = [-0.03717, -0.06434, -0.15662, -0.2109, -0.20581, -0.13641, 0.00332, 0.23151, 0.68717, 0.84123]
X = np.array([0.0625, 0.0938, 0.1563, 0.2266, 0.2344, 0.5, 0.8047, 0.8594, 0.9063, 0.9453])
V = [0.09233, 0.12317, 0.16077, 0.17507, 0.17527, 0.05454, -0.24533, -0.22445, -0.16914, -0.10313]


def corner(x, y):
    """Stokes flow under a lid y = 1 that leaves a wall x = 0 (Batchelor 1967)."""
    r, angle = jnp.sqrt(x**2 + (1 - y) ** 2), jnp.arctan2(1 - y, x)
    swirl = angle * jnp.cos(angle) + (jnp.pi / 2) * angle * jnp.sin(angle)
    return r * (swirl - jnp.pi**2 / 4 * jnp.sin(angle)) / (jnp.pi**2 / 4 - 1)


def corners(x):
    return corner(x[0], x[1]), corner(1 - x[0], x[1])


def textbook() -> kp.Problem:
    """The page of the gallery, the lid at full speed up to the corners, whose flow is given."""
    page = import_module("kernelpde.gallery.pages.cavity")
    return kp.Problem(
        kp.Condition("vorticity", page.domain.interior, page.vorticity),
        kp.Condition("walls", page.walls, lambda x, psi: (psi.value, psi.normal_derivative)),
        kp.Condition("lid", page.domain.at(y=1), lambda x, psi: (psi.value, psi.d("y") - 1)),
        fields=[kp.Field("psi", kp.Gaussian(0.25) + kp.kernels.Features(corners))],
    )


SMOOTH = ((0.2, 600), (0.15, 900), (0.12, 1400))
"""Lengthscales and numbers of points inside."""


def smooth() -> None:
    page = import_module("kernelpde.gallery.pages.cavity")
    reference, finer = (ChebyshevCavity(page.RE, page.lid, degree) for degree in (32, 40))
    places = page.domain.interior.sample(1500, np.random.default_rng(7), "halton").points
    truth = finer.velocity(places)
    found = []
    for lengthscale, count in SMOOTH:
        begin = time.process_time()
        points = {"vorticity": count, "walls": count // 7, "lid": count // 15}
        kernels = [kp.Gaussian(lengthscale)]
        solution = kp.solve(page.problem.with_kernels(kernels), points, throw=False)
        psi = solution["psi"]
        velocity = np.stack([psi.d("y")(places), -psi.d("x")(places)], axis=1)
        found.append(
            {
                "lengthscale": lengthscale,
                "points": points,
                "result": solution.result.name,
                "error": float(np.linalg.norm(velocity - truth) / np.linalg.norm(truth)),
                "cpu with compilation": time.process_time() - begin,
            }
        )
    differs = np.linalg.norm(reference.velocity(places) - truth) / np.linalg.norm(truth)
    write("cavity-smooth", {"runs": found, "reference against a finer one": float(differs)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=400)
    parser.add_argument("--smooth", action="store_true")
    given = parser.parse_args()
    if given.smooth:
        smooth()
        return
    count = given.points
    begin = time.process_time()
    points = {"vorticity": count, "walls": count // 4, "lid": count // 12}
    solution = kp.solve(textbook(), points, throw=False)
    psi = solution["psi"]
    u = np.asarray(psi.d("y")(np.stack([np.full_like(Y, 0.5), Y], axis=1)))
    v = -np.asarray(psi.d("x")(np.stack([X, np.full_like(X, 0.5)], axis=1)))
    write(
        "cavity",
        {
            "points": points,
            "result": solution.result.name,
            "u at x = 1/2": dict(zip(map(str, Y), u.tolist(), strict=True)),
            "v at y = 1/2": dict(zip(map(str, X), v.tolist(), strict=True)),
            "largest difference of u": float(np.abs(u - U).max()),
            "largest difference of v": float(np.abs(v - V).max()),
            "cpu": time.process_time() - begin,
        },
    )


if __name__ == "__main__":
    main()
