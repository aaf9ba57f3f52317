import jax
import numpy as np

import kernelpde as kp

jax.config.update("jax_enable_x64", True)
x, y = np.loadtxt("decay.csv", delimiter=",", skiprows=1).T

line = kp.Box(x=(0, 2))
problem = kp.Problem(
    kp.Condition("equation", line.interior, lambda x, u, k: u.d("x") + k * u.value**2),
    kp.Condition("start", line["x=0"], lambda x, u: u.value - 1),
    kp.Condition("data", x[:, None], lambda x, u, y: u.value - y, noise=0.01, data={"y": y}),
    fields=[kp.Field("u", 1.0 * kp.Gaussian(0.5)), kp.Parameter("k", mean=1.0, std=2.0)],
)
learned = kp.learn(problem, {"equation": 40, "start": 1})
print("k =", kp.posterior(learned).parameters["k"])
