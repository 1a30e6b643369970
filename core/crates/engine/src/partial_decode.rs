//! A chunk's parts: only the blocks that hold wanted bytes are fetched and decoded.
//!
//! Law:
//! 1. The head is read first, then the wanted blocks, neighbours at once. A block of which little
//!    is wanted is read as its decoder says, and as a whole when that was too little.
//! 2. Whatever is odd about the head is left to the whole chunk's decoding, which tells.
//! 3. Decoded bytes keep their places in the chunk; what is between them may be anything.

use crate::chunk_read::room;
use crate::counters::{add_ns, count};
use crate::place_selected::deliver;
use crate::read_ahead::{InHand, ReadAhead};
use crate::scatter::elements::{Row, Unit};
use crate::scatter::out::Out;
use crate::task_error::TaskError;
use hdf5_filters::{Blocks, Fetched, Fetches, FilterError, Parts, Pipeline};
use std::ops::Range;
use std::time::Instant;

/// Most heads fit into this.
const HEAD_BYTES: usize = 512;
/// Chunks of more blocks are decoded whole: their table alone is long.
const MAX_BLOCKS: usize = 4096;
/// Between two blocks, this much is read along.
const GAP_BYTES: usize = 4 << 10;

/// The wanted blocks of one chunk.
#[derive(Debug, Default)]
pub struct WantedBlocks {
    /// The wanted bytes of each block, as a range of the chunk; empty where the block is not wanted.
    hulls: Vec<Range<usize>>,
    /// The wanted blocks, where they are stored, and how they are fetched.
    spans: Vec<(usize, Range<usize>, Fetched)>,
}

impl WantedBlocks {
    /// Begin with a chunk. False if it has to be decoded whole.
    fn begin(&mut self, blocks: &Blocks, decoded_size: usize) -> bool {
        self.hulls.clear();
        self.spans.clear();
        if blocks.decoded_size != decoded_size || blocks.n_blocks > MAX_BLOCKS {
            return false;
        }
        self.hulls.resize(blocks.n_blocks, 0..0);
        true
    }

    /// A row is wanted.
    fn add(&mut self, blocks: &Blocks, unit: &Unit<'_>, row: &Row) {
        if row.step.unsigned_abs() <= blocks.block_size || row.n == 1 {
            return self.add_bytes(blocks, unit.reach(row));
        }
        // Blocks between the units are not wanted.
        let mut src = row.src;
        for _ in 0..row.n {
            self.add_bytes(blocks, src..src + unit.stored);
            src = src.wrapping_add_signed(row.step);
        }
    }

    fn add_bytes(&mut self, blocks: &Blocks, bytes: Range<usize>) {
        for n in bytes.start / blocks.block_size..bytes.end.div_ceil(blocks.block_size) {
            let block = blocks.range(n);
            let here = bytes.start.max(block.start)..bytes.end.min(block.end);
            let hull = &mut self.hulls[n];
            *hull = match hull.end {
                0 => here,
                _ => hull.start.min(here.start)..hull.end.max(here.end),
            };
        }
    }

    /// Wanted bytes, and what lies between them in their blocks.
    fn bytes(&self) -> usize {
        self.hulls.iter().map(ExactSizeIterator::len).sum()
    }

    /// Find out where the wanted blocks are stored, when the first `head` stored bytes are there.
    fn locate(
        &mut self,
        blocks: &Blocks,
        parts: &Parts<'_>,
        stored: &[u8],
        head: usize,
    ) -> Result<(), FilterError> {
        for (n, hull) in self.hulls.iter().enumerate() {
            if !hull.is_empty() {
                let span = parts.span(stored, n)?;
                let fetches = Fetches::new(n, span.clone(), self.wanted(blocks, n), head);
                let fetched = match parts.is_sparse(stored, &fetches)? {
                    true => Fetched::Asked,
                    false => Fetched::All,
                };
                self.spans.push((n, span, fetched));
            }
        }
        Ok(())
    }

    /// The wanted bytes of block `n`, within the block.
    fn wanted(&self, blocks: &Blocks, n: usize) -> Range<usize> {
        let (hull, start) = (&self.hulls[n], blocks.range(n).start);
        hull.start - start..hull.end - start
    }

    /// Ranges of the stored bytes of blocks that are fetched whole, in the order of the blocks.
    fn fetches(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut rest = &self.spans[..];
        std::iter::from_fn(move || {
            let is_whole = |(.., fetched): &(_, _, Fetched)| *fetched == Fetched::All;
            rest = &rest[rest.iter().position(is_whole)?..];
            let (mut all, mut n) = (rest[0].1.clone(), 1);
            for (_, span, fetched) in &rest[1..] {
                if *fetched == Fetched::Asked
                    || span.start < all.start
                    || span.start > all.end + GAP_BYTES
                {
                    break;
                }
                all.end = all.end.max(span.end);
                n += 1;
            }
            rest = &rest[n..];
            Some(all)
        })
    }

    /// Fetch what was located, except for the first `head` bytes, which are there. False if a block is
    /// malformed.
    fn fetch_all(
        &self,
        blocks: &Blocks,
        parts: &Parts<'_>,
        stored: &mut [u8],
        head: usize,
        fetch: &mut impl Fetch,
    ) -> Result<bool, TaskError> {
        for span in self.fetches() {
            let span = span.start.max(head.min(span.end))..span.end;
            if !span.is_empty() {
                fetch(stored, span)?;
            }
        }
        for (n, span, fetched) in &self.spans {
            if *fetched == Fetched::All {
                continue;
            }
            let mut fetches = Fetches::new(*n, span.clone(), self.wanted(blocks, *n), head);
            loop {
                match parts.next_fetch(stored, &mut fetches) {
                    Ok(Some(bytes)) => fetch(stored, bytes)?,
                    Ok(None) => break,
                    Err(_) => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    /// Decode what was fetched: into its place in `decoded`, or in the result where that is one row.
    fn decode(
        &self,
        blocks: &Blocks,
        parts: &mut Parts<'_>,
        stored: &mut [u8],
        fetch: &mut impl Fetch,
        straight: Option<Row>,
        (decoded, mut out): (&mut [u8], Out<'_>),
    ) -> Result<usize, Stopped> {
        let mut work = 0;
        for (n, span, fetched) in &self.spans {
            let range = blocks.range(*n);
            let part = self.wanted(blocks, *n);
            // A block that is wanted whole, in one piece, is decoded where it belongs.
            let to = match straight {
                Some(row) if part.len() == range.len() => {
                    let at = row.dst + (range.start - row.src);
                    out.part(at..at + range.len())
                }
                _ => &mut decoded[range.clone()],
            };
            let block = (*n, span.clone(), *fetched);
            work += match parts.decode_block(stored, block, part.clone(), to)? {
                Some(work) => work,
                None => {
                    fetch(stored, span.clone()).map_err(Stopped::Fetch)?;
                    let block = (*n, span.clone(), Fetched::All);
                    let done = parts.decode_block(stored, block, part.clone(), to)?;
                    done.unwrap_or(0)
                }
            };
            if let (Some(row), true) = (straight, part.len() < range.len()) {
                let from = range.start + part.start;
                let at = row.dst + (from - row.src);
                let bytes = &decoded[from..from + part.len()];
                out.part(at..at + part.len()).copy_from_slice(bytes);
            }
        }
        Ok(work)
    }
}

/// Why wanted blocks did not come.
enum Stopped {
    Fetch(TaskError),
    Decode(FilterError),
}

impl From<FilterError> for Stopped {
    fn from(error: FilterError) -> Stopped {
        Stopped::Decode(error)
    }
}

/// Fetches stored bytes of a chunk to where they belong in its buffer.
trait Fetch: FnMut(&mut [u8], Range<usize>) -> Result<(), TaskError> {}
impl<F: FnMut(&mut [u8], Range<usize>) -> Result<(), TaskError>> Fetch for F {}

/// Fetch a chunk's head, which tells its blocks. None if it is malformed: the whole chunk's decoding
/// says how.
fn fetch_head(
    parts: &Parts<'_>,
    stored: &mut [u8],
    fetch: &mut impl Fetch,
) -> Result<Option<Blocks>, TaskError> {
    let head = HEAD_BYTES.min(stored.len());
    fetch(stored, 0..head)?;
    let Ok(blocks) = parts.blocks(stored) else {
        return Ok(None);
    };
    if blocks.head_bytes > head {
        fetch(stored, head..blocks.head_bytes)?;
    }
    Ok(Some(blocks))
}

/// What a decoding of wanted blocks works with, and memory that it uses again.
pub struct PartialDecode<'a, 'r> {
    pub from: &'a mut ReadAhead<'r>,
    pub pipeline: &'a mut Pipeline,
    pub unit: Unit<'a>,
    pub stored: &'a mut Vec<u8>,
    pub decoded: &'a mut Vec<u8>,
    pub wanted: &'a mut WantedBlocks,
    pub out: Out<'a>,
}

impl PartialDecode<'_, '_> {
    /// Fetch and decode only the blocks that hold wanted bytes, and return how much work they were.
    /// None: it has to be the whole.
    pub fn run(self, here: &InHand<'_>, row: Option<Row>) -> Result<Option<usize>, TaskError> {
        let PartialDecode {
            from,
            pipeline,
            unit,
            stored,
            decoded,
            wanted,
            mut out,
        } = self;
        let (size, record) = (from.lookup.dataset.decoded_size, from.record);
        let (segments, pairs) = (&here.cursor.segments, from.chunk_iter.pairs());
        let len = here.chunk.stored_size as usize;
        let Some(mut parts) = pipeline.parts(here.chunk.filter_mask) else {
            return Ok(None);
        };
        let stored = room(stored, len, here.number)?;
        let mut fetch =
            |stored: &mut [u8], span: Range<usize>| from.read(here, span.start, &mut stored[span]);
        let Some(blocks) = fetch_head(&parts, stored, &mut fetch)? else {
            return Ok(None);
        };
        if !wanted.begin(&blocks, size) {
            return Ok(None);
        }
        unit.each_row(segments, pairs, &mut |row| {
            wanted.add(&blocks, &unit, &row);
        });
        // Where it is nearly all, it may as well be kept.
        let few = wanted.bytes() <= size / 4 * 3;
        let head = HEAD_BYTES.min(len).max(blocks.head_bytes);
        let located = few && wanted.locate(&blocks, &parts, stored, head).is_ok();
        if !located || !wanted.fetch_all(&blocks, &parts, stored, head, &mut fetch)? {
            return Ok(None);
        }
        let start = Instant::now();
        let decoded = room(decoded, size, here.number)?;
        let straight = row.and_then(|row| unit.straight(&row));
        let to = (&mut *decoded, out.lend());
        let work = wanted.decode(&blocks, &mut parts, stored, &mut fetch, straight, to);
        let work = work.map_err(|error| match error {
            Stopped::Fetch(error) => error,
            Stopped::Decode(error) => here.wrong(error),
        })?;
        match straight {
            Some(row) => unit.apply_fixes(out.part(row.dst..row.dst + row.n * unit.bytes)),
            None => deliver(&unit, segments, pairs, decoded, 0, out),
        }
        count(&record.decoded_bytes, work);
        add_ns(&record.decode_ns, start);
        Ok(Some(work))
    }
}
