//! A path on its way to an object: what soft links put before the names that are left.
//!
//! Law: names are bytes; empty names and "." are left out.

/// The names that are left of a path, the next one last.
#[derive(Default)]
pub struct Rest(Vec<Vec<u8>>);

impl Rest {
    /// Put a path before what is left; where it begins.
    pub fn put(&mut self, path: &[u8], from: u64, root: u64) -> u64 {
        let is_name = |name: &&[u8]| !name.is_empty() && *name != b".";
        let names = path.split(|&byte| byte == b'/').filter(is_name);
        let names: Vec<_> = names.map(<[u8]>::to_vec).collect();
        self.0.extend(names.into_iter().rev());
        if path.starts_with(b"/") { root } else { from }
    }

    pub fn next(&mut self) -> Option<Vec<u8>> {
        self.0.pop()
    }

    /// A path in another file, and what is left behind it.
    pub fn behind(self, mut path: Vec<u8>) -> Vec<u8> {
        for name in self.0.into_iter().rev() {
            path.push(b'/');
            path.extend(name);
        }
        path
    }
}
