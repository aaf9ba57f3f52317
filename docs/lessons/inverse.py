# %% [markdown]
# # Lesson 2: estimate an unknown from noisy readings
#
# A tracer enters a channel, drifts with the stream, spreads and decays:
#
# $$D\,c'' - c' - r\,c = 0, \quad c(0) = 1, \; c(3) = 0.1.$$
#
# The speed of the stream is 1. The diffusion coefficient $D = 0.15$ has been measured in the
# laboratory, but the decay rate $r$ is unknown. Concentrations were sampled in thirty wells. The
# file is [wells.csv](wells.csv):

# %%
import jax
import pandas

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

wells = pandas.read_csv("wells.csv").dropna()
print(wells.describe().round(3))

# %% [markdown]
# ## The unknown number is part of the problem
#
# `Parameter` declares the unknown number, with a prior mean and standard deviation. Use a wide
# prior. The readings are a condition with `noise`, the standard deviation of one reading. Pass
# columns as `data`; the residual receives them by name. Columns of points are in the order of the
# coordinates of the domain: `wells[["t", "x"]]` for `Box(t=..., x=...)`.


# %%
def transport(x, c, r):
    return 0.15 * c.d("x", "x") - c.d("x") - r * c.value


channel = kp.Box(x=(0, 3))
problem = kp.Problem(
    kp.Condition("transport", channel.interior, transport),
    kp.Condition("inlet", channel["x=0"], lambda x, c: c.value - 1.0),
    kp.Condition("outlet", channel["x=3"], lambda x, c: c.value - 0.1),
    kp.Condition(
        "wells",
        wells[["x"]],
        lambda x, c, reading: c.value - reading,
        noise=0.02,
        data={"reading": wells["c"]},
    ),
    fields=[kp.Field("c", 1.0 * kp.Gaussian(0.5)), kp.Parameter("r", mean=1.0, std=1.0)],
)

# %% [markdown]
# ## Learn, then compute the posterior
#
# `learn` estimates the lengthscale, the concentration and the rate together. The factor `1.0` in
# `1.0 * kp.Gaussian(0.5)` is the prior variance of the concentration, which is also learned.
# Without the factor it is fixed at 1. `posterior` computes the distribution of all unknowns.

# %%
learned = kp.learn(problem, {"transport": 60, "inlet": 1, "outlet": 1})
posterior = kp.posterior(learned)
print(posterior)

# %%
rate = posterior.parameters["r"]
low, high = rate.interval()
print(f"decay rate {rate.mean:.3f} ± {rate.std:.3f}, 95% between {low:.3f} and {high:.3f}")

# %% [markdown]
# The readings were generated with $r = 0.8$. The band in the plot is the 95% interval of the
# concentration.

# %%
figure = posterior.plot()

# %% [markdown]
# ## Check the noise level
#
# Chi-squared per datum is the mean square of the misfit in units of the noise. It is near 1 if the
# noise level is right, and far above 1 if the model is wrong or the noise larger than specified.
# Its standard deviation for $n$ data is about $\sqrt{2/n}$, here 0.26. If the noise level is
# unknown, learn it: `noise=kp.LearnedNoise(0.1)` starts at 0.1. Chi-squared is then near 1 by
# construction and uninformative. Compare the learned noise with the specification of the instrument
# instead.

# %%
print(posterior.chi_squared)
relaxed = problem.with_conditions(
    [
        kp.Condition(c.name, c.region, c.residual, noise=kp.LearnedNoise(0.1), data=c.data)
        if c.name == "wells"
        else c
        for c in problem.conditions
    ]
)
relaxed_result = kp.learn(relaxed, {"transport": 60, "inlet": 1, "outlet": 1})
print({k: v for k, v in relaxed_result.problem.hyperparameters.items() if k != "c"})

# %% [markdown]
# ## An unknown function instead of a number
#
# A spatially varying decay rate is a field, here $r = 1 + s$ with a prior mean of zero for $s$. It
# needs no additional data: its kernel is the prior.


# %%
def varying_transport(x, c, s):
    return 0.15 * c.d("x", "x") - c.d("x") - (1 + s.value) * c.value


varying = kp.Problem(
    kp.Condition("transport", channel.interior, varying_transport),
    *problem.conditions[1:],
    fields=[kp.Field("c", 1.0 * kp.Gaussian(0.5)), kp.Field("s", 1.0 * kp.Gaussian(1.0))],
)
field = kp.posterior(kp.learn(varying, {"transport": 60, "inlet": 1, "outlet": 1}))
for x in (0.5, 1.5, 2.5):
    s, spread = (float(f([[x]])[0]) for f in (field["s"].mean, field["s"].std))
    print(f"r({x}) = {1 + s:.2f} ± {spread:.2f}")

# %% [markdown]
# Near the outlet little tracer is left, so the data are uninformative and the interval is wide. The
# page [Inverse problems and uncertainty quantification](../inverse.md) explains outliers, unknown
# laws such as $k(u)$, sampling, and the choice of the next measurement.
