"""Pinned memory: what is asked of CUDA, and when blocks go back, with a stand-in for its calls.

1. The stand-in keeps what was registered and refuses what CUDA would; its events come when the
   test says so, or when somebody waits for them.
2. Nothing may be unregistered while something of it is lent, and nothing may be read by a copy
   that the readers write to.
"""

from __future__ import annotations

import ctypes
import gc
import random
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import payload
import pytest
from loaders import damaged
from processes import run_script, wait_until

torch = pytest.importorskip("torch")

import multitables  # noqa: E402 - torch may be missing
from _multitables.adapters import pinned, torch_iterable  # noqa: E402

BATCH = 100


class Event:
    """A copy that runs until `come` is set, or somebody waits for it."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.come = False
        self.waited = False

    def query(self) -> bool:
        return self.come

    def synchronize(self) -> None:
        self.waited = self.come = True


class StandIn(pinned.Cuda):
    """A device whose copies take as long as the test likes."""

    def __init__(self) -> None:
        self.registered: dict[int, int] = {}
        self.calls: list[str] = []
        self.events: list[Event] = []
        self.at_once = False
        self.status = 0

    def available(self) -> bool:
        return True

    def register(self, address: int, n_bytes: int) -> int:
        assert n_bytes > 0
        for other, size in self.registered.items():
            assert address + n_bytes <= other or other + size <= address, "registered twice"
        if self.status == 0:
            self.registered[address] = n_bytes
            self.calls.append("register")
        return self.status

    def unregister(self, address: int) -> int:
        mappings = Path("/proc/self/maps").read_text().splitlines()
        assert any(int(line.split("-")[0], 16) == address for line in mappings), "unmapped before"
        del self.registered[address]
        self.calls.append("unregister")
        return 0

    def record(self, stream: Any) -> Event:
        event = Event(stream)
        event.come = self.at_once
        self.events.append(event)
        return event

    def is_pinned(self, tensor: Any) -> bool:
        first = tensor.data_ptr()
        last = first + tensor.nbytes
        return any(at <= first and last <= at + size for at, size in self.registered.items())


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    cuda = StandIn()
    monkeypatch.setattr(torch_iterable, "cuda", cuda)
    yield cuda
    gc.collect()
    assert cuda.registered == {}
    assert all(event.come for event in cuda.events), "a ring went away under a copy"


def dataset(path: Path, which: Any = "/rows", **options: Any) -> Any:
    options = {"pin_memory": True, "n_procs": 2, **options}
    return multitables.TorchDataset(path, which, BATCH, **options)


def test_damage_that_is_skipped(h5: Path, cuda: StandIn) -> None:
    """Behind it there is another ring; what was lent of the first one stays pinned."""
    data = dataset(damaged(h5), skip_damaged=True)
    with pytest.warns(multitables.CorruptChunkWarning):
        tensors = list(data)
    assert len(cuda.registered) == 2
    short = 300 // BATCH
    for number, tensor in enumerate(tensors):
        assert len(tensor) == (BATCH - 50 if number == short else BATCH)
        assert cuda.is_pinned(tensor) == (number != short)
    assert cuda.calls == ["register", "register"]
    del tensors, tensor
    for event in cuda.events:
        event.come = True
    data.close()


def held(iterator: Any) -> int:
    return int(iterator._iterator.statistics()["blocks_held"])


def test_epochs_in_one_ring_register_it_once(numbered: Path, cuda: StandIn) -> None:
    cuda.at_once = True
    data = dataset(numbered, shuffle=True)
    held_over = None
    for _ in range(4):
        for batch in data:
            assert cuda.is_pinned(batch)
            if held_over is not None:
                assert (held_over[0] == held_over[1]).all()
        held_over = batch, batch.clone()
    assert cuda.calls == ["register"]
    del batch, held_over
    data.close()
    assert cuda.calls == ["register", "unregister"]


def test_two_passes_at_once_have_a_ring_each(numbered: Path, cuda: StandIn) -> None:
    cuda.at_once = True
    data = dataset(numbered, shuffle=True)
    for one, two in zip(data, data, strict=True):
        assert cuda.is_pinned(one)
        assert cuda.is_pinned(two)
        assert (one == two).all()
    assert cuda.calls.count("register") >= 2


def test_every_batch_lies_in_registered_memory(numbered: Path, cuda: StandIn) -> None:
    cuda.at_once = True
    seen = 0
    for rows, raw in dataset(numbered, ["/rows", "/raw"], epochs=3):
        assert cuda.is_pinned(rows)
        assert cuda.is_pinned(raw)
        seen += len(rows)
    assert seen == 3 * payload.ROWS
    del rows, raw
    assert cuda.calls.count("register") == 2  # once for each tape, not for each batch
    assert cuda.calls.count("unregister") == 2


def test_a_ring_is_registered_in_one_piece(numbered: Path, cuda: StandIn) -> None:
    iterator = iter(dataset(numbered))
    batch = next(iterator)
    capacity = iterator._iterator.statistics()["ring_bytes"]
    assert [size >= 2 * capacity for size in cuda.registered.values()] == [True]
    cuda.at_once = True
    del batch, iterator


def test_a_block_goes_back_when_its_copies_are_done(numbered: Path, cuda: StandIn) -> None:
    iterator = iter(dataset(numbered))
    batch = next(iterator)
    row = batch[3]
    del batch
    assert cuda.events == []  # a row of it is still there
    assert held(iterator) == 1
    del row
    assert len(cuda.events) == 1
    assert cuda.events[0].stream is None  # the current one
    iterator._pinned.collect()
    assert held(iterator) == 1  # the copy still runs
    cuda.events[0].come = True
    iterator._pinned.collect()
    assert held(iterator) == 0
    assert not cuda.events[0].waited


def test_nothing_waits_while_batches_are_ready(numbered: Path, cuda: StandIn) -> None:
    """Copies that take long hold their blocks; a batch that is ready is handed out at once."""
    iterator = iter(dataset(numbered, read_ahead=20))
    for _ in range(3):
        next(iterator)
    wait_until(lambda: iterator._iterator.ready() > 5, "batches that are ready")
    before = [event.waited for event in cuda.events]
    for _ in range(3):
        next(iterator)
    assert [event.waited for event in cuda.events[: len(before)]] == before
    assert not any(event.waited for event in cuda.events[len(before) :])


def test_a_full_ring_waits_for_the_oldest_copy(numbered: Path, cuda: StandIn) -> None:
    """No event ever comes by itself: without the wait the stream would stall."""
    total = 0
    for number, batch in enumerate(dataset(numbered, epochs=2, read_ahead=4)):
        assert payload.first_row(batch.numpy()) == number * BATCH % payload.ROWS
        payload.check(batch.numpy())
        total += len(batch)
        del batch
    assert total == 2 * payload.ROWS
    waited = [event.waited for event in cuda.events]
    assert all(waited[:-4])


def test_a_late_copy_sees_its_own_rows(
    numbered: Path, cuda: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies are made as late as they may be: when their event comes, in order, or is awaited."""
    dice = random.Random(7)
    queued: deque[tuple[int, np.ndarray]] = deque()
    bad = []

    def copy_all() -> None:
        while queued:
            address, want = queued.popleft()
            read = (ctypes.c_char * want.nbytes).from_address(address)
            bad.extend([want] * (bytes(read) != want.tobytes()))

    def query(event: Event) -> bool:
        if not event.come and dice.random() < 0.1:
            event.synchronize()
        return event.come

    def synchronize(event: Event) -> None:
        copy_all()
        event.come = True

    monkeypatch.setattr(Event, "query", query)
    monkeypatch.setattr(Event, "synchronize", synchronize)
    total = 0
    iterator = iter(dataset(numbered, epochs=3, read_ahead=4))
    for batch in iterator:
        queued.append((batch.data_ptr(), batch.numpy().copy()))
        total += len(batch)
        del batch
        for _ in range(20):  # if the readers may write to the block, they do it now
            if iterator._iterator.ready():
                break
            time.sleep(0.001)
    del iterator
    gc.collect()
    assert total == 3 * payload.ROWS
    assert not queued
    assert not bad


def test_named_streams_get_an_event_each(numbered: Path, cuda: StandIn) -> None:
    data = dataset(numbered)
    data.copy_on("first", "second")
    iterator = iter(data)
    next(iterator)
    assert [event.stream for event in cuda.events] == ["first", "second"]
    cuda.events[0].come = True
    iterator._pinned.collect()
    assert held(iterator) == 1
    cuda.events[1].come = True
    iterator._pinned.collect()
    assert held(iterator) == 0


def test_a_tensor_that_outlives_its_pass_stays_pinned(numbered: Path, cuda: StandIn) -> None:
    iterator = iter(dataset(numbered))
    batch = next(iterator)
    want = batch.clone()
    del iterator
    gc.collect()
    assert cuda.is_pinned(batch)
    assert torch.equal(batch, want)
    del batch
    gc.collect()
    assert cuda.registered == {}
    assert cuda.events[0].waited  # the ring went away after the copy


def test_an_epoch_of_another_ring_is_registered_anew(numbered: Path, cuda: StandIn) -> None:
    """After a resume the rest of an epoch and the epochs after it are two streams."""
    first = dataset(numbered, shuffle=True, epochs=2, pin_memory=False)
    iterator = iter(first)
    for _ in range(7):
        next(iterator)
    state = first.state_dict()
    del iterator, first
    cuda.at_once = True
    second = dataset(numbered, shuffle=True, epochs=2)
    second.load_state_dict(state)
    assert all(cuda.is_pinned(batch) for batch in second)
    del second
    gc.collect()
    assert cuda.calls == ["register", "register", "unregister", "unregister"] or cuda.calls == [
        "register", "unregister", "register", "unregister",
    ]  # fmt: skip


def test_a_forked_child_asks_nothing_of_cuda(
    numbered: Path, cuda: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterator = iter(dataset(numbered))
    next(iterator)
    batch = next(iterator)
    calls, events = list(cuda.calls), list(cuda.events)
    with monkeypatch.context() as patch:
        patch.setattr(pinned.os, "getpid", lambda: -1)
        del batch
        gc.collect()
    pinned._unregister(cuda, 0, None, -1)
    pinned._wait_for_all(iterator._pinned._copied, -1)
    assert cuda.calls == calls
    assert cuda.events == events
    assert not events[0].come


def test_at_exit_copies_are_waited_for(numbered: Path) -> None:
    done = run_script(AT_EXIT, Path(__file__).parent, numbered)
    assert done.stdout == "register\nwait\nwait\n", done.stderr


AT_EXIT = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/../support"]
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import test_pinned

class Told(test_pinned.StandIn):
    def register(self, address, n_bytes):
        print("register", flush=True)
        return super().register(address, n_bytes)
    def unregister(self, address):
        print("unregister", flush=True)
        return super().unregister(address)

class Event(test_pinned.Event):
    def synchronize(self):
        print("wait", flush=True)

test_pinned.Event = Event
test_pinned.torch_iterable.cuda = Told()
iterator = iter(test_pinned.dataset(sys.argv[2]))
next(iterator)
kept = [next(iterator), next(iterator)]
kept.pop()
"""


def test_what_was_converted_is_not_pinned(h5: Path, cuda: StandIn) -> None:
    """Numbers in the other byte order are copies, which hold no block."""
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=np.arange(1000, dtype=">i2"), chunks=(100,))
    iterator = iter(dataset(h5, "/x"))
    batch = next(iterator)
    assert held(iterator) == 0
    assert batch.dtype == torch.int16
    assert torch.equal(batch, torch.arange(BATCH, dtype=torch.int16))
    del batch
    assert cuda.events == []


def test_a_refusal_is_told(numbered: Path, cuda: StandIn) -> None:
    cuda.status = 2
    with pytest.raises(multitables.SharedMemoryError, match="cudaHostRegister returned 2") as told:
        next(iter(dataset(numbered)))
    assert told.value.status == 2


def test_without_a_device_it_has_no_effect(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = pinned.Cuda()
    assert cuda.available() == torch.cuda.is_available()
    monkeypatch.setattr(torch_iterable.Cuda, "available", lambda _: False)
    assert np.array_equal(next(iter(dataset(numbered))).numpy(), payload.content(BATCH))


def test_in_a_process_of_a_dataloader_it_is_refused(
    numbered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_iterable, "split", lambda: (0, 2))
    with pytest.raises(multitables.OptionsError, match="pin_memory is for the process"):
        iter(dataset(numbered))
