"""Parameters as inputs: problems whose unknown numbers are prescribed."""

from copy import copy

from kernelpde.problem._fields import ComplexField, Unknown, original_kernel
from kernelpde.problem._problem import Problem


def parameters_as_inputs(problem: Problem) -> Problem:
    """Return a problem with each `Parameter` as an input of its name, at its prior mean."""
    means = {parameter.name: parameter.mean for parameter in problem.parameters}
    laws = {law.name: law for law in problem.laws}
    complex_names = {real: name for name, real, _ in problem.complex_fields}
    imaginary = {imag for _, _, imag in problem.complex_fields}
    fields: list[Unknown] = []
    for index, field in enumerate(problem.fields):
        if field.name in means or index in imaginary:
            continue
        if field.name in laws:
            law = copy(laws[field.name])
            law.kernel = original_kernel(field)
            fields.append(law)
        elif index in complex_names:
            imaginary_kernel = problem.fields[index + 1].kernel
            fields.append(ComplexField(complex_names[index], field.kernel, imaginary_kernel))
        else:
            fields.append(field)
    inputs = {**problem.inputs, **means}
    return Problem(*problem.conditions, fields=fields, mixing=problem.mixing, inputs=inputs)
