"""Options of streams and of files, as values: defaults, limits and messages.

1. No file is opened and no process started here.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
import tables
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import multitables
from _multitables import machine, options
from _multitables.index.files.open_options import normal_path, parse_open_options
from _multitables.plan import reader_options


def checked(**given: Any) -> reader_options.StreamOptions:
    return reader_options.stream_options(given)


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, procs in ((1, 1), (3, 3), (4, 4), (64, 4)):
        monkeypatch.setattr(reader_options, "available_cores", lambda cores=cores: cores)
        found = checked()
        for one, threads in ((found, None), (checked(n_procs=0), True)):
            assert (one.n_procs.count, one.n_procs.threads) == (procs, threads)
        assert found.read_ahead is None
        assert found.block_size is None
        assert (found.cyclic, found.ordered, found.remainder) == (False, False, False)


def test_what_was_checked_is_not_taken_for_an_equal_value_of_another_type() -> None:
    assert checked(block_size=1, max_wait_seconds=1) == checked(block_size=1, max_wait_seconds=1.0)
    with pytest.raises(multitables.OptionsError, match="block_size"):
        checked(block_size=True)
    with pytest.raises(multitables.OptionsError, match="max_wait_seconds"):
        checked(max_wait_seconds=True)
    versions: list[Any] = [1]
    assert checked(version=versions).version == (1,)
    versions[0] = True
    with pytest.raises(multitables.OptionsError, match="version"):
        checked(version=versions)


@pytest.mark.parametrize("number", [1, np.int64(1), np.uint8(1), np.array(1)], ids=repr)
def test_whole_numbers_of_every_kind(number: Any) -> None:
    found = checked(n_procs=number, read_ahead=number, block_size=number)
    assert found.n_procs == reader_options.ReaderCount(1, False)
    assert (found.read_ahead, found.block_size) == (1, 1)
    assert type(found.block_size) is int


@pytest.mark.parametrize("name", ["n_procs", "read_ahead", "block_size"])
@settings(max_examples=50)
@given(
    value=st.one_of(st.integers(max_value=0), st.floats(), st.text(), st.booleans(), st.binary())
)
def test_what_is_no_count(name: str, value: Any) -> None:
    assume(name != "n_procs" or type(value) is not int or value)
    with pytest.raises(multitables.OptionsError) as caught:
        checked(**{name: value})
    assert name in str(caught.value)
    assert repr(value) in str(caught.value)
    assert caught.value.option == name


def test_more_readers_than_the_ring_has_room_for() -> None:
    assert checked(n_procs=options.MAX_N_PROCS).n_procs.count == options.MAX_N_PROCS
    with pytest.raises(multitables.OptionsError, match=str(options.MAX_N_PROCS)):
        checked(n_procs=options.MAX_N_PROCS + 1)


def test_the_core_knows_as_many_readers() -> None:
    """The limit stands in options.py; the core refuses what is beyond it."""
    from _multitables import _core

    assert _core.control_bytes(options.MAX_N_PROCS, 1, 1) > 0


def test_the_memory_limit_is_a_number_of_this_machine() -> None:
    import os

    limit = machine.memory_limit_bytes()
    assert 1 << 20 < limit <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_caches_are_a_small_share_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    mib = 1 << 20
    for available, procs, want in (
        (100 * mib, 1, 64 * mib),
        (8192 * mib, 4, 64 * mib),
        (16384 * mib, 4, 128 * mib),
        (16384 * mib, 1, 512 * mib),
        (1 << 62, 2, 512 * mib),
    ):
        monkeypatch.setattr(
            reader_options, "available_bytes", lambda available=available: available
        )
        given = {
            "n_procs": procs,
            "memory_limit_bytes": None,
            "library_timeout_seconds": None,
            "trusted": True,
        }
        for limit, least in ((None, want), (5, 5)):
            given["cache_limit_bytes"] = limit
            assert options.checked(reader_options.ReaderOptions, **given).cache_bytes == least


def test_the_memory_of_a_shuffle_follows_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, want in ((0, 1), (300 << 20, 256 << 20), (1 << 40, 512 << 20)):
        monkeypatch.setattr(reader_options, "memory_limit_bytes", lambda limit=limit: limit)
        assert reader_options._shuffle_memory("memory_limit_bytes", None) == want
        assert reader_options._shuffle_memory("memory_limit_bytes", 5) == 5


def test_the_cache_of_handles_is_a_smaller_share(monkeypatch: pytest.MonkeyPatch) -> None:
    mib = 1 << 20
    for available, want in ((0, 64), (1 << 30, 64), (12_000 * mib, 128), (1 << 62, 256)):
        monkeypatch.setattr(options, "available_bytes", lambda available=available: available)
        given = {
            "n_threads": 1,
            "locks": True,
            "trusted": True,
            "links": None,
            "storage_options": None,
        }
        found = options.checked(options.FileOptions, **given, cache_bytes=None)
        assert found.cache_bytes == want * mib
        assert options.checked(options.FileOptions, **given, cache_bytes=0).cache_bytes == 0


@pytest.mark.parametrize(
    ("written", "want"),
    [
        ("x", "/x"),
        ("/x", "/x"),
        ("//x//y/", "/x/y"),
        ("./x/./y", "/x/y"),
        ("", "/"),
        ("/", "/"),
        ("a b/ü", "/a b/ü"),
    ],
)
def test_paths(written: str, want: str) -> None:
    assert normal_path(written) == want


@given(st.text(alphabet="ab./", max_size=12))
def test_normal_paths_stay_as_they_are(path: str) -> None:
    once = normal_path(path)
    assert normal_path(once) == once
    assert once.startswith("/")


def test_open_options() -> None:
    assert not parse_open_options({}).direct
    assert parse_open_options({"DRIVER": "H5FD_DIRECT"}).direct
    assert parse_open_options({"driver": "H5FD_DIRECT"}).direct
    assert parse_open_options({"Driver": "H5FD_DIRECT", "title": "t", "filters": object()}).direct
    assert parse_open_options({"root_uep": "/a/b/"}).root == "/a/b"
    assert parse_open_options({"root_uep": "/"}).root == ""
    split = parse_open_options({"DRIVER": "H5FD_SPLIT", "DRIVER_SPLIT_RAW_EXT": ".raw"})
    assert (split.kind, split.meta_ext, split.raw_ext) == ("split", "-m.h5", ".raw")
    assert split.for_library["driver"] == "H5FD_SPLIT"


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.integers(), st.text())))
def test_unknown_open_options_are_ignored(unknown: dict[str, Any]) -> None:
    known = {"mode", "root_uep", "driver", "links"}
    given_ = {name: value for name, value in unknown.items() if name.lower() not in known}
    found = parse_open_options(given_)
    assert (found.kind, found.root, found.direct) == ("plain", "", False)


def test_open_options_for_the_library_are_json() -> None:
    import json

    found = parse_open_options({"a": object(), "b": 1, "c": {1, 2}, "d": "x"})
    assert json.loads(json.dumps(found.for_library)) == {"b": 1, "d": "x"}


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: multitables.Streamer("x.h5", rotatonal=True), "Streamer .*'rotational'"),
        (lambda: multitables.Streamer("x.h5", storage_option={}), "Streamer .*'storage_options'"),
        (lambda: multitables.Streamer("x.h5", chunk_cache_sise=1), "'chunk_cache_size'"),
        (lambda: multitables.Streamer("x.h5", TRUSTED=False), "no option 'TRUSTED'"),
        (lambda: multitables.Reader("x.h5", n_proc=3), "Reader .*'n_procs'"),
        (lambda: multitables.Reader("x.h5", cache_limit=3), "'cache_limit_bytes'"),
        (lambda: multitables.Reader("x.h5", xxxxxxx=3), "Leave it out"),
    ],
)
def test_names_of_no_option(make: Any, what: str) -> None:
    with pytest.raises(multitables.UnknownOptionError, match=what) as caught:
        make()
    assert isinstance(caught.value, (TypeError, ValueError))
    assert isinstance(caught.value, multitables.OptionsError)


def test_every_option_of_pytables_is_known() -> None:
    parameters = [name for name in dir(tables.parameters) if re.fullmatch("[A-Z][A-Z_]+", name)]
    assert len(parameters) > 40
    small = set(inspect.signature(tables.open_file).parameters) - {"filename", "kwargs"}
    names = [*parameters, *small]
    given: dict[str, Any] = dict.fromkeys(names) | {"mode": "r", "root_uep": "/"}
    multitables.Streamer("x.h5", **given)
    multitables.Streamer("x.h5", **{name.lower(): value for name, value in given.items()})


def test_signatures_have_the_options_of_stores() -> None:
    for made in (multitables.Streamer, multitables.Reader, multitables.open, multitables.read):
        assert "storage_options" in inspect.signature(made).parameters
