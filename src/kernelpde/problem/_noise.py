"""Kinds of noise other than Gaussian noise of a given standard deviation.

`solution/_outliers.py` solves with Student's t noise by reweighting; `learning` estimates learned
noise.
"""

from dataclasses import dataclass

import numpy as np

from kernelpde.arrays import Numbers
from kernelpde.checking import check_real, require, to_float_array


@dataclass(frozen=True)
class LearnedNoise:
    """A standard deviation of noise that `learn` estimates together with the kernels.

    **Arguments:**

    - `initial`: initial value. `solve` uses it unchanged.

    **Example:**

    ```python
    >>> noise = kp.LearnedNoise(0.1)
    >>> unsure = kp.Condition("data", [[0.5]], lambda x, u: u.value - 0.2, noise=noise)
    ```
    """

    initial: float

    def __post_init__(self):
        check_real("LearnedNoise", "initial", self.initial, greater_than=0)


@dataclass(frozen=True, eq=False)
class StudentT:
    """Student's t noise, for data with outliers. Its tails are heavier than Gaussian.

    **Arguments:**

    - `scale`: approximate standard deviation of data that are not outliers, one number or one per
      point.
    - `df`: degrees of freedom. Fewer degrees of freedom give heavier tails.

    **Example:**

    ```python
    >>> robust = kp.StudentT(0.01)  # as `noise` of a condition with data, some of which are wrong
    ```
    """

    scale: Numbers
    df: float = 4.0

    def __post_init__(self):
        scale = to_float_array("StudentT", "scale", self.scale)
        is_scale = scale.ndim <= 1 and np.isfinite(scale).all() and (scale > 0).all()
        expected = "positive, one number or one per point"
        require(bool(is_scale), "StudentT", "scale", expected, self.scale)
        object.__setattr__(self, "scale", scale)
        check_real("StudentT", "df", self.df, greater_than=0)
