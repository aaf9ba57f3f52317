"""Points are inside, normals point outwards, measures add up: for every kind of domain."""

import gmsh
import jax.numpy as jnp
import meshio
import numpy as np
import pytest
from problems import boundary_value
from scipy.spatial import Delaunay
from scipy.stats import qmc

import kernelpde as kp
from kernelpde.geometry import METHODS, reentrant_corners, union, unit_points

L_SHAPE = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
HOLE = [(0.2, 0.2), (0.2, 0.6), (0.6, 0.6), (0.6, 0.2)]


def rng(seed=0):
    return np.random.default_rng(seed)


def flower(x, y):
    return jnp.sqrt(x**2 + y**2) - 1 - 0.3 * jnp.cos(5 * jnp.arctan2(y, x))


FLOWER = kp.Implicit(flower, x=(-1.5, 1.5), y=(-1.5, 1.5))
ELLIPSOID = kp.Implicit(
    lambda x, y, z: x**2 + y**2 + 4 * z**2 - 1, x=(-1.2, 1.2), y=(-1.2, 1.2), z=(-1, 1)
)


def disc_mesh(rings=12):
    angle = np.linspace(0, 2 * np.pi, 6 * rings, endpoint=False)
    radius = np.linspace(0.2, 1, rings)
    points = np.concatenate(
        [np.zeros((1, 2)), *(r * np.stack([np.cos(angle), np.sin(angle)], 1) for r in radius)]
    )
    return points, Delaunay(points).simplices


def sphere(levels=5):
    """An icosahedron whose triangles are divided so many times: 20 · 4^levels of them."""
    phi = (1 + 5**0.5) / 2
    points = np.array([(0, a, b * phi) for a in (-1, 1) for b in (-1, 1)], dtype=float)
    points = np.concatenate([np.roll(points, shift, axis=1) for shift in range(3)])
    points /= np.linalg.norm(points[0])
    from scipy.spatial import ConvexHull

    corners = points[ConvexHull(points).simplices]
    for _ in range(levels):
        a, b, c = np.moveaxis(corners, 1, 0)
        ab, bc, ca = (m / np.linalg.norm(m, axis=1, keepdims=True) for m in (a + b, b + c, c + a))
        parts = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        corners = np.concatenate([np.stack(part, axis=1) for part in parts])
    outward = np.sum(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]) * corners[:, 0], 1
    )
    corners[outward < 0] = corners[outward < 0][:, ::-1]
    return corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3)


SQUARE = kp.Box(x=(-1, 2), y=(0, 1))
BALL = kp.Ball((0.5, 0.5), 0.4)
DOMAINS = {
    "box-1d": kp.Box(x=(0, 3)),
    "box-2d": SQUARE,
    "box-3d": kp.Box(x=(0, 1), y=(0, 2), z=(0, 3)),
    "disc": BALL,
    "ball-3d": kp.Ball((0, 0, 1), 2.0),
    "ball-5d": kp.Ball(np.zeros(5), 1.5),
    "intersection": SQUARE & kp.Ball((0, 0), 0.8),
    "union": SQUARE | kp.Ball((2, 0.5), 0.4),
    "difference": SQUARE - BALL,
}
SHAPES = {
    "polygon": kp.Polygon(L_SHAPE, holes=[HOLE]),
    "flower": FLOWER,
    "ellipsoid": ELLIPSOID,
    "disc of triangles": kp.Mesh(*disc_mesh()),
    "sphere of triangles": kp.Mesh(*sphere(2)),
    "triangles less ball": kp.Mesh(*disc_mesh()) - kp.Ball((0.1, 0.0), 0.3),
    "triangles that last": kp.Extrusion(kp.Mesh(*disc_mesh()), t=(1, 3)),
    "polygon less ball": kp.Polygon(L_SHAPE) - kp.Ball((0.5, 0.5), 0.3),
    "flower and box": FLOWER & kp.Box(x=(0, 2), y=(-2, 2)),
    "polygon that lasts": kp.Extrusion(kp.Polygon(L_SHAPE), t=(1, 3)),
}


@pytest.mark.parametrize("name", DOMAINS | SHAPES)
@pytest.mark.parametrize("method", ["uniform", "halton", "poisson"])
def test_points_and_normals(name, method):
    domain = (DOMAINS | SHAPES)[name]
    inside = domain.interior.sample(200, rng(), method)
    assert inside.points.shape == (200, len(domain.space.coordinates))
    assert (domain.signed_distance(inside.points) < 0).all()
    assert domain.contains(inside.points).all()
    assert inside.normals is None
    edge = domain.boundary.sample(2 if name == "box-1d" else 150, rng(), method)
    # The boundary of a mesh is curved, and what it encloses is made of flat facets.
    exact = 1e-14 if name in DOMAINS else 1e-11
    atol, away = max(exact, 1.01 * domain.faceting_error), max(1e-6, 2.1 * domain.faceting_error)
    np.testing.assert_allclose(domain.signed_distance(edge.points), 0.0, atol=atol)
    np.testing.assert_allclose(np.linalg.norm(edge.normals, axis=1), 1.0, rtol=1e-13)
    assert (domain.signed_distance(edge.points + away * edge.normals) > 0).all()
    assert (domain.signed_distance(edge.points - away * edge.normals) < 0).all()


def test_measures_of_polygons_are_exact():
    domain = kp.Polygon(L_SHAPE[::-1], holes=[HOLE])
    assert domain.volume == pytest.approx(3 - 0.16, rel=1e-14)
    assert domain.surface_area == pytest.approx(8 + 1.6, rel=1e-14)
    assert kp.Extrusion(domain, t=(0, 0.5)).volume == pytest.approx(0.5 * 2.84, rel=1e-14)


def test_measures_of_implicit_shapes_converge_with_order_two():
    angle = np.linspace(0, 2 * np.pi, 200_001)[:-1]
    r, slope = 1 + 0.3 * np.cos(5 * angle), -1.5 * np.sin(5 * angle)
    area, length = np.pi * np.mean(r**2), 2 * np.pi * np.mean(np.hypot(r, slope))
    errors = []
    for cells in (64, 256):
        shape = kp.Implicit(flower, resolution=cells, x=(-1.5, 1.5), y=(-1.5, 1.5))
        errors.append([abs(shape.volume / area - 1), abs(shape.surface_area / length - 1)])
    assert (np.array(errors[0]) / errors[1] > 10).all()
    assert max(errors[1]) < 5e-5
    # Normals are those of the curve, not of its facets.
    points, normals, _ = FLOWER.boundary.sample(100, rng())
    theta = np.arctan2(points[:, 1], points[:, 0])
    r, slope = 1 + 0.3 * np.cos(5 * theta), -1.5 * np.sin(5 * theta)
    along = np.stack(
        [slope * np.cos(theta) - r * np.sin(theta), slope * np.sin(theta) + r * np.cos(theta)], 1
    )
    assert np.abs(np.sum(along * normals, axis=1)).max() < 1e-12


def test_measures_of_an_ellipsoid():
    # Oblate, a = 1 and c = 1/2: 2 pi (1 + c^2 artanh(e) / e) with e^2 = 1 - c^2.
    e = np.sqrt(0.75)
    assert ELLIPSOID.volume == pytest.approx(2 * np.pi / 3, rel=1e-3)
    exact = 2 * np.pi * (1 + 0.25 * np.arctanh(e) / e)
    assert ELLIPSOID.surface_area == pytest.approx(exact, rel=1e-3)


def test_a_function_of_numpy_is_differentiated_by_differences():
    def plain(x, y):
        return np.hypot(np.asarray(x), np.asarray(y)) - 1

    disc = kp.Implicit(plain, x=(-1.5, 1.5), y=(-1.5, 1.5))
    points, normals, _ = disc.boundary.sample(50, rng())
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(normals, points, atol=1e-9)


def test_points_on_a_surface_are_even():
    # Halves of an ellipsoid of equal area have equal numbers of points.
    points = ELLIPSOID.boundary.sample(4000, rng(), "halton").points
    for axis in range(3):
        assert np.mean(points[:, axis] > 0) == pytest.approx(0.5, abs=0.01)


def test_corners_of_polygons_are_known():
    domain = kp.Polygon(L_SHAPE, holes=[HOLE])
    found = reentrant_corners([domain.interior, domain.boundary])
    assert sorted(map(tuple, found.round(9).tolist())) == sorted([(1.0, 1.0), *map(tuple, HOLE)])
    mesh = SHAPES["disc of triangles"]
    assert not len(reentrant_corners([mesh.interior, mesh.boundary]))


def test_names_of_edges():
    names = ["wall", "outlet", "wall", "wall", "wall", "inlet"]
    domain = kp.Polygon(L_SHAPE, holes=[HOLE], names=names)
    assert list(domain.boundary_patches) == ["wall", "outlet", "inlet", "hole 1"]
    assert domain["inlet"].full_measure == 2.0
    points, normals, _ = domain["outlet"].sample(5, rng())
    assert (points[:, 0] == 2).all()
    assert (normals == [1, 0]).all()
    assert domain.edge(5).full_measure == 2.0
    assert repr(domain) == "Polygon(6 vertices, 1 hole)"


def test_a_moving_shape():
    # The front x = 1 + t / 2.
    shape = kp.Implicit(lambda t, x: x - 1 - 0.5 * t, time="t", t=(0, 1), x=(0, 2))
    assert set(shape.boundary_patches) == {"surface", "x=0"}
    points, normals, _ = shape["surface"].sample(40, rng())
    np.testing.assert_allclose(points[:, 1], 1 + 0.5 * points[:, 0], rtol=1e-13)
    np.testing.assert_array_equal(normals, np.tile([0.0, 1.0], (40, 1)))
    assert shape.initial.sample(50, rng()).points[:, 1].max() < 1
    late = shape["surface"].restrict_time(0.5, 1.0).sample(40, rng()).points
    assert late[:, 0].min() > 0.5
    np.testing.assert_allclose(late[:, 1], 1 + 0.5 * late[:, 0], rtol=1e-13)


def test_a_shape_that_lasts():
    domain = SHAPES["polygon that lasts"]
    assert domain.space.time == "t"
    points, normals, _ = domain.initial.sample(20, rng())
    assert (points[:, 0] == 1).all()
    assert (normals == [-1, 0, 0]).all()
    assert domain.boundary.sample(50, rng()).normals[:, 0].max() == 0
    half = domain.boundary.restrict_time(2, 3).sample(50, rng()).points
    assert half[:, 0].min() > 2


def test_insides_of_a_sphere_of_twenty_thousand_triangles():
    points, triangles = sphere(5)
    ball = kp.Mesh(points, triangles)
    assert len(triangles) == 20480
    trial = rng().uniform(-1.1, 1.1, (20_000, 3))
    radius = np.linalg.norm(trial, axis=1)
    clear = np.abs(radius - 1) > 1e-3
    np.testing.assert_array_equal(ball.contains(trial)[clear], radius[clear] < 1)
    np.testing.assert_allclose(
        np.abs(ball.signed_distance(trial[:500])), np.abs(radius[:500] - 1), atol=2e-3, rtol=0.01
    )
    assert ball.volume == pytest.approx(4 / 3 * np.pi, rel=1e-3)
    assert ball.surface_area == pytest.approx(4 * np.pi, rel=1e-3)
    # Rays through vertices and along edges are not counted twice.
    lined = points[:300] * np.linspace(0.0, 0.99, 300)[:, None]
    lined[:, :2] = points[:300, :2] * 0.5
    assert ball.contains(lined * 0.9).all()


@pytest.mark.parametrize(("angle", "orders"), [(0.0, [2, 2, 2, 1]), (30.0, [4, 4, 2, 3])])
def test_measures_and_normals_of_meshes_converge(tmp_path, angle, orders):
    """Distances, areas, volumes and normals for triangles of half the size, flat and curved."""
    errors = []
    for levels in (2, 3, 4):
        vertices, triangles = sphere(levels)
        path = tmp_path / f"{levels}.stl"
        meshio.write_points_cells(path, vertices, [("triangle", triangles)])
        ball = kp.read_mesh(path, feature_angle=angle)
        drawn = ball.boundary.sample(2000, rng(), "halton")
        radius = np.linalg.norm(drawn.points, axis=1)
        exact = drawn.points / radius[:, None]
        errors.append(
            [
                np.sqrt(np.mean((radius - 1) ** 2)),
                4 * np.pi - ball.surface_area,
                4 / 3 * np.pi - ball.volume,
                np.sqrt(np.mean(np.sum((drawn.normals - exact) ** 2, axis=1))),
            ]
        )
    ratios = np.array(errors[:-1]) / errors[1:]
    np.testing.assert_allclose(np.log2(ratios), [orders] * 2, atol=0.2)


def test_corners_of_a_mesh_stay_corners():
    square = kp.Mesh(*grid_mesh(4))
    drawn = square.boundary.sample(400, rng())
    side = np.abs(drawn.points - 0.5).argmax(axis=1)
    np.testing.assert_array_equal(np.abs(drawn.normals).argmax(axis=1), side)
    np.testing.assert_allclose(np.abs(drawn.points - 0.5).max(axis=1), 0.5, rtol=1e-14)
    assert square.surface_area == pytest.approx(4.0, rel=1e-14)
    assert len(reentrant_corners([square.interior, square.boundary])) == 0
    with pytest.raises(kp.InputError, match="feature_angle must be"):
        kp.Mesh(*grid_mesh(4), feature_angle=120.0)


def test_round_holes_of_a_mesh_are_no_corners():
    """Sides of the hole turn by 11 degrees, and by 22 in coordinates scaled to a square."""
    outer = np.array([(0, 0), (4, 0), (4, 1), (0, 1)], dtype=float)
    angle = np.linspace(0, 2 * np.pi, 32, endpoint=False)
    hole = np.array([2, 0.5]) + 0.25 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points = np.concatenate([outer, hole])
    cells = Delaunay(points).simplices
    middles = points[cells].mean(axis=1)
    plate = kp.Mesh(points, cells[np.linalg.norm(middles - [2, 0.5], axis=1) > 0.24])
    assert plate.volume == pytest.approx(4 - np.pi / 16, rel=1e-3)
    assert len(reentrant_corners([plate.interior, plate.boundary])) == 0
    notched = grid_mesh(4)
    middles = notched[0][notched[1]].mean(axis=1)
    l_shape = kp.Mesh(notched[0], notched[1][(middles < 0.5).any(axis=1)])
    (corner,) = reentrant_corners([l_shape.interior, l_shape.boundary])
    np.testing.assert_allclose(corner, 0.5, atol=1e-9)


def grid_mesh(cells: int):
    """Two triangles in each cell of a square."""
    steps = np.arange(cells + 1) / cells
    points = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    low = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)).reshape(-1)
    high = low + cells + 1
    return points, np.concatenate(
        [np.stack([low, high, low + 1], 1), np.stack([high, high + 1, low + 1], 1)]
    )


def test_normal_derivatives_on_the_boundary_of_a_mesh():
    """u = x² - y² on a circle of 72 sides, where ∂ₙu = 2u; normals of flat sides are too rough."""

    def flux(x, u):
        return u.normal_derivative + u.value - 3 * (x[0] ** 2 - x[1] ** 2)

    found = {}
    for angle in (0.0, 30.0):
        disc = kp.Mesh(*disc_mesh(), feature_angle=angle)
        problem = boundary_value(disc, lambda x, u: u.laplacian, kp.Gaussian(1.0), edge=flux)
        solution = kp.solve(problem, {"equation": 100, "boundary": 150}, throw=False)
        where = kp.Ball((0, 0), 0.95).interior.sample(200, rng()).points
        error = np.asarray(solution["u"](where)) - (where[:, 0] ** 2 - where[:, 1] ** 2)
        found[angle] = np.abs(error).max()
    assert found[30.0] < 2e-4
    assert found[30.0] < 0.05 * found[0.0]


def gmsh_plate(path):
    """A plate of two materials with a hole, named as people name things in Gmsh."""
    gmsh.initialize(interruptible=False)
    gmsh.option.setNumber("General.Terminal", 0)
    gmsh.model.add("plate")
    add = gmsh.model.occ
    left, right = add.addRectangle(0, 0, 0, 1, 1), add.addRectangle(1, 0, 0, 1, 1)
    add.cut([(2, left)], [(2, add.addDisk(0.5, 0.5, 0, 0.2, 0.2))])
    add.fragment([(2, left)], [(2, right)])
    add.synchronize()
    for tag in (s for _, s in gmsh.model.getEntities(2)):
        x = add.getCenterOfMass(2, tag)[0]
        gmsh.model.addPhysicalGroup(2, [tag], name="steel" if x < 1 else "copper")
    groups = {"inlet": [], "hole": [], "walls": []}
    for _, tag in gmsh.model.getEntities(1):
        x, y, _ = add.getCenterOfMass(1, tag)
        if x < 1e-6:
            groups["inlet"].append(tag)
        elif abs(x - 0.5) < 0.21 and abs(y - 0.5) < 0.21:
            groups["hole"].append(tag)
        elif abs(x - 1) > 1e-6:
            groups["walls"].append(tag)
    for name, tags in groups.items():
        gmsh.model.addPhysicalGroup(1, tags, name=name)
    gmsh.option.setNumber("Mesh.MeshSizeMax", 0.1)
    gmsh.model.mesh.generate(2)
    gmsh.write(str(path))
    gmsh.finalize()


def test_groups_of_gmsh_are_pieces_and_subdomains(tmp_path):
    gmsh_plate(tmp_path / "plate.msh")
    mesh = kp.read_mesh(tmp_path / "plate.msh")
    assert mesh.space.coordinates == ("x", "y")
    assert set(mesh.boundary_patches) == {"inlet", "hole", "walls"}
    assert set(mesh.subdomains) == {"steel", "copper"}
    assert mesh["inlet"].full_measure == pytest.approx(1.0, rel=1e-12)
    assert mesh["hole"].full_measure == pytest.approx(0.4 * np.pi, rel=0.02)
    steel, copper = mesh.subdomain("steel"), mesh.subdomain("copper")
    assert copper.volume == pytest.approx(1.0, rel=1e-12)
    assert steel.volume + copper.volume == pytest.approx(mesh.volume, rel=1e-12)
    points, normals, _ = steel.interface(copper).sample(20, rng())
    np.testing.assert_allclose(points[:, 0], 1.0, rtol=1e-12)
    np.testing.assert_allclose(normals, np.tile([1.0, 0.0], (20, 1)), atol=1e-12)
    with pytest.raises(kp.InputError, match="Did you mean 'steel'"):
        mesh.subdomain("stel")


@pytest.mark.parametrize("suffix", ["stl", "obj", "vtu"])
def test_surfaces_and_cells_from_files(tmp_path, suffix):
    path = tmp_path / f"shape.{suffix}"
    points, cells = sphere(2) if suffix != "vtu" else disc_mesh()
    if suffix == "vtu":
        points = np.concatenate([points, np.zeros((len(points), 1))], axis=1)
    meshio.Mesh(points, [("triangle", cells)]).write(path)
    mesh = kp.read_mesh(path)
    expected = kp.Mesh(points[:, :2] if suffix == "vtu" else points, cells)
    assert mesh.volume == pytest.approx(expected.volume, rel=1e-6)  # STL has 32 bits


def test_tetrahedra():
    points = rng().random((60, 3))
    points = np.concatenate([points, np.array(np.meshgrid(*[[0.0, 1.0]] * 3)).reshape(3, -1).T])
    cube = kp.Mesh(points, Delaunay(points).simplices)
    assert cube.volume == pytest.approx(1.0, rel=1e-10)
    assert cube.surface_area == pytest.approx(6.0, rel=1e-10)
    assert cube.contains(rng(1).random((1000, 3))).all()


def test_interfaces():
    one, two = kp.Box(x=(0, 1), y=(0, 1)), kp.Box(x=(1, 2), y=(0.5, 2))
    points, normals, _ = one.interface(two).sample(30, rng())
    assert (points[:, 0] == 1).all()
    assert points[:, 1].min() > 0.5
    assert (normals == [1, 0]).all()
    ball = kp.Ball((0.5, 0.5), 0.2)
    around = (one - ball).interface(ball).sample(30, rng())
    into = ball.interface(one - ball).sample(30, rng())
    for sample, sign in ((around, -1), (into, 1)):
        np.testing.assert_allclose(
            sample.normals, sign * (sample.points - 0.5) / 0.2, rtol=1e-10, atol=1e-12
        )
    with pytest.raises(kp.InputError, match="have no common boundary"):
        one.interface(kp.Box(x=(3, 4), y=(0, 1)))


REFUSED = {
    "open": (lambda p, c: (p, c[1:]), "not closed: 3 edges belong to one triangle"),
    "flipped": (lambda p, c: (p, np.concatenate([c[:1, ::-1], c[1:]])), "oriented inconsistently"),
    "twice": (lambda p, c: (p, np.concatenate([c, c[:1]])), "more than two triangles"),
    "degenerate": (lambda p, c: (p, np.concatenate([c, [[0, 0, 1]]])), "degenerate, the first"),
    "number": (
        lambda p, c: (p, np.concatenate([c, [[0, 1, 10**6]]])),
        "cells must be indices from 0 to",
    ),
    "nan": (lambda p, c: (np.where(p == p.max(), np.nan, p), c), "points hold a NaN"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_broken_meshes_are_refused(name):
    broken, reason = REFUSED[name]
    with pytest.raises(kp.InputError, match=reason):
        kp.Mesh(*broken(*sphere(1)))


def test_clouds_name_their_coordinates():
    inside = SHAPES["polygon"].interior.sample(150, rng(), "halton").points
    edge = SHAPES["polygon"].boundary.sample(80, rng(), "halton")
    problem = kp.Problem(
        kp.Condition(
            "equation",
            kp.PointCloud(inside, coordinates=("r", "s")),
            lambda x, u: u.d("r", "r") + u.d("s", "s"),
        ),
        kp.Condition(
            "edge",
            kp.PointCloud(edge.points, edge.normals, coordinates=("r", "s")),
            lambda x, normal, u: u.normal_derivative - normal[1],
        ),
        kp.Condition("place", kp.PointCloud([[0.1, 0.1]]), lambda x, u: u.value - 0.1),
        fields=[kp.Field("u", kp.Gaussian(1.0))],
    )
    assert problem.space.coordinates == ("r", "s")
    found = kp.solve(problem)["u"](inside)
    np.testing.assert_allclose(found, inside[:, 1], atol=1e-5)
    with pytest.raises(kp.InputError, match="2 different coordinate names"):
        kp.PointCloud(inside, coordinates=("x",))


def test_shares_of_the_boundary_follow_the_measure():
    # The half disc of radius 0.8 above y = 0: arc 0.8 pi, straight side 1.6.
    half = SQUARE & kp.Ball((0, 0), 0.8)
    points = half.boundary.sample(20_000, rng()).points
    straight = np.mean(points[:, 1] == 0)
    assert straight == pytest.approx(1.6 / (1.6 + 0.8 * np.pi), abs=0.015)


@pytest.mark.parametrize("stretch", [1.0, 1e-9, 1e9])
def test_sides_of_a_box_have_equal_shares_in_all_units(stretch):
    box = kp.Box(x=(0, 1), y=(0, stretch))
    points = box.boundary.sample(81, rng(), "halton").points / [1.0, stretch]
    counts = [int(np.sum(points[:, axis] == end)) for axis in (0, 1) for end in (0, 1)]
    assert sorted(counts) == [20, 20, 20, 21]
    np.testing.assert_allclose(
        points, kp.Box(x=(0, 1), y=(0, 1)).boundary.sample(81, rng(), "halton").points, atol=1e-15
    )


def test_interior_of_a_difference_has_the_right_area():
    ring = kp.Ball((0, 0), 1.0) - kp.Ball((0, 0), 0.5)
    inside = ring.signed_distance(
        kp.Box(x=(-1, 1), y=(-1, 1)).interior.sample(4096, rng(), "sobol")[0]
    )
    assert np.mean(inside < 0) * 4 == pytest.approx(0.75 * np.pi, abs=0.02)


LEGS = kp.Box(x=(0, 2), y=(0, 0.8)), kp.Box(x=(0, 0.8), y=(0, 2))
UNIT, LEFT = kp.Box(x=(0, 1), y=(0, 1)), kp.Box(x=(-1, 0), y=(0, 0.1 + 0.2))


@pytest.mark.parametrize(
    ("domain", "length"),
    [
        (LEGS[0] | LEGS[1], 8.0),
        (LEGS[1] | LEGS[0], 8.0),
        (LEGS[0] & LEGS[1], 3.2),
        (LEGS[0] - LEGS[1], 4.0),
        (UNIT | UNIT, 4.0),
        (UNIT & UNIT, 4.0),
        (UNIT | LEFT, 6.0),
        (UNIT - LEFT, 4.0),
        (UNIT - kp.Box(x=(0, 1), y=(0.5, 1)), 3.0),
        ((UNIT | LEFT) - kp.Box(x=(-1, 1), y=(0, 0.3)), 3.4),
        (kp.Extrusion(LEGS[0] | LEGS[1], t=(0, 0.5)), 4.0),
        (kp.Box(x=(0, 1e-6), y=(0, 1e3)) | kp.Box(x=(0, 1e-6), y=(0, 500.0)), 2e3),
        (kp.Ball((0, 0), 1.0) | kp.Ball((0, 0), 1.0), 2 * np.pi),
        (UNIT - kp.Polygon([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]), 2 + np.sqrt(2)),
    ],
)
def test_sides_that_coincide_are_there_once(domain, length):
    """Where two domains touch, the boundary is what has the combination on one side only."""
    assert domain.surface_area == pytest.approx(length, rel=2e-4)
    points, normals, _ = domain.boundary.sample(500, np.random.default_rng(3), "uniform")
    step = 1e-5 * np.ptp(domain.bounds, axis=1).min()
    at = points.copy()
    if domain.space.time is not None:
        at[:, 0] = 0.25
    assert np.all(domain.contains(at - step * normals))
    assert not np.any(domain.contains(at + step * normals))


@pytest.mark.parametrize("method", METHODS)
def test_sampling_methods_are_reproducible_and_fill_the_box(method):
    count = 256
    first = SQUARE.interior.sample(count, rng(1), method).points
    again = SQUARE.interior.sample(count, rng(1), method).points
    np.testing.assert_array_equal(first, again)
    assert first.shape == (count, 2)
    np.testing.assert_allclose(first.mean(axis=0), [0.5, 0.5], atol=0.15)
    if method != "grid":
        other = SQUARE.interior.sample(count, rng(2), method).points
        assert not np.array_equal(first, other)


def test_even_samples_have_larger_gaps_than_random_ones():
    def smallest_gap(method):
        points = kp.Box(x=(0, 1), y=(0, 1)).interior.sample(225, rng(3), method).points
        gaps = np.linalg.norm(points[:, None] - points[None], axis=-1) + 9 * np.eye(225)
        return gaps.min()

    assert smallest_gap("poisson") > 5 * smallest_gap("uniform")
    assert smallest_gap("grid") == pytest.approx(1 / 15, rel=1e-12)


def test_sides_have_names_and_can_be_found_by_value():
    assert set(SQUARE.boundary_patches) == {"x=-1", "x=2", "y=0", "y=1"}
    sample = SQUARE.side(x=2).sample(5, rng())
    assert (sample.points[:, 0] == 2).all()
    np.testing.assert_array_equal(sample.normals, np.tile([1.0, 0.0], (5, 1)))
    np.testing.assert_array_equal(SQUARE["x=2"].sample(5, rng()).points, sample.points)


def test_space_time_boxes_keep_time_out_of_the_boundary():
    box = kp.Box(t=(0, 1), x=(-1, 1), time="t")
    assert set(box.boundary_patches) == {"x=-1", "x=1"}
    assert (box.initial.sample(7, rng()).points[:, 0] == 0).all()
    assert (box.final.sample(7, rng()).points[:, 0] == 1).all()
    both = union([box.initial, box.boundary]).sample(4000, rng()).points
    assert np.mean(both[:, 0] == 0) == pytest.approx(0.5, abs=0.03)


def test_point_clouds_are_taken_as_they_are():
    points = rng().random((6, 2))
    cloud = kp.PointCloud(points, normals=np.tile([0.0, 1.0], (6, 1)))
    sample = cloud.sample(None, rng())
    np.testing.assert_array_equal(sample.points, points)
    assert cloud.has_normals


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kp.Box(), "at least one interval"),
        (lambda: kp.Box(x=(1, 0)), r"x must be an interval .* got \(1, 0\)"),
        (lambda: kp.Box(x=(0, 1), time="t"), "unknown time coordinate 't'; expected 'x'"),
        (lambda: SQUARE.side(x=0.5), "x must be -1 or 2; got 0.5"),
        (lambda: SQUARE.side(z=0), "unknown coordinate 'z'; expected 'x', 'y'"),
        (lambda: SQUARE["z=0"], "Box: unknown boundary piece 'z=0'; expected 'x=-1'"),
        (lambda: SQUARE.initial, "with a time coordinate; got Box"),
        (lambda: kp.Ball((0, 0), -1.0), "radius must be positive and finite; got -1.0"),
        (lambda: kp.Ball((0,), 1.0), "an interval is a Box"),
        (lambda: SQUARE & kp.Box(a=(0, 1), b=(0, 1)), "needs the same coordinates"),
        (lambda: (SQUARE & kp.Box(x=(5, 6), y=(0, 1))).interior, "is empty"),
        (lambda: SQUARE.interior.sample(10, rng(), "grid"), "Use 9 or 16"),
        (lambda: SQUARE.interior.sample(10, rng(), "random"), "unknown method 'random'"),
        (lambda: SQUARE.interior.sample(0, rng()), "number of points must be at least 1; got 0"),
        (lambda: kp.Box(x=(0, 1)).side(x=0).sample(3, rng()), "is a single point; got 3"),
        (
            lambda: kp.Box(x=(0, 1)).boundary.sample(3, rng()),
            "must be 2, since it consists of single points; got 3",
        ),
        (lambda: BALL.interior.sample(9, rng(), "grid"), "a grid does not fit it"),
        (lambda: (BALL - SQUARE).interior.sample(9, rng()), "'interior' is empty"),
        (lambda: kp.PointCloud([1.0, 2.0]), r"points must be of shape \(n, d\)"),
        (lambda: kp.PointCloud([[0.0, np.nan]]), "NaN or infinite entry in row 0"),
        (lambda: kp.PointCloud([[0.0, 1.0]], normals=[[1.0]]), "normals must be of the same shape"),
        (lambda: kp.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]), "must not cross or touch"),
        (lambda: kp.Polygon([(0, 0), (1, 0)]), "at least three"),
        (lambda: kp.Polygon([(0, 0), (1, 0), (1, 0), (0, 1)]), "are the same point"),
        (lambda: kp.Polygon(L_SHAPE, holes=[[(5, 5), (6, 5), (5, 6)]]), "must lie inside"),
        (lambda: kp.Polygon(L_SHAPE, names=["a"]), "one name for each of 6 edges"),
        (lambda: kp.Implicit(lambda x, y: x + 9, x=(0, 1), y=(0, 1)).boundary, "has one sign"),
        (lambda: kp.Implicit(lambda x: x, x=(0, 1)), "two or three coordinates"),
        (
            lambda: kp.Implicit(lambda x, y: 1.0, x=(0, 1), y=(0, 1)).boundary,
            "one number per point",
        ),
        (lambda: kp.Extrusion(kp.Ball((0, 0), 1), x=(0, 1)), "neither time nor a coordinate 'x'"),
        (lambda: kp.Extrusion(kp.Ball((0, 0), 1)), "must be one interval"),
        (lambda: kp.read_mesh("nowhere.msh"), "there is no file"),
    ],
)
def test_bad_geometry_is_refused(make, message):
    with pytest.raises((kp.InputError, kp.FileError), match=message):
        make()


@pytest.mark.parametrize("dimension", [1, 2, 3, 5, 12])
def test_halton_points_are_those_of_scipy(dimension):
    """Which draws them too, after a second of importing."""
    for count in (1, 10, 1000):
        ours, theirs = np.random.default_rng(count), np.random.default_rng(count)
        for _ in range(2):
            points = unit_points(count, dimension, "halton", ours)
            np.testing.assert_array_equal(points, qmc.Halton(dimension, rng=theirs).random(count))


def sector(angle: float, sides: int, height: float = 1.0, **options) -> kp.Mesh:
    """A part of an ellipse around its center, in triangles that meet there."""
    along = np.linspace(0, angle, sides + 1)
    arc = np.stack([np.cos(along), height * np.sin(along)], axis=1)
    cells = np.array([[0, k, k + 1] for k in range(1, sides + 1)])
    return kp.Mesh(np.concatenate([[[0.0, 0.0]], arc]), cells, **options)


def farthest(mesh: kp.Mesh, height: float = 1.0) -> float:
    """The largest distance of boundary points from the curve, about."""
    drawn = mesh.boundary.sample(2000, np.random.default_rng(0), "uniform").points
    radii = np.linalg.norm(drawn / [1, height], axis=1)
    curved = (drawn.min(axis=1) > 1e-9) & (radii > 0.9)
    assert curved.sum() > 200
    return float(np.abs(radii[curved] - 1).max())


def test_the_last_side_of_a_curve_is_curved():
    assert farthest(sector(np.pi / 2, 12)) < 1e-5
    assert farthest(sector(np.pi / 2, 12, feature_angle=1.0)) > 1e-3
    coarse, fine = (farthest(sector(np.pi / 2, sides, 0.7), 0.7) for sides in (12, 24))
    assert coarse / fine > 6


def test_a_long_straight_side_beside_a_short_arc_stays_straight():
    """Half of a stadium: its straight sides are one facet each, and tangent to the arc."""
    turn = np.linspace(-np.pi / 2, np.pi / 2, 25)
    arc = np.stack([2 + 0.5 * np.cos(turn), 0.5 * np.sin(turn)], axis=1)
    points = np.concatenate([[[0.0, 0.0], [0.0, -0.5]], arc, [[0.0, 0.5]]])
    cells = np.array([[0, k, k + 1] for k in range(1, len(points) - 1)])
    drawn = kp.Mesh(points, cells).boundary.sample(1000, np.random.default_rng(0)).points
    straight = drawn[(drawn[:, 0] < 2) & (drawn[:, 0] > 1e-6)]
    assert len(straight) > 200
    np.testing.assert_allclose(np.abs(straight[:, 1]), 0.5, atol=1e-12)
    radii = np.linalg.norm(drawn[drawn[:, 0] > 2] - [2, 0], axis=1)
    np.testing.assert_allclose(radii, 0.5, atol=1e-5)


@pytest.mark.slow
def test_graded_points_on_a_curved_side_at_a_corner_that_points_inwards():
    mesh = sector(1.5 * np.pi, 36)

    def exact(x):
        theta = jnp.mod(jnp.arctan2(x[1], x[0]), 2 * jnp.pi)
        return (x[0] ** 2 + x[1] ** 2) ** (1 / 3) * jnp.sin(2 * theta / 3)

    problem = boundary_value(mesh, lambda x, u: u.laplacian, kp.Gaussian(0.5), exact=exact)
    solution = kp.solve(problem, accuracy=1e-3)
    assert solution.converged
    points = np.asarray(solution.point_sets[1].points)
    radii = np.linalg.norm(points, axis=1)
    on_arc = radii > 0.95
    on_arc &= np.abs(points).min(axis=1) > 1e-6
    assert on_arc.sum() > 10
    assert np.abs(radii[on_arc] - 1).max() < 1e-4
    assert np.sort(radii)[5] < 0.05
    where = mesh.interior.sample(300, np.random.default_rng(1), "uniform").points
    truth = np.array([float(exact(p)) for p in where])
    error = np.asarray(solution["u"](where)) - truth
    assert np.sqrt(np.mean(error**2)) < 2e-3 * np.sqrt(np.mean(truth**2))
