"""Collections of several files.

1. They have the datasets of all, with scales and attributes, as h5py reads them; or an item for
   each file.
2. Few files are open at a time, and an error names its file.
"""

from __future__ import annotations

import collections
import os
import pickle
from pathlib import Path
from typing import Any

import h5py
import pytest
import shot_files
from shot_files import PATTERN

import multitables
from multitables import OptionsError, Streamer

PARTS = ((9, 1050003), (10,), (1050001, 1050002))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("parts")
    return [
        shot_files.write(folder / f"run{number}.h5", shots)
        for number, shots in enumerate(PARTS, start=8)
    ]


@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("order", ["random", "file", "key"])
@pytest.mark.parametrize("indexed", [False, True])
def test_items_of_all_files(parts: list[Path], by: int, order: str, indexed: bool) -> None:
    if indexed:
        multitables.index_file(parts[1], progress=False)
    try:
        check_union(parts, by, order)
    finally:
        Path(f"{parts[1]}.mtidx").unlink(missing_ok=True)


def check_union(parts: list[Path], by: int, order: str) -> None:
    files = [h5py.File(path) for path in parts]
    expected: dict[str, dict[str, h5py.Dataset]] = collections.defaultdict(dict)
    for file in files:
        for shot, group in file["shots"].items():
            for name, data in group["signals"].items():
                expected[(shot, name)[by]][(name, shot)[by]] = data
    items = Streamer(parts).get_collection(PATTERN, by, order=order, n_procs=2, attrs=("shot",))
    came = []
    for item in items:
        came.append(item.key)
        shot_files.same_item(item, expected[item.key])
        for name, data in expected[item.key].items():
            assert item.attrs[name] == {
                one: data.attrs[one] for one in {"shot"} & data.attrs.keys()
            }
    assert sorted(came) == sorted(expected)
    assert came == items.order(0)
    if order == "file" and by == 0:
        of_file = [int(key) for key in came]
        assert [next(n for n, shots in enumerate(PARTS) if one in shots) for one in of_file] == [
            n for n, shots in enumerate(PARTS) for _ in shots
        ]
    for file in files:
        file.close()


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("alike")
    kinds = {name: shot_files.KINDS[name] for name in ("gzip", "table", "virtual", "compact")}
    return [shot_files.write(folder / f"{name}.h5", (7,), kinds) for name in "abc"]


def test_an_item_of_each_file(alike: list[Path]) -> None:
    streamer = Streamer(str(alike[0].parent / "*.h5"))
    items = streamer.get_collection("/shots/7/signals/*", by="file", n_procs=2, epochs=2)
    assert items.keys == [str(path) for path in alike]
    n_items = 0
    for item in items:
        n_items += 1
        with h5py.File(item.key) as file:
            shot_files.same_item(item, dict(file["shots/7/signals"].items()))
    assert n_items == 6
    one = Streamer(alike[0]).get_collection("/shots/7/signals/*", by="file")
    assert one.keys == [str(alike[0])]
    plain = streamer.get_collection("/shots/7/signals/gzip", by="file", scales=False)
    assert [list(item) for item in plain] == [["gzip"]] * 3


def test_ranks_states_and_copies_elsewhere(alike: list[Path]) -> None:
    def made(**options: Any) -> Any:
        return Streamer(alike).get_collection("/shots/7/signals/*", by="file", **options)

    ranks = [made(rank=rank, world_size=2, n_procs=1) for rank in range(2)]
    keys = [next(iter(one)).key for one in ranks]
    rest = made(n_procs=1)
    rest.load_state_dict([one.state_dict() for one in ranks])
    keys += [item.key for item in rest]
    assert sorted(keys) == sorted(map(str, alike))
    for one in ranks:
        one.close()
    with pickle.loads(pickle.dumps(rest)) as copied:
        assert sorted(item.key for item in copied) == sorted(map(str, alike))


def test_a_dataset_is_in_one_file(alike: list[Path]) -> None:
    streamer = Streamer(alike)
    with pytest.raises(OptionsError, match=r"'/shots/7/signals/\w+' is in .*a.h5' and .*b.h5'"):
        streamer.get_collection(PATTERN)
    with pytest.raises(OptionsError, match="one file"):
        Streamer([alike[0], alike[0]]).get_collection("/shots/7/signals/*", by="file")
    with pytest.raises(OptionsError, match="expected 'file', or less than the 2 wildcards"):
        streamer.get_collection(PATTERN, by="name")


def test_files_without_a_match_are_passed_over(parts: list[Path], alike: list[Path]) -> None:
    items = Streamer([*alike, *parts]).get_collection("/shots/10/signals/*", by=0, scales=False)
    with h5py.File(parts[1]) as file:
        assert sorted(items.keys) == sorted(file["shots/10/signals"])
        assert len(list(items)) == len(file["shots/10/signals"])
    with pytest.raises(multitables.MissingDatasetError, match=r"a\.h5"):
        Streamer(alike).get_collection("/nothing/*")


def test_damage_and_changes_name_their_file(tmp_path: Path) -> None:
    kinds = {"gzip": shot_files.KINDS["gzip"], "plain": shot_files.KINDS["plain"]}
    paths = [shot_files.write(tmp_path / f"{name}.h5", (7,), kinds) for name in "abc"]
    with h5py.File(paths[1]) as file:
        chunk = file["shots/7/signals/gzip"].id.get_chunk_info(0)
    with paths[1].open("r+b") as raw:
        raw.seek(chunk.byte_offset)
        raw.write(b"\xff\x00\xff\x00")
    streamer = Streamer(paths)
    items = streamer.get_collection("/shots/7/signals/*", by="file", order="key", n_procs=1)
    with pytest.raises(multitables.CorruptChunkError, match=r"b\.h5"):
        list(items)
    skipped = streamer.get_collection(
        "/shots/7/signals/*", by="file", order="key", n_procs=1, skip_damaged=True
    )
    with pytest.warns(multitables.CorruptChunkWarning, match=r"b\.h5"):
        found = [sorted(item) for item in skipped]
    assert found == [["gzip", "plain"], ["plain"], ["gzip", "plain"]]
    sound = Streamer([paths[0], paths[2]])
    items = sound.get_collection("/shots/7/signals/*", by="file", n_procs=1)
    os.utime(paths[2], ns=(0, 0))
    with pytest.raises(multitables.FileChangedError, match=r"c\.h5"):
        list(items)


def test_few_files_are_open(tmp_path: Path) -> None:
    kinds = {"gzip": shot_files.KINDS["gzip"], "text": shot_files.LONE["text"]}
    paths = [shot_files.write(tmp_path / f"{n}.h5", (n,), kinds) for n in range(150)]
    before = len(os.listdir("/proc/self/fd"))
    items = Streamer(paths).get_collection(PATTERN, n_procs=1)
    assert len(os.listdir("/proc/self/fd")) < before + 20
    keys = [item.key for item in items]
    assert len(os.listdir("/proc/self/fd")) < before + 60
    assert sorted(map(int, keys)) == list(range(150))
