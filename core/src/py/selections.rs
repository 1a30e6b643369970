//! Selections of elements, as Python takes them.
//!
//! Law: many selections become arrays, a single one a tuple.

use super::store::waited;
use crate::format::error::Result as FormatResult;
use crate::format::virtual_layout::{Mapping, Selection};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

pub type MappingArrays<'py> = (
    Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>,
    Bound<'py, PyArray1<u32>>,
    SelectionArrays<'py>,
    SelectionArrays<'py>,
);

pub type SelectionArrays<'py> = (
    Bound<'py, PyArray1<u8>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u64>>,
);

pub fn selection_arrays<'a, 'py>(
    py: Python<'py>,
    selections: impl Iterator<Item = &'a Selection>,
) -> SelectionArrays<'py> {
    let (mut kinds, mut ends, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for selection in selections {
        kinds.push(match selection {
            Selection::None => 0,
            Selection::All => 1,
            Selection::Points { .. } => 2,
            Selection::Regular(axes) => {
                numbers.extend_from_slice(axes.as_flattened());
                3
            }
            Selection::Blocks { bounds, .. } => {
                numbers.extend_from_slice(bounds);
                4
            }
        });
        ends.push(numbers.len() as u64);
    }
    (
        PyArray1::from_vec(py, kinds),
        PyArray1::from_vec(py, ends),
        PyArray1::from_vec(py, numbers),
    )
}

pub fn selection(py: Python<'_>, selection: Selection) -> PyResult<Bound<'_, PyTuple>> {
    match selection {
        Selection::None => ("none",).into_pyobject(py),
        Selection::All => ("all",).into_pyobject(py),
        Selection::Points { rank, coordinates } => ("points", rank, coordinates).into_pyobject(py),
        Selection::Regular(axes) => ("regular", axes.to_vec()).into_pyobject(py),
        Selection::Blocks { rank, bounds } => ("blocks", rank, bounds).into_pyobject(py),
    }
}

/// The mappings of a virtual dataset that are read; a name that many of them have is made once.
pub fn mapping_arrays(
    py: Python<'_>,
    read: impl Send + FnOnce() -> FormatResult<Vec<Mapping>>,
) -> PyResult<MappingArrays<'_>> {
    let (texts, names, numbers, mappings) = waited(py, || {
        let mappings = read()?;
        let (mut texts, mut names) = (Numbered::default(), Numbered::default());
        // Shared texts are compared by where they are: they may be long.
        let mut places = HashMap::new();
        let mut text = |text: &Arc<[u8]>| {
            let place = places.entry(text.as_ptr());
            *place.or_insert_with(|| texts.number(text.clone()))
        };
        let numbers = mappings
            .iter()
            .map(|mapping| names.number((text(&mapping.file), text(&mapping.dataset))))
            .collect::<Vec<u32>>();
        FormatResult::Ok((texts.list, names.list, numbers, mappings))
    })??;
    let texts: Vec<_> = texts.iter().map(|text| PyBytes::new(py, text)).collect();
    let text = |number: u32| texts[number as usize].clone();
    Ok((
        names.iter().map(|&(a, b)| (text(a), text(b))).collect(),
        PyArray1::from_vec(py, numbers),
        selection_arrays(py, mappings.iter().map(|mapping| &mapping.in_source)),
        selection_arrays(py, mappings.iter().map(|mapping| &mapping.in_virtual)),
    ))
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
