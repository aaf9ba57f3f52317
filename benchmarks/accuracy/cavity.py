"""The lid-driven cavity: the Navier-Stokes equations at Re = 100, against a table.

    ψ_y Δψ_x - ψ_x Δψ_y = Δ²ψ / Re,    ψ = 0 and ∂ψ/∂n = 0 on the walls,    ψ_y = 1 on the lid

Where lid and walls meet the velocity jumps; Stokes flow in such a corner is known, and
`FeatureKernel` contributes some multiple of it. Compared with the velocities on the two middle
lines of Ghia, Ghia and Shin (J. Comput. Phys. 48, 1982), relative to the velocity of the lid.
Compiles for minutes. The page of the gallery has a lid that is at rest where it meets the walls.
"""

import time
from importlib import import_module

import jax.numpy as jnp
import numpy as np

import kernelpde as kp
from benchmarks._report import parser, record

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
        kp.Condition("lid", page.domain.side(y=1), lambda x, psi: (psi.value, psi.d("y") - 1)),
        fields=[kp.Field("psi", kp.Gaussian(0.25) + kp.kernels.FeatureKernel(corners))],
    )


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("--points", type=int, default=400)
    count = command.parse_args(arguments).points
    begin = time.process_time()
    points = {"vorticity": count, "walls": count // 4, "lid": count // 12}
    solution = kp.solve(textbook(), points, throw=False)
    psi = solution["psi"]
    u = np.asarray(psi.d("y")(np.stack([np.full_like(Y, 0.5), Y], axis=1)))
    v = -np.asarray(psi.d("x")(np.stack([X, np.full_like(X, 0.5)], axis=1)))
    record(
        "cavity",
        {
            "case": "textbook",
            "points": points,
            "result": solution.result.name,
            "largest difference of u": np.abs(u - U).max(),
            "largest difference of v": np.abs(v - V).max(),
            "CPU seconds": time.process_time() - begin,
        },
    )
