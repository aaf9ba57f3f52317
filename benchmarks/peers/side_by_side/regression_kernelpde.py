import jax
import numpy as np

import kernelpde as kp

jax.config.update("jax_enable_x64", True)
x, y = np.loadtxt("wave.csv", delimiter=",", skiprows=1).T

noise = kp.LearnedNoise(0.1)
problem = kp.Problem(
    kp.Condition("data", x[:, None], lambda x, u, y: u.value - y, noise=noise, data={"y": y}),
    fields=[kp.Field("u", 1.0 * kp.Gaussian(0.5))],
)
found = kp.posterior(kp.learn(problem, {}))
there = np.array([[0.5]])
print(f"u = {found['u'].mean(there)[0]:.3f} ± {found['u'].std(there)[0]:.3f}")
