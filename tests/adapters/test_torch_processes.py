"""`TorchDataset` in a `DataLoader`'s processes: rows are shared out, epochs and states reach them.

1. Forked loaders run here, under the audit; whoever needs new interpreters is a script.
2. The order through a loader is its round robin over the processes' runs; what counts is that
   every row comes once, that epochs differ, and that resuming is exact.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import payload
import pytest
from loaders import FORKS, damaged, each_once, loader, rows_of
from processes import alive, children, readers, run_script, wait_until

torch = pytest.importorskip("torch")

import multitables  # noqa: E402 - torch may be missing

pytestmark = FORKS
BATCH = 100


def dataset(path: Path, which: Any = "/rows", **options: Any) -> Any:
    return multitables.TorchDataset(path, which, BATCH, **{"shuffle": True, **options})


@pytest.mark.parametrize("stays", [False, True], ids=["new processes", "they stay"])
@pytest.mark.parametrize("processes", [1, 3])
def test_every_row_comes_once(numbered: Path, processes: int, stays: bool) -> None:
    data = dataset(numbered)
    batches = loader(data, processes, persistent_workers=stays)
    assert len(batches) == payload.ROWS // BATCH
    orders = []
    for epoch in (0, 1, 0):
        data.set_epoch(epoch)
        orders.append(rows_of(batches))
        assert each_once(orders[-1])
    assert not np.array_equal(orders[0], orders[1])
    assert np.array_equal(orders[0], orders[2])
    del batches
    gc.collect()


@pytest.mark.parametrize("stays", [False, True], ids=["new processes", "they stay"])
def test_each_pass_is_the_next_epoch(numbered: Path, stays: bool) -> None:
    """Also after one that was left early: processes are ahead of the loop."""
    data = dataset(numbered, start_epoch=2)
    batches = loader(data, 2, persistent_workers=stays)
    assert np.array_equal(rows_of(batches), rows_in_turn(numbered, 2, epoch=2))
    assert np.array_equal(rows_of(batches), rows_in_turn(numbered, 2, epoch=3))
    next(iter(batches))
    assert np.array_equal(rows_of(batches), rows_in_turn(numbered, 2, epoch=5))
    data.set_epoch(3)
    assert np.array_equal(rows_of(batches), rows_in_turn(numbered, 2, epoch=3))
    assert np.array_equal(rows_of(batches), rows_in_turn(numbered, 2, epoch=4))
    del batches
    gc.collect()


def test_passes_of_several_epochs(numbered: Path) -> None:
    data = dataset(numbered, epochs=2)
    batches = loader(data, 1)
    for first in (0, 2):
        want = [rows_in_turn(numbered, 1, epoch=epoch) for epoch in (first, first + 1)]
        assert np.array_equal(rows_of(batches), np.concatenate(want))


def test_loaders_at_once(numbered: Path) -> None:
    """Whoever comes first: all processes of a loader agree on the epoch."""
    data = dataset(numbered)
    pairs = list(zip(loader(data, 2), loader(data, 2), strict=True))
    found = [rows_of(batches) for batches in zip(*pairs, strict=True)]
    wanted = [rows_in_turn(numbered, 2, epoch=epoch) for epoch in range(2)]
    assert sorted(map(list, found)) == sorted(map(list, wanted))


def test_a_state_is_for_one_pass(numbered: Path) -> None:
    """One that was given to the dataset, not to a loader, and has to reach its processes."""
    data = dataset(numbered, n_procs=1)
    iterator = iter(data)
    head = rows_of(next(iterator) for _ in range(25))
    state = data.state_dict()
    del iterator
    data = dataset(numbered)
    data.load_state_dict(state)
    batches = loader(data, 1)
    rest = rows_of(batches)
    assert np.array_equal(np.concatenate([head, rest]), rows_in_turn(numbered, 1, epoch=0))
    for epoch in (1, 2):
        assert np.array_equal(rows_of(batches), rows_in_turn(numbered, 1, epoch=epoch))


def rows_in_turn(path: Path, processes: int, epoch: int) -> np.ndarray:
    """The order of an epoch through a loader, which takes a batch of each process in turn."""
    batches = multitables.Streamer(path).get_batches("/rows", BATCH, shuffle=True)
    order = batches.order(epoch).reshape(processes, -1, BATCH)
    return order.transpose(1, 0, 2).reshape(-1)


def test_each_process_has_a_run_of_the_order(numbered: Path) -> None:
    data = dataset(numbered)
    assert np.array_equal(rows_of(loader(data, 2)), rows_in_turn(numbered, 2, epoch=0))


@pytest.mark.parametrize("drops", [False, True])
def test_the_length_is_that_of_all_processes(numbered: Path, drops: bool) -> None:
    """Runs are cut between batches, so only the last one has a batch that is not full."""
    data = multitables.TorchDataset(numbered, "/rows", 128, drop_last=drops, shuffle=True)
    batches = loader(data, 2)
    sizes = [len(batch) for batch in batches]
    assert len(sizes) == len(batches) == payload.ROWS // 128 + (not drops)
    assert sorted(sizes, reverse=True)[:-1] == [128] * (len(sizes) - 1)
    assert sum(sizes) == (payload.ROWS // 128 * 128 if drops else payload.ROWS)


@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("processes", [1, 3])
def test_even_ranks_have_as_many_batches_through_any_loader(
    numbered: Path, processes: int, drops: bool
) -> None:
    """Ranks step together, so their numbers of batches must not depend on their processes."""
    taken = []
    for rank in range(4):
        data = multitables.TorchDataset(
            numbered, "/rows", 77, rank=rank, world_size=4, even=True, drop_last=drops, shuffle=True
        )
        batches = loader(data, processes)
        sizes = [len(batch) for batch in batches]
        assert len(sizes) == len(batches) == len(data)
        taken.append((len(sizes), sum(sizes)))
        del batches
    each = payload.ROWS // 77 // 4 * 77 if drops else payload.ROWS // 4
    assert taken == [(-(-each // 77), each)] * 4


def test_a_loader_beside_a_stream_that_runs(numbered: Path) -> None:
    """The children of a fork make streams of their own, and leave their parent's alone."""
    data = dataset(numbered, n_procs=1)
    iterator = iter(data)
    head = rows_of(next(iterator) for _ in range(10))
    assert each_once(rows_of(loader(data, 2)))
    assert each_once(np.concatenate([head, rows_of(iterator)]))


def test_breaking_out_leaves_no_process(numbered: Path) -> None:
    before = children()
    for batch in loader(dataset(numbered), 2):
        assert len(batch) == BATCH
        break
    del batch
    gc.collect()
    assert children() == before


def test_processes_that_stay_can_be_left_early(numbered: Path) -> None:
    data = dataset(numbered)
    batches = loader(data, 2, persistent_workers=True)
    for _ in range(3):
        next(iter(batches))
    assert each_once(rows_of(batches))
    del batches
    gc.collect()


def test_each_process_has_one_reader_that_ends_with_it(numbered: Path) -> None:
    iterator = iter(loader(dataset(numbered), 2))
    next(iterator)
    wait_until(lambda: [len(readers(pid)) for pid in children()] == [1, 1], "a reader each")
    grandchildren = [pid for child in children() for pid in readers(child)]
    del iterator
    gc.collect()
    wait_until(lambda: not any(map(alive, grandchildren)), "the end of the readers")


@pytest.mark.filterwarnings("ignore::multitables.CorruptChunkWarning")  # in the processes
def test_damage_that_is_skipped(h5: Path) -> None:
    rows = rows_of(loader(dataset(damaged(h5), shuffle=True, skip_damaged=True), 2))
    assert np.array_equal(np.sort(rows), np.delete(np.arange(payload.ROWS), slice(300, 350)))


def test_an_error_crosses(h5: Path) -> None:
    with pytest.raises(multitables.CorruptChunkError, match="'/rows' in"):
        rows_of(loader(dataset(damaged(h5)), 1))
    gc.collect()  # torch waits for its process for 5 s, ends it, and leaves the rest to others
    wait_until(lambda: not multiprocessing.active_children(), "the end of torch's process")


@pytest.mark.parametrize("after", [0, 25, 59])
@pytest.mark.parametrize(("processes", "stays"), [(0, False), (2, False), (2, True)])
def test_a_stateful_loader_goes_on_exactly(
    numbered: Path, processes: int, after: int, stays: bool
) -> None:
    pytest.importorskip("torchdata")

    def made() -> tuple[Any, Any]:
        data = dataset(numbered, n_procs=1)
        return data, loader(data, processes, "StatefulDataLoader", persistent_workers=stays)

    data, batches = made()
    data.set_epoch(4)
    whole = rows_of(batches)
    assert each_once(whole)

    data, batches = made()
    data.set_epoch(4)
    iterator = iter(batches)
    head = rows_of(next(iterator) for _ in range(after))
    state = pickle.loads(pickle.dumps(batches.state_dict()))
    del iterator, batches, data

    data, batches = made()
    batches.load_state_dict(state)
    data.set_epoch(4)  # as a loop over epochs does
    assert np.array_equal(np.concatenate([head, rows_of(batches)]), whole)
    following = rows_of(batches)
    assert each_once(following)
    assert not np.array_equal(following, whole)
    data.set_epoch(5)
    assert np.array_equal(rows_of(batches), following)
    del batches
    gc.collect()


def test_a_stateful_loader_at_the_end_of_an_epoch(numbered: Path) -> None:
    pytest.importorskip("torchdata")
    data = dataset(numbered, n_procs=1)
    batches = loader(data, 0, "StatefulDataLoader")
    first = rows_of(batches)
    state = batches.state_dict()
    second = rows_of(batches)
    data = dataset(numbered, n_procs=1)
    batches = loader(data, 0, "StatefulDataLoader")
    batches.load_state_dict(state)
    assert np.array_equal(rows_of(batches), second)
    assert each_once(first)
    assert each_once(second)


@pytest.mark.parametrize("processes", [0, 2])
def test_a_stateful_loader_in_the_last_turn_of_its_loop(numbered: Path, processes: int) -> None:
    """As with torch's own datasets: there is nothing left of this epoch."""
    pytest.importorskip("torchdata")
    batches = loader(dataset(numbered, n_procs=1), processes, "StatefulDataLoader")
    for number, batch in enumerate(batches):
        if number + 1 == len(batches):
            state = pickle.loads(pickle.dumps(batches.state_dict()))
        del batch
    following = rows_of(batches)
    data = dataset(numbered, n_procs=1)
    batches = loader(data, processes, "StatefulDataLoader")
    batches.load_state_dict(state)
    assert sum(1 for _ in batches) == 0
    assert np.array_equal(rows_of(batches), following)


SPAWNED = """
import sys
import numpy as np
import multitables
from torch.utils.data import DataLoader

if __name__ == "__main__":
    data = multitables.TorchDataset(sys.argv[1], "/rows", 100, shuffle=True)
    loader = DataLoader(
        data, batch_size=None, num_workers=2, multiprocessing_context="spawn",
        persistent_workers=True,
    )
    orders = []
    for epoch in (0, None, 0, 1):
        if epoch is not None:
            data.set_epoch(epoch)
        orders.append(np.concatenate([batch[:, 0].numpy() // 64 for batch in loader]))
        assert np.array_equal(np.sort(orders[-1]), np.arange(6000))
    assert not np.array_equal(*orders[:2])
    assert np.array_equal(orders[:2], orders[2:])
    print("good")
"""

RANKS = """
import pickle, sys
import numpy as np
import torch.distributed as dist
import torch.multiprocessing as mp
import multitables
from torch.utils.data import DataLoader

def rows_of(batches):
    return np.concatenate([batch[:, 0].numpy() // 64 for batch in batches]).tolist()

def run(rank, data, store, queue):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    own, forked = rows_of(data), None
    data.set_epoch(0)
    assert len(data) == 30
    forked = rows_of(DataLoader(data, None, num_workers=1, multiprocessing_context="fork"))
    # the next epochs: each rank counts its own
    later = DataLoader(data, None, num_workers=2, multiprocessing_context="fork")
    later = [rows_of(later) for _ in range(2)]
    data.set_epoch(0)
    sent = pickle.dumps(data)
    dist.destroy_process_group()
    # as in a new interpreter, which does not know of ranks
    assert rows_of(pickle.loads(sent)) == own == forked
    queue.put([own, *later])

if __name__ == "__main__":
    # made before there are ranks: it asks for them where it iterates
    data = multitables.TorchDataset(sys.argv[1], "/rows", 100, shuffle=True)
    context = mp.get_context("fork")
    queue = context.SimpleQueue()
    ranks = [context.Process(target=run, args=(r, data, sys.argv[2], queue)) for r in range(2)]
    for one in ranks:
        one.start()
    rows = [queue.get() for _ in ranks]
    for one in ranks:
        one.join()
    for epoch in zip(*rows):
        assert np.array_equal(np.sort(np.concatenate(epoch)), np.arange(6000))
    assert not np.array_equal(*[sum(epoch, []) for epoch in zip(*rows)][1:])
    print("good")
"""


@pytest.mark.hang(120)
@pytest.mark.parametrize("source", [SPAWNED, RANKS], ids=["spawned processes", "gloo"])
def test_programs(numbered: Path, tmp_path: Path, source: str) -> None:
    """New interpreters; two ranks of torch.distributed, with and without a loader's processes."""
    program = tmp_path / "program.py"  # what is spawned imports it again
    program.write_text(source)
    done = run_script(
        "import runpy, sys; sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')",
        program, numbered, tmp_path / "store", seconds=100, flags=(),
    )  # fmt: skip
    assert done.stdout == "good\n", done.stderr


@pytest.mark.parametrize("processes", [0, 1])
@pytest.mark.parametrize("batch_size", [1, 32])
def test_a_loader_that_makes_batches_of_batches(
    numbered: Path, processes: int, batch_size: int
) -> None:
    with contextlib.closing(multitables.TorchDataset(numbered, "/rows", 4)) as dataset:
        with pytest.raises(multitables.OptionsError, match=r"DataLoader\(dataset, batch_size=None"):
            list(loader(dataset, processes, batch_size=batch_size))
        assert len(list(loader(dataset))) > 1
