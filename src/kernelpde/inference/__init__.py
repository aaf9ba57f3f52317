"""What is known of the unknowns, and how far: posteriors, and where to look next."""

from kernelpde.inference._adaptive import refine as refine
from kernelpde.inference._conditioned import Conditioned as Conditioned
from kernelpde.inference._conditioned import conditioned as conditioned
from kernelpde.inference._density import LogDensity as LogDensity
from kernelpde.inference._density import log_density as log_density
from kernelpde.inference._design import Choice as Choice
from kernelpde.inference._design import next_measurement as next_measurement
from kernelpde.inference._earlier import marginal_posterior as marginal_posterior
from kernelpde.inference._posterior import Estimate as Estimate
from kernelpde.inference._posterior import Posterior as Posterior
from kernelpde.inference._posterior import PosteriorView as PosteriorView
from kernelpde.inference._posterior import posterior as posterior
from kernelpde.inference._samples import Samples as Samples
from kernelpde.inference._sampling import SamplingRecord as SamplingRecord
from kernelpde.inference._sampling import sample as sample
