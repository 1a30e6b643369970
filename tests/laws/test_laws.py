"""The laws of the house, read off the sources.

1. Which folder may import which, and which may touch an HDF5 library.
2. Who may start or signal processes, pickle, sleep; how long a file may be; how it begins.
3. Sources are found where they are imported from, so the test also runs on an installation.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import sys
from pathlib import Path

import pytest
from each import for_each

import _multitables
import multitables
from _multitables.adapters import ADAPTERS

LIBRARY = Path(_multitables.__file__).parent
ROOT = LIBRARY.parent
FACE = Path(multitables.__file__)
PROGRAM = LIBRARY / "benchmark"  # a program over the face, with laws of its own
FILES = sorted(path for path in LIBRARY.rglob("*.py") if PROGRAM not in path.parents)
NAMES = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in FILES}
BENCHMARK = sorted(PROGRAM.rglob("*.py")) + [
    path for path in [ROOT / "multitables_benchmark.py"] if path.exists()
]

#: A folder, or a loose file, may import its own files and what has a lower number.
LEVELS = {
    "errors": -1,
    "filter_names": 0,
    "machine": 0,
    "sizes": 0,
    "remote": 1,
    "tree": 1,
    "options": 2,
    "index": 3,
    "select": 3,
    "elements": 4,
    "plan": 4,
    "wire": 5,
    "parent.dependents": 5,
    "parent.libraries": 5,
    "parent.titles": 5,
    "parent.typed": 5,
    "parent.arrow": 6,
    "parent.notebook": 6,
    "parent.readers": 6,
    "parent.stream": 7,
    "parent.random": 7,
    "parent.node": 8,
    "parent.ragged": 8,
    "parent.batches": 9,
    "parent.collection": 10,
    "parent.columns": 10,
    "parent": 11,
    "parent.open": 12,
    "adapters": 13,
    "later": 14,
    "command": 15,
}
#: The rooms of the index: each may import those before it.
ROOMS = (
    "types", "chunk_index", "metadata", "saved", "files", "kerchunk", "opened", "virtual",
    "datasets", "written", "names", "joined", "versions",
)  # fmt: skip
#: The reader's side sees these, itself, and the core.
READER_MAY = {"errors", "filter_names", "remote", "wire", "reader"}
HDF5 = {"h5py", "tables", "hdf5plugin", "numexpr"}
#: The folder that imports an HDF5 library: what runs in processes of its own.
TOUCH_HDF5 = {"reader"}
#: It asks for versions, not for data.
ASKS_VERSIONS = "_multitables.parent.build_info"
#: It measures h5py's loop beside the library's.
MEASURES_H5PY = "_multitables.command.bench"
#: Readers, the process that asks libhdf5 what the core does not know, and the one that asks stores
#: for a fork, in which obstore hangs.
START_PROCESSES = {
    "_multitables.parent.readers.process",
    "_multitables.index.types.by_library",
    "_multitables.remote.relay",
}
#: What a file may import that is started by others' processes: who it is, and what it shares.
KNOW_PROCESSES = {
    "_multitables.parent.readers.siblings": {
        "multiprocessing.reduction",
        "multiprocessing.reduction.DupFd",
    },
    "_multitables.remote.client": {"signal"},  # to see whether Ctrl-C is for this thread
    "_multitables.adapters.loader_epochs": {
        "multiprocessing",
        "multiprocessing.parent_process",
        "multiprocessing.context",
        "multiprocessing.context.get_spawning_popen",
        "multiprocessing.reduction",
        "multiprocessing.reduction.DupFd",
    },
}
#: Values in, values out: whole folders, and the loose files below them.
PURE = {"errors", "filter_names", "sizes", "tree", "options", "select", "plan", "wire"}
#: Of what is pure, those that plan with the core's numbers or lay bytes out for it.
KNOW_NUMBERS = {"options", "plan", "wire"}
#: Of the index, those that are asked what was read already.
PURE_FILES = {
    "_multitables.index.chunk_index",
    "_multitables.index.types.element_type",
    "_multitables.index.files.open_options",
}
#: Words that the library had once; the field has others.
OLD_WORDS = {
    "abreast", "blame", "board", "dealing", "dealt", "flight", "flights", "idlest", "lattice",
    "loan", "mourn", "poke", "seats", "shelf", "team", "tenure", "whoever",
}  # fmt: skip
OLD_PHRASES = ("so many", "is none of", "none that there", "had better", "it is not so")
#: What is private, but asked of another file's class: NumPy's and PyTables' aside, what
#: `TorchDataset` alone needs of a `Loader`.
FRIENDS = {
    "fallback_call": {"_asdict"},
    "file": {"_file"},
    "dataset": {"_file"},
    "process": {"_exit"},
    "relay_process": {"_exit"},
    "torch_iterable": {"_shared_out"},
    "huggingface_rows": {"_kinds", "_shared_out"},
    "grain_source": {"_shared_out", "_assert_not_closed"},
    "lightning_data": {"_loader", "_given", "_shared_out"},
    "tf_tensors": {"_kinds"},
    "polars_scan": {"_block_table"},
    "ray_source": {"_opened", "_block_table"},
}
#: What adapters are for; each file knows at most one of them, and nobody else any.
ADAPTED = {"datasets", "dlio_benchmark", "grain", "jax", "ray", "tensorflow"}
ADAPTED |= {"torch", "torchdata"}


@functools.cache
def imports(path: Path) -> list[tuple[str, bool]]:
    """(module or module.name, at the top level) of every import of a file."""
    found = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = set(ast.walk(tree)) - {
        inner
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for inner in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if path.parent == PROGRAM / "loops" and node.level:
                continue  # its neighbours: the laws of the benchmark say why
            assert node.level == 0, f"{path}: a relative import"
            assert node.module is not None
            for alias in node.names:
                found.append((f"{node.module}.{alias.name}", node in top))
                found.append((node.module, node in top))
    return found


def ours(path: Path) -> set[str]:
    """Our modules that a file imports; _multitables.x for `from _multitables import x`."""
    found = set()
    for name, _ in imports(path):
        if name in NAMES and name != "_multitables":
            found.add(name)
        if name == "_multitables._core":
            found.add(name)
    return found


def folder(module: str) -> str:
    """The folder, or the loose file, whose rule a module follows; "" for `_multitables` itself."""
    inside = module.split(".")[1:]
    for length in (2, 1):
        name = ".".join(inside[:length])
        if name in LEVELS or name == "reader":
            return name
    return ""


def against_the_law(module: str) -> set[tuple[str, str]]:
    """Imports of ours that the rule of the module's folder does not allow."""
    mine, found = folder(module), set()
    for name in ours(NAMES[module]):
        other = folder(name)
        if name == "_multitables._core":  # of which what is pure knows the numbers only
            allowed = (
                mine.startswith(("elements", "index", "machine", "parent", "reader"))
                or mine in KNOW_NUMBERS
                or module in START_PROCESSES  # which the core starts
                or module == "_multitables.__init__"  # which says what is wrong if it is missing
            )
        elif mine == "reader" or other == "reader":
            allowed = mine == "reader" and other in READER_MAY
        else:
            allowed = mine == other or LEVELS[other] < LEVELS[mine]
        if not allowed:
            found.add((module, name))
    return found


def test_there_is_something_to_read() -> None:
    assert {"_multitables.parent.stream.stream_queue", "_multitables.reader.__main__"} <= set(NAMES)
    assert "_multitables.plan.stream_plan" in ours(NAMES["_multitables.parent.start_blocks"])
    assert {folder(name) for name in NAMES} >= PURE | TOUCH_HDF5
    assert set(NAMES) >= PURE_FILES | {ASKS_VERSIONS, MEASURES_H5PY}


@for_each(sorted(NAMES))
def test_every_file_has_a_folder(module: str) -> None:
    assert folder(module) or module == "_multitables.__init__"


def test_the_top_is_not_crowded() -> None:
    assert len(list(LIBRARY.glob("*.py"))) <= 8


@for_each(sorted(NAMES))
def test_folders_import_what_is_below_them(module: str) -> None:
    assert against_the_law(module) == set()


def test_rooms_of_the_index_import_those_before_them() -> None:
    found, rooms = set(), set()
    for name, path in NAMES.items():
        if folder(name) != "index" or name.endswith("index.__init__"):
            continue
        mine = name.split(".")[2]
        rooms.add(mine)
        for other in ours(path) & set(NAMES):
            room = other.split(".")[2] if folder(other) == "index" else mine
            if ROOMS.index(room) > ROOMS.index(mine):
                found.add((name, other))
    assert found == set()
    assert rooms == set(ROOMS)


def test_the_map_has_each_file_where_it_is() -> None:
    """The map of `_multitables/__init__.py`, by its columns, without `__init__.py` of folders."""
    found: set[str] = set()
    folders: list[str] = []
    for line in (LIBRARY / "__init__.py").read_text(encoding="utf-8").splitlines():
        entry = re.match(r"#((?:  )+) ([\w.]+/?)(?:  |$)", line)
        if entry is None:
            continue
        depth, name = len(entry[1]) // 2 - 1, entry[2]
        folders[depth:] = [name] if name.endswith("/") else []
        if name.endswith(".py"):
            found.add("".join(folders) + name)
    there = {str(path.relative_to(LIBRARY)) for path in FILES if path.name != "__init__.py"}
    assert found == there


@for_each(sorted(NAMES))
def test_who_touches_an_hdf5_library(module: str) -> None:
    found = {name.split(".")[0] for name, _ in imports(NAMES[module])} & HDF5
    if folder(module) not in TOUCH_HDF5 and module not in (ASKS_VERSIONS, MEASURES_H5PY):
        assert found == set()


@for_each(sorted(NAMES))
def test_hdf5_libraries_are_imported_when_needed_only(module: str) -> None:
    top = {name.split(".")[0] for name, at_top in imports(NAMES[module]) if at_top}
    assert not top & HDF5


@for_each(sorted(NAMES))
def test_only_adapters_touch_what_they_are_for(module: str) -> None:
    found = {name.split(".")[0] for name, _ in imports(NAMES[module])} & ADAPTED
    assert len(found) <= (".adapters." in module)
    if not module.startswith("_multitables.adapters"):
        assert not [name for name in ours(NAMES[module]) if ".adapters" in name]


#: What the core makes of values, and the values that it takes: no state, no input or output.
TABLES = {"Table", "TableBuilder", "Kind", "Source", "FileColumns"}


def test_what_is_pure_does_no_input_or_output() -> None:
    for name, path in NAMES.items():
        if folder(name) not in PURE and name not in PURE_FILES:
            continue
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        called = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not called & {"open", "print", "input", "exec", "eval", "__import__"}, name
        found = {module.split(".")[0] for module, _ in imports(path)}
        assert not found & {"subprocess", "socket", "time", "threading", "random", "datetime"}, name


def test_what_is_pure_knows_only_the_numbers_and_tables_of_the_core() -> None:
    for name, path in NAMES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if folder(name) in PURE and isinstance(node, ast.Attribute):
                is_known = node.attr.isupper() or node.attr in TABLES
                assert ast.unparse(node.value) != "_core" or is_known, name


def test_no_imports_go_in_a_circle() -> None:
    """Of files, not only of folders; neither at the top nor in a function, nor for types alone."""
    below = {module: ours(path) & set(NAMES) for module, path in NAMES.items()}
    list(graphlib.TopologicalSorter(below).static_order())


@for_each(sorted(NAMES))
def test_only_one_file_starts_or_signals_processes(module: str) -> None:
    path = NAMES[module]
    if module in START_PROCESSES:
        return
    found = {name for name, _ in imports(path)} - KNOW_PROCESSES.get(module, set())
    assert not {name.split(".")[0] for name in found} & {"subprocess", "multiprocessing", "signal"}
    attributes = {
        node.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    starts = {"fork", "posix_spawn", "start_together"}
    assert not attributes & {*starts, "Process", "kill", "killpg", "terminate", "send_signal"}


@for_each(sorted(NAMES))
def test_nothing_is_pickled(module: str) -> None:
    found = {name.split(".")[0] for name, _ in imports(NAMES[module])}
    assert not found & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}


@for_each(BENCHMARK)
def test_the_benchmark_imports_only_the_face(path: Path) -> None:
    inside = {name for name, _ in imports(path) if name.split(".")[0] == "_multitables"}
    assert {name for name in inside if not name.startswith("_multitables.benchmark")} == set()


def test_the_face_is_short_and_has_no_logic() -> None:
    source = FACE.read_text(encoding="utf-8")
    assert len(source.splitlines()) < 250
    allowed = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    nodes = ast.parse(source).body
    for node in nodes:
        if isinstance(node, ast.If):  # what type checkers see of the adapters, and what runs
            is_command = ast.unparse(node.test) == "__name__ == '__main__'"
            assert is_command or ast.unparse(node.test) == "typing.TYPE_CHECKING"
            nodes += [] if is_command else node.body + node.orelse
            continue
        is_lazy = isinstance(node, ast.FunctionDef) and node.name in ("__getattr__", "__dir__")
        assert isinstance(node, allowed) or is_lazy, ast.dump(node)[:80]


def test_the_face_names_what_is_public() -> None:
    assert sorted(multitables.__all__) == multitables.__all__
    for name in multitables.__all__:
        assert getattr(multitables, name) is not None
    public = {
        name
        for name, value in vars(multitables).items()
        if not name.startswith("_") and not isinstance(value, type(sys))
    }
    public -= {"QueueClosed", "open", *ADAPTERS}  # some are there once they are named
    assert public == set(multitables.__all__) - {"QueueClosed"}
    for name in multitables.__all__:
        if name != "QueueClosed":
            assert getattr(multitables, name).__doc__


@for_each(sorted(NAMES))
def test_every_file_begins_with_its_law(module: str) -> None:
    path = NAMES[module]
    source = path.read_text(encoding="utf-8")
    if path.name == "__init__.py":
        assert source.lstrip().startswith(('"""', "#"))
        return
    doc = ast.get_docstring(ast.parse(source))
    assert doc, f"{path} begins with no law"
    assert "1. " in doc, f"{path} has no numbered rule"
    assert doc.splitlines()[0].endswith(".")


def test_files_of_the_core_begin_with_their_law() -> None:
    core = ROOT / "core" / "crates"
    if not core.is_dir():
        pytest.skip("an installation has no sources of the core")
    for path in sorted(core.rglob("*.rs")):
        assert path.read_text(encoding="utf-8").startswith("//!"), path


@for_each(sorted(NAMES))
def test_names_are_nouns(module: str) -> None:
    last = module.rpartition(".")[2]
    assert last not in {"utils", "util", "common", "helpers", "helper", "misc", "tools"}


@for_each(sorted(NAMES))
def test_files_are_not_too_long(module: str) -> None:
    assert len(NAMES[module].read_text(encoding="utf-8").splitlines()) <= 500


def test_words() -> None:
    """One word, one thing: a process that reads is a reader."""
    for path in [*FILES, FACE]:
        words = path.read_text(encoding="utf-8").lower()
        if path.parent.name == "adapters":  # libraries' own names, for processes of a DataLoader
            words = words.replace("get_worker_info", "").replace("num_workers", "")
            words = words.replace("split_shard_indices_by_worker", "")
        if path.name == "place.py":  # variables of launchers
            words = words.replace("master_addr", "").replace("master_port", "")
        for word in ("worker", "slave", "master"):
            assert word not in words, f"{word} in {path}"


@for_each([*FILES, FACE])
def test_the_fields_words(path: Path) -> None:
    """The field has a word for it: work queue, request handle, shard, checkpoint, least loaded."""
    source = path.read_text(encoding="utf-8")
    for phrase in ("in flight", "in_flight"):  # of requests to a device: that is the field's
        source = source.replace(phrase, "")
    words = set(re.findall("[a-z]+", re.sub("([A-Z]+)", r" \1", source).lower()))
    assert not words & OLD_WORDS, path
    assert not [phrase for phrase in OLD_PHRASES if phrase in source.lower()], path
    assert not re.findall(r"\b(?:MOST|LEAST)_\w+", source), path


@for_each([*FILES, *BENCHMARK])
def test_functions_are_not_too_long(path: Path) -> None:
    """At most 80 lines, beside what a docstring says."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            doc = ast.get_docstring(node, clean=False) or ""
            length = (node.end_lineno or node.lineno) - node.lineno - doc.count("\n")
            assert length <= 80, f"{path}: {node.name}"


@for_each(FILES)
def test_what_is_private_is_used_where_it_is_defined(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined, used = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.Name):
            defined.add(node.id)
        elif isinstance(node, ast.Attribute):
            is_own = ast.unparse(node.value) in ("self", "cls") or isinstance(node.ctx, ast.Store)
            (defined if is_own else used).add(node.attr)
    private = {name for name in used if re.match("_[a-z]", name)}
    assert private - defined <= FRIENDS.get(path.stem, set()), path


@for_each(sorted(NAMES))
def test_one_home_of_defaults(module: str) -> None:
    """Limits are named in options.py; the core says how many cores there are."""
    assert "cpu_count" not in NAMES[module].read_text(encoding="utf-8")
