//! The stored chunks of a dataset, out of the six indexes that HDF5 has for them (IV.A.2.i, VII).
//!
//! Law:
//! 1. A chunk is named by its number in the grid of the dataset's current dims, the last axis fastest.
//!    One outside of these dims is corrupt; one without an address is not stored.
//! 2. The table is in order and names a chunk once. It has no more rows than its index has entries.
//! 3. Whether a chunk lies in the file is checked where its bytes are read.

use super::array_elements::OnElement;
use super::blocks::Blocks;
use super::btree_v1::{self, Kind};
use super::btree_v2::BTreeV2;
use super::chunk::Chunk;
use super::cursor::{Cursor, UNDEFINED};
use super::error::{Result, corrupt, unknown};
use super::grid::{Axis, Place, axes};
use super::{extensible_array, fixed_array};

/// The filter mask of a chunk that no filter was applied to.
const NO_FILTERS: u32 = u32::MAX;
/// Kinds of the B-tree of chunks without filters, and with.
const PLAIN_CHUNKS: u8 = 10;
const FILTERED_CHUNKS: u8 = 11;
/// A max dim without a bound.
const UNLIMITED: u64 = u64::MAX;

/// Where a chunked dataset is stored, as its layout message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkedLayout {
    pub index: ChunkIndexKind,
    /// Of the index, or of the chunks themselves if they have none. From the superblock; undefined if
    /// nothing is stored yet.
    pub address: u64,
    pub chunk_dims: Vec<u64>,
    /// Chunks that reach over the dataset's edge are stored without filters.
    pub unfiltered_edges: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkIndexKind {
    BTreeV1,
    /// One chunk, and its stored size and filter mask if it has filters.
    Single {
        filtered: Option<(u64, u32)>,
    },
    /// All chunks one behind the other.
    Implicit,
    FixedArray,
    ExtensibleArray,
    BTreeV2,
}

/// Every stored chunk of a dataset of these dims, by number in the grid. `has_filters` says whether there is a filter pipeline.
pub fn chunk_table(
    blocks: &Blocks,
    layout: &ChunkedLayout,
    dims: &[u64],
    max_dims: &[u64],
    element_bytes: u64,
    has_filters: bool,
) -> Result<Vec<Chunk>> {
    let address = blocks.address(layout.address);
    let (rank, chunk_dims) = (dims.len(), &layout.chunk_dims);
    if rank == 0 || chunk_dims.len() != rank || max_dims.len() != rank || chunk_dims.contains(&0) {
        let expected = format!("chunks for dims {dims:?} of at most {max_dims:?}");
        return corrupt(address, expected, format_args!("{chunk_dims:?}"));
    }
    let bytes = chunk_dims
        .iter()
        .copied()
        .try_fold(element_bytes, u64::checked_mul);
    let Some(chunk_bytes) = bytes.filter(|bytes| *bytes > 0) else {
        let got = format!("{chunk_dims:?} elements of {element_bytes} bytes");
        return corrupt(address, "a chunk of 1 to 2^64 bytes", got);
    };
    let Some(axes) = axes(dims, chunk_dims) else {
        return unknown(address, "a grid of more than 2^63 chunks");
    };
    if dims.contains(&0) || layout.address == UNDEFINED {
        return Ok(Vec::new());
    }
    let index = Index {
        blocks,
        address: layout.address,
        axes,
        max_dims,
        chunk_bytes,
        has_filters,
    };
    let mut chunks = Chunks {
        blocks,
        dims,
        table: Vec::new(),
        has_plain_edges: has_filters && layout.unfiltered_edges,
        is_in_order: true,
    };
    match layout.index {
        ChunkIndexKind::BTreeV1 => index.btree_v1(&mut chunks),
        ChunkIndexKind::Single { filtered } => index.single(filtered, &mut chunks),
        ChunkIndexKind::Implicit => index.implicit(&mut chunks),
        ChunkIndexKind::FixedArray => index.fixed_array(&mut chunks),
        ChunkIndexKind::ExtensibleArray => index.extensible_array(&mut chunks),
        ChunkIndexKind::BTreeV2 => index.btree_v2(&mut chunks),
    }?;
    chunks.in_order(address)
}

/// The table while it grows.
struct Chunks<'a> {
    blocks: &'a Blocks,
    dims: &'a [u64],
    table: Vec<Chunk>,
    has_plain_edges: bool,
    is_in_order: bool,
}

impl Chunks<'_> {
    /// Add a chunk that an entry at this address names, if it is stored.
    fn add(&mut self, address: u64, place: Place, offset: u64, size: u64, mask: u32) -> Result<()> {
        if offset == UNDEFINED {
            return Ok(());
        }
        if !place.is_inside {
            let expected = format!("a chunk that begins within the dims {:?}", self.dims);
            return corrupt(address, expected, "one outside");
        }
        let last = self.table.last();
        self.is_in_order &= last.is_none_or(|last| last.grid_index < place.grid_index);
        let is_plain = place.is_cut && self.has_plain_edges;
        self.table.push(Chunk {
            filter_mask: if is_plain { NO_FILTERS } else { mask },
            ..Chunk::plain(place.grid_index, self.blocks.address(offset), size)
        });
        Ok(())
    }

    fn in_order(self, address: u64) -> Result<Vec<Chunk>> {
        let mut table = self.table;
        if self.is_in_order {
            return Ok(table);
        }
        table.sort_unstable_by_key(|chunk| chunk.grid_index);
        let mut pairs = table.windows(2);
        match pairs.find(|pair| pair[0].grid_index == pair[1].grid_index) {
            Some(pair) => {
                let got = format!("chunk {} of the grid twice", pair[0].grid_index);
                corrupt(address, "an index of chunks that names each once", got)
            }
            None => Ok(table),
        }
    }
}

/// The index of a dataset's chunks.
struct Index<'a> {
    blocks: &'a Blocks,
    /// From the superblock.
    address: u64,
    axes: Vec<Axis>,
    max_dims: &'a [u64],
    /// Of a chunk without filters.
    chunk_bytes: u64,
    has_filters: bool,
}

impl Index<'_> {
    fn btree_v1(&self, chunks: &mut Chunks<'_>) -> Result<()> {
        let kind = Kind::Chunks {
            rank: self.axes.len(),
        };
        btree_v1::each_leaf(self.blocks, self.address, kind, &mut |mut key, offset| {
            let address = key.address();
            let (size, mask) = (u64::from(key.u32()?), key.u32()?);
            let mut place = Place::FIRST;
            for axis in &self.axes {
                let element = key.u64()?;
                let n_chunks = element / axis.chunk_dim;
                if n_chunks * axis.chunk_dim != element {
                    let expected = format!("a multiple of {} elements", axis.chunk_dim);
                    return corrupt(key.address() - 8, expected, element);
                }
                place.go(axis, n_chunks);
            }
            chunks.add(address, place, offset, size, mask)
        })
    }

    fn btree_v2(&self, chunks: &mut Chunks<'_>) -> Result<()> {
        let tree = BTreeV2::open(self.blocks, self.address)?;
        let kind = if self.has_filters {
            FILTERED_CHUNKS
        } else {
            PLAIN_CHUNKS
        };
        if tree.kind != kind {
            let expected = format!("a B-tree of kind {kind}");
            return corrupt(tree.address, expected, format_args!("kind {}", tree.kind));
        }
        let numbers = 8 * self.axes.len() as u64;
        let plain = numbers + self.blocks.sizes.address as u64;
        let widths = if self.has_filters {
            plain + 5..=plain + 12
        } else {
            plain..=plain
        };
        if !widths.contains(&tree.record_bytes) {
            let expected = format!("records of {} to {} bytes", widths.start(), widths.end());
            return corrupt(tree.address, expected, tree.record_bytes);
        }
        tree.each_record(&mut |mut record| {
            let (address, behind) = (record.address(), numbers as usize);
            let (offset, size, mask) = self.chunk(&mut record, behind)?;
            let mut place = Place::FIRST;
            for axis in &self.axes {
                place.go(axis, record.u64()?);
            }
            chunks.add(address, place, offset, size, mask)
        })
    }

    /// Offset, stored size and filter mask, of which the last two are there with filters alone.
    /// `behind` bytes follow.
    fn chunk(&self, entry: &mut Cursor<'_>, behind: usize) -> Result<(u64, u64, u32)> {
        let offset = entry.offset()?;
        if !self.has_filters {
            return Ok((offset, self.chunk_bytes, 0));
        }
        let size = entry.uint(entry.left().saturating_sub(4 + behind))?;
        Ok((offset, size, entry.u32()?))
    }

    fn single(&self, filtered: Option<(u64, u32)>, chunks: &mut Chunks<'_>) -> Result<()> {
        let mut place = Place::FIRST;
        for axis in &self.axes {
            if axis.n_chunks > 1 {
                let got = format!("{} along an axis", axis.n_chunks);
                return corrupt(
                    self.blocks.address(self.address),
                    "a grid of one chunk",
                    got,
                );
            }
            place.go(axis, 0);
        }
        let (size, mask) = filtered.unwrap_or((self.chunk_bytes, 0));
        let address = self.blocks.address(self.address);
        chunks.add(address, place, self.address, size, mask)
    }

    /// Chunks one behind the other, numbered in the grid of the max dims.
    fn implicit(&self, chunks: &mut Chunks<'_>) -> Result<()> {
        let strides = self.max_strides(0);
        let pairs = || self.axes.iter().zip(&strides);
        let last = pairs().fold(0_u64, |last, (axis, stride)| {
            last.saturating_add((axis.n_chunks - 1).saturating_mul(*stride))
        });
        let n_chunks: u64 = self.axes.iter().map(|axis| axis.n_chunks).product();
        let bytes = last.saturating_add(1).saturating_mul(self.chunk_bytes);
        let address = self.blocks.address(self.address);
        if address.saturating_add(bytes) > self.blocks.file_size() {
            let expected = format!(
                "{n_chunks} chunks of {} bytes in the file",
                self.chunk_bytes
            );
            return corrupt(
                address,
                expected,
                format_args!("{} bytes", self.blocks.file_size()),
            );
        }
        for grid_index in 0..n_chunks {
            let (mut place, mut number) = (Place::FIRST, 0);
            for (axis, stride) in pairs() {
                let along = grid_index / axis.stride % axis.n_chunks;
                place.go(axis, along);
                number += along * stride;
            }
            chunks.add(
                address,
                place,
                self.address + number * self.chunk_bytes,
                self.chunk_bytes,
                0,
            )?;
        }
        Ok(())
    }

    fn fixed_array(&self, chunks: &mut Chunks<'_>) -> Result<()> {
        self.array(0, chunks, |f| {
            fixed_array::each_element(self.blocks, self.address, self.has_filters, f)
        })
    }

    /// The array numbers along its only unlimited axis slowest, wherever this axis is.
    /// libhdf5 2.0 forgets this when it lists chunks, though not when it reads them.
    fn extensible_array(&self, chunks: &mut Chunks<'_>) -> Result<()> {
        let unlimited = |dim: &&u64| **dim == UNLIMITED;
        let n_unlimited = self.max_dims.iter().filter(unlimited).count();
        let slowest = self.max_dims.iter().position(|dim| *dim == UNLIMITED);
        let Some(slowest) = slowest.filter(|_| n_unlimited == 1) else {
            let address = self.blocks.address(self.address);
            return corrupt(address, "an array for one unlimited axis", n_unlimited);
        };
        self.array(slowest, chunks, |f| {
            extensible_array::each_element(self.blocks, self.address, self.has_filters, f)
        })
    }

    fn array(
        &self,
        slowest: usize,
        chunks: &mut Chunks<'_>,
        each_element: impl FnOnce(OnElement<'_>) -> Result<()>,
    ) -> Result<()> {
        let strides = self.max_strides(slowest);
        let mut numbering: Vec<(&Axis, u64)> = self.axes.iter().zip(strides).collect();
        numbering[..=slowest].rotate_right(1);
        each_element(&mut |number, mut element| {
            let address = element.address();
            let (offset, size, mask) = self.chunk(&mut element, 0)?;
            if offset == UNDEFINED {
                return Ok(());
            }
            let (mut place, mut rest) = (Place::FIRST, number);
            for (axis, stride) in &numbering {
                let along = rest / stride;
                rest -= along * stride;
                place.go(axis, along);
            }
            chunks.add(address, place, offset, size, mask)
        })
    }

    /// By axis: how far a number in the grid of the max dims moves with one chunk, if one axis is moved
    /// before the others. Strides of more than any number are the largest.
    fn max_strides(&self, slowest: usize) -> Vec<u64> {
        let (mut strides, mut stride) = (vec![0; self.axes.len()], 1_u64);
        let others = (0..self.axes.len()).rev().filter(|at| *at != slowest);
        for at in others.chain([slowest]) {
            strides[at] = stride;
            let n_chunks = self.max_dims[at].div_ceil(self.axes[at].chunk_dim);
            stride = stride.saturating_mul(n_chunks.max(1));
        }
        strides
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::{Written, blocks};

    fn layout(index: ChunkIndexKind, chunk_dims: &[u64]) -> ChunkedLayout {
        ChunkedLayout {
            index,
            address: 0,
            chunk_dims: chunk_dims.to_vec(),
            unfiltered_edges: true,
        }
    }

    /// Leaf of a version 1 B-tree with (size, first element, offset) of chunks of a dataset of rank 1.
    fn leaf(chunks: &[(u32, u64, u64)]) -> Written {
        let head = Written::new(b"TREE")
            .bytes(&[1, 0])
            .u16(chunks.len() as u16)
            .u64s(&[0, 0]);
        let add = |written: Written, (size, element, offset): &(u32, u64, u64)| {
            written.u32(*size).u32(7).u64s(&[*element, 0, *offset])
        };
        chunks.iter().fold(head, add).zeros(24)
    }

    /// Of a dataset of 10 elements in chunks of 4.
    fn table(chunks: &[(u32, u64, u64)]) -> Result<Vec<Chunk>> {
        let layout = layout(ChunkIndexKind::BTreeV1, &[4]);
        chunk_table(
            &blocks(leaf(chunks).0),
            &layout,
            &[10],
            &[UNLIMITED],
            1,
            true,
        )
    }

    #[test]
    fn chunks_are_sorted_and_edges_have_no_filters() {
        let got = table(&[
            (9, 8, 300),
            (8, 0, 100),
            (6, 4, UNDEFINED),
            (6, 12, UNDEFINED),
        ])
        .unwrap();
        let chunk = |grid_index, byte_offset, stored_size, filter_mask| Chunk {
            filter_mask,
            ..Chunk::plain(grid_index, byte_offset, stored_size)
        };
        let expected = [chunk(0, 100, 8, 7), chunk(2, 300, 9, NO_FILTERS)];
        assert_eq!(got, expected);
    }

    #[test]
    fn a_chunk_twice_or_astray_is_corrupt() {
        let twice = table(&[(4, 4, 100), (4, 0, 200), (4, 4, 300)])
            .unwrap_err()
            .to_string();
        assert!(
            twice.contains("at byte 0, got chunk 1 of the grid twice"),
            "{twice}"
        );
        let astray = table(&[(4, 3, 100)]).unwrap_err().to_string();
        assert_eq!(
            astray,
            "expected a multiple of 4 elements at byte 32, got 3"
        );
        let outside = table(&[(5, 12, 400)]).unwrap_err().to_string();
        assert!(outside.contains("within the dims [10]"), "{outside}");
    }

    #[test]
    fn an_implicit_index_counts_by_max_dims() {
        let layout = layout(ChunkIndexKind::Implicit, &[2, 1]);
        let read = |file_bytes, dims: [u64; 2]| {
            chunk_table(
                &blocks(vec![0; file_bytes]),
                &layout,
                &dims,
                &[4, 3],
                1,
                false,
            )
        };
        let got = read(10, [3, 2]).unwrap();
        let expected = [(0, 0), (1, 2), (2, 6), (3, 8)];
        assert_eq!(
            got,
            expected.map(|(at, offset)| Chunk::plain(at, offset, 2))
        );
        let error = read(9, [3, 2]).unwrap_err().to_string();
        assert_eq!(
            error,
            "expected 4 chunks of 2 bytes in the file at byte 0, got 9 bytes"
        );
        assert!(read(0, [0, 2]).unwrap().is_empty());
    }

    #[test]
    fn impossible_grids() {
        let single = layout(ChunkIndexKind::Single { filtered: None }, &[4]);
        let read = |dims: &[u64]| {
            let table = chunk_table(&blocks(vec![]), &single, dims, dims, 1, false);
            table
                .map(|table| table.len())
                .map_err(|error| error.to_string())
        };
        assert_eq!(read(&[3]), Ok(1));
        assert!(read(&[5]).unwrap_err().contains("got 2 along an axis"));
        assert!(
            read(&[1, 1])
                .unwrap_err()
                .contains("chunks for dims [1, 1]")
        );
        let implicit = layout(ChunkIndexKind::Implicit, &[1, 1]);
        let dims = [1 << 40, 1 << 40];
        let error = chunk_table(&blocks(vec![]), &implicit, &dims, &dims, 1, false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a grid of more than 2^63 chunks at byte 0"
        );
    }
}
