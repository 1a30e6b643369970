//! What a virtual dataset shows, as Python holds it.
//!
//! Law:
//! 1. Mappings never change. What is made of them is in `tables::mappings`.
//! 2. A name that many mappings have is made once.

use super::chunks::{self, ChunkRecord};
use super::format_error::Raised;
use super::store::waited;
use hdf5_format::error::Result as FormatResult;
use hdf5_format::virtual_layout::{Mapping, Selection};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use tables::mappings::Unfit;
use tables::mappings::chunks::{Source, as_chunks};
use tables::mappings::extent::{Name, grown, grows};
use tables::mappings::parts::{Pairs, as_parts};
use tables::mappings::selections::regular;

create_exception!(_multitables._core, UnfitError, PyException);

/// Of a source: its dims, its chunks, and whether one that is not stored is as one of the dataset.
type SourceValues<'py> = (Vec<u64>, PyReadonlyArray1<'py, ChunkRecord>, bool);
type Texts<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>;
type Shown<'py> = (
    Bound<'py, PyArray1<ChunkRecord>>,
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyTuple>,
);

type PartValues<'py> = (Bound<'py, PyArray1<u64>>, usize, Pairs);

/// The mappings of a virtual dataset.
#[pyclass(frozen, module = "_multitables._core")]
pub struct Mappings {
    list: Vec<Mapping>,
    texts: Vec<Arc<[u8]>>,
    /// File and dataset of each source, by the numbers of their texts.
    names: Vec<(u32, u32)>,
    /// The source of each mapping.
    numbers: Vec<u32>,
}

impl Mappings {
    fn new(list: Vec<Mapping>) -> Mappings {
        let (mut texts, mut names) = (Numbered::default(), Numbered::default());
        // Shared texts are compared by where they are: they may be long.
        let mut places = HashMap::new();
        let mut text = |text: &Arc<[u8]>| {
            let place = places.entry(text.as_ptr());
            *place.or_insert_with(|| texts.number(text.clone()))
        };
        let numbers = (list.iter())
            .map(|mapping| names.number((text(&mapping.file), text(&mapping.dataset))))
            .collect();
        let (texts, names) = (texts.list, names.list);
        Mappings {
            list,
            texts,
            names,
            numbers,
        }
    }

    pub fn read(
        py: Python<'_>,
        read: impl Send + FnOnce() -> FormatResult<Vec<Mapping>>,
    ) -> PyResult<Mappings> {
        waited(py, || read().map(Mappings::new))?.raised()
    }

    fn get(&self, number: usize) -> PyResult<&Mapping> {
        let none = || pyo3::exceptions::PyIndexError::new_err(number);
        self.list.get(number).ok_or_else(none)
    }
}

#[pymethods]
impl Mappings {
    /// File and path of each source.
    #[getter]
    fn names<'py>(&self, py: Python<'py>) -> Texts<'py> {
        let texts: Vec<_> = self
            .texts
            .iter()
            .map(|text| PyBytes::new(py, text))
            .collect();
        let text = |number: u32| texts[number as usize].clone();
        self.names
            .iter()
            .map(|&(a, b)| (text(a), text(b)))
            .collect()
    }

    /// The number of the source of each mapping.
    #[getter]
    fn sources(&self) -> Vec<u32> {
        self.numbers.clone()
    }

    /// Whether the dataset is as long as its sources are by now.
    #[getter]
    fn grow(&self) -> bool {
        grows(&self.list)
    }

    /// Blocks of all regular hyperslabs.
    #[getter]
    fn n_blocks(&self) -> u64 {
        let sides = self
            .list
            .iter()
            .flat_map(|one| [&one.in_source, &one.in_virtual]);
        let count = |selection: &Selection| match selection {
            Selection::Regular(axes) => axes
                .iter()
                .fold(1, |n: u64, axis| n.saturating_mul(axis[2])),
            _ => 0,
        };
        sides.map(count).fold(0, u64::saturating_add)
    }

    /// Start, stride, count and block along each axis of what a mapping shows, in a dataset of these
    /// dims. None: it is no grid of blocks.
    fn shown(&self, number: usize, dims: Vec<u64>) -> PyResult<Option<Vec<[u64; 4]>>> {
        Ok(grid(&self.get(number)?.in_virtual, &dims))
    }

    /// The same of a source of this many axes.
    fn in_source(&self, number: usize, rank: usize) -> PyResult<Option<Vec<[u64; 4]>>> {
        Ok(grid(&self.get(number)?.in_source, &vec![0; rank]))
    }

    /// Whether a mapping says which elements of its source are shown: else they are all.
    fn says_which(&self, number: usize) -> PyResult<bool> {
        let selection = &self.get(number)?.in_source;
        Ok(matches!(
            selection,
            Selection::Regular(_) | Selection::Blocks { .. }
        ))
    }

    /// The chunks of a virtual dataset of these dims, the source of each and their extents, of sources
    /// in chunks of these extents; a source that is missing is None. None: mappings do not fit chunks.
    fn as_chunks<'py>(
        &self,
        py: Python<'py>,
        dims: Vec<u64>,
        source_chunk: Vec<u64>,
        sources: Vec<Option<SourceValues<'py>>>,
    ) -> PyResult<Option<Shown<'py>>> {
        let known = sources.iter().map(|source| {
            let Some((dims, chunks, fills_alike)) = source else {
                return Ok(None);
            };
            let (dims, fills_alike) = (dims.clone(), *fills_alike);
            Ok(Some(Source {
                dims,
                chunks: chunks::plain(chunks.as_slice()?),
                fills_alike,
            }))
        });
        let known = known.collect::<PyResult<Vec<_>>>()?;
        let shown = || as_chunks(&dims, &self.list, &self.numbers, &known, &source_chunk);
        let Some((chunks, of, extents)) = waited(py, shown)? else {
            return Ok(None);
        };
        let (chunks, of) = (chunks::array(py, chunks), PyArray1::from_vec(py, of));
        Ok(Some((chunks, of, PyTuple::new(py, extents)?)))
    }

    /// The words of the parts of a virtual dataset of these dims, the first source that is shown, and
    /// which axes of both belong together; `sources` has their dims. None: nothing is shown.
    fn as_parts<'py>(
        &self,
        py: Python<'py>,
        dims: Vec<u64>,
        sources: Vec<Option<Vec<u64>>>,
    ) -> PyResult<Option<PartValues<'py>>> {
        let found = waited(py, || as_parts(&dims, &self.list, &self.numbers, &sources))?;
        let found = found.map_err(|unfit| match unfit {
            Unfit::Because(why) => UnfitError::new_err(why),
            Unfit::Failed(never) => match never {},
        })?;
        Ok(found.map(|found| {
            (
                PyArray1::from_vec(py, found.words),
                found.source,
                found.pairs,
            )
        }))
    }

    /// The mappings with their ends, and the dims of the dataset; `dims_of` says those of a source.
    fn grown<'py>(
        &self,
        py: Python<'py>,
        dims: Vec<u64>,
        dims_of: Bound<'py, PyAny>,
    ) -> PyResult<(Mappings, Bound<'py, PyTuple>)> {
        let mut extent = |(file, dataset): &Name| {
            let name = (PyBytes::new(py, file), PyBytes::new(py, dataset));
            dims_of.call1((name,))?.extract::<Option<Vec<u64>>>()
        };
        let (list, dims) = grown(&self.list, &dims, &mut extent).map_err(|unfit| match unfit {
            Unfit::Because(why) => UnfitError::new_err(why),
            Unfit::Failed(error) => error,
        })?;
        Ok((Mappings::new(list), PyTuple::new(py, dims)?))
    }
}

fn grid(selection: &Selection, dims: &[u64]) -> Option<Vec<[u64; 4]>> {
    let axes = regular(selection, dims)?;
    let each = axes.iter();
    Some(
        each.map(|of| [of.start, of.stride, of.count, of.block])
            .collect(),
    )
}

/// Things in the order of their first appearance, each once.
struct Numbered<T> {
    list: Vec<T>,
    known: HashMap<T, u32>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        let (list, known) = (Vec::new(), HashMap::new());
        Numbered { list, known }
    }
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    fn number(&mut self, one: T) -> u32 {
        let list = &mut self.list;
        *self.known.entry(one).or_insert_with_key(|one| {
            list.push(one.clone());
            list.len() as u32 - 1
        })
    }
}
