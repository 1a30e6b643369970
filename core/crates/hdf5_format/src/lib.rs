//! The metadata of HDF5 files, read without an HDF5 library.
//!
//! Law:
//! 1. Follows the HDF5 File Format Specification, version 3.0, and says so where libhdf5 does otherwise.
//! 2. Bytes are untrusted: no panic, no unbounded loop or recursion, and no allocation that is not
//!    backed by bytes of the file or by a stated limit.
//! 3. What contradicts the specification is `Corrupt`, with its address, what was expected and what
//!    was there. What is beyond this reader is `Unknown`: an HDF5 library may know it. What must
//!    not be passed over then is `Forbidden`.
//! 4. Reads metadata only. Knows no filter, plan, ring or Python.
//!
//! ```no_run
//! use hdf5_format::file::{File, Found};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = File::open(Box::new(std::fs::read("data.h5")?), true)?;
//! if let Found::Object(offset) = file.find(file.root(), b"/group/x")? {
//!     let dataset = file.dataset(&*file.object(offset)?)?;
//!     println!("{:?}, {} chunks", dataset.dataspace.dims, file.chunks(&dataset)?.len());
//! }
//! # Ok(())
//! # }
//! ```

pub mod array_elements;
pub mod attribute;
pub mod attributes;
pub mod blocks;
pub mod btree_v1;
pub mod btree_v2;
pub mod cache_image;
pub mod checksum;
pub mod chunk;
pub mod chunks;
pub mod cursor;
pub mod dataspace;
pub mod datatype;
pub mod doubling_table;
pub mod error;
pub mod extensible_array;
pub mod external_files;
pub mod file;
pub mod fill_value;
pub mod filter_pipeline;
pub mod fixed_array;
pub mod fractal_heap;
pub mod global_heap;
pub mod grid;
mod group_links;
pub mod joined_survey;

mod kept;
pub mod layout;
pub mod link;
pub mod local_heap;
pub mod many;
pub mod object_header;
mod overlay;
mod path;
mod saved_alike;
pub mod saved_columns;
pub mod saved_index;
mod saved_links;
mod saved_parts;
mod saved_survey;
mod saved_values;
pub mod shared_messages;
pub mod source;
pub mod superblock;
pub mod survey;
pub mod variable_length;
pub mod virtual_layout;
pub mod walk;

#[cfg(test)]
mod written;
