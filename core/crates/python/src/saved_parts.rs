//! A saved index as Python asks of it: parts of datasets, and what many objects are.
//!
//! Law: a `ValueError` says what is damaged.

use super::chunks::{self, ChunkRecord};
use super::survey::{StoredKind, Survey};
use engine::fetch::checked_parts::{Part, read};
use hdf5_format::chunk::Chunk;
use hdf5_format::saved_survey::{Columns, Damaged, Parts, Selected, survey};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;

/// Widths of the columns of a chunk table, and of elements.
const OF_CHUNKS: &[u64] = &[8, 8, 8, 4];
const OF_ELEMENTS: &[u64] = &[1];

/// Where the parts of an index lie: its descriptor, where they begin and their bytes; and of each object
/// where its part begins, its entries and their CRC-32.
#[derive(FromPyObject)]
pub struct Stored<'py>(
    i32,
    u64,
    u64,
    PyReadonlyArray1<'py, u64>,
    PyReadonlyArray1<'py, u64>,
    PyReadonlyArray1<'py, u32>,
);

/// What went wrong.
pub enum Failure {
    Damaged(Damaged),
    Os(io::Error),
}

impl From<Damaged> for Failure {
    fn from(what: Damaged) -> Failure {
        Failure::Damaged(what)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        match failure {
            Failure::Damaged(what) => PyValueError::new_err(what),
            Failure::Os(error) => error.into(),
        }
    }
}

/// Where the parts of datasets lie.
struct Places<'a> {
    fd: i32,
    begin: u64,
    limit: u64,
    first: &'a [u64],
    second: &'a [u64],
    sums: &'a [u32],
}

impl Places<'_> {
    fn of<'a>(stored: &'a Stored<'_>) -> PyResult<Places<'a>> {
        Ok(Places {
            fd: stored.0,
            begin: stored.1,
            limit: stored.2,
            first: stored.3.as_slice()?,
            second: stored.4.as_slice()?,
            sums: stored.5.as_slice()?,
        })
    }

    /// The columns of some objects' parts, whose entries have `widths` bytes.
    fn columns(&self, rows: &[usize], widths: &[u64]) -> Result<Vec<Vec<u8>>, Failure> {
        let outside = "parts of datasets lie outside of all of them";
        let (mut parts, mut total, mut times) = (Vec::new(), 0_u128, HashMap::new());
        for &row in rows {
            let (&begin, &count) = self
                .first
                .get(row)
                .zip(self.second.get(row))
                .ok_or(outside)?;
            let size = count.checked_mul(widths.iter().sum()).ok_or(outside)?;
            let end = begin.checked_add(size).filter(|&end| end <= self.limit);
            end.ok_or(outside)?;
            total += u128::from(size);
            *times.entry(row).or_insert(0_u128) += 1;
            let (begin, sum) = (self.begin + begin, self.sums[row]);
            parts.push(Part { begin, count, sum });
        }
        // An object may be listed twice.
        let most = times.into_values().max().unwrap_or(0) * u128::from(self.limit);
        if total > most {
            return Err("parts of datasets lie over one another".into());
        }
        // SAFETY: the caller keeps it open meanwhile.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        match fd
            .try_clone_to_owned()
            .and_then(|fd| read(fd, &parts, widths))
        {
            Ok(Some(columns)) => Ok(columns),
            Ok(None) => Err("the checksum of a part differs".into()),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err("it ends too early".into())
            }
            Err(error) => Err(Failure::Os(error)),
        }
    }
}

impl Parts<Failure> for Places<'_> {
    fn chunks(&self, rows: &[usize]) -> Result<Vec<Chunk>, Failure> {
        let columns = self.columns(rows, OF_CHUNKS)?;
        let [grid, offset, size, mask] = &columns[..] else {
            return Err("parts have other columns".into());
        };
        let long = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let places = grid.chunks_exact(8).zip(offset.chunks_exact(8));
        let kinds = size.chunks_exact(8).zip(mask.chunks_exact(4));
        Ok(places
            .zip(kinds)
            .map(|((grid, offset), (size, mask))| Chunk {
                filter_mask: mask.try_into().map_or(0, u32::from_le_bytes),
                ..Chunk::plain(long(grid), long(offset), long(size))
            })
            .collect())
    }

    fn elements(&self, rows: &[usize]) -> Result<Vec<u8>, Failure> {
        Ok(self.columns(rows, OF_ELEMENTS)?.swap_remove(0))
    }
}

/// The chunks of a dataset.
#[pyfunction]
pub fn saved_chunks<'py>(
    py: Python<'py>,
    stored: Stored<'_>,
    row: usize,
) -> PyResult<Bound<'py, PyArray1<ChunkRecord>>> {
    let places = Places::of(&stored)?;
    let chunks = py.detach(|| places.chunks(&[row]))?;
    Ok(chunks::array(py, chunks))
}

/// The elements of a compact dataset.
#[pyfunction]
pub fn saved_elements(py: Python<'_>, stored: Stored<'_>, row: usize) -> PyResult<Vec<u8>> {
    let places = Places::of(&stored)?;
    Ok(py.detach(|| places.elements(&[row]))?)
}

type Longs<'py> = PyReadonlyArray1<'py, u64>;

/// What objects are by the columns of an index: header_offset, common, kind, dims_end, dims, chunk_dims,
/// scale_end, scale_axis and scale_target.
#[derive(FromPyObject)]
pub struct Surveyed<'py>(
    Longs<'py>,
    PyReadonlyArray1<'py, u32>,
    PyReadonlyArray1<'py, u8>,
    Longs<'py>,
    Longs<'py>,
    Longs<'py>,
    Longs<'py>,
    Longs<'py>,
    Longs<'py>,
);

/// What some objects of an index are, each in a file of this number. `kinds` has those that they name.
#[pyfunction]
pub fn saved_survey(
    py: Python<'_>,
    stored: Stored<'_>,
    of: Surveyed<'_>,
    rows: PyReadonlyArray1<'_, i64>,
    files: PyReadonlyArray1<'_, u32>,
    kinds: HashMap<u32, PyRef<'_, StoredKind>>,
    with_scales: bool,
) -> PyResult<Survey> {
    let places = Places::of(&stored)?;
    let columns = Columns {
        header_offset: of.0.as_slice()?,
        first: places.first,
        second: places.second,
        common: of.1.as_slice()?,
        kind: of.2.as_slice()?,
        dims_end: of.3.as_slice()?,
        dims: of.4.as_slice()?,
        chunk_dims: of.5.as_slice()?,
        scale_end: of.6.as_slice()?,
        scale_axis: of.7.as_slice()?,
        scale_target: of.8.as_slice()?,
    };
    let kinds = kinds.into_iter();
    let kinds = kinds
        .map(|(number, kind)| (number, kind.kind().clone()))
        .collect();
    let rows = rows.as_array();
    let selected = Selected {
        rows: &rows.iter().map(|&row| row as usize).collect::<Vec<_>>(),
        files: files.as_slice()?,
        kinds: &kinds,
        with_scales,
    };
    let found = py.detach(|| survey(&columns, &selected, &places))?;
    Ok(found.into())
}
