//! One dataset of the plan: how it lies in the file, and what its tape looks like.
//!
//! Law:
//! 1. The layout of a record is written by `_multitables/wire/plan_bytes.py` and read here.
//! 2. What a record says is checked when the plan is opened; later code indexes freely.

use super::plan::{KIND_LIBRARY, Task};
pub use super::string_fix::StringFix;
use super::words::{Header, Refused, part, product};
use crate::filters::FilterSpec;

const FLAG_DIRECT: u64 = 1;
const FLAG_CLIPPED: u64 = 2;
const FLAG_TURNSTILE: u64 = 4;
const FLAG_KEPT: u64 = 8;
const FLAG_LIBRARY: u64 = 16;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemberRecord {
    row_bytes: u64,
    tape_at: u64,
    tape_bytes: u64,
    element_bytes: u64,
    field_offset: u64,
    field_bytes: u64,
    n_dims: u64,
    dims_at: u64,
    chunk_dims_at: u64,
    filters_at: u64,
    n_filters: u64,
    fill_at: u64,
    fixes_at: u64,
    n_fixes: u64,
    file_at: u64,
    file_len: u64,
    device: u64,
    inode: u64,
    size_bytes: u64,
    mtime_ns: u64,
    flags: u64,
    library_at: u64,
    library_len: u64,
    chunks_at: u64,
    n_chunks: u64,
    inline_at: u64,
    inline_len: u64,
    reserved: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    pub device: u64,
    pub inode: u64,
    pub size_bytes: u64,
    pub mtime_ns: u64,
}

/// One dataset (or one field of it) of the stream.
#[derive(Debug)]
pub struct Member {
    pub row_bytes: usize,
    pub tape_at: usize,
    pub tape_bytes: usize,
    pub element_bytes: usize,
    pub field_offset: usize,
    pub field_bytes: usize,
    pub dims: Vec<u64>,
    pub chunk_dims: Vec<u64>,
    pub filters: Vec<FilterSpec>,
    /// An element that was never stored, its strings ended.
    pub fill: Vec<u8>,
    pub fixes: Vec<StringFix>,
    pub filename: Vec<u8>,
    pub fingerprint: Fingerprint,
    pub direct: bool,
    /// Stored pieces end with the dataset's last row (contiguous layout), not with a full chunk.
    pub clipped: bool,
    pub turnstile: bool,
    /// Decoded chunks are worth keeping: others want the rest of their rows.
    pub kept: bool,
    /// The library reads it (said by tasks; of shares, here).
    pub by_library: bool,
    /// Which of the plan's chunks are this member's stored ones.
    pub chunks_at: u64,
    pub n_chunks: u64,
    /// Chunks of the grid; 0 where the library reads.
    pub n_cells: u64,
    /// The stored bytes, where they travel with the plan: then addresses count in these.
    pub inline: Vec<u8>,
    /// What the library fallback needs to know, as written by the parent.
    pub library: String,
    /// Elements of a full chunk times their size.
    pub decoded_size: usize,
}

impl Member {
    /// The chunk's first element in every dimension.
    pub fn chunk_offset(&self, grid_index: u64, into: &mut Vec<u64>) {
        into.clear();
        into.resize(self.dims.len(), 0);
        let mut rest = grid_index;
        for axis in (0..self.dims.len()).rev() {
            let grid = self.dims[axis].div_ceil(self.chunk_dims[axis]).max(1);
            into[axis] = (rest % grid) * self.chunk_dims[axis];
            rest /= grid;
        }
    }

    /// Chunks of the grid that hold the same rows.
    pub fn inner_cells(&self) -> u64 {
        let grid = self.dims.iter().zip(&self.chunk_dims).skip(1);
        grid.map(|(dim, chunk)| dim.div_ceil(*chunk)).product()
    }

    /// A task's chunks of the grid have its rows, which are whole or of one row of chunks.
    pub(super) fn has_rows(&self, task: &Task, first_row: u64) -> bool {
        let end = task.first_chunk.checked_add(task.n_chunks);
        let Some(end) = end.filter(|&end| task.first_chunk < end && end <= self.n_cells) else {
            return false;
        };
        let (inner, outer) = (self.inner_cells(), u128::from(self.chunk_dims[0]));
        let chunk_rows = task.first_chunk / inner..end.div_ceil(inner);
        let rows = u128::from(task.row_end - task.row_begin) * u128::from(task.repeat);
        let begin = u128::from(first_row) + u128::from(task.row_begin);
        let (_, _, parts) = self.columns(task);
        u128::from(chunk_rows.start) * outer <= begin
            && begin + rows <= u128::from(chunk_rows.end) * outer
            && (parts == 1 || chunk_rows.end - chunk_rows.start == 1 && task.repeat == 1)
    }

    /// Which columns of the grid a task has, of how many; whole rows are one.
    pub(super) fn columns(&self, task: &Task) -> (u64, u64, u64) {
        let inner = self.inner_cells();
        let end = task.first_chunk.saturating_add(task.n_chunks);
        let whole = task.kind == KIND_LIBRARY
            || inner == 0
            || task.first_chunk % inner == 0 && end % inner == 0;
        match whole {
            true => (0, 1, 1),
            false => (task.first_chunk % inner, (end - 1) % inner + 1, inner),
        }
    }

    /// Bytes that there are to fetch from.
    pub fn source_bytes(&self) -> u64 {
        match self.inline.is_empty() {
            true => self.fingerprint.size_bytes,
            false => self.inline.len() as u64,
        }
    }

    /// A chunk is a run of whole rows, exactly as the tape wants them.
    pub fn whole_rows(&self) -> bool {
        self.field_bytes == self.element_bytes && self.spans_rows()
    }

    /// A chunk has all elements of its rows.
    pub fn spans_rows(&self) -> bool {
        self.chunk_dims[1..] == self.dims[1..]
    }

    /// The fill value as rows show it.
    pub fn fill_shown(&self) -> &[u8] {
        &self.fill[self.field_offset..self.field_offset + self.field_bytes]
    }
}

/// A member as its record tells it.
pub(super) fn member(
    record: &MemberRecord,
    words: &[u64],
    blob: &[u8],
    header: &Header,
) -> Result<Member, Refused> {
    let dims = part(words, record.dims_at, record.n_dims)?.to_vec();
    let chunk_dims = part(words, record.chunk_dims_at, record.n_dims)?.to_vec();
    if dims.is_empty() || chunk_dims.contains(&0) {
        return Err("a dataset of the plan has no extent");
    }
    let field_end = record.field_offset.checked_add(record.field_bytes);
    if field_end.is_none_or(|end| end > record.element_bytes) || record.field_bytes == 0 {
        return Err("a field of the plan lies outside its element");
    }
    if product(&dims[1..], record.field_bytes)? != record.row_bytes {
        return Err("a row of the plan has another size than its dataset");
    }
    let tape_end = record.tape_at.checked_add(record.tape_bytes);
    if tape_end.is_none_or(|end| end > header.ring_bytes)
        || record.tape_at < header.control_bytes
        || header
            .capacity_rows
            .checked_mul(record.row_bytes)
            .is_none_or(|n| n > record.tape_bytes)
    {
        return Err("a tape of the plan lies outside the ring");
    }
    let decoded_size = product(&chunk_dims, record.element_bytes)?;
    if decoded_size > isize::MAX as u64 {
        return Err("a chunk of the plan is too large");
    }
    let mut fixes = Vec::new();
    for fix in part(words, record.fixes_at, record.n_fixes.saturating_mul(4))?.chunks_exact(4) {
        let end = fix[1]
            .checked_mul(fix[2])
            .and_then(|n| n.checked_add(fix[0]));
        if end.is_none_or(|end| end > record.field_bytes) {
            return Err("a string of the plan lies outside its element");
        }
        fixes.push(StringFix {
            offset: fix[0] as usize,
            size: fix[1] as usize,
            count: fix[2] as usize,
            space_padded: fix[3] == 2,
        });
    }
    let mut fill = part(blob, record.fill_at, record.element_bytes)?.to_vec();
    for fix in &fixes {
        let field = record.field_offset as usize..field_end.unwrap_or(0) as usize;
        fix.end(&mut fill[field]);
    }
    let by_library = record.flags & FLAG_LIBRARY != 0;
    let grid = dims
        .iter()
        .zip(&chunk_dims)
        .try_fold(1u64, |all, (dim, chunk)| {
            all.checked_mul(dim.div_ceil(*chunk))
        });
    let n_cells = match grid {
        _ if by_library => 0,
        Some(n_cells) => n_cells,
        None => return Err("a grid of the plan is too large"),
    };
    let text = part(blob, record.library_at, record.library_len)?;
    Ok(Member {
        row_bytes: record.row_bytes as usize,
        tape_at: record.tape_at as usize,
        tape_bytes: record.tape_bytes as usize,
        element_bytes: record.element_bytes as usize,
        field_offset: record.field_offset as usize,
        field_bytes: record.field_bytes as usize,
        dims,
        chunk_dims,
        filters: filters(words, record.filters_at, record.n_filters)?,
        fill,
        fixes,
        filename: part(blob, record.file_at, record.file_len)?.to_vec(),
        fingerprint: Fingerprint {
            device: record.device,
            inode: record.inode,
            size_bytes: record.size_bytes,
            mtime_ns: record.mtime_ns,
        },
        direct: record.flags & FLAG_DIRECT != 0,
        clipped: record.flags & FLAG_CLIPPED != 0,
        turnstile: record.flags & FLAG_TURNSTILE != 0,
        kept: record.flags & FLAG_KEPT != 0,
        by_library,
        chunks_at: record.chunks_at,
        n_chunks: record.n_chunks,
        n_cells,
        inline: part(blob, record.inline_at, record.inline_len)?.to_vec(),
        library: String::from_utf8(text.to_vec()).map_err(|_| "a text of the plan is not UTF-8")?,
        decoded_size: decoded_size as usize,
    })
}

/// A pipeline as words: for each filter its id, flags, number of values, and the values.
fn filters(words: &[u64], at: u64, count: u64) -> Result<Vec<FilterSpec>, Refused> {
    let mut at = at;
    let mut specs = Vec::new();
    for _ in 0..count {
        let head = part(words, at, 3)?;
        let values = part(words, at + 3, head[2])?;
        specs.push(FilterSpec {
            id: head[0] as u32,
            flags: head[1] as u32,
            values: values.iter().map(|&value| value as u32).collect(),
        });
        at += 3 + head[2];
    }
    Ok(specs)
}
