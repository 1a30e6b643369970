"""The laws of the core's house, read off its sources.

1. One rule for each folder of core/src: which others it may see, by its `crate::` paths. Files see
   each other in no circle, inside a folder neither. Tests and their fixtures may see everything.
2. Only py knows Python; only os and fetch make system calls.
3. Each `unsafe` has its reason beside it. What lies in memory that other processes may write is all
   atomics.
4. What today's code has against a rule stands in `TO_BE_OPENED`, each with its file: an edge that
   is not there fails, and so does one that is there no longer.
"""

from __future__ import annotations

import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core" / "src"

#: Folders, and files beside them, from left to right: each may see those further left. Of those
#: that stand together none may see another.
LAYERS = (
    ("os", "autotune", "convert", "format"),
    ("filters", "shuffle"),
    ("tables", "mappings"),
    ("fetch", "select"),
    ("task_error", "scatter"),
    ("engine",),
    ("ring", "requests"),
    ("process",),
    ("py",),
)
#: What knows no kernel, though that is further left: crates to be.
WITHOUT_OS = {"filters"}
FOLDERS = [folder for layer in LAYERS for folder in layer]
#: Loose in core/src besides those above: the list of modules, and what several folders' tests are.
LOOSE = {"lib", "fixtures", "malformed_plan", "malformed_order"}
MAKE_SYSTEM_CALLS = {"os", "fetch"}

#: (file, what it sees) against the rules above.
TO_BE_OPENED: set[tuple[str, str]] = set()
#: (file, the call) outside os and fetch.
CALLS_TO_BE_MOVED = {
    ("process/serve.rs", "libc::_exit"),
    ("process/serve.rs", "libc::fcntl"),
    ("process/serve.rs", "libc::getppid"),
    ("process/serve.rs", "libc::poll"),
    ("process/serve.rs", "libc::syscall"),
    ("ring/control.rs", "libc::sched_getcpu"),
}

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


def is_test(path: Path) -> bool:
    """Whether all of a file is compiled for tests only."""
    parts = path.relative_to(CORE.parent).with_suffix("").parts[1:]
    tests = {"tests", "ring_stress", "races", "shuffle_tasks"} | LOOSE
    return not tests.isdisjoint(parts)


FILES = [path for path in sorted(CORE.rglob("*.rs")) if not is_test(path)]
INFLATE = CORE.parent / "multi_inflate" / "src"


def code(path: Path) -> str:
    """A file without its comments and the tests inside it."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^#\[cfg\(test\)\]\nmod tests \{.*?^\}$", "", text, flags=re.M | re.S)
    return re.sub(r"//.*", "", text)


def folder(path: Path) -> str:
    return path.relative_to(CORE).with_suffix("").parts[0]


def allowed(of: str) -> set[str]:
    may = {of}
    for layer in LAYERS:
        if of in layer:
            return may - {"os"} if of in WITHOUT_OS else may
        may.update(layer)
    raise AssertionError(f"{of} has no place in the house")


def name(path: Path) -> str:
    return path.relative_to(CORE).as_posix()


def edges() -> set[tuple[str, str]]:
    """(file, folder::module) of all that is against the rules."""
    found = set()
    for path in FILES:
        may = allowed(folder(path))
        for seen in re.finditer(r"\bcrate::(\w+)((?:::[a-z]\w*)?)", code(path)):
            if seen[1] not in may:
                found.add((name(path), seen[1] + seen[2]))
    return found


def system_calls() -> set[tuple[str, str]]:
    """(file, call) of what asks the kernel outside os and fetch."""
    calls = r"\b(libc::\w+(?=\()|io_uring::|std::(?:fs|net|process::Command|thread::spawn)\b)"
    return {
        (name(path), call)
        for path in FILES
        if folder(path) not in MAKE_SYSTEM_CALLS
        for call in re.findall(calls, code(path))
    }


def test_every_file_has_its_folder() -> None:
    found = {path.relative_to(CORE).with_suffix("").parts[0] for path in CORE.rglob("*.rs")}
    assert found == {*FOLDERS, *LOOSE}


def test_few_files_are_loose() -> None:
    assert len(list(CORE.glob("*.rs"))) <= 6


def test_folders_see_only_what_is_left_of_them() -> None:
    found = edges()
    assert sorted(found - TO_BE_OPENED) == [], "new edges against the rules"
    assert sorted(TO_BE_OPENED - found) == [], "opened: take these off the list"


def test_paths_are_whole() -> None:
    """A `super::` that leaves its folder would be an edge that no rule sees."""
    for path in FILES:
        depth = len(path.relative_to(CORE).parts) - 1
        for ups in re.findall(r"(?<!\w)((?:super::)+)", code(path)):
            up = ups.count("super::") + (path.name == "mod.rs")
            assert up <= depth, f"{name(path)}: {ups}"


def test_paths_follow_folders() -> None:
    for path in CORE.rglob("*.rs"):
        assert "#[path" not in path.read_text(encoding="utf-8"), path


def test_only_py_knows_python() -> None:
    knows = {folder(path) for path in FILES if re.search(r"\b(pyo3|numpy)::", code(path))}
    assert knows == {"py"}


def test_only_os_and_fetch_make_system_calls() -> None:
    found = system_calls()
    assert sorted(found - CALLS_TO_BE_MOVED) == [], "new system calls outside os and fetch"
    assert sorted(CALLS_TO_BE_MOVED - found) == [], "moved: take these off the list"


def old_words(path: Path) -> set[str]:
    """Old words of a file, its comments and tests as well."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(rf"\b({'|'.join(OLD_WORDS)})\b", text, flags=re.IGNORECASE)
    return {match[0] for match in found}


def test_nobody_says_the_old_words() -> None:
    found = {
        (path.relative_to(CORE.parent).as_posix(), word)
        for path in [*CORE.rglob("*.rs"), *INFLATE.parent.rglob("*.rs")]
        for word in old_words(path)
    }
    assert sorted(found) == [], f"the field's words are {OLD_WORDS}"


#: Structures over memory that other processes map: they may change at any time.
SHARED = {
    "engine/counters.rs": ["Record"],
    "os/turns.rs": ["Turns"],
    "requests/work_queue.rs": ["Head", "Queue", "Slot"],
    "ring/control.rs": ["Head"],
    "task_error.rs": ["ErrorRecord"],
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
    for path in [*CORE.rglob("*.rs"), *INFLATE.parent.rglob("*.rs")]:
        assert without_reason(path.read_text(encoding="utf-8")) == [], path


def test_memory_that_others_write_is_atomics() -> None:
    for where, names in SHARED.items():
        text = code(CORE / where)
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
    "engine/heap_read.rs": "the process's own",
    "fetch/direct.rs": "the process's own",
    "os/plugin.rs": "the process's own",
    "py/read.rs": "the process's own",
    "py/table.rs": "the process's own",
    "requests/work_queue.rs": "atomics, which others may write",
    "ring/control.rs": "atomics, which others may write",
    "scatter/out.rs": "what its task writes now of a result, which it alone writes",
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
    for path in [*CORE.rglob("*.rs"), *INFLATE.parent.rglob("*.rs")]:
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


@pytest.mark.parametrize("crate", [CORE, INFLATE], ids=["core", "multi_inflate"])
def test_no_files_see_each_other_in_a_circle(crate: Path) -> None:
    files = [path for path in sorted(crate.rglob("*.rs")) if not is_test(path)]
    paths = Paths(crate, [crate / "lib.rs", *files])
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
    files = [*FILES, *(path for path in INFLATE.rglob("*.rs") if not is_test(path))]
    for path in files:
        assert long_functions(code(path)) == [], path
