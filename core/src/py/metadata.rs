//! Python's view of a file's metadata: plain tuples, dicts and arrays.
//!
//! Law:
//! 1. Offsets count from the superblock, as in the file; addresses of stored bytes are absolute.
//! 2. Nothing is kept but the file; what is asked twice is read twice.

use crate::fetch::local_file::{LocalFile, ReadLock};
use crate::format::cursor::{Block, Cursor, Sizes, UNDEFINED};
use crate::format::dataspace::Dataspace;
use crate::format::datatype::{self, Bits, ByteOrder, Datatype, Kind, Text};
use crate::format::error::FormatError;
use crate::format::file::{File, Found, ObjectKind};
use crate::format::fill_value::FillValue;
use crate::format::filter_pipeline::Filter;
use crate::format::layout::Layout;
use crate::format::link::Target;
use crate::format::source::ByteSource;
use crate::format::virtual_layout::Selection;
use numpy::PyArray1;
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

create_exception!(
    _core,
    Corrupt,
    PyValueError,
    "A structure contradicts the specification of HDF5: (text, address, expected, got)."
);
create_exception!(
    _core,
    Unknown,
    PyValueError,
    "A structure that the core does not know: (text, address)."
);

impl From<FormatError> for PyErr {
    fn from(error: FormatError) -> PyErr {
        let text = error.to_string();
        match error {
            FormatError::Corrupt {
                address,
                expected,
                got,
            } => Corrupt::new_err((text, address, expected, got)),
            FormatError::Unknown { address, .. } => Unknown::new_err((text, address)),
            FormatError::Io { error, .. } => PyOSError::new_err((error.raw_os_error(), text)),
        }
    }
}

/// The metadata of an HDF5 file. May be used by several threads at once.
#[pyclass(frozen)]
pub struct MetadataFile {
    file: File,
    lock: Mutex<Option<ReadLock>>,
}

fn os_error(error: io::Error) -> PyErr {
    PyOSError::new_err((error.raw_os_error(), error.to_string()))
}

#[pymethods]
impl MetadataFile {
    /// With `takes_lock`, the lock of HDF5's readers is held until `release`.
    #[new]
    #[pyo3(signature = (filename, *, takes_lock=false))]
    fn new(py: Python<'_>, filename: PathBuf, takes_lock: bool) -> PyResult<MetadataFile> {
        py.detach(|| {
            let take = || ReadLock::take(&filename);
            let lock = takes_lock.then(take).transpose().map_err(os_error)?;
            let source = LocalFile::open(&filename).map_err(os_error)?;
            let mut file = MetadataFile::open(Box::new(source), true)?;
            file.lock = Mutex::new(lock);
            Ok(file)
        })
    }

    /// Take the lock again; it must be the file of this name still.
    fn lock(&self, py: Python<'_>, filename: PathBuf) -> PyResult<()> {
        let lock = py.detach(|| ReadLock::take(&filename)).map_err(os_error)?;
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(lock);
        Ok(())
    }

    /// Release the lock, if it is held.
    fn release(&self) {
        drop(
            self.lock
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    /// A file in memory. Tests of damaged files get further without its checksums.
    #[staticmethod]
    #[pyo3(signature = (bytes, *, checks_sums=true))]
    fn from_bytes(py: Python<'_>, bytes: Vec<u8>, checks_sums: bool) -> PyResult<MetadataFile> {
        py.detach(|| MetadataFile::open(Box::new(bytes), checks_sums))
    }

    #[getter]
    fn root(&self) -> u64 {
        self.file.root()
    }

    /// Where the file ends as its writer left it: a file that is shorter is truncated.
    #[getter]
    fn end(&self) -> u64 {
        self.file.end
    }

    /// The name of the driver that wrote the file, if a part of it is in another file.
    #[getter]
    fn driver<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, &self.file.driver)
    }

    /// A writer has the file open, or was killed.
    #[getter]
    fn is_written(&self) -> bool {
        self.file.is_written
    }

    /// Bytes of the user block.
    #[getter]
    fn user_block(&self) -> u64 {
        self.file.blocks.base
    }

    /// Where a path leads: ("object", offset), ("missing", parent), ("not_a_group", parent),
    /// ("external", file, path), ("user_defined", type) or ("too_many_links",).
    #[pyo3(signature = (path, start=None))]
    fn find<'py>(
        &self,
        py: Python<'py>,
        path: &[u8],
        start: Option<u64>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let found = py.detach(|| self.file.find(start.unwrap_or(self.file.root()), path))?;
        match found {
            Found::Object(offset) => ("object", offset).into_pyobject(py),
            Found::Missing { parent } => ("missing", parent).into_pyobject(py),
            Found::NotAGroup { parent } => ("not_a_group", parent).into_pyobject(py),
            Found::External { file, path } => {
                ("external", bytes(py, &file), bytes(py, &path)).into_pyobject(py)
            }
            Found::UserDefined(kind) => ("user_defined", kind).into_pyobject(py),
            Found::TooManyLinks => ("too_many_links",).into_pyobject(py),
        }
    }

    /// "group", "dataset", "datatype" or "other".
    fn kind(&self, py: Python<'_>, offset: u64) -> PyResult<&'static str> {
        let header = py.detach(|| self.file.object(offset))?;
        Ok(match header.kind() {
            ObjectKind::Group => "group",
            ObjectKind::Dataset => "dataset",
            ObjectKind::Datatype => "datatype",
            ObjectKind::Other => "other",
        })
    }

    /// (name, creation order or None, "hard", offset), (.., "soft", path), (.., "external", file,
    /// path) or (.., "user_defined", type) for each link of a group.
    fn links<'py>(&self, py: Python<'py>, offset: u64) -> PyResult<Bound<'py, PyList>> {
        let links = py.detach(|| self.file.links(&self.file.object(offset)?))?;
        let list = PyList::empty(py);
        for link in links {
            let (name, order) = (bytes(py, &link.name), link.creation_order);
            let tuple = match link.target {
                Target::Hard(offset) => (name, order, "hard", offset).into_pyobject(py)?,
                Target::Soft(path) => (name, order, "soft", bytes(py, &path)).into_pyobject(py)?,
                Target::External { file, path } => {
                    let (file, path) = (bytes(py, &file), bytes(py, &path));
                    (name, order, "external", file, path).into_pyobject(py)?
                }
                Target::UserDefined(kind) => {
                    (name, order, "user_defined", kind).into_pyobject(py)?
                }
            };
            list.append(tuple)?;
        }
        Ok(list)
    }

    /// (name, creation order, datatype, dims or None, elements as stored) for each attribute.
    fn attributes<'py>(&self, py: Python<'py>, offset: u64) -> PyResult<Bound<'py, PyList>> {
        let found = py.detach(|| self.file.attributes(&self.file.object(offset)?))?;
        let list = PyList::empty(py);
        for (order, attribute) in found {
            let space = &attribute.dataspace;
            let dims = (!space.is_null).then_some(&space.dims);
            list.append((
                bytes(py, &attribute.name),
                order,
                bytes(py, &attribute.datatype.bytes),
                dims.map(|dims| PyTuple::new(py, dims)).transpose()?,
                bytes(py, &attribute.elements),
            ))?;
        }
        Ok(list)
    }

    /// The element type of a dataset or a committed datatype, as `datatype` takes it.
    fn datatype<'py>(&self, py: Python<'py>, offset: u64) -> PyResult<Bound<'py, PyBytes>> {
        let body = py.detach(|| self.file.datatype(&self.file.object(offset)?))?;
        Ok(bytes(py, &body.bytes))
    }

    /// What a dataset is: dims, max_dims (None: scalar or null, as is_null says), datatype, layout and
    /// what it needs, filters, fill_value (None: undefined, b"": zeros) and
    /// fill_is_never_written, external_files.
    fn dataset<'py>(&self, py: Python<'py>, offset: u64) -> PyResult<Bound<'py, PyDict>> {
        let dataset = py.detach(|| self.file.dataset(&self.file.object(offset)?))?;
        let dict = PyDict::new(py);
        set_space(&dict, &dataset.dataspace)?;
        dict.set_item("datatype", bytes(py, &dataset.datatype.bytes))?;
        dict.set_item("element_bytes", dataset.element_bytes)?;
        set_layout(&dict, &dataset.layout, &self.file)?;
        let filters = dataset.filters.iter().map(|filter| told(py, filter));
        dict.set_item("filters", filters.collect::<PyResult<Vec<_>>>()?)?;
        let fill = match &dataset.fill.value {
            FillValue::Undefined => None,
            FillValue::Default => Some(&[][..]),
            FillValue::Value(value) => Some(&value[..]),
        };
        dict.set_item("fill_value", fill.map(|value| bytes(py, value)))?;
        dict.set_item("fill_is_never_written", dataset.fill.is_never_written)?;
        let external = dataset.external_files.iter();
        let external = external.map(|file| (bytes(py, &file.name), file.byte_offset, file.size));
        dict.set_item("external_files", external.collect::<Vec<_>>())?;
        Ok(dict)
    }

    /// The stored chunks of a dataset, by number in the grid: arrays of grid_index, byte_offset
    /// (absolute), stored_size and filter_mask.
    #[allow(clippy::type_complexity)] // four arrays
    fn chunks<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
    ) -> PyResult<(
        Bound<'py, PyArray1<u64>>,
        Bound<'py, PyArray1<u64>>,
        Bound<'py, PyArray1<u64>>,
        Bound<'py, PyArray1<u32>>,
    )> {
        let table = py.detach(|| {
            self.file
                .chunks(&self.file.dataset(&self.file.object(offset)?)?)
        })?;
        Ok((
            PyArray1::from_vec(py, table.grid_index),
            PyArray1::from_vec(py, table.byte_offset),
            PyArray1::from_vec(py, table.stored_size),
            PyArray1::from_vec(py, table.filter_mask),
        ))
    }

    /// (file, dataset, selection in it, selection in the virtual dataset) for each mapping.
    fn mappings<'py>(
        &self,
        py: Python<'py>,
        heap: u64,
        index: u32,
    ) -> PyResult<Bound<'py, PyList>> {
        let mappings = py.detach(|| self.file.mappings(heap, index))?;
        let list = PyList::empty(py);
        for mapping in mappings {
            list.append((
                bytes(py, &mapping.file),
                bytes(py, &mapping.dataset),
                selection(py, mapping.in_source)?,
                selection(py, mapping.in_virtual)?,
            ))?;
        }
        Ok(list)
    }

    /// An object of the global heap.
    fn global_object<'py>(
        &self,
        py: Python<'py>,
        heap: u64,
        index: u32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let block = py.detach(|| self.file.global(heap, index))?;
        Ok(bytes(py, &block.bytes))
    }
}

impl MetadataFile {
    fn open(source: Box<dyn ByteSource>, checks_sums: bool) -> PyResult<MetadataFile> {
        Ok(MetadataFile {
            file: File::open(source, checks_sums)?,
            lock: Mutex::default(),
        })
    }
}

fn bytes<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, bytes)
}

fn set_space(dict: &Bound<'_, PyDict>, space: &Dataspace) -> PyResult<()> {
    let py = dict.py();
    dict.set_item("is_null", space.is_null)?;
    dict.set_item("dims", PyTuple::new(py, &space.dims)?)?;
    let most = space.max_dims.iter();
    let most = most.map(|&most| (most != u64::MAX).then_some(most));
    dict.set_item("max_dims", PyTuple::new(py, most.collect::<Vec<_>>())?)
}

fn set_layout(dict: &Bound<'_, PyDict>, layout: &Layout, file: &File) -> PyResult<()> {
    let py = dict.py();
    let absolute = |offset: u64| (offset != UNDEFINED).then(|| file.blocks.address(offset));
    let kind = match layout {
        Layout::Compact { elements, .. } => {
            dict.set_item("elements", bytes(py, elements))?;
            "compact"
        }
        Layout::Contiguous { address } => {
            dict.set_item("byte_offset", absolute(*address))?;
            "contiguous"
        }
        Layout::Chunked(chunked) => {
            dict.set_item("chunk_dims", PyTuple::new(py, &chunked.chunk_dims)?)?;
            "chunked"
        }
        Layout::Virtual { heap, index } => {
            dict.set_item("mappings", (*heap, *index))?;
            "virtual"
        }
    };
    dict.set_item("layout", kind)
}

/// (id, flags, values, name)
fn told<'py>(py: Python<'py>, filter: &Filter) -> PyResult<Bound<'py, PyTuple>> {
    let values = PyTuple::new(py, &filter.values)?;
    (filter.id, filter.flags, values, bytes(py, &filter.name)).into_pyobject(py)
}

fn selection(py: Python<'_>, selection: Selection) -> PyResult<Bound<'_, PyTuple>> {
    match selection {
        Selection::None => ("none",).into_pyobject(py),
        Selection::All => ("all",).into_pyobject(py),
        Selection::Points { rank, coordinates } => ("points", rank, coordinates).into_pyobject(py),
        Selection::Regular(axes) => ("regular", axes.to_vec()).into_pyobject(py),
        Selection::Blocks { rank, bounds } => ("blocks", rank, bounds).into_pyobject(py),
    }
}

/// What a datatype message says: its kind, size, and what belongs to the kind.
#[pyfunction(name = "datatype")]
pub fn describe_datatype<'py>(py: Python<'py>, body: Vec<u8>) -> PyResult<Bound<'py, PyDict>> {
    let block = Block {
        bytes: body,
        address: 0,
    };
    let sizes = Sizes {
        address: 8,
        length: 8,
        checks_sums: true,
    };
    let datatype = datatype::datatype(&mut Cursor::new(&block, sizes))?;
    described(py, &datatype)
}

fn described<'py>(py: Python<'py>, datatype: &Datatype) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("size", datatype.size)?;
    let base = |base: &Datatype| dict.set_item("base", described(py, base)?);
    let kind = match &datatype.kind {
        Kind::Integer {
            order,
            bits,
            signed,
            ..
        } => {
            set_order(&dict, *order)?;
            set_bits(&dict, *bits)?;
            dict.set_item("signed", signed)?;
            "integer"
        }
        Kind::Float {
            order,
            bits,
            fields,
        } => {
            set_order(&dict, *order)?;
            set_bits(&dict, *bits)?;
            dict.set_item("sign_at", fields.sign_at)?;
            dict.set_item("exponent", (fields.exponent_at, fields.exponent_bits))?;
            dict.set_item("mantissa", (fields.mantissa_at, fields.mantissa_bits))?;
            dict.set_item("exponent_bias", fields.exponent_bias)?;
            dict.set_item("normalization", fields.normalization)?;
            "float"
        }
        Kind::Time { order, precision } => {
            set_order(&dict, *order)?;
            dict.set_item("precision", precision)?;
            "time"
        }
        Kind::String(text) => {
            set_text(&dict, *text)?;
            "string"
        }
        Kind::Bitfield { order, bits, .. } => {
            set_order(&dict, *order)?;
            set_bits(&dict, *bits)?;
            "bitfield"
        }
        Kind::Opaque { tag } => {
            dict.set_item("tag", bytes(py, tag))?;
            "opaque"
        }
        Kind::Compound(fields) => {
            let fields = fields.iter().map(|field| {
                let name = bytes(py, &field.name);
                Ok((name, field.offset, described(py, &field.datatype)?))
            });
            dict.set_item("fields", fields.collect::<PyResult<Vec<_>>>()?)?;
            "compound"
        }
        Kind::Reference(kind) => {
            dict.set_item("reference", kind)?;
            "reference"
        }
        Kind::Enum { base: of, values } => {
            base(of)?;
            let values = values
                .iter()
                .map(|(name, value)| (bytes(py, name), bytes(py, value)));
            dict.set_item("values", values.collect::<Vec<_>>())?;
            "enum"
        }
        Kind::Sequence(of) => {
            base(of)?;
            "sequence"
        }
        Kind::VariableString(text) => {
            set_text(&dict, *text)?;
            "variable_string"
        }
        Kind::Array { dims, base: of } => {
            base(of)?;
            dict.set_item("dims", PyTuple::new(py, dims)?)?;
            "array"
        }
        Kind::Complex(of) => {
            base(of)?;
            "complex"
        }
    };
    dict.set_item("kind", kind)?;
    Ok(dict)
}

fn set_order(dict: &Bound<'_, PyDict>, order: ByteOrder) -> PyResult<()> {
    dict.set_item(
        "order",
        match order {
            ByteOrder::Little => "<",
            ByteOrder::Big => ">",
            ByteOrder::Vax => "vax",
        },
    )
}

fn set_bits(dict: &Bound<'_, PyDict>, bits: Bits) -> PyResult<()> {
    dict.set_item("bits", (bits.offset, bits.precision))
}

fn set_text(dict: &Bound<'_, PyDict>, text: Text) -> PyResult<()> {
    dict.set_item("padding", text.padding)?;
    dict.set_item("charset", text.charset)
}
