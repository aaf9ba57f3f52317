"""Posteriors of fields and parameters, posterior sampling, and experimental design.

Section 2 of the paper: the Laplace approximation at a solution is a Gaussian process conditioned on
the linearized conditions. Other packages may import the names below. `condition_on` gives one
conditioned process; `posterior` also integrates over the hyperparameters.
"""

from kernelpde.inference._adaptive import refine as refine
from kernelpde.inference._conditioned import ConditionedGP as ConditionedGP
from kernelpde.inference._conditioned import condition_on as condition_on
from kernelpde.inference._density import LogDensity as LogDensity
from kernelpde.inference._density import log_density as log_density
from kernelpde.inference._design import NextMeasurement as NextMeasurement
from kernelpde.inference._design import next_measurement as next_measurement
from kernelpde.inference._estimate import ParameterEstimate as ParameterEstimate
from kernelpde.inference._hyperparameters import (
    central_composite_design as central_composite_design,
)
from kernelpde.inference._posterior import Posterior as Posterior
from kernelpde.inference._posterior import posterior as posterior
from kernelpde.inference._samples import Samples as Samples
from kernelpde.inference._sampling import SamplingRecord as SamplingRecord
from kernelpde.inference._sampling import sample as sample
from kernelpde.inference._views import PosteriorView as PosteriorView
