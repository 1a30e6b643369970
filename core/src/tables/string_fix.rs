//! Strings inside an element, and where HDF5's conversion ends them.
//!
//! Law:
//! 1. Pure: bytes are changed in place. That a string lies inside its element is checked where a plan
//!    is opened (`dataset`).

/// What the conversion from a stored string to NumPy's changes: bytes after its end become NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringFix {
    pub offset: usize,
    pub size: usize,
    pub count: usize,
    pub space_padded: bool,
}

impl StringFix {
    /// End the strings of one element: what follows becomes NUL.
    pub fn end(&self, element: &mut [u8]) {
        if self.size == 0 {
            return;
        }
        let strings = &mut element[self.offset..self.offset + self.size * self.count];
        for string in strings.chunks_exact_mut(self.size) {
            let end = if self.space_padded {
                string
                    .iter()
                    .rposition(|&byte| byte != b' ')
                    .map_or(0, |last| last + 1)
            } else {
                string
                    .iter()
                    .position(|&byte| byte == 0)
                    .unwrap_or(string.len())
            };
            string[end..].fill(0);
        }
    }
}
