"""Measurements behind the figures of the documentation: `python -m benchmarks`."""
