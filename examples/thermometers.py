"""What heats the plate? An unknown source, conductivity and heat loss from temperature readings.

A square plate with a round hole is heated at its left side and by an unknown source inside, and
cooled at the other sides. Its conductivity depends on the temperature: -div(k(T) grad T) = q with
an unknown law k and an unknown field q. The rim of the hole loses heat at an unknown rate h. Two
instruments have measured temperatures at 150 points. Some readings are missing and some are wrong.

The readings come from finite elements (`python -m benchmarks thermometers`) with k = 1 + 0.8 T²,
h = 0.8 and a bump of q at (-0.4, 0.45), so the truth is available for comparison. The estimates of
the law, of h and of the location of the source agree with it within their credible intervals. The
peak of the source is narrower than the learned lengthscale: its estimate is too low, with the truth
outside its interval. Intervals are calibrated on average over points, not at an extreme point.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pandas

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

# Readings without missing values. Instrument B has three times the noise of A.
readings = pandas.read_csv("data/thermometers.csv").dropna(subset=["T"])
sensors, values = readings[["x", "y"]].to_numpy(), readings["T"].to_numpy()
noise = np.where(readings["instrument"] == "A", 0.005, 0.015)

# Domain.
square = kp.Box(x=(-1, 1), y=(-1, 1))
plate = square - kp.Ball((0.2, 0.1), 0.4, coordinates=("x", "y"))
cooled = kp.union([plate[side] for side in square.boundary_patches if side != "x=-1"])


# Equations.
def heat(x, T, k, q):
    conductivity = k(T.value)
    return (
        conductivity.value * T.laplacian + conductivity.d("T") * (T.gradient @ T.gradient) + q.value
    )


def inflow(x, T, k):
    return k(T.value).value * T.normal_derivative - 3.0 * jnp.cos(0.5 * jnp.pi * x[1])


def loss(x, T, k, h):
    return k(T.value).value * T.normal_derivative + h * T.value


problem = kp.Problem(
    kp.Condition("heat", plate.interior, heat),
    kp.Condition("inflow", plate["x=-1"], inflow),
    kp.Condition("cold sides", cooled, lambda x, T: T.value),
    kp.Condition("rim", plate["sphere"], loss),
    kp.Condition(
        "readings", sensors, lambda x, T, y: T.value - y, kp.StudentT(noise), data={"y": values}
    ),
    fields=[
        kp.Field("T", 1.0 * kp.Gaussian(0.5)),
        kp.Field("q", 4.0 * kp.Gaussian(0.4)),
        kp.Law("k", 1.0 * kp.Gaussian(1.0), T=(0.0, 1.6), mean=1.0),
        kp.Parameter("h", 1.0, 0.7, positive=True),
    ],
)
points = {"heat": 350, "inflow": 40, "cold sides": 100, "rim": 50}

# Learning and posterior.
learned = kp.learn(problem, points)
posterior = kp.posterior(learned)
print(posterior)
law = posterior["k"].plot(reference=lambda T: 1 + 0.8 * T**2)


def true_source(x):
    return 3.0 * np.exp(-np.sum((x - np.array([-0.4, 0.45])) ** 2, axis=1) / 0.08)


source = posterior.plot("q", references={"q": true_source})

# Posterior predictive check of the readings.
keys = jax.random.split(jax.random.key(0))
samples = np.asarray(posterior["T"].sample(sensors, keys[0], 400))
predicted = samples + noise * np.asarray(jax.random.normal(keys[1], samples.shape))
low, high = np.quantile(predicted, [0.025, 0.975], axis=0)
inside = (low < values) & (values < high)
for name in ("A", "B"):
    share = np.mean(inside[readings["instrument"] == name])
    print(f"instrument {name}: {share:.0%} of the readings in their 95% interval")
wrong = np.abs(values - predicted.mean(axis=0)) > 4 * predicted.std(axis=0)
print(
    f"{np.sum(wrong)} readings are wrong, by up to {np.max(np.abs(values - samples.mean(0))):.2f}"
)

# The next measurement for the largest reduction of the variance of the source.
grid = np.stack(np.meshgrid(*2 * [np.linspace(-0.9, 0.9, 13)]), axis=-1).reshape(-1, 2)
grid = grid[np.linalg.norm(grid - np.array([0.2, 0.1]), axis=1) > 0.45]
candidates = posterior["T"].functionals(grid)
measurement = kp.next_measurement(posterior, candidates, 0.005, posterior["q"].functionals(grid))
print(
    f"next: at {grid[measurement.best]}, reduces the variance of q by {measurement.gain.max():.1%}"
)
