//! Reading on threads against the model of random access.
//!
//! Law:
//! 1. Datasets and selections are those of the requests' tests; each read equals the same model.
//! 2. In tests a few hundred bytes are shared among threads already.

use super::*;
use crate::requests::tests::datasets::{Layout, TestDataset};
use crate::requests::tests::random_requests::Request;
use engine::fetch::error::FetchError;
use std::sync::atomic::AtomicUsize;
use testing::fixtures::XorShift64;

fn known(reader: &Arc<LocalReader>, table: &[u8]) -> Result<LocalDataset, &'static str> {
    reader.dataset(Memory::copied(table), table.len())
}

fn read(
    dataset: &TestDataset,
    local: &LocalDataset,
    request: &Request,
) -> Result<Vec<u8>, TaskError> {
    let words = request.words(dataset);
    let slab = Hyperslab::parse(&words, local.dataset()).unwrap();
    let mut out = vec![0xA5; slab.out_bytes()];
    if !local.read_at_once(&slab, &mut out) {
        local.read(&slab, &mut out, || false)?;
    }
    Ok(out)
}

#[test]
fn every_read_equals_the_model() {
    for seed in 1..25 {
        let mut random = XorShift64(seed * 0x9e37_79b9);
        let limit = [0, 3000, 1 << 20][random.below(3) as usize];
        let reader = LocalReader::new(1 + random.below(4) as usize, limit).unwrap();
        let mut made = || {
            let dataset = TestDataset::new(&mut random);
            let local = known(&reader, &dataset.table()).unwrap();
            (dataset, local)
        };
        let datasets: Vec<_> = (0..3).map(|_| made()).collect();
        std::thread::scope(|scope| {
            for thread in 1..4 {
                let datasets = &datasets;
                let mut random = XorShift64(seed * 77 + thread);
                scope.spawn(move || {
                    for _ in 0..20 {
                        let (dataset, local) = &datasets[random.below(3) as usize];
                        let request = Request::new(&mut random, dataset);
                        let got = read(dataset, local, &request);
                        let got = got.unwrap_or_else(|error| panic!("{error:?} for {request:?}"));
                        let expected = request.expected(dataset);
                        assert!(got == expected, "{request:?} of {dataset:?}");
                    }
                });
            }
        });
    }
}

#[test]
fn each_chunk_is_decoded_once_by_however_many_threads() {
    let mut random = XorShift64(8);
    for n_threads in 1..5 {
        let dataset = TestDataset::with(&mut random, &[997, 3], &[10, 3], Layout::Deflate);
        let reader = LocalReader::new(n_threads, 1 << 20).unwrap();
        let local = known(&reader, &dataset.table()).unwrap();
        let request = Request::rows(996, -1, 997);
        let count = |name: &str| {
            let at = engine::counters::COUNTERS.iter().position(|n| *n == name);
            reader.counters().unwrap()[at.unwrap()]
        };
        for (turn, hits) in [(1, 0), (2, 100)] {
            assert!(read(&dataset, &local, &request).unwrap() == request.expected(&dataset));
            assert_eq!(
                (count("chunks"), count("cache_hits")),
                (100, hits),
                "{turn}"
            );
        }
        assert!(count("cache_bytes") > 0);
    }
}

#[test]
fn the_first_bad_chunk_is_named() {
    let mut random = XorShift64(21);
    for layout in [Layout::Deflate, Layout::ShuffleDeflate, Layout::Chunked] {
        for _ in 0..20 {
            let dataset = TestDataset::with(&mut random, &[1000], &[10], layout);
            let (first, second) = (random.below(50), 50 + random.below(50));
            let bad = dataset.lie(second, 2, 5).lie(first, 2, 5);
            let reader = LocalReader::new(3, 1 << 20).unwrap();
            let local = known(&reader, &bad.table()).unwrap();
            let error = read(&bad, &local, &Request::rows(0, 1, 1000)).unwrap_err();
            let number = dataset.number_of(first).unwrap();
            assert!(
                matches!(error, TaskError::Filter(at, _) if at == number),
                "{error:?}"
            );
            let rest = Request::rows(10 * (second + 1), 1, 10 * (99 - second));
            assert!(read(&bad, &local, &rest).unwrap() == rest.expected(&bad));
        }
    }
}

#[test]
fn a_file_that_changed_is_neither_read_nor_kept() {
    let mut random = XorShift64(3);
    let dataset = TestDataset::with(&mut random, &[1000], &[10], Layout::Deflate);
    let reader = LocalReader::new(2, 1 << 20).unwrap();
    let local = known(&reader, &dataset.table()).unwrap();
    let row = Request::rows(0, 1, 1);
    assert!(read(&dataset, &local, &row).is_ok());
    dataset.touch();
    assert!(read(&dataset, &local, &row).is_ok(), "kept from before");
    for request in [Request::rows(0, 1, 1000), row] {
        let changed = read(&dataset, &local, &request).unwrap_err();
        let is_it = matches!(changed, TaskError::Fetch(_, FetchError::Changed { .. }));
        assert!(is_it, "{changed:?}");
    }
    assert_eq!(reader.counters().unwrap()[14], 0);
}

#[test]
fn a_read_that_is_interrupted_ends_early() {
    let mut random = XorShift64(5);
    let dataset = TestDataset::with(&mut random, &[4000], &[1], Layout::Deflate);
    for n_threads in [1, 3] {
        let reader = LocalReader::new(n_threads, 0).unwrap();
        let local = known(&reader, &dataset.table()).unwrap();
        let words = Request::rows(0, 1, 4000).words(&dataset);
        let slab = Hyperslab::parse(&words, local.dataset()).unwrap();
        let mut out = vec![0; slab.out_bytes()];
        let asked = AtomicUsize::new(0);
        let ask = || asked.fetch_add(1, Relaxed) == 0;
        local.read(&slab, &mut out, ask).unwrap();
        let chunks = reader.counters().unwrap()[3];
        assert!(chunks < 200 || n_threads > 1, "{chunks}");
        out.fill(7);
        std::thread::yield_now();
        assert!(out.iter().all(|&byte| byte == 7));
    }
}

#[test]
fn what_is_no_table_of_one_dataset_is_refused() {
    let mut random = XorShift64(6);
    let dataset = TestDataset::with(&mut random, &[10], &[1], Layout::Deflate);
    let reader = LocalReader::new(1, 0).unwrap();
    let table = dataset.table();
    assert!(known(&reader, &table).is_ok());
    for len in [0, 7, 64, table.len() - 1] {
        assert!(known(&reader, &table[..len]).is_err());
    }
    for _ in 0..2000 {
        let mut bytes = table.clone();
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        if let Ok(local) = known(&reader, &bytes) {
            let words = Request::rows(0, 1, 1).words(&dataset);
            if let Ok(slab) = Hyperslab::parse(&words, local.dataset()) {
                if slab.out_bytes() < 1 << 20 {
                    let mut out = vec![0; slab.out_bytes()];
                    let done = local.read(&slab, &mut out, || false);
                    assert!(!matches!(done, Err(TaskError::Internal(_))), "{done:?}");
                }
            }
        }
    }
}
