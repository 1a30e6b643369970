"""How long a host lives, and what a process that a signal has stopped is to the others.

1. A host ends with the last process that wanted it, and holds nothing of the terminal.
2. A run that begins after another one was killed has nothing to do with it.
3. Who waits for a stopped process gets a named error, and may go on when that one does.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from node_ranks import N_ROWS, Ranks, batches, rows_of
from processes import wait_until

from _multitables.parent.node import host, kernel_view, meeting, messages


def of_two(rank: int) -> dict[str, Any]:
    return {"world": {"rank": rank, "world_size": 2}}


def test_a_run_after_one_that_was_killed(rows_file: Path) -> None:
    """Its ranks had not met; and the next one begins at once."""
    wanted = batches(rows_file)
    killed = Ranks(1, wanted, of_two(0))
    killed.wait_for(0, 1)
    pid = killed.host()
    standard = [os.readlink(f"/proc/{pid}/fd/{number}") for number in range(3)]
    assert standard == ["/dev/null"] * 3
    killed.kill(0)
    found = Ranks(2, wanted).end()
    assert sorted(row for lines in found for row in rows_of(lines)) == list(range(N_ROWS))
    killed.end()


def test_a_run_after_its_host_was_killed(rows_file: Path) -> None:
    """Its socket is left, and in nobody's way."""
    wanted = batches(rows_file)
    killed = Ranks(1, {**wanted, "loops": 9, "pause": 0.01}, of_two(0))
    killed.wait_for(0, 1)
    os.kill(killed.host(), signal.SIGKILL)
    assert killed.end()[0][-1]["error"] == "ReaderDiedError"
    found = Ranks(2, wanted).end()
    assert sorted(row for lines in found for row in rows_of(lines)) == list(range(N_ROWS))


class Hosted:
    """A host of two ranks in a thread of this process."""

    def __init__(self) -> None:
        listener = meeting.listening("x", 2)
        assert listener is not None
        self._host = host.Host(listener, 2, None, ("rank", "host"))
        self.thread = threading.Thread(target=self._run, args=(listener,))
        self.thread.start()

    def _run(self, listener: socket.socket) -> None:
        with listener:
            self._host.run()

    @property
    def here(self) -> object:
        return self._host._here

    def greeted(self, number: int) -> socket.socket:
        """Connect as a rank. The answer has come, or the end, and is still to be read."""
        connection = meeting.connected("x")
        assert connection is not None
        connection.setblocking(True)
        hello = {"hello": number, "proof": "rank", "sent": kernel_view.now()}
        messages.send(connection, hello)
        connection.recv(1, socket.MSG_PEEK)
        return connection

    def ends(self) -> bool:
        self.thread.join(10)
        return not self.thread.is_alive()


@pytest.fixture
def hosted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosted:
    monkeypatch.setattr(meeting, "_parents", lambda: iter([str(tmp_path)]))
    monkeypatch.setattr(host, "LEFT_SECONDS", 0.1)
    return Hosted()


def test_a_host_to_which_nobody_comes(hosted: Hosted) -> None:
    assert hosted.ends()


def test_a_host_whose_processes_have_ended(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_view, "watched", lambda _: None)  # this process does not end
    hosted.greeted(0).close()
    assert hosted.ends()


def test_a_rank_may_come_late(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the process of another one lives, though that rank has left."""
    hosted.greeted(0).close()
    time.sleep(0.3)
    monkeypatch.setattr(kernel_view, "began", lambda _: kernel_view.now())
    late = hosted.greeted(1)
    answer, _ = messages.receive(late)
    assert answer is not None
    assert answer["welcome"] == "host"
    late.close()
    assert hosted.ends()


@pytest.mark.parametrize(
    ("began", "number", "is_let_in"),
    [(0.0, 1, True), (float("inf"), 1, False), (None, 1, True), (None, 0, False)],
)
def test_a_rank_of_another_run(
    hosted: Hosted,
    monkeypatch: pytest.MonkeyPatch,
    began: float | None,
    number: int,
    is_let_in: bool,
) -> None:
    """It began after all who were here had ended; if that is not known, it has the same number."""
    monkeypatch.setattr(host, "LEFT_SECONDS", 10.0)
    monkeypatch.setattr(kernel_view, "watched", lambda _: None)
    monkeypatch.setattr(kernel_view, "began", lambda _: began)
    hosted.greeted(0).close()
    wait_until(lambda: not hosted.here, "the rank to be gone")
    with hosted.greeted(number) as other:
        assert is_let_in == bool(other.recv(1))
    assert hosted.ends()


@pytest.mark.parametrize("who", ["the host", "the rank that plans", "a rank that holds blocks"])
def test_a_stopped_process_is_an_error(rows_file: Path, who: str) -> None:
    plans = who == "the rank that plans"
    of = batches(rows_file, epochs=5, read_ahead=2)
    ranks = Ranks(2, {**of, "pause": 0.01, "loops": 2, "stall": 2.0, "stop_planning": plans})
    if not plans:
        for rank in range(2):
            ranks.wait_for(rank, 1)
    stopped = "did not answer"
    if who == "the host":
        pid = ranks.host()
        os.kill(pid, signal.SIGSTOP)
        waiting = [0, 1]
    else:
        if not plans:
            ranks.kill(1, signal.SIGSTOP)
        wait_until(lambda: any("error" in line for lines in ranks.lines for line in lines), who, 30)
        waiting = [rank for rank in range(2) if "error" in (ranks.lines[rank] or [{}])[-1]]
        other = 1 - waiting[0]
        stopped = f"rank number {other} of this node"
        ranks.kill(other, signal.SIGKILL if plans else signal.SIGCONT)
    wait_until(lambda: all("error" in ranks.lines[rank][-1] for rank in waiting), who, 30)
    if who == "the host":
        os.kill(pid, signal.SIGCONT)
    found = ranks.end()
    for rank in waiting:
        assert found[rank][-1]["error"] == "StalledError"
        assert stopped in found[rank][-1]["text"]
    if who == "a rank that holds blocks":  # it goes on without the one that gave up
        assert len(rows_of(found[1])) == 2 * sum(map(len, found[1][-1]["order"]))
