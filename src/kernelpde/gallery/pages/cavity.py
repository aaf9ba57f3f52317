"""A cavity with a smooth moving lid: the stationary Navier-Stokes equations, Re = 100.

    ψ_y Δψ_x - ψ_x Δψ_y = Δ²ψ / Re
    ψ = 0 and ∂ψ/∂n = 0 on the walls,    ψ_y = 16 x² (1 - x)² on the lid

The velocity (ψ_y, -ψ_x) is divergence-free, and the pressure is eliminated. The reference is
Chebyshev collocation. `benchmarks/cavity.py` solves the textbook problem, whose lid velocity is
discontinuous at the corners.
"""

import kernelpde as kp
from kernelpde.gallery import ChebyshevCavity

GROUP = "fluids"
RE = 100.0


def lid(x):
    return 16 * x**2 * (1 - x) ** 2


def vorticity(x, psi):
    dx = psi.d("x", "x", "x") + psi.d("x", "y", "y")
    dy = psi.d("x", "x", "y") + psi.d("y", "y", "y")
    bending = psi.d("x", "x", "x", "x") + 2 * psi.d("x", "x", "y", "y") + psi.d("y", "y", "y", "y")
    return psi.d("y") * dx - psi.d("x") * dy - bending / RE


domain = kp.Box(x=(0, 1), y=(0, 1))
walls = kp.union([domain.side(x=0), domain.side(x=1), domain.side(y=0)])
problem = kp.Problem(
    kp.Condition("vorticity", domain.interior, vorticity),
    kp.Condition("walls", walls, lambda x, psi: (psi.value, psi.normal_derivative)),
    kp.Condition("lid", domain.side(y=1), lambda x, psi: (psi.value, psi.d("y") - lid(x[0]))),
    fields=[kp.Field("psi", kp.Gaussian(0.15))],
)
points = {"vorticity": 900, "walls": 130, "lid": 60}
references = {"psi": ChebyshevCavity(RE, lid)}
small = {"vorticity": 350, "walls": 60, "lid": 30}, 1e-2
