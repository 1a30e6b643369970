//! The last stage: decoded elements as they are delivered.
//!
//! Law: no filter of a file. It is never skipped, and has no number.

use super::{Decoder, Fault, OutputSize};
use crate::convert::ElementConversion;
use std::sync::Arc;

pub(super) struct Converted {
    pub conversion: Arc<ElementConversion>,
    /// Of the next chunk (`ElementConversion::place`).
    pub place: usize,
    /// Of the last chunk: the first element that cannot be converted. Behind the end of a dataset a chunk
    /// has elements that are no pictures.
    pub fault: Option<Fault>,
}

impl Converted {
    fn size(&self, stored: &[u8]) -> Result<usize, Fault> {
        let size = self.conversion.delivered_size(stored.len());
        size.ok_or_else(|| Fault::wrong_size(0, stored.len()))
    }
}

impl Decoder for Converted {
    fn stored_size(&self, decoded_size: usize) -> Option<usize> {
        Some(self.conversion.stored_size(decoded_size))
    }

    fn output_size(&self, stored: &[u8]) -> Result<OutputSize, Fault> {
        self.size(stored).map(OutputSize::Exactly)
    }

    fn fault(&self) -> Option<Fault> {
        self.fault
    }

    fn place(&mut self, place: usize) {
        self.place = place;
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let size = self.size(stored)?;
        let Some(out) = out.get_mut(..size) else {
            return Err(Fault::wrong_size(out.len(), size));
        };
        let done = self.conversion.convert_from(0, self.place, stored, out);
        self.fault = done.err();
        match self.fault {
            None => Ok(size),
            Some(fault) => {
                let before = fault
                    .element()
                    .map(|element| self.conversion.bytes(element));
                before.flatten().ok_or(fault)
            }
        }
    }
}
