"""Which rank this process is: as it was given, or as MPI says.

Law
---
1. mpi4py is imported, which starts MPI, only where ``rank="mpi"`` asks for it.
"""

from __future__ import annotations

from _multitables.errors import MissingLibraryError, OptionsError
from _multitables.options import Rank


def ranks(rank: Rank, world_size: int) -> tuple[int, int]:
    """Return the rank of this process and the number of ranks.

    Raises
    ------
    MissingLibraryError
        mpi4py is not installed (an `ImportError`).
    OptionsError
        A number of ranks that is not MPI's, or another word (a `ValueError`).
    """
    if not isinstance(rank, str):
        return rank, world_size
    if rank != "mpi":
        raise OptionsError(
            f"unknown rank: expected a number or 'mpi', got {rank!r}", option="rank", got=rank
        )
    try:
        from mpi4py import MPI
    except ModuleNotFoundError:
        raise MissingLibraryError(
            "rank='mpi' needs mpi4py, which is not installed",
            good="Ranks may be given as numbers without it",
            advice="Install it: pip install multitables[mpi]",
            library="mpi4py",
        ) from None
    size: int = MPI.COMM_WORLD.Get_size()
    if world_size not in (1, size):
        raise OptionsError(
            f"world_size is not that of MPI: expected {size}, got {world_size}",
            advice="Leave it out with rank='mpi'",
            option="world_size",
            expected=size,
            got=world_size,
        )
    return MPI.COMM_WORLD.Get_rank(), size
