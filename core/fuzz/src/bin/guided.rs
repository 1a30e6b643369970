//! A target under libFuzzer, which sees what inputs reach: `MULTITABLES_FUZZ=metadata guided CORPUS`.
//!
//! Law: one program for all targets, as each is linked with the whole core.
#![no_main]

use libfuzzer_sys::fuzz_target;
use multitables_fuzz::{Body, body};
use std::sync::OnceLock;

static BODY: OnceLock<Body> = OnceLock::new();

fuzz_target!(init: {
    let name = std::env::var("MULTITABLES_FUZZ").unwrap_or_default();
    let _ = BODY.set(body(&name).unwrap_or_else(|| panic!("no target {name:?}")));
}, |data: &[u8]| {
    if let Some(body) = BODY.get() {
        body(data);
    }
});
