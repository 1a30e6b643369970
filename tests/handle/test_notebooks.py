"""The HTML of notebooks, read with an HTML parser.

Law
---
1. Texts are those of the file, however they look; markup is balanced, and has no script.
"""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables
from _multitables.parent.open import group as group_module
from _multitables.parent.open import notebook

HOSTILE = "<script>alert(1)&amp;\"'\x1b"
SHOWN = HOSTILE.replace("\x1b", "\\x1b")
#: What our HTML consists of; none of these can run anything.
TAGS = {"div", "strong", "span", "details", "summary", "table", "tbody", "tr", "th", "td"}


class Html(HTMLParser):
    """The parts of a page: texts, and which of them stand in which element."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.parts: list[tuple[tuple[str, ...], str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()
        assert self.open == []
        assert {tag for tag, _ in self.tags} <= TAGS
        assert {name for _, given in self.tags for name in given} <= {"style", "open"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.parts.append((tuple(self.open), data))

    @property
    def text(self) -> str:
        return "".join(data for _, data in self.parts)

    def cells(self) -> dict[str, str]:
        """The tables: name -> value."""
        found = [data for tags, data in self.parts if tags[-1] in ("th", "td")]
        return dict(zip(found[::2], found[1::2], strict=True))

    def depth_of(self, text: str) -> int:
        """In how many folds a text stands."""
        (depth,) = {tags.count("details") for tags, data in self.parts if data.strip() == text}
        return depth


@pytest.fixture
def file(tmp_path: Path) -> Any:
    with h5py.File(tmp_path / "run<7>.h5", "w") as made:
        images = made.create_dataset(
            HOSTILE, data=np.zeros((10, 4), "f4"), chunks=(5, 4), compression="gzip"
        )
        images.attrs["a<b"] = HOSTILE
        images.attrs["long"] = "x" * 500
        made["shots/1/current"] = np.arange(3)
        made["shots/up"] = made["shots"]  # a circle
        made["soft"], made["out"] = h5py.SoftLink("/<&>"), h5py.ExternalLink("o<>.h5", "/x")
        made["null"], made["type"] = h5py.Empty("f4"), np.dtype("<i2")
        for number in range(notebook.MEMBERS + 7):
            made[f"many/{number:03}"] = number
    with multitables.open(tmp_path / "run<7>.h5") as opened:
        yield opened


def shown(found: Any) -> Html:
    return Html(found._repr_html_())


def test_a_file_is_a_tree(file: multitables.File) -> None:
    page = shown(file)
    assert page.text.startswith('HDF5 file "run<7>.h5" (mode r)')
    assert page.parts[0][1] == "HDF5 file"
    assert page.depth_of(SHOWN) == 1
    assert page.depth_of("shots/") == 2  # its own fold stands in the file's
    assert page.depth_of("1/") == 3
    for text in ("current ", "int64 (3,)", '<SoftLink to "/<&>">', "float32 empty", "int16"):
        assert text in [data for _, data in page.parts]
    assert page.text.count("up/") == 1
    assert "and 7 more" in page.text
    assert [("open" in given) for tag, given in page.tags if tag == "details"].count(True) == 1


def test_a_large_file_is_shown_in_part(
    file: multitables.File, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "OBJECTS", 9)
    page = shown(file)
    # the nearest come first: the file's members, and two below
    assert "type int16" in page.text
    assert "current" not in page.text
    assert f"and {len(file['many']) - (9 - len(file))} more" in page.text
    assert f"and {len(file['shots'])} more" in page.text


def test_a_dataset_is_a_table(file: multitables.File) -> None:
    page = shown(file[HOSTILE])
    cells = page.cells()
    assert all("color:inherit" in str(one["style"]) for tag, one in page.tags if tag == "table")
    assert cells["shape"] == "(10, 4)"
    assert cells["dtype"] == "float32"
    assert cells["chunks"] == "(5, 4)"
    assert cells["filters"] == "deflate 4"
    assert cells["decoded"] == "160 B"
    assert cells["a<b"] == SHOWN
    assert cells["long"] == "x" * 100 + "..."
    assert SHOWN in page.text.partition("shape")[0]


def test_what_is_closed_or_has_no_members(file: multitables.File) -> None:
    group, dataset, kind = file["shots"], file[HOSTILE], file["type"]
    assert shown(kind).text == repr(kind).strip("<>")
    file.close()
    for found in (group, dataset, kind):
        assert shown(found).text == repr(found).strip("<>")


def test_what_is_damaged_is_said_in_its_place(
    file: multitables.File, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> Any:
        raise multitables.CorruptFileError("the <header> is damaged")

    with monkeypatch.context() as patch:
        patch.setattr(notebook, "type_name", damaged)
        assert "the <header> is damaged" in shown(file).text
    monkeypatch.setattr(notebook, "facts", damaged)
    assert shown(file[HOSTILE]).text == "Dataset: the <header> is damaged"


def streams(name: Path) -> dict[str, Callable[[], Any]]:
    streamer = multitables.Streamer(name)
    return {
        "Streamer": lambda: streamer,
        "StreamQueue": lambda: streamer.get_queue(HOSTILE, remainder=True),
        "Batches": lambda: streamer.get_batches(HOSTILE, 2, n_procs=0),
        "Collection": lambda: streamer.get_collection("/shots/*/current", n_procs=0),
        "Reader": lambda: multitables.Reader(name, n_procs=0),
    }


@pytest.mark.parametrize("kind", ["Streamer", "StreamQueue", "Batches", "Collection", "Reader"])
def test_streams_show_their_repr(file: multitables.File, kind: str) -> None:
    with streams(Path(file.filename))[kind]() as found:
        page = shown(found)
        assert page.text.split()[0] == kind
        assert page.text == repr(found)[1:-1].replace("\x1b", "\\x1b")
        assert [data for tags, data in page.parts if tags[-1] == "strong"] == [kind]
    if kind == "Collection":
        return
    assert "closed" in shown(found).text or kind == "Streamer"


def test_pieces_of_streams_show_their_repr(file: multitables.File) -> None:
    streamer = multitables.Streamer(file.filename)
    with multitables.Reader(file.filename, n_procs=0) as reader:
        dataset = reader.get_dataset(HOSTILE)
        assert shown(dataset).text == repr(dataset)[1:-1]
    with streamer.get_batches("/shots/1/current", 2, n_procs=0) as batches:
        iteration = iter(batches)
        assert shown(iteration).text == repr(iteration)[1:-1]
        iteration.close()
    with streamer.get_collection("/shots/*/current", n_procs=0) as items:
        (item,) = items
        assert shown(item).text == repr(item)[1:-1]
        del item


# ---- names that a shell completes


def test_completions_have_deep_paths(
    file: multitables.File, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = file._ipython_key_completions_()
    assert found[: len(file)] == sorted(file)
    assert {"shots/1", "shots/1/current", "shots/up", "many/003"} <= set(found)
    assert all(name in file for name in found)
    assert file["shots"]._ipython_key_completions_() == ["1", "up", "1/current"]
    assert file[HOSTILE].attrs._ipython_key_completions_() == ["a<b", "long"]
    monkeypatch.setattr(group_module, "COMPLETIONS", 3)
    assert file._ipython_key_completions_() == sorted(file)[:3]


def test_names_that_are_no_text_are_not_completed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "bytes.h5", "w") as made:
        made.create_group(b"a\xff/b")
        made.create_group("c")
    with multitables.open(tmp_path / "bytes.h5") as opened:
        assert opened._ipython_key_completions_() == ["c"]
        assert "a\\xff/" in shown(opened).text
