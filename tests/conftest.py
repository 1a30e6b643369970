"""What every test runs under: the audit after it, the alarm around it, files made for it.

Law
---
1. After each test that passed nothing may be left that was not there before it: no child, no
   descriptor, no thread, no shared mapping. What is left fails the test that left it.
2. A hang is a failure with the traceback of every thread, never a silent wait: first in the test
   (the alarm, which also kills its children), then, if it cannot react, of the whole run.
3. `pytest --examples 10` has Hypothesis draw ten times as many: minutes that CI does not have.
4. HDF5 libraries are warmed up before the first test, so that what they keep for themselves is
   not taken for a leak. BLAS may use no threads: it ends them when a process forks, and starts
   others in the next test that multiplies matrices. Nor may that of children, a sixth of whose
   import of NumPy is to start them.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import hypothesis
import numpy as np
import pytest
import tables
import threadpoolctl
from disk_cases import spinning
from processes import Holdings, children, kill, leaks, threads
from simulated_disk import Mounted

from _multitables import _core
from _multitables.index.types import plugins

HANG_SECONDS = 60.0
GRACE_SECONDS = 15.0  # for the alarm to end the test, before the run itself is ended

_stderr = 2
_before: Holdings | None = None


# Tests never time: a busy machine is no fault of theirs.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--examples",
        type=int,
        default=1,
        metavar="N",
        help="draw N times as many examples, and give tests that draw N times as long",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "few_filters" in getattr(item, "fixturenames", ()):
            ignored = "ignore::multitables.SlowFilterWarning"
            item.add_marker(pytest.mark.filterwarnings(ignored))
    times = config.getoption("--examples")
    for item in items if times > 1 else []:
        test = getattr(item, "obj", None)
        if hypothesis.is_hypothesis_test(test):
            function = getattr(test, "__func__", test)
            # Hypothesis has no public way to raise what a test says for itself.
            asked = function._hypothesis_internal_use_settings or hypothesis.settings()
            more = hypothesis.settings(asked, max_examples=times * asked.max_examples)
            function._hypothesis_internal_use_settings = more
            marker = item.get_closest_marker("hang")
            seconds = marker.args[0] if marker else HANG_SECONDS
            item.add_marker(pytest.mark.hang(times * seconds), append=False)


def pytest_configure(config: pytest.Config) -> None:
    global _stderr
    _stderr = os.dup(2)  # capturing redirects 2 later on
    config.addinivalue_line("markers", "hang(seconds): a test that may take longer than a minute")


def pytest_sessionstart() -> None:
    tables.set_blosc_max_threads(1)
    tables.set_blosc2_max_threads(1)
    os.environ["BLOSC_NTHREADS"] = "1"
    threadpoolctl.threadpool_limits(1, "blas")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with h5py.File("warm-up", "w", driver="core", backing_store=False) as file:
        for name, options in (("a", hdf5plugin.Blosc()), ("b", hdf5plugin.Blosc2())):
            file.create_dataset(name, data=np.arange(1000), chunks=(100,), **options)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()  # what the libraries keep for ever need not be looked through after each test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _before
    marker = item.get_closest_marker("hang")
    seconds = marker.args[0] if marker else HANG_SECONDS
    others = frozenset(threads())
    faulthandler.dump_traceback_later(seconds + GRACE_SECONDS, exit=True, file=_stderr)
    _before = Holdings.now()
    while _before.threads <= others:  # the kernel's list may lack the watchdog's own thread
        _before = Holdings.now()
    signal.signal(signal.SIGALRM, _hang)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()


def _hang(_number: int, _frame: object) -> None:
    faulthandler.dump_traceback(file=_stderr)
    assert _before is not None
    known = {int(child.split()[0]) for child in _before.children}
    for pid in children():
        if pid not in known:
            kill(pid)
    raise pytest.fail.Exception("the test hangs (the traceback of every thread is on stderr)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    result = yield
    # A failed test keeps its frames alive in its traceback, and all they hold.
    if item.stash.get(_PASSED, False):
        assert _before is not None
        left = leaks(_before)
        if left:
            lines = [f"{kind}: {items}" for kind, items in left.items()]
            pytest.fail("left behind by the test:\n" + "\n".join(lines), pytrace=False)
    return result


@pytest.fixture
def h5(tmp_path: Path) -> Path:
    """Where a test writes its HDF5 file."""
    return tmp_path / "data.h5"


@pytest.fixture
def few_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that leaves scaleoffset and bzip2 to a library, as it does what it does not know."""
    native = {n: name for n, name in _core.native_filters().items() if n not in (6, 307)}
    monkeypatch.setattr(_core, "native_filters", lambda: native)
    monkeypatch.setattr(plugins, "plugin_of", lambda _: None)


@pytest.fixture
def without_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers find no plugin to load; a library among them has hdf5plugin's filters as ever."""
    folder = str(tmp_path / "no-plugins")
    os.mkdir(folder)
    Path(folder, "hdf5plugin.py").write_text(
        f"import sys\nsys.path.remove({folder!r})\ndel sys.modules['hdf5plugin']\n"
        "import hdf5plugin\n"
    )
    monkeypatch.setattr(sys, "path", [folder, *sys.path])
    monkeypatch.setenv("HDF5_PLUGIN_PATH", folder)


@pytest.fixture(scope="session")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose rows say which row they are; see `payload` for its datasets."""
    from payload import write

    return write(tmp_path_factory.mktemp("numbered") / "numbered.h5")


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with tables, arrays and ragged data; see `reader_file`."""
    from reader_file import write

    return write(tmp_path_factory.mktemp("sample") / "sample.h5")


@pytest.fixture
def reader(numbered: Path) -> Iterator[Any]:
    """Random access by two readers to the numbered rows."""
    from reader_cases import opened

    with opened(numbered) as reader:
        yield reader


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Mounted]:
    """A simulated disk that only counts."""
    with spinning(tmp_path) as found:
        yield found
