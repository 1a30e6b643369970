//! Lists a file's datasets, and decodes their chunks: cargo run --example datasets -- FILE
//!
//! Law:
//! 1. A line for each dataset: its path, its dims, how many chunks are stored, and the sum of all bytes
//!    that they decode to. Datasets without chunks, and paths that are no UTF-8, are not read.

use hdf5_filters::{FilterSpec, Pipeline};
use hdf5_format::error::Result;
use hdf5_format::file::{Dataset, File, ObjectKind};
use hdf5_format::layout::Layout;
use hdf5_format::link::Target;
use std::collections::HashSet;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).ok_or("which file?")?;
    let bytes = std::fs::read(name)?;
    // A source may be anything that gives bytes; here it is memory.
    let file = File::open(Box::new(bytes.clone()), true)?;
    let mut datasets = Vec::new();
    let mut met = HashSet::new();
    walk(&file, file.root(), "", &mut met, &mut datasets)?;
    for (path, dataset) in datasets {
        let dims = &dataset.dataspace.dims;
        let Layout::Chunked(layout) = &dataset.layout else {
            println!("{path} {dims:?}");
            continue;
        };
        let extent: u64 = layout.chunk_dims.iter().product();
        let decoded_size = (extent * u64::from(dataset.element_bytes)) as usize;
        let filters: Vec<_> = (dataset.filters.iter())
            .map(|filter| FilterSpec {
                id: filter.id.into(),
                flags: filter.flags.into(),
                values: filter.values.clone(),
            })
            .collect();
        let mut pipeline = Pipeline::new(&filters, decoded_size, || 0)
            .map_err(|id| format!("{path}: filter {id} is not known"))?;
        let chunks = file.chunks(&dataset)?;
        let mut sum = 0;
        for chunk in &chunks {
            let begin = chunk.byte_offset as usize;
            let stored = bytes.get(begin..begin + chunk.stored_size as usize);
            let stored = stored.ok_or("a chunk lies outside of the file")?;
            let mut decoded = vec![0; decoded_size];
            pipeline.decode(chunk.filter_mask, stored, &mut decoded, || decoded_size)?;
            sum += decoded.iter().copied().map(u64::from).sum::<u64>();
        }
        println!("{path} {dims:?} {} {sum}", chunks.len());
    }
    Ok(())
}

fn walk(
    file: &File,
    offset: u64,
    path: &str,
    met: &mut HashSet<u64>,
    datasets: &mut Vec<(String, Dataset)>,
) -> Result<()> {
    if !met.insert(offset) {
        return Ok(());
    }
    let header = file.object(offset)?;
    match header.kind() {
        ObjectKind::Dataset => datasets.push((path.to_owned(), file.dataset(&header)?)),
        ObjectKind::Group => {
            for link in file.links(&header)? {
                if let (Target::Hard(offset), Ok(name)) =
                    (link.target, std::str::from_utf8(&link.name))
                {
                    walk(file, offset, &format!("{path}/{name}"), met, datasets)?;
                }
            }
        }
        ObjectKind::Datatype | ObjectKind::Other => {}
    }
    Ok(())
}
