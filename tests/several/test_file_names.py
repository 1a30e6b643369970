"""Which files a name means.

1. A name that exists is a file; another one with wildcards is a pattern, in a list too.
2. Matches are sorted by name, with numbers in order.
3. What is no name is refused by name, in all that takes one.
"""

from __future__ import annotations

import copy
import io
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables
from multitables import OptionsError, Streamer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for number, name in enumerate(["f10.h5", "f9.h5", "f09.h5", "g.h5", "a[1].h5", "sub/f2.h5"]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with h5py.File(tmp_path / name, "w") as file:
            file["x"] = [number]
    (tmp_path / "f1.h5").mkdir()  # no file
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(streamer: Streamer) -> list[int]:
    return [int(row) for row in streamer.get_generator("/x", n_procs=1)]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("f*.h5", ["f09.h5", "f9.h5", "f10.h5"]),
        (Path("f*.h5"), ["f09.h5", "f9.h5", "f10.h5"]),
        (b"f*.h5", ["f09.h5", "f9.h5", "f10.h5"]),
        (["g.h5", "f?.h5", Path("f10.h5")], ["g.h5", "f9.h5", "f10.h5"]),
        (["g.h5", "g.h5"], ["g.h5", "g.h5"]),
        (("a[1].h5", "g.h5"), ["a[1].h5", "g.h5"]),
        (Path().glob("sub/*.h5"), "sub/f2.h5"),
        ("**/f2.h5", "sub/f2.h5"),
        ("g*", "g.h5"),
        (["g.h5"], "g.h5"),
        ("a[1].h5", "a[1].h5"),
        ("f[9].h5", "f9.h5"),
    ],
)
def test_what_a_name_means(folder: Path, given: Any, names: Any) -> None:
    streamer = Streamer(given)
    assert streamer.filename == names
    wanted = []
    for name in names if isinstance(names, list) else [names]:
        with h5py.File(name) as file:
            wanted += file["x"][:].tolist()
    assert rows(streamer) == wanted


def test_titles(folder: Path) -> None:
    assert (
        repr(Streamer("f*.h5"))
        == "<Streamer of 3 files 'f09.h5' ... 'f10.h5': 0 open queues, open>"
    )
    with Streamer("f*.h5").get_queue("/x", n_procs=1) as queue:
        where = f"in 3 files '{folder}/f09.h5' ... '{folder}/f10.h5': "
        assert repr(queue).startswith(f"<StreamQueue of '/x' (3,) {where}")
    batches = Streamer("f*.h5").get_batches("/x", 2, n_procs=1)
    assert repr(batches).startswith("<Batches of '/x' in 3 files 'f09.h5' ... 'f10.h5': ")
    batches.close()
    with pytest.raises(multitables.ClosedError, match="of 3 files 'f09"):
        iter(batches)


def test_nothing_is_named(folder: Path) -> None:
    for given in ("h*.h5", ["g.h5", "h*.h5"]):
        with pytest.raises(multitables.MissingFileError, match=r"no file matches 'h\*.h5'"):
            Streamer(given)
    with pytest.raises(OptionsError, match="at least one file, got an empty list"):
        Streamer([])
    with pytest.raises(multitables.MissingFileError, match=r"no such file: .*h.h5"):
        Streamer(["g.h5", "h.h5"]).get_queue("/x")


def test_what_takes_one_file(folder: Path) -> None:
    names = ["f9.h5", "g.h5"]
    with pytest.raises(OptionsError, match="index_file takes one file"):
        multitables.index_file(names)  # type: ignore[arg-type]
    streamer = Streamer(names)
    for option, wanted in (("version", 0), ("version", "r1"), ("version", ["a"]), ("follow", True)):
        with pytest.raises(OptionsError, match=f"{option}=.*got 2 files 'f9.h5'") as caught:
            streamer.get_queue("/x", **{option: wanted})
        assert caught.value.values["option"] == option
    with pytest.raises(OptionsError, match="version='r1'"):
        streamer.get_batches("/x", 1, version="r1")
    with pytest.raises(OptionsError, match="version='r1'"):
        streamer.get_remainder("/x", 1, version="r1")
    with pytest.raises(OptionsError, match="H5FD_SPLIT"):
        Streamer(names, DRIVER="H5FD_SPLIT").get_queue("/x")
    with pytest.raises(OptionsError, match="DRIVER"):
        Streamer(names, DRIVER="H5FD_MPIO").get_queue("/x")


def test_what_is_kept_is_what_the_files_are_now(folder: Path) -> None:
    with Streamer(["f9.h5", "g.h5"]) as streamer:
        assert rows(streamer) == rows(streamer) == [1, 3]
        for name, number in (("g.h5", 30), ("f9.h5", 10)):
            os.remove(name)
            with h5py.File(name, "w") as file:
                file["x"] = [number, number + 1]
            assert rows(streamer)[-2:] == [30, 31]
        assert rows(streamer) == [10, 11, 30, 31]


@pytest.mark.parametrize("given", ["g.h5", ["g.h5", Path("f9.h5")], "f*.h5"])
def test_pickles_of_streamers(folder: Path, monkeypatch: pytest.MonkeyPatch, given: Any) -> None:
    """The same files, from anywhere; not the streams, which are the process's."""
    streamer = Streamer(given, trusted=False)
    want = rows(streamer)
    with streamer:
        queue = streamer.get_queue("/x", n_procs=1, block_size=1)
        pickled = pickle.dumps(streamer)
        monkeypatch.chdir("/")
        same = pickle.loads(pickled)
        assert repr(same) == repr(streamer).replace("1 open queue", "0 open queues")
        assert rows(same) == rows(copy.copy(same)) == want
        del queue
    with pytest.raises(multitables.ClosedError):
        pickle.dumps(streamer)


NO_NAMES: dict[str, tuple[Any, str]] = {
    "bytes in memory": (io.BytesIO(b"/etc/host*\n"), r"a file object \(BytesIO\).*/dev/shm"),
    "lines": (io.StringIO("https://example.org/x.h5"), "a file object"),
    "mapping": ({"g.h5": 1}, "an object of type dict"),
    "set": ({"g.h5"}, "an object of type set"),
    "array": (np.array(["g.h5"]), "an object of type ndarray"),
    "number": (5, "an object of type int"),
    "nothing": (None, "an object of type NoneType"),
    "numbers": ([5], "an object of type int"),
    "list in a list": ([["g.h5"]], "an object of type list"),
    "file objects": ([io.BytesIO(b"g.h5")], "a file object"),
}
TAKERS: dict[str, Any] = {
    "Streamer": Streamer,
    "Reader": multitables.Reader,
    "open": multitables.open,
    "read": lambda name: multitables.read(name, "/x"),
    "index_file": multitables.index_file,
    "versions": multitables.versions,
    "measure_limit": lambda name: multitables.measure_limit(name, "/x"),
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("case", NO_NAMES)
def test_what_is_no_name(folder: Path, case: str, taker: str) -> None:
    given, what = NO_NAMES[case]
    if taker in ("open", "read") and hasattr(given, "read"):
        pytest.skip("takes file objects")
    takes_several = taker in ("Streamer", "Reader") or not isinstance(given, list)
    with pytest.raises(OptionsError, match=what if takes_several else "takes one file"):
        TAKERS[taker](given)


@pytest.mark.parametrize("taker", sorted(TAKERS.keys() - {"open", "read"}))
def test_what_is_open_already(folder: Path, taker: str) -> None:
    with open("g.h5", "rb") as raw, h5py.File("g.h5") as theirs, multitables.open("g.h5") as ours:
        with pytest.raises(OptionsError, match=r"a file object \(BufferedReader\)\. Give its name"):
            TAKERS[taker](raw)
        with pytest.raises(OptionsError, match=r"an open file \(File\)\. Give its name, which is"):
            TAKERS[taker](theirs)
        with pytest.raises(OptionsError, match=r"an open file \(File\)"):
            TAKERS[taker](ours)


def test_what_is_behind_a_link_and_two_dots(folder: Path) -> None:
    (folder / "sub" / "deep").mkdir()
    (folder / "link").symlink_to("sub/deep")
    name = "link/../f2.h5"  # of sub, as the system has it
    with h5py.File("links.h5", "w") as file:
        file["x"] = h5py.ExternalLink(name, "x")
    with h5py.File("f2.h5", "w") as file:
        file["x"] = [99]
    assert rows(Streamer(name)) == [5]
    assert rows(Streamer("link/../f?.h5")) == [5]
    assert multitables.read(name, "x").tolist() == [5]
    with multitables.Reader(name, n_procs=1) as reader, multitables.open("links.h5") as file:
        assert reader.request(reader.get_dataset("/x")[:]).get().tolist() == [5]
        assert file["x"][:].tolist() == [5]


@pytest.mark.parametrize("take", [Streamer, multitables.open, multitables.Reader])
def test_no_name_has_a_nul(take: Any) -> None:
    with pytest.raises(OptionsError, match="NUL"):
        take("a\0b.h5")


def test_a_pipe_is_no_file(folder: Path) -> None:
    os.mkfifo("pipe.h5")
    os.mkfifo("pipe.json")
    assert not multitables.is_hdf5("pipe.h5")
    for name in ("pipe.h5", "pipe.json"):
        with pytest.raises(multitables.FileOpenError, match="not a regular file"):
            multitables.open(name)


def test_an_open_file_is_not_another_one_of_its_name(folder: Path) -> None:
    with multitables.open("g.h5") as file:
        before = file["x"].batches(1, n_procs=1)
        os.replace("f9.h5", "g.h5")
        for batches in (before, file["x"].batches(1, n_procs=1)):
            with pytest.raises(multitables.FileChangedError, match="after it was opened"):
                list(batches)
        with pytest.raises(multitables.FileChangedError):
            file["x"].stream(n_procs=1)
    assert rows(Streamer("g.h5")) == [1]


@pytest.mark.parametrize("odd", [3, ["x"], object(), True])
def test_what_is_no_path(folder: Path, odd: Any) -> None:
    streamer = Streamer("g.h5")
    with multitables.open("g.h5") as file:
        for call in (
            lambda: streamer.get_collection(odd),
            lambda: streamer.get_columns(odd, index="x"),
            lambda: streamer.get_columns("/", index=[odd]),
            lambda: streamer.get_batches("/x", 1, field=odd),
            lambda: streamer.get_queue("/x", field=odd),
            lambda: file.walk(odd),
        ):
            with pytest.raises(OptionsError):
                call()


def test_a_closed_streamer_has_no_batches(folder: Path) -> None:
    with Streamer("g.h5") as streamer:
        pass
    with pytest.raises(multitables.ClosedError):
        streamer.get_batches("/x", 1)


def test_names_as_shells_and_urls_have_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    shutil.copy("g.h5", "a b.h5")
    spelled = ["~/a b.h5", f"file://{folder}/a%20b.h5", f"FILE://localhost{folder}/a%20b.h5"]
    for name in spelled:
        assert multitables.is_hdf5(name)
        assert (
            multitables.read(name, "x").tolist() == rows(Streamer(name)) == rows(Streamer("g.h5"))
        )
    assert Streamer(["~/f*.h5", spelled[0]]).filename[-1] == str(folder / "a b.h5")
    (folder / "file:").mkdir()
    shutil.copy("f9.h5", "file:/g.h5")
    shutil.copy("f9.h5", "~")
    for name in ("file:/g.h5", "file://g.h5", "~"):  # there are files of these names
        assert multitables.read(name, "x").tolist() == rows(Streamer("f9.h5"))


@pytest.mark.parametrize("take", [Streamer, multitables.open, multitables.Reader])
def test_names_of_no_store(folder: Path, take: Any) -> None:
    for name in ("ftp://host/x.h5", "simplecache::s3://bucket/x.h5", "S4://bucket/x.h5"):
        scheme = name.partition("://")[0].lower()
        with pytest.raises(OptionsError, match=rf"begin with '{scheme}', .*file, s3, .*gcs, az"):
            take(name)
    with pytest.raises(OptionsError, match="a file:// name has no host"):
        take("file://host/x.h5")
