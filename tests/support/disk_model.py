"""A rotating disk as arithmetic: where the head is, and when a request is done.

Law
---
1. Pure: no clock, file or thread. Times are seconds that the caller says; equal calls give equal
   times.
2. One actuator over one surface. Addresses follow each other along the tracks, so a byte passes
   under the head at one angle only, and what has just passed comes round again one turn later.
3. After a request the drive reads on into its buffer while nobody asks, and keeps what it read
   last. What lies there costs only its way over the cable.
4. A queue is served upwards from the head, then from its lowest address again, as drives with
   native command queuing and the kernel's schedulers do; with a depth of 1 in order of arrival.
   Who waited for too long comes first.
5. Left out: bad sectors, zones of different speed, and writes.

Where the figures come from: catalogues of 7200 RPM SATA drives of 1 to 4 TB say 8.5 ms for the
average seek, about 1 ms from track to track, and 100 to 200 MB/s to and from the surface; the mean
rotational latency is half a turn, 4.17 ms. A seek takes longer with the square root of its length
(the head speeds up for half of it, and slows down for the other half); the mean of the square root
of the distance of two random places is 8/15 of that of the full stroke.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

EXPIRED_SECONDS = 0.5


@dataclass(frozen=True)
class Figures:
    """What a catalogue says of a drive."""

    capacity_bytes: int = 10**12
    bytes_per_second: float = 125e6
    turns_per_minute: float = 7200.0
    average_seek_seconds: float = 8.5e-3
    track_seek_seconds: float = 1.0e-3
    cable_bytes_per_second: float = 500e6
    #: What is kept of what was read last, and how far the drive reads ahead of the last request.
    buffer_bytes: int = 8 << 20
    ahead_bytes: int = 2 << 20
    queue_depth: int = 32

    @property
    def turn_seconds(self) -> float:
        """One turn of the disk."""
        return 60.0 / self.turns_per_minute

    @property
    def track_bytes(self) -> float:
        """What passes under the head in one turn."""
        return self.bytes_per_second * self.turn_seconds

    def seek_seconds(self, distance_bytes: float) -> float:
        """Time to move the head so far; none inside a track."""
        if abs(distance_bytes) < self.track_bytes:
            return 0.0
        full = (self.average_seek_seconds - self.track_seek_seconds) / (8 / 15)
        return self.track_seek_seconds + full * math.sqrt(abs(distance_bytes) / self.capacity_bytes)


@dataclass(frozen=True)
class Asked:
    """A request: bytes of the disk, and since when it waits."""

    begin: int
    length: int
    since: float = 0.0

    @property
    def end(self) -> int:
        """The byte after its last."""
        return self.begin + self.length


class Disk:
    """The drive's state; `read` moves it on."""

    def __init__(self, figures: Figures | None = None) -> None:
        self.figures = Figures() if figures is None else figures
        #: The byte that passes the head at the time `at`, and the first one of those before it
        #: that are in the buffer.
        self.head = 0
        self.at = 0.0
        self.kept = 0
        self.busy_seconds = 0.0
        self.moved = 0

    def choose(self, queue: Sequence[Asked], now: float) -> int:
        """Which of the requests, in order of arrival, is served next: upwards from the head."""
        depth = max(1, self.figures.queue_depth)
        if depth == 1 or now - queue[0].since > EXPIRED_SECONDS:
            return 0
        seen = range(min(depth, len(queue)))
        # What is in the buffer is as good as what comes next under the head.
        return min(seen, key=lambda i: (queue[i].begin < self.kept, queue[i].begin))

    def read(self, asked: Asked, now: float) -> float:
        """Serve a request that is taken up at `now`; returns when it is done."""
        figures = self.figures
        now = max(now, self.at)
        ahead = min((now - self.at) * figures.bytes_per_second, figures.ahead_bytes)
        reached = self.head + int(ahead)
        if self.kept <= asked.begin <= reached:
            done = self._from_buffer(asked, now, reached)
        else:
            done = self._from_elsewhere(asked, now)
        self.busy_seconds += done - now
        self.at = done
        return done

    def _from_buffer(self, asked: Asked, now: float, reached: int) -> float:
        """The request begins with what is there, or with what the head comes to next."""
        figures = self.figures
        cable = asked.length / figures.cable_bytes_per_second
        if asked.end <= reached:
            self.head = reached
            done = now + cable
        else:
            # If the drive had stopped reading ahead, the next byte comes round in less than a turn.
            wait = 0.0
            if reached - self.head >= figures.ahead_bytes:
                wait = (reached - self.head) / figures.bytes_per_second - (now - self.at)
                wait %= figures.turn_seconds
            surface = (asked.end - reached) / figures.bytes_per_second
            done = now + max(cable, wait + surface)
            self.head = asked.end
        self.kept = max(self.kept, self.head - figures.buffer_bytes)
        return done

    def _from_elsewhere(self, asked: Asked, now: float) -> float:
        figures = self.figures
        arrived = now + figures.seek_seconds(asked.begin - self.head)
        # The head's angle is that of `head` at the time `at`.
        angle = (asked.begin - self.head) / figures.bytes_per_second
        wait = (angle - (arrived - self.at)) % figures.turn_seconds
        self.head, self.kept = asked.end, asked.begin
        self.moved += 1
        return arrived + wait + asked.length / figures.bytes_per_second
