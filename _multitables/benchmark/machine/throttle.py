"""A slower device: the kernel's throttle of block devices simulates classes of disks not at hand.

Law
---
1. Only this process, and the children it starts meanwhile, are slowed down, and only in reading.
2. However a block ends, the process and its children go back to their group, and the new one is
   removed. (After SIGKILL an empty group is left; it slows nobody.)
3. It changes nothing else on the machine. Where it may not, the error says what to do.

The interfaces are those of the kernel's Documentation/admin-guide: cgroup-v1/blkio-controller.rst
(``blkio.throttle.read_bps_device``) and cgroup-v2.rst (``io.max``).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

from _multitables.benchmark.machine import devices
from _multitables.benchmark.machine.mounts import mounts

PROCESSES = "cgroup.procs"
RETURN_SECONDS = 5.0


class CannotLimitError(OSError):
    """Reads cannot be limited here; the message says what would help."""


@dataclass(frozen=True)
class Control:
    """How reads are limited here.

    Attributes
    ----------
    own : str
        The directory of the group that this process is in.
    parent : str
        The directory in which groups that can limit reads are made.
    setting : str
        The file of a group in which the limit stands.
    form : str
        What is written there, of a device's number and its bytes per second.
    enables : bool
        Whether `parent` must pass the controller on (version 2).
    """

    own: str
    parent: str
    setting: str
    form: str
    enables: bool


def control(mountinfo: str | None = None, groups: str | None = None) -> Control:
    """The control that this process has, by the texts of /proc/self/mountinfo and cgroup.

    Raises
    ------
    CannotLimitError
        The kernel, or a container, offers none.
    """
    if groups is None:
        groups = _read("/proc/self/cgroup")
    own: dict[str, str] = {}
    for line in filter(None, groups.split("\n")):
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path)
    version_2 = None
    for mount in mounts(mountinfo):
        if mount.kind == "cgroup" and "blkio" in own and "blkio" in mount.options.split(","):
            place = _below(mount.directory, mount.root, own["blkio"])
            limit = "blkio.throttle.read_bps_device"
            return Control(place, place, limit, "{number} {rate}", enables=False)
        if mount.kind == "cgroup2" and "" in own:
            place = _below(mount.directory, mount.root, own[""])
            # a group with processes passes no controller on, so the new one stands beside it
            top = place == mount.directory
            parent = place if top else os.path.dirname(place)
            version_2 = Control(place, parent, "io.max", "{number} rbps={rate}", enables=True)
    if version_2 is None or "io" not in _read(f"{version_2.parent}/cgroup.controllers").split():
        raise CannotLimitError(
            "this process cannot limit its reads: there is neither the controller blkio of cgroup "
            "version 1 nor io of version 2 here. Run it outside a container, or under "
            "systemd-run --scope -p 'IOReadBandwidthMax=/dev/DISK 100M'"
        )
    return version_2


def _below(directory: str, root: str, path: str) -> str:
    """Where the group `path` is seen, below the mount of `root` at `directory`."""
    inner = os.path.relpath(path, root) if path.startswith(root) else "."
    return os.path.normpath(os.path.join(directory, inner))


@contextlib.contextmanager
def limited(
    filename: str, read_bytes_per_second: float, found: Control | None = None
) -> Iterator[None]:
    """Let this process and its new children read no faster from the device below `filename`.

    Parameters
    ----------
    filename : str
        A file or directory on the device. The whole device is limited: of a partition its disk,
        of md and device mapper the uppermost device.
    read_bytes_per_second : float
        Bytes as they are stored. What lies in the page cache is not limited.
    found : Control, optional
        How; default: what `control` finds.

    Raises
    ------
    CannotLimitError
        It cannot be done here; the message says what would help.
    """
    device = devices.describe(filename)
    if not device.number:
        raise CannotLimitError(
            f"reads of {filename!r} cannot be limited: {device.name} is not a single block device. "
            "Choose a directory on a disk"
        )
    how = found or control()
    with _group(how) as group:
        rate = how.form.format(number=device.number, rate=int(read_bytes_per_second))
        _write(f"{group}/{how.setting}", rate)
        _write(f"{group}/{PROCESSES}", str(os.getpid()))
        yield


@contextlib.contextmanager
def _group(how: Control) -> Iterator[str]:
    """A group of its own, empty again and removed at the end."""
    with _passed_on(how):
        try:
            group = tempfile.mkdtemp(prefix="multitables_benchmark_", dir=how.parent)
        except OSError as error:
            raise _refused(how.parent, error) from error
        try:
            yield group
        finally:
            _leave(group, how.own)


@contextlib.contextmanager
def _passed_on(how: Control) -> Iterator[None]:
    """The controller io for the groups in `how.parent`, and afterwards as it was."""
    switch = f"{how.parent}/cgroup.subtree_control"
    switched = how.enables and "io" not in _read(switch).split()
    if switched:
        _write(switch, "+io")
    try:
        yield
    finally:
        if switched:
            _write(switch, "-io")


def _leave(group: str, own: str) -> None:
    """Bring every process of `group` to `own`, and remove the group."""
    deadline = time.monotonic() + RETURN_SECONDS
    while True:
        for process in _read(f"{group}/{PROCESSES}").split():
            with contextlib.suppress(ProcessLookupError):  # it has ended
                _write(f"{own}/{PROCESSES}", process)
        try:
            os.rmdir(group)
        except OSError:  # a process is about to end, or was started meanwhile
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _read(filename: str) -> str:
    try:
        with open(filename) as file:
            return file.read()
    except OSError:
        return ""


def _write(filename: str, text: str) -> None:
    try:
        with open(filename, "w") as file:
            file.write(text)
    except ProcessLookupError:
        raise
    except OSError as error:
        raise _refused(filename, error) from error


def _refused(filename: str, error: OSError) -> CannotLimitError:
    reason = os.strerror(error.errno or 0)
    return CannotLimitError(
        f"reads cannot be limited: the kernel refuses {filename!r} ({reason}). It wants root, a "
        "control group that may be written, and CONFIG_BLK_DEV_THROTTLING; or use "
        "systemd-run --scope -p 'IOReadBandwidthMax=/dev/DISK 100M'"
    )
