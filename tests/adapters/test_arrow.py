"""Queues, columns and batches as streams of Arrow, in Polars, DuckDB and pyarrow.

Law
---
1. h5py says what is right. A queue has more blocks than its ring, but where a test says otherwise.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import processes
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy
from processes import run_script

import multitables
from _multitables.parent.arrow import table_of
from _multitables.plan.reader_options import stream_options
from multitables import CorruptChunkError, OptionsError, Streamer, UnsupportedDatasetError

pa = pytest.importorskip("pyarrow")

N_ROWS = 10_007
ROWS = np.zeros(
    N_ROWS,
    [("a", ">i4"), ("b", "<f8"), ("s", "S5"), ("v", "<f4", (2,)), ("c", [("x", "i2"), ("y", "?")])],
)
ROWS["a"], ROWS["b"] = np.arange(N_ROWS), np.arange(N_ROWS) / 7
ROWS["s"] = [b"%d" % (number % 777) for number in range(N_ROWS)]
ROWS["v"] = np.arange(2 * N_ROWS).reshape(-1, 2)
ROWS["c"]["x"], ROWS["c"]["y"] = np.arange(N_ROWS) % 99, np.arange(N_ROWS) % 3 == 0
IMAGES = np.arange(N_ROWS * 6, dtype="<i8").reshape(N_ROWS, 3, 2)
#: With this, a ring has a small part of the rows.
SMALL = {"n_procs": 0, "block_size": 50, "read_ahead": 4, "remainder": True}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("arrow") / "some.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("table", data=ROWS, chunks=(50,))
        file.create_dataset("images", data=IMAGES, chunks=(50, 3, 2), compression="gzip")
        file.create_dataset("x", data=ROWS["b"], chunks=(50,))
        file.create_dataset("g/x", data=ROWS["a"], chunks=(70,))
        file["complex"] = np.zeros(5, "c8")
        file["text"] = ["a", "bé", ""]
        file["latin"] = np.array([b"a", b"\xe9"])
        rows = file.create_dataset("ragged", (500,), h5py.vlen_dtype("<i4"))
        for number in range(500):
            rows[number] = np.arange(number % 5)
    return path


def whole_table() -> list[dict[str, Any]]:
    """The rows of the table, as Python's values."""
    columns: dict[str, Any] = {name: ROWS[name].tolist() for name in ("a", "b", "v")}
    columns["s"] = [text.decode() for text in ROWS["s"]]
    columns["c"] = [{"x": x, "y": y} for x, y in ROWS["c"].tolist()]
    each = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in each]


def skip_without(library: str) -> None:
    """Skip a test without a library, whose import would start threads here."""
    if not importlib.util.find_spec(library):
        pytest.skip(f"could not import {library!r}")


@pytest.mark.parametrize("many", [SMALL, {"remainder": True}])
def test_a_table(path: Path, many: dict[str, Any]) -> None:
    queue = Streamer(path).get_queue("/table", **many)
    table = pa.table(queue)
    table.validate(full=True)
    assert table.column_names == list(ROWS.dtype.names)
    assert table.to_pylist() == whole_table()


def in_child(check: Callable[[Path], None], path: Path) -> None:
    """Run a check in a process of its own, as the threads of Polars stay."""
    skip_without("polars")
    done = run_script(
        "import sys\n"
        "from pathlib import Path\n"
        "sys.path += sys.argv[2:]\n"
        "import test_arrow\n"
        f"test_arrow.{check.__name__}(Path(sys.argv[1]))\n"
        "print('same')\n",
        path,
        Path(__file__).parent,
        Path(processes.__file__).parent,
        flags=(),
    )
    assert done.stdout == "same\n", done.stderr


def test_polars(path: Path) -> None:
    in_child(check_frames, path)


def check_frames(path: Path) -> None:
    import polars as pl

    frame = pl.DataFrame(Streamer(path).get_queue("/table", **SMALL))
    assert frame.to_dicts() == whole_table()
    both = pl.DataFrame(Streamer(path).get_queue({"i": "/images", "x": "/x"}, **SMALL))
    np.testing.assert_array_equal(both["i"].to_numpy(), IMAGES)
    np.testing.assert_array_equal(both["x"].to_numpy(), ROWS["b"])
    made = pl.from_arrow(Streamer(path).get_queue("/x", **SMALL))
    frame = made.struct.unnest() if isinstance(made, pl.Series) else made  # before Polars 2
    np.testing.assert_array_equal(frame["x"].to_numpy(), ROWS["b"])


DUCKDB = """
import sys, duckdb, multitables
queue = multitables.Streamer(sys.argv[1]).get_queue(
    {"x": "/x", "n": "/g/x"}, n_procs=0, block_size=50, read_ahead=4, remainder=True)
print(duckdb.sql("select count(*), sum(n), max(x), sum(n) filter (x > 9) from queue").fetchall())
queue = multitables.Streamer(sys.argv[1]).get_queue("/table", n_procs=0, remainder=True)
rows = duckdb.sql("select a, s, v[2], c.x from queue where a between 70 and 71 order by a")
print(rows.fetchall())
"""


def test_duckdb(path: Path) -> None:
    skip_without("duckdb")
    done = run_script(DUCKDB, path, flags=())  # its threads stay
    n, x = ROWS["a"].astype("i8"), ROWS["b"]
    two = [(70, "70", 141.0, 70), (71, "71", 143.0, 71)]
    expected = [(N_ROWS, int(n.sum()), float(x.max()), int(n[x > 9].sum()))]
    assert done.stdout == f"{expected}\n{two}\n", done.stderr


def test_names_of_columns(path: Path) -> None:
    streamer = Streamer(path)

    def names(path: Any, **options: Any) -> list[str]:
        with streamer.get_queue(path, remainder=True, n_procs=0, **options) as queue:
            return pa.schema(queue).names

    assert names("/g/x") == ["x"]
    assert names("/table", field="c/x") == ["x"]
    assert names(["/x", "/images"]) == ["x", "images"]
    assert names(["/x", "/g/x"]) == ["x", "g/x"]
    assert names({"one": "/table", 2: "/x"}) == ["one", "2"]
    assert names("/table", field="c") == ["x", "y"]
    with pytest.raises(OptionsError, match=r"one name, got \['x', 'x'\]"):
        names(["/x", "/x"])


def test_a_schema_takes_no_block(path: Path) -> None:
    with Streamer(path).get_queue("/x", **SMALL) as queue:
        reader = pa.RecordBatchReader.from_stream(queue)
        assert pa.schema(queue) == reader.schema == pa.schema([("x", pa.float64())])
        del reader
        assert queue.statistics()["blocks_received"] == 0
        guard = queue.get()
        del guard  # a stream has what is left
        assert pa.table(queue)["x"].to_pylist() == ROWS["b"][50:].tolist()


def test_what_is_shared_and_what_is_copied(path: Path) -> None:
    """Blocks that lie in the ring with all that follow are not copied."""
    with Streamer(path).get_queue("/x", n_procs=0, block_size=50, remainder=True) as queue:
        ((begin, size, _),) = queue.source.memory()
        batches = list(pa.RecordBatchReader.from_stream(queue))
        for batch in batches:
            address = batch["x"].buffers()[1].address
            assert begin <= address < begin + size
        assert queue.statistics()["blocks_held"] == len(batches)
    with Streamer(path).get_queue("/x", **SMALL) as queue:
        places = queue.source.memory()
        shared = [
            any(
                begin <= batch["x"].buffers()[1].address < begin + size for begin, size, _ in places
            )
            for batch in list(pa.RecordBatchReader.from_stream(queue))
        ]
        assert 0 < sum(shared) <= queue.statistics()["ring_rows"] // 50 < len(shared)
        assert shared == sorted(shared)
    assert pa.concat_arrays([batch["x"] for batch in batches]).to_pylist() == ROWS["b"].tolist()


def test_endless(path: Path) -> None:
    with Streamer(path).get_queue("/x", n_procs=0, block_size=50, cyclic=True) as queue:
        reader = pa.RecordBatchReader.from_stream(queue)
        kept = [reader.read_next_batch()["x"] for _ in range(3 * N_ROWS // 50)]
    got = pa.concat_arrays(kept).to_numpy()
    np.testing.assert_array_equal(got, np.resize(ROWS["b"], len(got)))


def test_rows_of_any_length(path: Path) -> None:
    streamer = Streamer(path)
    queue = streamer.get_queue(
        ["/ragged"], n_procs=0, block_size=20, remainder=True, rows=slice(None)
    )
    table = pa.table(queue)
    assert table.schema.field("ragged").type == pa.large_list(pa.int32())
    assert table["ragged"].to_pylist() == [list(range(number % 5)) for number in range(500)]
    texts = pa.table(streamer.get_queue("/text", n_procs=0, remainder=True))
    assert texts["text"].to_pylist() == ["a", "bé", ""]


def test_a_file_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "grows.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x", data=np.arange(70), maxshape=(None,), chunks=(20,))
    with Streamer(path).get_queue("/x", n_procs=1, follow=True, max_wait_seconds=0.1) as queue:
        reader = pa.RecordBatchReader.from_stream(queue)
        queue.stop()
        assert reader.read_all()["x"].to_pylist() == list(range(70))


def test_versions_are_refused() -> None:
    wanted = stream_options({"version": ["r1", "r2"], "remainder": True})
    with pytest.raises(OptionsError, match="several versions are not one table"):
        table_of("/x", None, wanted, [])


def test_what_is_refused(path: Path) -> None:
    streamer = Streamer(path)
    with streamer.get_queue("/x", n_procs=0) as queue, pytest.raises(OptionsError) as caught:
        pa.table(queue)
    assert caught.value.option == "remainder"
    with (
        streamer.get_queue("/complex", n_procs=0, remainder=True) as queue,
        pytest.raises(UnsupportedDatasetError, match="no type for complex64 of column 'complex'"),
    ):
        pa.table(queue)
    with (
        streamer.get_queue("/latin", n_procs=0, remainder=True) as queue,
        pytest.raises(Exception, match="strings are not UTF-8"),
    ):
        pa.table(queue)


def test_damage_is_the_error_of_the_consumer(tmp_path: Path) -> None:
    path = tmp_path / "damaged.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", data=np.arange(900), chunks=(100,), compression="gzip")
        at = made.id.get_chunk_info(5).byte_offset
    with path.open("r+b") as raw:
        raw.seek(at)
        raw.write(b"\xff" * 20)
    with Streamer(path).get_queue("/x", n_procs=1, remainder=True) as queue:
        reader = pa.RecordBatchReader.from_stream(queue)
        assert sum(reader.read_next_batch().num_rows for _ in range(5)) == 500
        with pytest.raises(Exception, match=r"CorruptChunkError.*'/x'") as caught:
            reader.read_next_batch()
        with pytest.raises(CorruptChunkError):
            queue.get()
    del caught, reader


def test_without_pyarrow(path: Path) -> None:
    done = run_script(
        "import sys\n"
        "sys.modules['pyarrow'] = None\n"
        "import multitables\n"
        "try:\n"
        "    queue = multitables.Streamer(sys.argv[1]).get_queue('x', remainder=True)\n"
        "    queue.__arrow_c_stream__()\n"
        "except multitables.MissingLibraryError as error:\n"
        "    print(error.library, error.advice)\n",
        path,
    )
    assert done.stdout == "pyarrow Install it: pip install multitables[arrow]\n", done.stderr


def test_batches(path: Path) -> None:
    with Streamer(path).get_batches(("/x", "/images"), 64, shuffle=True, n_procs=0) as batches:
        order = batches.order()
        table = pa.table(batches)
        assert batches.epoch == 1
        np.testing.assert_array_equal(table["x"], ROWS["b"][order])
        assert table["images"].to_pylist() == IMAGES[order].tolist()
    with (
        Streamer(path).get_batches("/x", 64, transform=len) as batches,
        pytest.raises(OptionsError, match="no schema"),
    ):
        pa.table(batches)


def test_columns(path: Path) -> None:
    with Streamer(path).get_columns("/table", ["b", "v"], index="a", n_procs=1) as columns:
        table = pa.table(columns)
        assert table.column_names == pa.schema(columns).names == ["a", "b", "v"]
        np.testing.assert_array_equal(table["a"], ROWS["a"])
        np.testing.assert_array_equal(table["b"], ROWS["b"])
        assert table["v"].to_pylist() == ROWS["v"].tolist()
    with (
        Streamer(path).get_columns({"/table": ["b"]}, index="a") as columns,
        pytest.raises(OptionsError, match="several groups"),
    ):
        pa.table(columns)


def test_a_lazy_frame(path: Path) -> None:
    in_child(check_lazy_frame, path)


def check_lazy_frame(path: Path) -> None:
    import polars as pl

    table = multitables.scan_polars(path, "/table", n_procs=0)
    assert table.collect().to_dicts() == whole_table()
    found = table.filter(pl.col("a") > 9000, pl.col("c").struct.field("y")).select("s").collect()
    wanted = ROWS["s"][(ROWS["a"] > 9000) & ROWS["c"]["y"]]
    assert found["s"].to_list() == [text.decode() for text in wanted]
    assert table.select(pl.col("a").sum()).collect().item() == ROWS["a"].sum()
    assert table.select(pl.len()).collect().item() == N_ROWS
    inner = multitables.scan_polars(path, "/table", field="c", n_procs=0)
    assert inner.select(pl.col("x").max()).collect().item() == ROWS["c"]["x"].max()


def test_what_a_lazy_frame_reads(path: Path) -> None:
    in_child(check_what_is_read, path)


def check_what_is_read(path: Path) -> None:
    import polars as pl

    frame = multitables.scan_polars(path, {"i": "/images", "n": "/g/x", "x": "/x"}, n_procs=0)
    asked, real = [], Streamer.get_queue

    def get_queue(self: Streamer, path: Any, *given: Any, **more: Any) -> Any:
        asked.append((path, more["rows"]))
        return real(self, path, *given, **more)

    Streamer.get_queue = get_queue  # type: ignore[method-assign]
    assert frame.select("n").head(7).collect()["n"].to_list() == list(range(7))
    assert asked == [({"n": "/g/x"}, slice(7))]
    assert frame.filter(pl.col("n") == 8).select("x").collect().item() == ROWS["b"][8]
    assert set(asked[1][0]) == {"n", "x"}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_dtype(tmp_path: Path, data: st.DataObject) -> None:
    scalar = st.one_of(
        of_numpy.integer_dtypes(endianness="?"),
        of_numpy.unsigned_integer_dtypes(endianness="?"),
        of_numpy.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
        of_numpy.boolean_dtypes(),
        st.sampled_from([np.dtype("S3"), np.dtype("V2")]),
    )
    dtype = data.draw(
        st.one_of(
            scalar, of_numpy.array_dtypes(scalar, min_size=1, max_size=3, allow_subarrays=True)
        )
    )
    shape = data.draw(of_numpy.array_shapes(max_dims=3, max_side=4))
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = data.draw(st.binary(min_size=n_bytes, max_size=n_bytes))
    values = np.frombuffer(bytes(byte & 0x41 for byte in raw), dtype, int(np.prod(shape)))
    path = tmp_path / "any.h5"
    with h5py.File(path, "w") as file:
        file["x"] = values.reshape((*shape, *values.shape[1:]))
        wanted = file["x"][()]
    table = pa.table(Streamer(path).get_queue({"x": "/x"}, n_procs=0, remainder=True))
    table.validate(full=True)
    assert table["x"].to_pylist() == plain(wanted)


def plain(values: np.ndarray) -> list[Any]:
    """Values as Arrow gives them to Python."""
    if values.ndim > 1:
        return [plain(row) for row in values]
    if values.dtype.names:
        parts = [plain(values[name]) for name in values.dtype.names]
        return [dict(zip(values.dtype.names, row, strict=True)) for row in zip(*parts, strict=True)]
    if values.dtype.kind == "S":
        return [text.decode() for text in values.tolist()]
    return [value.tobytes() for value in values] if values.dtype.kind == "V" else values.tolist()
