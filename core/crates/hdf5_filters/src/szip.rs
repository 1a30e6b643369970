//! HDF5 filter 4, szip: the extended Rice code of CCSDS 121.0-B, behind the decoded size in 4 bytes.
//!
//! Format: samples come in blocks, and these in scanlines, whose last block is filled up. Each block
//! says how it is packed: as it is, as zeros, in pairs, or each sample's upper bits as a count of zeros
//! and its lower bits after those of all. With nearest-neighbour prediction each scanline begins with a
//! sample as it is, and others are told by how they differ from the one before. Samples of 32 and 64
//! bits are packed as bytes, plane after plane.
//!
//! Law:
//! 1. The sizes are those of the filter's parameters; no bit of the chunk makes more samples.
//!
//! It must never know what the data is.

use super::bits::BitReader;
use super::shuffle::unshuffle;
use super::{Decoder, Fault, FilterSpec, OutputSize};

const HEADER: usize = 4;
const MSB: u32 = 16;
const NEAREST_NEIGHBOUR: u32 = 32;
/// A count of zero blocks that stands for the rest of a segment, and the blocks of a segment.
const REST_OF_SEGMENT: usize = 5;
const SEGMENT_BLOCKS: usize = 64;
/// The largest sum of a pair is below this, as samples of 8 bits and more are not packed so.
const MAX_PAIR: usize = 1 << 16;

struct Szip {
    block: usize,
    scanline: usize,
    /// Bits of a sample, and its bytes in the output.
    bits: usize,
    width: usize,
    /// Bytes of an element that was packed plane after plane; 1: samples are elements.
    planes: usize,
    big_endian: bool,
    predicted: bool,
    samples: Vec<u32>,
    bytes: Vec<u8>,
}

pub(super) fn make(spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    let [mask, block, pixel_bits, scanline] = *spec.values.as_slice() else {
        return None;
    };
    let (bits, width, planes) = match pixel_bits {
        1..=8 => (pixel_bits, 1, 1),
        9..=16 => (pixel_bits, 2, 1),
        17..=24 => (pixel_bits, 4, 1),
        32 | 64 => (8, 1, pixel_bits / 8),
        _ => return None,
    };
    if !(2..=32).contains(&block) || block % 2 != 0 || !(1..=4096).contains(&scanline) {
        return None;
    }
    Some(Box::new(Szip {
        block: block as usize,
        scanline: scanline as usize,
        bits: bits as usize,
        width,
        planes: planes as usize,
        big_endian: mask & MSB != 0,
        predicted: mask & NEAREST_NEIGHBOUR != 0,
        samples: Vec::new(),
        bytes: Vec::new(),
    }))
}

impl Decoder for Szip {
    fn output_size(&self, stored: &[u8]) -> Result<OutputSize, Fault> {
        decoded_size(stored).map(OutputSize::Exactly)
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let size = decoded_size(stored)?;
        let room = out.len();
        let out = out.get_mut(..size).ok_or(Fault::wrong_size(room, size))?;
        let mut bytes = std::mem::take(&mut self.bytes);
        let result = if self.planes == 1 {
            self.unpack(&stored[HEADER..], out)
        } else {
            bytes.resize(size, 0);
            let result = self.unpack(&stored[HEADER..], &mut bytes);
            unshuffle(self.planes, &bytes, out);
            result
        };
        self.bytes = bytes;
        result.map(|()| size).ok_or(Fault::malformed(1))
    }
}

fn decoded_size(stored: &[u8]) -> Result<usize, Fault> {
    let size = stored.first_chunk::<HEADER>();
    let size = size.ok_or(Fault::truncated(HEADER, stored.len()))?;
    Ok(u32::from_le_bytes(*size) as usize)
}

impl Szip {
    /// Unpacks scanline after scanline; None: the bits end too early, or are no samples.
    fn unpack(&mut self, packed: &[u8], out: &mut [u8]) -> Option<()> {
        let mut packed = BitReader::new(packed);
        let mut samples = std::mem::take(&mut self.samples);
        let mut done = Some(());
        for line in out.chunks_mut(self.scanline * self.width) {
            samples.clear();
            done = self.scanline(&mut packed, line.len() / self.width, &mut samples);
            if done.is_none() || line.len() % self.width != 0 {
                done = None;
                break;
            }
            if self.predicted {
                unpredict(self.bits, &mut samples);
            }
            match self.width {
                1 => write::<1>(self.big_endian, &samples, line),
                2 => write::<2>(self.big_endian, &samples, line),
                _ => write::<4>(self.big_endian, &samples, line),
            }
        }
        self.samples = samples;
        done
    }

    /// Unpacks the blocks of a scanline of which `wanted` samples count.
    fn scanline(
        &self,
        packed: &mut BitReader<'_>,
        wanted: usize,
        samples: &mut Vec<u32>,
    ) -> Option<()> {
        let id_bits = match self.bits {
            ..=8 => 3,
            9..=16 => 4,
            _ => 5,
        };
        let (blocks, most) = (self.scanline.div_ceil(self.block), (1u64 << self.bits) - 1);
        while samples.len() < wanted {
            let (number, end) = (samples.len() / self.block, samples.len() + self.block);
            let id = packed.take(id_bits)?;
            if id == (1 << id_bits) - 1 {
                for _ in 0..self.block {
                    samples.push(packed.take(self.bits)? as u32);
                }
                continue;
            }
            let in_pairs = id == 0 && packed.take(1)? == 1;
            if self.predicted && number == 0 {
                samples.push(packed.take(self.bits)? as u32);
            }
            match id {
                0 if in_pairs => {
                    while samples.len() < end {
                        let (first, second) = pair(packed.zeros()?)?;
                        if samples.len() % 2 == 0 {
                            samples.push(first);
                        }
                        samples.push(second);
                    }
                }
                0 => {
                    let count = match packed.zeros()? + 1 {
                        REST_OF_SEGMENT => SEGMENT_BLOCKS - number % SEGMENT_BLOCKS,
                        count if count > REST_OF_SEGMENT => count - 1,
                        count => count,
                    };
                    let end = (number + count.min(blocks - number)) * self.block;
                    samples.resize(end, 0);
                }
                _ => {
                    let (low_bits, start) = (id as usize - 1, samples.len());
                    samples.resize(end, 0);
                    let told = &mut samples[start..];
                    packed.zeros_of_all(told)?;
                    let highest = told.iter().copied().max().unwrap_or(0);
                    (u64::from(highest) <= most >> low_bits).then_some(())?;
                    packed.append_to_all(low_bits, told)?;
                }
            }
        }
        Some(())
    }
}

/// Writes the lowest bytes of each sample.
fn write<const WIDTH: usize>(big_endian: bool, samples: &[u32], line: &mut [u8]) {
    for (place, sample) in line.chunks_exact_mut(WIDTH).zip(samples) {
        match big_endian {
            true => place.copy_from_slice(&sample.to_be_bytes()[4 - WIDTH..]),
            false => place.copy_from_slice(&sample.to_le_bytes()[..WIDTH]),
        }
    }
}

/// Two samples from the number of their pair: pairs are counted by their sums.
fn pair(number: usize) -> Option<(u32, u32)> {
    if number >= MAX_PAIR {
        return None;
    }
    let (mut sum, mut before) = (0, 0);
    while before + sum < number {
        sum += 1;
        before += sum;
    }
    let second = number - before;
    Some(((sum - second) as u32, second as u32))
}

/// Makes samples of a reference and what tells the others from the one before each.
fn unpredict(bits: usize, samples: &mut [u32]) {
    let most = ((1u64 << bits) - 1) as u32;
    let Some((first, told)) = samples.split_first_mut() else {
        return;
    };
    let mut last = *first;
    for sample in told {
        let difference = *sample;
        // How far it is to the nearer end of the range: beyond, differences have one sign only.
        let is_high = last > most >> 1;
        let near = if is_high { most - last } else { last };
        let half = difference.div_ceil(2);
        last = match (half <= near, difference % 2) {
            (true, 0) => last.wrapping_add(half),
            (true, _) => last.wrapping_sub(half),
            (false, _) if is_high => most.wrapping_sub(difference),
            (false, _) => difference,
        } & most;
        *sample = last;
    }
}
