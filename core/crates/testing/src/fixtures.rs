//! Plans and data files for tests of the core.
//!
//! Law:
//! 1. Lays plans out word by word, as `_multitables/wire/plan_bytes.py` does, without sharing code with
//!    plan.rs: so a change of one alone is seen.
//! 2. A payload says which row and which word of it stands there: nothing can be swapped unseen.

use os::memory::page_bytes;
use std::os::linux::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use tables::dataset::MAGIC as DATASETS_MAGIC;
use tables::plan::{ENDLESS, KIND_SHARE, MAGIC};
use tables::shuffle::order::Order;

/// Words of a row of the payload.
pub const ROW_WORDS: usize = 32;

/// What stands at word `word` of dataset row `row` of dataset `dataset`.
pub fn payload(dataset: usize, row: u64, word: usize) -> u64 {
    (row << 8 | (dataset as u64) << 5 | word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

pub fn fill_rows(dataset: usize, first: u64, out: &mut [u8]) {
    for (at, place) in out.chunks_exact_mut(8).enumerate() {
        let row = first + (at / ROW_WORDS) as u64;
        place.copy_from_slice(&payload(dataset, row, at % ROW_WORDS).to_le_bytes());
    }
}

/// A file that is removed when dropped.
#[derive(Debug)]
pub struct TestFile(pub PathBuf);

impl TestFile {
    pub fn new(name: &str, bytes: &[u8]) -> TestFile {
        let name = format!("multitables-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        TestFile(path)
    }

    /// Device, inode, size and time, as a plan names them.
    fn fingerprint(&self) -> [u64; 4] {
        let stat = std::fs::metadata(&self.0).unwrap();
        let ns = stat.st_mtime() as u64 * 1_000_000_000 + stat.st_mtime_nsec() as u64;
        [stat.st_dev(), stat.st_ino(), stat.st_size(), ns]
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// One dataset: rows of `ROW_WORDS` words.
#[derive(Clone)]
pub struct TestDataset {
    pub chunk_rows: u64,
    /// Words of a chunk's row.
    pub chunk_words: u64,
    /// `(id, value)` of filters with one parameter.
    pub filters: Vec<(u64, u64)>,
    /// Bit 0: direct, bit 1: clipped, bit 2: turnstile, bit 3: kept, bit 4: by the library.
    pub flags: u64,
    /// Where its chunks begin in the plan's.
    pub chunks_at: u64,
    /// The words that a row shows.
    pub window: Option<[u64; 3]>,
}

impl TestDataset {
    /// Chunks of whole rows.
    pub fn new(chunk_rows: u64, flags: u64) -> TestDataset {
        TestDataset {
            chunk_rows,
            chunk_words: ROW_WORDS as u64,
            filters: Vec::new(),
            flags,
            chunks_at: 0,
            window: None,
        }
    }
}

/// An order, and the part of it that a stream delivers.
#[derive(Clone)]
pub struct TestOrder {
    /// Shuffle, seed, epoch, rows, rows of a chunk, rows of a window, start, step.
    pub words: [u64; 8],
    pub listed: Vec<u64>,
    /// Positions of a lap, in the order of delivery.
    pub ranges: Vec<(u64, u64)>,
    /// 0: without end.
    pub laps: u64,
}

impl TestOrder {
    pub fn lap_rows(&self) -> u64 {
        self.ranges.iter().map(|(begin, end)| end - begin).sum()
    }

    /// First row on the tape, its end, and first position of each window, or part of one.
    pub fn windows(&self) -> Vec<[u64; 3]> {
        let (mut found, mut row) = (Vec::new(), 0);
        for &(begin, end) in &self.ranges {
            let mut at = begin;
            while at < end {
                let stop = ((at / self.words[5] + 1) * self.words[5]).min(end);
                found.push([row, row + stop - at, at]);
                (row, at) = (row + stop - at, stop);
            }
        }
        found
    }

    /// Tasks for these numbers of shares of each window, by dataset.
    pub fn tasks(&self, shares: &[u64]) -> Vec<TestTask> {
        let kind = u64::from(KIND_SHARE);
        let mut found = Vec::new();
        for [begin, end, position] in self.windows() {
            for (dataset, &all) in (0..).zip(shares) {
                let share = |share| [dataset, kind, begin, end, position, share, all];
                found.extend((0..all).map(share));
            }
        }
        found
    }

    /// The dataset's row on each row of lap `lap`.
    pub fn rows(&self, lap: u64) -> Vec<u64> {
        let (order, epoch) =
            Order::from_words(self.words, Arc::new(self.listed.clone()), u64::MAX).unwrap();
        let listed = |&(begin, end): &(u64, u64)| order.listed(epoch + lap, begin, end);
        self.ranges.iter().flat_map(listed).collect()
    }
}

/// `[dataset, kind, row_begin, row_end, first, number, count]`: of chunks the first, how many, and how
/// often the task is repeated; of a share its position, which it is, and of how many.
pub type TestTask = [u64; 7];
/// `[grid_index, byte_offset, stored_size, filter_mask]`
pub type TestChunk = [u64; 4];

#[derive(Clone)]
pub struct TestPlan {
    pub n_rows: u64,
    pub datasets: Vec<TestDataset>,
    pub tasks: Vec<TestTask>,
    pub chunks: Vec<TestChunk>,
    pub n_readers: u64,
    pub block_rows: u64,
    pub capacity_rows: u64,
    pub cyclic: bool,
    /// Of a stream of shares, with blocks that end with the lap.
    pub order: Option<TestOrder>,
    pub cache_bytes: u64,
}

impl TestPlan {
    fn lap_rows(&self) -> u64 {
        let of_order = self.order.as_ref().map(TestOrder::lap_rows);
        of_order.unwrap_or(self.n_rows)
    }

    /// A dataset's chunks end where another's begin.
    fn n_chunks(&self, dataset: &TestDataset) -> u64 {
        if dataset.flags & 16 != 0 {
            return 0;
        }
        let begins = self.datasets.iter().map(|other| other.chunks_at);
        let end = begins.filter(|&at| at > dataset.chunks_at).min();
        let end = end.unwrap_or(self.chunks.len() as u64);
        end.saturating_sub(dataset.chunks_at)
    }

    fn end_row(&self) -> u64 {
        let laps = self.order.as_ref().map_or(1, |order| order.laps);
        match self.cyclic || laps == 0 {
            true => ENDLESS,
            false => laps * self.lap_rows(),
        }
    }

    /// The fewest slots that the ring's law allows: every race for a slot happens often.
    fn n_slots(&self) -> u64 {
        let lap_rows = self.lap_rows();
        let laps = match self.end_row() == lap_rows {
            true => 1,
            false => self.capacity_rows / lap_rows + 2,
        };
        let begins: Vec<u64> = (0..laps)
            .flat_map(|lap| self.tasks.iter().map(move |t| lap * lap_rows + t[2]))
            .collect();
        let within = |from: usize| {
            let end = begins[from] + self.capacity_rows;
            begins[from..].iter().take_while(|&&b| b < end).count() as u64
        };
        let most = (0..self.tasks.len()).map(within).max();
        most.unwrap_or(1).next_power_of_two()
    }

    pub fn encode(&self, file: &TestFile) -> Vec<u8> {
        let page = page_bytes() as u64;
        let row_bytes = 8 * ROW_WORDS as u64;
        let name = file.0.to_str().unwrap().as_bytes();
        let control = 1024 + 2048 * self.n_readers + 8 * (self.n_slots() + 1);
        let control = control.next_multiple_of(page);
        let tape = (self.capacity_rows * row_bytes).next_multiple_of(page);
        let bit = |flags: u64, bit: u32| flags >> bit & 1;
        let (mut sources, mut datasets, mut words) = (Vec::new(), Vec::new(), vec![0u64; 0]);
        for dataset in &self.datasets {
            let [device, inode, size, time] = file.fingerprint();
            let source = [
                8,
                name.len() as u64,
                device,
                inode,
                size,
                time,
                0,
                0,
                source_flags(dataset),
                0,
                0,
            ];
            if self.source(dataset) == sources.len() as u64 / source.len() as u64 {
                sources.extend(source);
            }
            let dims_at = words.len() as u64;
            words.extend([self.n_rows, ROW_WORDS as u64]);
            words.extend(dataset.window.iter().flatten());
            let chunk_dims_at = words.len() as u64;
            words.extend([dataset.chunk_rows, dataset.chunk_words]);
            let filters_at = words.len() as u64;
            for &(id, value) in &dataset.filters {
                words.extend([id, 0, 1, value]);
            }
            #[rustfmt::skip]
            datasets.extend([
                self.source(dataset), row_bytes, 8, 0, 8, 2, dims_at, chunk_dims_at,
                filters_at, dataset.filters.len() as u64,
                0, // fill value: eight zeros
                0, 0,
                bit(dataset.flags, 1)
                    | bit(dataset.flags, 4) << 1
                    | u64::from(dataset.window.is_some()) << 2,
                8 + name.len() as u64, 1,
                dataset.chunks_at, self.n_chunks(dataset), 0, 0, 0,
            ]);
        }
        // The text for the library is the dataset's number, told by its length only: one digit.
        let blob: Vec<u8> = [&[0; 8], name, b"1"].concat();
        let n_datasets = self.datasets.len() as u64;
        let n_sources = sources.len() as u64 / 9;
        let table = [&sources[..], &datasets, &self.chunk_records(), &words].concat();
        let table_bytes = 8 * (8 + table.len() as u64) + blob.len() as u64;
        let (n_chunks, n_words) = (self.chunks.len() as u64, words.len() as u64);
        let n_blob = blob.len() as u64;
        #[rustfmt::skip]
        let table_header = [
            DATASETS_MAGIC, table_bytes, n_sources, n_datasets, n_chunks, n_words, n_blob, 0,
        ];
        let listed: &[u64] = self.order.as_ref().map_or(&[], |order| &order.listed);
        let order: &[u64] = self.order.as_ref().map_or(&[], |order| &order.words);
        let tapes = (0..).zip(&self.datasets).flat_map(|(number, dataset)| {
            [
                number,
                control + number * tape,
                tape,
                bit(dataset.flags, 3),
                0,
            ]
        });
        let tasks = self.tasks.iter().flat_map(|t| {
            let [dataset, kind, begin, end, first, number, count] = *t;
            let share = match kind == u64::from(KIND_SHARE) {
                true => [kind | number << 32, count, begin, end, 0, 0, 0, first],
                false => [kind, 0, begin, end, first, number, count, 0],
            };
            [vec![dataset | dataset << 32], share.to_vec()].concat()
        });
        let body: Vec<u64> = tapes
            .chain(tasks)
            .chain(order.iter().copied())
            .chain(listed.iter().copied())
            .chain(table_header)
            .chain(table)
            .collect();
        let header = [
            MAGIC,
            (19 + body.len() as u64) * 8 + blob.len() as u64,
            n_datasets,
            self.tasks.len() as u64,
            order.len() as u64,
            listed.len() as u64,
            self.n_readers,
            self.n_slots(),
            0,
            self.lap_rows(),
            self.end_row(),
            self.capacity_rows,
            self.block_rows,
            control,
            control + n_datasets * tape,
            u64::from(self.order.is_some()),
            self.cache_bytes,
            0,
            1,
        ];
        let all = header.iter().chain(&body);
        all.flat_map(|word| word.to_le_bytes())
            .chain(blob)
            .collect()
    }

    /// Datasets whose file is read alike have one source.
    fn source(&self, dataset: &TestDataset) -> u64 {
        let mut known: Vec<u64> = self.datasets.iter().map(source_flags).collect();
        known.dedup();
        let alike = |&flags: &u64| flags == source_flags(dataset);
        known.iter().position(alike).map_or(0, |at| at as u64)
    }

    /// Each chunk lies in the source of its dataset.
    fn chunk_records(&self) -> Vec<u64> {
        let mut records = self.chunks.clone();
        for dataset in &self.datasets {
            let at = dataset.chunks_at as usize;
            let end = at.saturating_add(self.n_chunks(dataset) as usize);
            for record in records.get_mut(at..end).unwrap_or_default() {
                record[3] = record[3] & u64::from(u32::MAX) | self.source(dataset) << 32;
            }
        }
        records.concat()
    }
}

/// Bit 0: direct, bit 1: turnstile.
fn source_flags(dataset: &TestDataset) -> u64 {
    dataset.flags & 1 | dataset.flags >> 1 & 2
}

/// XorShift64: numbers for tests, the same for a seed on every machine.
pub struct XorShift64(pub u64);

impl XorShift64 {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}
