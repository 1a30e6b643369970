//! An ask answered.

use crate::control::Record;
use crate::failure::TaskError;
use crate::memory::Mapping;
use std::sync::Arc;

/// Answers the asks of one board, in one reader.
pub struct Answerer {
    _arena: Arc<Mapping>,
}

impl Answerer {
    pub fn new(arena: Arc<Mapping>, _cache_limit_bytes: usize) -> Answerer {
        Answerer { _arena: arena }
    }

    /// Write part `part` of `n_parts` of the result into `out`, which is as long as the result.
    pub fn answer(
        &mut self,
        _words: &[u64],
        _part: u64,
        _n_parts: u64,
        _out: &mut [u8],
        _record: &Record,
    ) -> Result<(), TaskError> {
        Err(TaskError::Internal("not built yet".into()))
    }
}
