"""Problems: fields, conditions and their linearisation."""

from kernelpde.problem._block import Block as Block
from kernelpde.problem._condition import Condition as Condition
from kernelpde.problem._condition import LearnedNoise as LearnedNoise
from kernelpde.problem._fields import ComplexField as ComplexField
from kernelpde.problem._fields import Field as Field
from kernelpde.problem._fields import Parameter as Parameter
from kernelpde.problem._persistence import kernel_numbers as kernel_numbers
from kernelpde.problem._persistence import load_kernels as load_kernels
from kernelpde.problem._persistence import save_kernels as save_kernels
from kernelpde.problem._persistence import with_kernel_numbers as with_kernel_numbers
from kernelpde.problem._problem import Problem as Problem
from kernelpde.problem._residual import Residual as Residual
from kernelpde.problem._residual import trace_residual as trace_residual
from kernelpde.problem._rows import Rows as Rows
from kernelpde.problem._rows import linearised as linearised
