"""The systems that the core runs on: the import on others, and what a build makes.

1. One sentence: what happened, why, and what to do.
2. A wheel serves every CPython with a GIL, and one without it has its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import run_script

ROOT = Path(__file__).parents[2]
WHERE = "use it on Linux, in a container, or in WSL 2 on Windows"


def last_line(text: str) -> str:
    return text.splitlines()[-1]


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_another_system(platform: str) -> None:
    done = run_script(f"import sys\nsys.platform = {platform!r}\nimport multitables")
    assert last_line(done.stderr) == (
        "ImportError: multitables runs on Linux only, because its core shares memory and wakes "
        f"threads by calls of Linux's kernel, and this is {platform!r}: {WHERE}"
    )


def test_a_core_that_is_missing(tmp_path: Path) -> None:
    for name in ("__init__", "later", "errors"):
        (tmp_path / "_multitables").mkdir(exist_ok=True)
        shutil.copy(ROOT / "_multitables" / f"{name}.py", tmp_path / "_multitables")
    done = subprocess.run(
        [sys.executable, "-c", "import _multitables"],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert last_line(done.stderr) == (
        "ImportError: the native core of multitables cannot be loaded (No module named "
        "'_multitables._core'), because this copy was not built, or was built for another machine: "
        "install multitables here with pip"
    )


in_a_checkout = pytest.mark.skipif(
    not (ROOT / "setup.py").exists(), reason="the tests run without a checkout"
)


@in_a_checkout
def test_a_build_on_another_system() -> None:
    done = run_script(
        "import runpy, sys, unittest.mock\n"
        "sys.platform = 'darwin'\n"
        "sys.modules['setuptools_rust'] = unittest.mock.MagicMock()  # pip brings it\n"
        "runpy.run_path(sys.argv[1])",
        ROOT / "setup.py",
        flags=(),
    )
    assert done.returncode == 1
    assert last_line(done.stderr).endswith(f"'darwin': {WHERE}. Nothing was built.")


@in_a_checkout
@pytest.mark.parametrize("gil_disabled", [0, 1])
def test_a_build_without_a_gil_has_no_limited_api(gil_disabled: int) -> None:
    done = run_script(
        "import runpy, sys, sysconfig, setuptools\n"
        "from unittest import mock\n"
        "sys.modules['setuptools_rust'] = rust = mock.MagicMock()\n"
        f"value = mock.patch.object(sysconfig, 'get_config_var', return_value={gil_disabled})\n"
        "with mock.patch.object(setuptools, 'setup') as setup, value:\n"
        "    runpy.run_path(sys.argv[1])\n"
        "print(rust.RustExtension.call_args.kwargs['py_limited_api'])\n"
        "print(setup.call_args.kwargs['options'])",
        ROOT / "setup.py",
        flags=(),
    )
    of_wheel = {} if gil_disabled else {"bdist_wheel": {"py_limited_api": "cp310"}}
    assert done.stdout.splitlines() == [str(not gil_disabled), str(of_wheel)]
