//! The head of an input: numbers that choose what is done with the rest of it.
//!
//! Law: an input that ends early goes on with zeros.

pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (some, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        some
    }

    pub fn number(&mut self, len: usize) -> usize {
        let bytes = self.bytes(len).iter().rev();
        bytes.fold(0, |number, &byte| number << 8 | usize::from(byte))
    }

    /// The rest, as whole words.
    pub fn words(self) -> Vec<u64> {
        let word = |word: &[u8]| {
            word.iter()
                .rev()
                .fold(0, |all, &byte| all << 8 | u64::from(byte))
        };
        self.0.chunks_exact(8).map(word).collect()
    }
}
