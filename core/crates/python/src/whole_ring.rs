//! Rings of streams that are little: they hold all rows of a dataset.
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
use super::table::{Delivered, Source, table_of_one};
use super::views::known;
use hdf5_format::chunk::Chunk;
use hdf5_format::layout::Layout;
use numpy::npyffi::npy_intp;
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use os::memory::sealed_memfd;
use pyo3::prelude::*;
use serve::process::ring_threads::read_here;
use serve::ring::control::control_bytes;
use serve::ring::kept_rings::ring_for;
use serve::ring::leases::Leases;
use tables::plan::{Plan, WHOLE_SLOTS};

/// Places of a dataset that are looked for in the page cache, at most.
const LOOKS: usize = 8;
/// A stored piece that is longer is looked for at several places.
const PIECE_BYTES: u64 = 256 << 10;

/// Bytes that are read at most, and those of what is decoded before this returns.
type MostBytes = (u64, u64);

/// A ring for all blocks of a stream of a dataset; the rows of a block: `block_rows`, or those of a chunk,
/// or as many as have `unchunked_bytes`; and how many of `n_readers` threads are to read it, none if it
/// is read. `dtype` and `inner` are those of an element. None: it is more, or not in the page cache, or it
/// cannot be read like this.
#[expect(clippy::too_many_arguments, reason = "they are given by names")]
#[pyfunction]
#[pyo3(signature = (stored, opened, source, *, delivered, dtype, inner, block_rows, unchunked_bytes,
    remainder, most_bytes, n_readers))]
pub fn whole_ring(
    py: Python<'_>,
    stored: &StoredDataset,
    opened: &OpenedFile,
    source: Source,
    delivered: Delivered,
    dtype: Bound<'_, PyArrayDescr>,
    inner: Vec<u64>,
    block_rows: Option<u64>,
    unchunked_bytes: u64,
    remainder: bool,
    most_bytes: MostBytes,
    n_readers: usize,
) -> PyResult<Option<(Ring, u64, usize)>> {
    let (dataset, extents) = (&stored.dataset, stored.extents());
    let (Some(file), [n_rows, dims @ ..]) = (&stored.file, &dataset.dataspace.dims[..]) else {
        return Ok(None);
    };
    let product = |each: &[u64], one: u64| each.iter().copied().try_fold(one, u64::checked_mul);
    let row_shape = [dims, &inner].concat();
    let row_bytes = product(&row_shape, dtype.itemsize() as u64);
    let stored_bytes = product(dims, dataset.element_bytes.into());
    let n_bytes = stored_bytes.and_then(|bytes| bytes.checked_mul(*n_rows));
    let (Some(row_bytes @ 1..), Some(n_bytes @ 1..)) = (row_bytes, n_bytes) else {
        return Ok(None);
    };
    let as_it_is = extents.is_none() || dataset.filters.is_empty();
    let here = as_it_is || n_bytes <= most_bytes.1;
    let chunk_rows = extents.map_or(1, |extents| n_rows.div_ceil(extents[0].max(1)));
    if n_bytes > most_bytes.0 || !here && chunk_rows < n_readers as u64 {
        return Ok(None);
    }
    let n_readers = if here { 1 } else { n_readers };
    let of_chunk = extents.and_then(|extents| extents.first().copied());
    let size = block_rows
        .or(of_chunk)
        .unwrap_or(unchunked_bytes / row_bytes);
    let size = size.max(1);
    let rows = if remainder {
        *n_rows
    } else {
        n_rows / size * size
    };
    let made = py.detach(|| {
        let table = table_of_one(file, dataset, &source, delivered, n_bytes);
        let (words, len) = table.as_ref().ok()?.as_ref()?.words();
        let control_bytes = control_bytes(n_readers, WHOLE_SLOTS, 1);
        let plan = Plan::whole((words, len), rows, size, n_readers, control_bytes).ok()?;
        let is_inline = matches!(dataset.layout, Layout::Compact { .. });
        if !is_inline && !opened.0.has_cached(places(plan.table.chunks())) {
            return None;
        }
        let maps = ring_for(&plan).ok()?;
        let leases = Leases::new(plan, maps, 0).ok()?;
        if !here {
            let of_plan = sealed_memfd(c"multitables-plan", leases.plan.bytes()).ok()?;
            return Some((leases, Some(of_plan)));
        }
        let is_read = read_here(&leases) && leases.ready_blocks() == leases.total_blocks();
        is_read.then_some((leases, None))
    });
    let Some((leases, of_plan)) = made else {
        return Ok(None);
    };
    let row_shape = row_shape.into_iter().map(|n| n as npy_intp).collect();
    let views = known(vec![(dtype, row_shape)], &leases.plan)?;
    let n_threads = if here { 0 } else { n_readers };
    Ok(Some((Ring::plain(leases, views, of_plan), size, n_threads)))
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
