//! What a dataset's record says of its elements: which part of them is delivered, and what is converted.
//!
//! Law: conversions fit elements, and elements do not grow beyond reason, or the table is refused.

use super::words::Refused;
use hdf5_filters::convert::{CONVERSION_WORDS, Cast, Conversion, ElementConversion};
use std::sync::Arc;

/// Times which an element may become longer: a byte may be a long double.
const MAX_GROWTH: u64 = 16;

pub(super) struct Elements {
    /// Of the elements of decoded chunks, and what is delivered of each.
    pub bytes: usize,
    pub field_offset: usize,
    pub field_bytes: usize,
    pub stored_fill: Vec<u8>,
    pub fill: Vec<u8>,
    pub fixes: Vec<Conversion>,
    pub conversion: Option<Arc<ElementConversion>>,
}

impl Elements {
    /// `field`: its offset and bytes in a stored element, in which it lies. `converted`: its bytes behind a
    /// conversion, 0 if it stays in place. `fill`: a stored element. `cast`: the words of the cast that follows.
    pub fn of(
        field: (u64, u64),
        converted: u64,
        words: &[u64],
        fill: &[u8],
        cast: Option<Cast>,
    ) -> Result<Elements, Refused> {
        let delivered = if converted == 0 { field.1 } else { converted };
        let conversions = words.chunks_exact(CONVERSION_WORDS);
        let conversions = conversions.map(|words| Conversion::parse(words, field.1, delivered));
        let conversions = conversions.collect::<Option<Vec<Conversion>>>();
        let conversions = conversions.ok_or("a conversion of the plan does not fit its element")?;
        let has_pictures = conversions.iter().any(Conversion::is_picture);
        if !has_pictures && delivered > field.1.saturating_mul(MAX_GROWTH) {
            return Err("an element of the plan is too large");
        }
        let (offset, bytes) = (field.0 as usize, field.1 as usize);
        let mut elements = Elements {
            bytes: fill.len(),
            field_offset: offset,
            field_bytes: bytes,
            stored_fill: fill.to_vec(),
            fill: fill.to_vec(),
            fixes: Vec::new(),
            conversion: None,
        };
        if converted == 0 && cast.is_none() {
            if !conversions.iter().all(Conversion::is_in_place) {
                return Err("a conversion of the plan has no room");
            }
            for fix in &conversions {
                fix.apply(&mut elements.fill[offset..offset + bytes]);
            }
            elements.fixes = conversions;
            return Ok(elements);
        }
        let mut size = delivered as usize;
        let mut conversion = ElementConversion::new(fill.len(), offset, size, conversions);
        if let Some(cast) = cast {
            let to = cast.element_bytes().map_or(0, |(_, to)| to);
            let then = conversion.then(cast);
            (size, conversion) = (
                to,
                then.ok_or("a cast of the plan does not fit its element")?,
            );
        }
        elements.fill = vec![0; size];
        let made = conversion.convert(0, fill, &mut elements.fill);
        if made.is_err() {
            elements.fill.fill(0); // what was never stored is no picture
        }
        (elements.bytes, elements.field_bytes, elements.field_offset) = (size, size, 0);
        elements.conversion = Some(Arc::new(conversion));
        Ok(elements)
    }
}
