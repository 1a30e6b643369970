//! An element type, as Python sees it.
//!
//! Law:
//! 1. Never changes, and says all that the message says, whether a program can use it or not.
//! 2. A kind has what belongs to it; what does not is zero or empty.
//! 3. Types made of one, as PyTables or a reader of some fields sees it, are types as well.

use super::format_error::Raised;
use hdf5_format::cursor::{Block, Cursor, Sizes};
use hdf5_format::datatype::{self, Bits, ByteOrder, FloatFields, Kind, Text};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use std::sync::Arc;

/// Where the sign, the exponent and the mantissa of a float are, the latter two with their bits; the
/// bias of the exponent, and how the mantissa is normalized.
type FloatFormat = (u8, (u8, u8), (u8, u8), u32, u8);
/// Bytes of a PyTables' Time64, and padding of strings with NULs.
const TIME64_BYTES: u32 = 8;
const NULLPAD: u8 = 1;
/// Kinds whose elements have no fixed size.
const NOT_FIXED: [&str; 3] = ["variable_string", "sequence", "reference"];

/// What a datatype message says: its kind, size, and what belongs to the kind.
#[pyclass(frozen, eq, hash, module = "_multitables._core")]
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Datatype {
    #[pyo3(get)]
    kind: &'static str,
    /// Bytes of one element.
    #[pyo3(get)]
    size: u32,
    /// "<", ">" or "vax".
    #[pyo3(get)]
    order: &'static str,
    /// The first bit that counts, and how many do.
    #[pyo3(get)]
    bits: (u16, u16),
    #[pyo3(get)]
    signed: bool,
    #[pyo3(get)]
    float_format: FloatFormat,
    /// Of strings, as the message has them.
    #[pyo3(get)]
    padding: u8,
    #[pyo3(get)]
    charset: u8,
    #[pyo3(get)]
    tag: Vec<u8>,
    /// The number of a reference's kind.
    #[pyo3(get)]
    reference: u8,
    dims: Vec<u32>,
    base: Option<Arc<Datatype>>,
    /// Name, offset and type of each field of a compound.
    fields: Arc<[(Vec<u8>, u32, Datatype)]>,
    /// Names of an enum, and values as they are stored.
    values: Arc<[(Vec<u8>, Vec<u8>)]>,
}

/// Read a datatype message.
#[pyfunction(name = "datatype")]
pub fn datatype_of(body: Vec<u8>) -> PyResult<Datatype> {
    let block = Block {
        bytes: body,
        address: 0,
    };
    // Which file it is of is not known.
    let sizes = Sizes {
        address: 0,
        length: 8,
        checks_sums: true,
    };
    let stored = datatype::datatype(&mut Cursor::new(&block, sizes)).raised()?;
    Ok(Datatype::from(stored))
}

impl From<datatype::Datatype> for Datatype {
    fn from(stored: datatype::Datatype) -> Datatype {
        let mut made = Datatype {
            size: stored.size,
            ..Datatype::default()
        };
        made.kind = match stored.kind {
            Kind::Integer {
                order,
                bits,
                signed,
                ..
            } => {
                made.set_bits(order, bits);
                made.signed = signed;
                "integer"
            }
            Kind::Float {
                order,
                bits,
                fields,
            } => {
                made.set_bits(order, bits);
                made.float_format = float_format(&fields);
                "float"
            }
            Kind::Time { order, precision } => {
                let offset = 0;
                made.set_bits(order, Bits { offset, precision });
                "time"
            }
            Kind::String(text) => {
                made.set_text(text);
                "string"
            }
            Kind::Bitfield { order, bits, .. } => {
                made.set_bits(order, bits);
                "bitfield"
            }
            Kind::Opaque { tag } => {
                made.tag = tag;
                "opaque"
            }
            Kind::Compound(fields) => {
                let fields = fields.into_iter();
                made.fields = fields
                    .map(|field| (field.name, field.offset, Datatype::from(field.datatype)))
                    .collect();
                "compound"
            }
            Kind::Reference(kind) => {
                made.reference = kind;
                "reference"
            }
            Kind::Enum { base, values } => {
                made.set_base(*base);
                made.values = values.into();
                "enum"
            }
            Kind::Sequence(base) => {
                made.set_base(*base);
                "sequence"
            }
            Kind::VariableString(text) => {
                made.set_text(text);
                "variable_string"
            }
            Kind::Array { dims, base } => {
                made.set_base(*base);
                made.dims = dims;
                "array"
            }
            Kind::Complex(base) => {
                made.set_base(*base);
                "complex"
            }
        };
        made
    }
}

impl Datatype {
    fn set_bits(&mut self, order: ByteOrder, bits: Bits) {
        self.bits = (bits.offset, bits.precision);
        self.order = match order {
            ByteOrder::Little => "<",
            ByteOrder::Big => ">",
            ByteOrder::Vax => "vax",
        };
    }

    fn set_text(&mut self, text: Text) {
        (self.padding, self.charset) = (text.padding, text.charset);
    }

    fn set_base(&mut self, base: datatype::Datatype) {
        self.base = Some(Arc::new(Datatype::from(base)));
    }

    fn any(&self, is_so: &impl Fn(&Datatype) -> bool) -> bool {
        let mut fields = self.fields.iter().map(|(_, _, field)| field);
        is_so(self) || fields.any(|one| one.any(is_so)) || self.part().any(|one| one.any(is_so))
    }

    fn part(&self) -> impl Iterator<Item = &Datatype> {
        self.base.as_deref().into_iter()
    }
}

#[pymethods]
impl Datatype {
    /// A compound of this many bytes, of fields by their names and offsets.
    #[staticmethod]
    fn compound(
        size: u32,
        fields: Vec<(Bound<'_, PyString>, u32, Bound<'_, Datatype>)>,
    ) -> PyResult<Datatype> {
        let fields = fields.into_iter().map(|(name, offset, field)| {
            let name = name.call_method1("encode", ("utf-8", "surrogateescape"))?;
            Ok((name.extract()?, offset, field.get().clone()))
        });
        Ok(Datatype {
            kind: "compound",
            size,
            fields: fields.collect::<PyResult<_>>()?,
            ..Datatype::default()
        })
    }

    #[getter]
    fn dims<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.dims)
    }

    /// The type of the parts of an array, a sequence, an enum or a complex number.
    #[getter]
    fn base(&self) -> PyResult<Datatype> {
        let base = self.part().next().cloned();
        base.ok_or_else(|| PyAttributeError::new_err(format!("a {} has no base", self.kind)))
    }

    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyString>, u32, Datatype)>> {
        let fields = self.fields.iter();
        fields
            .map(|(name, offset, field)| Ok((text(py, name)?, *offset, field.clone())))
            .collect()
    }

    #[getter]
    fn values<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Vec<(Bound<'py, PyString>, Bound<'py, PyBytes>)>> {
        let values = self.values.iter();
        values
            .map(|(name, value)| Ok((text(py, name)?, PyBytes::new(py, value))))
            .collect()
    }

    /// Whether it, or a type in it, is of one of these kinds.
    #[pyo3(signature = (*kinds))]
    fn has(&self, kinds: Vec<String>) -> bool {
        self.any(&|one| kinds.iter().any(|kind| kind == one.kind))
    }

    /// The type of a dataset that PyTables wrote, whose truth values and times are of kinds of their
    /// own. With `strings`, strings are delivered with all their bytes, as PyTables delivers them.
    #[pyo3(signature = (*, strings=true))]
    fn as_pytables(&self, strings: bool) -> Datatype {
        let mut made = self.clone();
        match (self.kind, self.size) {
            ("bitfield", 1) => made.kind = "truth",
            ("time", TIME64_BYTES) => made.kind = "time64",
            ("string", _) if strings => made.padding = NULLPAD,
            _ => {
                made.base = self
                    .part()
                    .next()
                    .map(|base| Arc::new(base.as_pytables(strings)));
                let fields = self.fields.iter();
                made.fields = fields
                    .map(|(name, at, field)| (name.clone(), *at, field.as_pytables(strings)))
                    .collect();
            }
        }
        made
    }

    /// The type without the fields of compounds that have no fixed size, others in place; None:
    /// nothing is left.
    fn fixed(&self) -> Option<Datatype> {
        let mut made = self.clone();
        match self.kind {
            "array" => made.base = Some(Arc::new(self.base.as_deref()?.fixed()?)),
            "compound" => {
                let fields = self.fields.iter();
                made.fields = fields
                    .filter_map(|(name, at, field)| Some((name.clone(), *at, field.fixed()?)))
                    .collect();
            }
            _ => {}
        }
        let is_left = self.kind != "compound" || !made.fields.is_empty();
        (is_left && !NOT_FIXED.contains(&self.kind)).then_some(made)
    }
}

fn float_format(fields: &FloatFields) -> FloatFormat {
    let exponent = (fields.exponent_at, fields.exponent_bits);
    let mantissa = (fields.mantissa_at, fields.mantissa_bits);
    let (bias, normalization) = (fields.exponent_bias, fields.normalization);
    (fields.sign_at, exponent, mantissa, bias, normalization)
}

/// A name as text, of which bytes that are not UTF-8 become surrogates.
fn text<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyString>> {
    let bytes = PyBytes::new(py, name);
    PyString::from_encoded_object(&bytes, Some(c"utf-8"), Some(c"surrogateescape"))
}
