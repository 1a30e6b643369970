"""The benchmark program: no wrong data gets a number, no ending leaves a file, no bad option runs.

Law
---
1. Nothing here is timed, and no figure is compared with another.
2. A liar is put in the place of a contender and must be caught; an honest one beside it is not.
3. Runs are of a few MiB, and in the test's own directory.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tables
from hypothesis import given
from hypothesis import strategies as st
from processes import script, wait_until

import multitables_benchmark
from _benchmark import (
    contenders,
    environment,
    interruption,
    measure,
    old_release,
    report,
    stream_loop,
    workloads,
)
from _benchmark.child import Child, ContenderError
from _benchmark.contenders import NotMeasuredError, Source, Stream
from _benchmark.progress import Progress
from _benchmark.studies import STUDIES, device_sweep, target_parts, targets
from _benchmark.studies.target_bench import Bench, best
from _benchmark.workloads import Workload

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TINY = Workload("tiny", rows=300, columns=64, complevel=3)


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary files and results go to the test's own directory; signals are as before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    handlers = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def tiny(tmp_path: Path) -> Source:
    """A small compressed file."""
    filename = str(tmp_path / "tiny.h5")
    workloads.write(TINY, filename)
    return Source(filename, workloads.PATH, TINY.rows, TINY.row_bytes)


def left_behind(directory: Path) -> list[str]:
    """Everything in `directory` but the results."""
    return sorted(path.name for path in directory.iterdir() if path.name != "results")


def rows_of(name: str) -> list[dict[str, str]]:
    with open(f"results/multitables_{name}.csv") as file:
        return list(csv.DictReader(file))


# ---- the program, end to end


def test_smoke_streams_checks_and_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert multitables_benchmark.main(["--smoke"]) == 0
    rows = rows_of("sweep")
    cells = {(row["complevel"], row["access"], row["n_procs"]) for row in rows}
    assert cells == {(c, a, n) for c in "039" for a in ("queue", "generator") for n in "12"}
    assert all(float(row["mb_per_s"]) > 0 for row in rows)
    assert all(row["device"] and row["kernel"] and row["versions"] for row in rows)
    out = capsys.readouterr().out
    for part in (report.UNIT_LINE, "Direct queue", "Generator", "complevel / processes", "cores"):
        assert part in out
    assert "FAILED" not in out
    assert left_behind(tmp_path) == []


def test_smoke_of_the_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["targets", "--smoke", "--dataset", "lz4", "--processes", "1", "--data_dir", "data"]
    for part in ("streams", "latency", "memory"):
        words += ["--part", part]
    assert multitables_benchmark.main(words) == 0
    out = capsys.readouterr().out
    assert "not measured: name an environment with --old_env DIR" in out
    with open("results/multitables_targets.json") as file:
        found = json.load(file)
    assert found["faults"] == []
    verdicts = {target["what"]: target["met"] for target in found["targets"]}
    assert verdicts["blosc:lz4 5: queue / 2.0.1"] is None
    assert set(verdicts.values()) == {None}  # too little data to judge
    assert "multitables queue x1" in {row["contender"] for row in rows_of("targets")}


# ---- the data check can fail


def _one_bit(block: Any, at: int) -> Any:
    block = block.copy()
    if at == 0:
        block.view(np.uint8).flat[7] ^= 1
    return block


# what a contender may do to its blocks: (block, number of the block) -> block
LIES: dict[str, Callable[[Any, int], Any]] = {
    "one bit": _one_bit,
    "zeros": lambda block, at: np.zeros_like(block),
    "a row less": lambda block, at: block[at == 0 :],
    "a row twice": lambda block, at: np.concatenate([block[:1], block]) if at == 0 else block,
    "rows swapped": lambda block, at: block[::-1] if at == 0 else block,
    "a row for another": lambda block, at: np.concatenate([block[1:2], block[1:]]),
    "bytes swapped": lambda block, at: block.byteswap(),
}


@dataclass
class FakeStreamer:
    """What the library's face offers, over rows in memory, with a lie in the blocks."""

    rows: Any
    lie: Callable[[Any, int], Any]

    def blocks(self) -> Iterator[Any]:
        for at, start in enumerate(range(0, len(self.rows), 64)):
            yield self.lie(self.rows[start : start + 64], at)

    def get_queue(self, path: str, **options: Any) -> FakeQueue:
        return FakeQueue(self.blocks(), options)

    def get_generator(self, path: str, **options: Any) -> Iterator[Any]:
        for block in self.blocks():
            yield from block


@dataclass
class FakeQueue:
    blocks: Iterator[Any]
    options: dict[str, Any] = field(default_factory=dict)

    def iter(self) -> Iterator[FakeGuard]:
        return (FakeGuard(block) for block in self.blocks)

    def close(self) -> None:
        pass


@dataclass
class FakeGuard:
    block: Any

    def __enter__(self) -> Any:
        return self.block

    def __exit__(self, *_exception: object) -> None:
        pass


def fake_stream(
    lie: Callable[[Any, int], Any], only: tuple[str, int] | None = None
) -> device_sweep.MakeContender:
    """`Stream` over a library that lies, in every cell or only in one."""

    def make(source: Source, access: str, n_procs: int, options: Any) -> Stream:
        if only not in (None, (access, n_procs)):
            return Stream(source, access, n_procs, options)
        with tables.open_file(source.filename) as file:
            rows = file.get_node(source.path)[:]
        streamer = FakeStreamer(rows, lie)
        return Stream(source, access, n_procs, open_streamer=lambda *_a, **_k: streamer)

    return make


@pytest.mark.parametrize("access", stream_loop.ACCESSES)
@pytest.mark.parametrize("name", LIES)
def test_every_lie_is_found(name: str, access: str, tiny: Source) -> None:
    expected = contenders.oracle(tiny)
    honest = fake_stream(lambda block, at: block)(tiny, access, 1, {}).check()
    assert contenders.differs(honest, expected, in_order=True) == ""
    found = fake_stream(LIES[name])(tiny, access, 1, {}).check()
    assert contenders.differs(found, expected, in_order=True)


def test_order_counts_only_where_it_is_promised(tiny: Source) -> None:
    expected = contenders.oracle(tiny)
    found = fake_stream(LIES["rows swapped"])(tiny, "queue", 1, {}).check()
    assert contenders.differs(found, expected, in_order=True) == "the right rows in the wrong order"
    assert contenders.differs(found, expected, in_order=False) == ""


def sweep_arguments(*words: str) -> Any:
    return multitables_benchmark.parser_of("sweep").parse_args(words)


def test_a_wrong_cell_has_no_number_and_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = sweep_arguments("--size=0.001", "--max_procs=1", "--cycles=1")
    status = device_sweep.run(arguments, fake_stream(LIES["one bit"], only=("queue", 1)))
    assert status == 1
    out = capsys.readouterr().out
    assert out.count("data differs") == 3
    assert {row["access"] for row in rows_of("sweep")} == {"generator"}
    queue_table = out.partition("Direct queue")[2].partition("Generator")[0]
    assert [line.split()[1:] for line in queue_table.split("\n") if line[:1].isdigit()] == [
        ["FAILED"]
    ] * 3
    assert left_behind(tmp_path) == []


def test_a_contender_that_raises_has_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    def break_down(_block: Any, _at: int) -> Any:
        raise RuntimeError("it broke")

    status = device_sweep.run(
        sweep_arguments("--size=0.001", "--max_procs=1", "--cycles=1"), fake_stream(break_down)
    )
    assert status == 1
    assert "complevel 3, generator, 1 processes: RuntimeError: it broke" in capsys.readouterr().out
    assert rows_of("sweep") == []


def test_the_targets_measure_no_liar(
    tiny: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = some_bench(tmp_path)
    try:
        liar = fake_stream(LIES["one bit"])(tiny, "queue", 1, {})
        truthful = contenders.h5py_read(tiny)
        assert bench.honest(tiny, [liar, truthful]) == [truthful]
        assert "data differs" in bench.faults[0]
    finally:
        bench.results.__exit__(None, None, None)


@pytest.mark.parametrize("make", [contenders.pytables_read, contenders.h5py_read])
def test_a_pass_of_a_peer_is_whole(
    make: Callable[[Source], contenders.SlabRead], tiny: Source
) -> None:
    passes = make(tiny).passes(2)  # of a file smaller than a slab, too
    assert [one.decoded_bytes for one in passes] == [tiny.decoded_bytes] * 2


# ---- the digest


@given(
    rows=st.integers(1, 40),
    row_bytes=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_the_digest_sees_any_byte_and_no_block_bounds(
    rows: int, row_bytes: int, seed: int, data: st.DataObject
) -> None:
    array = np.random.default_rng(seed).integers(0, 256, (rows, row_bytes), np.uint8)
    expected = stream_loop.digest_of(iter([array]))
    cut = data.draw(st.integers(0, rows))
    assert stream_loop.digest_of(iter([array[:cut], array[cut:]])) == expected

    changed = array.copy()
    place = data.draw(st.integers(0, array.size - 1))
    changed.flat[place] ^= np.uint8(data.draw(st.integers(1, 255)))
    found = stream_loop.digest_of(iter([changed]))
    assert found["in_order"] != expected["in_order"]
    assert found["any_order"] != expected["any_order"]

    turned = stream_loop.digest_of(iter([array[::-1]]))
    assert turned["any_order"] == expected["any_order"]
    assert (turned["in_order"] == expected["in_order"]) == np.array_equal(array, array[::-1])


def test_the_digest_takes_any_dtype() -> None:
    compound = np.zeros(5, [("a", ">i2"), ("b", "S3")])
    assert stream_loop.digest_of(iter([compound]))["rows"] == 5
    assert stream_loop.digest_of(iter([]))["rows"] == 0


# ---- bad options and bad places


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--size", "0"], "--size: 0 is not above 0"),
        (["--size", "nan"], "--size: nan is not above 0"),
        (["--size", "much"], "--size: invalid float value: 'much'"),
        (["--cycles", "-1"], "--cycles: -1 is not above 0"),
        (["--max_procs", "1.5"], "--max_procs: invalid int value: '1.5'"),
        (["--complib", "gzip"], "'gzip' is not supported"),
        (["targets", "--processes", "1,x"], "'1,x' is not a list of numbers above 0"),
        (["targets", "--processes", ""], "'' is not a list of numbers above 0"),
        (["targets", "--part", "all"], "--part: invalid choice: 'all'"),
        (["no such study"], "unrecognized arguments: no such study"),
    ],
)
def test_options_that_cannot_work(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        multitables_benchmark.main(words)
    assert caught.value.code == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_library_this_pytables_lacks_is_not_replaced_by_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tables.utilsextension.which_lib_version", lambda _name: None)
    with pytest.raises(SystemExit):
        sweep_arguments("--complib", "lzo")
    assert "this PyTables was built without 'lzo'" in capsys.readouterr().err


def test_the_help_names_the_options_and_studies(capsys: pytest.CaptureFixture[str]) -> None:
    for name, study in STUDIES.items():
        words = [] if name == "sweep" else [name]
        with pytest.raises(SystemExit) as caught:
            multitables_benchmark.main([*words, "--help"])
        assert caught.value.code == 0
        assert study.SUMMARY in " ".join(capsys.readouterr().out.split())
    assert vars(sweep_arguments()) == {
        "size": 1,
        "cycles": 2,
        "max_procs": 6,
        "complib": "blosc",
        "file": None,
        "H5FD_DIRECT_OFF": False,
        "output": "results",
        "smoke": False,
    }


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the program says when it cannot be run."""
    assert multitables_benchmark.main(words) == 2
    return capsys.readouterr().err


def test_an_existing_file_is_neither_overwritten_nor_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.h5"
    mine.write_text("mine")
    assert "'mine.h5' exists" in refused(["--smoke", "--file", "mine.h5"], capsys)
    assert mine.read_text() == "mine"

    (tmp_path / "data").mkdir()
    filename = workloads.in_directory(TINY, "data")
    with tables.open_file(filename, "a") as file:
        file.get_node(workloads.PATH)[0, 0] = -1
    with pytest.raises(FileExistsError, match="holds something else"):
        workloads.in_directory(TINY, "data")


def test_a_full_disk_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _path: _Usage(10**6))
    said = refused(["--smoke", "--file", "new.h5"], capsys)
    assert "0.00 GB free" in said
    assert "--size" in said
    assert left_behind(tmp_path) == []


@dataclass
class _Usage:
    free: int


def test_a_place_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'/nowhere'" in refused(["--smoke", "--file", "/nowhere/bench.h5"], capsys)


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(_bytes: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        workloads.write(TINY, str(tmp_path / "x.h5"), fail)
    assert left_behind(tmp_path) == []


# ---- interruption


def test_what_was_finished_is_shown_after_an_interruption(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []

    @dataclass(frozen=True)
    class Impatient(Stream):
        def passes(self, cycles: int, tick: stream_loop.Tick = stream_loop.no_tick) -> Any:
            seen.append(cycles)
            if len(seen) == 2:
                raise KeyboardInterrupt
            return [measure.Pass(0.5, self.source.decoded_bytes)]

    arguments = sweep_arguments("--size=0.001", "--max_procs=1", "--cycles=1")
    assert device_sweep.run(arguments, Impatient) == 130
    assert len(rows_of("sweep")) == 1
    assert "interrupted; what was finished" in capsys.readouterr().out
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_removes_the_file(number: signal.Signals, tmp_path: Path) -> None:
    program = "import sys, multitables_benchmark as m; sys.exit(m.main(sys.argv[1:]))"
    with script(program, "--size=0.5", "--file=bench.h5", "--output=results") as process:
        wait_until(lambda: any("part" in name for name in left_behind(tmp_path)), "a file", 20)
        process.send_signal(number)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "interrupted; what was finished" in out
    assert left_behind(tmp_path) == []


def test_an_interruption_that_a_library_drops_comes_back() -> None:
    interruption.install()
    try:
        with Progress(2) as progress:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)  # dropped, as in a callback
            with pytest.raises(KeyboardInterrupt):
                progress.tick(1)
    finally:
        interruption.install()


# ---- the page cache and the driver


def test_a_file_system_without_direct_io_is_read_through_the_page_cache(
    monkeypatch: pytest.MonkeyPatch, tiny: Source
) -> None:
    monkeypatch.setattr(environment, "in_memory", lambda _name: False)
    monkeypatch.setattr(measure, "direct_refusal", lambda _name: "it refuses O_DIRECT")
    driver = device_sweep.choose_driver(tiny.filename, direct_off=False)
    assert (driver.name, dict(driver.options), driver.drop_before) == ("buffered", {}, True)
    assert driver.note == "it refuses O_DIRECT. The page cache is dropped before each pass."


def test_direct_io_is_the_default_and_can_be_turned_off(
    monkeypatch: pytest.MonkeyPatch, tiny: Source
) -> None:
    monkeypatch.setattr(environment, "in_memory", lambda _name: False)
    monkeypatch.setattr(measure, "direct_refusal", lambda _name: "")
    driver = device_sweep.choose_driver(tiny.filename, direct_off=False)
    assert (driver.name, dict(driver.options)) == ("direct", {"DRIVER": "H5FD_DIRECT"})
    driver = device_sweep.choose_driver(tiny.filename, direct_off=True)
    assert (driver.name, dict(driver.options)) == ("buffered", {})


def test_a_file_in_memory_is_said_to_measure_no_device(
    monkeypatch: pytest.MonkeyPatch, tiny: Source
) -> None:
    monkeypatch.setattr(environment, "in_memory", lambda _name: True)
    for direct_off in (False, True):
        driver = device_sweep.choose_driver(tiny.filename, direct_off)
        assert "no device is measured" in driver.note
        assert not driver.drop_before
    assert device_sweep.cache_of(driver, tiny.filename, "warm") == "in memory, no device"


def test_the_page_cache_is_asked_and_not_assumed(tiny: Source) -> None:
    measure.fill_page_cache(tiny.filename)
    assert measure.cache_state(tiny.filename) == "warm"
    if environment.in_memory(tiny.filename):
        pytest.skip("files in memory cannot be cold")
    measure.drop_page_cache(tiny.filename)
    assert measure.resident_fraction(tiny.filename) < 1


# ---- contenders that cannot run here


@pytest.mark.parametrize("huge_pages", [False, True])
def test_fio_that_is_not_there(
    huge_pages: bool, tiny: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotMeasuredError, match="install fio"):
        contenders.fio_read(tiny.filename, "io_uring", 2**20, huge_pages)


@pytest.fixture
def fake_fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fio that reads nothing; the file it returns has the arguments of each call in a line."""
    calls = tmp_path / "calls"
    program = tmp_path / "bin" / "fio"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"print(*sys.argv[1:], file=open({str(calls)!r}, 'a'))\n"
        "print(json.dumps({'jobs': [{'read': {'io_bytes': 2**20, 'bw_bytes': 2**20}}]}))\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return calls


def free_huge_pages(monkeypatch: pytest.MonkeyPatch, free: int, size_bytes: int = 2**21) -> None:
    found = environment.HugePages(free, size_bytes)
    monkeypatch.setattr(environment, "huge_pages", lambda: found)


def test_fio_differs_in_its_buffers_only(
    fake_fio: Path, tiny: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    free_huge_pages(monkeypatch, 4)
    for huge_pages in (False, True):
        assert contenders.fio_read(tiny.filename, "libaio", 2**20, huge_pages).seconds == 1
    small, huge = fake_fio.read_text().splitlines()
    assert huge == f"{small} --iomem=mmaphuge"


@pytest.mark.parametrize(
    ("free", "size_bytes", "said"),
    [
        (3, 2**21, "3 of 4 huge pages are free: as root, echo 4 > /proc/sys/vm/nr_hugepages"),
        (0, 2**30, "0 of 1 huge pages are free: as root, echo 1 > /proc/sys/vm/nr_hugepages"),
        (0, 0, "this kernel has no huge pages"),
    ],
)
def test_fio_without_huge_pages_says_how_to_have_them(
    free: int,
    size_bytes: int,
    said: str,
    fake_fio: Path,
    tiny: Source,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free_huge_pages(monkeypatch, free, size_bytes)
    with pytest.raises(NotMeasuredError, match=said):
        contenders.fio_read(tiny.filename, "libaio", 2**20, huge_pages=True)
    assert not fake_fio.exists()


@pytest.mark.parametrize("free", [0, 4])
def test_direct_io_is_set_beside_both_kinds_of_buffers(
    free: int, fake_fio: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "in_memory", lambda _name: False)
    if measure.direct_refusal(workloads.in_directory(TINY, str(tmp_path))):
        pytest.skip("the file system refuses O_DIRECT")
    free_huge_pages(monkeypatch, free)
    bench = some_bench(tmp_path)
    try:
        target_parts.direct(bench)
    finally:
        bench.results.__exit__(None, None, None)
    assert bench.faults == []
    small, huge = bench.targets
    assert (small.what, huge.what) == (
        "direct I/O, no filter, 1 process / fio",
        "direct I/O, no filter, 1 process / huge-page fio",
    )
    assert small.note.startswith("fio ")
    names = {row["contender"] for row in rows_of("targets")}
    assert {"fio io_uring", "fio libaio"} < names
    assert ({"huge-page fio io_uring", "huge-page fio libaio"} < names) == bool(free)
    if free:
        assert huge.note.startswith("huge-page fio ")
    else:
        assert (huge.measured, huge.verdict) == ("-", "not measured")
        assert "echo 4 > /proc/sys/vm/nr_hugepages" in huge.note
        assert bench.tables[0].count("not measured") == 2


def test_h5py_without_the_filter(tiny: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("h5py.h5z.filter_avail", lambda _number: False)
    with pytest.raises(NotMeasuredError, match="pip install hdf5plugin"):
        contenders.h5py_read(tiny).check()


def test_an_old_release_that_cannot_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(command: list[str], **_options: Any) -> Any:
        return subprocess.CompletedProcess(command, 1, "", "no network")

    monkeypatch.setattr("venv.create", lambda *_a, **_k: None)
    monkeypatch.setattr("subprocess.run", no_network)
    with pytest.raises(old_release.OldReleaseError, match="no network"):
        old_release.interpreter(str(tmp_path / "old"))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("import os; os._exit(3)", "exit status 3"),
        ("import time; time.sleep(60)", "no answer within"),
    ],
)
def test_a_child_that_fails(code: str, said: str, tiny: Source, tmp_path: Path) -> None:
    (tmp_path / "multitables.py").write_text(code)
    stream = contenders.ChildStream(
        tiny, "x", "queue", 1, module_directory=str(tmp_path), timeout_seconds=1.5
    )
    with pytest.raises(ContenderError, match=said):
        stream.check()


def test_shared_memory_that_a_child_leaves_is_removed(tiny: Source, tmp_path: Path) -> None:
    name = f"/dev/shm/multitables_test_{os.getpid()}"
    (tmp_path / "multitables.py").write_text(
        "import mmap, os\n"
        f"file = os.open({name!r}, os.O_CREAT | os.O_RDWR)\n"
        "os.ftruncate(file, 4096)\n"
        "kept = mmap.mmap(file, 4096)\n"
    )
    with Child(sys.executable, str(tmp_path), 10) as child:
        child.ask(verb="version")
        assert os.path.exists(name)
    assert not os.path.exists(name)


def test_what_a_child_raises_and_prints_is_told_apart(tiny: Source, tmp_path: Path) -> None:
    (tmp_path / "multitables.py").write_text(
        "print('noise')\nclass Streamer:\n    def __init__(self, filename):\n        1 / 0\n"
    )
    stream = contenders.ChildStream(tiny, "x", "queue", 1, module_directory=str(tmp_path))
    with pytest.raises(ContenderError, match="ZeroDivisionError"):
        stream.check()


# ---- verdicts, tables, rounds


def some_bench(directory: Path) -> Bench:
    results = report.ResultFile(str(directory / "results"), "targets", targets.COLUMNS, {})
    return Bench(str(directory), 2**20, 1, (1, 2), ("none",), None, "no old release", results)


def test_verdicts(tmp_path: Path) -> None:
    bench = some_bench(tmp_path)
    bench.results.__exit__(None, None, None)
    bench.ratio_target("a", [10, 30, 20], [10, 10, 10], 2, "")
    bench.ratio_target("b", [19.9], [10], 2, "")
    bench.ratio_target("c", [10], None, 2, "why")
    bench.limit_target("d", [1, 9, 2], 2.5, "us")
    bench.limit_target("e", [3], 3, "us")
    bench.limit_target("f", None, 3, "us", "why")
    verdicts = [(one.what, one.verdict) for one in bench.targets]
    assert verdicts == [
        ("a", "met"),
        ("b", "MISSED"),
        ("c", "not measured"),
        ("d", "met"),
        ("e", "MISSED"),
        ("f", "not measured"),
    ]
    assert bench.targets[0].measured == "2.00x (1.00-3.00)"
    bench.judged = False
    bench.limit_target("g", [1], 3, "us")
    assert (bench.targets[-1].measured, bench.targets[-1].verdict) == ("1 us", "not judged")
    table = targets.target_table(bench.targets)
    assert "MISSED" in table
    assert "why" in table


def test_the_wanted_figures_are_those_of_the_issue() -> None:
    least = {dataset.title: dataset.least for dataset in target_parts.DATASETS.values()}
    assert least == {
        "no filter": 6,
        "blosc (blosclz 5)": 3,
        "blosc:lz4 5": 3.3,
        "zlib 3 with shuffle": 4,
    }
    assert target_parts.LEAST_GENERATOR == 2.5


def test_the_best_is_by_median() -> None:
    rates = {"new x1": [1.0, 9.0, 2.0], "new x2": [3.0, 3.0, 3.0], "old x1": [99.0]}
    assert best(rates, "new") == "new x2"
    assert best(rates, "none") is None


def test_contenders_take_turns() -> None:
    order = list(measure.turns(["a", "b", "c"], 3))
    assert [name for _, name in order] == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert [number for number, _ in order] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_the_median_and_its_spread() -> None:
    assert str(measure.summary([3.0, 1.0, 2.0])) == "2 (1-3)"
    assert str(measure.summary([3.0])) == "3"
    assert measure.Pass(2.0, 4_000_000).rate == 2.0


def test_the_text_table_is_aligned() -> None:
    text = report.aligned(["name", "n", "note"], [["a", "10", "x"], ["long", "9", "yy"]], ["note"])
    assert text.split("\n") == ["name   n  note", "----  --  ----", "a     10  x", "long   9  yy"]


def test_a_timed_pass_is_whole_and_after_what_was_read_ahead() -> None:
    taken = []

    class Endless:
        def get(self) -> FakeGuard:
            taken.append(64)
            return FakeGuard(np.zeros((64, 1)))

        def close(self) -> None:
            taken.append(0)

    class Streamer:
        def get_queue(self, _path: str, n_procs: int, cyclic: bool) -> Endless:
            assert cyclic
            return Endless()

        def get_generator(self, _path: str, n_procs: int, cyclic: bool) -> Iterator[int]:
            assert cyclic
            while True:
                taken.append(1)
                yield 0

    ahead_rows = 2 * stream_loop.AHEAD_BYTES // 2**20
    told: list[int] = []
    passes = stream_loop.timed_passes(Streamer(), "/x", "queue", 2, 3, 6400, 2**20, told.append)
    assert [decoded for _, decoded in passes] == [6400 * 2**20] * 3
    assert sum(taken) == -(-ahead_rows // 64) * 64 + 3 * 6400
    assert taken[-1] == 0
    assert sum(told) == 3 * 6400 * 2**20

    taken.clear()
    passes = stream_loop.timed_passes(Streamer(), "/x", "generator", 2, 1, 777, 2**20)
    assert [decoded for _, decoded in passes] == [777 * 2**20]
    assert sum(taken) == ahead_rows + 777


# ---- the environment, and the files


def test_the_mount_of_a_file() -> None:
    mounts = (
        "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "22 21 0:5 / /data\\040x rw - xfs /dev/sdb rw\n"
        "23 21 0:6 / /data\\040x/tmp rw - tmpfs none rw\n"
    )
    assert environment.mount_of("/home/x", mounts) == ("/dev/sda1", "/", "ext4")
    assert environment.mount_of("/data x/y", mounts).kind == "xfs"
    assert environment.mount_of("/data x/tmp/y", mounts).kind == "tmpfs"
    assert environment.mount_of("/data x/tmpy", mounts).kind == "xfs"


def test_huge_pages_are_counted() -> None:
    meminfo = "HugePages_Total:  5\nHugePages_Free:  3\nHugepagesize:  2048 kB\nHugetlb: 9 kB\n"
    assert environment.huge_pages(meminfo) == (3, 2**21)
    assert environment.huge_pages("MemTotal:  1 kB\n") == (0, 0)


def test_the_facts_are_all_there(tmp_path: Path) -> None:
    facts = environment.facts(str(tmp_path))
    assert all(facts.values())
    assert {"machine", "cores", "device", "filesystem", "kernel", "versions"} <= set(facts)


def test_the_same_workload_is_the_same_file(tmp_path: Path) -> None:
    first = workloads.in_directory(TINY, str(tmp_path))
    again = str(tmp_path / "again.h5")
    workloads.write(TINY, again)
    assert workloads.holds(TINY, first)
    assert workloads.holds(TINY, again)
    with tables.open_file(first) as one, tables.open_file(again) as other:
        assert np.array_equal(one.root.data[:], other.root.data[:])
    other_filter = Workload("tiny", TINY.rows, TINY.columns, complevel=4)
    assert not workloads.holds(other_filter, first)
    assert workloads.in_directory(TINY, str(tmp_path)) == first


def test_the_memory_of_a_process_is_watched() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        with measure.peak_memory(os.getpid()) as peaks:
            wait_until(lambda: child.pid in peaks and os.getpid() in peaks, "both processes")
        assert peaks[child.pid].own_bytes > 0
        child.kill()
