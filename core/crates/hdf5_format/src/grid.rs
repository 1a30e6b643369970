//! The grid that chunks lay over the current dims of a dataset.
//!
//! Law: every chunk inside the grid has a number of 64 bits, the last axis fastest; a grid with more
//! chunks is refused before.

/// Of a grid, so that numbers in it are numbers everywhere.
const MAX_CHUNKS: u64 = 1 << 63;

/// One axis of the grid of chunks.
#[derive(Clone, Copy)]
pub struct Axis {
    pub chunk_dim: u64,
    /// In the current dims.
    pub n_chunks: u64,
    /// How far the number in the grid moves with one chunk along this axis.
    pub stride: u64,
    /// Does the last chunk reach over the edge?
    pub is_last_cut: bool,
}

/// The axes, or None: their chunks cannot be counted.
pub fn axes(dims: &[u64], chunk_dims: &[u64]) -> Option<Vec<Axis>> {
    let mut stride = 1_u64;
    let mut axes = Vec::with_capacity(dims.len());
    for (&dim, &chunk_dim) in dims.iter().zip(chunk_dims).rev() {
        let n_chunks = dim.div_ceil(chunk_dim);
        axes.push(Axis {
            chunk_dim,
            n_chunks,
            stride,
            is_last_cut: dim % chunk_dim != 0,
        });
        stride = stride.checked_mul(n_chunks.max(1))?;
    }
    axes.reverse();
    (stride <= MAX_CHUNKS).then_some(axes)
}

/// A place in the grid, which an index tells axis by axis.
#[derive(Clone, Copy)]
pub struct Place {
    pub grid_index: u64,
    pub is_inside: bool,
    /// Does its chunk reach over the edge?
    pub is_cut: bool,
}

impl Place {
    pub const FIRST: Place = Place {
        grid_index: 0,
        is_inside: true,
        is_cut: false,
    };

    /// Go this many chunks along the next axis.
    pub fn go(&mut self, axis: &Axis, n_chunks: u64) {
        if n_chunks >= axis.n_chunks {
            self.is_inside = false;
            return;
        }
        self.grid_index += if self.is_inside {
            n_chunks * axis.stride
        } else {
            0
        };
        self.is_cut |= axis.is_last_cut && n_chunks + 1 == axis.n_chunks;
    }
}
