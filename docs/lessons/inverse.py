# %% [markdown]
# # Lesson 2: find an unknown from noisy readings
#
# A tracer enters a channel, drifts with the stream, spreads and decays:
#
# $$D\,c'' - c' - r\,c = 0, \quad c(0) = 1, \; c(3) = 0.1.$$
#
# The speed of the stream is 1. How strongly it spreads, $D = 0.15$, has been measured in the
# laboratory; how fast it decays, $r$, has not. Thirty wells have been sampled. The file is
# [wells.csv](wells.csv):

# %%
import jax

import kernelpde as kp

jax.config.update("jax_enable_x64", True)

wells = kp.read_table("wells.csv")
print(wells)

# %% [markdown]
# ## The unknown number is part of the problem
#
# `Parameter` declares it, with a prior mean and standard deviation that should be generous. The
# readings are a condition like any other, except that it has `noise`: the standard deviation of one
# reading. Columns are passed as `data`, and the residual takes them by name. Columns of places come
# in the order of the coordinates of the domain: `wells.points("t", "x")` for `Box(t=..., x=...)`.


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
        wells.points("x"),
        lambda x, c, reading: c.value - reading,
        noise=0.02,
        data={"reading": wells["c"]},
    ),
    fields=[kp.Field("c", 1.0 * kp.Gaussian(0.5)), kp.Parameter("r", mean=1.0, std=1.0)],
)

# %% [markdown]
# ## Learn, then ask how much is known
#
# `learn` finds the lengthscale, the concentration and the rate at once. The factor `1.0` in
# `1.0 * kp.Gaussian(0.5)` is the prior variance of the concentration, which is learned as well;
# without it, it is held at 1. `posterior` gives the distribution of everything unknown.

# %%
learned = kp.learn(problem, {"transport": 60, "inlet": 1, "outlet": 1})
known = kp.posterior(learned)
print(known)

# %%
rate = known.parameters["r"]
low, high = rate.interval()
print(f"decay rate {rate.mean:.3f} ± {rate.std:.3f}, 95% between {low:.3f} and {high:.3f}")

# %% [markdown]
# The readings were made with $r = 0.8$. The band in the picture is the 95% interval of the
# concentration.

# %%
figure = known.plot()

# %% [markdown]
# ## Is the noise what we believe?
#
# Chi-squared per datum is the mean square of the misfit in units of the noise: near 1 if the noise
# is right, far above 1 if the model is wrong or the noise larger than stated. With $n$ data it
# scatters by about $\sqrt{2/n}$, here 0.26. If nobody knows the noise, it can be learned:
# `noise=kp.LearnedNoise(0.1)` begins with 0.1. Then chi-squared is near 1 by construction and says
# nothing; compare the noise that was learned with what the instrument should have.

# %%
print(known.chi_squared)
loose = problem.with_conditions(
    [
        kp.Condition(c.name, c.where, c.residual, noise=kp.LearnedNoise(0.1), data=c.data)
        if c.name == "wells"
        else c
        for c in problem.conditions
    ]
)
again = kp.learn(loose, {"transport": 60, "inlet": 1, "outlet": 1})
print({k: v for k, v in again.problem.hyperparameters.items() if k != "c"})

# %% [markdown]
# ## An unknown function instead of a number
#
# A decay rate that differs from place to place is a field, here $r = 1 + s$ with $s$ near zero
# unless the data say otherwise. It needs no data of its own: its kernel is the prior.


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
# Near the outlet there is little tracer left to decay, and the interval is wide: the data do not
# know. [Inverse problems and uncertainty](../inverse.md) goes on with outliers, unknown laws such
# as $k(u)$, sampling, and where to measure next.
