//! A dataset as it is stored, as Python sees it: a value with typed fields.
//!
//! Law:
//! 1. Never changes, and makes each value at its first use: most callers want two or three of them.
//! 2. One type for every source of metadata. What the core read of a file has a table, too.

use super::format_error::Raised;
use super::store::waited;
use super::table::{Delivered, Source, Table, add_plain};
use hdf5_format::chunks::{ChunkIndexKind, ChunkedLayout};
use hdf5_format::cursor::{Block, UNDEFINED};
use hdf5_format::dataspace::{Dataspace, UNLIMITED};
use hdf5_format::external_files::ExternalFile;
use hdf5_format::file::{Dataset, File};
use hdf5_format::fill_value::{Fill, FillValue};
use hdf5_format::filter_pipeline::Filter;
use hdf5_format::layout::Layout;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::sync::Arc;
use tables::builder::TableBuilder;

type Filters<'py> = Vec<Bound<'py, PyTuple>>;
pub type FilterValues = (u16, u16, Vec<u32>, Vec<u8>);

/// What a dataset is, but for its attributes and chunks.
#[pyclass(frozen, module = "_multitables._core")]
pub struct StoredDataset {
    pub(super) dataset: Dataset,
    /// "compact", "contiguous", "chunked", "virtual", or "unknown" to the core.
    #[pyo3(get)]
    layout: &'static str,
    /// Absolute: where elements lie that are in one piece, if any is stored.
    #[pyo3(get)]
    byte_offset: Option<u64>,
    /// Bytes of chunks that lie in no file.
    inline: Vec<u8>,
    /// Which has it; None: a saved index, or Python.
    pub(super) file: Option<Arc<File>>,
}

impl StoredDataset {
    pub fn of(file: Arc<File>, dataset: Dataset) -> StoredDataset {
        let byte_offset = match &dataset.layout {
            Layout::Contiguous { address } if *address != UNDEFINED => {
                Some(file.blocks.address(*address))
            }
            _ => None,
        };
        StoredDataset {
            file: Some(file),
            ..StoredDataset::placed(dataset, byte_offset)
        }
    }

    /// One that lies there, if it is in one piece.
    pub fn placed(dataset: Dataset, byte_offset: Option<u64>) -> StoredDataset {
        let layout = match &dataset.layout {
            Layout::Compact { .. } => "compact",
            Layout::Contiguous { .. } => "contiguous",
            Layout::Chunked(_) => "chunked",
            Layout::Virtual { .. } => "virtual",
        };
        StoredDataset {
            dataset,
            layout,
            byte_offset,
            inline: Vec::new(),
            file: None,
        }
    }

    /// What two of them must have in common to be equal.
    #[expect(clippy::type_complexity, reason = "it is compared")]
    fn values(
        &self,
    ) -> (
        &Dataspace,
        &[u8],
        &str,
        Option<&[u64]>,
        Option<u64>,
        &[u8],
        &[Filter],
        &Fill,
        &[ExternalFile],
    ) {
        let of = &self.dataset;
        (
            &of.dataspace,
            &of.datatype.bytes,
            self.layout,
            self.extents(),
            self.byte_offset,
            self.stored(),
            &of.filters,
            &of.fill,
            &of.external_files,
        )
    }

    pub(super) fn extents(&self) -> Option<&[u64]> {
        match &self.dataset.layout {
            Layout::Chunked(chunked) => Some(&chunked.chunk_dims),
            _ => None,
        }
    }

    fn stored(&self) -> &[u8] {
        match &self.dataset.layout {
            Layout::Compact { elements, .. } => elements,
            _ => &self.inline,
        }
    }
}

#[pymethods]
impl StoredDataset {
    /// What is not in an HDF5 file, or is known without reading it.
    #[expect(clippy::too_many_arguments, reason = "they are given by names")]
    #[new]
    #[pyo3(signature = (*, dims, max_dims, datatype, element_bytes, layout, is_null=false,
        chunk_dims=None, byte_offset=None, elements=Vec::new(), mappings=None, filters=Vec::new(),
        fill_value=None, fill_is_never_written=false, external_files=Vec::new()))]
    fn new(
        dims: Vec<u64>,
        max_dims: Vec<Option<u64>>,
        datatype: Vec<u8>,
        element_bytes: u32,
        layout: &str,
        is_null: bool,
        chunk_dims: Option<Vec<u64>>,
        byte_offset: Option<u64>,
        elements: Vec<u8>,
        mappings: Option<(u64, u32)>,
        filters: Vec<FilterValues>,
        fill_value: Option<Vec<u8>>,
        fill_is_never_written: bool,
        external_files: Vec<(Vec<u8>, u64, u64)>,
    ) -> PyResult<StoredDataset> {
        let is_compact = layout == "compact";
        let (elements, inline) = if is_compact {
            (elements, Vec::new())
        } else {
            (Vec::new(), elements)
        };
        let (name, layout) = stored_layout(layout, elements, chunk_dims, mappings)
            .ok_or_else(|| PyValueError::new_err("a layout without what belongs to it"))?;
        let max_dims = max_dims.into_iter().map(|most| most.unwrap_or(UNLIMITED));
        let value = match fill_value {
            None => FillValue::Undefined,
            Some(value) if value.is_empty() => FillValue::Default,
            Some(value) => FillValue::Value(value),
        };
        let filters = filters.into_iter();
        let external_files = external_files.into_iter();
        let dataset = Dataset {
            dataspace: Dataspace {
                is_null,
                dims,
                max_dims: max_dims.collect(),
            },
            datatype: Block {
                bytes: datatype,
                address: 0,
            },
            element_bytes,
            layout,
            filters: filters.map(filter_of).collect(),
            fill: Fill {
                value,
                is_never_written: fill_is_never_written,
            },
            external_files: external_files
                .map(|(name, byte_offset, size)| ExternalFile {
                    name,
                    byte_offset,
                    size,
                })
                .collect(),
        };
        Ok(StoredDataset {
            dataset,
            layout: name,
            byte_offset,
            inline,
            file: None,
        })
    }

    /// The same with other dims, as a dataset that has grown.
    fn with_dims(&self, dims: Vec<u64>) -> StoredDataset {
        let mut dataset = self.dataset.clone();
        dataset.dataspace.dims = dims;
        StoredDataset {
            dataset,
            inline: self.inline.clone(),
            file: self.file.clone(),
            ..*self
        }
    }

    /// A null dataspace: no elements.
    #[getter]
    fn is_null(&self) -> bool {
        self.dataset.dataspace.is_null
    }

    /// Extents; () of a scalar or a null dataspace.
    #[getter]
    fn dims<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.dataset.dataspace.dims)
    }

    /// Extents that it may grow to, None without a bound.
    #[getter]
    fn max_dims<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let most = self.dataset.dataspace.max_dims.iter();
        let most = most.map(|&most| (most != UNLIMITED).then_some(most));
        PyTuple::new(py, most.collect::<Vec<_>>())
    }

    /// The message of the element type, as `datatype` takes it.
    #[getter]
    fn datatype<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.dataset.datatype.bytes)
    }

    #[getter]
    fn element_bytes(&self) -> u32 {
        self.dataset.element_bytes
    }

    #[getter]
    fn chunk_dims<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.extents()
            .map(|extents| PyTuple::new(py, extents))
            .transpose()
    }

    /// The elements of a compact dataset; the bytes of chunks that lie in no file.
    #[getter]
    fn elements<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.stored())
    }

    /// The object of the global heap that says what a virtual dataset shows.
    #[getter]
    fn mappings(&self) -> Option<(u64, u32)> {
        match self.dataset.layout {
            Layout::Virtual { heap, index } => Some((heap, index)),
            _ => None,
        }
    }

    /// (id, flags, values, name) of each, in the order of writing.
    #[getter]
    fn filters<'py>(&self, py: Python<'py>) -> PyResult<Filters<'py>> {
        self.dataset
            .filters
            .iter()
            .map(|filter| filter_values(py, filter))
            .collect()
    }

    /// One stored element; b"": zeros, None: undefined.
    #[getter]
    fn fill_value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        match &self.dataset.fill.value {
            FillValue::Undefined => None,
            FillValue::Default => Some(PyBytes::new(py, &[])),
            FillValue::Value(value) => Some(PyBytes::new(py, value)),
        }
    }

    /// What HDF5 reads of chunks that are not stored stays as it was.
    #[getter]
    fn fill_is_never_written(&self) -> bool {
        self.dataset.fill.is_never_written
    }

    /// (name, offset, size) of each file that has its elements.
    #[getter]
    fn external_files<'py>(&self, py: Python<'py>) -> Vec<(Bound<'py, PyBytes>, u64, u64)> {
        let external = self.dataset.external_files.iter();
        external
            .map(|file| (PyBytes::new(py, &file.name), file.byte_offset, file.size))
            .collect()
    }

    /// Its table, if its elements lie in the core's file and are decoded by the core, by what its source
    /// is and what of each element is delivered. None: it is another one.
    fn table(
        &self,
        py: Python<'_>,
        source: Source,
        delivered: Delivered,
        piece_bytes: u64,
    ) -> PyResult<Option<Table>> {
        let Some(file) = &self.file else {
            return Ok(None);
        };
        let mut builder = TableBuilder::default();
        let data = &self.dataset;
        let added = || add_plain(&mut builder, file, data, &source, delivered, piece_bytes);
        let is_added = waited(py, added)?.raised()?;
        Ok(is_added.then(|| Table::of(builder)))
    }

    fn __eq__(&self, other: &StoredDataset) -> bool {
        self.values() == other.values()
    }
}

/// A layout by its name, with what it has.
fn stored_layout(
    name: &str,
    elements: Vec<u8>,
    chunk_dims: Option<Vec<u64>>,
    mappings: Option<(u64, u32)>,
) -> Option<(&'static str, Layout)> {
    let address = UNDEFINED;
    Some(match (name, chunk_dims, mappings) {
        ("compact", None, None) => ("compact", Layout::Compact { elements, address }),
        ("contiguous", None, None) => ("contiguous", Layout::Contiguous { address }),
        ("unknown", None, None) => ("unknown", Layout::Contiguous { address }),
        ("chunked", Some(chunk_dims), None) => {
            let (index, unfiltered_edges) = (ChunkIndexKind::BTreeV1, false);
            let chunked = ChunkedLayout {
                index,
                address,
                chunk_dims,
                unfiltered_edges,
            };
            ("chunked", Layout::Chunked(chunked))
        }
        ("virtual", None, Some((heap, index))) => ("virtual", Layout::Virtual { heap, index }),
        _ => return None,
    })
}

/// (id, flags, values, name)
pub fn filter_values<'py>(py: Python<'py>, filter: &Filter) -> PyResult<Bound<'py, PyTuple>> {
    let values = PyTuple::new(py, &filter.values)?;
    (
        filter.id,
        filter.flags,
        values,
        PyBytes::new(py, &filter.name),
    )
        .into_pyobject(py)
}

/// A filter of its values.
pub fn filter_of((id, flags, values, name): FilterValues) -> Filter {
    Filter {
        id,
        flags,
        name,
        values,
    }
}
