//! Where the elements of rows are placed: cut to a window, mirrored, their axes in another order,
//! beside the rows of other requests.
//!
//! Law:
//! 1. The words are written by `_multitables/wire/request_bytes.py` and read here; both number the same.
//! 2. `parse` checks everything, so that each element has a place of its own inside the result.
//! 3. The result has rows of several requests, and each of them writes one part: an axis of parts lies
//!    before the rows of a group, before the axes of a row, or behind some of them.
//! 4. Knows nothing of files, chunks or memory.

use std::ops::Range;

/// A row has no more axes that are cut, mirrored or moved.
pub const MAX_AXES: usize = 8;
/// Words before the axes: how many these are, of the parts how many and which one, behind how many
/// axes of a row in the result they lie, and the rows of a group.
const HEAD_WORDS: usize = 5;
/// Words of an axis: its extent as it is read, that of the window, its number in the result.
const AXIS_WORDS: usize = 3;

/// One axis of a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowAxis {
    pub window: usize,
    /// Bytes from one index to the next as they are read, and in the result.
    pub from: usize,
    pub to: usize,
}

/// A checked arrangement.
#[derive(Clone, Copy, Debug)]
pub struct Arrangement<'a> {
    axes: [RowAxis; MAX_AXES],
    n_axes: usize,
    /// Of each row the axes that are mirrored, a bit each, and where the window begins along each.
    rows: &'a [u64],
    /// Bytes that stay together: those of the axes behind.
    pub item_bytes: usize,
    /// Of a row as it is read.
    pub read_bytes: usize,
    /// Where the part begins in the result, and bytes from one row to the next there.
    first: usize,
    row_bytes: usize,
    /// Rows that follow each other so, and bytes from the first of some to that of the next.
    group: usize,
    group_bytes: usize,
}

impl<'a> Arrangement<'a> {
    /// Read an arrangement of rows that are `read_bytes` together; without words there is no arrangement.
    pub fn parse(
        words: &'a [u64],
        read_bytes: usize,
    ) -> Result<Option<Arrangement<'a>>, &'static str> {
        const WRONG: &str = "the request's arrangement does not fit its rows";
        if words.is_empty() {
            return Ok(None);
        }
        let cut = words.split_first_chunk::<HEAD_WORDS>().ok_or(WRONG)?;
        let (&[n_axes, parts, part, behind, group], rest) = cut;
        let n_axes = usize::try_from(n_axes).map_err(|_| WRONG)?;
        let cut = rest.split_at_checked(AXIS_WORDS.saturating_mul(n_axes));
        let (each, rows) = cut.ok_or(WRONG)?;
        let is_sound = n_axes <= MAX_AXES && rows.len() % (1 + n_axes) == 0;
        let n_rows = rows.len() / (1 + n_axes);
        if !is_sound || n_rows == 0 || read_bytes == 0 || read_bytes % n_rows != 0 {
            return Err(WRONG);
        }
        let mut found = Arrangement {
            axes: [RowAxis::default(); MAX_AXES],
            n_axes,
            rows,
            item_bytes: 0,
            read_bytes: read_bytes / n_rows,
            first: 0,
            row_bytes: 0,
            group: 1,
            group_bytes: 0,
        };
        let order = found.read_axes(each).ok_or(WRONG)?;
        for row in rows.chunks_exact(1 + n_axes) {
            let mut axes = row[1..].iter().zip(each.chunks_exact(AXIS_WORDS));
            if axes.any(|(begin, axis)| *begin > axis[0] - axis[1]) {
                return Err(WRONG);
            }
        }
        let is_group = group > 0 && n_rows as u64 % group == 0 && (behind == 0 || group == 1);
        if part >= parts || behind > n_axes as u64 || !is_group {
            return Err(WRONG);
        }
        let parts = usize::try_from(parts).map_err(|_| WRONG)?;
        found.group = group as usize;
        found.place(&order[..n_axes], behind as usize, parts, part as usize);
        let bytes = n_rows.checked_mul(found.row_bytes.max(found.group_bytes));
        let is_small = bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok());
        is_small.then_some(Some(found)).ok_or(WRONG)
    }

    /// Read the axes, and return them in the order of the result. None: they do not fit a row.
    fn read_axes(&mut self, words: &[u64]) -> Option<[usize; MAX_AXES]> {
        let mut order = [MAX_AXES; MAX_AXES];
        let mut from = self.read_bytes;
        for (axis, words) in words.chunks_exact(AXIS_WORDS).enumerate() {
            let &[extent, window, place] = words else {
                return None;
            };
            let places = order.get_mut(..self.n_axes)?;
            let place = places.get_mut(usize::try_from(place).ok()?)?;
            let is_cut = extent > 0 && (1..=extent).contains(&window);
            if *place != MAX_AXES || !is_cut || from as u64 % extent != 0 {
                return None;
            }
            *place = axis;
            from /= extent as usize;
            (self.axes[axis].window, self.axes[axis].from) = (window as usize, from);
        }
        self.item_bytes = from;
        Some(order)
    }

    /// Find where axes, rows and groups lie in the result. Numbers that are too large saturate.
    fn place(&mut self, order: &[usize], behind: usize, parts: usize, part: usize) {
        let mut bytes = self.item_bytes;
        for (at, &axis) in order.iter().enumerate().rev() {
            if at + 1 == behind {
                self.first = part.saturating_mul(bytes);
                bytes = bytes.saturating_mul(parts);
            }
            self.axes[axis].to = bytes;
            bytes = bytes.saturating_mul(self.axes[axis].window);
        }
        self.row_bytes = bytes;
        self.group_bytes = bytes.saturating_mul(self.group);
        if behind == 0 {
            self.first = part.saturating_mul(self.group_bytes);
            self.group_bytes = self.group_bytes.saturating_mul(parts);
        }
    }

    pub fn axes(&self) -> &[RowAxis] {
        &self.axes[..self.n_axes]
    }

    /// Bytes of the result, with all parts.
    pub fn out_bytes(&self) -> usize {
        self.rows.len() / (1 + self.n_axes) / self.group * self.group_bytes
    }

    /// Where a row begins in the result.
    pub fn begin(&self, number: usize) -> usize {
        let (group, within) = (number / self.group, number % self.group);
        self.first + group * self.group_bytes + within * self.row_bytes
    }

    /// Where bytes of rows begin in the result, if they are the same there.
    pub fn straight(&self, bytes: Range<usize>) -> Option<usize> {
        let (row, within) = (bytes.start / self.read_bytes, bytes.start % self.read_bytes);
        let is_one = within + bytes.len() <= self.read_bytes;
        (self.n_axes == 0 && is_one).then(|| self.begin(row) + within)
    }

    pub fn row(&self, number: usize) -> PlacedRow<'a> {
        let words = &self.rows[number * (1 + self.n_axes)..][..1 + self.n_axes];
        PlacedRow {
            mirrored: words[0],
            begins: &words[1..],
        }
    }
}

/// The draws of one row.
#[derive(Clone, Copy, Debug)]
pub struct PlacedRow<'a> {
    mirrored: u64,
    begins: &'a [u64],
}

impl PlacedRow<'_> {
    pub fn is_mirrored(&self, axis: usize) -> bool {
        self.mirrored >> axis & 1 == 1
    }

    pub fn begin(&self, axis: usize) -> usize {
        self.begins[axis] as usize
    }
}
