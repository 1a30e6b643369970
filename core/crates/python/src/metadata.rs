//! Python's view of a file's metadata: plain tuples, arrays and `StoredDataset`.
//!
//! Law:
//! 1. Offsets count from the superblock, as in the file; addresses of stored bytes are absolute.
//! 2. Nothing is kept but the file; what is asked twice is read twice.

use super::chunks::{self, ChunkRecord};
use super::format_error::Raised;
use super::links::{attribute_list, bytes, found_tuple, link_list, link_tuple, names_of_each};
use super::mappings::Mappings;
use super::selections::selection;
use super::store::{waited, waited_by_all};
use super::stored::StoredDataset;
use super::survey::Survey;
use engine::fetch::local_file::{LocalFile, ReadLock};
use engine::fetch::remote::metadata::RemoteMetadata;
use engine::fetch::remote::object::{Caches, Object};
use hdf5_format::file::{File, ObjectKind};
use hdf5_format::link::Target;
use hdf5_format::source::ByteSource;
use numpy::{PyArray1, PyReadonlyArray1};
use os::unlinked;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tables::access::Access;

/// A file of this machine, which is kept open by this as it is by its metadata.
#[pyclass(frozen)]
pub struct OpenedFile(pub(super) Arc<LocalFile>);

#[pymethods]
impl OpenedFile {
    /// The number of its descriptor; None: it was closed.
    #[getter]
    fn descriptor(&self) -> Option<i32> {
        self.0.descriptor()
    }

    /// Whether the page cache has the bytes at these places, without a read from the device.
    fn has_cached(&self, places: Vec<u64>) -> bool {
        self.0.has_cached(places)
    }

    /// Close it, for its metadata too.
    fn close(&self) {
        self.0.close();
    }

    /// None: no descriptor is of any use to another process.
    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, Bound<'py, PyTuple>) {
        (py.None().bind(py).get_type().into_any(), PyTuple::empty(py))
    }
}

/// A name that opens a file which lost its own, if this process or the parent has it open.
#[pyfunction]
pub fn name_of_unlinked(device: u64, inode: u64) -> Option<OsString> {
    unlinked::name_of(device, inode).map(PathBuf::into_os_string)
}

/// The metadata of an HDF5 file. May be used by several threads at once.
#[pyclass(frozen)]
pub struct MetadataFile {
    file: Arc<File>,
    lock: Mutex<Option<ReadLock>>,
    source: Source,
}

/// Kinds of objects.
pub const KINDS: [&str; 4] = ["group", "dataset", "datatype", "other"];

/// Where the metadata come from.
enum Source {
    Memory,
    File(Arc<LocalFile>),
    Object(Arc<RemoteMetadata>),
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
            let source = Arc::new(LocalFile::open(&filename).map_err(os_error)?);
            let mut file = MetadataFile::open(Box::new(source.clone()), true)?;
            (file.lock, file.source) = (Mutex::new(lock), Source::File(source));
            Ok(file)
        })
    }

    /// An object of a store, whose first bytes are known already.
    #[staticmethod]
    fn of_object(
        py: Python<'_>,
        name: &[u8],
        access: &[u8],
        size: u64,
        version: u64,
        first: Vec<u8>,
    ) -> PyResult<MetadataFile> {
        waited(py, || {
            let access = Access::parse(access).map_err(PyValueError::new_err)?;
            let object = Arc::new(Object::new(name, access, size, version, &Caches::default()));
            let source = Arc::new(RemoteMetadata::new(object));
            source.keep(0, first);
            let mut file = MetadataFile::open(Box::new(source.clone()), true)?;
            file.source = Source::Object(source);
            Ok(file)
        })?
    }

    /// Requests of a store, and the bytes that they brought.
    #[getter]
    fn requests(&self) -> (u64, u64) {
        match &self.source {
            Source::Object(source) => source.counts(),
            _ => (0, 0),
        }
    }

    /// Take the lock again; it must be the file of this name still.
    fn lock(&self, py: Python<'_>, filename: PathBuf) -> PyResult<()> {
        let lock = py.detach(|| ReadLock::take(&filename)).map_err(os_error)?;
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(lock);
        Ok(())
    }

    /// What keeps the file open, of a file of this machine.
    #[getter]
    fn opened(&self) -> Option<OpenedFile> {
        match &self.source {
            Source::File(file) => Some(OpenedFile(file.clone())),
            _ => None,
        }
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

    /// Release the lock and close the file, for good: what was not read yet cannot be read then.
    fn close(&self) {
        self.release();
        match &self.source {
            Source::Memory => {}
            Source::File(file) => file.close(),
            Source::Object(object) => object.close(),
        }
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

    /// A writer has the file open in SWMR mode, or was killed.
    #[getter]
    fn is_swmr(&self) -> bool {
        self.file.is_swmr
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
        let found = waited(py, || {
            self.file.find(start.unwrap_or(self.file.root()), path)
        })?
        .raised()?;
        found_tuple(py, found)
    }

    /// Where a path leads from each of the groups at these offsets: to the offset of an object, to
    /// `FIND_NOWHERE`, or to `FIND_ELSEWHERE`, which `find` follows.
    fn find_from<'py>(
        &self,
        py: Python<'py>,
        offsets: PyReadonlyArray1<'_, u64>,
        path: &[u8],
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let offsets = offsets.as_slice()?;
        let found = waited_by_all(py, |until| self.file.find_from(offsets, path, until))?;
        Ok(PyArray1::from_vec(py, found))
    }

    /// Prefetch the objects at these offsets, where a store has the file.
    fn prefetch(&self, py: Python<'_>, offsets: Vec<u64>) -> PyResult<()> {
        waited(py, || self.file.prefetch(&offsets))
    }

    /// "group", "dataset", "datatype" or "other".
    fn kind(&self, py: Python<'_>, offset: u64) -> PyResult<&'static str> {
        let header = waited(py, || self.file.object(offset))?.raised()?;
        Ok(match header.kind() {
            ObjectKind::Group => KINDS[0],
            ObjectKind::Dataset => KINDS[1],
            ObjectKind::Datatype => KINDS[2],
            ObjectKind::Other => KINDS[3],
        })
    }

    /// (name, creation order or None, "hard", offset), (.., "soft", path), (.., "external", file,
    /// path) or (.., "user_defined", type) for each link of a group.
    fn links<'py>(&self, py: Python<'py>, offset: u64) -> PyResult<Bound<'py, PyList>> {
        let links = waited(py, || self.file.links(&*self.file.object(offset)?))?.raised()?;
        link_list(py, links)
    }

    /// The names of the links of each group at these offsets, in the order of the file, and one array of
    /// the targets of all links: -1 for one that is not hard.
    fn listed<'py>(
        &self,
        py: Python<'py>,
        offsets: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyArray1<i64>>)> {
        let offsets = offsets.as_slice()?;
        let links = waited_by_all(py, |until| self.file.links_of(offsets, until))?.raised()?;
        let targets = links.iter().flatten().map(|link| match link.target {
            Target::Hard(offset) => i64::try_from(offset).unwrap_or(i64::MAX),
            _ => -1,
        });
        let targets = PyArray1::from_vec(py, targets.collect());
        Ok((names_of_each(py, links)?, targets))
    }

    /// The names of a group's links: in the order of creation where all have it, else sorted. Bytes
    /// where they are not UTF-8.
    fn names<'py>(&self, py: Python<'py>, offset: u64) -> PyResult<Bound<'py, PyList>> {
        let names = waited(py, || self.file.names(&*self.file.object(offset)?))?.raised()?;
        let made = names
            .into_iter()
            .map(|name| match std::str::from_utf8(&name) {
                Ok(text) => PyString::new(py, text).into_any(),
                Err(_) => bytes(py, &name).into_any(),
            });
        PyList::new(py, made.collect::<Vec<_>>())
    }

    /// How many links a group has.
    fn n_links(&self, py: Python<'_>, offset: u64) -> PyResult<u64> {
        waited(py, || self.file.n_links(&*self.file.object(offset)?))?.raised()
    }

    /// The link of this name in a group, as in `links`, or None.
    fn link<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        name: &[u8],
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let link = waited(py, || self.file.link(&*self.file.object(offset)?, name))?.raised()?;
        link.map(|link| link_tuple(py, link)).transpose()
    }

    /// (name, creation order or None, datatype, dims or None, elements as stored) for each attribute.
    fn attributes<'py>(&self, py: Python<'py>, offset: u64) -> PyResult<Bound<'py, PyList>> {
        let found = waited(py, || self.file.attributes(&*self.file.object(offset)?))?.raised()?;
        attribute_list(py, found)
    }

    /// The element type of a dataset or a committed datatype, as `datatype` takes it.
    fn datatype<'py>(&self, py: Python<'py>, offset: u64) -> PyResult<Bound<'py, PyBytes>> {
        let body = waited(py, || self.file.datatype(&*self.file.object(offset)?))?.raised()?;
        Ok(bytes(py, &body.bytes))
    }

    /// What a dataset is.
    fn dataset(&self, py: Python<'_>, offset: u64) -> PyResult<StoredDataset> {
        let dataset = waited(py, || self.file.dataset(&*self.file.object(offset)?))?.raised()?;
        Ok(StoredDataset::of(self.file.clone(), dataset))
    }

    /// The stored chunks of a dataset, by number in the grid.
    fn chunks<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
    ) -> PyResult<Bound<'py, PyArray1<ChunkRecord>>> {
        let table = waited(py, || {
            self.file
                .chunks(&self.file.dataset(&*self.file.object(offset)?)?)
        })?
        .raised()?;
        Ok(chunks::array(py, table))
    }

    /// What many objects are, with their scales, and the attributes of these names.
    fn survey(
        &self,
        py: Python<'_>,
        offsets: PyReadonlyArray1<'_, u64>,
        with_scales: bool,
        names: Vec<Vec<u8>>,
    ) -> PyResult<Survey> {
        Survey::of_file(py, &self.file, offsets.as_slice()?, with_scales, &names)
    }

    /// What a virtual dataset shows: an object of the global heap.
    fn mappings(&self, py: Python<'_>, heap: u64, index: u32) -> PyResult<Mappings> {
        Mappings::read(py, || self.file.mappings(heap, index))
    }

    /// An object of the global heap.
    fn global_object<'py>(
        &self,
        py: Python<'py>,
        heap: u64,
        index: u32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let block = waited(py, || self.file.global(heap, index))?.raised()?;
        Ok(bytes(py, &block.bytes))
    }

    /// What a reference to a region is to: the offset of a dataset, and the selection in it.
    fn region<'py>(
        &self,
        py: Python<'py>,
        heap: u64,
        index: u32,
    ) -> PyResult<(u64, Bound<'py, PyTuple>)> {
        let (offset, selected) = waited(py, || self.file.region(heap, index))?.raised()?;
        Ok((offset, selection(py, selected)?))
    }

    /// The elements that descriptors of sequences name, one after the other, and where those of each
    /// descriptor end, in bytes. `each`: bytes that are allowed for a descriptor, beyond the file's.
    #[allow(clippy::type_complexity)] // two arrays
    fn sequences<'py>(
        &self,
        py: Python<'py>,
        descriptors: &[u8],
        element_bytes: u64,
        each: u64,
    ) -> PyResult<(Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<u64>>)> {
        let found =
            waited(py, || self.file.variable(descriptors, element_bytes, each))?.raised()?;
        let bytes = PyArray1::from_vec(py, found.bytes);
        Ok((bytes, PyArray1::from_vec(py, found.ends)))
    }

    /// The strings that descriptors name, each up to its first NUL.
    fn strings<'py>(
        &self,
        py: Python<'py>,
        descriptors: &[u8],
        each: u64,
    ) -> PyResult<Bound<'py, PyList>> {
        let found = waited(py, || self.file.variable(descriptors, 1, each))?.raised()?;
        let mut begin = 0;
        let strings = found.ends.iter().map(|&end| {
            let text = &found.bytes[begin..end as usize];
            begin = end as usize;
            let len = text.iter().position(|&byte| byte == 0);
            bytes(py, &text[..len.unwrap_or(text.len())])
        });
        PyList::new(py, strings)
    }
}

impl MetadataFile {
    fn open(source: Box<dyn ByteSource>, checks_sums: bool) -> PyResult<MetadataFile> {
        Ok(MetadataFile {
            file: Arc::new(File::open(source, checks_sums).raised()?),
            lock: Mutex::default(),
            source: Source::Memory,
        })
    }
}
