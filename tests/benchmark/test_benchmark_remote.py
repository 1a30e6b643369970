"""The study of objects: its files, its loops, its counts, and contenders that read wrongly.

Law
---
1. What needs a server is skipped without one. Nothing here is timed, and no figure is compared with
   another.
2. Rivals that are not installed are left out, as in a run of the study.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from runs import left_behind, measured, rows_of, study_run

import multitables_benchmark
from _multitables.benchmark.contenders import random_keys
from _multitables.benchmark.contenders import remote_contenders as people
from _multitables.benchmark.contenders.remote_contenders import Place, counted
from _multitables.benchmark.contenders.shots_contenders import items_of
from _multitables.benchmark.contract import ContenderError, NotMeasuredError, Sample, WrongDataError
from _multitables.benchmark.data import shots, structures, workloads
from _multitables.benchmark.data.shots import LAYOUTS, PATTERN, ShotsFile
from _multitables.benchmark.data.structures import ManyDatasets
from _multitables.benchmark.data.workloads import PATH
from _multitables.benchmark.loops import hdf5_remote_loop, remote_clock, store_options
from _multitables.benchmark.objects.faults import Request
from _multitables.benchmark.objects.file_server import file_server
from _multitables.benchmark.objects.server import NoServerError
from _multitables.benchmark.objects.store import Store
from _multitables.benchmark.studies.remote import own, parts, study
from _multitables.benchmark.studies.setting import Setting
from _multitables.remote import client
from _multitables.remote.options import OWN

WORKLOAD = parts.workload("zlib", 0, chunk_rows=64)
SHOTS = ShotsFile("shots", 3, 4, "shot")
HAS_S3FS = importlib.util.find_spec("s3fs") is not None


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    try:
        made = Store(tmp_path_factory.mktemp("store"))
    except NoServerError as error:
        pytest.skip(str(error))
    with made:
        yield made


@pytest.fixture(scope="module")
def rows_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return workloads.in_directory(WORKLOAD, str(tmp_path_factory.mktemp("rows")))


# ---- the files


def test_both_layouts_hold_the_same(tmp_path: Path) -> None:
    found = {}
    for layout in LAYOUTS:
        made = ShotsFile(f"shots_{layout}", 3, 4, layout)
        filename = shots.in_directory(made, str(tmp_path))
        assert shots.in_directory(made, str(tmp_path)) == filename
        found[layout] = [items_of(filename, by) for by in (0, 1)]
        with h5py.File(filename) as file:
            strategy = file.id.get_create_plist().get_file_space_strategy()[0]
            assert strategy == h5py.h5f.FSPACE_STRATEGY_PAGE
            signals = [file[f"shots/{made.shot_of(0)}/signals/signal{n:02}"] for n in range(4)]
            for one in signals:
                assert (one.nbytes > shots.PLAIN_BYTES) == (one.compression == "gzip")
                assert len(one.dims[0][0]) == len(one)
            offsets = [
                file[path].id.get_offset() or 0 for path in found[layout][0].groups["1050001"]
            ]
            assert len(offsets) == 4
    assert found["shot"] == found["signal"]
    assert set(found["shot"][0].groups) == {"1050001", "1050002", "1050003"}
    with pytest.raises(FileExistsError, match="holds something else"):
        shots.in_directory(ShotsFile("shots_shot", 2, 4, "shot"), str(tmp_path))


def test_shots_share_time_bases() -> None:
    many = ShotsFile("x", 1, 62, "shot")
    bases = [many.time_base(signal) for signal in range(62)]
    assert bases[1::2] == list(range(1, 62, 2))
    assert set(bases[::2]) == set(range(0, 2 * shots.TIME_BASES, 2))
    assert many.lengths().max() > 10 * np.median(many.lengths())  # the tail


def test_larger_datasets_have_as_many_chunks(tmp_path: Path) -> None:
    made = ManyDatasets("many", 8, "paged", times=3)
    with h5py.File(structures.in_directory(made, str(tmp_path))) as file:
        for path, (shape, _, chunk_rows, _) in zip(made.paths(), structures.KINDS * 2, strict=True):
            assert file[path].shape == (3 * shape[0], *shape[1:])
            assert (file[path].chunks or (0,))[0] == 3 * chunk_rows


# ---- what is counted and needed


def test_what_lies_between_the_marks_is_counted() -> None:
    def request(path: str, method: str = "GET", n_bytes: int = 0) -> Request:
        return Request(method, path, "", 200, n_bytes)

    mark = request(remote_clock.PATH, "HEAD")
    log = [request("/before", n_bytes=7), mark, request("/x", "HEAD"), request("/x", n_bytes=9)]
    assert counted([*log, mark, request("/after", n_bytes=5)]) == {
        "requests": 2,
        "heads": 1,
        "n_bytes": 9,
    }
    with pytest.raises(WrongDataError, match="1 marks"):
        counted(log)


def test_figures_are_of_right_data_only() -> None:
    assert people.rate(10**6)({"n": 10**6, "seconds": 0.5}).value == 2
    assert people.seconds([2, 9])({"n": [2, 9], "seconds": 0.5}).value == 0.5
    for figure in (people.rate(9), people.seconds(9), people.download_rate(1, 9)):
        with pytest.raises(WrongDataError, match="expected 9"):
            figure({"n": 8, "seconds": 0.5})


def test_batches_must_be_right() -> None:
    oracle = random_keys.oracle(WORKLOAD)
    draw = random_keys.coordinates(WORKLOAD.rows, 2, 3)
    found = {"n_keys": 2, "seconds": 0.5, "digest": oracle.first_words(draw.rows())}
    assert people.batch_rate(draw, oracle)(found) == Sample(4)
    numbers = list(range(512))
    found = {"n_keys": 2, "seconds": 0.5, "digest": oracle.first_words(numbers)}
    assert people.epoch_rate(512, oracle)({**found, "numbers": numbers}) == Sample(4)
    with pytest.raises(WrongDataError, match="different rows"):
        people.epoch_rate(512, oracle)({**found, "numbers": [0, *numbers[:-1]]})
    with pytest.raises(WrongDataError, match="data differs"):
        people.epoch_rate(512, oracle)({**found, "numbers": [*numbers[1:], 600]})
    with pytest.raises(WrongDataError):
        people.batch_rate(random_keys.coordinates(WORKLOAD.rows, 2, 4), oracle)(found)


def test_parts_come_together_in_order() -> None:
    assert hdf5_remote_loop.together("batches", [[0, 2, 4], [1, 3]]) == [0, 1, 2, 3, 4]
    assert hdf5_remote_loop.together("whole", [5, 7]) == [5, 7]


# ---- what is read


def everybody(
    place: Place, task: str, recipe: str, in_order: bool = True, **asked: Any
) -> list[Any]:
    """This library and, where it is installed, h5py over s3fs."""
    figure = people.seconds(None)
    mine = people.ours(place, "multitables", recipe, task, figure, in_order, **asked)
    theirs = people.theirs(place, task, figure, in_order, **asked)
    return [mine, *theirs[: int(HAS_S3FS)]]


def test_all_read_the_same_rows(store: Store, rows_file: str) -> None:
    place = Place(store, store.put(rows_file, "rows.h5"), 2)
    oracle = random_keys.oracle(WORKLOAD)
    for one in everybody(place, "whole", "queue", path=PATH):
        assert one.check() == oracle.rows(np.arange(WORKLOAD.rows))
    draw = random_keys.coordinates(WORKLOAD.rows, 3, 1)
    for one in everybody(place, "batches", "reader", path=PATH, batches=draw.batches):
        assert one.check() == oracle.rows(draw.rows())
        found = one.one.ask("time")
        assert found["digest"] == oracle.first_words(draw.rows())
        assert found["n_keys"] == 3


def test_an_epoch_has_every_row_once(store: Store, rows_file: str) -> None:
    place = Place(store, store.put(rows_file, "rows.h5"), 2)
    asked = {"path": PATH, "batch_rows": 256}
    oracle = random_keys.oracle(WORKLOAD)
    figure = people.epoch_rate(WORKLOAD.rows, oracle)
    one = people.ours(place, "multitables", "batches", "batches", figure, False, **asked)
    found = one.check()
    assert found is not None
    assert found["any_order"] == oracle.rows(np.arange(WORKLOAD.rows))["any_order"]
    sample = one.measure()
    assert sample.value > 0
    assert sample.more["requests"] > 0


def test_all_tell_the_same_datasets(store: Store, tmp_path: Path) -> None:
    filename = structures.in_directory(ManyDatasets("many", 60, "latest"), str(tmp_path))
    place = Place(store, store.put(filename, "many.h5"), 1)
    right = parts._structure(filename)["any_order"]
    for recipe, saved in (("structure", False), ("handle", False), ("structure", True)):
        asked = {"pattern": "/shots/*/*", "saved_index": saved, "with_chunks": True}
        some = everybody(place, "structure", recipe, False, **asked)
        for one in some[: None if recipe == "handle" else 1]:
            found = one.check()
            assert (found["rows"], found["any_order"]) == (60, right)
    sample = people.Counted(some[0].one, store).one.ask("time")
    assert sample["n"] == 60
    store.take_log()
    some[0].one.ask("time")
    counts = counted(store.take_log())
    assert (counts["requests"], counts["heads"]) == (1, 1)  # the saved index makes it one HEAD


@pytest.mark.parametrize("by", [0, 1])
def test_all_read_the_same_shots(store: Store, tmp_path: Path, by: int) -> None:
    filename = shots.in_directory(SHOTS, str(tmp_path))
    place = Place(store, store.put(filename, "shots.h5"), 2)
    right = items_of(filename, by)
    asked = {"pattern": PATTERN, "by": by, "items": right.groups}
    for one in everybody(place, "items", "items", False, **asked):
        found = one.check()
        assert (found["rows"], found["any_order"]) == (
            right.digest["rows"],
            right.digest["any_order"],
        )
        assert one.one.ask("time")["n"] == right.counts


def test_wrong_rows_are_a_fault(
    store: Store, rows_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "theirs", lambda *_args, **_more: [])
    right = random_keys.oracle
    monkeypatch.setattr(random_keys, "oracle", lambda one: _Wrong(right(one)))
    setting = Setting(str(tmp_path), 1, 0, ("zlib",), (2,))
    run = measured(study_run(tmp_path, *parts.whole(setting, parts.Remote(store, ""))))
    assert [one["contender"] for one in run.faults] == [parts.QUEUE, parts.KEPT]
    assert "data differs" in run.faults[0]["fault"]
    assert {target.met for target in run.targets} == {None}


def test_each_way_to_read_shots_is_compared_with_its_own_rows(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "theirs", lambda *_args, **_more: [])
    monkeypatch.setattr(parts, "items_of", lambda filename, _by: items_of(filename, 0))
    sizes = {"shots": 3, "signals": 4}
    setting = Setting(str(tmp_path), 1, processes=(2,), sizes=sizes, smoke=True)
    run = measured(study_run(tmp_path, *parts.shot_files(setting, parts.Remote(store, ""))))
    (row,), (fault,) = run.results.rows, run.faults
    assert row["contender"].endswith(", by shot")
    assert fault["contender"].endswith(", by signal")
    best = "{contender} / {contender}".format(**row)  # of all ways, as no other has a number
    assert [target.met for target in run.targets if target.what.endswith(best)] == [True]


class _Wrong:
    """An oracle that takes all rows for the first."""

    def __init__(self, oracle: Any) -> None:
        self._oracle = oracle

    def rows(self, rows: Any) -> Any:
        return self._oracle.rows(np.zeros_like(rows))


# ---- the study


@pytest.mark.hang(240)
def test_smoke_of_objects(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(people, "theirs", lambda *_args, **_more: [])
    assert multitables_benchmark.main(["remote", "--smoke"]) == 0
    out = capsys.readouterr().out
    assert "FAILED" not in out
    assert "1 ms a request" in out
    kept = rows_of("remote")
    assert {row["part"] for row in kept} == set(parts.PARTS)
    assert {row["unit"] for row in kept} == {"MB/s", "batches/s", "s"}
    assert all(int(row["requests"]) > 0 for row in kept)
    counts = {row["contender"]: row["requests"] for row in kept if row["part"] == "opening"}
    assert counts[parts.INDEXED] == "1"
    assert left_behind(tmp_path) == []


def test_who_lacks_the_driver_is_told(store: Store, rows_file: str) -> None:
    place = Place(store, store.put(rows_file, "rows.h5"), 1)
    ros3 = people.theirs(place, "whole", people.rate(1), path=PATH)[-1]
    if not h5py.get_config().ros3:
        with pytest.raises(NotMeasuredError, match=r"ros3_env\.py"):
            ros3.check()


def test_without_a_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("MULTITABLES_S3_SERVER", str(tmp_path / "none"))
    assert multitables_benchmark.main(["remote", "--smoke"]) == 2
    assert "`python tools/s3_server.py` builds it" in capsys.readouterr().err


def test_the_tool_says_what_it_makes() -> None:
    tool = Path(__file__).parents[2] / "tools" / "ros3_env.py"
    if not tool.exists():
        pytest.skip("tools/ are not beside the tests")
    done = subprocess.run(
        [sys.executable, tool, "--help"], capture_output=True, text=True, check=True
    )
    assert "ROS3" in done.stdout


def test_the_wanted_figures_are_those_of_the_issue() -> None:
    assert (parts.MIN_WHOLE, parts.MIN_BATCHES, parts.MAX_REQUESTS) == (3, 5, 0.1)
    assert pytest.approx(1 / 1.3) == parts.MIN_OF_DOWNLOAD
    assert (parts.MAX_OF_BEST, parts.MIN_PUBLISHED) == (2, 3)
    assert study.N_DATASETS == 3000


# ---- an object of the user's own


def status_of(url: str, options: dict[str, Any], *more: str) -> int:
    words = ["remote", url, *more, "--storage_options", json.dumps(options)]
    return multitables_benchmark.main([*words, "--smoke"])


def has_secret(folder: Path, secret: str) -> bool:
    kept = [path.read_bytes() for path in folder.iterdir()]
    assert kept
    return any(secret.encode() in text for text in kept)


def test_an_object_of_the_user_is_measured(
    store: Store, rows_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = store.options
    assert status_of(store.put(rows_file, "rows.h5"), options) == 0
    out, err = capsys.readouterr()
    assert "FAILED" not in out
    oracle = people.S3FS if HAS_S3FS else "multitables.open"
    assert f"Rows compared with {oracle}." in out
    names = {parts.QUEUE, parts.KEPT, people.RANGES, *([people.S3FS] if HAS_S3FS else [])}
    assert "requests for metadata" in out
    kept = rows_of("remote")
    assert all(0 < float(row["stored_mb_per_s"]) < float(row["value"]) for row in kept)
    queue = [row for row in kept if row["contender"] == parts.QUEUE]
    assert all(int(row["metadata_requests"]) > 0 for row in queue)
    assert {row["contender"] for row in kept} == names
    assert {(row["part"], row["unit"], row["cache"]) for row in kept} == {("own", "MB/s", "")}
    assert kept[0]["object"] == f"s3://benchmark/rows.h5 {PATH}"
    assert f"region={options['region']}" in kept[0]["options"]
    secret = options["secret_access_key"]  # the other key is a word that is everywhere
    assert secret not in out + err
    assert not has_secret(tmp_path / "results", secret)


def test_only_the_first_rows_are_read(store: Store, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file.create_dataset("many", data=np.arange(4096.0).reshape(-1, 4), chunks=(100, 4))
        file["few"] = np.arange(8)
    url = store.put(str(tmp_path / "two.h5"), "two.h5")
    found = own.found(url, "many", store.options, 5000)
    assert (found.rows, found.all_rows, found.n_bytes) == (100, 1024, 3200)
    for task in ("queue", "kept queue", "slabs"):
        digest = found.ask("multitables", own.remote_loop, task, 1).check()
        assert digest is not None
        assert digest["rows"] == 100
    for path, wanted in ((None, "name one dataset"), ("many/x", "no dataset 'many/x'")):
        with pytest.raises(NotMeasuredError, match=rf"{wanted} of {url}. It holds /few, /many"):
            own.found(url, path, store.options, 5000)


def test_rows_of_an_object_must_be_right(
    store: Store,
    rows_file: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    right = own.Own.ask

    def ask(one: own.Own, name: str, *asked: Any, **more: Any) -> Any:
        fewer = one.rows - int(name == "multitables.open")
        return right(dataclasses.replace(one, rows=fewer), name, *asked, **more)

    monkeypatch.setattr(own.Own, "ask", ask)
    monkeypatch.setattr(own, "DRIVERS", {})
    assert status_of(store.put(rows_file, "rows.h5"), store.options) == 1
    out = capsys.readouterr().out
    assert f"{parts.QUEUE}: {WORKLOAD.rows} rows instead of {WORKLOAD.rows - 1}" in out


def test_a_web_server_is_measured(
    rows_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with file_server(Path(rows_file).parent) as endpoint:
        url = f"{endpoint}/{Path(rows_file).name}?signature=top-secret"
        options = {"headers": {"Authorization": "Bearer hidden-token"}}
        assert status_of(url, options, PATH) == 0
    client.forget_stores()  # they keep idle connections
    out, err = capsys.readouterr()
    assert people.RANGES in out
    for secret in ("top-secret", "hidden-token"):
        assert secret not in out + err
        assert not has_secret(tmp_path / "results", secret)


def test_what_is_no_object_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for url, wanted in (("rows.h5", "is no URL"), ("https://me:pw@host/x.h5", "a URL with a user")):
        assert status_of(url, {}) == 2
        assert wanted in capsys.readouterr().err
    assert status_of("s3://bucket/x.h5", {"cache_folder": "/tmp/x"}) == 2
    assert "a disk would be measured" in capsys.readouterr().err
    assert multitables_benchmark.main(["explain", "s3://bucket/x.h5"]) == 2
    assert "`multitables_benchmark.py remote URL`" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        multitables_benchmark.main(["remote", "s3://b/x.h5", "--storage_options", "hidden"])
    err = capsys.readouterr().err
    assert "not a JSON object" in err
    assert "hidden" not in err


def test_failures_of_others_are_told_by_their_types() -> None:
    class Failing:
        name = "obstore"

        def check(self) -> None:
            raise ContenderError("GenericError: <AWSAccessKeyId>AKIA</AWSAccessKeyId>")

    with pytest.raises(ContenderError, match=r"^GenericError; its message is not shown$") as caught:
        own._Quiet(Failing()).check()
    assert caught.value.__context__ is None


def test_options_are_passed_on() -> None:
    assert set(OWN) == store_options.LIBRARY
    given = {"aws_access_key_id": "a", "secret_access_key": "b", "region": "r", "endpoint": "e"}
    assert store_options.s3fs_arguments({**given, "request_payer": True, "max_requests": 4}) == {
        "key": "a",
        "secret": "b",
        "endpoint_url": "e",
        "anon": False,
        "requester_pays": True,
        "client_kwargs": {"region_name": "r"},
    }
    assert store_options.s3fs_arguments({"anonymous": True})["anon"]
    with pytest.raises(RuntimeError, match=r"'credential_provider'.* is not passed on to s3fs"):
        store_options.s3fs_arguments({"credential_provider": "a:b"})
