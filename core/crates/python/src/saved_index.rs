//! A saved index, as Python asks it.
//!
//! Law:
//! 1. It answers as `MetadataFile` does, or with None: then the file answers.
//! 2. A `DamagedIndexError` says what is wrong with it.

use super::chunks::{self, ChunkRecord};
use super::descriptor::Descriptor;
use super::format_error::Raised;
use super::links::{attribute_list, found_tuple, link_list};
use super::metadata::KINDS;
use super::stored::StoredDataset;
use super::survey::Survey;
use engine::fetch::local_file::LocalFile;
use hdf5_format::saved_columns::{self, COLUMNS, Number, Sum};
use hdf5_format::saved_index::{self, Followed, SavedFile};
use libdeflater::Crc;
use numpy::{PyArray1, PyArray2, PyReadonlyArray1};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::sync::Arc;

/// Names of files, each with a NUL, where each ends, their states, and ETags.
type Files<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray2<u64>>,
    Vec<String>,
);

/// The sum of what is saved.
struct Crc32(Crc);

impl Sum for Crc32 {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn sum(&self) -> u32 {
        self.0.sum()
    }
}

/// (name, bytes of an entry, the number of the head's field that says how many there are) of each column.
pub fn columns(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    let columns = COLUMNS.iter();
    PyTuple::new(
        py,
        columns.map(|(name, width, of)| (*name, *width, *of as usize)),
    )
}

/// What is saved of a file, or of the files of a manifest. Any thread may use it.
#[pyclass(frozen, module = "_multitables._core")]
pub struct SavedIndex {
    of: SavedFile,
    index: Arc<saved_index::SavedIndex>,
    /// None: the manifest that a file is of keeps it open.
    source: Option<Arc<LocalFile>>,
}

#[pymethods]
impl SavedIndex {
    /// Read the index of a file of this size, time of change and inode; or a manifest. None: it is of
    /// another version, or of another state of the file. The descriptor is taken over.
    #[staticmethod]
    #[pyo3(signature = (file, state=None))]
    fn read(
        py: Python<'_>,
        file: &Descriptor,
        state: Option<(u64, u64, u64)>,
    ) -> PyResult<Option<SavedIndex>> {
        let fd = file.taken()?;
        py.detach(|| {
            let source = Arc::new(LocalFile::owning(fd)?);
            let version = match state {
                Some(_) => saved_columns::VERSION,
                None => saved_columns::MANIFEST,
            };
            let numbers = [Number::SizeBytes, Number::MtimeNs, Number::Inode];
            let index = saved_index::SavedIndex::open(
                Box::new(source.clone()),
                version,
                Some(|| Box::new(Crc32(Crc::new()))),
                |head| state.is_none_or(|(a, b, c)| numbers.map(|of| head.get(of)) == [a, b, c]),
            );
            let index = index.raised()?;
            Ok(index.map(|index| SavedIndex {
                of: index.whole(),
                index,
                source: Some(source),
            }))
        })
    }

    /// One file of a manifest; what both have is there once.
    fn of_file(&self, number: usize) -> PyResult<SavedIndex> {
        let of = self.index.file(number);
        Ok(SavedIndex {
            of: of.ok_or_else(|| PyIndexError::new_err(number))?,
            index: self.index.clone(),
            source: None,
        })
    }

    /// Close the file. May be called again; what was not read yet cannot be read then.
    fn close(&self) {
        if let Some(source) = &self.source {
            source.close();
        }
    }

    /// Where the root group's header is.
    #[getter]
    fn root(&self) -> u64 {
        self.of.root
    }

    fn kind(&self, offset: u64) -> Option<&'static str> {
        self.of.kind(offset).map(|kind| KINDS[usize::from(kind)])
    }

    /// Where a path leads; or ("unsaved", path, offset): that path leads on from an object of the file.
    fn find<'py>(&self, py: Python<'py>, path: &[u8], start: u64) -> PyResult<Bound<'py, PyTuple>> {
        match py.detach(|| self.of.find(start, path)).raised()? {
            Followed::Found(found) => found_tuple(py, found),
            Followed::Unsaved { offset, path } => {
                ("unsaved", PyBytes::new(py, &path), offset).into_pyobject(py)
            }
        }
    }

    /// Where a path leads from each of some groups, as `MetadataFile.find_from` returns it.
    fn find_from<'py>(
        &self,
        py: Python<'py>,
        offsets: PyReadonlyArray1<'_, u64>,
        path: &[u8],
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let offsets = offsets.as_slice()?;
        let found = py.detach(|| self.of.find_from(offsets, path)).raised()?;
        Ok(PyArray1::from_vec(py, found))
    }

    fn links<'py>(&self, py: Python<'py>, offset: u64) -> PyResult<Option<Bound<'py, PyList>>> {
        let links = py.detach(|| self.of.links(offset)).raised()?;
        links.map(|links| link_list(py, links)).transpose()
    }

    /// A list with the link of this name, or an empty one: the group has no such link.
    fn link<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        name: &[u8],
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let link = py.detach(|| self.of.link(offset, name)).raised()?;
        link.map(|link| link_list(py, link.into_iter().collect()))
            .transpose()
    }

    /// The names of a group's links, each with a NUL, and the targets of hard ones; other links have -1.
    fn names<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
    ) -> Option<(Bound<'py, PyBytes>, Bound<'py, PyArray1<i64>>)> {
        let (names, targets) = self.of.names(offset)?;
        Some((PyBytes::new(py, names), PyArray1::from_vec(py, targets)))
    }

    fn attributes<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let found = py.detach(|| self.of.attributes(offset)).raised()?;
        found.map(|found| attribute_list(py, found)).transpose()
    }

    fn datatype<'py>(&self, py: Python<'py>, offset: u64) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let message = py.detach(|| self.of.datatype(offset)).raised()?;
        Ok(message.map(|message| PyBytes::new(py, &message)))
    }

    fn dataset(&self, py: Python<'_>, offset: u64) -> PyResult<Option<StoredDataset>> {
        let dataset = py.detach(|| self.of.dataset(offset)).raised()?;
        Ok(dataset.map(|(dataset, byte_offset)| StoredDataset::placed(dataset, byte_offset)))
    }

    fn chunks<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
    ) -> PyResult<Option<Bound<'py, PyArray1<ChunkRecord>>>> {
        let table = py.detach(|| self.of.chunks(offset)).raised()?;
        Ok(table.map(|table| chunks::array(py, table)))
    }

    /// What the objects at these offsets are, without attributes, and which of them are saved.
    fn survey<'py>(
        &self,
        py: Python<'py>,
        offsets: PyReadonlyArray1<'_, u64>,
        with_scales: bool,
    ) -> PyResult<(Survey, Bound<'py, PyArray1<bool>>)> {
        let offsets = offsets.as_slice()?;
        let found = py
            .detach(|| self.of.survey(offsets, with_scales))
            .raised()?;
        Ok((found.0.into(), PyArray1::from_vec(py, found.1)))
    }

    /// What identifies the files of a manifest. No ETags: none is an object of a store.
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Files<'py>> {
        let files = py.detach(|| self.index.files()).raised()?;
        let states = PyArray1::from_vec(py, files.states.into_flattened());
        Ok((
            PyBytes::new(py, files.names),
            PyArray1::from_slice(py, files.name_ends),
            numpy::PyArrayMethods::reshape(&states, [files.name_ends.len(), 4])?,
            files.etags,
        ))
    }

    /// The number of the object of a path in each file of a manifest. None: each has to be searched.
    fn alike<'py>(&self, py: Python<'py>, path: &[u8]) -> Option<Bound<'py, PyArray1<usize>>> {
        let rows = py.detach(|| self.index.alike(path))?;
        Some(PyArray1::from_vec(py, rows))
    }

    /// Whether a group has the same names in each file of a manifest, all of hard links.
    fn is_alike(&self, py: Python<'_>, path: &[u8]) -> bool {
        py.detach(|| self.index.is_alike(path))
    }

    /// What objects of these numbers are, without attributes: one of each file, then the next of each.
    fn survey_alike(
        &self,
        py: Python<'_>,
        rows: Vec<PyReadonlyArray1<'_, usize>>,
        with_scales: bool,
    ) -> PyResult<Survey> {
        let rows = rows.iter().map(|rows| Ok(rows.as_slice()?));
        let rows: Vec<&[usize]> = rows.collect::<PyResult<_>>()?;
        let n_files = rows.iter().map(|rows| rows.len()).min().unwrap_or(0);
        let of_file = |file: usize| rows.iter().map(move |rows| (rows[file], file as u32));
        let mut objects = (0..n_files).flat_map(of_file);
        let found = py.detach(|| self.index.survey(&mut objects, with_scales));
        found.raised().map(Survey::from)
    }
}
