//! Files of every layout, as h5py wrote them, against what h5py says of them.
//!
//! Law:
//! 1. The files are the corpus of the fuzz target `metadata`; `tools/fuzz.py --seeds` writes them, and
//!    files.txt with h5py's answers beside this file.

use hdf5_format::file::{File, Found};
use hdf5_format::layout::Layout;
use hdf5_format::source::ByteSource;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const ANSWERS: &str = include_str!("files.txt");

#[test]
fn datasets_are_what_h5py_says() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/metadata");
    let mut n_chunked = 0;
    for line in ANSWERS.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, path, dims, element_bytes, filters, chunks] = words[..] else {
            panic!("{line}");
        };
        let bytes = std::fs::read(corpus.join(name)).unwrap();
        let file = File::open(Box::new(bytes), true).unwrap();
        let Ok(Found::Object(offset)) = file.find(file.root(), path.as_bytes()) else {
            panic!("{line}");
        };
        let dataset = file.dataset(&file.object(offset).unwrap()).unwrap();
        assert_eq!(numbers(&dataset.dataspace.dims), dims, "{line}");
        assert_eq!(dataset.element_bytes.to_string(), element_bytes, "{line}");
        let ids: Vec<u64> = dataset.filters.iter().map(|one| one.id.into()).collect();
        assert_eq!(numbers(&ids), filters, "{line}");
        let stored: String = match &dataset.layout {
            Layout::Chunked(_) => file
                .chunks(&dataset)
                .unwrap()
                .iter()
                .map(|chunk| format!("{}:{},", chunk.byte_offset, chunk.stored_size))
                .collect(),
            _ => String::new(),
        };
        n_chunked += usize::from(!stored.is_empty());
        assert_eq!(
            stored.trim_end_matches(','),
            chunks.trim_start_matches('-'),
            "{line}"
        );
    }
    assert!(n_chunked >= 5);
}

/// As files.txt has them: with commas, and a dash for none.
fn numbers(of: &[u64]) -> String {
    let texts: Vec<String> = of.iter().map(u64::to_string).collect();
    match of {
        [] => "-".to_owned(),
        _ => texts.join(","),
    }
}

/// A store that fails to prefetch, and counts what it was asked for.
struct Fails(Vec<u8>, AtomicUsize);

impl ByteSource for Fails {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn prefetch(&self, wanted: &mut dyn Iterator<Item = (u64, u64)>) {
        assert!(wanted.count() > 0);
        self.1.fetch_add(1, Relaxed);
    }

    fn wants_prefetch(&self) -> bool {
        true
    }

    fn has(&self, _offset: u64, _len: u64) -> bool {
        false
    }
}

#[test]
fn what_fails_to_be_prefetched_is_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/metadata");
    for name in ["objects_earliest", "objects_latest"] {
        let bytes = std::fs::read(corpus.join(name)).unwrap();
        let near = File::open(Box::new(bytes.clone()), true).unwrap();
        let far = Arc::new(Fails(bytes, AtomicUsize::new(0)));
        let file = File::open(Box::new(far.clone()), true).unwrap();
        let root = [file.root()];
        far.1.store(0, Relaxed);
        file.prefetch(&root);
        assert!((1..=2).contains(&far.1.load(Relaxed)), "{name}"); // no third request that fails
        let links = |file: &File| format!("{:?}", file.links_of(&root, &()).unwrap());
        assert_eq!(links(&file), links(&near), "{name}");
    }
}
