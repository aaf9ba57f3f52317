"""kernelpde, without options: `learn`, or `march` where the page of the gallery has windows.

Other settings are relative accuracies asked of `solve`, which chooses points and lengthscales.
"""

from typing import Any

import kernelpde as kp
from kernelpde.gallery import Example

SETTINGS = ("default", "accuracy 1e-3", "accuracy 1e-5", "accuracy 1e-7")


def solved(example: Example, setting: str, seed: int) -> Any:
    if setting != "default":
        asked = float(setting.removeprefix("accuracy "))
        return kp.solve(example.problem, accuracy=asked, seed=seed, throw=False)
    if example.num_windows > 1:
        return kp.march(
            example.problem, example.num_windows, example.points, seed=seed, throw=False
        )
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
