//! Rings of streams that are little: they hold all rows of one dataset or of several.
//!
//! Law:
//! 1. The caller's own thread reads what is least, with the engine and into the ring that all streams
//!    have. Its ring is returned only if all rows were read. Otherwise the caller starts the usual
//!    stream, which reports what is wrong.
//! 2. Threads that the caller starts read what is more, and takes longer to decode than they take to
//!    begin.

use super::metadata::OpenedFile;
use super::ring::Ring;
use super::stored::StoredDataset;
use super::table::{Delivered, Source, Table, add_plain};
use super::views::known;
use hdf5_format::chunk::Chunk;
use hdf5_format::file::{Dataset, File};
use hdf5_format::layout::Layout;
use numpy::npyffi::npy_intp;
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use os::memory::sealed_memfd;
use pyo3::prelude::*;
use serve::process::ring_threads::read_here;
use serve::ring::control::control_bytes;
use serve::ring::kept_rings::ring_for;
use serve::ring::leases::Leases;
use std::os::fd::OwnedFd;
use tables::builder::TableBuilder;
use tables::plan::Plan;

/// Places of a dataset that are looked for in the page cache, at most.
const LOOKS: usize = 8;
/// A stored piece that is longer is looked for at several places.
const PIECE_BYTES: u64 = 256 << 10;

/// Bytes that are read at most, and those of what is decoded before this returns.
type MostBytes = (u64, u64);

/// A dataset, or a column of it: as it is stored, what of each element is delivered, and the dtype and the
/// shape of an element.
type Field<'py> = (
    PyRef<'py, StoredDataset>,
    Delivered,
    Bound<'py, PyArrayDescr>,
    Vec<u64>,
);

/// How many bytes and rows a field has.
struct Size {
    n_rows: u64,
    n_bytes: u64,
    row_shape: Vec<u64>,
    row_bytes: u64,
    /// Rows of a chunk; None: it is not chunked.
    chunk_rows: Option<u64>,
    /// Its elements are only copied.
    is_copied: bool,
}

impl Size {
    fn of((stored, _, dtype, inner): &Field<'_>) -> Option<Size> {
        let (dataset, extents) = (&stored.dataset, stored.extents());
        let [n_rows, dims @ ..] = &dataset.dataspace.dims[..] else {
            return None;
        };
        let product = |each: &[u64], one: u64| each.iter().copied().try_fold(one, u64::checked_mul);
        let row_shape = [dims, inner].concat();
        let n_bytes = product(&dataset.dataspace.dims, dataset.element_bytes.into());
        let row_bytes = product(&row_shape, dtype.itemsize() as u64);
        Some(Size {
            n_rows: *n_rows,
            n_bytes: n_bytes.filter(|&n| n > 0)?,
            row_bytes: row_bytes.filter(|&n| n > 0)?,
            row_shape,
            chunk_rows: extents.and_then(|extents| extents.first().copied()),
            is_copied: extents.is_none() || dataset.filters.is_empty(),
        })
    }
}

/// How a stream reads fields of one length.
struct Stream {
    rows: u64,
    block_rows: u64,
    n_readers: usize,
    /// All of it before this returns.
    is_here: bool,
}

impl Stream {
    /// None: they are of several lengths, or more than a ring is to hold.
    fn of(sizes: &[Size], options: &Options) -> Option<Stream> {
        let n_bytes = sizes.iter().map(|size| size.n_bytes);
        let n_bytes = n_bytes.fold(0, u64::saturating_add);
        let longest = sizes.iter().rev().max_by_key(|size| size.row_bytes)?;
        let n_rows = longest.n_rows;
        let (most, most_here) = options.most_bytes;
        let is_here = n_bytes <= most_here || sizes.iter().all(|size| size.is_copied);
        let each = longest.chunk_rows.unwrap_or(n_rows);
        let n_chunks = n_rows.div_ceil(each.max(1));
        let is_one_length = sizes.iter().all(|size| size.n_rows == n_rows);
        if !is_one_length || n_bytes > most || !is_here && n_chunks < options.n_readers as u64 {
            return None;
        }
        let by_bytes = options.unchunked_bytes / longest.row_bytes;
        let by_default = longest.chunk_rows.unwrap_or(by_bytes);
        let block_rows = options.block_rows.unwrap_or(by_default).max(1);
        let of_blocks = n_rows / block_rows * block_rows;
        Some(Stream {
            rows: if options.remainder { n_rows } else { of_blocks },
            block_rows,
            n_readers: if is_here { 1 } else { options.n_readers },
            is_here,
        })
    }
}

/// The options of a stream.
struct Options {
    block_rows: Option<u64>,
    unchunked_bytes: u64,
    remainder: bool,
    most_bytes: MostBytes,
    n_readers: usize,
}

/// A dataset to read: its file, the dataset, the delivered part of an element, and its bytes.
type Part<'a> = (&'a File, &'a Dataset, &'a Delivered, u64);

/// The ring of a stream, and its plan for threads, if they are to read it. None: it is not in the page
/// cache, or cannot be read like this.
fn ring_of(
    parts: &[Part<'_>],
    stream: &Stream,
    opened: &OpenedFile,
    source: &Source,
) -> Option<(Leases, Option<OwnedFd>)> {
    let mut builder = TableBuilder::default();
    for &(file, dataset, delivered, n_bytes) in parts {
        let delivered = Delivered::clone(delivered);
        if !add_plain(&mut builder, file, dataset, source, delivered, n_bytes).ok()? {
            return None;
        }
    }
    let table = Table::of(builder);
    let n_readers = stream.n_readers;
    let of_slots = |n_slots| control_bytes(n_readers, n_slots, 1);
    let (rows, block_rows) = (stream.rows, stream.block_rows);
    let plan = Plan::whole(table.words(), rows, block_rows, n_readers, of_slots).ok()?;
    let datasets = plan.table.datasets.iter().zip(parts);
    let in_file = datasets.filter(|(_, part)| !matches!(part.1.layout, Layout::Compact { .. }));
    let looked = in_file.flat_map(|(dataset, _)| places(plan.table.chunks_of(dataset)));
    if !opened.0.has_cached(looked) {
        return None;
    }
    let maps = ring_for(&plan).ok()?;
    let leases = Leases::new(plan, maps, 0).ok()?;
    if !stream.is_here {
        let of_plan = sealed_memfd(c"multitables-plan", leases.plan.bytes()).ok()?;
        return Some((leases, Some(of_plan)));
    }
    let is_read = read_here(&leases) && leases.ready_blocks() == leases.total_blocks();
    is_read.then_some((leases, None))
}

/// A ring for all blocks of a stream of datasets of one file and one length, with `keys` as in `Ring`; the
/// rows of a block; and the number of threads that are to read it, 0 if it is read. A block has
/// `block_rows` rows, or those of a chunk of the longest rows, or those of `unchunked_bytes`. None: there
/// are more bytes, the page cache lacks them, or they cannot be read like this.
#[expect(clippy::too_many_arguments, reason = "they are given by names")]
#[pyfunction]
#[pyo3(signature = (fields, keys, opened, source, *, block_rows, unchunked_bytes, remainder, most_bytes,
    n_readers))]
pub fn whole_ring(
    py: Python<'_>,
    fields: Vec<Field<'_>>,
    keys: Option<Vec<Py<PyAny>>>,
    opened: &OpenedFile,
    source: Source,
    block_rows: Option<u64>,
    unchunked_bytes: u64,
    remainder: bool,
    most_bytes: MostBytes,
    n_readers: usize,
) -> PyResult<Option<(Ring, u64, usize)>> {
    let options = Options {
        block_rows,
        unchunked_bytes,
        remainder,
        most_bytes,
        n_readers,
    };
    let Some(sizes) = fields.iter().map(Size::of).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let parts = fields
        .iter()
        .zip(&sizes)
        .map(|((stored, delivered, ..), size)| {
            let file: &File = stored.file.as_ref()?;
            Some((file, &stored.dataset, delivered, size.n_bytes))
        });
    let parts: Option<Vec<Part<'_>>> = parts.collect();
    let (Some(parts), Some(stream)) = (parts, Stream::of(&sizes, &options)) else {
        return Ok(None);
    };
    let made = py.detach(|| ring_of(&parts, &stream, opened, &source));
    let Some((leases, of_plan)) = made else {
        return Ok(None);
    };
    let views = fields.iter().zip(&sizes).map(|((_, _, dtype, _), size)| {
        let row_shape = size.row_shape.iter().map(|&n| n as npy_intp);
        (dtype.clone(), row_shape.collect())
    });
    let views = known(views.collect(), &leases.plan)?;
    let n_threads = if stream.is_here { 0 } else { stream.n_readers };
    let ring = Ring::plain(leases, views, keys, of_plan);
    Ok(Some((ring, stream.block_rows, n_threads)))
}

/// Where some of the stored bytes lie: in some of the chunks, or at several places of the only one.
fn places(chunks: &[Chunk]) -> impl Iterator<Item = u64> + '_ {
    let last = chunks.len().saturating_sub(1);
    let looks = LOOKS.min(chunks.len());
    let of_chunks =
        (0..looks).map(move |look| chunks[look * last / (looks - 1).max(1)].byte_offset);
    let only = if let [chunk] = chunks {
        Some(*chunk)
    } else {
        None
    };
    let within = (1..LOOKS as u64).filter_map(move |look| {
        let chunk = only.filter(|chunk| chunk.stored_size > PIECE_BYTES)?;
        Some(chunk.byte_offset + chunk.stored_size * look / LOOKS as u64)
    });
    of_chunks.chain(within)
}
