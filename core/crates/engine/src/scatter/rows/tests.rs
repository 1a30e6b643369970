//! Rows copied and scattered against the same element by element.

use super::*;
use tables::dataset::AxisWindow;
use tables::parts::Parts;
use tables::shuffle::row_map::RowMap;
use testing::fixtures::XorShift64;

pub fn dataset(dims: &[u64], chunk_dims: &[u64], element: usize, field: (usize, usize)) -> Dataset {
    Dataset {
        source: 0,
        row_bytes: dims[1..].iter().product::<u64>() as usize * field.1,
        element_bytes: element,
        field_offset: field.0,
        field_bytes: field.1,
        stored_element_bytes: element,
        conversion: None,
        dims: dims.to_vec(),
        chunk_dims: chunk_dims.to_vec(),
        windows: dims[1..]
            .iter()
            .map(|&dim| AxisWindow::whole(dim))
            .collect(),
        ends: Vec::new(),
        filters: Vec::new(),
        stored_fill: Vec::new(),
        fill: Vec::new(),
        fixes: Vec::new(),
        clipped: false,
        by_library: false,
        chunks_at: 0,
        parts: Parts::default(),
        n_chunks: 0,
        grid_chunks: 0,
        library: String::new(),
        decoded_size: chunk_dims.iter().product::<u64>() as usize * element,
    }
}

/// Let rows show some indices of each inner axis.
fn narrowed(mut dataset: Dataset, random: &mut XorShift64) -> Dataset {
    let mut elements = 1;
    for (window, &dim) in dataset.windows.iter_mut().zip(&dataset.dims[1..]) {
        let start = random.below(dim);
        let distance = 1 + random.below(dim) as i64;
        *window = AxisWindow {
            start,
            step: [distance, -distance][random.below(2) as usize],
            count: 1 + random.below((dim - 1 - start) / distance as u64 + 1),
        };
        elements *= window.count as usize;
    }
    dataset.row_bytes = elements * dataset.field_bytes;
    dataset
}

/// The indices of the inner axes that a row shows, in its order.
fn shown(dataset: &Dataset) -> Vec<Vec<u64>> {
    (dataset.windows.iter()).fold(vec![vec![]], |all, window| {
        let along = |n: u64| match window.step > 0 {
            true => window.start + n * window.step as u64,
            false => window.start + (window.count - 1 - n) * window.step.unsigned_abs(),
        };
        let longer = |index: &Vec<u64>| {
            let index = index.clone();
            (0..window.count).map(move |n| [index.clone(), vec![along(n)]].concat())
        };
        all.iter().flat_map(longer).collect()
    })
}

/// Byte `byte` of the element at an index of the dataset.
fn value(dataset: &Dataset, index: &[u64], byte: usize) -> u8 {
    let place = |flat, (&i, &dim): (&u64, &u64)| flat * dim + i;
    let flat = index.iter().zip(&dataset.dims).fold(0, place);
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
fn decoded(dataset: &Dataset, offset: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for index in indices(offset, &dataset.chunk_dims) {
        let inside = index.iter().zip(&dataset.dims).all(|(i, dim)| i < dim);
        let element = (0..dataset.element_bytes).map(|byte| value(dataset, &index, byte));
        bytes.extend(element.map(|byte| if inside { byte } else { 0xEE }));
    }
    bytes
}

/// What the chunk has of a row; other bytes are `empty`.
fn row(dataset: &Dataset, offset: &[u64], row: u64, empty: u8) -> Vec<u8> {
    let inner = shown(dataset);
    let fields = inner.iter().flat_map(|inner| {
        let index = [&[row], &inner[..]].concat();
        let mut own = index.iter().zip(offset).zip(&dataset.chunk_dims);
        let is_own = own.all(|((i, begin), count)| (*begin..begin + count).contains(i));
        (0..dataset.field_bytes).map(move |byte| match is_own {
            true => value(dataset, &index, dataset.field_offset + byte),
            false => empty,
        })
    });
    fields.collect()
}

fn offsets(dataset: &Dataset) -> Vec<Vec<u64>> {
    let grid = dataset.dims[0].div_ceil(dataset.chunk_dims[0]) * dataset.inner_chunks();
    let mut offset = Vec::new();
    let of = |chunk| {
        dataset.chunk_offset(chunk, &mut offset);
        offset.clone()
    };
    (0..grid).map(of).collect()
}

/// Places of a window that no row has.
const SPARE: usize = 3;

/// The map of some rows in a window: in order, and mixed.
fn maps_of(rows: Range<u64>, random: &mut XorShift64) -> [RowMap; 2] {
    let mut places: Vec<u32> = (0..(rows.end - rows.start) as u32 + SPARE as u32).collect();
    for last in (1..places.len()).rev() {
        places.swap(last, random.below(last as u64 + 1) as usize);
    }
    let (mut runs, mut mixed) = (RowMap::default(), RowMap::default());
    for (number, place) in rows.clone().zip(places) {
        runs.push(number, (number - rows.start) as u32, 1);
        mixed.push_mixed(number, &[place]);
    }
    [runs, mixed]
}

/// Chunks of the same rows, scattered together.
fn check_together(dataset: &Dataset, random: &mut XorShift64) {
    let size = dataset.row_bytes;
    let mut interleaver = offsets(dataset);
    let outer = interleaver[random.below(interleaver.len() as u64) as usize][0];
    interleaver.retain(|offset| offset[0] == outer);
    interleaver.drain(..random.below(interleaver.len() as u64) as usize);
    let made = |offset: &Vec<u64>| (RowCopy::of(dataset, offset), decoded(dataset, offset));
    let made: Vec<_> = interleaver.iter().map(made).collect();
    let pieces = made.iter().map(|(copy, decoded)| Piece {
        copy,
        first: outer,
        decoded,
    });
    let pieces: Vec<_> = pieces.collect();
    let end = (outer + dataset.chunk_dims[0]).min(dataset.dims[0]);
    for map in maps_of(outer..end, random) {
        let count = map.count();
        let (mut together, mut each) = (vec![0x5A; (count + SPARE) * size], Vec::new());
        each.clone_from(&together);
        let cut = random.below(count as u64 + 1) as usize;
        RowCopy::scatter_all(&pieces, (&map, 0..cut), cut..count, Out::of(&mut together));
        RowCopy::scatter_all(
            &pieces,
            (&map, cut..count),
            count..count,
            Out::of(&mut together),
        );
        for Piece { copy, decoded, .. } in &pieces {
            copy.scatter(decoded, outer, (&map, 0..count), Out::of(&mut each));
        }
        assert!(
            together == each,
            "{:?} {:?} {interleaver:?}",
            dataset.dims,
            dataset.chunk_dims
        );
    }
}

fn check(dataset: &Dataset, random: &mut XorShift64) {
    check_together(dataset, random);
    let size = dataset.row_bytes;
    for offset in offsets(dataset) {
        let copy = RowCopy::of(dataset, &offset);
        let chunk = decoded(dataset, &offset);
        let end = (offset[0] + dataset.chunk_dims[0]).min(dataset.dims[0]);

        let begin = offset[0] + random.below(end - offset[0]);
        let mut rows = vec![0xA5; (end - begin) as usize * size];
        copy.copy(&chunk, begin - offset[0], Out::of(&mut rows));
        for (number, got) in (begin..end).zip(rows.chunks_exact(size)) {
            assert_eq!(got, row(dataset, &offset, number, 0xA5));
        }

        for map in maps_of(offset[0]..end, random) {
            let count = map.count();
            let mut window = vec![0x5A; (count + SPARE) * size];
            let cut = random.below(count as u64 + 1) as usize;
            copy.scatter(&chunk, offset[0], (&map, 0..cut), Out::of(&mut window));
            copy.scatter(&chunk, offset[0], (&map, cut..count), Out::of(&mut window));
            let mut expected = vec![0x5A; window.len()];
            map.each(0..count, |number, place| {
                let wanted = row(dataset, &offset, number, 0x5A);
                expected[place as usize * size..][..size].copy_from_slice(&wanted);
            });
            assert!(
                window == expected,
                "{:?} {:?}",
                dataset.dims,
                dataset.chunk_dims
            );
        }
    }
}

#[test]
fn chunks_of_any_shape_land_in_rows() {
    let mut random = XorShift64(5);
    for case in 0..400 {
        let n = 1 + random.below(4) as usize;
        let outer = [3, 20][case % 2]; // with and without a list of runs
        let mut dims = vec![1 + random.below(outer)];
        let mut chunk_dims = vec![1 + random.below(outer)];
        for _ in 1..n {
            let dim = 1 + random.below(5);
            dims.push(dim);
            chunk_dims.push([1, dim, 1 + random.below(6)][random.below(3) as usize]);
        }
        let element = [1, 2, 3, 4, 8, 12, 16, 5, 32][random.below(9) as usize];
        let field = match random.below(3) {
            0 => {
                let begin = random.below(element as u64) as usize;
                (begin, 1 + random.below((element - begin) as u64) as usize)
            }
            _ => (0, element),
        };
        let dataset = dataset(&dims, &chunk_dims, element, field);
        check(&dataset, &mut random);
        check(&narrowed(dataset, &mut random), &mut random);
    }
}

#[test]
fn long_runs_and_long_lists_land_in_rows() {
    let mut random = XorShift64(6);
    check(&dataset(&[9, 40, 30], &[9, 39, 29], 1, (0, 1)), &mut random);
    check(&dataset(&[90, 64], &[89, 3], 4, (0, 4)), &mut random);
    check(&dataset(&[90, 64], &[89, 8], 2, (0, 2)), &mut random);
    check(
        &dataset(&[9, 40, 30], &[9, 7, 13], 64, (0, 64)),
        &mut random,
    );
    check(
        &dataset(&[9, 3, 40, 30, 2], &[8, 2, 40, 29, 1], 1, (0, 1)),
        &mut random,
    );
}

#[test]
fn little_is_told_from_whole_rows() {
    let little = |dims: &[u64], chunk_dims: &[u64], element, field| {
        let dataset = dataset(dims, chunk_dims, element, field);
        RowCopy::of(&dataset, &vec![0; dims.len()]).has_less_than(256)
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
    let copy = RowCopy::of(&dataset(&[9, 4, 3], &[9, 2, 1], 1, (0, 1)), &[0, 0, 0]);
    copy.copy(&[0; 17], 0, Out::of(&mut [0; 108]));
}

#[test]
fn rows_come_to_far_places() {
    for size in [MIN_FAR_ROW_BYTES, 300, 1000, 1024] {
        let count = MIN_FAR_WINDOW_BYTES / size + 1;
        let rows: Vec<u8> = (0..64 * size).map(|at| (at * 7 % 251) as u8).collect();
        let pairs = (0..64).map(|row| (1000 + u64::from(row), row * 7919 % count as u32));
        let mut map = RowMap::default();
        (pairs.clone()).for_each(|(row, place)| map.push_mixed(row, &[place]));
        let mut window = vec![0xA5; count * size];
        assert!(is_far(window.len(), size) == cfg!(target_arch = "x86_64"));
        RowCopy::whole(size).scatter(&rows, 1000, (&map, 0..64), Out::of(&mut window));
        let mut expected = vec![0xA5; count * size];
        for (row, place) in pairs {
            let (from, to) = ((row - 1000) as usize * size, place as usize * size);
            expected[to..to + size].copy_from_slice(&rows[from..from + size]);
        }
        assert!(window == expected, "{size} bytes");
    }
}

#[test]
fn bytes_are_copied_past_the_caches_from_and_to_anywhere() {
    let bytes: Vec<u8> = (0..1000).map(|at| (at * 7 % 251) as u8).collect();
    for from in [0, 1, 15, 16, 33] {
        for to in 0..130 {
            for len in [0, 1, 15, 63, 64, 65, 127, 128, 129, 200, 700] {
                let mut out = vec![0xA5; 1000];
                copy_past_caches(&bytes[from..from + len], &mut out[to..to + len]);
                end_copies_past_caches();
                assert!(out[to..to + len] == bytes[from..from + len]);
                let others = out[..to].iter().chain(&out[to + len..]);
                assert!(others.into_iter().all(|&byte| byte == 0xA5));
            }
        }
    }
}

#[test]
fn rows_of_every_size_come_to_their_places() {
    for size in [1, 2, 3, 4, 8, 16, 20, 100, 3000] {
        let rows: Vec<u8> = (0..51 * size).map(|at| (at * 7 % 251) as u8).collect();
        // Runs of three, the last first; some rows are not wanted.
        let pairs: Vec<(u64, u32)> = (0..51)
            .filter(|row| row % 7 != 2)
            .map(|row| (1000 + u64::from(row), (16 - row / 3) * 3 + row % 3))
            .collect();
        let (mut runs, mut mixed) = (RowMap::default(), RowMap::default());
        for &(row, place) in &pairs {
            runs.push(row, place, 1);
            mixed.push_mixed(row, &[place]);
        }
        for map in [runs, mixed] {
            let mut window = vec![0; 51 * size];
            for range in [0..20, 20..pairs.len()] {
                RowCopy::whole(size).scatter(&rows, 1000, (&map, range), Out::of(&mut window));
            }
            for place in 0..51 {
                let pair = pairs.iter().find(|pair| pair.1 as usize == place);
                let wanted = pair.map_or(vec![0; size], |pair| {
                    let from = (pair.0 - 1000) as usize * size;
                    rows[from..from + size].to_vec()
                });
                assert_eq!(window[place * size..(place + 1) * size], wanted, "{size}");
            }
        }
    }
}
