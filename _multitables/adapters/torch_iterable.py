"""`TorchDataset`: batches as tensors that share the memory of the ring.

Law
---
1. A dataset is a description until a process iterates over it: it can be pickled and forked, and
   each process has a stream of its own.
2. Ranks, and within a rank the processes of a `DataLoader`, share out the rows; no row comes twice.
3. A `Loader` has order, epochs and states; this file only chooses the process that iterates it.
4. A batch is not kept after it was handed out.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import IterableDataset

from _multitables.adapters.loader_epochs import Passes
from _multitables.adapters.pinned import Cuda, Pinned
from _multitables.adapters.torch_items import check_alone, of_tensors
from _multitables.adapters.torch_tensors import crossing, distributed, loader_number, split, tensor
from _multitables.errors import OptionsError, SubprocessException, public
from _multitables.index.files.name import Filename
from _multitables.options import check_number
from _multitables.parent.batches.loader import Loader
from _multitables.parent.collection.item import Item
from _multitables.parent.ragged.ragged_block import RaggedBlock
from _multitables.parent.streamer import Streamer
from _multitables.parent.titles import file_title
from _multitables.plan.casts import as_bfloat16, bfloat16_of
from _multitables.tree import Paths, map_arrays

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from _multitables.parent.typed import OrderKeywords

#: All calls of CUDA; tests put a stand-in here.
cuda = Cuda()


@public
class TorchDataset(IterableDataset[Any]):
    """Batches of an HDF5 file as tensors, for ``DataLoader(dataset, batch_size=None)``.

    Parameters
    ----------
    filename : str, path-like, sequence of them, or a loader
        The HDF5 file, or several, as for `Streamer`. Or, alone, what `Streamer.get_collection`,
        `Streamer.get_batches`, `Streamer.get_columns` or `Collection.to_batches` made: items,
        batches of them and blocks of columns are delivered as dicts of tensors. `transform` gets an
        `Item` of tensors, with its key and scales. Or, alone, a `Mixture`, without processes of a
        `DataLoader`.
    path : str, or list, tuple or dict of str
        Dataset in the file, or several of equal length: batches are then tuples, or dicts with the
        same keys, of tensors.
    batch_size : int
        Rows of a batch.
    pin_memory : bool, optional
        Register the ring with CUDA, so that ``tensor.to(device, non_blocking=True)`` copies
        straight from it. A block is given back to the readers when its tensors were dropped and
        the copies from them are done; see `copy_on`. Without a CUDA device it has no effect.
    transform : callable, optional
        Called with each batch of tensors, in the process that iterates; what it returns is
        delivered.
    rank, world_size : int, optional
        Which share of the rows this process gets. Default: those of `torch.distributed` if it is
        initialised, else everything.
    open_options : mapping, optional
        Options of `tables.open_file`, and ``storage_options``, as for `Streamer`.
    **options
        Other options of `Streamer.get_batches`, such as ``shuffle`` or ``sample``.

    Raises
    ------
    OptionsError
        An option that cannot work (a `ValueError`). Errors of the file come with the first batch,
        and so does that of a `DataLoader` without ``batch_size=None``.
    UnsupportedDatasetError
        Torch has no such dtype, as of strings or compound types (a `ValueError`); raised by the
        first batch. Numbers in the other byte order are copied into this machine's.

    Notes
    -----
    The tensors are views of the ring, unchanged until they are dropped; a block goes back to the
    readers with its last tensor. Readers are processes already, so a `DataLoader` needs none of its
    own (``num_workers=0``), except for a slow `transform`. If it has some, each of them gets a
    contiguous run of its rank's rows and ``n_procs`` readers of its own (default: one), and copies
    its batches to send them. The `DataLoader` takes from them in turn, which mixes the runs.

    Each pass is the next epoch; `set_epoch` chooses another. If a loop leaves a pass early, the
    next pass begins the same epoch again; with processes of a `DataLoader`, which are ahead of the
    loop, it begins the next epoch.

    Examples
    --------
    >>> dataset = multitables.TorchDataset(  # doctest: +SKIP
    ...     "run7.h5", "/images", 256, shuffle=True
    ... )
    >>> for images in torch.utils.data.DataLoader(dataset, batch_size=None):  # doctest: +SKIP
    ...     train(images)
    """

    def __init__(
        self,
        filename: Filename | Iterable[Filename] | Loader,
        path: Paths | None = None,
        batch_size: int | None = None,
        *,
        pin_memory: bool = False,
        transform: Callable[[Any], Any] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        open_options: Mapping[str, Any] | None = None,
        **options: Unpack[OrderKeywords],
    ) -> None:
        self._given = None if rank is None and world_size is None else (rank or 0, world_size or 1)
        if isinstance(filename, Loader):
            check_alone(filename, path, batch_size, pin_memory, open_options, options)
            self._loader, self._where = filename, repr(filename)
        elif path is None or batch_size is None:
            raise TypeError("TorchDataset takes a file, a path and a batch_size, or a collection")
        else:
            # Processes and passes have the same files, also if more match later.
            streamer, given = Streamer(filename, **(open_options or {})), self._given or (0, 1)
            filename = streamer.filename
            self._loader = streamer.get_batches(
                path, batch_size, rank=given[0], world_size=given[1], **options
            )
            self._where = f"{path!r} in {file_title(filename)}"
        self.filename: Any = filename
        self.path = path
        self.batch_size = batch_size
        self._pin_memory = pin_memory
        self._transform = transform
        #: Which tensors are of bfloat16.
        self._brains = [] if path is None else bfloat16_of(path, options)
        self._streams: tuple[Any, ...] = ()
        #: What `load_state_dict` was given, its epoch, and the number of the pass that it is for;
        #: None in a process of a DataLoader.
        self._state: tuple[Any, int, int | None] | None = None
        self._passes = Passes(self._loader.epoch)
        self._memory: Pinned | None = None
        #: Process and rank of the stream, and the stream.
        self._mine: tuple[tuple[int, tuple[int, int] | None], Loader] | None = None

    def __iter__(self) -> Iterator[Any]:
        _check_not_collated(inspect.currentframe(), self._where)
        pinned = self._pinned()
        part = split()
        if part is None:
            batches = self._batches()
            self._state = None
        else:
            batches = self._in_loader(*part)
        return _Pass(batches, pinned, self._transform, self._where, self._brains)

    def _in_loader(self, part: int, parts: int) -> Loader:
        """Come to the next pass of a `DataLoader`, as one of its processes."""
        turn = self._passes.begin(loader_number(), part, parts, self._loader.epochs or 0)
        if self._state is not None and self._state[2] not in (None, turn.number):
            self._state = None  # another pass went on from there
        batches = self._batches()
        loaded, self._state = self._state, None
        if loaded is None:
            batches.set_epoch(turn.epoch)
        elif turn.is_first:
            stop = batches.state_dict()["stop"]
            self._passes.ends_before(batches.epoch if stop is None else stop)
        return batches

    def __len__(self) -> int:
        """Batches of the next pass of this rank, through all processes of its `DataLoader`.

        Of batches of items, and of columns, without such processes: each has its own last one.

        Raises
        ------
        TypeError
            The stream is endless.
        """
        return len(self._batches())

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass begin with `epoch`, also in processes of a `DataLoader`."""
        epoch = check_number("epoch", epoch)
        if self._mine is not None:
            self._batches().set_epoch(epoch)
        if self._state is not None and self._state[1] != epoch:
            self._state = None
        self._passes.tell(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return what this process was given so far, for `load_state_dict`.

        torchdata's ``StatefulDataLoader`` calls it in each of its processes.
        """
        return self._batches().state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Let the next pass go on where `state` was taken.

        Parameters
        ----------
        state : dict, or list of dict
            Of this rank, or of all ranks if there were other ranks then.
        """
        batches = self._batches()
        batches.load_state_dict(state)
        self._state = state, batches.epoch, self._passes.begun if split() is None else None

    def copy_on(self, *streams: Any) -> None:
        """Name the CUDA streams on which the program copies pinned tensors, from the next pass on.

        A block is given back when its tensor was dropped and all work is done that was queued on
        these streams before that. By default, and without arguments, that is the stream that is
        current where the tensor is dropped, which suits programs that copy on their current stream.

        Parameters
        ----------
        *streams : torch.cuda.Stream
            Of any devices.
        """
        self._streams = streams

    def close(self) -> None:
        """End the readers of this process. Iterating starts new ones, with the same epoch."""
        if self._mine is not None:
            batches = self._batches()
            self._passes.tell(batches.epoch)
            batches.close()
            self._mine = self._memory = None

    # ---- inside

    def _batches(self) -> Loader:
        """Return the stream of this process, for its share of the rows."""
        ranks = self._given or distributed()
        whose = os.getpid(), ranks
        if self._mine is None or self._mine[0] != whose:
            # One ring for all passes is registered once.
            batches = self._loader._shared_out(ranks, split(), self._pin_memory)
            batches.set_epoch(self._passes.next)
            if self._state is not None:
                batches.load_state_dict(self._state[0])
            self._mine = whose, batches
        return self._mine[1]

    def _pinned(self) -> Pinned | None:
        if not self._pin_memory:
            return None
        if split() is not None:
            raise OptionsError(
                "pin_memory is for the process that trains, and this is one of a DataLoader's, "
                "whose batches are copied on their way",
                advice="Use num_workers=0, or DataLoader(..., pin_memory=True) in its place",
                option="pin_memory",
                got=True,
            )
        if not cuda.available():
            return None
        if self._memory is None or not self._memory.mine:
            self._memory = Pinned(cuda)
        self._memory.streams = self._streams
        return self._memory

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_mine": None, "_memory": None, "_streams": ()}
        if self._given is None:  # a new process does not know
            state["_given"] = distributed()
        return state


def _check_not_collated(frame: FrameType | None, where: str) -> None:
    """Raise if a `DataLoader`, whose fetcher called a frame, is to make batches of batches.

    Each would need as many blocks of the ring as it has batches, and the ring has few. Only the
    fetcher knows it, in the process that iterates and before the first batch.
    """
    caller = frame and frame.f_back
    # Of another frame, asking for the locals would keep them.
    if caller is None or not caller.f_globals.get("__name__", "").startswith("torch."):
        return
    if getattr(caller.f_locals.get("self"), "auto_collation", False):
        raise OptionsError(
            f"a TorchDataset gives whole batches of {where}, and its DataLoader makes batches of "
            "these (expected batch_size=None)",
            advice="Write DataLoader(dataset, batch_size=None), and give TorchDataset the "
            "batch_size",
            option="batch_size",
        )


class _Pass(Iterator[Any]):
    """One pass over the batches, as tensors."""

    def __init__(
        self,
        batches: Loader,
        pinned: Pinned | None,
        transform: Callable[[Any], Any] | None,
        where: str,
        brains: Sequence[bool],
    ) -> None:
        #: Which tensors are of bfloat16, if any.
        self._brains = brains if any(brains) else ()
        self._iterator: Any = iter(batches)
        self._pinned = pinned
        self._transform = transform
        self._where = where

    def __next__(self) -> Any:
        pinned = self._pinned
        if pinned is not None:
            pinned.make_room(self._iterator.ready)
        try:
            batch = next(self._iterator)
        except SubprocessException as error:
            raise crossing(error) from None
        if pinned is not None:
            pinned.renew(self._iterator.memory())
        if isinstance(batch, Item):
            item = of_tensors(batch, self._tensor)
            return dict(item) if self._transform is None else self._transform(item)
        batch = map_arrays(self._tensor, batch)
        if self._brains:
            batch = as_bfloat16(batch, self._brains, lambda one: one.view(torch.bfloat16))
        return batch if self._transform is None else self._transform(batch)

    def _tensor(self, array: Any) -> torch.Tensor:
        if isinstance(array, RaggedBlock):
            matrix: torch.Tensor = array.to_torch()
            return matrix
        if self._pinned is not None and array.dtype.isnative:
            array = self._pinned.lend(array)
        return tensor(array, self._where)
