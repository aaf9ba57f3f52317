"""Small inner problems: kernel regression, and a network whose last layer is the inner variable."""

from kernelpde.bilevel.problems._dense import (
    AbstractDenseLinearized as AbstractDenseLinearized,
)
from kernelpde.bilevel.problems._dense import AbstractDenseProblem as AbstractDenseProblem
from kernelpde.bilevel.problems._network import HeldOutResidual as HeldOutResidual
from kernelpde.bilevel.problems._network import Network as Network
from kernelpde.bilevel.problems._regression import CrossValidation as CrossValidation
from kernelpde.bilevel.problems._regression import KernelRegression as KernelRegression
