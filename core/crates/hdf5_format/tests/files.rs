//! Files of every layout, as h5py wrote them, against what h5py says of them.
//!
//! Law:
//! 1. The files are the corpus of the fuzz target `metadata`; `tools/fuzz.py --seeds` writes them, and
//!    files.txt with h5py's answers beside this file.

use hdf5_format::file::{File, Found};
use hdf5_format::layout::Layout;
use std::path::Path;

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
