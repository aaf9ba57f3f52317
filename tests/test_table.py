"""Measurements from files and from memory."""

import numpy as np
import pandas
import pytest
import xarray

import kernelpde as kp

TEXT = """x, t, T, instrument
0.1, 0.5, 1.25, A
0.2, 0.5, , A
0.3, 1.5, NA, B
0.4, 2.5, -3e-2, B
"""


def written(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "readings.csv"
    path.write_text(text, encoding=encoding)
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_file_with_gaps(tmp_path, delimiter, encoding):
    table = kp.read_table(written(tmp_path, TEXT.replace(",", delimiter), encoding))
    assert len(table) == 4
    assert "T: -0.03 to 1.25, 2 missing" in repr(table)
    np.testing.assert_array_equal(
        table.points("x", "t"), [[0.1, 0.5], [0.2, 0.5], [0.3, 1.5], [0.4, 2.5]]
    )
    with pytest.raises(kp.InputError, match=r"2 of 4 rows have no 'T', the first is row 2"):
        table["T"]
    whole = table.complete("T")
    np.testing.assert_array_equal(whole["T"], [1.25, -0.03])
    np.testing.assert_array_equal(whole["x"], [0.1, 0.4])
    np.testing.assert_array_equal(whole.only(instrument="B")["T"], [-0.03])
    assert len(table.only(instrument="B", t=1.5)) == 1
    assert len(table.complete()) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n", "no rows below"),
        ("1.0,2.0\n3.0,4.0\n", "must name its columns"),
        ("x,x\n3.0,4.0\n", "must name its columns"),
        ("x,y\n3.0,4.0\n5.0\n", "line 3 of 'readings.csv' has 1 cells; expected 2"),
    ],
)
def test_files_that_are_refused(tmp_path, text, message):
    with pytest.raises(kp.InputError, match=message):
        kp.read_table(written(tmp_path, text))


def test_what_is_asked_for_must_be_there(tmp_path):
    table = kp.read_table(written(tmp_path, TEXT))
    with pytest.raises(kp.InputError, match="no column 'temperature'; there are"):
        table["temperature"]
    with pytest.raises(kp.InputError, match="column 'instrument' has words"):
        table.points("x", "instrument")
    with pytest.raises(kp.InputError, match="no row is left of 4"):
        table.only(instrument="C")
    with pytest.raises(kp.InputError, match="'y' is infinite in row 2"):
        kp.Table({"y": [1.0, np.inf]})["y"]
    with pytest.raises(kp.InputError, match="equal length"):
        kp.Table({"x": [1.0], "y": [1.0, 2.0]})
    with pytest.raises(kp.InputError, match=r"cannot read 'none\.csv'"):
        kp.read_table(tmp_path / "none.csv")
    with pytest.raises(kp.InputError, match="got 3"):
        kp.read_table(3)
    with pytest.raises(kp.InputError, match="got dates"):
        kp.Table({"t": np.array(["2026-01-01"], "datetime64[D]")})


def test_grids_of_xarray_and_frames_of_pandas():
    values = np.arange(6.0).reshape(2, 3)
    values[0, 1] = np.nan
    grid = xarray.Dataset({"T": (("x", "t"), values)}, {"x": [0.0, 1.0], "t": [5.0, 6.0, 7.0]})
    for source in (grid, grid["T"], grid.to_dataframe().reset_index()):
        table = kp.read_table(source).complete("T")
        np.testing.assert_array_equal(table["T"], [0, 2, 3, 4, 5])
        np.testing.assert_array_equal(table.points("x", "t")[1], [0.0, 7.0])
    unnamed = xarray.DataArray(values, dims=("x", "t"))
    assert len(kp.read_table(unnamed).complete("value")) == 5
    words = kp.read_table(pandas.DataFrame({"who": ["a", None], "y": [1, 2]}))
    np.testing.assert_array_equal(words.complete("who")["y"], [1.0])


def test_what_was_exported_is_read_and_fitted(tmp_path):
    """A number from a table whose values come from a solution with it."""
    line = kp.Box(x=(0, 1))
    conditions = (
        kp.Condition("equation", line.interior, lambda x, u, load: -u.laplacian - load),
        kp.Condition("ends", line.boundary, lambda x, u: u.value),
    )
    points = {"equation": 12, "ends": 2}
    known = kp.Problem(*conditions, fields=[kp.Field("u", kp.Gaussian(0.5))], inputs={"load": 3.0})
    solution = kp.solve(known, points)
    kp.export(solution, tmp_path / "u.csv", resolution=9)
    table = kp.read_table(tmp_path / "u.csv")
    np.testing.assert_array_equal(table["u"], solution["u"](table.points("x")))
    data = kp.Condition(
        "data", table.points("x"), lambda x, u, y: u.value - y, noise=1e-3, data={"y": table["u"]}
    )
    unknown = kp.Problem(
        *conditions,
        data,
        fields=[kp.Field("u", 1.0 * kp.Gaussian(0.5)), kp.Parameter("load", 1.0, 5.0)],
    )
    assert kp.solve(unknown, points).parameters["load"] == pytest.approx(3.0, abs=1e-2)
