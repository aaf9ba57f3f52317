"""Solving to an accuracy: points and kernels chosen to reach it."""

from kernelpde.adaptive._accuracy import Accuracy as Accuracy
from kernelpde.adaptive._solve import solve as solve
