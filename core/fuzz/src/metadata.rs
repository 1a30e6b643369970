//! A file's metadata, walked as far as they lead.
//!
//! Law: each question has an answer or an error, for any bytes.
//!
//! Input: the file. Its checksums are not looked at, so that a change leads further.

use hdf5_format::datatype::{Datatype, Kind, datatype};
use hdf5_format::file::{File, ObjectKind};
use hdf5_format::layout::Layout;
use hdf5_format::link::Target;
use std::collections::HashSet;

/// Objects, and elements of variable length, that are looked at.
const MAX_OBJECTS: usize = 64;
const MAX_DESCRIPTORS: usize = 1 << 12;

pub fn file(bytes: &[u8]) {
    let Ok(file) = File::open(Box::new(bytes.to_vec()), false) else {
        return;
    };
    let (mut found, mut met) = (vec![file.root()], HashSet::from([file.root()]));
    let mut at = 0;
    while at < found.len() {
        object(&file, found[at], &mut |offset| {
            if found.len() < MAX_OBJECTS && met.insert(offset) {
                found.push(offset);
            }
        });
        at += 1;
    }
    let _ = file.survey(&found, true, &[b"units".to_vec(), b"number".to_vec()], &());
    for path in [&b"/x"[..], b"g/soft/../x", b"/c/key", b"scales/rows"] {
        let _ = file.find(file.root(), path);
    }
}

fn object(file: &File, offset: u64, to: &mut dyn FnMut(u64)) {
    let Ok(header) = file.object(offset) else {
        return;
    };
    let mut names = Vec::new();
    for link in file.links(&header).unwrap_or_default() {
        if let Target::Hard(offset) = link.target {
            to(offset);
        }
        names.push(link.name);
    }
    for name in names.iter().take(4) {
        let _ = file.link(&header, name);
    }
    for (_, attribute) in file.attributes(&header).unwrap_or_default() {
        if let Ok(kind) = datatype(&mut file.blocks.cursor(&attribute.datatype)) {
            variable(file, &kind, &attribute.elements);
        }
    }
    match header.kind() {
        ObjectKind::Dataset => dataset(file, offset),
        ObjectKind::Datatype => drop(file.datatype(&header)),
        ObjectKind::Group | ObjectKind::Other => {}
    }
}

fn dataset(file: &File, offset: u64) {
    let Ok(dataset) = file.object(offset).and_then(|header| file.dataset(&header)) else {
        return;
    };
    let _ = file.chunks(&dataset);
    match &dataset.layout {
        Layout::Compact { elements, .. } => {
            if let Ok(kind) = datatype(&mut file.blocks.cursor(&dataset.datatype)) {
                variable(file, &kind, elements);
            }
        }
        Layout::Virtual { heap, index } => drop(file.mappings(*heap, *index)),
        _ => {}
    }
}

/// What descriptors name in the global heap: sequences, and regions.
fn variable(file: &File, kind: &Datatype, elements: &[u8]) {
    let some = &elements[..elements.len().min(MAX_DESCRIPTORS)];
    match &kind.kind {
        Kind::Sequence(of) => drop(file.variable(some, of.size.into(), 0)),
        Kind::VariableString(_) => drop(file.variable(some, 1, 0)),
        _ => {
            let len = file.blocks.sizes.address + 4;
            for descriptor in some.chunks_exact(len).take(16) {
                let number = |part: &[u8]| part.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
                let (heap, index) = descriptor.split_at(len - 4);
                let _ = file.region(number(heap), number(index) as u32);
            }
        }
    }
}
