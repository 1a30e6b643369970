//! What many objects are, in columns.
//!
//! Law:
//! 1. Datasets are of one kind if nothing but their dims, chunks, scales and attributes differs.
//! 2. One object's damage is its own: it has no kind, and tells why when it is asked for alone. So has
//!    one that is stored in a way of its own: virtual, in external files, or without elements.
//! 3. Compact elements are copied behind one another; their one chunk begins there.

use super::chunk::Chunk;
use super::cursor::UNDEFINED;
use super::datatype::{Datatype, Kind as TypeKind, datatype};
use super::error::{Result, unknown};
use super::file::{Dataset, File, ObjectKind};
use super::fill_value::{Fill, FillValue};
use super::filter_pipeline::Filter;
use super::layout::Layout;
use super::many::Interruption;
use super::object_header::ObjectHeader;
use std::collections::HashMap;
use std::ops::Range;

/// The kind of an object that is to be asked for alone.
pub const ALONE: u32 = u32::MAX;
/// The kind of an object that is no dataset.
pub const NO_DATASET: u32 = u32::MAX - 1;

/// The attribute that names what PyTables or a dimension scale is, and that which refers to scales.
const CLASS: &[u8] = b"CLASS";
const DIMENSION_LIST: &[u8] = b"DIMENSION_LIST";
/// Larger datasets, and chunks, are alone.
const MAX_BYTES: u64 = 1 << 62;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    Compact,
    Contiguous,
    Chunked,
}

/// What datasets have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    pub storage: Storage,
    /// The datatype message.
    pub datatype: Vec<u8>,
    pub element_bytes: u32,
    pub filters: Vec<Filter>,
    pub fill: Fill,
    /// The value of the attribute CLASS, if it is a string.
    pub class: Vec<u8>,
}

/// A dimension scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The number of the object that has the axis.
    pub object: u64,
    pub axis: u64,
    /// Where the scale's header is.
    pub offset: u64,
}

/// An attribute as it is stored: object, name, datatype, dims (none: null), elements.
pub type Attribute = (u64, Vec<u8>, Vec<u8>, Option<Vec<u64>>, Vec<u8>);

#[derive(Clone, Debug, Default)]
pub struct Survey {
    pub kinds: Vec<Kind>,
    /// Of each object its file, by number, and where its header is there; then its kind.
    pub file: Vec<u32>,
    pub offset: Vec<u64>,
    pub kind: Vec<u32>,
    pub ranks: Vec<u32>,
    pub n_chunks: Vec<u64>,
    /// Of the datasets, one behind the other. Those without chunks have dims of chunks, too: zeros.
    pub dims: Vec<u64>,
    pub chunk_dims: Vec<u64>,
    pub chunks: Vec<Chunk>,
    pub inline: Vec<u8>,
    pub scales: Vec<Scale>,
    pub attributes: Vec<Attribute>,
    pub(super) numbers: HashMap<Kind, u32>,
}

/// What is learned of one dataset before it is added.
struct Found {
    /// None: it is alone.
    kind: Option<Kind>,
    dims: Vec<u64>,
    chunk_dims: Vec<u64>,
    chunks: Vec<Chunk>,
    inline: Vec<u8>,
    scales: Vec<Scale>,
    attributes: Vec<Attribute>,
}

impl File {
    /// What the objects at these offsets are, with their scales, and with those of their attributes
    /// that have these names.
    pub fn survey(
        &self,
        offsets: &[u64],
        with_scales: bool,
        names: &[Vec<u8>],
        interruption: &dyn Interruption,
    ) -> Survey {
        let all = self.each(offsets, interruption, &|number, offset| {
            self.surveyed(number as u64, offset, with_scales, names)
        });
        let mut survey = Survey {
            file: vec![0; offsets.len()],
            offset: offsets.to_vec(),
            ..Survey::default()
        };
        for found in all {
            match found {
                Ok(Some(found)) => survey.add(found),
                Ok(None) => survey.add_other(NO_DATASET),
                Err(_) => survey.add_other(ALONE),
            }
        }
        survey
    }

    /// None: it is no dataset.
    fn surveyed(
        &self,
        number: u64,
        offset: u64,
        with_scales: bool,
        names: &[Vec<u8>],
    ) -> Result<Option<Found>> {
        let header = ObjectHeader::read(&self.blocks, offset)?;
        if header.kind() != ObjectKind::Dataset {
            return Ok(None);
        }
        let dataset = self.dataset(&header)?;
        let rank = dataset.dataspace.dims.len();
        let mut found = Found {
            kind: None,
            dims: dataset.dataspace.dims.clone(),
            chunk_dims: vec![0; rank],
            chunks: Vec::new(),
            inline: Vec::new(),
            scales: Vec::new(),
            attributes: Vec::new(),
        };
        // A dataset that is alone has scales and attributes, too.
        let placed = self.place(&dataset, &mut found);
        let storage = placed.ok().filter(|_| !dataset.dataspace.is_null);
        let mut class = Vec::new();
        for (_, attribute) in self.attributes(&header)? {
            let space = &attribute.dataspace;
            if attribute.name == CLASS && space.dims.is_empty() && !space.is_null {
                let element = datatype(&mut self.blocks.cursor(&attribute.datatype))?;
                if matches!(element.kind, TypeKind::String(_)) {
                    class.clone_from(&attribute.elements);
                }
            } else if with_scales && attribute.name == DIMENSION_LIST {
                let element = datatype(&mut self.blocks.cursor(&attribute.datatype))?;
                let Some(form) = reference_form(&element) else {
                    return unknown(offset, "scales that are named in another way");
                };
                self.scales(number, form, &attribute.elements, &mut found.scales)?;
            }
            if names.contains(&attribute.name) {
                let dims = (!space.is_null).then(|| space.dims.clone());
                found.attributes.push((
                    number,
                    attribute.name,
                    attribute.datatype.bytes.clone(),
                    dims,
                    attribute.elements,
                ));
            }
        }
        found.kind = storage.map(|storage| Kind {
            storage,
            datatype: dataset.datatype.bytes,
            element_bytes: dataset.element_bytes,
            filters: dataset.filters,
            fill: dataset.fill,
            class,
        });
        Ok(Some(found))
    }

    /// Tell where a dataset's elements lie, and how they are stored.
    fn place(&self, dataset: &Dataset, found: &mut Found) -> Result<Storage> {
        if !dataset.external_files.is_empty() {
            return unknown(0, "a dataset in external files");
        }
        let n_bytes = dataset.dataspace.n_elements();
        let n_bytes = n_bytes.and_then(|n| n.checked_mul(dataset.element_bytes.into()));
        let Some(n_bytes) = n_bytes.filter(|&n| n <= MAX_BYTES) else {
            return unknown(0, "a dataset of more than 2^62 bytes");
        };
        let one = |byte_offset, size| vec![Chunk::plain(0, byte_offset, size)];
        match &dataset.layout {
            Layout::Chunked(chunked) => {
                let extents = chunked.chunk_dims.iter().copied();
                let mut bytes = u64::from(dataset.element_bytes);
                for extent in extents {
                    bytes = bytes.saturating_mul(extent);
                }
                if bytes > MAX_BYTES {
                    return unknown(0, "a chunk of more than 2^62 bytes");
                }
                found.chunks = self.chunks(dataset)?;
                found.chunk_dims.clone_from(&chunked.chunk_dims);
                Ok(Storage::Chunked)
            }
            Layout::Contiguous { address } => {
                if *address != UNDEFINED && n_bytes > 0 {
                    found.chunks = one(self.blocks.address(*address), n_bytes);
                }
                Ok(Storage::Contiguous)
            }
            Layout::Compact { elements, .. } => {
                if (elements.len() as u64) < n_bytes {
                    return unknown(0, "fewer compact elements than the dataset has");
                }
                if n_bytes > 0 {
                    found.chunks = one(0, n_bytes);
                    found.inline = elements[..n_bytes as usize].to_vec();
                }
                Ok(Storage::Compact)
            }
            Layout::Virtual { .. } => unknown(0, "a virtual dataset"),
        }
    }

    /// The scales of each axis: sequences of references, whose descriptors these are.
    fn scales(
        &self,
        object: u64,
        (len, address): (usize, Range<usize>),
        descriptors: &[u8],
        into: &mut Vec<Scale>,
    ) -> Result<()> {
        let found = self.variable(descriptors, len as u64, 0)?;
        let mut begin = 0;
        for (axis, &end) in (0u64..).zip(&found.ends) {
            for reference in found.bytes[begin..end as usize].chunks_exact(len) {
                let offset = &reference[address.clone()];
                let offset = offset.try_into().map_or(0, u64::from_le_bytes);
                if offset != 0 {
                    into.push(Scale {
                        object,
                        axis,
                        offset,
                    });
                }
            }
            begin = end as usize;
        }
        Ok(())
    }
}

/// Of sequences of references to objects: the bytes of a reference, and which of them are the address.
fn reference_form(element: &Datatype) -> Option<(usize, Range<usize>)> {
    let TypeKind::Sequence(base) = &element.kind else {
        return None;
    };
    match (&base.kind, base.size) {
        (TypeKind::Reference(0), 8) => Some((8, 0..8)),
        (TypeKind::Reference(2), 18) => Some((18, 3..11)), // behind kind, flags, and its length
        _ => None,
    }
}

impl Survey {
    pub(super) fn number(&mut self, kind: Kind) -> u32 {
        let next = self.kinds.len() as u32;
        *self.numbers.entry(kind).or_insert_with_key(|kind| {
            self.kinds.push(kind.clone());
            next
        })
    }

    fn add_other(&mut self, kind: u32) {
        self.kind.push(kind);
        self.ranks.push(0);
        self.n_chunks.push(0);
    }

    fn add(&mut self, mut found: Found) {
        let kind = found.kind.take().map_or(ALONE, |kind| self.number(kind));
        self.kind.push(kind);
        self.ranks.push(found.dims.len() as u32);
        self.n_chunks.push(found.chunks.len() as u64);
        self.dims.extend(&found.dims);
        self.chunk_dims.extend(&found.chunk_dims);
        if !found.inline.is_empty() {
            found.chunks[0].byte_offset = self.inline.len() as u64;
            self.inline.extend(&found.inline);
        }
        self.chunks.append(&mut found.chunks);
        self.scales.append(&mut found.scales);
        self.attributes.append(&mut found.attributes);
    }
}

impl Fill {
    /// The value that elements show that were never written. Where it is never written, libraries read
    /// none either: memory stays as it was, here zero.
    pub fn shown(&self) -> &[u8] {
        match &self.value {
            FillValue::Value(value) if !self.is_never_written => value,
            _ => &[],
        }
    }
}
