"""How the sweep reads files: the mode each file system supports, and the page cache's word.

Law
---
1. What the page cache did is asked of the kernel, for real files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from _multitables.benchmark.contenders import streams
from _multitables.benchmark.contract import Source
from _multitables.benchmark.loops import stream_loop
from _multitables.benchmark.machine import environment, io_mode, page_cache


def test_a_file_system_without_direct_io_is_read_through_the_page_cache(
    monkeypatch: pytest.MonkeyPatch, tiny: Source
) -> None:
    monkeypatch.setattr(environment, "in_memory", lambda _name: False)
    monkeypatch.setattr(page_cache, "direct_refusal", lambda _name: "it refuses O_DIRECT")
    mode = io_mode.choose(tiny.filename, "direct")
    assert (mode.name, dict(mode.options), mode.drop_before) == ("buffered", {}, True)
    assert mode.note == "it refuses O_DIRECT. The page cache is dropped before each pass."


def test_direct_io_is_the_default_and_can_be_turned_off(
    monkeypatch: pytest.MonkeyPatch, tiny: Source
) -> None:
    monkeypatch.setattr(environment, "in_memory", lambda _name: False)
    monkeypatch.setattr(page_cache, "direct_refusal", lambda _name: "")
    mode = io_mode.choose(tiny.filename, "direct")
    assert (mode.name, dict(mode.options)) == ("direct", {"DRIVER": "H5FD_DIRECT"})
    mode = io_mode.choose(tiny.filename, "buffered", warm=True)
    assert (mode.name, dict(mode.options), mode.drop_before) == ("buffered", {}, False)
    assert io_mode.choose(tiny.filename, "buffered").drop_before


def test_a_file_in_memory_is_said_to_measure_no_device(
    monkeypatch: pytest.MonkeyPatch, tiny: Source
) -> None:
    monkeypatch.setattr(environment, "in_memory", lambda _name: True)
    for name in io_mode.IO_MODES:
        mode = io_mode.choose(tiny.filename, name)
        assert "no device is measured" in mode.note
        assert not mode.drop_before
    assert io_mode.cache_of(mode, [tiny.filename], "warm") == "in memory, no device"


def test_the_page_cache_is_asked_and_not_assumed(tiny: Source) -> None:
    page_cache.fill_page_cache(tiny.filename)
    assert page_cache.cache_state(tiny.filename) == "warm"
    if environment.in_memory(tiny.filename):
        pytest.skip("files in memory cannot be cold")
    page_cache.drop_page_cache(tiny.filename)
    assert page_cache.resident_fraction(tiny.filename) < 1


def test_files_that_are_read_together_have_one_state(tiny: Source, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    Path(other).write_bytes(bytes(Path(tiny.filename).stat().st_size))
    both = [tiny.filename, other]
    for filename in both:
        page_cache.fill_page_cache(filename)
    assert page_cache.cache_state_of(both) == "warm"
    if environment.in_memory(tiny.filename):
        pytest.skip("files in memory cannot be cold")
    buffered = io_mode.IoMode("buffered", drop_before=True)
    assert io_mode.prepare(buffered, both) == "cold"
    page_cache.fill_page_cache(other)
    assert page_cache.cache_state_of(both).endswith("in the page cache")
    # a direct reader that went through the page cache is found out
    direct = io_mode.IoMode("direct", drop_before=True)
    assert io_mode.cache_of(direct, both, "cold").startswith("not bypassed: ")
    assert io_mode.prepare(direct, both) == "cold"
    assert io_mode.cache_of(direct, both, "cold") == "bypassed"


@pytest.mark.parametrize("access", stream_loop.EVERY_ACCESS)
def test_a_cold_pass_starts_cold_behind_what_was_read_ahead(access: str, tiny: Source) -> None:
    if environment.in_memory(tiny.filename):
        pytest.skip("files in memory cannot be cold")
    page_cache.fill_page_cache(tiny.filename)
    warm = streams.Stream(tiny, access, 1)
    warm.measure()
    assert page_cache.cache_state(tiny.filename) == "warm"

    seen = []
    real = stream_loop.drop_pages
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_loop, "drop_pages", lambda name: (seen.append(name), real(name)))
        streams.Stream(tiny, access, 1, cold=True).measure()
    assert seen == [tiny.filename]
