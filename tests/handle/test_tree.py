"""`multitables.open` against h5py: files, groups, names, links and ways through them.

Law
---
1. The oracle is h5py; where we say more than it does, the test says why.
2. Each structure in the oldest form of the format and in the newest.
"""

from __future__ import annotations

import fnmatch
import gc
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from handle_oracle import FAILED, check, tried

import multitables

FORMS = [(version, order) for version in ("earliest", "latest") for order in (False, True)]


def write(path: Path, libver: str, track_order: bool) -> None:
    """Groups and links of all kinds, with circles, and two files that name each other."""
    with h5py.File(path.with_name("other.h5"), "w", libver=libver) as other:
        other["g/x"] = np.arange(3)
        other["g"].attrs["where"] = "other"
        other["back"] = h5py.ExternalLink(path.name, "/b")
    with h5py.File(path, "w", libver=libver, track_order=track_order) as file:
        for name in ("z", "b", "a", "y"):
            group = file.create_group(name, track_order=track_order)
            for inner in ("r", "q", "p"):
                group[inner] = np.arange(4)
        for number in range(20, 0, -1):
            file["z"].create_group(f"n{number}", track_order=track_order)
            file["z"].attrs[f"n{number}"] = number
        file["a/up"], file["again"] = file["/"], file["z"]
        file["type"] = np.dtype([("x", "<i4"), ("y", ">f8")])
        file["h\xe9"] = h5py.SoftLink("a/p")
        links = {
            "soft": "/z/r", "soft group": "a", "nowhere": "/no/such", "chain": "soft",
            "loop": "loop", "behind": "soft group/q",
        }  # fmt: skip
        for name, target in links.items():
            file[name] = h5py.SoftLink(target)
        others = {
            "external": ("other.h5", "/g/x"), "external group": ("other.h5", "g"),
            "no file": ("no.h5", "/x"), "no object": ("other.h5", "/no"), "self": (path.name, "/"),
            "and back": ("other.h5", "back"),
        }  # fmt: skip
        for name, (other_name, target) in others.items():
            file[name] = h5py.ExternalLink(other_name, target)
        file.attrs["reference"], file.attrs["null"] = file["z/n7"].ref, h5py.Reference()


@pytest.fixture(params=FORMS, ids=lambda form: f"{form[0]}, {'tracked' if form[1] else 'sorted'}")
def both(request: pytest.FixtureRequest, h5: Path) -> Iterator[tuple[Any, Any]]:
    write(h5, *request.param)
    with multitables.open(h5) as ours, h5py.File(h5) as theirs:
        yield ours, theirs


PATHS = (
    "a", "a/p", "/a/p", "//a//p/", "a/./p", ".", "/", "a/.", "soft", "soft group/p", "chain",
    "behind", "again/r", "a/up/a/up/b", "self/self/a/p", "external", "external group/x", "and back",
    "and back/p", "h\xe9", b"a/p", "type", "nope", "a/nope", "a/p/x", "", "..", "nowhere",
    "nowhere/x", "no file", "no file/x", "no object", "loop", "external group/no", b"\xff", "typ",
)  # fmt: skip


def told(found: Any) -> Any:
    """What is compared of an object."""
    if found is None or found is FAILED:
        return found
    file = os.path.basename(found.file.filename)
    return type(found).__name__, found.name, file, found.parent.name


def test_paths(both: tuple[Any, Any]) -> None:
    ours, theirs = both
    for group, path in itertools.product(("/", "a", "external group"), PATHS):
        mine, other = ours[group], theirs[group]
        want = told(tried(lambda at=other, path=path: at[path]))
        assert told(tried(lambda at=mine, path=path: at[path])) == want, (group, path)
        if path not in ("loop", b"\xff"):  # of which h5py's `get` fails
            assert told(mine.get(path)) == told(other.get(path)), (group, path)
        want = tried(lambda at=other, path=path: path in at)  # which fails at a link to itself
        assert (path in mine) == (want is True), (group, path)


@pytest.mark.parametrize("name", [5, None, 2.5, ("a",)], ids=repr)
def test_what_is_no_name(both: tuple[Any, Any], name: Any) -> None:
    for file in both:
        with pytest.raises(TypeError):
            file[name]
        with pytest.raises(TypeError):
            name in file  # noqa: B015


def test_links(both: tuple[Any, Any]) -> None:
    ours, theirs = both
    for path in [*theirs, "a/p", "soft group/p", "nope", "a/nope", "no file/x"]:
        link, want = ours.get(path, getlink=True), theirs.get(path, getlink=True)
        assert type(link).__name__ == type(want).__name__
        assert ours.get(path, 5, getlink=True, getclass=True) in (type(link), 5)
        for part in ("path", "filename"):
            assert getattr(link, part, None) == getattr(want, part, None)
        kind = tried(lambda path=path: theirs.get(path, getclass=True))
        if kind is not FAILED:  # h5py has RuntimeError for what leads nowhere, we have the default
            own = ours.get(path, getclass=True)
            assert getattr(own, "__name__", None) == getattr(kind, "__name__", None)
    assert ours.get("nope", "default") == "default"
    assert repr(ours.get("soft", getlink=True)) == repr(theirs.get("soft", getlink=True))
    assert ours.get("soft", getlink=True) == multitables.SoftLink("/z/r")


def test_mappings(both: tuple[Any, Any]) -> None:
    ours, theirs = both
    for path in ("a", "z", "external group"):
        mine, other = ours[path], theirs[path]
        for view in ("keys", "values", "items"):
            got, want = getattr(mine, view)(), getattr(other, view)()
            assert len(got) == len(want)
            as_names = {"keys": str, "values": lambda one: one.name, "items": lambda one: one[0]}
            for way in (iter, reversed):
                shown = [as_names[view](one) for one in way(got)]
                assert shown == [as_names[view](one) for one in way(want)]
        assert list(reversed(mine)) == list(reversed(other))
    group = ours["a"]
    assert ours["a/p"] in group.values()
    assert ours["b/p"] not in group.values()
    assert ("p", ours["a/p"]) in group.items()
    assert ("p", ours["b/p"]) not in group.items()
    assert ("x", None) not in group.items()
    assert group.keys() & {"p", "x"} == {"p"}
    assert repr(group.keys()) == repr(theirs["a"].keys()).replace("KeysViewHDF5", "Keys")
    assert ours["z"].items() == dict(ours["z"]).items()
    nothing = {"nowhere", "no file", "no object"}
    assert {name for name, found in ours.items() if found is None} == {*nothing, "loop"}
    assert group._ipython_key_completions_()[: len(group)] == sorted(group)


def test_visits(both: tuple[Any, Any]) -> None:
    ways: tuple[Callable[[Any, Any], Any], ...] = (
        lambda at, do: at.visit(do),
        lambda at, do: at.visititems(lambda name, one: do(name, one.name, type(one).__name__)),
        lambda at, do: at.visit_links(do),
        lambda at, do: at.visititems_links(lambda name, one: do(name, type(one).__name__)),
    )
    for path in ("/", "a", "z", "external group", "soft group"):
        for way in ways:
            got: list[Any] = []
            want: list[Any] = []
            assert way(both[0][path], lambda *one, got=got: got.append(one)) is None
            way(both[1][path], lambda *one, want=want: want.append(one))
            # HDF5 comes back to the group where a visit began, if it has no other hard link.
            got, want = ([one for one in seen if one[0] != "up/a"] for seen in (got, want))
            assert got == want
            stopped = [
                way(file[path], lambda name, *_: name if "p" in name else None) for file in both
            ]
            assert stopped[0] == stopped[1]


def test_a_broken_visit(both: tuple[Any, Any]) -> None:
    for file in both:
        with pytest.raises(ZeroDivisionError):
            file.visititems(lambda name, one: 1 / 0)


def test_identity(both: tuple[Any, Any]) -> None:
    pairs = [
        ("a", "soft group"), ("z", "again"), ("/", "a/up"), ("a", "b"), ("and back", "b"),
        ("self", "/"), ("external group", "g"), ("a/p", "a/q"), ("soft", "z/r"),
    ]  # fmt: skip
    ours, theirs = both
    for one, other in pairs:
        if "g" in (one, other):
            continue
        assert (ours[one] == ours[other]) == (theirs[one] == theirs[other]), (one, other)
        assert (hash(ours[one]) == hash(ours[other])) == (ours[one] == ours[other])
    assert ours["a"].file == ours
    assert ours["a"] != "a"
    assert ours["external"].file != ours
    assert ours["external"].file["g/x"] == ours["external"]


def test_reprs(both: tuple[Any, Any]) -> None:
    ours, theirs = both
    for path in ("/", "a", "z", "external group", "type", "soft group"):
        assert repr(ours[path]) == repr(theirs[path])
    for way in (lambda file: file, lambda file: file["external"].file):
        assert repr(way(ours)) == repr(way(theirs))


def test_references(both: tuple[Any, Any]) -> None:
    ours, theirs = both
    reference, want = ours.attrs["reference"], theirs.attrs["reference"]
    assert ours[reference].name == theirs[want].name  # looked for in the file
    assert ours["a"][reference] == ours["z/n7"]
    assert ours[ours["z"].ref] == ours["again"]
    assert ours[reference].parent == ours["z"]
    assert not ours.attrs["null"]
    with pytest.raises(ValueError, match="reference"):
        ours[ours.attrs["null"]]
    with pytest.raises(multitables.CorruptFileError):
        ours[multitables.Reference(3)]


def test_named_types(both: tuple[Any, Any]) -> None:
    assert both[0]["type"].dtype == both[1]["type"].dtype


def test_what_the_file_says(both: tuple[Any, Any]) -> None:
    ours, theirs = both
    for name in ("mode", "driver", "userblock_size", "swmr_mode", "name"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.filename == theirs.filename
    assert os.path.basename(ours["external"].file.filename) == "other.h5"


def test_errors_name_what_is_there(both: tuple[Any, Any]) -> None:
    ours, _ = both
    with pytest.raises(multitables.MissingDatasetError, match="'/soft'") as caught:
        ours["sof"]
    assert isinstance(caught.value, KeyError)
    with pytest.raises(KeyError, match=r"'n20', .* Did you mean '/z/n20'"):
        ours["z/m20"]
    with pytest.raises(KeyError, match="leads nowhere: to '/no/such'"):
        ours["nowhere"]
    with pytest.raises(KeyError, match=r"no\.h5'?, which does not exist"):
        ours["no file"]


PATTERNS = (
    "*", "/*", "a/*", "*/p", "/[ab]/[pq]", "z/n?", "**/p", "**", "a/**", "z/**/r", "**/**/n1*",
    "nope/*", "a/p/*", "a/p", "type", ".", "*/nope", "external*/x", "no*/*",
)  # fmt: skip


def test_walks(both: tuple[Any, Any]) -> None:
    ours, theirs = both
    every = ["", *everything(theirs, 4)]
    for pattern in PATTERNS:
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        got = [found.name.strip("/") for found in ours.walk(pattern)]
        found = [theirs[name or "/"] for name in every if matches(name.split("/"), parts)]
        want = [one.name.strip("/") for one in found]
        if "**" in pattern:  # which goes along hard links only, and to each object once
            assert len(got) == len(set(got))
            assert {name for name in got if name.count("/") < 3} <= set(want), pattern
        else:
            assert sorted(got) == sorted(want), pattern
    assert [found.name for found in ours["a"].walk("[pq]")] == ["/a/p", "/a/q"]
    assert [found.name for found in ours["a"].walk("/b/p")] == ["/b/p"]
    assert len(list(ours.walk("**/n1*"))) == 11
    assert len(list(ours.walk("**"))) == 1 + len([*visited(theirs)])


def visited(file: Any) -> list[str]:
    names: list[str] = []
    file.visit(names.append)
    return names


def everything(file: Any, depth: int) -> Iterator[str]:
    """Paths that lead to something, through links of all kinds."""
    for name in file:
        found = tried(lambda name=name: file[name])
        if found is FAILED:
            continue
        yield name
        if isinstance(found, h5py.Group) and depth > 1:
            yield from (f"{name}/{inner}" for inner in everything(found, depth - 1))


def matches(names: list[str], parts: list[str]) -> bool:
    names = [name for name in names if name]
    if not parts:
        return not names
    if parts[0] == "**":
        return any(matches(names[n:], parts[1:]) for n in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], parts[0]) and matches(names[1:], parts[1:])


def test_a_walk_lists_what_it_needs(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(h5, "w") as file:
        for shot in range(50):
            file[f"shots/{shot:02}/signals/a"] = 1
    with multitables.open(h5) as ours:
        listed: list[str] = []
        names = multitables.Group.__iter__

        def noted(group: Any) -> Any:
            listed.append(group.name)
            return names(group)

        monkeypatch.setattr(multitables.Group, "__iter__", noted)
        walk = ours.walk("/shots/*/signals/*")
        assert listed == []
        assert next(walk).name == "/shots/00/signals/a"
        assert listed == ["/shots", "/shots/00/signals"]
        assert next(walk).name == "/shots/01/signals/a"
        assert len(listed) == 3


@pytest.mark.parametrize("order", [False, True], ids=["by name", "by creation"])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_many_names(h5: Path, libver: str, order: bool) -> None:
    """More than fit in a header, so that the newest form keeps them in a heap."""
    names = [f"name {number * 7919 % 1000:03}" for number in range(1000)]
    with h5py.File(h5, "w", libver=libver) as file:
        group = file.create_group("g", track_order=order)
        for name in names:
            group.create_group(name)
    with multitables.open(h5) as ours:
        assert len(ours["g"]) == 1000
        assert list(ours["g"]) == (names if order else sorted(names))
        assert list(reversed(ours["g"])) == list(ours["g"])[::-1]
        assert "name 500" in ours["g"]
        assert "name x" not in ours["g"]
        assert len(ours["g"]) == 1000
        assert len(list(ours.walk("g/name 12*"))) == 10


def test_a_user_block(h5: Path) -> None:
    with h5py.File(h5, "w", userblock_size=1024) as file:
        write_small(file)
    with multitables.open(h5) as ours:
        assert ours.userblock_size == 1024
        assert ours[ours.attrs["reference"]].name == "/g/x"
    check(h5)


def write_small(file: Any) -> None:
    file["g/x"] = np.arange(5)
    file.attrs["reference"] = file["g/x"].ref
    file.attrs["text"] = ["a", "b"]


def test_names_that_are_not_text(h5: Path) -> None:
    """h5py lists them, but finds some of its ways to them closed."""
    name = b"\xff\xfe"
    with h5py.File(h5, "w") as file:
        file.create_group(name).attrs[b"\xfd"] = 1
        file.create_group("\N{SNOWMAN}")
        want = list(file), list(file[name].attrs), list(file["\N{SNOWMAN}"])
    with multitables.open(h5) as ours:
        assert (list(ours), list(ours[name].attrs), list(ours["\N{SNOWMAN}"])) == want
        assert name in ours
        assert ours[name].name == b"/" + name
        assert ours[name].attrs[b"\xfd"] == 1
        assert ours[name].parent == ours


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(multitables.MissingFileError):
        multitables.open(tmp_path / "no.h5")
    text = tmp_path / "text.h5"
    text.write_text("text")
    with pytest.raises(multitables.FileOpenError, match="not an HDF5 file"):
        multitables.open(text)
    with pytest.raises(multitables.FileOpenError, match="folder"):
        multitables.open(tmp_path)
    with pytest.raises(multitables.OptionsError, match="got an object of type int"):
        multitables.open(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"n_threads": 0}, {"n_threads": "2"}, {"cache_bytes": -1}, {"cache_bytes": 1.5}]
)
def test_options(h5: Path, options: dict[str, Any]) -> None:
    with pytest.raises(multitables.OptionsError, match=next(iter(options))):
        multitables.open(h5, **options)


def test_names_of_files(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(h5, "w") as file:
        write_small(file)
    monkeypatch.chdir(h5.parent)
    for name in (h5, str(h5), os.fsencode(h5), h5.name):
        with multitables.open(name) as ours:
            assert ours.filename == os.fsdecode(name)
            assert "g" in ours


def test_nothing_is_left(h5: Path) -> None:
    """Without `close`: what the audit of each test looks for, and no garbage to collect."""
    write(h5, "latest", False)
    gc.collect()
    gc.disable()
    try:
        before = set(os.listdir("/proc/self/fd"))
        ours = multitables.open(h5)
        objects = [ours["external"], ours["a"].attrs, ours["z"].values(), ours.walk("**")]
        assert next(objects[-1]) == ours
        del ours, objects
        assert set(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()
