"""Locating a leak: an unknown source from noisy sensors, with credible intervals.

The concentration satisfies -Δu = s with an unknown source s, and 40 sensors measure u with noise.
The source is an additional field. `learn` learns the kernels of both fields from the readings, and
`posterior` computes the uncertainty of the source.
"""

import jax
import numpy as np

import kernelpde as kp

jax.config.update("jax_enable_x64", True)


def true_source(points):
    return 20 * np.exp(-np.sum((points - [0.65, 0.4]) ** 2, axis=1) / 0.02)


def series(source, points, modes=40):
    """Return the solution of -Δu = s with u = 0 on the boundary, by its sine series."""
    midpoints = (np.arange(100) + 0.5) / 100
    k = np.arange(1, modes + 1)
    sines = np.sin(np.pi * k[:, None] * midpoints)
    mesh = np.stack(np.meshgrid(midpoints, midpoints, indexing="ij"), axis=-1).reshape(-1, 2)
    load = 4 * sines @ source(mesh).reshape(100, 100) @ sines.T / 100**2
    coefficients = load / (np.pi**2 * (k[:, None] ** 2 + k[None, :] ** 2))
    factors = [np.sin(np.pi * k * points[:, i : i + 1]) for i in range(2)]
    return np.einsum("ni,ij,nj->n", factors[0], coefficients, factors[1])


def reading(x, u, y):
    return u.value - y


rng = np.random.default_rng(0)
sensors = rng.uniform(0.05, 0.95, (40, 2))
truth = series(true_source, sensors)
noise = 0.002
readings = truth + noise * rng.standard_normal(len(sensors))

room = kp.Box(x=(0, 1), y=(0, 1))
problem = kp.Problem(
    kp.Condition("equation", room.interior, lambda x, u, s: -u.laplacian - s.value),
    kp.Condition("walls", room.boundary, lambda x, u: u.value),
    kp.Condition("sensors", sensors, reading, noise=noise, data={"y": readings}),
    fields=[kp.Field("u", 1.0 * kp.Gaussian(0.3)), kp.Field("s", 25.0 * kp.Gaussian(0.2))],
)
learned = kp.learn(problem, {"equation": 250, "walls": 80})
print(learned)
posterior = kp.posterior(learned.solution)
figure = posterior.plot(references={"s": true_source}, resolution=61)
