"""A problem whose unknown numbers are given instead."""

from copy import copy

from kernelpde.problem._fields import ComplexField, Unknown, kernel_of
from kernelpde.problem._problem import Problem


def numbers_given(problem: Problem) -> Problem:
    """The same problem with each `Parameter` as an input of its name, at its prior mean."""
    pairs = {number: name for name, *parts in problem.complex_fields for number in parts}
    laws = {law.name: law for law in problem.laws}
    numbers = {parameter.name: parameter.mean for parameter in problem.parameters}
    fields: list[Unknown] = []
    for number, field in enumerate(problem.fields):
        if field.name in numbers:
            continue
        if field.name in laws:
            law = copy(laws[field.name])
            law.kernel = kernel_of(field)
            fields.append(law)
        elif number not in pairs:
            fields.append(field)
        elif field.name.endswith("_real"):
            kernels = (field.kernel, problem.fields[number + 1].kernel)
            fields.append(ComplexField(pairs[number], *kernels))
    inputs = {**problem.inputs, **numbers}
    return Problem(*problem.conditions, fields=fields, mixing=problem.mixing, inputs=inputs)
