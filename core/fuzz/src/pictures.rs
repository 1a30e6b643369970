//! Bytes of pictures, as elements of a dataset.
//!
//! Law: bytes decode to the pixels of the named size, or are refused; a second time they give the same.
//!
//! Input: a byte that chooses the channels; height and width, in two bytes each; the picture.

use crate::input::Input;
use hdf5_filters::convert::{Conversion, ElementConversion};

const CHANNELS: [u64; 3] = [1, 3, 4];
const MAX_SIDE: usize = 1 << 8;
/// `PICTURE` in `_multitables/index/types/element_type.py`.
const PICTURE: u64 = 16;

pub fn one(input: &[u8]) {
    let mut input = Input(input);
    let channels = CHANNELS[input.number(1) % CHANNELS.len()];
    let [height, width] = [(); 2].map(|()| (input.number(2) % (MAX_SIDE + 1)) as u64);
    let (stored, size) = (input.0, height * width * channels);
    let len = stored.len().max(1) as u64;
    let kind = (PICTURE | channels << 8, height << 32 | width);
    let words = [0, len, len, 0, size, size, 1, kind.0, kind.1];
    let Some(parsed) = Conversion::parse(&words, len, size) else {
        return;
    };
    let conversion = ElementConversion::new(len as usize, 0, size as usize, vec![parsed]);
    let picture = conversion.picture().expect("a picture");
    let mut pixels = [vec![0; size as usize], vec![255; size as usize]];
    let [first, second] = &mut pixels;
    let made = conversion.decode((picture, 0), stored, first, &mut Vec::new());
    let again = conversion.convert(0, stored, second);
    if !stored.is_empty() {
        assert!(made == again, "{made:?}, {again:?}");
        assert!(made.is_err() || first == second, "other pixels");
    }
}
