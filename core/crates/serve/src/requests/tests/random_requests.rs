//! Requests, as the parent writes them, and what they mean.

use super::datasets::TestDataset;
use testing::fixtures::XorShift64;

#[derive(Debug)]
enum Indices {
    Range(u64, i64, u64),
    List(Vec<u64>),
    /// Begin and length of each.
    Spans(Vec<[u64; 2]>),
}

/// What is wanted; axes that are not named are whole.
#[derive(Debug)]
pub struct Request {
    k: usize,
    points: Vec<u64>,
    /// Of the box at each point.
    extents: Vec<u64>,
    axes: Vec<Indices>,
    /// None: the entire field.
    runs: Option<Vec<(usize, usize)>>,
}

impl Indices {
    fn all(&self) -> Vec<u64> {
        match self {
            Indices::List(list) => list.clone(),
            Indices::Spans(spans) => {
                let all = spans.iter().flat_map(|&[begin, n]| begin..begin + n);
                all.collect()
            }
            Indices::Range(start, step, count) => (0..*count as i64)
                .map(|n| (*start as i64 + n * step) as u64)
                .collect(),
        }
    }
}

impl Request {
    pub fn rows(start: u64, step: i64, count: u64) -> Request {
        Request {
            k: 0,
            points: Vec::new(),
            extents: Vec::new(),
            axes: vec![Indices::Range(start, step, count)],
            runs: None,
        }
    }

    pub fn new(random: &mut XorShift64, dataset: &TestDataset) -> Request {
        let n = dataset.dims.len();
        let k = match random.below(3) {
            0 => random.below(n as u64 + 1) as usize,
            _ => 0,
        };
        let extent: u64 = dataset.dims[..k].iter().product();
        let n_points = if k > 0 && extent > 0 {
            random.below(12)
        } else {
            0
        };
        let mut extents = vec![1; k];
        if random.below(2) == 0 {
            let some = |&dim: &u64| 1 + random.below(dim.clamp(1, 6));
            extents = dataset.dims[..k].iter().map(some).collect();
        }
        let mut point = || {
            let axes = dataset.dims[..k].iter().zip(&extents);
            axes.fold(0, |number, (&dim, extent)| {
                number * dim + random.below(dim - extent + 1)
            })
        };
        let points = (0..n_points).map(|_| point()).collect();
        let mut most = 3000 / extents.iter().product::<u64>().max(1) + 1;
        // Results stay small.
        let axes = dataset.dims[k..]
            .iter()
            .map(|&dim| {
                let axis = some_indices(random, dim, most);
                most = (most / axis.all().len().max(1) as u64).max(1);
                axis
            })
            .collect();
        let size = dataset.field.1 as u64;
        let runs = (random.below(3) == 0).then(|| {
            (0..1 + random.below(3))
                .map(|_| {
                    let offset = random.below(size);
                    (offset as usize, random.below(size - offset + 1) as usize)
                })
                .collect()
        });
        Request {
            k,
            points,
            extents,
            axes,
            runs,
        }
    }

    pub fn words(&self, dataset: &TestDataset) -> Vec<u64> {
        let n_axes = dataset.dims.len() - self.k;
        let runs = self.runs.as_deref().unwrap_or_default();
        let bytes = match &self.runs {
            Some(runs) => runs.iter().map(|run| run.1).sum(),
            None => dataset.field.1,
        };
        let table = dataset.table().len() as u64;
        let mut words = vec![0, dataset.number, dataset.at as u64, table];
        words.extend([self.k, self.points.len(), n_axes, runs.len(), bytes].map(|n| n as u64));
        let mut lists: Vec<u64> = Vec::new();
        let lists_at = 9 + 4 * n_axes + self.k + self.points.len();
        for dim in 0..n_axes {
            words.extend(match self.axes.get(dim) {
                None => [0, 1, dataset.dims[self.k + dim], 0],
                Some(Indices::Range(start, step, count)) => [*start, *step as u64, *count, 0],
                Some(Indices::List(list)) => {
                    let at = lists_at + lists.len();
                    lists.extend(list);
                    [0, 1, list.len() as u64, at as u64]
                }
                Some(Indices::Spans(spans)) if spans.is_empty() => [0, 1, 0, 0],
                Some(Indices::Spans(spans)) => {
                    let at = lists_at + lists.len();
                    lists.extend(spans.iter().flatten());
                    let count = spans.iter().map(|span| span[1]).sum();
                    [spans.len() as u64, 0, count, at as u64]
                }
            });
        }
        words.extend(&self.extents);
        words.extend(&self.points);
        words.extend(lists);
        words.extend(runs.iter().flat_map(|run| [run.0 as u64, run.1 as u64]));
        words
    }

    /// The result, one element after the other.
    pub fn expected(&self, dataset: &TestDataset) -> Vec<u8> {
        let dims = &dataset.dims;
        let origin = |point: u64| {
            let (mut rest, mut index) = (point, vec![0; self.k]);
            for dim in (0..self.k).rev() {
                index[dim] = rest % dims[dim];
                rest /= dims[dim];
            }
            index
        };
        let boxes = self.points.iter().flat_map(|&point| {
            let each = |boxes: Vec<Vec<u64>>, (at, &extent): (u64, &u64)| {
                let along = |index: &Vec<u64>| {
                    let index = index.clone();
                    (at..at + extent).map(move |at| [&index[..], &[at]].concat())
                };
                boxes.iter().flat_map(along).collect()
            };
            let axes = origin(point).into_iter().zip(&self.extents);
            axes.fold(vec![vec![]], each)
        });
        let mut indices: Vec<Vec<u64>> = match self.k {
            0 => vec![vec![]],
            _ => boxes.collect(),
        };
        for dim in 0..dims.len() - self.k {
            let all = match self.axes.get(dim) {
                Some(axis) => axis.all(),
                None => (0..dims[self.k + dim]).collect(),
            };
            indices = (indices.iter())
                .flat_map(|index| all.iter().map(move |&at| [&index[..], &[at]].concat()))
                .collect();
        }
        let mut out = Vec::new();
        for index in indices {
            let field = dataset.field_of(&index);
            match &self.runs {
                None => out.extend(field),
                Some(runs) => runs
                    .iter()
                    .for_each(|&(at, len)| out.extend(&field[at..at + len])),
            }
        }
        out
    }
}

fn some_indices(random: &mut XorShift64, dim: u64, most: u64) -> Indices {
    let count = |random: &mut XorShift64, n: u64| random.below(n.min(most) + 1);
    if dim == 0 {
        return [Indices::Range(7, 1, 0), Indices::List(vec![])]
            .into_iter()
            .nth(random.below(2) as usize)
            .unwrap();
    }
    match random.below(8) {
        6 | 7 => {
            let n = random.below(5).min(most);
            let mut span = || {
                let begin = random.below(dim);
                [
                    begin,
                    1 + random.below((dim - begin).min((most / 5).max(1))),
                ]
            };
            Indices::Spans((0..n).map(|_| span()).collect())
        }
        0 if dim <= most => Indices::Range(0, 1, dim),
        0 | 1 => {
            let n = count(random, 9);
            Indices::List((0..n).map(|_| random.below(dim)).collect())
        }
        2 => {
            let n = count(random, dim);
            let mut list: Vec<u64> = (0..n).map(|_| random.below(dim)).collect();
            list.sort_unstable();
            list.dedup();
            Indices::List(list)
        }
        3 => Indices::Range(random.below(dim), random.below(5) as i64 - 2, 1),
        _ => {
            let (start, step) = (random.below(dim), random.below(7) as i64 - 3);
            let room = match step {
                0 => 4,
                step if step > 0 => (dim - 1 - start) / step as u64 + 1,
                step => start / step.unsigned_abs() + 1,
            };
            Indices::Range(start, step, count(random, room))
        }
    }
}
