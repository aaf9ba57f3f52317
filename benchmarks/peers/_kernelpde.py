"""kernelpde, without options: `learn`, or `march` where the page of the gallery has windows."""

from typing import Any

import kernelpde as kp
from kernelpde.gallery import Example

SETTINGS = ("default",)


def solved(example: Example, setting: str, seed: int) -> Any:
    del setting
    if example.windows > 1:
        return kp.march(example.problem, example.windows, example.points, seed=seed, throw=False)
    points = dict(example.training)
    learned = kp.learn(
        example.problem,
        points,
        seed=seed,
        sampling=example.sampling,
        method=kp.learning.Bilevel(final=kp.learning.FinalSolve(dict(example.points)))
        if points != dict(example.points)
        else kp.learning.Bilevel(),
        throw=False,
    )
    return learned.solution


def values(example: Example, found: Any, field: str, points: Any) -> Any:
    del example
    return found[field](points)
