//! Pictures that are stored as the bytes of a JPEG or PNG file -> their pixels.
//!
//! Law:
//! 1. Every picture has the size that the user named. Its header is compared with it before memory is
//!    made for pixels, so that no picture takes more.
//! 2. Pixels are rows of columns of channels, of 8 bits each. Grey becomes three equal colours, and opacity
//!    is delivered with four channels alone, as by Pillow's `convert`.
//! 3. What is cut short or damaged is an error: no pixel is guessed.

use crate::Fault;
use png::{BitDepth, ColorType, Limits, Transformations};
use std::io::Cursor;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

const JPEG: &[u8] = &[0xff, 0xd8, 0xff];
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Of the pixels of a picture.
const MAX_BYTES: u64 = 1 << 30;
/// The largest side of a JPEG.
const MAX_SIDE: usize = (1 << 16) - 1;
/// Passes over a progressive JPEG: each takes the time of all its pixels.
const MAX_SCANS: usize = 64;
/// A JPEG that ends early may leave lines unwritten, the last one among them. That is filled with one of
/// these before decoding, and with the other one if the first is still there.
const MARKS: [u8; 2] = [0x5a, 0xa5];
/// Bytes of the tables and lines that a PNG may have beside its pixels.
const ROOM: usize = 1 << 20;

/// The size of every picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Picture {
    height: u32,
    width: u32,
    /// 1: grey, 3: colours, 4: colours and opacity.
    channels: u32,
}

impl Picture {
    /// `channels` and `size` (height and width) as a plan has them, of pictures of `bytes`. None: there
    /// is no such picture.
    pub fn parse(channels: u64, size: u64, bytes: u64) -> Option<Picture> {
        let (height, width) = (size >> 32, size & 0xffff_ffff);
        let pixels = height.checked_mul(width)?.checked_mul(channels)?;
        let fits = matches!(channels, 1 | 3 | 4) && (1..=MAX_BYTES).contains(&pixels);
        (fits && pixels == bytes).then_some(Picture {
            height: height as u32,
            width: width as u32,
            channels: channels as u32,
        })
    }

    /// Decode a picture into `out`, which has its pixels' bytes. `number` is its own in faults.
    pub(crate) fn decode(&self, number: usize, stored: &[u8], out: &mut [u8]) -> Result<(), Fault> {
        if stored.starts_with(JPEG) {
            self.jpeg(number, stored, out)
        } else if stored.starts_with(PNG) {
            self.png(number, stored, out)
        } else {
            let mut head = [0; 8];
            for (byte, stored) in head.iter_mut().zip(stored) {
                *byte = *stored;
            }
            Err(Fault::no_picture(number, head))
        }
    }

    fn jpeg(&self, number: usize, stored: &[u8], out: &mut [u8]) -> Result<(), Fault> {
        let damaged = || Fault::damaged_picture(number);
        let options = DecoderOptions::default()
            .set_strict_mode(true)
            .set_max_width(MAX_SIDE)
            .set_max_height(MAX_SIDE)
            .jpeg_set_max_scans(MAX_SCANS);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(stored), options);
        decoder.decode_headers().map_err(|_| damaged())?;
        let info = decoder.info().ok_or_else(damaged)?;
        let size = (u32::from(info.height), u32::from(info.width));
        let found = decoder.input_colorspace().ok_or_else(damaged)?;
        let (made, channels) = match (found, self.channels) {
            (ColorSpace::Luma, _) => (ColorSpace::Luma, 1),
            (ColorSpace::YCbCr, 1) => (ColorSpace::Luma, 1),
            (ColorSpace::YCbCr | ColorSpace::RGB, 3 | 4) => (ColorSpace::RGB, 3),
            _ => return Err(self.wrong(number, size, u32::from(info.components))),
        };
        if size != (self.height, self.width) {
            return Err(self.wrong(number, size, u32::from(info.components)));
        }
        let options = options.jpeg_set_out_colorspace(made);
        let lines = self.height as usize;
        self.spread(channels, out, |pixels| {
            let last = pixels.len() - pixels.len() / lines;
            for mark in MARKS {
                let mut decoder = JpegDecoder::new_with_options(ZCursor::new(stored), options);
                decoder.decode_headers().map_err(|_| damaged())?;
                if decoder.output_buffer_size() != Some(pixels.len()) {
                    return Err(damaged());
                }
                pixels[last..].fill(mark);
                decoder.decode_into(pixels).map_err(|_| damaged())?;
                if pixels[last..].iter().any(|&byte| byte != mark) {
                    return Ok(());
                }
            }
            Err(damaged())
        })
    }

    fn png(&self, number: usize, stored: &[u8], out: &mut [u8]) -> Result<(), Fault> {
        let damaged = |_| Fault::damaged_picture(number);
        let bytes = out.len().saturating_mul(2).saturating_add(ROOM); // of 16 bits, too
        let mut decoder = png::Decoder::new_with_limits(Cursor::new(stored), Limits { bytes });
        decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        let head = decoder.read_header_info().map_err(damaged)?;
        let size = (head.height, head.width);
        let stored_channels = head.color_type.samples() as u32;
        if size != (self.height, self.width) {
            return Err(self.wrong(number, size, stored_channels));
        }
        let mut reader = decoder.read_info().map_err(damaged)?;
        let (color, depth) = reader.output_color_type();
        let channels = color.samples();
        let has_colors = !matches!(color, ColorType::Grayscale | ColorType::GrayscaleAlpha);
        if depth != BitDepth::Eight || has_colors && self.channels == 1 {
            return Err(self.wrong(number, size, channels as u32));
        }
        self.spread(channels, out, |pixels| {
            if reader.output_buffer_size() != Some(pixels.len()) {
                return Err(Fault::damaged_picture(number));
            }
            reader.next_frame(pixels).map_err(damaged)?;
            reader.finish().map_err(damaged)
        })
    }

    /// Let `decode` make pixels of `channels` channels, and write them to `out` with those that are
    /// delivered.
    fn spread(
        &self,
        channels: usize,
        out: &mut [u8],
        decode: impl FnOnce(&mut [u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let delivered = self.channels as usize;
        if channels == delivered {
            return decode(out);
        }
        let mut pixels = vec![0; out.len() / delivered * channels];
        decode(&mut pixels)?;
        for (from, to) in pixels
            .chunks_exact(channels)
            .zip(out.chunks_exact_mut(delivered))
        {
            let (color, opaque) = match *from {
                [grey] => ([grey; 3], u8::MAX),
                [grey, opaque] => ([grey; 3], opaque),
                [red, green, blue, ref rest @ ..] => {
                    ([red, green, blue], rest.first().copied().unwrap_or(u8::MAX))
                }
                [] => continue,
            };
            let [red, green, blue] = color;
            to.copy_from_slice(&[red, green, blue, opaque][..delivered]);
        }
        Ok(())
    }

    fn wrong(&self, number: usize, (height, width): (u32, u32), channels: u32) -> Fault {
        Fault::other_picture(number, height, width, channels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FilterErrorKind;

    /// A PNG of these pixels.
    fn png_of(color: ColorType, width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(color);
        encoder.set_depth(BitDepth::Eight);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(pixels).unwrap();
        writer.finish().unwrap();
        bytes
    }

    fn picture(height: u64, width: u64, channels: u64) -> Picture {
        Picture::parse(channels, height << 32 | width, height * width * channels).unwrap()
    }

    fn decoded(of: Picture, stored: &[u8]) -> Result<Vec<u8>, FilterErrorKind> {
        let mut out = vec![7; (of.height * of.width * of.channels) as usize];
        let done = of.decode(3, stored, &mut out);
        done.map(|()| out).map_err(|fault| fault.kind)
    }

    #[test]
    fn channels_are_those_that_are_named() {
        let stored = [
            (ColorType::Grayscale, vec![5, 250]),
            (ColorType::GrayscaleAlpha, vec![5, 1, 250, 2]),
            (ColorType::Rgb, vec![1, 2, 3, 4, 5, 6]),
            (ColorType::Rgba, vec![1, 2, 3, 9, 4, 5, 6, 8]),
        ];
        let expected = [
            [
                Some(vec![5, 250]),
                Some(vec![5, 5, 5, 250, 250, 250]),
                Some(vec![5, 5, 5, 255, 250, 250, 250, 255]),
            ],
            [
                Some(vec![5, 250]),
                Some(vec![5, 5, 5, 250, 250, 250]),
                Some(vec![5, 5, 5, 1, 250, 250, 250, 2]),
            ],
            [
                None,
                Some(vec![1, 2, 3, 4, 5, 6]),
                Some(vec![1, 2, 3, 255, 4, 5, 6, 255]),
            ],
            [
                None,
                Some(vec![1, 2, 3, 4, 5, 6]),
                Some(vec![1, 2, 3, 9, 4, 5, 6, 8]),
            ],
        ];
        for ((color, pixels), expected) in stored.into_iter().zip(expected) {
            let stored = png_of(color, 2, 1, &pixels);
            for (channels, expected) in [1, 3, 4].into_iter().zip(expected) {
                let made = decoded(picture(1, 2, channels), &stored);
                let expected = expected.ok_or(FilterErrorKind::OtherPicture);
                assert_eq!(made, expected, "{color:?} {channels}");
            }
        }
    }

    #[test]
    fn other_bytes_are_errors() {
        let stored = png_of(ColorType::Grayscale, 3, 2, &[1, 2, 3, 4, 5, 6]);
        let good = picture(2, 3, 1);
        assert_eq!(decoded(good, &stored), Ok(vec![1, 2, 3, 4, 5, 6]));
        let followed = [&stored[..], &[0; 9]].concat();
        assert_eq!(decoded(good, &followed), Ok(vec![1, 2, 3, 4, 5, 6]));
        let turned = decoded(picture(3, 2, 1), &stored);
        assert_eq!(turned, Err(FilterErrorKind::OtherPicture));
        assert_eq!(decoded(good, b""), Err(FilterErrorKind::NoPicture));
        assert_eq!(decoded(good, &[0; 99]), Err(FilterErrorKind::NoPicture));
        for len in PNG.len()..stored.len() - 12 {
            let made = decoded(good, &stored[..len]);
            assert_eq!(made, Err(FilterErrorKind::DamagedPicture), "{len}");
        }
        let mut fault = [0; 6];
        let fault = good.decode(3, &[1, 2], &mut fault).unwrap_err();
        assert_eq!(
            (fault.expected, fault.got),
            (3, u64::from_be_bytes([1, 2, 0, 0, 0, 0, 0, 0]))
        );
    }

    #[test]
    fn sizes_beyond_reason_are_refused() {
        for (channels, height, width) in [
            (2, 1, 1),
            (1, 0, 1),
            (3, 1 << 16, 1 << 16),
            (4, u64::from(u32::MAX), 1),
        ] {
            let bytes = channels * height * width;
            assert_eq!(Picture::parse(channels, height << 32 | width, bytes), None);
        }
        assert_eq!(Picture::parse(1, 1 << 32 | 1, 2), None);
    }
}
