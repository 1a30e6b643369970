//! Datasets of which selections are read, and what the threads that read them share.
//!
//! Law:
//! 1. What is kept of a dataset goes by its file, as it was indexed, and by how its chunks decode.
//! 2. A virtual dataset is a read inside a read: the reader of its parts is handed in from above.

use crate::chunk_cache::processes::ProcessCache;
use crate::chunk_cache::{Key, SharedCache};
use crate::elements::ReadElements;
use crate::fetch::data_file::OpenFiles;
use crate::select::chunk_iter::Geometry;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use tables::dataset::{Chunk, Dataset, DatasetTable};

/// A dataset of which selections are read.
#[derive(Debug)]
pub struct SelectedDataset {
    pub table: Arc<DatasetTable>,
    /// Which of the table's datasets it is.
    number: usize,
    pub geometry: Geometry,
    /// What is open for it: its files, and the way in which their chunks are decoded.
    pub way: u64,
    /// The files and this way, as the cache numbers them.
    pub keys: Keys,
}

/// What is kept of a dataset goes by these.
#[derive(Debug)]
pub struct Keys {
    /// One for each source of the table.
    sources: Arc<[u64]>,
    decoding: u64,
}

impl Keys {
    pub fn of(&self, chunk: &Chunk) -> Key {
        Key {
            source: self.sources[chunk.source as usize] ^ self.decoding,
            byte_offset: chunk.byte_offset,
        }
    }

    /// Nothing of these files is kept any more.
    pub fn forget(&self, cache: &SharedCache) {
        let sources = self.sources.iter();
        sources.for_each(|source| cache.forget(source ^ self.decoding));
    }
}

impl SelectedDataset {
    pub fn dataset(&self) -> &Dataset {
        &self.table.datasets[self.number]
    }
}

pub type MakeElements = fn(&Arc<DatasetTable>, &Arc<Shared>) -> Box<dyn ReadElements>;

/// What the contexts of several threads have in common.
#[derive(Debug)]
pub struct Shared {
    pub cache: SharedCache,
    pub files: OpenFiles,
    numbers: Numbers,
    /// Makes what reads the virtual datasets of a table.
    pub assembler: MakeElements,
}

/// Makes numbers for files and ways to decode them; a file cannot foresee them.
#[derive(Debug)]
enum Numbers {
    Own(RandomState),
    /// The same in all processes that share chunks.
    OfAll(Arc<ProcessCache>),
}

impl Numbers {
    fn of(&self, what: impl Hash) -> u64 {
        match self {
            Numbers::Own(state) => state.hash_one(what),
            Numbers::OfAll(cache) => cache.number_of(what),
        }
    }
}

impl Shared {
    /// `others`: chunks that other processes decode, too.
    pub fn new(
        cache_limit_bytes: usize,
        others: Option<Arc<ProcessCache>>,
        assembler: MakeElements,
    ) -> Shared {
        let own = || Numbers::Own(RandomState::new());
        Shared {
            numbers: others.clone().map_or_else(own, Numbers::OfAll),
            cache: SharedCache::new(cache_limit_bytes, others),
            files: OpenFiles::default(),
            assembler,
        }
    }

    /// Know the first dataset of a table.
    pub fn dataset(&self, table: DatasetTable) -> Result<SelectedDataset, &'static str> {
        self.dataset_of(Arc::new(table), 0)
    }

    /// Know a dataset of a table.
    pub fn dataset_of(
        &self,
        table: Arc<DatasetTable>,
        number: usize,
    ) -> Result<SelectedDataset, &'static str> {
        let dataset = table.datasets.get(number);
        let dataset = dataset.ok_or("a request's table has a dataset")?;
        let geometry = Geometry::new(dataset).ok_or("the grid is too large")?;
        // That two of these are equal by chance, of a function that nobody can foresee, will not happen.
        let sources = table.source_keys(|file| {
            // Servers make ETags of sizes and times: those of several objects may be equal.
            let name = file.access.as_ref().map(|_| &file.filename);
            let what = (&file.fingerprint, name, file.direct, &file.inline);
            self.numbers.of(what)
        });
        let how = (&dataset.filters, &dataset.conversion, dataset.decoded_size);
        let decoding = self.numbers.of(how);
        let chunks = table.chunks_of(dataset);
        let is_alone = chunks.iter().all(|c| c.source as usize == dataset.source);
        // By its number a source is found, and parts by the numbers of datasets.
        let others = match is_alone && dataset.parts.is_empty() {
            true => None,
            false => Some((&sources, number, Arc::as_ptr(&table) as usize)),
        };
        let own = (dataset.source, sources[dataset.source], decoding);
        Ok(SelectedDataset {
            way: self.numbers.of((own, others)),
            keys: Keys { sources, decoding },
            geometry,
            number,
            table,
        })
    }
}
