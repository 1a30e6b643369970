//! Stored chunks through filters: one of them, and pipelines of several.
//!
//! Law:
//! 1. A chunk decodes, or is refused; so does each block of it that can be decoded alone.
//! 2. Where the chunk decodes, its blocks alone give the same bytes, and so does a group of it.
//!
//! Input: number of filters (of one: which is no matter); of each its number in `FILTERS`, number of
//! values, and these, in four bytes each; the decoded size in three bytes, the filter mask in one; the
//! stored bytes.

use crate::input::Input;
use hdf5_filters::{FILTERS, Fetched, Fetches, FilterSpec, GroupItem, Pipeline};
use os::clock::thread_ns;

const MAX_FILTERS: usize = 4;
const MAX_VALUES: usize = 32;
const MAX_DECODED: usize = 1 << 18;

pub fn one(input: &[u8]) {
    run(input, 1);
}

pub fn several(input: &[u8]) {
    run(input, MAX_FILTERS);
}

fn run(input: &[u8], most: usize) {
    let mut input = Input(input);
    let n_filters = 1 + input.number(1) % most;
    let specs: Vec<FilterSpec> = (0..n_filters).map(|_| spec(&mut input)).collect();
    let size = input.number(3) % (MAX_DECODED + 1);
    let mask = input.number(1) as u32;
    let Ok(mut pipeline) = Pipeline::new(&specs, size, thread_ns) else {
        return;
    };
    let mut whole = vec![0; size];
    let made = pipeline.decode(mask, input.0, &mut whole, || size);
    let whole = made.is_ok().then_some(&whole[..]);
    blocks(&mut pipeline, mask, input.0, whole);
    group(&mut pipeline, mask, input.0, whole, size);
}

fn spec(input: &mut Input<'_>) -> FilterSpec {
    let id = FILTERS[input.number(1) % FILTERS.len()].id;
    let n_values = input.number(1) % (MAX_VALUES + 1);
    let values = (0..n_values).map(|_| input.number(4) as u32).collect();
    FilterSpec {
        id,
        flags: 0,
        values,
    }
}

/// Each block alone, from all of its bytes, and from those that are asked for.
fn blocks(pipeline: &mut Pipeline, mask: u32, stored: &[u8], whole: Option<&[u8]>) {
    let Some(mut parts) = pipeline.parts(mask) else {
        return;
    };
    let Ok(blocks) = parts.blocks(stored) else {
        return;
    };
    if blocks.head_bytes > stored.len() || blocks.decoded_size > MAX_DECODED {
        return;
    }
    for n in 0..blocks.n_blocks.min(64) {
        let Ok(span) = parts.span(stored, n) else {
            continue;
        };
        assert!(span.end <= stored.len(), "{span:?} of {}", stored.len());
        let len = blocks.range(n).len();
        let mut out = vec![0; len];
        let block = (n, span.clone(), Fetched::All);
        let made = parts.decode_block(stored, block, 0..len, &mut out);
        if let (Ok(_), Some(whole)) = (made, whole.filter(|all| all.len() == blocks.decoded_size)) {
            assert!(out == whole[blocks.range(n)], "block {n}");
        }
        if len == 0 {
            continue;
        }
        let wanted = len / 3..len / 3 + 1;
        let mut fetches = Fetches::new(n, span.clone(), wanted.clone(), blocks.head_bytes);
        if !parts.is_sparse(stored, &fetches).unwrap_or(false) {
            continue;
        }
        let mut left = stored.len() + 16;
        while let Ok(Some(next)) = parts.next_fetch(stored, &mut fetches) {
            assert!(!next.is_empty() && span.start <= next.start && next.end <= span.end);
            left = left.checked_sub(next.len()).expect("fetches that end");
        }
        let block = (n, span, Fetched::Asked);
        let made = parts.decode_block(stored, block, wanted.clone(), &mut out);
        let whole = whole.filter(|all| all.len() == blocks.decoded_size);
        if let (Ok(Some(_)), Some(whole)) = (made, whole) {
            assert!(
                out[wanted.clone()] == whole[blocks.range(n)][wanted],
                "some of {n}"
            );
        }
    }
}

fn group(pipeline: &mut Pipeline, mask: u32, stored: &[u8], whole: Option<&[u8]>, size: usize) {
    if pipeline.max_group() < 2 {
        return;
    }
    let mut outs = [vec![0; size], vec![0; size]];
    let mut items = outs.each_mut().map(|out| GroupItem { stored, out });
    if pipeline.decode_group(mask, &mut items) {
        assert!(outs.iter().all(|out| Some(&out[..]) == whole), "as a group");
    }
}
