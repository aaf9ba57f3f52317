"""Parameters as inputs: problems whose unknown numbers are prescribed."""

from copy import copy

from kernelpde.problem._fields import ComplexField, Parameter, Unknown, original_kernel
from kernelpde.problem._problem import Problem


def declared_unknowns(problem: Problem) -> list[Unknown]:
    """Return the unknowns of a problem with their present kernels, as passed to `Problem`."""
    parameters = {parameter.name: parameter for parameter in problem.parameters}
    laws = {law.name: law for law in problem.laws}
    complex_names = {real: name for name, real, _ in problem.complex_fields}
    imaginary = {imag for _, _, imag in problem.complex_fields}
    unknowns: list[Unknown] = []
    for index, field in enumerate(problem.fields):
        if index in imaginary:
            continue
        if field.name in parameters:
            unknowns.append(parameters[field.name])
        elif field.name in laws:
            law = copy(laws[field.name])
            law.kernel = original_kernel(field)
            unknowns.append(law)
        elif index in complex_names:
            imaginary_kernel = problem.fields[index + 1].kernel
            unknowns.append(ComplexField(complex_names[index], field.kernel, imaginary_kernel))
        else:
            unknowns.append(field)
    return unknowns


def parameters_as_inputs(problem: Problem) -> Problem:
    """Return a problem with each `Parameter` as an input of its name, at its prior mean."""
    means = {parameter.name: parameter.mean for parameter in problem.parameters}
    fields = [
        unknown for unknown in declared_unknowns(problem) if not isinstance(unknown, Parameter)
    ]
    inputs = {**problem.inputs, **means}
    return Problem(*problem.conditions, fields=fields, mixing=problem.mixing, inputs=inputs)
