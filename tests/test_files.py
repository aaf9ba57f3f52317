"""Files never lie, failing writes harm nothing, and problems travel between processes."""

import errno
import json
import multiprocessing
import os
import pickle
import re

import jax.numpy as jnp
import numpy as np
import pytest
import spawned

import kernelpde as kp

LINE = kp.Box(x=(0, 1))


def equation(x, u):
    return -u.laplacian + u.value**3 - 5.0


def other_equation(x, u):
    return -u.laplacian + u.value**3 - 6.0


def ends(x, u):
    return u.value


def problem(kernel: kp.AbstractKernel, residual=equation) -> kp.Problem:
    return kp.Problem(
        kp.Condition("equation", LINE.interior, residual),
        kp.Condition("ends", LINE.boundary, ends),
        fields=[kp.Field("u", kernel)],
    )


def bell(x, y):
    return jnp.exp(-jnp.sum((x - y) ** 2) / 0.18)


def wider(x, y):
    return jnp.exp(-jnp.sum((x - y) ** 2) / 0.5)


def wave(x):
    return 0.3 + 0.1 * jnp.sin(x)


KERNELS = {
    "gaussian": kp.Gaussian(0.3),
    "matern": kp.Matern(4.5, 0.3),
    "rougher": kp.Matern(3.5, 0.3),
    "scaled": 2.0 * kp.Gaussian(0.3),
    "held": kp.freeze(kp.Gaussian(0.3)),
    "held elsewhere": kp.freeze(kp.Gaussian(0.4)),
    "half held": kp.freeze(2.0 * kp.Gaussian(0.3), lambda k: k.log_variance),
    "sum": kp.Gaussian(0.3) + kp.Gaussian(0.5),
    "product": kp.Gaussian(0.3) * kp.Gaussian(0.5),
    "function": kp.FunctionKernel(bell),
    "gibbs": kp.Gibbs(wave),
    "bumps": kp.Gibbs(kp.BumpLengthscale(0.3, [(0, 1)], [4])),
    "other bumps": kp.Gibbs(kp.BumpLengthscale(0.3, [(-1, 1)], [4])),
}


@pytest.fixture(scope="module")
def solution() -> kp.Solution:
    return kp.solve(problem(kp.Gaussian(0.3)), {"equation": 12, "ends": 2})


@pytest.mark.parametrize("saved", KERNELS)
def test_kernels_of_another_make_are_refused(tmp_path, saved):
    path = tmp_path / "kernels.json"
    kp.save_kernels(path, problem(KERNELS[saved]))
    for name, kernel in KERNELS.items():
        if name == saved:
            kp.load_kernels(path, problem(kernel))
        else:
            with pytest.raises(kp.InputError, match=r"hyperparameters do not match|other kernels"):
                kp.load_kernels(path, problem(kernel))


@pytest.mark.parametrize(
    ("kernel", "residual", "message"),
    [
        (kp.Matern(4.5, 0.2), equation, "other kernels: .*Gaussian.*; expected .*Matern"),
        (2.0 * kp.Gaussian(0.3), equation, "do not match these kernels"),
        (kp.Gaussian(0.3), other_equation, "equation of condition 'equation' is another one"),
    ],
)
def test_solutions_of_another_problem_are_refused(tmp_path, solution, kernel, residual, message):
    kp.save_solution(tmp_path / "u.kpde", solution)
    with pytest.raises(kp.InputError, match=message):
        kp.load_solution(tmp_path / "u.kpde", problem(kernel, residual))


def test_a_kernel_with_the_same_name_and_another_formula_is_refused(tmp_path):
    def shape(x, y):
        return bell(x, y)

    saved = problem(kp.FunctionKernel(shape))
    kp.save_solution(tmp_path / "u.kpde", kp.solve(saved, {"equation": 12, "ends": 2}))
    assert kp.load_solution(tmp_path / "u.kpde", saved).converged

    def shape(x, y):
        return wider(x, y)

    with pytest.raises(kp.InputError, match="another formula"):
        kp.load_solution(tmp_path / "u.kpde", problem(kp.FunctionKernel(shape)))


def test_no_changed_byte_of_a_kernel_file_changes_a_number(tmp_path):
    path, known = tmp_path / "kernels.json", problem(2.0 * kp.Gaussian(0.3))
    kp.save_kernels(path, known)
    content, rng = path.read_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        changed = bytearray(content)
        changed[rng.integers(len(changed))] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        try:
            found = kp.load_kernels(path, known)
        except kp.InputError:
            refused += 1
        else:
            assert found.hyperparameters == known.hyperparameters
    assert refused > 200


def test_a_kernel_file_edited_by_hand_is_refused(tmp_path):
    path, known = tmp_path / "kernels.json", problem(kp.Gaussian(0.3))
    kp.save_kernels(path, known)
    content = json.loads(path.read_text())
    content["arrays"]["0.log_lengthscale"] += 0.1
    path.write_text(json.dumps(content))
    with pytest.raises(kp.InputError, match="is damaged; its contents do not match"):
        kp.load_kernels(path, known)
    del content["digest"]
    path.write_text(json.dumps(content))
    with pytest.raises(kp.InputError, match="is damaged"):
        kp.load_kernels(path, known)


WRITERS = {
    "solution": ("u.kpde", kp.save_solution),
    "kernels": ("k.json", lambda path, solution: kp.save_kernels(path, solution.problem)),
}


@pytest.mark.parametrize("what", WRITERS)
def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(
    tmp_path, solution, what, monkeypatch
):
    name, write = WRITERS[what]
    write(tmp_path / name, solution)
    before = (tmp_path / name).read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(kp.FileError, match=f"{name}: cannot be written; No space left.*Free"):
        write(tmp_path / name, solution)
    assert (tmp_path / name).read_bytes() == before
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("what", WRITERS)
def test_places_that_cannot_be_written_are_told(tmp_path, solution, what):
    name, write = WRITERS[what]
    (tmp_path / "file").write_text("")
    (tmp_path / name).mkdir()
    with pytest.raises(kp.FileError, match="cannot be written"):
        write(tmp_path / "file" / name, solution)
    with pytest.raises(kp.FileError, match=r"Is a directory.*name another file"):
        write(tmp_path / name, solution)
    write(tmp_path / "new" / "folder" / name, solution)
    assert sorted(os.listdir(tmp_path)) == sorted(["file", name, "new"])
    assert os.listdir(tmp_path / "new" / "folder") == [name]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write all")
def test_a_directory_of_others_is_told(tmp_path, solution):
    os.chmod(tmp_path, 0o500)
    with pytest.raises(kp.FileError, match="Permission denied"):
        kp.save_solution(tmp_path / "u.kpde", solution)


def test_a_file_error_is_an_error_of_the_operating_system(tmp_path, solution):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot be written"):
        kp.save_solution(tmp_path / "file" / "u", solution)


def test_a_run_whose_disk_is_full_keeps_its_last_state(tmp_path, monkeypatch):
    path, known = tmp_path / "run.kpde", problem(kp.Gaussian(0.6))
    method = kp.learning.Bilevel(multistart=False)
    options = {"method": method, "checkpoint": path, "throw": False}
    kp.learn(known, {"equation": 8, "ends": 2}, max_steps=1, **options)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(kp.FileError, match="No space left"):
        kp.learn(known, {"equation": 8, "ends": 2}, max_steps=2, **options)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.kpde"]


@pytest.mark.parametrize(
    "write",
    [
        lambda solution: kp.save_solution("", solution),
        lambda solution: kp.save_solution("u.kpde", solution.problem),
        lambda solution: kp.save_kernels("k.json", solution),
        lambda solution: kp.save_solution("u.kpde", solution, notes={"f": len}),
    ],
)
def test_what_is_no_file_and_no_solution_is_told(tmp_path, monkeypatch, solution, write):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    with pytest.raises(
        kp.InputError, match=r"Expected the name|Solution|Problem|JSON-serializable"
    ):
        write(solution)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", spawned.problems())
def test_problems_come_back_from_a_pickle(name):
    known, points = spawned.problems()[name]
    again = pickle.loads(pickle.dumps(known))
    assert repr(again) == repr(known)
    assert re.sub(r" at 0x\w+", "", str(again.hyperparameters)) == str(known.hyperparameters)
    for one, other in zip(known.collocate(points), again.collocate(points), strict=True):
        np.testing.assert_array_equal(one.points, other.points)
        np.testing.assert_array_equal(one.noise, other.noise)


@pytest.fixture(scope="module")
def elsewhere():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        yield pool


@pytest.mark.parametrize("name", ["regions", "data"])
def test_problems_are_solved_in_a_spawned_process(elsewhere, name):
    known, points = spawned.problems()[name]
    there, seen_there = elsewhere.apply(spawned.solved, (known, points))
    here = kp.solve(known, points, throw=False)
    assert there.result is here.result
    np.testing.assert_allclose(spawned.values(there), seen_there, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(seen_there, spawned.values(here), rtol=1e-6, atol=1e-9)


def test_solutions_are_evaluated_in_a_spawned_process(elsewhere):
    known, points = spawned.problems()["periodic"]
    solution = kp.solve(known, points, throw=False)
    found = elsewhere.apply(spawned.values, (solution,))
    np.testing.assert_allclose(found, spawned.values(solution), rtol=1e-12, atol=1e-14)
