"""Symmetric positive definite solves that know no kernels and no PDEs."""

from kernelpde.linalg._dense import Dense as Dense
from kernelpde.linalg._dense import DenseFactor as DenseFactor
from kernelpde.linalg._result import LINEAR as LINEAR
