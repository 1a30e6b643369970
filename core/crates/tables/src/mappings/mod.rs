//! What virtual datasets show: mappings -> the chunks or the parts of their sources.
//!
//! Law:
//! 1. Pure: mappings and what their sources are in, numbers out. Files are the caller's.
//! 2. A file may say anything: no number is too large, and what takes too much is `Unfit`.

pub mod chunks;
pub mod extent;
pub mod parts;
pub mod selections;

/// Why only a library reads a virtual dataset; or the error that a look at its sources raised.
#[derive(Debug)]
pub enum Unfit<E = std::convert::Infallible> {
    Because(String),
    Failed(E),
}

impl<E> Unfit<E> {
    pub fn because(why: impl Into<String>) -> Unfit<E> {
        Unfit::Because(why.into())
    }
}
