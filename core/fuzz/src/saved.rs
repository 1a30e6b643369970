//! A saved index, of one file or of many, with every question that it answers.
//!
//! Law: each question has an answer or an error, for any bytes.
//!
//! Input: the index. Its sums are not looked at, so that a change leads further.

use hdf5_format::link::Target;
use hdf5_format::saved_columns::{MANIFEST, VERSION};
use hdf5_format::saved_index::{SavedFile, SavedIndex};
use std::collections::HashSet;

/// Objects and files that are looked at.
const MAX_OBJECTS: usize = 64;
const MAX_FILES: usize = 4;

pub fn index(bytes: &[u8]) {
    for version in [VERSION, MANIFEST] {
        let source = Box::new(bytes.to_vec());
        let Ok(Some(index)) = SavedIndex::open(source, version, None, |_| true) else {
            continue;
        };
        let _ = index.files();
        for path in [&b""[..], b"x", b"/g", b"scales/rows"] {
            index.is_alike(path);
            let rows = index.alike(path).unwrap_or_default();
            let _ = index.survey(&mut rows.into_iter().zip(0..), true);
        }
        objects(&index.whole());
        (0..MAX_FILES)
            .map_while(|number| index.file(number))
            .for_each(|file| objects(&file));
    }
}

fn objects(of: &SavedFile) {
    let (mut found, mut met) = (vec![of.root], HashSet::from([of.root]));
    let mut at = 0;
    while at < found.len() {
        let offset = found[at];
        at += 1;
        of.kind(offset);
        of.names(offset);
        let _ = (of.attributes(offset), of.datatype(offset));
        let _ = (of.dataset(offset), of.chunks(offset));
        for link in of.links(offset).ok().flatten().unwrap_or_default() {
            let _ = (of.link(offset, &link.name), of.find(offset, &link.name));
            if let Target::Hard(to) = link.target {
                if found.len() < MAX_OBJECTS && met.insert(to) {
                    found.push(to);
                }
            }
        }
    }
    let _ = of.survey(&found, true);
    for path in [&b"/x"[..], b"g/soft/../x", b"/c/key", b"scales/rows"] {
        let _ = of.find(of.root, path);
    }
}
