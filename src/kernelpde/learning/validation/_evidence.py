"""Alternative criteria from the literature: the evidence and kernel flows."""

from typing import ClassVar

import numpy as np

from kernelpde.learning._outer import Formula, kernel_flow, marginal_likelihood
from kernelpde.learning._predictive import Predictor, sequential_predictor
from kernelpde.learning.validation._predictive import data_condition_indices
from kernelpde.learning.validation._validation import AbstractValidation
from kernelpde.problem import Problem


class _SystemCriterion(AbstractValidation):
    """A criterion of the system of all rows, without weights of conditions."""

    @property
    def standardized(self) -> bool:
        return True

    @property
    def required_capabilities(self) -> frozenset[str]:
        return frozenset({"folds"})


class Evidence(_SystemCriterion):
    """The evidence (marginal likelihood) of the linearized problem, without validation points.

    With noisy data it is their joint density given the equations and boundary conditions, and the
    noise may be learned too. Without data it is the density of all rows, with the optimal common
    amplitude of the kernels, which does not affect the solution.
    """

    predictor: ClassVar[Predictor] = sequential_predictor

    @property
    def formula(self) -> Formula:
        return marginal_likelihood

    def data_condition_indices(self, problem: Problem) -> tuple[int, ...] | None:
        return data_condition_indices(problem) or None


class KernelFlow(_SystemCriterion):
    """Kernel flows (Owhadi and Yoo 2019): the part of the solution lost without half of the rows.

    The loss is 1 - ‖u_half‖² / ‖u‖² in the RKHS norm, with a new random half in each step. Data are
    treated like all other rows, so their noise must be specified.
    """

    @property
    def is_stochastic(self) -> bool:
        return True

    @property
    def formula(self) -> Formula:
        return kernel_flow

    def folds(self, rows: int, seed: int, step: int) -> tuple[np.ndarray, ...]:
        """Return a single fold, the rows removed in this step."""
        order = np.random.default_rng([seed, 11, step]).permutation(rows)
        return (np.sort(order[: rows // 2]),)
