"""References whose chunks lie in several files, beside some that are in the references.

Law
---
1. h5py is the oracle. A fault of one of the files is an error that names it.
"""

from __future__ import annotations

import itertools
import os
import zlib
from pathlib import Path
from typing import Any

import h5py
import many_targets
import numpy as np
import pytest
from kerchunk_files import read_here
from many_targets import NAMES, combined, expected, fill_files

import multitables
from _multitables.index.datasets.source import open_source

WRITERS: dict[str, Any] = {".json": many_targets.write_json, ".parq": many_targets.write_parquet}


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return fill_files(tmp_path)


def written(paths: list[Path], suffix: str = ".json", inline_every: int = 0) -> Path:
    refs = combined(paths, str, inline_every)
    return WRITERS[suffix](refs, paths[0].with_name(f"all{suffix}"))  # type: ignore[no-any-return]


@pytest.mark.parametrize("inline_every", [0, 1, 2, 3])
@pytest.mark.parametrize("suffix", WRITERS)
def test_chunks_in_several_files(paths: list[Path], suffix: str, inline_every: int) -> None:
    references = written(paths, suffix, inline_every)
    with multitables.open(references) as file:
        for name in NAMES:
            np.testing.assert_array_equal(file[name][...], expected(paths, name))
            np.testing.assert_array_equal(file[name][5:19:3, 2], expected(paths, name)[5:19:3, 2])
        assert file["scalar"][()] == len(paths) - 1
    for options in ({}, {"DRIVER": "H5FD_DIRECT"}):
        streamer = multitables.Streamer(references, **options)
        for name in NAMES:
            np.testing.assert_array_equal(read_here(references, name), expected(paths, name))
            with streamer.get_queue(f"/{name}", n_procs=2, remainder=True) as queue:
                rows: list[Any] = []
                for guard in queue:
                    with guard as block:
                        rows += block.tolist()
            assert rows == expected(paths, name).tolist()


def test_whole_files(tmp_path: Path) -> None:
    paths, refs, data = many_targets.whole_files(tmp_path)
    references = many_targets.write_json(refs, tmp_path / "all.json")
    with multitables.Reader(references, n_procs=1) as reader:
        np.testing.assert_array_equal(reader.request(reader.get_dataset("raw")[:]).get(), data)
        size = paths[2].stat().st_size
        data[2] = 7
        paths[2].write_bytes(zlib.compress(data[2].tobytes()))
        assert paths[2].stat().st_size < size
        np.testing.assert_array_equal(reader.request(reader.get_dataset("raw")[:]).get(), data)


def test_names_of_one_file_are_one_target(paths: list[Path]) -> None:
    """With and without a scheme, beside the references and absolute."""
    names = itertools.cycle(["{0}", "file://{0}", "{1}"])
    refs = combined(paths[:1], lambda path: next(names).format(path, path.name))
    references = many_targets.write_json(refs, paths[0].with_name("all.json"))
    assert {value[0] for value in refs.values() if isinstance(value, list)} == {
        str(paths[0]), f"file://{paths[0]}", paths[0].name,
    }  # fmt: skip
    index = open_source(references, {}).index("rows")
    assert not index.chunks["source"].any()
    assert [file.filename for file in index.files] == [str(paths[0])]
    with multitables.Reader(references, n_procs=1) as reader:
        dataset = reader.get_dataset("rows")
        got = reader.request(dataset[:8]).get()
    np.testing.assert_array_equal(got, expected(paths[:1], "rows"))


def test_a_file_that_is_missing(paths: list[Path]) -> None:
    references = written(paths)
    paths[1].unlink()
    said = rf"no such file: '{paths[1]}', to which the references '{references}' refer"
    with multitables.open(references) as file:
        assert file["rows"].shape == expected([paths[0]] * 3, "rows").shape
        assert file["scalar"][()] == 2
        with pytest.raises(multitables.MissingFileError, match=said):
            file["rows"][...]
    paths[0].unlink()
    with pytest.raises(multitables.MissingFileError, match=f"no such file: '{paths[0]}', to which"):
        multitables.open(references)


def test_a_file_that_is_truncated(paths: list[Path]) -> None:
    references = written(paths)
    os.truncate(paths[2], 3000)
    with pytest.raises(multitables.FileOpenError, match=f"'{paths[2]}' is truncated: '/plain'"):
        read_here(references, "plain")


@pytest.mark.parametrize("number", range(many_targets.N_FILES))
def test_a_file_that_changes(paths: list[Path], number: int) -> None:
    references = written(paths)
    with multitables.Reader(references, n_procs=1) as reader:
        dataset = reader.get_dataset("plain")
        with h5py.File(paths[number], "r+") as file:
            file["plain"][:2] = 7  # its chunks stay where they are
        os.utime(paths[number], (1, 1))
        with pytest.raises(multitables.FileChangedError, match=str(paths[number])):
            reader.request(dataset[:]).get()
        again = reader.request(reader.get_dataset("plain")[:]).get()
    np.testing.assert_array_equal(again, expected(paths, "plain"))
    assert np.all(again[number * 8 : number * 8 + 2] == 7)


def test_a_folder_for_a_file(paths: list[Path]) -> None:
    references = written(paths)
    paths[1].unlink()
    paths[1].mkdir()
    with pytest.raises(multitables.FileOpenError, match=f"'{paths[1]}' is a folder"):
        read_here(references, "rows")
