"""Symmetric positive definite solves that know no kernels and no PDEs."""

from kernelpde.linalg._cholesky import cholesky as cholesky
from kernelpde.linalg._cholesky import solve_half as solve_half
from kernelpde.linalg._cholesky import solve_with as solve_with
from kernelpde.linalg._dense import Dense as Dense
from kernelpde.linalg._dense import DenseFactor as DenseFactor
from kernelpde.linalg._dense import check_nuggets as check_nuggets
from kernelpde.linalg._result import LINEAR as LINEAR
