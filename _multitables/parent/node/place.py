"""The ranks on this node, and the run to which they belong.

Law
---
1. What a launcher says in the environment is believed; where none does, all are on this node.
2. Ranks of a node are a run of all ranks, and each node has equally many. Where they are not, two
   of a node have the same number, which its host sees.
3. A run is what its launcher calls it. Without a launcher it is the process that started the ranks,
   with the time at which that began: a pid that is used again is another run. Machines and
   boot and namespaces tell containers apart that have a folder in common.
4. What the ranks of a run agree on is made of this. It is a secret if the launcher gave them one,
   or if `MULTITABLES_RUN` is one. Else the guard is the user's private folder, and what the kernel
   says of the other end of a socket (meeting.py, kernel_view.py).
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from _multitables.errors import OptionsError
from _multitables.parent.node import kernel_view

#: Where launchers tell how many ranks there are on the node.
SIZES = (
    "LOCAL_WORLD_SIZE",  # torchrun
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_NTASKS_PER_NODE",
)
#: Variables that identify a run. Without one of them, the process does that started the ranks.
RUNS = ("MULTITABLES_RUN", "PMIX_NAMESPACE", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID")
#: Those that tell runs apart whose names are equal, such as attempts of one job.
ATTEMPTS = (
    "SLURM_STEP_ID",
    "SLURM_RESTART_COUNT",
    "TORCHELASTIC_RESTART_COUNT",
    "MASTER_ADDR",
    "MASTER_PORT",
)


@dataclass(frozen=True)
class NodePlace:
    """The number of a rank on its node, and the number of ranks there."""

    number: int
    count: int

    @classmethod
    def of(cls, rank: int, world_size: int) -> NodePlace:
        """Find it.

        Raises
        ------
        OptionsError
            Nodes with different numbers of ranks.
        """
        told = (os.environ.get(name, "") for name in SIZES)
        count = next((int(text) for text in told if text.isdigit()), world_size)
        if not count or world_size % count:
            raise OptionsError(
                f"share='node' needs nodes with equally many ranks, got {count} of {world_size} on "
                "this node",
                advice="Start equally many ranks on each node, or leave share out",
                option="share",
            )
        return cls(rank % count, count)


def agreed(purpose: str, use: str) -> str:
    """Return a text that the ranks of this run on this node have in common, and no other run."""
    names = [f"{name}={os.environ[name]}" for name in (*RUNS, *ATTEMPTS) if name in os.environ]
    if not any(name in os.environ for name in RUNS):
        parent = os.getppid()
        names += [f"{parent} since {kernel_view.began(parent)}", _namespace("pid")]
    names += [_boot(), _namespace("net"), purpose, use]
    return hashlib.sha256("\0".join(names).encode(errors="surrogateescape")).hexdigest()[:32]


def _namespace(kind: str) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{kind}")
    except OSError:
        return ""


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""
