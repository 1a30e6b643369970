//! HDF5 filter 32000, lzf, as h5py writes it: one LibLZF stream per chunk.
//!
//! Law:
//! 1. Literal runs and back references are checked against both slices.
//!
//! It must never know what the data is.

use super::{Decoder, Fault, FilterSpec, OutputSize};

struct Lzf;

pub(super) fn make(_spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    Some(Box::new(Lzf))
}

impl Decoder for Lzf {
    fn output_size(&self, _stored: &[u8]) -> Result<OutputSize, Fault> {
        Ok(OutputSize::Unknown)
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let mut rest = stored;
        let mut made = 0;
        while let Some((&control, behind)) = rest.split_first() {
            rest = behind;
            let control = usize::from(control);
            if control < 32 {
                // A run of literals.
                let run = control + 1;
                let (literals, behind) = rest.split_at_checked(run).ok_or(Fault::malformed(1))?;
                let room = out.len();
                let place = out.get_mut(made..made + run);
                let place = place.ok_or(Fault::wrong_size(room, made + run))?;
                place.copy_from_slice(literals);
                rest = behind;
                made += run;
                continue;
            }
            let mut byte = || {
                let (&byte, behind) = rest.split_first().ok_or(Fault::malformed(1))?;
                rest = behind;
                Ok::<usize, Fault>(usize::from(byte))
            };
            // A copy of earlier output: length, then distance less one.
            let mut length = control >> 5;
            if length == 7 {
                length += byte()?;
            }
            length += 2;
            let distance = ((control & 31) << 8 | byte()?) + 1;
            let from = made.checked_sub(distance).ok_or(Fault::malformed(2))?;
            if made + length > out.len() {
                return Err(Fault::wrong_size(out.len(), made + length));
            }
            if distance >= length {
                out.copy_within(from..from + length, made);
            } else {
                for i in 0..length {
                    out[made + i] = out[from + i];
                }
            }
            made += length;
        }
        Ok(made)
    }
}
