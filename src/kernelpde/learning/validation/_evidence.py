"""Criteria that others learn kernels by: the evidence, and kernel flows."""

import numpy as np

from kernelpde.learning._outer import Judge, evidence, kernel_flow
from kernelpde.learning._predictive import Predictions, each_in_turn
from kernelpde.learning.validation._plan import AbstractValidation
from kernelpde.learning.validation._predictive import data_conditions
from kernelpde.problem import Problem


class _OfAllRows(AbstractValidation):
    """Judges by the inverse of the system of all rows, in which no condition has a weight."""

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"folds"})

    @property
    def standardized(self) -> bool:
        return True


class Evidence(_OfAllRows):
    """The evidence (marginal likelihood) of the linearized problem, without validation points.

    With noisy data it is the density of all of them at once given equations and boundary
    conditions; noise may be learned as well. Without data it is that of all rows, and the common
    amplitude of the kernels, on which the solution does not depend, is the best one.
    """

    @property
    def judge(self) -> Judge:
        return evidence

    @property
    def predictions(self) -> Predictions:
        return each_in_turn

    def data_of(self, problem: Problem) -> tuple[int, ...] | None:
        numbers = tuple(problem.condition_index(name) for name in data_conditions(problem))
        return tuple(sorted(numbers)) or None


class KernelFlow(_OfAllRows):
    """Kernel flows (Owhadi and Yoo 2019): the part of the solution that half of the rows miss.

    The loss is 1 - ‖u_half‖² / ‖u‖² in the norm of the kernel, for another random half in each
    step. Data are treated like all other rows: their noise has to be given.
    """

    @property
    def changes(self) -> bool:
        return True

    @property
    def judge(self) -> Judge:
        return kernel_flow

    def folds(self, rows: int, seed: int, step: int) -> tuple[np.ndarray, ...]:
        """One: the half that is left out in this step."""
        order = np.random.default_rng([seed, 11, step]).permutation(rows)
        return (np.sort(order[: rows // 2]),)
