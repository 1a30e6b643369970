//! Python's view of a survey: a value that says what its objects are, and makes their table.
//!
//! Law:
//! 1. Never changes. Python finds the NumPy types of kinds, and says which of them readers decode.

use super::chunks::{self, ChunkRecord};
use super::store::waited_by_all;
use super::stored::filter_values;
use super::table::{KindValues, Source, Table};
use hdf5_format::file::File;
use hdf5_format::joined_survey::{Begin, Part};
use hdf5_format::many::Interruption;
use hdf5_format::survey::Survey as Stored;
use hdf5_format::survey::{ALONE, Kind, NO_DATASET, Storage};
use numpy::{PyArray1, PyArray2, PyReadonlyArray1};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use tables::source::SourceValues;
use tables::survey_table::{Laid, table_of};

const LAYOUTS: [(&str, Storage); 3] = [
    ("compact", Storage::Compact),
    ("contiguous", Storage::Contiguous),
    ("chunked", Storage::Chunked),
];
/// Stands for the place of the first chunk of objects without chunks: behind all others.
const FAR: u64 = 1 << 63;

/// What datasets have in common.
#[pyclass(frozen, eq, hash, module = "_multitables._core")]
#[derive(PartialEq, Eq, Hash)]
pub struct StoredKind(Kind);

#[pymethods]
impl StoredKind {
    #[getter]
    fn layout(&self) -> &'static str {
        let known = LAYOUTS.iter().find(|(_, one)| *one == self.0.storage);
        known.map_or("", |(name, _)| name)
    }

    /// The datatype message.
    #[getter]
    fn datatype<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.datatype)
    }

    #[getter]
    fn element_bytes(&self) -> u32 {
        self.0.element_bytes
    }

    #[getter]
    fn filters<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let filters = self.0.filters.iter();
        filters.map(|filter| filter_values(py, filter)).collect()
    }

    /// One element, or no bytes: zeros.
    #[getter]
    fn fill_value<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.fill.shown())
    }

    /// The value of the attribute CLASS, if it is a string.
    #[getter]
    fn class_name<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.class)
    }
}

type Longs<'py> = Bound<'py, PyArray1<i64>>;
/// A survey, the numbers of its files and those of its objects.
type Joining<'py> = (PyRef<'py, Survey>, Vec<u32>, PyReadonlyArray1<'py, i64>);
/// Dims, dims of chunks, chunks, and stored elements of a compact dataset.
type One<'py> = (
    Bound<'py, PyTuple>,
    Bound<'py, PyTuple>,
    Bound<'py, PyArray1<ChunkRecord>>,
    Bound<'py, PyBytes>,
);

/// What many objects are: by their numbers, in one table.
#[pyclass(frozen, module = "_multitables._core")]
pub struct Survey {
    of: Stored,
    begins: Vec<Begin>,
}

impl From<Stored> for Survey {
    fn from(of: Stored) -> Survey {
        let begins = of.begins();
        Survey { of, begins }
    }
}

impl Survey {
    /// What the objects of a file are.
    pub fn of_file(
        py: Python<'_>,
        file: &File,
        offsets: &[u64],
        with_scales: bool,
        names: &[Vec<u8>],
    ) -> PyResult<Survey> {
        let survey =
            |until: &dyn Interruption| file.survey(offsets, with_scales, names, until).into();
        waited_by_all(py, survey)
    }

    fn check(&self, object: usize) -> PyResult<()> {
        let is_there = object < self.of.len();
        is_there
            .then_some(())
            .ok_or_else(|| PyIndexError::new_err(object))
    }
}

#[pymethods]
impl Survey {
    /// Objects that are alone, or no datasets.
    #[staticmethod]
    fn alone(offsets: Vec<u64>, are_datasets: Vec<bool>) -> PyResult<Survey> {
        if offsets.len() != are_datasets.len() {
            return Err(PyValueError::new_err("columns differ in length"));
        }
        let kinds = are_datasets.iter();
        let kinds = kinds.map(|&is_one| if is_one { ALONE } else { NO_DATASET });
        Ok(Stored::alone(offsets, kinds.collect()).into())
    }

    /// One survey of the objects of several.
    #[staticmethod]
    fn joined(parts: Vec<Joining<'_>>) -> PyResult<Survey> {
        let numbers = parts.iter().map(|(_, _, numbers)| {
            let numbers = numbers.as_array();
            numbers.iter().map(|&number| number as usize).collect()
        });
        let numbers: Vec<Vec<usize>> = numbers.collect();
        let parts = parts.iter().zip(&numbers);
        let parts: Vec<Part> = parts
            .map(|((survey, files, _), numbers)| Part {
                survey: &survey.of,
                files,
                numbers,
            })
            .collect();
        let whole = Stored::joined(&parts);
        let wrong = || PyValueError::new_err("the numbers of parts are not those of a whole");
        whole.map(Survey::from).ok_or_else(wrong)
    }

    /// The same, where datasets of some kinds are alone.
    fn without(&self, kinds: Vec<u32>) -> Survey {
        self.of.without(&kinds).into()
    }

    fn __len__(&self) -> usize {
        self.of.len()
    }

    #[getter]
    fn kinds(&self) -> Vec<StoredKind> {
        self.of.kinds.iter().cloned().map(StoredKind).collect()
    }

    /// The kind of each object, or `SURVEY_ALONE`, or `SURVEY_NO_DATASET`.
    #[getter]
    fn kind<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        PyArray1::from_slice(py, &self.of.kind)
    }

    /// The number of each object's file.
    #[getter]
    fn file<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        PyArray1::from_slice(py, &self.of.file)
    }

    /// How many axes and chunks each object has; of all, one behind the other, dims, dims of chunks (0
    /// of datasets without chunks) and chunks.
    #[getter]
    fn ranks<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        PyArray1::from_slice(py, &self.of.ranks)
    }

    #[getter]
    fn n_chunks<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        PyArray1::from_slice(py, &self.of.n_chunks)
    }

    #[getter]
    fn dims<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        PyArray1::from_slice(py, &self.of.dims)
    }

    #[getter]
    fn chunk_dims<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        PyArray1::from_slice(py, &self.of.chunk_dims)
    }

    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<ChunkRecord>> {
        chunks::array(py, self.of.chunks.clone())
    }

    /// Where the header of each object is in its file.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        PyArray1::from_slice(py, &self.of.offset)
    }

    /// Where the first chunk of each object lies in its file; far away if it has none.
    #[getter]
    fn first_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        let first = self
            .begins
            .windows(2)
            .map(|at| match at[0].chunks < at[1].chunks {
                true => self.of.chunks[at[0].chunks].byte_offset,
                false => FAR,
            });
        PyArray1::from_iter(py, first)
    }

    /// Object, axis and offset of the header of each scale.
    #[getter]
    fn scales<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<u64>>> {
        let scales = self.of.scales.iter();
        let scales = scales.map(|scale| vec![scale.object, scale.axis, scale.offset]);
        rows(py, &scales.collect::<Vec<_>>())
    }

    /// Object, axis and the object that is the scale, by object.
    #[getter]
    fn numbered_scales<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<i64>>> {
        let scales = self.of.numbered_scales();
        rows(
            py,
            &scales
                .iter()
                .map(|scale| scale.to_vec())
                .collect::<Vec<_>>(),
        )
    }

    /// The offsets of scales that are not among the objects, of each of some files.
    fn new_scales<'py>(&self, py: Python<'py>, n_files: u32) -> Vec<Bound<'py, PyArray1<u64>>> {
        let scales = self.of.new_scales();
        let of_file = |file| scales.range((file, 0)..=(file, u64::MAX));
        (0..n_files)
            .map(|file| PyArray1::from_iter(py, of_file(file).map(|&(_, offset)| offset)))
            .collect()
    }

    /// Object, name, datatype, dims (None: null) and elements of each attribute.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let attributes = PyList::empty(py);
        for (object, name, datatype, dims, elements) in &self.of.attributes {
            let dims = dims.as_ref().map(|dims| PyTuple::new(py, dims));
            let (name, datatype) = (PyBytes::new(py, name), PyBytes::new(py, datatype));
            let elements = PyBytes::new(py, elements);
            attributes.append((object, name, datatype, dims.transpose()?, elements))?;
        }
        Ok(attributes)
    }

    /// The dims of one object.
    fn dims_of<'py>(&self, py: Python<'py>, object: usize) -> PyResult<Bound<'py, PyTuple>> {
        self.check(object)?;
        let axes = self.begins[object].dims..self.begins[object + 1].dims;
        PyTuple::new(py, &self.of.dims[axes])
    }

    /// What one dataset is.
    fn one<'py>(&self, py: Python<'py>, object: usize) -> PyResult<One<'py>> {
        self.check(object)?;
        let of = &self.of;
        let (begin, end) = (self.begins[object], self.begins[object + 1]);
        let mut chunks = of.chunks[begin.chunks..end.chunks].to_vec();
        let mut elements = &[][..];
        let kind = of.kind_of(object);
        if let ([chunk], Some(Storage::Compact)) = (&mut chunks[..], kind.map(|kind| kind.storage))
        {
            elements = of.elements(chunk);
            chunk.byte_offset = 0;
        }
        let axes = begin.dims..end.dims;
        Ok((
            PyTuple::new(py, &of.dims[axes.clone()])?,
            PyTuple::new(py, &of.chunk_dims[axes])?,
            chunks::array(py, chunks),
            PyBytes::new(py, elements),
        ))
    }

    /// Whether all objects are datasets of one kind with rows of one shape, and not compact.
    #[getter]
    fn is_alike(&self) -> bool {
        self.of.is_alike()
    }

    /// Whether the chunks of each dataset are sorted, and in its grid: of rows of dims `inner`, in
    /// chunks of `extents`.
    fn are_in_grids(&self, inner: Vec<u64>, extents: Vec<u64>) -> bool {
        self.of.are_in_grids(&inner, &extents)
    }

    /// Of each object its number in the table, or -1; of each dataset of the table its object, rows,
    /// bytes, and the number of its first chunk.
    fn laid_out<'py>(&self, py: Python<'py>) -> [Longs<'py>; 5] {
        let laid = Laid::of(&self.of);
        let columns = [
            laid.number,
            laid.objects,
            laid.n_rows,
            laid.n_bytes,
            laid.chunks_at,
        ];
        columns.map(|column| PyArray1::from_vec(py, column))
    }

    /// The table of the datasets that have elements, and are not alone. What has no chunks is read in
    /// pieces of `piece_bytes`.
    fn table(
        &self,
        files: Vec<Source>,
        kinds: Vec<KindValues>,
        piece_bytes: u64,
    ) -> PyResult<Table> {
        let kinds: Vec<_> = kinds.into_iter().map(KindValues::kind).collect();
        let files: Vec<SourceValues> = files.iter().map(Source::values).collect();
        let builder = table_of(&self.of, &kinds, &files, piece_bytes);
        let wrong = || PyValueError::new_err("there are too few files or kinds");
        builder.map(Table::of).ok_or_else(wrong)
    }
}

/// Rows of three numbers.
fn rows<'py, T: numpy::Element>(
    py: Python<'py>,
    rows: &[Vec<T>],
) -> PyResult<Bound<'py, PyArray2<T>>> {
    match rows {
        [] => Ok(PyArray2::zeros(py, [0, 3], false)),
        _ => Ok(PyArray2::from_vec2(py, rows)?),
    }
}
