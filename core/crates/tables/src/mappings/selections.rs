//! Selections as start, stride, count and block along each axis, where they are regular.

use hdf5_format::virtual_layout::Selection;

/// Larger numbers, and products, are no numbers of elements.
const TOO_LARGE: i128 = 1 << 62;

/// Along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    pub start: u64,
    pub stride: u64,
    pub count: u64,
    pub block: u64,
}

impl Axis {
    pub const fn new([start, stride, count, block]: [u64; 4]) -> Axis {
        Axis {
            start,
            stride,
            count,
            block,
        }
    }

    pub fn n_elements(&self) -> u64 {
        self.count.saturating_mul(self.block)
    }

    /// Behind the last element.
    pub fn end(&self) -> i128 {
        let [start, stride, count, block] =
            [self.start, self.stride, self.count, self.block].map(i128::from);
        start + stride * (count - 1) + block
    }

    fn fits(&self) -> bool {
        let numbers = [self.start, self.stride, self.count, self.block];
        let are_small = numbers.iter().all(|&number| i128::from(number) < TOO_LARGE);
        let elements = i128::from(self.count) * i128::from(self.block);
        are_small && self.end() < TOO_LARGE && elements < TOO_LARGE
    }

    /// All its elements, in their order.
    pub fn coordinates(&self) -> impl Iterator<Item = u64> {
        let Axis {
            start,
            stride,
            count,
            block,
        } = *self;
        (0..count).flat_map(move |at| (0..block).map(move |step| start + at * stride + step))
    }
}

/// Start, stride, count and block along each axis of a dataspace of these dims, if that is all.
pub fn regular(selection: &Selection, dims: &[u64]) -> Option<Vec<Axis>> {
    let axes: Vec<Axis> = match selection {
        Selection::All => dims.iter().map(|&dim| Axis::new([0, 1, 1, dim])).collect(),
        Selection::Regular(axes) if axes.len() == dims.len() => {
            axes.iter().copied().map(Axis::new).collect()
        }
        Selection::Blocks { bounds, .. } => of_blocks(bounds, dims.len())?,
        _ => return None,
    };
    axes.iter().all(Axis::fits).then_some(axes)
}

fn of_blocks(bounds: &[u64], rank: usize) -> Option<Vec<Axis>> {
    if rank == 0 || bounds.is_empty() || bounds.len() % (2 * rank) != 0 {
        return None;
    }
    let blocks = bounds.chunks_exact(2 * rank);
    let n_blocks = blocks.len() as u64;
    let mut axes = Vec::with_capacity(rank);
    let mut n_places = 1u64;
    for axis in 0..rank {
        let block = bounds[rank + axis]
            .checked_sub(bounds[axis])?
            .checked_add(1)?;
        let mut starts = Vec::with_capacity(blocks.len());
        for one in blocks.clone() {
            if one[rank + axis].checked_sub(one[axis])?.checked_add(1)? != block {
                return None;
            }
            starts.push(one[axis]);
        }
        starts.sort_unstable();
        starts.dedup();
        let stride = starts.get(1).map_or(1, |second| second - starts[0]);
        if starts.windows(2).any(|pair| pair[1] - pair[0] != stride) {
            return None;
        }
        let count = starts.len() as u64;
        n_places = n_places.checked_mul(count)?;
        axes.push(Axis::new([starts[0], stride, count, block]));
    }
    let mut firsts: Vec<&[u64]> = blocks.map(|one| &one[..rank]).collect();
    firsts.sort_unstable();
    firsts.dedup();
    (firsts.len() as u64 == n_blocks && n_blocks == n_places).then_some(axes)
}

/// First element and length along each axis, if the selection is a box inside of these dims.
pub fn boxed(selection: &Selection, dims: &[u64]) -> Option<Vec<(u64, u64)>> {
    let axes = regular(selection, dims)?;
    let is_box = axes.iter().zip(dims).all(|(axis, &dim)| {
        (axis.count == 1 || axis.stride == axis.block) && axis.start + axis.n_elements() <= dim
    });
    let each = axes.iter().map(|axis| (axis.start, axis.n_elements()));
    is_box.then(|| each.collect())
}

/// Pair axes along which all boxes are equally long; others are one element long. The first lengths are
/// of the virtual dataset.
pub fn paired_axes(lengths: &[Vec<u64>], in_source: &[Vec<u64>]) -> Option<Vec<(usize, usize)>> {
    let ranks = (lengths.first()?.len(), in_source.first()?.len());
    if lengths == in_source {
        return Some((0..ranks.0).map(|axis| (axis, axis)).collect());
    }
    let is_longer = ranks.0 >= ranks.1;
    let (more, less) = if is_longer {
        (lengths, in_source)
    } else {
        (in_source, lengths)
    };
    let (mut pairs, mut number) = (Vec::new(), 0);
    // An axis that could be paired with a later one, too, is one element long: the first will do.
    for axis in 0..ranks.0.max(ranks.1) {
        let is_pair = number < ranks.0.min(ranks.1)
            && more
                .iter()
                .zip(less)
                .all(|(more, less)| more[axis] == less[number]);
        if is_pair {
            pairs.push(if is_longer {
                (axis, number)
            } else {
                (number, axis)
            });
            number += 1;
        } else if more.iter().any(|more| more[axis] != 1) {
            return None;
        }
    }
    (number == ranks.0.min(ranks.1)).then_some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_a_grid_are_regular() {
        let blocks = |bounds: &[u64]| {
            let (rank, bounds) = (2, bounds.to_vec());
            regular(&Selection::Blocks { rank, bounds }, &[10, 10])
        };
        let grid = [0, 1, 1, 1, 0, 4, 1, 4, 5, 1, 6, 1, 5, 4, 6, 4];
        let expected = [[0, 5, 2, 2], [1, 3, 2, 1]].map(Axis::new);
        assert_eq!(blocks(&grid), Some(expected.to_vec()));
        assert_eq!(blocks(&grid[..12]), None); // a corner is missing
        assert_eq!(blocks(&[3, 3, 2, 3]), None); // it ends before it begins
        assert_eq!(blocks(&[0, 0, u64::MAX, 0]), None);
        assert_eq!(
            regular(&Selection::Regular(vec![[0, 1, u64::MAX, 1]]), &[4]),
            None
        );
    }

    #[test]
    fn axes_of_one_element_have_no_pair() {
        let paired = |a: &[u64], b: &[u64]| paired_axes(&[a.to_vec()], &[b.to_vec()]);
        assert_eq!(paired(&[1, 5], &[5]), Some(vec![(1, 0)]));
        assert_eq!(paired(&[5], &[5, 1]), Some(vec![(0, 0)]));
        assert_eq!(paired(&[2, 5], &[5]), None);
        assert_eq!(paired(&[5], &[4]), None);
    }
}
