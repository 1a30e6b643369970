//! Where the values of an element are, as stored and as delivered.
//!
//! Law:
//! 1. The words of a conversion are written by `Conversion` in `_multitables/index/types/element_type.py`.
//! 2. Bytes of a delivered element that no conversion writes are zero.

use super::cast::Cast;
use super::kind::Kind;
use super::picture::Picture;
use crate::{Fault, FilterError};

pub const CONVERSION_WORDS: usize = 9;
/// Elements are converted by the block, each conversion for all elements of it: a block of about as
/// many bytes stays in the first cache.
const BLOCK_BYTES: usize = 16 << 10;

/// Values of one kind in an element: `count`, some steps apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conversion {
    pub from: usize,
    pub size: usize,
    pub from_step: usize,
    pub to: usize,
    pub to_size: usize,
    pub to_step: usize,
    pub count: usize,
    pub kind: Kind,
}

impl Conversion {
    /// None: it is of no known kind, or its values lie outside of elements of these sizes.
    pub fn parse(words: &[u64], stored: u64, delivered: u64) -> Option<Conversion> {
        let &[
            from,
            size,
            from_step,
            to,
            to_size,
            to_step,
            count,
            kind,
            bias,
        ] = words
        else {
            return None;
        };
        let is_inside = |at: u64, size: u64, step: u64, all: u64| {
            let last = count.checked_sub(1)?.checked_mul(step)?.checked_add(at)?;
            (last.checked_add(size)? <= all).then_some(())
        };
        is_inside(from, size, from_step, stored)?;
        is_inside(to, to_size, to_step, delivered)?;
        Some(Conversion {
            from: from as usize,
            size: size as usize,
            from_step: from_step as usize,
            to: to as usize,
            to_size: to_size as usize,
            to_step: to_step as usize,
            count: count as usize,
            kind: Kind::parse(kind, bias, size, to_size)?,
        })
    }

    /// Values stay where they are.
    pub fn is_in_place(&self) -> bool {
        !self.is_picture()
            && (self.from, self.size, self.from_step) == (self.to, self.to_size, self.to_step)
    }

    /// Values are decoded, to pixels.
    pub fn is_picture(&self) -> bool {
        matches!(self.kind, Kind::Picture(_))
    }

    /// It copies all bytes of an element, whose size does not change.
    fn is_all(&self, bytes: usize) -> bool {
        let is_copy = self.kind == Kind::Copy && self.is_in_place();
        is_copy && (self.from, self.size, self.count) == (0, bytes, 1)
    }

    /// Convert the values of an element in place.
    pub fn apply(&self, element: &mut [u8]) {
        for number in 0..self.count {
            let at = self.from + number * self.from_step;
            self.kind.apply(&mut element[at..at + self.size]);
        }
    }
}

/// All of an element, or of a field of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElementConversion {
    /// Bytes of a stored element, before its field, and of a delivered one.
    stored: usize,
    field_offset: usize,
    delivered: usize,
    all: Vec<Conversion>,
    /// Some bytes of a delivered element are of no conversion.
    has_gaps: bool,
    /// The cast that comes last, and the bytes of an element before it.
    cast: Option<(Cast, usize)>,
}

impl ElementConversion {
    /// The offsets of conversions count from the first byte of the field.
    pub fn new(
        stored: usize,
        field_offset: usize,
        delivered: usize,
        all: Vec<Conversion>,
    ) -> ElementConversion {
        let written = all.iter().map(|one| one.to_size.saturating_mul(one.count));
        ElementConversion {
            has_gaps: written.fold(0, usize::saturating_add) < delivered,
            stored: stored.max(1),
            field_offset,
            delivered: delivered.max(1),
            all,
            cast: None,
        }
    }

    /// Let a cast follow. None: it is of elements of another size.
    pub fn then(mut self, cast: Cast) -> Option<ElementConversion> {
        let (from, to) = cast.element_bytes()?;
        let has_numbers = !self.all.is_empty() || self.stored == from;
        if from != self.delivered || !has_numbers {
            return None;
        }
        if matches!(self.all[..], [one] if one.is_all(self.stored)) && self.field_offset == 0 {
            self.all.clear(); // as they are stored
        }
        self.delivered = to;
        self.cast = Some((cast, from));
        Some(self)
    }

    /// The place of an element, or of its chunk, in a row changes nothing.
    pub fn is_even(&self) -> bool {
        self.cast.as_ref().is_none_or(|(cast, _)| cast.is_even())
    }

    /// The place, for `convert`, of the chunk that begins with this element of a row.
    pub fn place(&self, offset: &[u64]) -> usize {
        (self.cast.as_ref()).map_or(0, |(cast, _)| cast.table(offset))
    }

    /// The delivered bytes of this many elements.
    pub fn bytes(&self, elements: usize) -> Option<usize> {
        elements.checked_mul(self.delivered)
    }

    /// The stored bytes of elements that have this number of delivered ones.
    pub fn stored_size(&self, delivered: usize) -> usize {
        (delivered / self.delivered).saturating_mul(self.stored)
    }

    /// The delivered bytes of elements that have this number of stored ones; None: these are no elements.
    pub fn delivered_size(&self, stored: usize) -> Option<usize> {
        let is_whole = stored % self.stored == 0;
        is_whole.then(|| (stored / self.stored).checked_mul(self.delivered))?
    }

    /// Elements are pictures, of any length if they lie elsewhere.
    pub fn picture(&self) -> Option<Picture> {
        match self.all[..] {
            [
                Conversion {
                    kind: Kind::Picture(picture),
                    count: 1,
                    ..
                },
            ] => Some(picture),
            _ => None,
        }
    }

    /// Decode these bytes of a `picture`, element `number` in errors. `room` is memory for the work.
    pub fn decode(
        &self,
        (picture, number): (Picture, usize),
        bytes: &[u8],
        delivered: &mut [u8],
        room: &mut Vec<u8>,
    ) -> Result<(), FilterError> {
        let done = match &self.cast {
            None => picture.decode(number, bytes, delivered),
            Some((cast, between)) => {
                room.resize(*between, 0);
                let done = picture.decode(number, bytes, room);
                done.map(|()| cast.convert(0, 0, room, delivered))
            }
        };
        done.map_err(|fault| fault.of(0))
    }

    /// Convert whole elements of a chunk at this `place`, from its first one on, up to the end of the
    /// shorter side.
    pub fn convert(
        &self,
        place: usize,
        stored: &[u8],
        delivered: &mut [u8],
    ) -> Result<(), FilterError> {
        self.convert_some(0, place, stored, delivered)
    }

    /// The same of elements that begin with the chunk's element `first`.
    pub fn convert_some(
        &self,
        first: usize,
        place: usize,
        stored: &[u8],
        delivered: &mut [u8],
    ) -> Result<(), FilterError> {
        let done = self.convert_from(first, place, stored, delivered);
        done.map_err(|fault| fault.of(0))
    }

    /// Write the conversion of one stored element to all elements of a chunk.
    pub fn repeat(
        &self,
        place: usize,
        element: &[u8],
        delivered: &mut [u8],
    ) -> Result<(), FilterError> {
        let block = (BLOCK_BYTES / self.stored).max(1);
        let stored = element.repeat(block);
        let blocks = delivered.chunks_mut(block * self.delivered);
        for (number, delivered) in blocks.enumerate() {
            let done = self.convert_from(number * block, place, &stored, delivered);
            done.map_err(|fault| fault.of(0))?;
        }
        Ok(())
    }

    /// The first one is the chunk's element `first`.
    pub(crate) fn convert_from(
        &self,
        first: usize,
        place: usize,
        stored: &[u8],
        delivered: &mut [u8],
    ) -> Result<(), Fault> {
        let Some((cast, between)) = &self.cast else {
            return self.convert_all(first, stored, delivered, self.delivered);
        };
        if self.all.is_empty() {
            cast.convert(place, first, stored, delivered);
            return Ok(());
        }
        let block = match self.picture() {
            Some(_) => 1, // those before one that fails are whole
            None => (BLOCK_BYTES / self.stored.max(*between)).max(1),
        };
        let mut room = vec![0; block.min(stored.len() / self.stored) * between];
        let blocks = stored.chunks(block * self.stored);
        let blocks = blocks.zip(delivered.chunks_mut(block * self.delivered));
        for (number, (from, to)) in blocks.enumerate() {
            let made = &mut room[..from.len() / self.stored * between];
            let first = first + number * block;
            self.convert_all(first, from, made, *between)?;
            cast.convert(place, first, made, to);
        }
        Ok(())
    }

    /// Convert elements, from number `first` on, to `size` bytes each, without the cast.
    fn convert_all(
        &self,
        first: usize,
        stored: &[u8],
        delivered: &mut [u8],
        size: usize,
    ) -> Result<(), Fault> {
        if self.has_gaps {
            delivered.fill(0);
        }
        let block = (BLOCK_BYTES / self.stored.max(size)).max(1);
        let blocks = stored.chunks(block * self.stored);
        for (n, (from, to)) in blocks.zip(delivered.chunks_mut(block * size)).enumerate() {
            for one in &self.all {
                self.convert_values(one, first + n * block, from, to, size)?;
            }
        }
        Ok(())
    }

    fn convert_values(
        &self,
        one: &Conversion,
        first: usize,
        stored: &[u8],
        delivered: &mut [u8],
        size: usize,
    ) -> Result<(), Fault> {
        let elements = stored.chunks_exact(self.stored);
        let elements = elements.zip(delivered.chunks_exact_mut(size));
        for (element, (from, to)) in elements.enumerate() {
            for number in 0..one.count {
                let at = self.field_offset + one.from + number * one.from_step;
                let into = one.to + number * one.to_step;
                let (from, to) = (&from[at..at + one.size], &mut to[into..into + one.to_size]);
                match one.kind {
                    Kind::Picture(picture) => picture.decode(first + element, from, to)?,
                    kind => kind.convert(from, to),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies `size` bytes from `from` to `to`, `count` times.
    fn copies(from: u64, size: u64, step: u64, to: u64, to_step: u64, count: u64) -> [u64; 9] {
        [from, size, step, to, size, to_step, count, 1, 0]
    }

    #[test]
    fn values_are_moved_and_gaps_are_zero() {
        let swapped = [copies(3, 2, 1, 0, 1, 1), copies(1, 1, 1, 2, 2, 2)];
        let parsed = swapped.map(|words| Conversion::parse(&words, 5, 6).unwrap());
        let all = ElementConversion::new(6, 1, 6, parsed.to_vec());
        let stored: Vec<u8> = (0..12).collect();
        let mut delivered = [99; 12];
        all.convert(0, &stored, &mut delivered).unwrap();
        assert_eq!(delivered, [4, 5, 2, 0, 3, 0, 10, 11, 8, 0, 9, 0]);
        assert_eq!(
            (all.stored_size(12), all.delivered_size(12)),
            (12, Some(12))
        );
        assert_eq!(all.delivered_size(11), None);
    }

    #[test]
    fn a_conversion_outside_of_its_element_is_refused() {
        for words in [
            copies(0, 4, 4, 0, 4, 3),
            copies(5, 4, 4, 0, 4, 1),
            copies(0, 4, 4, 5, 4, 1),
            copies(0, 4, u64::MAX, 0, 4, 3),
            copies(0, 4, 4, 0, 4, 0),
            copies(u64::MAX, 4, 4, 0, 4, 1),
        ] {
            assert_eq!(Conversion::parse(&words, 8, 8), None, "{words:?}");
        }
        assert!(Conversion::parse(&copies(0, 4, 4, 0, 4, 2), 8, 8).is_some());
        assert_eq!(Conversion::parse(&[0; 8], 8, 8), None);
    }
}
