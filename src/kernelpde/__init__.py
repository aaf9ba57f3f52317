"""Nonlinear PDEs, PDE systems and inverse problems with Gaussian processes.

Everyday names are here; the rest is in `kernelpde.kernels`, `geometry`, `learning`,
`linear_solvers`, `inference` and `gallery`. A name is imported when it is first used, so that what
needs none of them, such as `kernelpde --help`, does not wait for JAX.
"""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from kernelpde import archive as archive
    from kernelpde import errors as errors
    from kernelpde import gallery as gallery
    from kernelpde import geometry as geometry
    from kernelpde import inference as inference
    from kernelpde import kernels as kernels
    from kernelpde import learning as learning
    from kernelpde import linear_solvers as linear_solvers
    from kernelpde import progress as progress
    from kernelpde import vectors as vectors
    from kernelpde.adaptive import Accuracy as Accuracy
    from kernelpde.adaptive import solve as solve
    from kernelpde.errors import FileError as FileError
    from kernelpde.errors import InputError as InputError
    from kernelpde.errors import KernelPDEError as KernelPDEError
    from kernelpde.errors import PrecisionError as PrecisionError
    from kernelpde.errors import RankError as RankError
    from kernelpde.errors import SolveError as SolveError
    from kernelpde.evolve import Evolution as Evolution
    from kernelpde.evolve import march as march
    from kernelpde.exporting import export as export
    from kernelpde.gauss_newton import RESULTS as RESULTS
    from kernelpde.gauss_newton import Discretization as Discretization
    from kernelpde.gauss_newton import GaussNewton as GaussNewton
    from kernelpde.gauss_newton import LevenbergMarquardt as LevenbergMarquardt
    from kernelpde.gauss_newton import Solution as Solution
    from kernelpde.gauss_newton import discretize as discretize
    from kernelpde.gauss_newton import load_solution as load_solution
    from kernelpde.gauss_newton import save_solution as save_solution
    from kernelpde.geometry import Averages as Averages
    from kernelpde.geometry import Ball as Ball
    from kernelpde.geometry import Box as Box
    from kernelpde.geometry import Extrusion as Extrusion
    from kernelpde.geometry import Implicit as Implicit
    from kernelpde.geometry import Mesh as Mesh
    from kernelpde.geometry import PointCloud as PointCloud
    from kernelpde.geometry import Polygon as Polygon
    from kernelpde.geometry import box_averages as box_averages
    from kernelpde.geometry import line_integrals as line_integrals
    from kernelpde.geometry import read_mesh as read_mesh
    from kernelpde.geometry import region_averages as region_averages
    from kernelpde.geometry import united as united
    from kernelpde.inference import Estimate as Estimate
    from kernelpde.inference import Posterior as Posterior
    from kernelpde.inference import log_density as log_density
    from kernelpde.inference import marginal_posterior as marginal_posterior
    from kernelpde.inference import next_measurement as next_measurement
    from kernelpde.inference import posterior as posterior
    from kernelpde.inference import refine as refine
    from kernelpde.inference import sample as sample
    from kernelpde.kernels import AbstractKernel as AbstractKernel
    from kernelpde.kernels import Bumps as Bumps
    from kernelpde.kernels import Constant as Constant
    from kernelpde.kernels import Function as Function
    from kernelpde.kernels import Gaussian as Gaussian
    from kernelpde.kernels import Gibbs as Gibbs
    from kernelpde.kernels import Matern as Matern
    from kernelpde.kernels import Network as Network
    from kernelpde.kernels import Periodic as Periodic
    from kernelpde.kernels import Polynomial as Polynomial
    from kernelpde.kernels import RationalQuadratic as RationalQuadratic
    from kernelpde.kernels import Warped as Warped
    from kernelpde.kernels import freeze as freeze
    from kernelpde.kernels import hyperparameters as hyperparameters
    from kernelpde.learning import L1 as L1
    from kernelpde.learning import L2 as L2
    from kernelpde.learning import LBFGS as LBFGS
    from kernelpde.learning import HeldOut as HeldOut
    from kernelpde.learning import KFold as KFold
    from kernelpde.learning import Learned as Learned
    from kernelpde.learning import LearningRecord as LearningRecord
    from kernelpde.learning import LeaveOneOutPredictive as LeaveOneOutPredictive
    from kernelpde.learning import LogNormal as LogNormal
    from kernelpde.learning import Optax as Optax
    from kernelpde.learning import Resampled as Resampled
    from kernelpde.learning import learn as learn
    from kernelpde.learning import paper_adam as paper_adam
    from kernelpde.linear_solvers import Automatic as Automatic
    from kernelpde.linear_solvers import Dense as Dense
    from kernelpde.linear_solvers import LowRank as LowRank
    from kernelpde.linear_solvers import Sparse as Sparse
    from kernelpde.problem import ComplexField as ComplexField
    from kernelpde.problem import Condition as Condition
    from kernelpde.problem import Field as Field
    from kernelpde.problem import Law as Law
    from kernelpde.problem import LearnedNoise as LearnedNoise
    from kernelpde.problem import Parameter as Parameter
    from kernelpde.problem import Problem as Problem
    from kernelpde.problem import StudentT as StudentT
    from kernelpde.problem import integral as integral
    from kernelpde.problem import load_kernels as load_kernels
    from kernelpde.problem import save_kernels as save_kernels
    from kernelpde.table import Table as Table
    from kernelpde.table import read_table as read_table

__version__ = _version("kernelpde")

_HOMES = {
    "adaptive": "Accuracy solve",
    "errors": "FileError InputError KernelPDEError PrecisionError RankError SolveError",
    "evolve": "Evolution march",
    "exporting": "export",
    "gauss_newton": (
        "RESULTS Discretization GaussNewton LevenbergMarquardt Solution discretize load_solution "
        "save_solution"
    ),
    "geometry": (
        "Averages Ball Box Extrusion Implicit Mesh PointCloud Polygon box_averages line_integrals "
        "read_mesh region_averages united"
    ),
    "inference": (
        "Estimate Posterior log_density marginal_posterior next_measurement posterior refine sample"
    ),
    "kernels": (
        "AbstractKernel Bumps Constant Function Gaussian Gibbs Matern Network Periodic Polynomial "
        "RationalQuadratic Warped freeze hyperparameters"
    ),
    "learning": (
        "L1 L2 LBFGS HeldOut KFold Learned LearningRecord LeaveOneOutPredictive "
        "LogNormal Optax Resampled learn paper_adam"
    ),
    "linear_solvers": "Automatic Dense LowRank Sparse",
    "problem": (
        "ComplexField Condition Field Law LearnedNoise Parameter Problem StudentT integral "
        "load_kernels save_kernels"
    ),
    "table": "Table read_table",
}
"""Names by the module that defines them, as above."""

_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
_SUBPACKAGES = (
    "archive errors gallery geometry inference kernels learning linear_solvers progress vectors"
).split()
_PUBLIC: list[str] = sorted(("__version__", *_SUBPACKAGES, *_MODULE_OF))

__all__ = _PUBLIC  # pyright: ignore[reportUnsupportedDunderAll]

_MOVED = {
    "RESULT": "RESULTS",
    "LEARNING": "learning.RESULTS",
    "Fresh": "Resampled",
    "Folds": "KFold",
    "Predictive": "LeaveOneOutPredictive",
    "OuterLevenbergMarquardt": "learning.LevenbergMarquardt",
    "OuterGaussNewtonCG": "learning.GaussNewtonCG",
}
"""Names of the first edition; they go with the next release."""


def __getattr__(name: str) -> _Any:
    if name in _MODULE_OF:
        found = getattr(_import_module(f"kernelpde.{_MODULE_OF[name]}"), name)
        globals()[name] = found
        return found
    if name in _SUBPACKAGES:
        return _import_module(f"kernelpde.{name}")
    if name in _MOVED:
        from kernelpde.deprecation import warn_moved

        found = _import_module("kernelpde")
        for part in _MOVED[name].split("."):
            found = getattr(found, part)
        warn_moved(f"kernelpde.{name}", f"kernelpde.{_MOVED[name]}")
        return found
    raise AttributeError(f"module 'kernelpde' has no attribute {name!r}")


def __dir__() -> list[str]:
    return _PUBLIC
