//! Requests of one dataset's rows and elements, and of pieces of several.
//!
//! Law: a request is refused, or answered; parts of an answer stay in its memory.
//!
//! Input: number of a part and of all in one byte each, length of the table in four bytes, the table,
//! the request's words. The words that say where the table lies are put right.

use crate::input::Input;
use crate::tables::is_small;
use engine::counters::Record;
use engine::heap_read::{Descriptors, KIND_HEAP, picture_bytes};
use engine::pieces::{KIND_PIECES, Pieces};
use engine::scatter::out::Out;
use engine::select::selection::Hyperslab;
use os::memory::Mapping;
use serve::requests::answer::Answerer;
use std::sync::Arc;
use tables::dataset::{DatasetTable, Memory};

const MAX_OUT: usize = 1 << 20;

pub fn answer(input: &[u8]) {
    let mut input = Input(input);
    let (part, n_parts) = (input.number(1) as u64 % 5, input.number(1) as u64 % 5 + 1);
    let len = input.number(4);
    let table = input.bytes(len);
    let mut words = input.words();
    if words.len() < 4 || words.len() > 1 << 12 {
        return;
    }
    words[1..4].copy_from_slice(&[1, 0, table.len() as u64]);
    let Ok(known) = DatasetTable::over(Memory::copied(table), 0, table.len()) else {
        return;
    };
    let (Some(dataset), true) = (known.datasets.first(), is_small(&known)) else {
        return;
    };
    let out_bytes = match words[0] {
        KIND_HEAP => {
            // Its heap lies in a file.
            if let Ok(wanted) = Descriptors::parse(&words, picture_bytes(dataset)) {
                let _ = (wanted.part(part, n_parts), wanted.owners(n_parts as usize));
            }
            return;
        }
        KIND_PIECES => Pieces::parse(&words).map(|wanted| wanted.out_bytes),
        _ => Hyperslab::parse(&words, dataset).map(|slab| {
            slab.owners(dataset, n_parts as usize);
            slab.out_bytes()
        }),
    };
    let room = out_bytes.unwrap_or(64);
    if room > MAX_OUT {
        return;
    }
    let arena = Mapping::private(table.len()).expect("memory");
    // SAFETY: as many bytes, which nobody else knows.
    unsafe {
        arena
            .base()
            .copy_from_nonoverlapping(table.as_ptr(), table.len())
    };
    let mut answerer = Answerer::new(Arc::new(arena), MAX_OUT);
    let mut out = vec![0; room];
    for _ in 0..2 {
        // The second time chunks may be kept.
        let out = Out::of(&mut out);
        let _ = answerer.answer(&words, (part, n_parts), out, &Record::new(), None);
    }
}
