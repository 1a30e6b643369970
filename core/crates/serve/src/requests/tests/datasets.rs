//! Datasets whose bytes follow from their place, in files of every layout, with tables.

use os::memory::{Mapping, reserved_memfd};
use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tables::dataset::{Dataset, DatasetTable, MAGIC, Memory, UNALLOCATED};
use testing::encoders as enc;
use testing::fixtures::{TestFile, XorShift64};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Contiguous,
    Chunked,
    Deflate,
    ShuffleDeflate,
    Blosc,
    BloscStored,
    /// Some chunks skip the filters, some are not stored.
    Mixed,
    Direct,
    DirectDeflate,
    DirectContiguous,
}

impl Layout {
    pub const ALL: [Layout; 10] = [
        Layout::Contiguous,
        Layout::Chunked,
        Layout::Deflate,
        Layout::ShuffleDeflate,
        Layout::Blosc,
        Layout::BloscStored,
        Layout::Mixed,
        Layout::Direct,
        Layout::DirectDeflate,
        Layout::DirectContiguous,
    ];

    fn is_contiguous(self) -> bool {
        matches!(self, Layout::Contiguous | Layout::DirectContiguous)
    }

    fn is_direct(self) -> bool {
        use Layout::*;
        matches!(self, Direct | DirectDeflate | DirectContiguous)
    }

    /// `(id, value)`
    fn filters(self, element: usize) -> Vec<(u64, u64)> {
        use Layout::*;
        match self {
            Contiguous | Chunked | Direct | DirectContiguous => vec![],
            Deflate | DirectDeflate | Mixed => vec![(1, 4)],
            ShuffleDeflate => vec![(2, element as u64), (1, 4)],
            Blosc | BloscStored => vec![(32001, 0)],
        }
    }
}

/// A string in the field: offset, size, count, padding (1 NUL, 2 spaces).
pub type Fix = [u64; 4];

#[derive(Debug)]
pub struct TestDataset {
    pub dims: Vec<u64>,
    pub chunk_dims: Vec<u64>,
    pub element: usize,
    pub field: (usize, usize),
    pub fixes: Vec<Fix>,
    layout: Layout,
    fill: Vec<u8>,
    /// `[grid_index, byte_offset, stored_size, filter_mask]`
    chunks: Vec<[u64; 4]>,
    file: Arc<TestFile>,
    /// As it was indexed.
    fingerprint: [u64; 4],
    pub number: u64,
    pub at: usize,
    pub arena: Arc<Mapping>,
}

pub fn arena(len: usize) -> Arc<Mapping> {
    let fd = reserved_memfd(c"test-arena", len).unwrap();
    Arc::new(Mapping::new(fd.as_fd(), 0, len, true).unwrap())
}

/// Byte `byte` of the element with this row-major number. Spaces and NULs, so that strings end.
fn byte_at(flat: u64, byte: usize) -> u8 {
    let mixed = (flat * 131 + byte as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    match mixed % 5 {
        0 => b' ',
        1 => 0,
        _ => (flat as u8).wrapping_mul(7).wrapping_add(byte as u8),
    }
}

impl TestDataset {
    pub fn new(random: &mut XorShift64) -> TestDataset {
        let n_dims = match random.below(12) {
            0 => 5 + random.below(28) as usize,
            few => 1 + few as usize % 4,
        };
        let mut most: u64 = 4000;
        let mut dims = Vec::new();
        for _ in 0..n_dims {
            let dim = match random.below(20) {
                0 => 0,
                _ => 1 + random.below(most.min(24)),
            };
            most = (most / dim.max(1)).max(1);
            dims.push(dim);
        }
        let chunk_dims: Vec<u64> = (dims.iter())
            .map(|&dim| match random.below(3) {
                0 => dim.max(1),
                1 => 1 + random.below(dim.max(1)),
                _ => 1 + random.below(dim + 3),
            })
            .collect();
        let layout = Layout::ALL[random.below(Layout::ALL.len() as u64) as usize];
        TestDataset::with(random, &dims, &chunk_dims, layout)
    }

    pub fn with(
        random: &mut XorShift64,
        dims: &[u64],
        chunk_dims: &[u64],
        layout: Layout,
    ) -> TestDataset {
        let mut chunk_dims = chunk_dims.to_vec();
        if layout.is_contiguous() {
            chunk_dims[1..].copy_from_slice(&dims[1..]);
            chunk_dims.iter_mut().for_each(|dim| *dim = (*dim).max(1));
        }
        let element = [1, 2, 3, 4, 8, 13, 16, 40][random.below(8) as usize];
        let field = match random.below(3) {
            0 => {
                let offset = random.below(element as u64) as usize;
                (offset, 1 + random.below((element - offset) as u64) as usize)
            }
            _ => (0, element),
        };
        let fixes = match random.below(4) {
            0 => {
                let offset = random.below(field.1 as u64);
                let size = 1 + random.below(field.1 as u64 - offset);
                let count = 1 + random.below((field.1 as u64 - offset) / size);
                vec![[offset, size, count, 2 * random.below(2)]]
            }
            _ => vec![],
        };
        let mut dataset = TestDataset {
            dims: dims.to_vec(),
            chunk_dims,
            element,
            field,
            fixes,
            layout,
            fill: (0..element).map(|byte| byte_at(99, byte)).collect(),
            chunks: Vec::new(),
            file: Arc::new(TestFile::new("none", b"")),
            fingerprint: [0; 4],
            number: 1,
            at: 0,
            arena: arena(1 << 18),
        };
        dataset.store(random);
        dataset.write_table();
        dataset
    }

    fn grid(&self, dim: usize) -> u64 {
        self.dims[dim].div_ceil(self.chunk_dims[dim]).max(1)
    }

    fn decoded_chunk(&self, grid_index: u64) -> Vec<u8> {
        let n = self.dims.len();
        let total: u64 = self.chunk_dims.iter().product();
        let mut bytes = Vec::new();
        for inner in 0..total {
            let (mut rest_chunk, mut rest, mut flat, mut stride) = (grid_index, inner, 0, 1);
            let mut inside = true;
            for dim in (0..n).rev() {
                let index = rest_chunk % self.grid(dim) * self.chunk_dims[dim]
                    + rest % self.chunk_dims[dim];
                rest_chunk /= self.grid(dim);
                rest /= self.chunk_dims[dim];
                inside &= index < self.dims[dim];
                flat += index * stride;
                stride *= self.dims[dim];
            }
            if inside || !self.layout.is_contiguous() {
                bytes.extend((0..self.element).map(|byte| byte_at(flat, byte)));
            }
        }
        bytes
    }

    fn store(&mut self, random: &mut XorShift64) {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let n_cells: u64 = (0..self.dims.len()).map(|dim| self.grid(dim)).product();
        let user_block = [0, 512, 1 << 17][random.below(3) as usize];
        let mut bytes = vec![0xEE; user_block];
        let empty = self.dims.contains(&0);
        for grid_index in 0..n_cells {
            if empty || (self.layout == Layout::Mixed && random.below(3) == 0) {
                continue;
            }
            let decoded = self.decoded_chunk(grid_index);
            let mut mask = 0;
            let stored = match self.layout {
                Layout::Deflate | Layout::DirectDeflate => enc::deflate(&decoded),
                Layout::ShuffleDeflate => enc::deflate(&enc::shuffle(self.element, &decoded)),
                Layout::Blosc => {
                    let elements = decoded.len() / self.element;
                    let block = (elements / (1 + random.below(5) as usize)).max(1) * self.element;
                    let (codec, filter) = (random.below(4) as usize, random.below(3) as usize);
                    let split = random.below(2) == 0;
                    enc::blosc1_any(codec, filter, self.element, block, split, &decoded)
                }
                Layout::BloscStored => enc::blosc1_stored(self.element, &decoded),
                Layout::Mixed if random.below(2) == 0 => enc::deflate(&decoded),
                Layout::Mixed => {
                    mask = 1;
                    decoded
                }
                _ => decoded,
            };
            if !self.layout.is_contiguous() {
                bytes.resize(bytes.len() + random.below(20) as usize, 0xEE);
            }
            let record = [grid_index, bytes.len() as u64, stored.len() as u64, mask];
            bytes.extend(stored);
            if !self.layout.is_contiguous() || self.chunks.is_empty() {
                self.chunks.push(record);
            }
        }
        let name = format!("random-{}", COUNT.fetch_add(1, Relaxed));
        self.set_file(&name, &bytes);
    }

    fn set_file(&mut self, name: &str, bytes: &[u8]) {
        self.file = Arc::new(TestFile::new(name, bytes));
        let stat = std::fs::metadata(&self.file.0).unwrap();
        let ns = stat.st_mtime() as u64 * 1_000_000_000 + stat.st_mtime_nsec() as u64;
        self.fingerprint = [stat.st_dev(), stat.st_ino(), stat.st_size(), ns];
    }

    /// The element with this row-major number, as the result shows its field.
    pub fn field_of(&self, index: &[u64]) -> Vec<u8> {
        let (mut flat, mut cell) = (0, 0);
        for (dim, &at) in index.iter().enumerate() {
            flat = flat * self.dims[dim] + at;
            cell = cell * self.grid(dim) + at / self.chunk_dims[dim];
        }
        let stored = self.number_of(cell).is_some();
        let (offset, size) = self.field;
        let mut field: Vec<u8> = (offset..offset + size)
            .map(|byte| {
                if stored {
                    byte_at(flat, byte)
                } else {
                    self.fill[byte]
                }
            })
            .collect();
        for &[at, size, count, padding] in &self.fixes {
            let (at, size) = (at as usize, size as usize);
            for string in field[at..at + size * count as usize].chunks_mut(size) {
                let end = match padding {
                    2 => size - string.iter().rev().take_while(|&&b| b == b' ').count(),
                    _ => string.iter().take_while(|&&b| b != 0).count(),
                };
                string[end..].fill(0);
            }
        }
        field
    }

    /// A chunk's number in the table.
    pub fn number_of(&self, grid_index: u64) -> Option<u64> {
        if self.layout.is_contiguous() {
            return (!self.chunks.is_empty()).then_some(0);
        }
        let found = self.chunks.iter().position(|c| c[0] == grid_index);
        found.map(|number| number as u64)
    }

    pub fn n_chunks(&self) -> u64 {
        self.chunks.len() as u64
    }

    pub fn file_bytes(&self) -> u64 {
        self.fingerprint[2]
    }

    pub fn table(&self) -> Vec<u8> {
        let (n, row) = (
            self.dims.len() as u64,
            self.dims[1..].iter().product::<u64>(),
        );
        let row_bytes = row * self.field.1 as u64;
        let filters = self.layout.filters(self.element);
        let name = self.file.0.to_str().unwrap().as_bytes();
        let mut words = [&self.dims[..], &self.chunk_dims].concat();
        let filters_at = words.len() as u64;
        for &(id, value) in &filters {
            words.extend([id, 0, 1, value]);
        }
        let fixes_at = words.len() as u64;
        for &[at, size, count, padding] in &self.fixes {
            words.extend([at, size, size, at, size, size, count, padding, 0]);
        }
        let [device, inode, size, time] = self.fingerprint;
        let (element, n_chunks) = (self.element as u64, self.chunks.len() as u64);
        let direct = u64::from(self.layout.is_direct());
        let clipped = u64::from(self.layout.is_contiguous());
        #[rustfmt::skip]
        let source = [
            element, name.len() as u64, device, inode, size, time, 0, 0, direct, 0, 0,
        ];
        #[rustfmt::skip]
        let dataset = [
            0, row_bytes, element, self.field.0 as u64, self.field.1 as u64, n, 0, n,
            filters_at, filters.len() as u64, 0, fixes_at, self.fixes.len() as u64, clipped,
            0, 0, 0, n_chunks, 0, 0, 0,
        ];
        let blob = [&self.fill[..], name].concat();
        let body = [&source[..], &dataset, &self.chunks.concat(), &words].concat();
        let total = 8 * (8 + body.len() as u64) + blob.len() as u64;
        let (n_words, n_blob) = (words.len() as u64, blob.len() as u64);
        let header = [MAGIC, total, 1, 1, n_chunks, n_words, n_blob, 0];
        let all = header.iter().chain(&body);
        all.flat_map(|word| word.to_le_bytes())
            .chain(blob)
            .collect()
    }

    fn write_table(&self) {
        let bytes = self.table();
        assert!(self.at + bytes.len() <= self.arena.len());
        // SAFETY: inside the mapping, as just checked; nobody reads it yet.
        unsafe {
            let place = self.arena.base().add(self.at);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
    }

    pub fn dataset(&self) -> Dataset {
        let len = self.table().len();
        let memory = Memory::taken(&self.arena, self.at, len).unwrap();
        let table = DatasetTable::over(memory, 0, len);
        table.unwrap().datasets.remove(0)
    }

    pub fn move_to(&mut self, arena: &Arc<Mapping>, number: u64) {
        self.arena = arena.clone();
        (self.number, self.at) = (number, number as usize * 40_000);
        self.write_table();
    }

    fn copied(&self) -> TestDataset {
        TestDataset {
            dims: self.dims.clone(),
            chunk_dims: self.chunk_dims.clone(),
            fixes: self.fixes.clone(),
            fill: self.fill.clone(),
            chunks: self.chunks.clone(),
            file: self.file.clone(),
            arena: arena(1 << 18),
            ..*self
        }
    }

    /// The same with another word in a chunk's record; of contiguous data there is one record.
    pub fn lie(&self, grid_index: u64, word: usize, value: u64) -> TestDataset {
        let mut lying = self.copied();
        let number = self.number_of(grid_index).unwrap() as usize;
        assert_ne!(lying.chunks[number][1], UNALLOCATED);
        lying.chunks[number][word] = value;
        lying.write_table();
        lying
    }

    /// Some stored bytes are others.
    pub fn damaged(&self, random: &mut XorShift64) -> TestDataset {
        let mut bytes = std::fs::read(&self.file.0).unwrap();
        for _ in 0..1 + bytes.len() / 300 {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        let mut damaged = self.copied();
        let name = format!("damaged-{}", random.below(1 << 40));
        damaged.set_file(&name, &bytes);
        damaged.write_table();
        damaged
    }

    /// The file changes: it gets longer.
    pub fn touch(&self) {
        use std::io::Write;
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&self.file.0)
            .unwrap();
        file.write_all(b"more").unwrap();
    }
}
