"""Kinks, layers and fronts in adaptive boxes: errors, estimates and cost.

    python -m benchmarks layers [--cases eikonal "convection 0.005" ...] [--rows 2100] [--seeds 0:10]

Each seed displaces points and kernels by up to a fifth of their boxes. Errors are absolute, on a
grid of 97 x 97 points; all fields have values of about 1, the eikonal equation up to 0.5. Estimates
are divided by true errors. `reached` are the targets at which a solve with the same limit would
have stopped although its true error is larger. CPU times include no compilation.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

import kernelpde as kp
from benchmarks import _report
from benchmarks._report import parser, record, seeds
from kernelpde.boxes import BoxLevel, solve_in_boxes
from kernelpde.gallery._chebyshev import differentiation_matrix
