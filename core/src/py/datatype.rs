//! Python's view of an element type: a dict.
//!
//! Law: tells all that the message says, whether a program can use it or not.

use super::metadata::bytes;
use crate::format::cursor::{Block, Cursor, Sizes};
use crate::format::datatype::{self, Bits, ByteOrder, Datatype, FloatFields, Kind, Text};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// What a datatype message says: its kind, size, and what belongs to the kind.
#[pyfunction(name = "datatype")]
pub fn describe_datatype<'py>(py: Python<'py>, body: Vec<u8>) -> PyResult<Bound<'py, PyDict>> {
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
    let datatype = datatype::datatype(&mut Cursor::new(&block, sizes))?;
    described(py, &datatype)
}

fn described<'py>(py: Python<'py>, datatype: &Datatype) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("size", datatype.size)?;
    dict.set_item("kind", set_kind(&dict, &datatype.kind)?)?;
    Ok(dict)
}

/// Set what belongs to a kind, and return its name.
fn set_kind(dict: &Bound<'_, PyDict>, kind: &Kind) -> PyResult<&'static str> {
    let py = dict.py();
    let set_base = |base: &Datatype| dict.set_item("base", described(py, base)?);
    let name = match kind {
        Kind::Integer {
            order,
            bits,
            signed,
            ..
        } => {
            set_bits(dict, *order, *bits)?;
            dict.set_item("signed", signed)?;
            "integer"
        }
        Kind::Float {
            order,
            bits,
            fields,
        } => {
            set_bits(dict, *order, *bits)?;
            set_float(dict, fields)?;
            "float"
        }
        Kind::Time { order, precision } => {
            set_order(dict, *order)?;
            dict.set_item("precision", precision)?;
            "time"
        }
        Kind::String(text) => {
            set_text(dict, *text)?;
            "string"
        }
        Kind::Bitfield { order, bits, .. } => {
            set_bits(dict, *order, *bits)?;
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
            set_base(of)?;
            let values = values
                .iter()
                .map(|(name, value)| (bytes(py, name), bytes(py, value)));
            dict.set_item("values", values.collect::<Vec<_>>())?;
            "enum"
        }
        Kind::Sequence(of) => {
            set_base(of)?;
            "sequence"
        }
        Kind::VariableString(text) => {
            set_text(dict, *text)?;
            "variable_string"
        }
        Kind::Array { dims, base: of } => {
            set_base(of)?;
            dict.set_item("dims", PyTuple::new(py, dims)?)?;
            "array"
        }
        Kind::Complex(of) => {
            set_base(of)?;
            "complex"
        }
    };
    Ok(name)
}

fn set_float(dict: &Bound<'_, PyDict>, fields: &FloatFields) -> PyResult<()> {
    dict.set_item("sign_at", fields.sign_at)?;
    dict.set_item("exponent", (fields.exponent_at, fields.exponent_bits))?;
    dict.set_item("mantissa", (fields.mantissa_at, fields.mantissa_bits))?;
    dict.set_item("exponent_bias", fields.exponent_bias)?;
    dict.set_item("normalization", fields.normalization)
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

fn set_bits(dict: &Bound<'_, PyDict>, order: ByteOrder, bits: Bits) -> PyResult<()> {
    set_order(dict, order)?;
    dict.set_item("bits", (bits.offset, bits.precision))
}

fn set_text(dict: &Bound<'_, PyDict>, text: Text) -> PyResult<()> {
    dict.set_item("padding", text.padding)?;
    dict.set_item("charset", text.charset)
}
