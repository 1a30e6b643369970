//! Saved indexes against the files that they are of.
//!
//! Law:
//! 1. The indexes are the corpus of the fuzz target `saved`, the files that of `metadata`, by their names.
//! 2. What an index says is what its file says.

use hdf5_format::file::{Dataset, File, Found, ObjectKind};
use hdf5_format::link::Target;
use hdf5_format::saved_columns::VERSION;
use hdf5_format::saved_index::{Followed, SavedFile, SavedIndex};
use std::collections::HashSet;
use std::path::Path;

#[test]
fn an_index_says_what_its_file_says() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut n_objects = 0;
    for entry in std::fs::read_dir(corpus.join("metadata")).unwrap() {
        let path = entry.unwrap().path();
        let saved = std::fs::read(corpus.join("saved").join(path.file_name().unwrap())).unwrap();
        let file = File::open(Box::new(std::fs::read(&path).unwrap()), true).unwrap();
        let index = SavedIndex::open(Box::new(saved), VERSION, None, |_| true);
        n_objects += same(&file, &index.unwrap().unwrap().whole());
    }
    assert!(n_objects > 50, "{n_objects}");
}

/// Compare all objects; their number.
fn same(file: &File, index: &SavedFile) -> usize {
    assert_eq!(index.root, file.root());
    let (mut found, mut met) = (vec![file.root()], HashSet::from([file.root()]));
    let mut at = 0;
    while at < found.len() {
        let offset = found[at];
        at += 1;
        let header = file.object(offset).unwrap();
        let [of_file, of_index] = [
            file.attributes(&header).unwrap(),
            index.attributes(offset).unwrap().unwrap(),
        ]
        .map(|all| {
            all.into_iter()
                .map(|(order, of)| (order, of.name, of.elements))
        });
        assert!(of_file.eq(of_index));
        match header.kind() {
            ObjectKind::Dataset => {
                let of_file = file.dataset(&header).unwrap();
                let (of_index, _) = index.dataset(offset).unwrap().unwrap();
                assert_eq!(values(&of_index), values(&of_file));
                let chunks = index.chunks(offset).unwrap();
                assert!(chunks.is_none_or(|chunks| chunks == file.chunks(&of_file).unwrap()));
            }
            ObjectKind::Datatype => {
                let message = file.datatype(&header).unwrap().bytes;
                assert_eq!(index.datatype(offset).unwrap(), Some(message));
            }
            ObjectKind::Group => {
                let mut links = file.links(&header).unwrap();
                links.sort_by(|one, other| one.name.cmp(&other.name));
                for link in &links {
                    let of_index = index.link(offset, &link.name).unwrap().unwrap();
                    assert_eq!(of_index.as_ref(), Some(link));
                    let Followed::Found(led) = index.find(offset, &link.name).unwrap() else {
                        panic!("all is saved");
                    };
                    assert_eq!(led, file.find(offset, &link.name).unwrap());
                    if let (Target::Hard(to), Found::Object(_)) = (&link.target, led) {
                        found.extend(met.insert(*to).then_some(*to));
                    }
                }
                assert_eq!(index.links(offset).unwrap(), Some(links));
            }
            ObjectKind::Other => {}
        }
    }
    found.len()
}

/// What is compared of a dataset: all but where it lies.
fn values(of: &Dataset) -> impl PartialEq + std::fmt::Debug {
    let shape = (of.dataspace.clone(), of.datatype.bytes.clone());
    let stored = (of.element_bytes, of.filters.clone(), of.fill.clone());
    (shape, stored, of.external_files.clone())
}
