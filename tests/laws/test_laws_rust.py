"""The laws of the core's house, read off its sources.

1. One rule for each folder of core/src: which others it may see, by its `crate::` paths. Tests and
   their fixtures may see everything.
2. Only py knows Python; only os and fetch make system calls.
3. Each `unsafe` has its reason beside it. What lies in memory that other processes may write is all
   atomics.
4. What today's code has against a rule stands in `TO_BE_OPENED`, each with its file: an edge that
   is not there fails, and so does one that is there no longer.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core" / "src"

#: Folders, and files beside them, from left to right: each may see those further left. Of those
#: that stand together none may see another.
LAYERS = (
    ("os",),
    ("autotune", "convert"),
    ("filters", "shuffle", "format"),
    ("tables",),
    ("fetch", "select"),
    ("task_error", "scatter"),
    ("engine",),
    ("ring", "requests"),
    ("process",),
    ("py",),
)
FOLDERS = [folder for layer in LAYERS for folder in layer]
#: Loose in core/src besides those above: the list of modules, and what several folders' tests are.
LOOSE = {"lib", "fixtures", "malformed_plan", "malformed_order"}
MAKE_SYSTEM_CALLS = {"os", "fetch"}

#: (file, what it sees) against the rules above.
TO_BE_OPENED: set[tuple[str, str]] = set()
#: (file, the call) outside os and fetch.
CALLS_TO_BE_MOVED = {
    ("process/serve.rs", "libc::CMSG_DATA"),
    ("process/serve.rs", "libc::CMSG_FIRSTHDR"),
    ("process/serve.rs", "libc::CMSG_LEN"),
    ("process/serve.rs", "libc::_exit"),
    ("process/serve.rs", "libc::fcntl"),
    ("process/serve.rs", "libc::getppid"),
    ("process/serve.rs", "libc::poll"),
    ("process/serve.rs", "libc::recvmsg"),
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
    parts = path.relative_to(CORE).with_suffix("").parts
    tests = {"tests", "ring_stress", "races", "shuffle_tasks"} | LOOSE
    return not tests.isdisjoint(parts)


FILES = [path for path in sorted(CORE.rglob("*.rs")) if not is_test(path)]


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
            return may
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
        for path in [*CORE.rglob("*.rs"), *(CORE.parent / "multi_inflate").rglob("*.rs")]
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
    for path in [*CORE.rglob("*.rs"), *(CORE.parent / "multi_inflate").rglob("*.rs")]:
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


def test_files_are_not_too_long() -> None:
    for path in [*CORE.rglob("*.rs"), *(CORE.parent / "multi_inflate").rglob("*.rs")]:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 500, path
