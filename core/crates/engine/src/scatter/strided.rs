//! The copy of items between two layouts, in NumPy's words: itemsize, shape and strides.
//!
//! Law:
//! 1. Distances are worked out once for a chunk, so the loops over its items divide nothing.
//! 2. What is contiguous on both sides is one item. Items of the common sizes are single moves.
//! 3. A copy is checked as a whole, before its first byte. Sums saturate, so no number in a file
//!    gets past that check.
//! 4. Pure copying between memory that the caller gives; only the items themselves are written.

use crate::scatter::out::Out;
use std::ops::Range;

/// Axes of at least this many indices around a block pay for the list of its items, ...
pub const MIN_LISTED_FOR: usize = 8;
/// ... if it has at most this many, on more than one axis.
const MAX_LISTED: usize = 1024;

/// Call a function made for items of this size, or, with 0, for those of any size.
macro_rules! of_size {
    ($size:expr, $function:ident($($argument:expr),*)) => {
        match $size {
            1 => Self::$function::<1>($($argument),*),
            2 => Self::$function::<2>($($argument),*),
            3 => Self::$function::<3>($($argument),*),
            4 => Self::$function::<4>($($argument),*),
            8 => Self::$function::<8>($($argument),*),
            12 => Self::$function::<12>($($argument),*),
            16 => Self::$function::<16>($($argument),*),
            32 => Self::$function::<32>($($argument),*),
            64 => Self::$function::<64>($($argument),*),
            _ => Self::$function::<0>($($argument),*),
        }
    };
}
pub(super) use of_size;

/// A length of a shape, and the stride along it on each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    pub count: usize,
    pub from: isize,
    pub to: usize,
}

impl Axis {
    /// Bytes from the first index to the last, on the side that is read.
    fn read_reach(&self) -> usize {
        let steps = self.count.saturating_sub(1);
        steps.saturating_mul(self.from.unsigned_abs())
    }

    /// How many of them are below the first index.
    fn reach_below(&self) -> usize {
        if self.from < 0 { self.read_reach() } else { 0 }
    }

    fn write_reach(&self) -> usize {
        self.count.saturating_sub(1).saturating_mul(self.to)
    }

    /// What is read of blocks of `len` bytes, of which the first begins at `at`.
    fn cut_from<'a>(&self, at: usize, len: usize, from: &'a [u8]) -> &'a [u8] {
        let begin = at.wrapping_sub(self.reach_below());
        &from[begin..][..self.read_reach().saturating_add(len)]
    }

    /// As far as that is written.
    fn reach_to(&self, at: usize, len: usize) -> Range<usize> {
        at..at.saturating_add(self.write_reach().saturating_add(len))
    }

    /// Copy an item of this size for each index.
    #[inline]
    pub fn copy_items(self, size: usize, a: usize, from: &[u8], b: usize, mut to: Out<'_>) {
        if self.count > 0 {
            let (from, reach) = (self.cut_from(a, size, from), self.reach_to(b, size));
            if self.from == size as isize && self.to == size {
                return to.part(reach).copy_from_slice(from);
            }
            of_size!(size, copy_cut_items(self, size, from, to.cut(reach)));
        }
    }

    /// Copy the items that were cut.
    fn copy_cut_items<const N: usize>(self, size: usize, from: &[u8], mut to: Out<'_>) {
        // SAFETY: both hold what the items reach, as `copy_items` cut them.
        unsafe {
            let from = from.as_ptr().add(self.reach_below());
            self.each(from, to.base(), |from, to| copy_item::<N>(size, from, to));
        }
    }

    /// Call `f` with where each index begins.
    ///
    /// # Safety
    /// Both pointers stay inside their memory along the axis.
    #[inline(always)]
    unsafe fn each(self, from: *const u8, to: *mut u8, mut f: impl FnMut(*const u8, *mut u8)) {
        for i in 0..self.count {
            // SAFETY: the caller's promise.
            unsafe { f(from.offset(i as isize * self.from), to.add(i * self.to)) };
        }
    }
}

/// A block of items, and where it lies on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StridedCopy {
    pub(super) itemsize: usize,
    /// Offsets of all items of the innermost axes, where a list is quicker than loops. Else empty.
    items: Vec<(i32, u32)>,
    /// The other axes, the innermost first.
    axes: Vec<Axis>,
    /// The lowest byte that is read; from there, the first item, and the end of the highest one.
    pub(super) from: usize,
    from_first: usize,
    pub(super) from_len: usize,
    /// The same on the side that is written, where no stride is negative.
    pub(crate) to: usize,
    pub(super) to_len: usize,
}

impl StridedCopy {
    pub fn item(itemsize: usize, from: usize, to: usize) -> StridedCopy {
        StridedCopy {
            itemsize,
            items: Vec::new(),
            axes: Vec::new(),
            from,
            from_first: 0,
            from_len: itemsize,
            to,
            to_len: itemsize,
        }
    }

    /// Move the block by this many bytes on each side.
    pub fn shift(&mut self, from: usize, to: usize) {
        (self.from, self.to) = (self.from.wrapping_add(from), self.to.wrapping_add(to));
    }

    /// Repeat the block along an axis.
    pub fn push(&mut self, axis: Axis) {
        let size = self.itemsize;
        let is_item = self.is_item();
        self.from = self.from.wrapping_sub(axis.reach_below());
        self.from_first = self.from_first.saturating_add(axis.reach_below());
        self.from_len = self.from_len.saturating_add(axis.read_reach());
        self.to_len = self.to_len.saturating_add(axis.write_reach());
        match self.axes.last_mut() {
            _ if axis.count == 1 => {}
            None if is_item && axis.from == size as isize && axis.to == size => {
                self.itemsize = size.saturating_mul(axis.count);
            }
            Some(last)
                if last.from.wrapping_mul(last.count as isize) == axis.from
                    && last.to.wrapping_mul(last.count) == axis.to =>
            {
                last.count = last.count.saturating_mul(axis.count);
            }
            _ => self.axes.push(axis),
        }
    }

    /// List the items of the axes, where loops over short ones would cost more than the list.
    pub fn list(&mut self) {
        let count = self.count();
        let is_far = self.from_len.max(self.to_len) > i32::MAX as usize;
        if self.axes.len() < 2 || !(1..=MAX_LISTED).contains(&count) || is_far {
            return;
        }
        self.items.push((0, 0));
        for axis in self.axes.drain(..) {
            let inner = self.items.len();
            for i in 1..axis.count {
                let (from, to) = (i as i32 * axis.from as i32, (i * axis.to) as u32);
                for item in 0..inner {
                    let (a, b) = self.items[item];
                    self.items.push((a + from, b + to));
                }
            }
        }
    }

    #[inline]
    pub fn is_item(&self) -> bool {
        self.axes.is_empty() && self.items.is_empty()
    }

    fn count(&self) -> usize {
        let axes = self.axes.iter().map(|axis| axis.count);
        axes.fold(self.items.len().max(1), usize::saturating_mul)
    }

    /// The bytes that are copied.
    pub fn bytes(&self) -> usize {
        self.count().saturating_mul(self.itemsize)
    }

    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Copy the block once for each of these positions: bytes from which both sides count.
    pub fn copy_at(
        &self,
        positions: impl Iterator<Item = (usize, usize)>,
        from: &[u8],
        to: Out<'_>,
    ) {
        of_size!(self.itemsize, copy_at_sized(self, positions, from, to));
    }

    fn copy_at_sized<const N: usize>(
        &self,
        positions: impl Iterator<Item = (usize, usize)>,
        from: &[u8],
        mut to: Out<'_>,
    ) {
        if !self.is_empty() {
            positions.for_each(|(a, b)| self.copy_block::<N>(a, from, b, to.lend()));
        }
    }

    /// Copy a block that is not empty, with items of `N` bytes or, if that is 0, of any size.
    #[inline(always)]
    pub(super) fn copy_block<const N: usize>(
        &self,
        a: usize,
        from: &[u8],
        b: usize,
        mut to: Out<'_>,
    ) {
        debug_assert!(N == 0 || N == self.itemsize);
        let (a, b) = (a.wrapping_add(self.from), b.wrapping_add(self.to));
        if self.is_item() {
            let size = if N == 0 { self.itemsize } else { N };
            return to.part(b..b + size).copy_from_slice(&from[a..a + size]);
        }
        let from = &from[a..][..self.from_len];
        let mut to = to.cut(b..b.saturating_add(self.to_len));
        // SAFETY: both hold what the block reaches, as just cut.
        unsafe {
            let from = from.as_ptr().add(self.from_first);
            let (to, size) = (to.base(), self.itemsize);
            match self.axes.is_empty() {
                true => copy_items::<N>(&self.items, size, from, to),
                false => self.copy_axes::<N>(&self.axes, from, to),
            }
        }
    }

    /// Copy the block along one more axis, from position `a` to position `b`.
    pub fn copy_along(&self, axis: Axis, a: usize, from: &[u8], b: usize, mut to: Out<'_>) {
        let (a, b) = (a.wrapping_add(self.from), b.wrapping_add(self.to));
        if self.is_item() {
            return axis.copy_items(self.itemsize, a, from, b, to);
        }
        if axis.count == 0 || self.is_empty() {
            return;
        }
        let from = axis.cut_from(a, self.from_len, from);
        let to = to.cut(axis.reach_to(b, self.to_len));
        of_size!(self.itemsize, copy_cut(self, axis, from, to));
    }

    /// Copy along an axis what was cut for it.
    fn copy_cut<const N: usize>(&self, axis: Axis, from: &[u8], mut to: Out<'_>) {
        // SAFETY: both hold what the block reaches along the axis, as `copy_along` cut them.
        unsafe {
            let from = from.as_ptr().add(axis.reach_below() + self.from_first);
            self.copy_line::<N>(axis, &self.axes, from, to.base());
        }
    }

    /// # Safety
    /// Memory to read and to write reaches as far as the axes and the items in them do.
    #[inline(never)]
    unsafe fn copy_axes<const N: usize>(&self, axes: &[Axis], from: *const u8, to: *mut u8) {
        match axes {
            // SAFETY: the caller's promise.
            [] => unsafe { copy_items::<N>(&self.items, self.itemsize, from, to) },
            // SAFETY: the caller's promise.
            [inner @ .., outer] => unsafe { self.copy_line::<N>(*outer, inner, from, to) },
        }
    }

    /// # Safety
    /// As of `copy_axes`, for an axis around others.
    #[inline(always)]
    unsafe fn copy_line<const N: usize>(
        &self,
        axis: Axis,
        inner: &[Axis],
        from: *const u8,
        to: *mut u8,
    ) {
        let (items, size) = (&self.items[..], self.itemsize);
        // SAFETY: the caller's promise, for all of this function.
        unsafe {
            let item = |from, to| copy_item::<N>(size, from, to);
            match (inner, items) {
                ([], []) => axis.each(from, to, item),
                ([], _) => axis.each(from, to, |from, to| copy_items::<N>(items, size, from, to)),
                ([line], []) => axis.each(from, to, |from, to| line.each(from, to, item)),
                _ => axis.each(from, to, |from, to| self.copy_axes::<N>(inner, from, to)),
            }
        }
    }
}

/// # Safety
/// Memory to read and to write reaches as far as the items do.
#[inline(always)]
unsafe fn copy_items<const N: usize>(
    items: &[(i32, u32)],
    size: usize,
    from: *const u8,
    to: *mut u8,
) {
    for &(a, b) in items {
        // SAFETY: the caller's promise.
        unsafe { copy_item::<N>(size, from.offset(a as isize), to.add(b as usize)) };
    }
}

/// Copy one item: of `N` bytes, or, if that is 0, of `size`.
///
/// # Safety
/// This many bytes may be read and written, and do not overlap.
#[inline(always)]
unsafe fn copy_item<const N: usize>(size: usize, from: *const u8, to: *mut u8) {
    let len = if N == 0 { size } else { N };
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::fixtures::XorShift64;

    /// Offsets of all items of axes, the innermost first.
    fn offsets(axes: &[Axis]) -> Vec<(isize, usize)> {
        axes.iter().rev().fold(vec![(0, 0)], |outer, axis| {
            let along = |&(a, b): &(isize, usize)| {
                let axis = *axis;
                (0..axis.count).map(move |i| (a + i as isize * axis.from, b + i * axis.to))
            };
            outer.iter().flat_map(along).collect()
        })
    }

    #[test]
    fn strides_of_either_sign_copy_what_single_items_do() {
        let mut random = XorShift64(7);
        for case in 0..2000 {
            let itemsize = [1, 2, 3, 4, 5, 8, 12, 16, 32, 64, 70][case % 11];
            let (mut axes, mut to) = (Vec::new(), itemsize);
            for _ in 0..random.below(5) {
                let count = 1 + random.below(4) as usize;
                let distance = random.below(3 * itemsize as u64) as isize;
                let from = [itemsize as isize, distance, -distance][random.below(3) as usize];
                axes.push(Axis { count, from, to });
                to = to * count + [0, 3][random.below(2) as usize];
            }
            let (base, origin) = (4000usize, 5);
            let chunk: Vec<u8> = (0..8000).map(|_| random.below(256) as u8).collect();
            let mut expected = vec![0xA5; 2 * origin + to * 4];
            for (from, to) in offsets(&axes) {
                let from = base.wrapping_add_signed(from);
                expected[origin + to..][..itemsize].copy_from_slice(&chunk[from..][..itemsize]);
            }
            for (listed, split) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
                let (inner, outer) = axes.split_at(axes.len().saturating_sub(split));
                let mut copy = StridedCopy::item(itemsize, 0, origin);
                copy.shift(base - 100, 0);
                for (at, axis) in inner.iter().enumerate() {
                    if listed && at + 1 == inner.len() {
                        copy.list();
                    }
                    copy.push(*axis);
                }
                let mut out = vec![0xA5; expected.len()];
                match outer.first() {
                    Some(outer) => copy.copy_along(*outer, 100, &chunk, 0, Out::of(&mut out)),
                    None => copy.copy_at([(100, 0)].into_iter(), &chunk, Out::of(&mut out)),
                }
                assert!(out == expected, "{itemsize} bytes, {axes:?}");
            }
        }
    }

    /// Both sides are large enough for wrapped sums to be inside them.
    #[test]
    fn strides_beyond_the_memory_copy_nothing() {
        let half = isize::MAX / 2 + 1;
        for (count, from, to) in [
            (3, half, 1),
            (3, half, half as usize),
            (5, -half, 1),
            (5, 1, usize::MAX / 4 + 1),
            (usize::MAX, 1, 1),
            (usize::MAX, isize::MIN, 0),
        ] {
            let axis = Axis { count, from, to };
            let (chunk, mut out) = ([1; 64], [0; 64]);
            let mut is_refused = |copy: &mut dyn FnMut(Out<'_>)| {
                let call = std::panic::AssertUnwindSafe(|| copy(Out::of(&mut out)));
                std::panic::catch_unwind(call).is_err()
            };
            let item = StridedCopy::item(1, 8, 8);
            assert!(is_refused(
                &mut |out| item.copy_along(axis, 0, &chunk, 0, out)
            ));
            let mut block = item.clone();
            block.push(axis);
            block.push(Axis { count: 2, ..axis });
            assert!(is_refused(&mut |out| block.copy_at(
                [(0, 0)].into_iter(),
                &chunk,
                out
            )));
            assert_eq!(out, [0; 64]);
        }
    }
}
