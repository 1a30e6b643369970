//! Dataset tables as Python holds them: made from values, handed on as handles.
//!
//! Law:
//! 1. A table is made here once and never changes; readers, requests and plans take it as it is.
//! 2. Python gives values by names, and does not know the layout of records.

use super::chunks::{self, ChunkRecord};
use hdf5_filters::{FILTERS, FilterSpec};
use hdf5_format::chunk::Chunk;
use hdf5_format::cursor::UNDEFINED;
use hdf5_format::error::Result as FormatResult;
use hdf5_format::file::{Dataset, File};
use hdf5_format::filter_pipeline::Filter;
use hdf5_format::layout::Layout;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, PoisonError};
use tables::builder::{Kind, Shape, TableBuilder, pieces, row_bytes};
use tables::dataset::{DatasetTable, Fingerprint, Memory};
use tables::source::SourceValues;

/// Datasets and where their chunks are, as readers take it.
#[pyclass(frozen, module = "_multitables._core")]
pub struct Table {
    words: Arc<Vec<u64>>,
    len: usize,
}

impl Table {
    pub fn of(builder: TableBuilder) -> Table {
        let (words, len) = builder.table();
        Table {
            words: Arc::new(words),
            len,
        }
    }

    /// The words, the last of which may be a part of one.
    pub fn words(&self) -> (&Arc<Vec<u64>>, usize) {
        (&self.words, self.len)
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: words are that many bytes, and `len` is no more.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }
}

#[pymethods]
impl Table {
    /// Its bytes, as a plan has them.
    #[getter]
    fn encoded<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.bytes())
    }

    #[getter]
    fn n_bytes(&self) -> usize {
        self.len
    }

    /// The stored chunks of all its datasets, as records.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<ChunkRecord>>> {
        let memory = Memory::Private(self.words.clone());
        let table = DatasetTable::over(memory, 0, self.len).map_err(PyValueError::new_err)?;
        Ok(chunks::array(py, table.chunks().to_vec()))
    }
}

/// A file: name, (device, inode, size, time of change), inline bytes, access, flags.
#[derive(FromPyObject)]
pub struct Source(
    PyBackedBytes,
    (u64, u64, u64, i64),
    PyBackedBytes,
    PyBackedBytes,
    u64,
);

impl Source {
    pub fn values(&self) -> SourceValues<'_> {
        let (device, inode, size_bytes, mtime_ns) = self.1;
        SourceValues {
            filename: &self.0,
            fingerprint: Fingerprint {
                device,
                inode,
                size_bytes,
                mtime_ns: mtime_ns as u64,
            },
            flags: self.4,
            inline: &self.2,
            access: &self.3,
        }
    }
}

/// Many files of this machine: names, each with a NUL; the end of each name; a row of (device, inode,
/// size, time of change) for each; flags of all.
#[derive(FromPyObject)]
pub struct FileColumns<'py>(
    PyBackedBytes,
    PyReadonlyArray1<'py, u64>,
    PyReadonlyArray2<'py, u64>,
    u64,
);

impl FileColumns<'_> {
    /// The numbers of the files in a table.
    fn numbers(&self, builder: &mut TableBuilder) -> PyResult<Vec<u32>> {
        let (ends, states) = (self.1.as_array(), self.2.as_array());
        let wrong = || PyValueError::new_err("columns of files contradict one another");
        let mut begin = 0;
        let files = ends.iter().zip(states.rows());
        let numbers = files.map(|(&end, state)| {
            let name = usize::try_from(end).ok().and_then(|end| {
                let name = self.0.get(begin..end.checked_sub(1)?)?;
                begin = end;
                Some(name)
            });
            let [device, inode, size_bytes, mtime_ns] =
                state.to_vec().try_into().map_err(|_| wrong())?;
            Ok(builder.source(&SourceValues {
                filename: name.ok_or_else(wrong)?,
                fingerprint: Fingerprint {
                    device,
                    inode,
                    size_bytes,
                    mtime_ns,
                },
                flags: self.3,
                inline: &[],
                access: &[],
            }))
        });
        numbers.collect()
    }
}

/// The files of a dataset, one by one or as columns.
#[derive(FromPyObject)]
enum Files<'py> {
    Listed(Vec<Source>),
    Columns(FileColumns<'py>),
}

impl Files<'_> {
    fn numbers(&self, builder: &mut TableBuilder) -> PyResult<Vec<u32>> {
        match self {
            Files::Listed(files) => Ok((files.iter())
                .map(|file| builder.source(&file.values()))
                .collect()),
            Files::Columns(columns) => columns.numbers(builder),
        }
    }
}

/// What elements are: (bytes, offset and bytes of the field, bytes when delivered elsewhere or 0),
/// filters as (id, flags, values), words of conversions, fill value.
#[derive(FromPyObject)]
pub struct KindValues(
    (u64, u64, u64, u64),
    Vec<(u32, u32, Vec<u32>)>,
    Vec<u64>,
    PyBackedBytes,
);

impl KindValues {
    pub fn kind(self) -> Kind {
        let filters = self.1.into_iter();
        Kind {
            element_bytes: self.0.0,
            field_offset: self.0.1,
            field_bytes: self.0.2,
            delivered_bytes: self.0.3,
            filters: filters
                .map(|(id, flags, values)| FilterSpec { id, flags, values })
                .collect(),
            conversions: self.2,
            fill: self.3.to_vec(),
        }
    }
}

/// Puts a table together, dataset by dataset.
#[pyclass(frozen, module = "_multitables._core", name = "TableBuilder")]
pub struct Builder(Mutex<Option<TableBuilder>>);

#[pymethods]
impl Builder {
    #[new]
    fn new() -> Builder {
        Builder(Mutex::new(Some(TableBuilder::default())))
    }

    /// Add a dataset. `files` are its own and others in which chunks lie, whose numbers chunks name.
    /// `windows` has start, step and count of each axis behind the first, or nothing; `ends` the row
    /// behind the last one of each file of several; `cast` the words of a cast; `parts` the words of what a virtual dataset shows;
    /// `library` how a library serves its rows.
    #[expect(clippy::too_many_arguments, reason = "they are given by names")]
    #[pyo3(signature = (*, files, kind, row_bytes, dims, chunk_dims, chunks, windows=Vec::new(),
        ends=None, cast=Vec::new(), parts=None, clipped=false, by_library=false, library=None))]
    fn add(
        &self,
        files: Files<'_>,
        kind: KindValues,
        row_bytes: u64,
        dims: Vec<u64>,
        chunk_dims: Vec<u64>,
        chunks: PyReadonlyArray1<'_, ChunkRecord>,
        windows: Vec<(u64, i64, u64)>,
        ends: Option<PyReadonlyArray1<'_, u64>>,
        cast: Vec<u64>,
        parts: Option<PyReadonlyArray1<'_, u64>>,
        clipped: bool,
        by_library: bool,
        library: Option<PyBackedBytes>,
    ) -> PyResult<()> {
        let windows = windows.iter();
        let windows: Vec<u64> = windows
            .flat_map(|&(start, step, count)| [start, step as u64, count])
            .collect();
        let [parts, ends] =
            [parts, ends].map(|words| words.map_or_else(|| Ok(Vec::new()), |words| words.to_vec()));
        let (parts, ends) = (parts?, ends?);
        let shape = Shape {
            row_bytes,
            dims: &dims,
            chunk_dims: &chunk_dims,
            windows: &windows,
            ends: &ends,
            cast: &cast,
            clipped,
            by_library,
            library: library.as_deref().unwrap_or_default(),
            parts: &parts,
        };
        let kind = kind.kind();
        self.with(|builder| {
            let numbers = files.numbers(builder)?;
            let chunks = chunks.as_array();
            let chunks = chunks.iter().map(|record| record.0);
            if chunks
                .clone()
                .any(|chunk| chunk.source as usize >= numbers.len())
            {
                return Err(PyValueError::new_err(
                    "a chunk lies in a file that is not named",
                ));
            }
            let own = *numbers
                .first()
                .ok_or_else(|| PyValueError::new_err("no file"))?;
            let placed = chunks.map(|chunk| Chunk {
                source: numbers[chunk.source as usize],
                ..chunk
            });
            builder.dataset(&kind, &shape, own, placed);
            Ok(())
        })
    }

    /// The table, once.
    fn table(&self) -> PyResult<Table> {
        let builder = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        builder.map(Table::of).ok_or_else(Builder::is_done)
    }
}

impl Builder {
    fn with<T>(&self, act: impl FnOnce(&mut TableBuilder) -> PyResult<T>) -> PyResult<T> {
        let mut builder = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(builder.as_mut().ok_or_else(Builder::is_done)?)
    }

    fn is_done() -> PyErr {
        PyRuntimeError::new_err("this table was made already")
    }
}

/// The part of an element that is delivered: offset, bytes, bytes when delivered elsewhere or 0, and
/// words of conversions.
pub type Delivered = (u64, u64, u64, Vec<u64>);

/// Add a dataset whose elements are all in this file, and are decoded by the core. False: it is of another
/// kind, or damaged.
pub fn add_plain(
    builder: &mut TableBuilder,
    file: &File,
    dataset: &Dataset,
    source: &Source,
    (field_offset, field_bytes, delivered_bytes, conversions): Delivered,
    piece_bytes: u64,
) -> FormatResult<bool> {
    let space = &dataset.dataspace;
    let element_bytes = u64::from(dataset.element_bytes);
    let dims = if space.dims.is_empty() {
        &[1][..]
    } else {
        &space.dims
    };
    let n_bytes = dims
        .iter()
        .copied()
        .try_fold(element_bytes, u64::checked_mul);
    let is_native = |filter: &Filter| FILTERS.iter().any(|one| one.id == u32::from(filter.id));
    let Some(n_bytes) = n_bytes.filter(|&n| n > 0 && !space.is_null) else {
        return Ok(false);
    };
    if !dataset.external_files.is_empty() || !dataset.filters.iter().all(is_native) {
        return Ok(false);
    }
    let mut values = source.values();
    let mut extents = pieces(dims, element_bytes, piece_bytes);
    let one = |byte_offset| vec![Chunk::plain(0, byte_offset, n_bytes)];
    let chunks = match &dataset.layout {
        Layout::Compact { elements, .. } => {
            values.inline = elements;
            one(0)
        }
        Layout::Contiguous { address } if *address == UNDEFINED => Vec::new(),
        Layout::Contiguous { address } => one(file.blocks.address(*address)),
        Layout::Chunked(chunked) => {
            extents.clone_from(&chunked.chunk_dims);
            file.chunks(dataset)?
        }
        Layout::Virtual { .. } => return Ok(false),
    };
    if !are_inside(&chunks, &values) {
        return Ok(false);
    }
    let filters = match &dataset.layout {
        Layout::Chunked(_) => &dataset.filters[..],
        _ => &[],
    };
    let kind = Kind {
        element_bytes,
        field_offset,
        field_bytes,
        delivered_bytes,
        filters: filters.iter().map(spec).collect(),
        conversions,
        fill: dataset.fill.shown().to_vec(),
    };
    let delivered = if delivered_bytes == 0 {
        field_bytes
    } else {
        delivered_bytes
    };
    let shape = Shape {
        row_bytes: row_bytes(dims, delivered),
        dims,
        chunk_dims: &extents,
        clipped: !matches!(dataset.layout, Layout::Chunked(_)),
        ..Shape::default()
    };
    let own = builder.source(&values);
    let chunks = chunks.into_iter();
    let chunks = chunks.map(|chunk| Chunk {
        source: own,
        ..chunk
    });
    builder.dataset(&kind, &shape, own, chunks);
    Ok(true)
}

/// Whether chunks lie inside the file, or its inline bytes; those of a damaged file may not.
fn are_inside(chunks: &[Chunk], stored: &SourceValues) -> bool {
    let end = match stored.inline.len() {
        0 => stored.fingerprint.size_bytes,
        inline => inline as u64,
    };
    chunks.iter().all(|chunk| {
        let behind = chunk.byte_offset.checked_add(chunk.stored_size);
        behind.is_some_and(|behind| behind <= end)
    })
}

fn spec(filter: &Filter) -> FilterSpec {
    FilterSpec {
        id: filter.id.into(),
        flags: filter.flags.into(),
        values: filter.values.clone(),
    }
}
