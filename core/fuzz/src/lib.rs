//! What is fuzzed: for each part of the core that sees bytes of others, what is done with any bytes.
//!
//! Law:
//! 1. A body takes any bytes. It returns, in little time and memory; a panic is a fault of the core.
//! 2. What a body opens lies in memory: no input makes it open a file, or ask the network.
//! 3. Where there are two ways to the same bytes, a body compares them.
//! 4. Two drivers run the same bodies: libFuzzer, and mutations without it (src/bin).

mod deflate;
mod filters;
mod input;
mod metadata;
mod pictures;
mod requests;
mod saved;
mod tables;

/// What is done with an input.
pub type Body = fn(&[u8]);

/// By name; corpora have the same names.
#[rustfmt::skip]
pub const TARGETS: [(&str, Body); 9] = [
    ("metadata", metadata::file),
    ("saved", saved::index),
    ("filter", filters::one),
    ("pipeline", filters::several),
    ("deflate_group", deflate::group),
    ("picture", pictures::one),
    ("table", tables::datasets),
    ("plan", tables::plan),
    ("request", requests::answer),
];

/// The body of this name.
pub fn body(name: &str) -> Option<Body> {
    TARGETS.iter().find(|one| one.0 == name).map(|one| one.1)
}
