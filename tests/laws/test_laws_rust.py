"""The laws of the core's house that a compiler does not see, read off its sources.

1. Walls between crates are compiled. Here stands which need nothing, and that one knows Python.
2. Files of a crate see each other in no circle. Only os and engine's fetch make system calls.
3. Each `unsafe` has its reason beside it. What lies in memory that other processes may write is all
   atomics.
4. What today's code has against a rule stands in a list, with its file; what is there no longer
   fails, too.
"""

from __future__ import annotations

import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core" / "crates"
#: What others can use without the rest: the crates of ours that each needs.
ALONE: dict[str, set[str]] = {
    "multi_inflate": set(),
    "hdf5_format": set(),
    "os": set(),
    "hdf5_filters": {"multi_inflate"},
}
MAKE_SYSTEM_CALLS = ("os/", "engine/fetch/")

#: Words that gave way to the field's: the old one -> the one in its place.
OLD_WORDS = {
    r"seats?|seating": "RowMap",
    r"lattice": "StridedCopy",
    r"\w*abreast|side by side": "group, multi-buffer",
    r"dice": "SplitMix64, random",
    r"contest": "AutoTuner",
    r"(?-i:(MOST|LEAST)_\w+)": "MAX_, MIN_",
    r"poke|mourn|idlest": "wake, recover, least_loaded",
    r"members?|catalogues?": "dataset, tape, dataset table",
    r"boards?|flights": "work queue, request handles",
    r"shelf|tenure": "stage pool, stage lease",
    r"(so many|(?-i:is none)|had better|whoever|is not so)": "subject, verb, reason",
}

if not CORE.is_dir():
    pytest.skip("an installation has no sources of the core", allow_module_level=True)


CRATES = sorted(path.parent for path in CORE.glob("*/src") if path.parent.name != "testing")


def is_test(path: Path) -> bool:
    """Whether all of a file is compiled for tests only."""
    parts = path.relative_to(CORE).with_suffix("").parts
    names = {"tests", "ring_stress", "shared_ring", "races", "shuffle_tasks", "testing"}
    return not names.isdisjoint(parts) or parts[-1].startswith("malformed_")


ALL = sorted(CORE.rglob("*.rs"))
FILES = [path for path in ALL if "src" in path.parts and not is_test(path)]


def code(path: Path) -> str:
    """A file without its comments and the tests inside it."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^#\[cfg\(test\)\]\nmod tests \{.*?^\}$", "", text, flags=re.M | re.S)
    return re.sub(r"//.*", "", text)


def name(path: Path) -> str:
    return path.relative_to(CORE).as_posix().replace("/src/", "/", 1)


def needs(crate: Path) -> set[str]:
    """Return what a crate depends on, but for its tests."""
    manifest = (crate / "Cargo.toml").read_text(encoding="utf-8")
    table = re.search(r"^\[dependencies\]\n(.*?)(?=^\[|\Z)", manifest, flags=re.M | re.S)
    return set(re.findall(r"^([\w-]+)", table[1], flags=re.M)) if table else set()


def test_crates_need_no_more_than_they_say() -> None:
    ours = {crate.name for crate in CRATES}
    assert {crate.name: needs(crate) & ours for crate in CRATES if crate.name in ALONE} == ALONE
    assert needs(CORE / "hdf5_format") == set()
    assert {crate.name for crate in CRATES if {"pyo3", "numpy"} & needs(crate)} == {"python"}
    assert not any("testing" in needs(crate) for crate in CRATES), "it is for tests"


def system_calls() -> set[tuple[str, str]]:
    """(file, call) of what asks the kernel outside os and fetch."""
    calls = r"\b(libc::\w+(?=\()|io_uring::|std::(?:fs|net|process::Command|thread::spawn)\b)"
    return {
        (name(path), call)
        for path in FILES
        if not name(path).startswith(MAKE_SYSTEM_CALLS)
        for call in re.findall(calls, code(path))
    }


def test_paths_follow_folders() -> None:
    for path in ALL:
        assert "#[path" not in path.read_text(encoding="utf-8"), path


def test_only_os_and_fetch_make_system_calls() -> None:
    assert sorted(system_calls()) == [], "system calls outside os and fetch"


def old_words(path: Path) -> set[str]:
    """Old words of a file, its comments and tests as well."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(rf"\b({'|'.join(OLD_WORDS)})\b", text, flags=re.IGNORECASE)
    return {match[0] for match in found}


def test_nobody_says_the_old_words() -> None:
    found = {(name(path), word) for path in ALL for word in old_words(path)}
    assert sorted(found) == [], f"the field's words are {OLD_WORDS}"


#: Structures over memory that other processes map: they may change at any time.
SHARED = {
    "engine/counters.rs": ["Record"],
    "os/turns.rs": ["Turns"],
    "serve/requests/work_queue.rs": ["Head", "Queue", "Slot"],
    "serve/ring/control.rs": ["Head"],
    "engine/task_error.rs": ["ErrorRecord"],
}
#: What their fields may be.
ATOMIC = r"(Atomic\w+|Pad<\d+>|\[Atomic\w+; \w+\]|Turns|ErrorRecord)"
REASON = re.compile(r"SAFETY:|# Safety")


def without_reason(text: str) -> list[int]:
    """Return the lines of an `unsafe` with no reason in the comment before its statement."""
    lines, found = text.splitlines(), []
    for number, line in enumerate(lines):
        if not re.search(r"\bunsafe (\{|impl\b|fn\b)", re.sub(r"//.*", "", line)):
            continue
        at, statement = number, True
        while not REASON.search(lines[at]):
            at -= 1
            above = lines[at].strip() if at >= 0 else ""
            is_comment = above.startswith(("//", "#["))
            # The statement may have begun some lines above.
            statement = statement and not is_comment and not above.endswith((";", "}", "{"))
            if at < 0 or not (statement or is_comment):
                found.append(number + 1)
                break
    return found


def test_each_unsafe_has_its_reason() -> None:
    assert without_reason("let x = 1;\nunsafe { f(x) };") == [2]
    assert without_reason("// SAFETY: so.\nlet x =\n    unsafe { f(x) };") == []
    for path in ALL:
        assert without_reason(path.read_text(encoding="utf-8")) == [], path


def test_memory_that_others_write_is_atomics() -> None:
    for where, names in SHARED.items():
        crate, _, rest = where.partition("/")
        text = code(CORE / crate / "src" / rest)
        for structure in names:
            body = re.search(rf"struct {structure} \{{\n(.*?)^\}}", text, flags=re.M | re.S)
            assert body, f"{where}: {structure}"
            fields = re.findall(r"^    (?:pub(?:\(\w+\))? )?(\w+): (.*),$", body[1], flags=re.M)
            assert fields, f"{where}: {structure}"
            plain = [field for field, kind in fields if not re.fullmatch(ATOMIC, kind)]
            assert plain == [], f"{where}: {structure}"


#: Where slices are made of pointers, and why no other process writes there as long as they live.
SLICES = {
    "engine/chunk_cache.rs": "the process's own",
    "engine/chunk_cache/processes.rs": "atomics, which others may write",
    "engine/heap_read.rs": "the process's own",
    "engine/fetch/direct.rs": "the process's own",
    "os/plugin.rs": "the process's own",
    "python/read.rs": "the process's own",
    "python/table.rs": "the process's own",
    "serve/requests/work_queue.rs": "atomics, which others may write",
    "serve/ring/control.rs": "atomics, which others may write",
    "engine/scatter/out.rs": "what its task writes now of a result, which it alone writes",
    "tables/words.rs": "a sealed plan, or a copy",
}


def test_slices_are_of_memory_that_no_other_process_writes() -> None:
    found = {name(path) for path in FILES if "from_raw_parts" in code(path)}
    assert found == SLICES.keys()
    sealed = {
        name(path) for path in FILES if re.search(r"Memory::Sealed\((?!map\) =>)", code(path))
    }
    assert sealed == {"tables/plan.rs"}, "only what is sealed against writing is read in its place"


def test_files_are_not_too_long() -> None:
    for path in ALL:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 500, path


Module = tuple[str, ...]


def use_paths(tree: str) -> Iterator[str]:
    """Every path of a `use`, without its braces and new names."""
    branches = re.fullmatch(r"((?:\w+::)*)\{(.*)\}", tree.strip(), flags=re.S)
    if not branches:
        yield re.sub(r"\s+as\s+\w+$", "", tree.strip())
        return
    start, depth = 0, 0
    for at, letter in enumerate(branches[2] + ","):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            branch, start = branches[2][start:at], at + 1
            if branch.strip():
                yield from (branches[1] + path for path in use_paths(branch))


class Paths:
    """The files of a crate that each file uses, by the paths in its code.

    What a file passes on (`pub use`) is seen where it is defined. Methods that a file adds to
    another's type are seen nowhere.
    """

    def __init__(self, crate: Path, files: list[Path]) -> None:
        self.files: dict[Module, str] = {}
        for path in files:
            parts = path.relative_to(crate).with_suffix("").parts
            self.files[parts[:-1] if parts[-1] in ("mod", "lib") else parts] = code(path)
        self.passed_on: dict[Module, Module] = {}
        for module, text in self.files.items():
            for tree in re.findall(r"\bpub(?:\([\w ]+\))? use ([^;]+);", text):
                for named in use_paths(tree):
                    if whole := self.whole(named, module):
                        self.passed_on[(*module, whole[-1])] = whole

    def whole(self, path: str, module: Module) -> Module | None:
        """Return a path from the crate's root on. None: it is another crate's."""
        first, *rest = path.split("::")
        at = list(module)
        while first == "super" or first == "self":
            if first == "super":
                at.pop()
            first, *rest = rest or [""]
        if first == "crate":
            return tuple(rest)
        is_near = at != list(module) or path.startswith("self") or (*module, first) in self.files
        return (*at, first, *rest) if is_near else None

    def defined_in(self, path: Module) -> Module | None:
        """Return the module of the file that defines what a whole path names."""
        lengths = range(len(path), -1, -1)
        for length in lengths:
            if known := self.passed_on.get(path[:length]):
                return self.defined_in(known + path[length:])
        return next((path[:length] for length in lengths if path[:length] in self.files), None)

    def seen_by(self, module: Module) -> set[Module]:
        text = re.sub(r"\bpub(?:\([\w ]+\))? use [^;]+;|pub\(in [\w:]+\)", "", self.files[module])
        paths = [path for tree in re.findall(r"\buse ([^;]+);", text) for path in use_paths(tree)]
        text = re.sub(r"\buse [^;]+;", "", text)
        paths += re.findall(r"(?<![\w:.])(\w+(?:::\w+)+)", text)
        whole = [found for path in paths if (found := self.whole(path, module))]
        seen = {other for path in whole if (other := self.defined_in(path))}
        return seen - {module}

    def check(self) -> None:
        """Raise a CycleError that names the files of a circle, if there is one."""
        graph = {module: self.seen_by(module) for module in self.files}
        list(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_no_files_see_each_other_in_a_circle(crate: Path) -> None:
    files = [path for path in FILES if crate in path.parents]
    paths = Paths(crate / "src", files)
    assert any(paths.seen_by(module) for module in paths.files)
    paths.check()


@pytest.mark.parametrize(
    "path",
    ["use crate::b::{c::{self, C}, D as E};", "pub fn f() -> super::b::C {}", "use crate::C;"],
)
def test_a_circle_is_seen(tmp_path: Path, path: str) -> None:
    (tmp_path / "b").mkdir()
    for name, text in {
        "lib.rs": "pub use b::c::C;",
        "a.rs": f"{path}\npub struct A;",
        "b/mod.rs": "mod c;\npub use c::C;",
        "b/c.rs": "use crate::a::A;\npub struct C;",
    }.items():
        (tmp_path / name).write_text(text)
    paths = Paths(tmp_path, sorted(tmp_path.rglob("*.rs")))
    with pytest.raises(graphlib.CycleError, match="'a'"):
        paths.check()


#: From its name to its closing brace, of formatted code.
FUNCTION = r"^( *)(?:[a-z]\S* )*fn (\w+)(?:(?!;\n).)*?\{\n.*?^\1\}$"


def long_functions(text: str, most: int = 80) -> list[str]:
    """The functions that have more lines than this."""
    functions = re.finditer(FUNCTION, text, flags=re.M | re.S)
    return [found[2] for found in functions if found[0].count("\n") >= most]


def test_functions_are_not_too_long() -> None:
    text = "impl A {\n    pub(super) fn f(\n        a: [u8; 4],\n    ) {\n        a\n    }\n}\n"
    assert long_functions(text, most=4) == ["f"]
    assert long_functions(text, most=5) == []
    for path in FILES:
        assert long_functions(code(path)) == [], path
