//! Copies from a decoded chunk to rows of which it holds a small part each.
//!
//! Law:
//! 1. All distances are worked out once for a chunk, so that the loops over its rows divide nothing.
//! 2. What is contiguous on both sides is copied at once, runs of the common sizes by single moves.
//! 3. A copy is checked as a whole, before its first byte.
//! 4. Pure copying between two slices that the caller gives. That no product of a member's numbers is too
//!    large is checked where a plan is opened (`plan::member`).

use crate::places::Part;
use crate::plan::Member;
use crate::prefetch::prefetch;

/// Rows in far places are asked for so many at a time.
const AHEAD: usize = 64;

/// The runs of a row are listed where a chunk has so many rows, ...
const LISTED_ROWS: u64 = 8;
/// ... and a row no more runs than this.
const MOST_LISTED: usize = 1024;

/// Call a method that is made for runs of a size, or, with 0, for those of any.
macro_rules! of_size {
    ($strides:ident . $method:ident ($($argument:expr),*)) => {
        match $strides.run {
            1 => $strides.$method::<1>($($argument),*),
            2 => $strides.$method::<2>($($argument),*),
            3 => $strides.$method::<3>($($argument),*),
            4 => $strides.$method::<4>($($argument),*),
            8 => $strides.$method::<8>($($argument),*),
            12 => $strides.$method::<12>($($argument),*),
            16 => $strides.$method::<16>($($argument),*),
            32 => $strides.$method::<32>($($argument),*),
            64 => $strides.$method::<64>($($argument),*),
            _ => $strides.$method::<0>($($argument),*),
        }
    };
}

/// So many runs or rows of runs, and the bytes from each to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    count: usize,
    from: usize,
    to: usize,
}

/// Where the elements of a chunk go in rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strides {
    /// What a row is made of, the innermost axis first.
    axes: Vec<Axis>,
    /// Where each run of a row begins, in the chunk and in the row, if this is quicker than the axes.
    runs: Vec<(u32, u32)>,
    /// Bytes that lie together on both sides.
    run: usize,
    /// Where the first run lies in a row of the chunk, and in the row.
    from: usize,
    to: usize,
    /// Bytes from there to the end of the last run.
    from_reach: usize,
    to_reach: usize,
    /// Bytes of a row of the chunk, and of the row.
    from_row: usize,
    to_row: usize,
}

impl Strides {
    /// Those of the chunk whose first element this is.
    pub fn of(member: &Member, offset: &[u64]) -> Strides {
        let mut strides = Strides {
            axes: Vec::new(),
            runs: Vec::new(),
            run: member.field_bytes,
            from: member.field_offset,
            to: 0,
            from_reach: 0,
            to_reach: 0,
            from_row: 0,
            to_row: 0,
        };
        let (mut from, mut to) = (member.element_bytes, member.field_bytes);
        for axis in (1..member.dims.len()).rev() {
            let (dim, chunk) = (member.dims[axis], member.chunk_dims[axis]);
            strides.to += offset[axis] as usize * to;
            let count = dim.saturating_sub(offset[axis]).min(chunk) as usize;
            strides.push(Axis { count, from, to });
            (from, to) = (from * chunk as usize, to * dim as usize);
        }
        (strides.from_row, strides.to_row) = (from, to);
        strides.from_reach = strides.reach(|axis| axis.from);
        strides.to_reach = strides.reach(|axis| axis.to);
        if member.chunk_dims[0] >= LISTED_ROWS {
            strides.list();
        }
        strides
    }

    /// List the runs of a row, where the loops over short axes would cost more than the list.
    fn list(&mut self) {
        let count: usize = self.axes.iter().map(|axis| axis.count).product();
        let is_far = self.from_reach.max(self.to_reach) > u32::MAX as usize;
        if self.axes.len() < 2 || count > MOST_LISTED || is_far {
            return;
        }
        self.runs.push((0, 0));
        for axis in &self.axes {
            let inner = self.runs.len();
            for i in 1..axis.count {
                let (from, to) = ((i * axis.from) as u32, (i * axis.to) as u32);
                for run in 0..inner {
                    let (a, b) = self.runs[run];
                    self.runs.push((a + from, b + to));
                }
            }
        }
    }

    /// Put an axis around those that there are.
    fn push(&mut self, axis: Axis) {
        match self.axes.last_mut() {
            _ if axis.count == 1 => {}
            None if axis.from == self.run && axis.to == self.run => {
                self.run *= axis.count;
            }
            Some(last)
                if last.from * last.count == axis.from && last.to * last.count == axis.to =>
            {
                last.count *= axis.count;
            }
            _ => self.axes.push(axis),
        }
    }

    fn reach(&self, distance: impl Fn(&Axis) -> usize) -> usize {
        let last = |axis: &Axis| axis.count.saturating_sub(1) * distance(axis);
        self.axes.iter().map(last).sum::<usize>() + self.run
    }

    /// Of each row the chunk has only runs of fewer bytes than this.
    pub fn has_less_than(&self, bytes: usize) -> bool {
        self.run < bytes && self.to_reach < self.to_row
    }

    /// Copy to these rows, which follow each other, from row `first` of the chunk on.
    pub fn copy(&self, decoded: &[u8], first: u64, rows: &mut [u8]) {
        let count = rows.len() / self.to_row.max(1);
        of_size!(self.copy_rows(decoded, first, count, rows))
    }

    fn copy_rows<const N: usize>(&self, decoded: &[u8], first: u64, count: usize, rows: &mut [u8]) {
        if count == 0 || self.is_empty() {
            return;
        }
        let decoded = &decoded[first as usize * self.from_row + self.from..];
        let decoded = &decoded[..reach(count, self.from_row, self.from_reach)];
        let rows = &mut rows[self.to..][..reach(count, self.to_row, self.to_reach)];
        if self.run == self.from_row && self.run == self.to_row {
            return rows.copy_from_slice(decoded);
        }
        let (from, to) = (decoded.as_ptr(), rows.as_mut_ptr());
        if self.axes.is_empty() {
            let rows = [Axis {
                count,
                from: self.from_row,
                to: self.to_row,
            }];
            // SAFETY: the slices hold what these rows reach, as just cut.
            return unsafe { walk::<N>(&rows, self.run, from, to) };
        }
        for row in 0..count {
            let (a, b) = (row * self.from_row, row * self.to_row);
            // SAFETY: the slices hold what these rows reach, as just cut.
            unsafe { self.copy_row::<N>(from.add(a), to.add(b)) };
        }
    }

    /// # Safety
    /// Memory to read and to write reaches as far as a row does.
    unsafe fn copy_row<const N: usize>(&self, from: *const u8, to: *mut u8) {
        if self.runs.is_empty() {
            // SAFETY: the caller's promise.
            return unsafe { walk::<N>(&self.axes, self.run, from, to) };
        }
        for &(a, b) in &self.runs {
            // SAFETY: the caller's promise: runs are what the axes reach.
            unsafe { copy::<N>(from.add(a as usize), to.add(b as usize), self.run) };
        }
    }

    /// Copy each wanted row to its place in a window; row `first` of the dataset is the chunk's first.
    pub fn scatter(&self, decoded: &[u8], first: u64, part: Part<'_>, window: &mut [u8]) {
        let (seats, range) = part;
        if !seats.is_mixed() {
            for run in seats.runs(range) {
                let at = run.place as usize * self.to_row;
                let rows = &mut window[at..at + run.rows * self.to_row];
                self.copy(decoded, run.row - first, rows);
            }
            return;
        }
        let part = (seats, range);
        of_size!(self.scatter_rows(decoded, first, part, window))
    }

    fn scatter_rows<const N: usize>(
        &self,
        decoded: &[u8],
        first: u64,
        (seats, range): Part<'_>,
        window: &mut [u8],
    ) {
        if self.is_empty() {
            return;
        }
        for begin in range.clone().step_by(AHEAD) {
            let range = begin..(begin + AHEAD).min(range.end);
            seats.each(range.clone(), |_, place| {
                prefetch(&mut window[place as usize * self.to_row + self.to]);
            });
            seats.each(range, |row, place| {
                let from = (row - first) as usize * self.from_row + self.from;
                let to = place as usize * self.to_row + self.to;
                let from = &decoded[from..][..self.from_reach];
                let to = &mut window[to..][..self.to_reach];
                // SAFETY: the slices hold what a row reaches, as just cut.
                unsafe { self.copy_row::<N>(from.as_ptr(), to.as_mut_ptr()) };
            });
        }
    }

    /// There is nothing to copy.
    fn is_empty(&self) -> bool {
        self.run == 0 || self.axes.iter().any(|axis| axis.count == 0)
    }
}

/// What rows reach of which each reaches so many bytes.
fn reach(rows: usize, distance: usize, each: usize) -> usize {
    (rows - 1) * distance + each
}

/// Copy all runs of some axes. Of `N` bytes, if that is not 0.
///
/// # Safety
/// Memory to read and to write reaches as far as the axes and the last run do.
unsafe fn walk<const N: usize>(axes: &[Axis], run: usize, from: *const u8, to: *mut u8) {
    match axes {
        // SAFETY: the caller's promise.
        [] => unsafe { copy::<N>(from, to, run) },
        [line] => {
            for i in 0..line.count {
                // SAFETY: inside what the axis reaches.
                unsafe { copy::<N>(from.add(i * line.from), to.add(i * line.to), run) };
            }
        }
        [inner @ .., outer] => {
            for i in 0..outer.count {
                // SAFETY: inside what the axis reaches.
                unsafe { walk::<N>(inner, run, from.add(i * outer.from), to.add(i * outer.to)) };
            }
        }
    }
}

/// Copy a run: of `N` bytes, if that is not 0.
///
/// # Safety
/// So many bytes may be read and written, and are not the same.
#[inline(always)]
unsafe fn copy<const N: usize>(from: *const u8, to: *mut u8, run: usize) {
    let len = if N == 0 { run } else { N };
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::plan::Fingerprint;
    use crate::seats::Seats;
    use crate::testing::Dice;

    pub fn member(
        dims: &[u64],
        chunk_dims: &[u64],
        element: usize,
        field: (usize, usize),
    ) -> Member {
        Member {
            row_bytes: dims[1..].iter().product::<u64>() as usize * field.1,
            tape_at: 0,
            tape_bytes: 0,
            element_bytes: element,
            field_offset: field.0,
            field_bytes: field.1,
            dims: dims.to_vec(),
            chunk_dims: chunk_dims.to_vec(),
            filters: Vec::new(),
            fill: Vec::new(),
            fixes: Vec::new(),
            filename: Vec::new(),
            fingerprint: Fingerprint {
                device: 0,
                inode: 0,
                size_bytes: 0,
                mtime_ns: 0,
            },
            direct: false,
            clipped: false,
            turnstile: false,
            kept: false,
            by_library: false,
            grid_at: 0,
            library: String::new(),
            decoded_size: chunk_dims.iter().product::<u64>() as usize * element,
        }
    }

    /// Byte `byte` of the element at an index of the dataset.
    fn value(member: &Member, index: &[u64], byte: usize) -> u8 {
        let place = |flat, (&i, &dim): (&u64, &u64)| flat * dim + i;
        let flat = index.iter().zip(&member.dims).fold(0, place);
        ((flat * 31 + byte as u64 * 7) % 251) as u8
    }

    fn indices(begins: &[u64], counts: &[u64]) -> Vec<Vec<u64>> {
        begins
            .iter()
            .zip(counts)
            .fold(vec![vec![]], |all, (&begin, &count)| {
                let longer = |index: &Vec<u64>| {
                    let index = index.clone();
                    (begin..begin + count).map(move |i| [index.clone(), vec![i]].concat())
                };
                all.iter().flat_map(longer).collect()
            })
    }

    /// The bytes of a chunk; what lies outside the dataset is junk.
    fn decoded(member: &Member, offset: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for index in indices(offset, &member.chunk_dims) {
            let inside = index.iter().zip(&member.dims).all(|(i, dim)| i < dim);
            let element = (0..member.element_bytes).map(|byte| value(member, &index, byte));
            bytes.extend(element.map(|byte| if inside { byte } else { 0xEE }));
        }
        bytes
    }

    /// What the chunk has of a row; other bytes are `empty`.
    fn row(member: &Member, offset: &[u64], row: u64, empty: u8) -> Vec<u8> {
        let inner = indices(&vec![0; member.dims.len() - 1], &member.dims[1..]);
        let fields = inner.iter().flat_map(|inner| {
            let index = [&[row], &inner[..]].concat();
            let mut own = index.iter().zip(offset).zip(&member.chunk_dims);
            let is_own = own.all(|((i, begin), count)| (*begin..begin + count).contains(i));
            (0..member.field_bytes).map(move |byte| match is_own {
                true => value(member, &index, member.field_offset + byte),
                false => empty,
            })
        });
        fields.collect()
    }

    fn offsets(member: &Member) -> Vec<Vec<u64>> {
        let grid = |(dim, chunk): (&u64, &u64)| dim.div_ceil(*chunk);
        let grid: u64 = member
            .dims
            .iter()
            .zip(&member.chunk_dims)
            .map(grid)
            .product();
        let mut offset = Vec::new();
        let of = |chunk| {
            member.chunk_offset(chunk, &mut offset);
            offset.clone()
        };
        (0..grid).map(of).collect()
    }

    fn check(member: &Member, dice: &mut Dice) {
        let size = member.row_bytes;
        for offset in offsets(member) {
            let strides = Strides::of(member, &offset);
            let chunk = decoded(member, &offset);
            let end = (offset[0] + member.chunk_dims[0]).min(member.dims[0]);

            let begin = offset[0] + dice.below(end - offset[0]);
            let mut rows = vec![0xA5; (end - begin) as usize * size];
            strides.copy(&chunk, begin - offset[0], &mut rows);
            for (number, got) in (begin..end).zip(rows.chunks_exact(size)) {
                assert_eq!(got, row(member, &offset, number, 0xA5));
            }

            let mut places: Vec<u32> = (0..(end - offset[0]) as u32 + 3).collect();
            for last in (1..places.len()).rev() {
                places.swap(last, dice.below(last as u64 + 1) as usize);
            }
            let (mut runs, mut mixed) = (Seats::default(), Seats::default());
            for (number, &place) in (offset[0]..end).zip(&places) {
                runs.push(number, number as u32 - offset[0] as u32, 1);
                mixed.push_mixed(number, &[place]);
            }
            for seats in [runs, mixed] {
                let mut window = vec![0x5A; places.len() * size];
                let count = seats.count();
                let cut = dice.below(count as u64 + 1) as usize;
                strides.scatter(&chunk, offset[0], (&seats, 0..cut), &mut window);
                strides.scatter(&chunk, offset[0], (&seats, cut..count), &mut window);
                let mut expected = vec![0x5A; window.len()];
                seats.each(0..count, |number, place| {
                    let wanted = row(member, &offset, number, 0x5A);
                    expected[place as usize * size..][..size].copy_from_slice(&wanted);
                });
                assert!(
                    window == expected,
                    "{:?} {:?}",
                    member.dims,
                    member.chunk_dims
                );
            }
        }
    }

    #[test]
    fn chunks_of_any_shape_land_in_rows() {
        let mut dice = Dice(5);
        for case in 0..400 {
            let n = 1 + dice.below(4) as usize;
            let outer = [3, 20][case % 2]; // with and without a list of runs
            let mut dims = vec![1 + dice.below(outer)];
            let mut chunk_dims = vec![1 + dice.below(outer)];
            for _ in 1..n {
                let dim = 1 + dice.below(5);
                dims.push(dim);
                chunk_dims.push([1, dim, 1 + dice.below(6)][dice.below(3) as usize]);
            }
            let element = [1, 2, 3, 4, 8, 12, 16, 5, 32][dice.below(9) as usize];
            let field = match dice.below(3) {
                0 => {
                    let begin = dice.below(element as u64) as usize;
                    (begin, 1 + dice.below((element - begin) as u64) as usize)
                }
                _ => (0, element),
            };
            check(&member(&dims, &chunk_dims, element, field), &mut dice);
        }
    }

    #[test]
    fn long_runs_and_long_lists_land_in_rows() {
        let mut dice = Dice(6);
        check(&member(&[9, 40, 30], &[9, 39, 29], 1, (0, 1)), &mut dice);
        check(&member(&[9, 40, 30], &[9, 7, 13], 64, (0, 64)), &mut dice);
        check(
            &member(&[9, 3, 40, 30, 2], &[8, 2, 40, 29, 1], 1, (0, 1)),
            &mut dice,
        );
    }

    #[test]
    fn little_is_told_from_whole_rows() {
        let little = |dims: &[u64], chunk_dims: &[u64], element, field| {
            let member = member(dims, chunk_dims, element, field);
            Strides::of(&member, &vec![0; dims.len()]).has_less_than(256)
        };
        assert!(little(&[90, 64], &[90, 2], 4, (0, 4)));
        assert!(little(&[90, 32, 32, 3], &[90, 4, 4, 1], 1, (0, 1)));
        assert!(!little(&[90, 64], &[9, 64], 4, (0, 4)));
        assert!(
            !little(&[90, 64], &[9, 64], 8, (4, 4)),
            "a field of whole rows"
        );
        assert!(!little(&[90], &[9], 4, (0, 4)));
        assert!(!little(&[90, 128], &[9, 64], 4, (0, 4)));
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_chunk_that_is_too_short_is_not_read_behind() {
        let strides = Strides::of(&member(&[9, 4, 3], &[9, 2, 1], 1, (0, 1)), &[0, 0, 0]);
        strides.copy(&[0; 17], 0, &mut [0; 108]);
    }
}
