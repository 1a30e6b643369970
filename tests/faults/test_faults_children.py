"""The user's process forks, or starts children by multiprocessing, beside a stream.

1. Each case is a script in a process of its own, so that a real end is a real end.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from parent_scripts import PRELUDE, by
from payload import ROWS
from processes import (
    alive,
    environment,
    first_readers,
    gone,
    kill,
    run_script,
    script,
)

FORKED = (
    PRELUDE
    + """
import warnings
warnings.simplefilter('ignore', DeprecationWarning)  # of fork beside threads
stream = streamer.get_queue('/rows', n_procs=2, cyclic=True, read_ahead=4)
guard = stream.get()
block = guard.__enter__()
first = block.copy()
child = os.fork()
if child == 0:
    # The child may look at what it inherited, close it, drop it, and end in any way.
    status = 0 if (block == first).all() else 1
    {child}
    os._exit(status)
for _ in range({blocks}):
    with stream.get() as other:
        assert int(other[0, 0]) % 64 == 0
    del other
_, status = os.waitpid(child, 0)
assert (block == first).all()
guard.__exit__(None, None, None)
del block
for _ in range(400):
    with stream.get() as other:
        pass
    del other
assert stream.statistics()['readers_replaced'] == 0
print('status', os.waitstatus_to_exitcode(status), flush=True)
stream.close()
"""
)

CHILDREN = {
    "looks": "pass",
    "drops": "del block, guard",
    "closes": "guard.__exit__(None, None, None); del block; stream.close()",
    "drops all": "del block, guard, stream, streamer",
    "exits": "sys.exit(status)",
    "streams": "status += sum(1 for _ in streamer.get_generator('/rows', n_procs=2)) - 6000",
    "execs": "os.execv('/bin/true', ['true'])",
}


@pytest.mark.parametrize("n_procs", [2, 0])
@pytest.mark.parametrize("case", CHILDREN)
def test_forked_children_do_no_harm(numbered: Path, case: str, n_procs: int) -> None:
    source = by(n_procs, FORKED.format(child=CHILDREN[case], blocks=1))
    done = run_script(source, numbered)
    assert done.stdout == "status 0\n", done.stderr
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_a_forked_child_does_not_keep_readers_alive(numbered: Path) -> None:
    """The parent is killed, its forked child lives on: the readers end all the same."""
    source = (
        PRELUDE
        + """
import warnings
warnings.simplefilter('ignore')
stream = streamer.get_queue('/rows', n_procs=2, cyclic=True)
guard = stream.get()
child = os.fork()
if child == 0:
    time.sleep(1000)
print(child, flush=True)
time.sleep(1000)
"""
    )
    with script(source, numbered) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        team = first_readers(2, process.pid)
        kill(process.pid)
        process.wait(20)
        gone(team)
        assert alive(child)


def test_multiprocessing_beside_a_stream(numbered: Path) -> None:
    """Pools of either start method work while a stream runs."""
    source = """
import multiprocessing, sys, warnings
import multitables
warnings.simplefilter('ignore', DeprecationWarning)
if __name__ == '__main__':
    stream = multitables.Streamer(sys.argv[1]).get_queue('/rows', n_procs=1, cyclic=True)
    for method in ('fork', 'forkserver'):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(abs, range(-20, 0)) == list(range(20, 0, -1))
        for _ in range(100):
            with stream.get():
                pass
    print('done')
"""
    done = run_script(source, numbered)
    assert done.stdout == "done\n", done.stderr


def test_streams_in_children_of_multiprocessing(numbered: Path, tmp_path: Path) -> None:
    """Daemonic children may start no process of multiprocessing, which readers do without."""
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, sys, multitables\n"
        "def count(path):\n"
        "    return sum(1 for _ in multitables.Streamer(path).get_generator('/rows', n_procs=1))\n"
        "if __name__ == '__main__':\n"
        "    for method in ('fork', 'spawn'):\n"
        "        with multiprocessing.get_context(method).Pool(2) as pool:\n"
        "            print(pool.map(count, [sys.argv[1]] * 3))\n"
    )
    done = subprocess.run(
        [sys.executable, str(program), str(numbered)],
        capture_output=True, text=True, env=environment(), timeout=50, check=False,
    )  # fmt: skip
    assert done.stdout == f"{[ROWS] * 3}\n" * 2, done.stderr
