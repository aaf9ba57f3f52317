"""Solutions on disk and in other programs' formats, read back by those programs."""

import csv

import numpy as np
import pytest

import kernelpde as kp
from kernelpde.gallery import coupled, elliptic, schrodinger, source


@pytest.fixture(scope="module")
def cube() -> kp.Solution:
    box = kp.Box(x=(0, 1), y=(0, 2), z=(-1, 1))
    problem = kp.Problem(
        kp.Condition("equation", box.interior, lambda x, u: u.laplacian - x[0]),
        kp.Condition("boundary", box.boundary, lambda x, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(0.8))],
    )
    return kp.solve(problem, {"equation": 60, "boundary": 60}, throw=False)


@pytest.fixture(scope="module")
def disk() -> kp.Solution:
    ball = kp.Ball((0.0, 0.0), 1.0, coordinates=("x", "y"))
    problem = kp.Problem(
        kp.Condition("equation", ball.interior, lambda x, u: u.laplacian + 4.0),
        kp.Condition("boundary", ball.boundary, lambda x, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(1.0))],
    )
    return kp.solve(problem, {"equation": 80, "boundary": 40}, throw=False)


def test_npz_and_csv_hold_the_values(tmp_path, cube):
    with np.load(kp.export(cube, tmp_path / "u.npz", resolution=(3, 4, 5))) as found:
        mesh = np.stack(np.meshgrid(found["x"], found["y"], found["z"], indexing="ij"), axis=-1)
        np.testing.assert_array_equal(found["u"], cube["u"](mesh))
    path = kp.export(cube, tmp_path / "u.csv", resolution=3, at={"z": 0.5})
    with open(path, newline="") as file:
        rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    assert len(rows) == 9
    points = np.array([[row["x"], row["y"], row["z"]] for row in rows])
    np.testing.assert_array_equal([row["u"] for row in rows], cube["u"](points))


def test_netcdf_has_named_dimensions(tmp_path, cube):
    xarray = pytest.importorskip("xarray")
    path = kp.export(
        cube, tmp_path / "u.nc", resolution=4, extra={"twice": lambda p: 2 * cube["u"](p)}
    )
    with xarray.open_dataset(path, engine="scipy") as found:
        assert found["u"].dims == ("x", "y", "z")
        there = found["u"].sel(x=1 / 3, y=2 / 3, z=-1 / 3, method="nearest")
        assert float(there) == pytest.approx(
            float(cube["u"](np.array([1 / 3, 2 / 3, -1 / 3]))), abs=1e-11
        )
        np.testing.assert_array_equal(found["twice"], 2 * found["u"])


def test_vtu_of_a_volume_read_by_meshio(tmp_path, cube):
    meshio = pytest.importorskip("meshio")
    found = meshio.read(kp.export(cube, tmp_path / "u.vtu", resolution=4))
    assert {block.type: len(block.data) for block in found.cells} == {"hexahedron": 27}
    np.testing.assert_array_equal(found.point_data["u"], cube["u"](found.points))
    corners = found.points[found.cells[0].data]
    edges = np.stack([corners[:, 1] - corners[:, 0], corners[:, 3] - corners[:, 0]], axis=1)
    volume = np.einsum(
        "ci,ci->c", np.cross(edges[:, 0], edges[:, 1]), corners[:, 4] - corners[:, 0]
    )
    assert volume.sum() == pytest.approx(4.0)
    assert (volume > 0).all()


def test_vtu_leaves_out_what_is_outside(tmp_path, disk):
    meshio = pytest.importorskip("meshio")
    found = meshio.read(kp.export(disk, tmp_path / "u.vtu", resolution=41))
    (block,) = found.cells
    assert block.type == "quad"
    assert np.hypot(*found.points[:, :2].T).max() <= 1
    assert len(block.data) * 0.05**2 == pytest.approx(np.pi, rel=0.1)
    exact = 1 - found.points[:, 0] ** 2 - found.points[:, 1] ** 2
    np.testing.assert_allclose(found.point_data["u"], exact, atol=1e-5)


def test_vtu_of_points(tmp_path, disk):
    meshio = pytest.importorskip("meshio")
    points = np.random.default_rng(0).uniform(-0.5, 0.5, (7, 2))
    found = meshio.read(kp.export(disk, tmp_path / "u.vtu", points=points))
    assert [block.type for block in found.cells] == ["vertex"]
    np.testing.assert_array_equal(found.point_data["u"], disk["u"](points))


def test_bad_requests_say_what_would_do(tmp_path, disk):
    with pytest.raises(kp.InputError, match=r"must end in \.npz, \.csv"):
        kp.export(disk, tmp_path / "u.xlsx")
    with pytest.raises(kp.InputError, match=r"shape \(n, 2\)"):
        kp.export(disk, tmp_path / "u.csv", points=np.zeros((3, 3)))


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
    for ours, theirs in zip(found.blocks, solution.blocks, strict=True):
        np.testing.assert_array_equal(ours.points, theirs.points)


def test_what_was_learned_of_noise_is_kept(tmp_path):
    """The posterior of a loaded solution is that of the solution."""
    rng = np.random.default_rng(0)
    where = rng.random((25, 1))
    values = np.sin(3 * where[:, 0]) + 0.05 * rng.standard_normal(25)

    def problem() -> kp.Problem:
        return kp.Problem(
            kp.Condition(
                "data",
                where,
                lambda x, u, y: u.value - y,
                noise=kp.LearnedNoise(0.5),
                data={"y": values},
            ),
            fields=[kp.Field("u", 1.0 * kp.Gaussian(0.3))],
        )

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
    pytest.importorskip("pyvista")
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
    pytest.importorskip("xarray")
    found = disk.to_xarray(resolution=5, extra={"r": lambda p: np.linalg.norm(p, axis=1)})
    assert found["u"].dims == ("x", "y")
    assert np.isnan(found["u"].values[0, 0])
    middle = found["u"].sel(x=0.0, y=0.0)
    assert float(middle) == pytest.approx(1.0, abs=1e-6)  # u = 1 - x² - y²
    with pytest.raises(kp.InputError, match="to_xarray: give points, or a resolution"):
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
    with pytest.raises(kp.InputError, match="'t' is what moves"):
        plane.animate(at={"t": 0.5})
    with pytest.raises(kp.InputError, match="no field 'v'; there are u"):
        plane.animate("v")


def test_what_does_not_move_is_not_animated(disk):
    with pytest.raises(kp.InputError, match="the domain has no time coordinate"):
        disk.animate()


def test_windows_are_exported_as_one(tmp_path):
    domain = kp.Box(t=(0, 1), x=(0, 1), time="t")
    problem = cooling(domain, rate=2.0).problem
    evolution = kp.march(problem, 2, {"equation": 60, "initial": 20})
    with np.load(kp.export(evolution, tmp_path / "u.npz", resolution=5)) as found:
        exact = np.exp(-2 * found["t"])
        np.testing.assert_allclose(found["u"], exact[:, None] * np.ones(5), atol=1e-4)
    assert evolution.to_xarray(resolution=5)["u"].shape == (5, 5)
