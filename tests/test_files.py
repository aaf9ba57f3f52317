"""Files never lie: what is read back, here or by other programs, is what was written."""

import errno
import json
import multiprocessing
import os
import pickle
import re

import jax.numpy as jnp
import numpy as np
import pandas
import pytest
import spawned
from problems import LINE, boundary_value, observed, regression

import kernelpde as kp
from kernelpde.gallery import coupled, elliptic, schrodinger, source


def equation(x, u):
    return -u.laplacian + u.value**3 - 5.0


def other_equation(x, u):
    return -u.laplacian + u.value**3 - 6.0


def problem(kernel: kp.AbstractKernel, residual=equation) -> kp.Problem:
    return boundary_value(LINE, residual, kernel)


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


def fill_disk(monkeypatch) -> None:
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)


@pytest.mark.parametrize("what", WRITERS)
def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(
    tmp_path, solution, what, monkeypatch
):
    name, write = WRITERS[what]
    write(tmp_path / name, solution)
    before = (tmp_path / name).read_bytes()
    fill_disk(monkeypatch)
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
    fill_disk(monkeypatch)
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


@pytest.fixture(scope="module")
def cube() -> kp.Solution:
    box = kp.Box(x=(0, 1), y=(0, 2), z=(-1, 1))
    problem = boundary_value(box, lambda x, u: u.laplacian - x[0], kp.Gaussian(0.8))
    return kp.solve(problem, {"equation": 60, "boundary": 60}, throw=False)


@pytest.fixture(scope="module")
def disk() -> kp.Solution:
    ball = kp.Ball((0.0, 0.0), 1.0, coordinates=("x", "y"))
    problem = boundary_value(ball, lambda x, u: u.laplacian + 4.0, kp.Gaussian(1.0))
    return kp.solve(problem, {"equation": 80, "boundary": 40}, throw=False)


def test_xarray_holds_the_values(cube):
    dataset = cube.to_xarray(resolution=(3, 4, 5), extra={"twice": lambda p: 2 * cube["u"](p)})
    assert dataset["u"].dims == ("x", "y", "z")
    mesh = np.stack(np.meshgrid(dataset["x"], dataset["y"], dataset["z"], indexing="ij"), axis=-1)
    np.testing.assert_array_equal(dataset["u"], cube["u"](mesh))
    np.testing.assert_array_equal(dataset["twice"], 2 * dataset["u"])


def test_slices_keep_the_coordinate_that_is_fixed(cube):
    frame = cube.to_xarray(resolution=3, at={"z": 0.5}).to_dataframe().reset_index()
    assert len(frame) == 9
    assert (frame["z"] == 0.5).all()
    np.testing.assert_array_equal(frame["u"], cube["u"](frame[["x", "y", "z"]].to_numpy()))


def test_pyvista_of_points(disk):
    points = np.random.default_rng(0).uniform(-0.5, 0.5, (7, 2))
    cloud = disk.to_pyvista(points=points)
    assert cloud.n_cells == 7
    np.testing.assert_array_equal(cloud.points[:, :2], points)
    np.testing.assert_array_equal(cloud["u"], disk["u"](points))


def test_bad_requests_say_what_would_do(disk):
    with pytest.raises(kp.InputError, match=r"shape \(n, 2\)"):
        disk.to_xarray(points=np.zeros((3, 3)))


def test_measurements_of_pandas_are_fitted():
    """A number from a frame whose values come from a solution with it."""
    line = kp.Box(x=(0, 1))
    conditions = (
        kp.Condition("equation", line.interior, lambda x, u, load: -u.laplacian - load),
        kp.Condition("ends", line.boundary, lambda x, u: u.value),
    )
    points = {"equation": 12, "ends": 2}
    exact = kp.Problem(*conditions, fields=[kp.Field("u", kp.Gaussian(0.5))], inputs={"load": 3.0})
    frame = kp.solve(exact, points).to_xarray(resolution=9).to_dataframe().reset_index()
    data = observed(frame[["x"]], frame["u"], 1e-3)
    unknown = kp.Problem(
        *conditions,
        data,
        fields=[kp.Field("u", 1.0 * kp.Gaussian(0.5)), kp.Parameter("load", 1.0, 5.0)],
    )
    assert kp.solve(unknown, points).parameters["load"] == pytest.approx(3.0, abs=1e-2)


def test_missing_measurements_are_refused():
    frame = pandas.DataFrame({"x": [0.1, None, 0.3], "y": [1.0, 2.0, None]})

    def misfit(x, u, y):
        return u.value - y

    with pytest.raises(kp.InputError, match=r"points hold a NaN .* in row 1\. .*dropna"):
        observed(frame[["x"]], frame["y"])
    with pytest.raises(kp.InputError, match=r"data 'y' hold a NaN .*dropna\(subset=\['y'\]\)"):
        observed(frame[["y"]].fillna(0.0), frame["y"])
    whole = frame.dropna(subset=["x", "y"])
    condition = observed(whole[["x"]], whole["y"], whole["x"])
    np.testing.assert_array_equal(condition.data["y"], [1.0])


EXAMPLES = {
    "elliptic": (elliptic, {"equation": 60, "boundary": 24}),
    "two fields": (coupled, None),
    "complex and periodic": (schrodinger, {"equation": 60, "initial": 20}),
    "data and numbers": (source, None),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_solutions_come_back_bit_for_bit(tmp_path, name):
    factory, points = EXAMPLES[name]
    example = factory()
    counts = {k: max(v // 8, 4) for k, v in example.points.items()} if points is None else points
    solution = kp.solve(example.problem, counts, throw=False, max_steps=3)
    kp.save_solution(tmp_path / "u.kpde", solution)
    found = kp.load_solution(tmp_path / "u.kpde", factory().problem)
    some = example.grid[::97]
    for field in example.references:
        np.testing.assert_array_equal(found[field](some), solution[field](some))
    assert repr(found) == repr(solution)
    assert found.history == solution.history
    for ours, theirs in zip(found.point_sets, solution.point_sets, strict=True):
        np.testing.assert_array_equal(ours.points, theirs.points)


def test_what_was_learned_of_noise_is_kept(tmp_path):
    """The posterior of a loaded solution is that of the solution."""
    rng = np.random.default_rng(0)
    where = rng.random((25, 1))
    values = np.sin(3 * where[:, 0]) + 0.05 * rng.standard_normal(25)

    def problem() -> kp.Problem:
        return regression(where, values, kp.LearnedNoise(0.5), 1.0 * kp.Gaussian(0.3))

    learned = kp.learn(problem(), throw=False)
    noise = float(learned.problem.hyperparameters["noise"]["data"])
    assert 0.02 < noise < 0.1
    kp.save_solution(tmp_path / "u.kpde", learned.solution)
    found = kp.load_solution(tmp_path / "u.kpde", problem())
    assert float(found.problem.hyperparameters["noise"]["data"]) == pytest.approx(noise, rel=1e-15)
    some = np.linspace(0, 1, 7)[:, None]
    np.testing.assert_allclose(
        kp.posterior(found)["u"].std(some),
        kp.posterior(learned.solution)["u"].std(some),
        rtol=1e-10,
    )
    kp.save_kernels(tmp_path / "kernels.json", learned.problem)
    again = kp.load_kernels(tmp_path / "kernels.json", problem())
    assert float(again.hyperparameters["noise"]["data"]) == pytest.approx(noise, rel=1e-15)


def test_solutions_of_other_problems_are_refused(tmp_path, cube, disk):
    kp.save_solution(tmp_path / "u.kpde", cube)
    with pytest.raises(kp.InputError, match=r"u\.kpde: holds the coordinates"):
        kp.load_solution(tmp_path / "u.kpde", disk.problem)
    with pytest.raises(kp.InputError, match=r"of shape \(3,\); got shape \(\)"):
        kp.load_solution(
            tmp_path / "u.kpde", cube.problem.with_kernels((kp.Matern(2.5, [1.0, 1.0, 1.0]),))
        )


def test_pyvista_has_the_cells_and_the_values(cube, disk):
    volume = cube.to_pyvista(resolution=(3, 4, 5))
    assert volume.n_points == 60
    assert volume.n_cells == 2 * 3 * 4
    assert volume.volume == pytest.approx(1 * 2 * 2)
    np.testing.assert_allclose(volume["u"], cube["u"](np.asarray(volume.points)), atol=1e-9)
    # Cells that stick out of the disk are left out; what is left is a little smaller.
    flat = disk.to_pyvista(resolution=61)
    assert 0.9 * np.pi < flat.area < np.pi
    assert np.isfinite(flat["u"]).all()
    scattered = cube.to_pyvista(points=[[0.5, 1.0, 0.0], [0.25, 0.5, 0.5]])
    assert scattered.n_cells == 2


def test_xarray_in_memory(disk):
    found = disk.to_xarray(resolution=5, extra={"r": lambda p: np.linalg.norm(p, axis=1)})
    assert found["u"].dims == ("x", "y")
    assert np.isnan(found["u"].values[0, 0])
    middle = found["u"].sel(x=0.0, y=0.0)
    assert float(middle) == pytest.approx(1.0, abs=1e-6)  # u = 1 - x² - y²
    with pytest.raises(kp.InputError, match="to_xarray: expected points, or resolution and at"):
        disk.to_xarray(points=[[0.0, 0.0]], resolution=4)


def cooling(domain, *, rate: float) -> kp.Solution:
    """u = exp(-rate t): what is drawn is known."""
    problem = kp.Problem(
        kp.Condition("equation", domain.interior, lambda x, u: u.d("t") + rate * u.value),
        kp.Condition("initial", domain.initial, lambda x, u: u.value - 1.0),
        fields=[kp.Field("u", kp.Gaussian(2.0))],
    )
    return kp.solve(problem, {"equation": 80, "initial": 30}, throw=False)


def test_animations_hold_the_values_of_each_time(tmp_path):
    from PIL import Image

    flat = cooling(kp.Box(t=(0, 1), x=(0, 1), time="t"), rate=2.0)
    exact = {"u": lambda p: np.exp(-2 * p[:, 0])}
    moving = flat.animate(frames=5, references=exact, resolution=20)
    np.testing.assert_allclose(moving.times, [0, 0.25, 0.5, 0.75, 1])
    for time, values, truth in zip(
        moving.times, moving.fields["u"], moving.references["u"], strict=True
    ):
        np.testing.assert_allclose(values, np.exp(-2 * time), atol=1e-4)
        np.testing.assert_allclose(truth, np.exp(-2 * time), rtol=1e-12)
    with Image.open(moving.save(tmp_path / "u.gif")) as picture:
        assert picture.n_frames == 5
    plane = cooling(kp.Box(t=(0, 1), x=(0, 1), y=(0, 2), time="t"), rate=1.0)
    turning = plane.animate(frames=3, resolution=9)
    assert turning.fields["u"][0].shape == (9, 9)
    assert turning._repr_html_().startswith('<img alt="u" src="data:image/gif;base64,')
    with pytest.raises(kp.InputError, match=r"must end in .gif or .mp4; got 'u.avi'"):
        turning.save(tmp_path / "u.avi")
    with pytest.raises(kp.InputError, match="'t' varies from frame to frame"):
        plane.animate(at={"t": 0.5})
    with pytest.raises(kp.InputError, match="no field 'v'; there are u"):
        plane.animate("v")


def test_what_does_not_move_is_not_animated(disk):
    with pytest.raises(kp.InputError, match="the domain has no time coordinate"):
        disk.animate()


def test_windows_are_exported_as_one():
    domain = kp.Box(t=(0, 1), x=(0, 1), time="t")
    problem = cooling(domain, rate=2.0).problem
    dataset = kp.march(problem, 2, {"equation": 60, "initial": 20}).to_xarray(resolution=5)
    exact = np.exp(-2 * dataset["t"].to_numpy())
    np.testing.assert_allclose(dataset["u"], exact[:, None] * np.ones(5), atol=1e-4)
