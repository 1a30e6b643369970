"""The ranks on this node, and a common name for the readers that they share.

Law
---
1. What a launcher says in the environment is believed; where none does, all are on this node.
2. Ranks of a node are a run of all ranks, and each node has equally many. Where they are not, two
   of a node have the same number, which its host sees.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from _multitables.errors import OptionsError

#: Where launchers tell how many ranks there are on the node.
SIZES = (
    "LOCAL_WORLD_SIZE",  # torchrun
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_NTASKS_PER_NODE",
)
#: Variables that identify a launcher's job, and its attempts. Without one, the parent's pid does.
JOBS = ("PMIX_NAMESPACE", "SLURM_JOB_ID")
ATTEMPTS = ("SLURM_STEP_ID", "SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT")


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


def run_name() -> str:
    """Return a name that only the ranks of one job on this node share."""
    job = next((os.environ[name] for name in JOBS if name in os.environ), str(os.getppid()))
    return ":".join([job, *(os.environ.get(name, "") for name in ATTEMPTS)])
