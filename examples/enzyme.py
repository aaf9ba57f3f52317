"""Michaelis-Menten kinetics: a posterior that is far from Gaussian.

The equation is u' = -V u / (K + u), with fifteen values of u early in the reaction. The data
determine only a combination of V and K. Their joint density is curved, so the Laplace approximation
is inaccurate, and `sample` reports it. The second part uses the same likelihood with uniform priors
in a numpyro model. Its intervals differ, because the prior determines the directions that the data
do not constrain.
"""

import jax
import numpy as np
import numpyro
from numpyro.distributions import Uniform
from numpyro.infer import MCMC, NUTS

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

SPEED, HALF, NOISE = 1.0, 1.5, 0.02


def values(times):
    """Return u from K log u + u = 1 - V t, by bisection."""
    low, high = np.full_like(times, 1e-9), np.ones_like(times)
    for _ in range(60):
        middle = 0.5 * (low + high)
        is_high = HALF * np.log(middle) + middle > 1 - SPEED * times
        low, high = np.where(is_high, low, middle), np.where(is_high, middle, high)
    return low


rng = np.random.default_rng(0)
times = np.sort(rng.uniform(0, 1.2, 15))
data = values(times) + NOISE * rng.standard_normal(15)

problem = kp.Problem(
    kp.Condition(
        "equation",
        kp.Box(t=(0, 1.2)).interior,
        lambda t, u, speed, half: u.d("t") + speed * u.value / (half + u.value),
    ),
    kp.Condition("start", np.zeros((1, 1)), lambda t, u: u.value - 1.0),
    kp.Condition(
        "data", times[:, None], lambda t, u, y: u.value - y, noise=NOISE, data={"y": data}
    ),
    fields=[
        kp.Field("u", 1.0 * kp.Gaussian(1.0)),
        kp.Parameter("speed", 1.0, 0.7, positive=True),
        kp.Parameter("half", 1.0, 0.7, positive=True),
    ],
)
density = kp.log_density(kp.solve(problem, {"equation": 30}))
samples = kp.sample(density, jax.random.key(0), draws=2500)
print(samples)
figure = samples.plot()


def model():
    """Define uniform priors of both constants and the likelihood of the data."""
    speed = numpyro.sample("speed", Uniform(0.2, 5.0))
    half = numpyro.sample("half", Uniform(0.2, 8.0))
    numpyro.factor("data", density.likelihood({"speed": speed, "half": half}))


chain = MCMC(NUTS(model, dense_mass=True), num_warmup=300, num_samples=700, progress_bar=False)
chain.run(jax.random.key(0))
for name, draws in chain.get_samples().items():
    low, middle, high = np.quantile(np.asarray(draws), [0.025, 0.5, 0.975])
    print(f"numpyro, uniform prior: {name} {middle:.3g} (95%: {low:.3g} to {high:.3g})")
