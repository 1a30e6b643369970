//! Numbers less a mean, divided by a deviation, which may be those of their place in a row.
//!
//! Law:
//! 1. As NumPy: `(number - mean) / deviation`, each step rounded to the type of the numbers.
//! 2. Chunks that lie beside each other in a row have tables of their own, in the order of their
//!    elements. What lies behind the end of an axis has any values.

/// The most numbers of all tables together.
pub const MAX_TABLES: usize = 1 << 25;
/// Tables are repeated up to this many numbers, and shorter runs are written out.
const MIN_LEN: usize = 64;

/// A float that numbers are scaled in.
pub trait Float: Copy {
    fn of(number: f64) -> Self;
    /// Scale the floats in these bytes, all by one mean and deviation.
    fn by_one(bytes: &mut [u8], mean: Self, deviation: Self);
    /// Scale floats, each by its own mean and deviation; all slices have the same length.
    fn by_each(bytes: &mut [u8], means: &[Self], deviations: &[Self]);
}

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Float for $type {
            fn of(number: f64) -> $type {
                number as $type
            }

            fn by_one(bytes: &mut [u8], mean: $type, deviation: $type) {
                for bytes in bytes.chunks_exact_mut(size_of::<$type>()) {
                    let number = <$type>::from_ne_bytes(bytes.try_into().expect("one number"));
                    bytes.copy_from_slice(&((number - mean) / deviation).to_ne_bytes());
                }
            }

            fn by_each(bytes: &mut [u8], means: &[$type], deviations: &[$type]) {
                let bytes = bytes.chunks_exact_mut(size_of::<$type>());
                for (bytes, (mean, deviation)) in bytes.zip(means.iter().zip(deviations)) {
                    let number = <$type>::from_ne_bytes(bytes.try_into().expect("one number"));
                    bytes.copy_from_slice(&((number - mean) / deviation).to_ne_bytes());
                }
            }
        }
    )*};
}

floats!(f32 f64);

/// An axis behind the first, or that of an element's own numbers.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub dim: usize,
    /// Of a chunk.
    pub extent: usize,
    /// Means and deviations differ along it.
    pub varies: bool,
}

/// The scale of chunks that have the same place in their rows.
#[derive(Clone, Debug)]
pub struct Scale<T> {
    /// Means and deviations, for each chunk of a row that has its own.
    tables: Vec<(Vec<T>, Vec<T>)>,
    /// The length of runs with equal means and deviations.
    run: usize,
    /// The distance of tables from a chunk to the next one along an axis; 0: both have the same table.
    steps: Vec<(usize, usize)>,
}

impl<T: Float> Scale<T> {
    /// `means` and `deviations` have a number for each index of the axes that vary, in their order. None:
    /// they have another length, or tables would be too large.
    pub fn new(axes: &[Axis], means: &[f64], deviations: &[f64]) -> Option<Scale<T>> {
        let varying = || axes.iter().filter(|axis| axis.varies);
        let product = |mut all: Box<dyn Iterator<Item = usize> + '_>| {
            all.try_fold(1usize, |product, one| product.checked_mul(one))
        };
        let numbers = product(Box::new(varying().map(|axis| axis.dim)))?;
        if means.len() != numbers || deviations.len() != numbers || numbers == 0 {
            return None;
        }
        let first = axes.iter().position(|axis| axis.varies);
        let last = axes.iter().rposition(|axis| axis.varies);
        let inside = first
            .zip(last)
            .map_or(0..0, |(first, last)| first..last + 1);
        let behind = &axes[inside.end..];
        let chunks = |axis: &Axis| axis.dim.div_ceil(axis.extent.max(1));
        let n_tables = product(Box::new(varying().map(chunks)))?;
        let len = product(Box::new(
            axes[inside.clone()].iter().map(|axis| axis.extent),
        ))?;
        let run = match first {
            Some(_) => product(Box::new(behind.iter().map(|axis| axis.extent)))?,
            None => usize::MAX,
        };
        let written = if run < MIN_LEN { run } else { 1 };
        let all = len.checked_mul(written)?.checked_mul(n_tables)?;
        if all > MAX_TABLES || len == 0 || run == 0 {
            return None;
        }
        let mut steps = vec![(1, 0); axes.len()];
        let mut step = 1;
        for (axis, steps) in axes.iter().zip(&mut steps).rev() {
            if axis.varies {
                *steps = (axis.extent.max(1), step);
                step *= chunks(axis);
            }
        }
        let table = |number: usize| {
            let starts = axes
                .iter()
                .zip(&steps)
                .map(|(axis, &(extent, step))| match step {
                    0 => 0,
                    step => number / step % chunks(axis) * extent,
                });
            let starts: Vec<usize> = starts.collect();
            let places = places(&axes[inside.clone()], &starts[inside.clone()], len);
            let values = |of: &[f64]| {
                let each = places.iter().map(|&at| T::of(of[at]));
                let each: Vec<T> = each
                    .flat_map(|one| std::iter::repeat_n(one, written))
                    .collect();
                let times = if run < MIN_LEN {
                    MIN_LEN.div_ceil(each.len())
                } else {
                    1
                };
                each.repeat(times)
            };
            (values(means), values(deviations))
        };
        Some(Scale {
            tables: (0..n_tables).map(table).collect(),
            run: if run < MIN_LEN { 1 } else { run },
            steps,
        })
    }

    /// The number of the table of the chunk that begins with this element of a row.
    pub fn table(&self, offset: &[u64]) -> usize {
        let each = offset.iter().zip(&self.steps);
        each.map(|(&at, &(extent, step))| at as usize / extent * step)
            .sum()
    }

    /// All numbers have the same mean and deviation, but for those of one element.
    pub fn is_even(&self, n_axes: usize) -> bool {
        self.steps.iter().take(n_axes).all(|&(_, step)| step == 0)
    }

    /// Scale the numbers in these bytes, of which the first is number `at` of a chunk.
    pub fn apply(&self, table: usize, mut at: usize, mut bytes: &mut [u8]) {
        let Some((means, deviations)) = self.tables.get(table) else {
            return;
        };
        while !bytes.is_empty() {
            let (entry, within) = (at / self.run % means.len(), at % self.run);
            let left = bytes.len() / size_of::<T>();
            let n = match self.run {
                1 => (means.len() - entry).min(left),
                run => (run - within).min(left),
            };
            if n == 0 {
                return; // no whole number
            }
            let (now, rest) = std::mem::take(&mut bytes).split_at_mut(n * size_of::<T>());
            match self.run {
                1 => T::by_each(now, &means[entry..], &deviations[entry..]),
                _ => T::by_one(now, means[entry], deviations[entry]),
            }
            (at, bytes) = (at + n, rest);
        }
    }
}

/// Where the value is of each number of a chunk along these axes.
fn places(axes: &[Axis], starts: &[usize], len: usize) -> Vec<usize> {
    let place = |number: usize| {
        let (mut rest, mut at, mut step) = (number, 0, 1);
        for (axis, start) in axes.iter().zip(starts).rev() {
            let index = rest % axis.extent;
            rest /= axis.extent;
            if axis.varies {
                at += (start + index).min(axis.dim - 1) * step;
                step *= axis.dim;
            }
        }
        at
    };
    (0..len).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(dim: usize, extent: usize, varies: bool) -> Axis {
        Axis {
            dim,
            extent,
            varies,
        }
    }

    /// Each number of all chunks of a row, scaled by itself and 2, is nothing; behind ends, too.
    #[test]
    fn each_number_has_the_values_of_its_place() {
        for extents in [[4, 5, 3], [2, 5, 3], [3, 2, 2], [1, 1, 1], [2, 70, 1]] {
            for varies in [
                [true; 3],
                [false, false, true],
                [true, false, false],
                [false, true, false],
                [true, false, true],
            ] {
                let dims = [4, 5, 3];
                let axes: Vec<Axis> = (0..3)
                    .map(|n| axis(dims[n], extents[n], varies[n]))
                    .collect();
                let number = |at: [usize; 3]| {
                    (0..3)
                        .filter(|&n| varies[n])
                        .fold(0, |number, n| number * dims[n] + at[n])
                };
                let n: usize = (0..3).filter(|&n| varies[n]).map(|n| dims[n]).product();
                let means: Vec<f64> = (0..n).map(|n| n as f64).collect();
                let scale = Scale::<f32>::new(&axes, &means, &vec![2.0; n]).unwrap();
                for i in (0..4).step_by(extents[0]) {
                    for j in (0..5).step_by(extents[1]) {
                        for k in (0..3).step_by(extents[2]) {
                            let table = scale.table(&[i as u64, j as u64, k as u64]);
                            let mut places = Vec::new();
                            for _row in 0..2 {
                                for a in 0..extents[0] {
                                    for b in 0..extents[1] {
                                        places
                                            .extend((0..extents[2]).map(|c| [i + a, j + b, k + c]));
                                    }
                                }
                            }
                            let inside = places.iter().map(|at| (0..3).all(|n| at[n] < dims[n]));
                            let numbers = places.iter().map(|&at| number(at) as f32 + 3.0);
                            let mut bytes: Vec<u8> = numbers.flat_map(f32::to_ne_bytes).collect();
                            let middle = bytes.len() / 8 * 4;
                            let (one, two) = bytes.split_at_mut(middle);
                            scale.apply(table, 0, one);
                            scale.apply(table, middle / 4, two);
                            let made = bytes.chunks_exact(4);
                            for (made, inside) in made.zip(inside) {
                                let made = f32::from_ne_bytes(made.try_into().unwrap());
                                assert!(!inside || made == 1.5, "{extents:?} {varies:?} {made}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn one_mean_for_all() {
        let scale = Scale::<f64>::new(&[axis(9, 2, false)], &[3.0], &[2.0]).unwrap();
        let mut bytes = [4.0f64, 3.0].map(f64::to_ne_bytes).concat();
        scale.apply(scale.table(&[8]), 0, &mut bytes);
        assert_eq!(bytes, [0.5f64, 0.0].map(f64::to_ne_bytes).concat());
        assert!(scale.is_even(1));
    }

    #[test]
    fn tables_that_do_not_fit_are_refused() {
        let new = |axes: &[Axis], n: usize| Scale::<f32>::new(axes, &vec![0.0; n], &vec![1.0; n]);
        assert!(new(&[axis(3, 3, true)], 2).is_none());
        assert!(new(&[axis(0, 1, true)], 0).is_none());
        assert!(new(&[axis(2, 1 << 40, true)], 2).is_none());
        assert!(new(&[axis(2, 1, true), axis(1 << 40, 1 << 40, false)], 2).is_some());
        assert!(new(&[axis(2, 2, true), axis(usize::MAX, 1 << 60, false)], 2).is_some());
    }
}
