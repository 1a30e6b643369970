//! Links and attributes of a file, as values of Python.
//!
//! Law: names and elements are bytes; parts of a path are text.

use hdf5_format::attribute::Attribute;
use hdf5_format::file::Found;
use hdf5_format::link::{Link, Target};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

pub fn bytes<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, bytes)
}

/// Where a path leads, as `find` returns it.
pub fn found_tuple(py: Python<'_>, found: Found) -> PyResult<Bound<'_, PyTuple>> {
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

/// A tuple of names for each group. Many groups have links of the same names: these share one.
pub fn names_of_each(py: Python<'_>, groups: Vec<Vec<Link>>) -> PyResult<Bound<'_, PyList>> {
    let mut known = HashMap::new();
    let made = PyList::empty(py);
    for links in groups {
        let names: Vec<_> = links.into_iter().map(|link| link.name).collect();
        let tuple = match known.entry(names) {
            Entry::Occupied(tuple) => tuple.into_mut(),
            Entry::Vacant(place) => {
                let names = place.key().iter().map(|name| path_text(py, name));
                let names = names.collect::<PyResult<Vec<_>>>()?;
                place.insert(PyTuple::new(py, names)?)
            }
        };
        made.append(&*tuple)?;
    }
    Ok(made)
}

/// A name as a part of a path: bytes that are not UTF-8 are escaped as `os.fsdecode` does.
fn path_text<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match std::str::from_utf8(name) {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(_) => {
            let errors = Some(c"surrogateescape");
            PyString::from_encoded_object(&bytes(py, name), Some(c"utf-8"), errors)
        }
    }
}

pub fn link_list(py: Python<'_>, links: Vec<Link>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for link in links {
        list.append(link_tuple(py, link)?)?;
    }
    Ok(list)
}

pub fn attribute_list(
    py: Python<'_>,
    attributes: Vec<(Option<u32>, Attribute)>,
) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for (order, attribute) in attributes {
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

pub fn link_tuple(py: Python<'_>, link: Link) -> PyResult<Bound<'_, PyTuple>> {
    let (name, order) = (bytes(py, &link.name), link.creation_order);
    match link.target {
        Target::Hard(offset) => (name, order, "hard", offset).into_pyobject(py),
        Target::Soft(path) => (name, order, "soft", bytes(py, &path)).into_pyobject(py),
        Target::External { file, path } => {
            let (file, path) = (bytes(py, &file), bytes(py, &path));
            (name, order, "external", file, path).into_pyobject(py)
        }
        Target::UserDefined(kind) => (name, order, "user_defined", kind).into_pyobject(py),
    }
}
