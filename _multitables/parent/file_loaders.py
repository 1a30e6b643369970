"""The loaders of a file, and the readers that they share: what a `Streamer` has beside its queues.

Law
---
1. Options are checked before the file is opened, and the file is looked through before readers are
   started.
2. Arguments become options and a `DataSpec` here alone; later code takes these values.
3. What streams data is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from _multitables.errors import ClosedError
from _multitables.index.joined.kept_source import KeptSource
from _multitables.index.versions.version import VersionKey
from _multitables.options import CheckedVersion, Order, Rank, Share, Shuffle, check_names, checked
from _multitables.parent.ranks import ranks
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.stream.open_stream import DataSpec, check_one_file
from _multitables.parent.titles import file_title
from _multitables.plan.casts import Dtype, Images, Scales, check_casts
from _multitables.plan.placing import Channels, Crops, Flips, check_placing
from _multitables.plan.reader_options import (
    BatchOptions,
    CollectionOptions,
    ColumnOptions,
    LoaderOptions,
    StreamerOptions,
)
from _multitables.plan.samples import Sample, check_sample
from _multitables.plan.stacking import IntoOption
from _multitables.plan.weights import check_weights
from _multitables.tree import Paths, one_path, structure_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from _multitables.parent.batches.batches import Batches
    from _multitables.parent.batches.loader import Loader
    from _multitables.parent.batches.unit import FileUnit
    from _multitables.parent.collection.collection import Collection
    from _multitables.parent.columns.columns import Columns
    from _multitables.parent.ragged.ragged_block import RaggedBlock
    from _multitables.parent.typed import (
        Array,
        Arrays,
        BatchKeywords,
        Named,
        NamedArrays,
        One,
        Several,
    )
    from _multitables.tree import Ragged

    L = TypeVar("L", bound=Loader)
    Made = TypeVar("Made")
W = TypeVar("W", bound=LoaderOptions)


class FileLoaders:
    """A file, or several, as batches, collections and columns."""

    def __getstate__(self) -> tuple[StreamerOptions, KeptSource]:
        """Return what another process needs to make the same streamer, without its streams."""
        self._check_open()
        return self._wanted, self._file

    def __setstate__(self, state: tuple[StreamerOptions, KeptSource]) -> None:
        self._wanted, self._file = state
        #: As it was given; of several files, a list of their names.
        self.filename: Any = self._file.filename
        self._closed = False
        self._reader_pool = ReaderPool(False, self._wanted.library_timeout_seconds)

    @overload
    def get_batches(
        self, path: One, batch_size: int, **options: Unpack[BatchKeywords]
    ) -> Batches[Array]: ...

    @overload
    def get_batches(
        self, path: Ragged, batch_size: int, **options: Unpack[BatchKeywords]
    ) -> Batches[RaggedBlock]: ...

    @overload
    def get_batches(
        self, path: Several, batch_size: int, **options: Unpack[BatchKeywords]
    ) -> Batches[Arrays]: ...

    @overload
    def get_batches(
        self, path: Named, batch_size: int, **options: Unpack[BatchKeywords]
    ) -> Batches[NamedArrays]: ...

    @overload
    def get_batches(
        self,
        path: Paths,
        batch_size: int,
        *,
        transform: Callable[[Any], Made],
        **options: Unpack[BatchKeywords],
    ) -> Batches[Made]: ...

    @overload
    def get_batches(
        self, path: Paths, batch_size: int, **options: Unpack[BatchKeywords]
    ) -> Batches[Any]: ...

    def get_batches(
        self,
        path: Paths,
        batch_size: int,
        *,
        n_procs: int | None = None,
        shuffle: Shuffle = None,
        seed: int = 0,
        epochs: int | None = 1,
        start_epoch: int = 0,
        drop_last: bool = False,
        rank: Rank = 0,
        world_size: int = 1,
        rows: Any = None,
        field: str | None = None,
        read_ahead: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        window_rows: int | None = None,
        even: bool = False,
        memory_limit_bytes: int | None = None,
        skip_damaged: bool = False,
        inner: Any = None,
        version: VersionKey | None = None,
        share: Share = None,
        sample: Sample | None = None,
        weights: Any = None,
        draws: int | None = None,
        dtype: Dtype | None = None,
        scale: Scales | None = None,
        decode: Images | None = None,
        crop: Crops | None = None,
        flip: Flips | None = None,
        channels: Channels | None = None,
        into: IntoOption | None = None,
    ) -> Batches:
        """Stream a dataset, or several in lock-step, as batches for training.

        Batches are views of the ring: valid and unchanged as long as you hold them. Orders are
        pure functions of `seed` and the epoch, the same on every machine and for every number of
        readers.

        Parameters
        ----------
        path : str, Ragged or Joined, or list, tuple or dict of them
            As in `get_queue`. With several datasets, the one with the longest rows is the one
            whose chunks are shuffled.
        batch_size : int
            Rows of a batch. Batches do not cross epochs: the last one may be shorter.
        n_procs, field, inner, version : optional
            As in `get_queue`.
        shuffle : {None, "chunks", "window", "full"} or bool, optional
            None: the order of the file. ``"chunks"``: chunks in random order. ``"window"``, or
            True: chunks in random order, and rows mixed over windows of `window_rows`.
            ``"full"``: all rows in random order; each chunk is decoded several times, unless all
            rows fit into `memory_limit_bytes`.
        seed : int, optional
            Of the shuffle.
        epochs : int, optional
            Passes over the data in one iteration; None for no end.
        start_epoch : int, optional
            The epoch with which the first iteration begins.
        drop_last : bool, optional
            Leave out the rows that do not fill a batch.
        rank, world_size : int, optional
            Deliver one rank's part. All ranks together deliver every row exactly once. With
            ``rank="mpi"`` both are those of MPI's ``COMM_WORLD``, from mpi4py.
        rows : slice, array of int or array of bool, optional
            The rows that take part, for subsets and splits. Without a shuffle they come in the
            order of the file. Chunks without any of them are not fetched.
        read_ahead : int, optional
            Batches that the ring holds; never less than a window.
        transform : callable, optional
            Called in this process with each batch; what it returns is delivered.
        window_rows : int, optional
            Rows of a window of ``"window"``, rounded up to whole chunks. Default: about 8 MiB, and
            at least 16 chunks, or of chunks of more than 16 MiB at least 4 and about 256 MiB.
        even : bool, optional
            Give every rank equally many rows: repeat some rows, or with `drop_last` leave some out.
        memory_limit_bytes : int, optional
            Memory of the ring of ``"full"``. Default: 512 MiB, or less where there is less.
        skip_damaged : bool, optional
            Go on behind chunks that do not decode, in place of ending with `CorruptChunkError`.
            Their rows are left out, each chunk is reported once by a `CorruptChunkWarning`, and
            `Batches.damage` names them. A batch that lacks rows is a copy, and shorter; one of
            which nothing is left does not come. Of pictures of any length (`decode`) each that does
            not decode is left out by itself.
        share : {"node"}, optional
            The ranks of a node share `n_procs` readers and one ring, or, of samples and ragged
            rows, memory for decoded chunks, so that each chunk is decoded once for all of them.
            They take turns at the batches of all their parts, and must ask for the same data. A
            rank that ends, however it does, is gone on without.
        sample : Clips, Patches, At or Ranges, optional
            What a batch has `batch_size` of. Default: rows. Of samples that are several rows, the
            options above count samples in place of rows. With `skip_damaged` a sample that has
            elements of a damaged chunk is left out.
        weights : Weights, array or str, optional
            Draw the samples, or rows, of each epoch anew, with replacement, by weights: a
            `Weights`, a number for each, or the path of a dataset that has one for each row.
            Without a shuffle they come in the order of the file.
        draws : int, optional
            Samples of an epoch. Default: the number of all samples.
        dtype : dtype-like, "bfloat16", or mapping, optional
            The type that readers convert numbers to, for all datasets or by their paths (with a
            dict of paths, by its keys, too): floats of 2, 4 or 8 bytes, or integers, as
            `numpy.ndarray.astype` does. Floats outside the range of an integer type become its
            nearest end, and NaN becomes 0. ``"bfloat16"`` comes as its bits in uint16, and from
            the adapters for torch and JAX as that type. Default: as stored.
        scale : (mean, std) or mapping, optional
            Readers deliver ``(x - mean) / std``, for all datasets or by paths or keys. Each is a
            number or an array that broadcasts to a row. Computed in float32, or in float64 where
            `dtype` says that; delivered as float32, or as `dtype` says.
        decode : Image or mapping, optional
            Elements that are JPEG or PNG files come as their pixels, for all datasets or by paths
            or keys: ``decode={"/images": Image(224, 224)}``. Batches are uint8 of shape (batch,
            height, width, channels), or what `dtype` and `scale` make of them. Elements are
            sequences of uint8 of any length, opaque, or strings of a fixed size. A row without such
            a picture raises `ImageError`.
        crop : int, tuple or mapping, optional
            Deliver a window of each row, for all datasets or by paths or keys. Where it begins is
            drawn for each sample from `seed` and epoch. ``(height, width)``, or one number for
            both: of rows of two axes, and of the first two of three, or the last two where
            `channels` is ``"last"``. Of other rows a number, or None for all, for each axis.
        flip : {"horizontal", "vertical"}, int, tuple of these, or mapping, optional
            Mirror rows along an axis, each sample with probability 1/2: left and right, top and
            bottom (the axes of a picture, as for `crop`), or axes of a row, by their numbers from 0
            on. Along each of several axes it is drawn anew.
        channels : {"first", "last"} or mapping, optional
            Move the last axis of a row before its others, or the first one behind them. All else
            counts axes of rows as they are stored (or decoded).
        into : int or mapping, optional
            Deliver all datasets in one array, along this axis of it: with 1 a batch has the shape
            ``(batch, datasets, *row)``. Of a dict of paths also ``{"fields": ("u", "v")}``: the
            datasets of these keys come under another one, along axis 1. They must be alike.

            Readers place elements where these four have them, so no batch is copied. All
            datasets, and all rows of a clip, have the draws of their sample. An option for all
            leaves rows alone that have no such axes (of `channels`: fewer than three), such as
            labels. Patches, ranges and boxes are refused.

        Returns
        -------
        Batches

        Raises
        ------
        OptionsError
            An option that cannot work (a `ValueError`). Other errors are those of `get_queue`;
            they come from the first iteration, as the file is opened then.
        """
        given = {**locals()}
        wanted = self._options(BatchOptions, given)
        check_one_file(self._file, "version", wanted.version)
        from _multitables.parent.batches.batches import Batches
        from _multitables.parent.batches.row_unit import RowUnit

        drawn = check_weights(weights, draws, rows)
        sample = check_sample("sample", sample)
        placing = check_placing(path, crop, flip, channels, into)
        spec = self._spec(given, wanted.version, sample=sample, placing=placing, **drawn)
        return self._loader(Batches, RowUnit, spec, wanted)

    def get_collection(
        self,
        path: str | Sequence[str] | Mapping[str, str],
        by: int | str = 0,
        scales: bool = True,
        order: Order = "random",
        seed: int = 0,
        epochs: int | None = 1,
        n_procs: int | None = None,
        rank: Rank = 0,
        world_size: int = 1,
        attrs: str | Sequence[str] = (),
        *,
        exclude: str | Sequence[str] = (),
        start_epoch: int = 0,
        ring_bytes: int | None = None,
        skip_damaged: bool = False,
        share: Share = None,
    ) -> Collection:
        """Stream many datasets, item by item: all that share a part of their paths come together.

        Parameters
        ----------
        path : str, or sequence or dict of str
            A path with wildcards (``*``, ``?``, ``[...]``), each within a name:
            ``"/shots/*/signals/*"``; ``**`` stands for any number of names, of hard links alone.
            Of several paths an item has the datasets of all that share the value of `by`; the keys
            of a dict are the names of theirs.
        by : int or "file", optional
            The wildcard whose value tells items apart: with 0, an item is a shot with all its
            signals; with 1, a signal of all shots. The other wildcards' values, joined by ``/``,
            are the names in an item. ``"file"``: each file of several is an item, whose key is its
            name. Otherwise several files count as one that has the datasets of all.
        scales : bool, optional
            Read the dimension scales that are attached to the datasets, each once for an item.
        order : {"random", "file", "key"}, optional
            Of the items: random, another one in each epoch; as they lie in the file; or by key.
        seed : int, optional
            Of the random order, which is the same on every machine.
        epochs, start_epoch, rank, world_size : optional
            As in `get_batches`, of items.
        n_procs : int, optional
            As in `get_queue`. Readers share large items.
        attrs : str or sequence of str, optional
            Attributes to deliver: those of datasets as ``item.attrs[name]``, those of the groups
            in which they lie, up to the root group, as ``item.group_attrs[path]``.
        exclude : str or sequence of str, optional
            Paths with wildcards as in `path`, also of groups on the way: what they match is left
            out.
        ring_bytes : int, optional
            Shared memory for items that are read or held. Default: 256 MiB, or more where items are
            large.
        skip_damaged : bool, optional
            Go on without datasets that do not decode: they are missing in their item, are named in
            ``item.damaged``, and each is reported once by a `CorruptChunkWarning`.
        share : {"node"}, optional
            Scales that items share are read by one rank of a node for all, as far as memory allows.
            Each item is of one rank in any case.

        Returns
        -------
        Collection

        Raises
        ------
        OptionsError
            An option that cannot work, or an item that is larger than the ring (a `ValueError`).
        MissingDatasetError
            Nothing matches the path (a `KeyError`).
        UnsupportedDatasetError
            When it is read: elements that NumPy has no type for.
        """
        wanted = self._options(CollectionOptions, locals())
        from _multitables.parent.collection.collection import Collection
        from _multitables.parent.collection.item_spec import ItemSpec
        from _multitables.parent.collection.item_unit import ItemUnit

        structure, leaves = structure_of(path)
        labels = tuple(map(str, structure.keys)) if structure.keys else None
        paths, rotational = tuple(map(one_path, leaves)), self._wanted.rotational
        named = paths, labels, by, scales, wanted.attrs, wanted.exclude
        spec = ItemSpec(self._file, *named, rotational)
        return self._loader(Collection, ItemUnit, spec, wanted)

    def get_columns(
        self,
        group: str | Mapping[str, Sequence[str] | None],
        columns: Sequence[str] | None = None,
        *,
        index: str | Sequence[str],
        entries_per_block: int | None = None,
        epochs: int | None = 1,
        start_epoch: int = 0,
        n_procs: int | None = None,
        rank: Rank = 0,
        world_size: int = 1,
        share: Share = None,
    ) -> Columns:
        """Stream columns of a group, or of several, in blocks that never split an index value.

        Parameters
        ----------
        group : str, or dict of str to sequence of str
            A group whose datasets of equal length, of shape (n,), (n, 1) or (n, k), are columns; or
            a table, a dataset of compounds, whose members are. Or several, each with its columns
            (None: all): a block then has the same range of values of the index of every one.
        columns : sequence of str, optional
            Columns of a single group. Default: all but those of the index.
        index : str or sequence of str
            The column, or columns, of each group that say to what a row belongs, such as
            ``"evt.seq"`` or ``("run", "subrun", "evt")``. Rows of equal values come together.
            Several groups must be sorted by it.
        entries_per_block : int, optional
            Rows that a block has of any group at most, unless a single value has more. Default:
            about 8 MiB of all columns.
        epochs, start_epoch : int, optional
            As in `get_batches`; every epoch has the order of the file.
        n_procs : int, optional
            As in `get_queue`.
        rank, world_size : int, optional
            As in `get_batches`, of whole values, balanced by rows.
        share : {"node"}, optional
            As in `get_batches`: the ranks of a node share readers, and take blocks in turn.

        Returns
        -------
        Columns
            An iterable of `GroupBlock`, or of `ColumnsBlock` for a dict of groups.

        Raises
        ------
        OptionsError
            An option that cannot work (a `ValueError`).
        MissingDatasetError
            No such group or column (a `KeyError`).
        MissingFieldError
            No such column of a table (a `KeyError`).
        UnsupportedDatasetError
            Columns of different lengths, of texts or sequences, or an index that cannot be one (a
            `ValueError`), with the columns that can be streamed. When it
            is iterated: several groups of which one is not sorted.
        """
        wanted = self._options(ColumnOptions, locals())
        spec = DataSpec(self._file, "", rotational=self._wanted.rotational)
        groups = group if isinstance(group, Mapping) else one_path(group)
        chosen = None if columns is None else check_names("columns", columns)
        from _multitables.parent.columns.columns import Columns
        from _multitables.parent.columns.key_unit import KeyUnit
        from _multitables.parent.columns.open_columns import open_columns

        opened = open_columns(spec, groups, chosen, check_names("index", index))
        return self._loader(Columns, KeyUnit, opened, wanted)

    # ---- from what a method was given to a loader

    def _options(self, kind: type[W], given: Mapping[str, Any]) -> W:
        """Check the options of a loader among the arguments of a method."""
        self._check_open()
        rank, world_size = ranks(given["rank"], given["world_size"])
        return checked(kind, **{**given, "rank": rank, "world_size": world_size})

    def _spec(
        self, given: Mapping[str, Any], version: CheckedVersion | None, **samples: Any
    ) -> DataSpec:
        """Return the data that the arguments of a method name."""
        path = given["path"]
        return DataSpec(
            self._file,
            path,
            given["field"],
            self._wanted.rotational,
            given["inner"],
            version,
            casts=check_casts(path, given["dtype"], given["scale"], given["decode"]),
            **samples,
        )

    def _loader(
        self, kind: type[L], unit: Callable[..., FileUnit], spec: object, wanted: LoaderOptions
    ) -> L:
        """Return a loader with readers that rest between its streams."""
        pool, own = self._reader_pool.keeping()
        return kind(unit(spec, wanted, pool), own)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(
                f"the streamer of {file_title(self.filename)} is closed",
                advice="Make a new Streamer",
            )
