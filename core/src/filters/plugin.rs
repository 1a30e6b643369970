//! Filters that are not in `FILTERS`, decoded by plugins that others wrote for HDF5.
//!
//! Law:
//! 1. Only a process that was told where to search has plugins. Anywhere else, every filter that is
//!    not in `FILTERS` is unknown.
//! 2. More bytes than expected are left to the library: HDF5 has ways of its own with them. So is what
//!    a plugin fails with: it may need HDF5, as zfp's does with chunks of big-endian machines.
//! 3. The values are those that the file holds, after the filter's own `set_local`.
//!
//! It must never know folders, or names of filters.

use super::{Decoder, Fault, FilterSpec, OutputSize};
use crate::os::plugin::Plugin;
use std::ffi::OsString;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Names the files that may have a filter, likely ones first.
type Search = Box<dyn Fn(u32) -> Vec<OsString> + Send + Sync>;

static SEARCH: OnceLock<Search> = OnceLock::new();
static LOADED: Mutex<Vec<Plugin>> = Mutex::new(Vec::new());

/// Let this process load plugins. Only the first call counts.
pub fn search_by(search: Search) {
    let _ = SEARCH.set(search);
}

/// The first of some files that has a filter, loaded, and its number among them.
pub fn load(id: u32, files: &[OsString]) -> Option<(usize, Plugin)> {
    let mut loaded = files.iter().map(|file| Plugin::load(file)).enumerate();
    loaded.find_map(|(at, plugin)| Some((at, plugin.filter(|plugin| plugin.id == id)?)))
}

/// The stored bytes of a chunk are whole: a plugin decodes all of them or nothing.
struct ByPlugin {
    plugin: Plugin,
    flags: u32,
    values: Vec<u32>,
}

/// None: no plugin here has the filter.
pub(super) fn make(spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = loaded.iter().find(|plugin| plugin.id == spec.id).copied();
    let plugin = known.or_else(|| {
        let (_, plugin) = load(spec.id, &SEARCH.get()?(spec.id))?;
        loaded.push(plugin);
        Some(plugin)
    })?;
    Some(Box::new(ByPlugin {
        plugin,
        flags: spec.flags,
        values: spec.values.clone(),
    }))
}

impl Decoder for ByPlugin {
    fn output_size(&self, _stored: &[u8]) -> Result<OutputSize, Fault> {
        Ok(OutputSize::Unknown)
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let made = self.plugin.decode(self.flags, &self.values, stored);
        let made = made.ok_or(Fault::unsupported(0))?;
        let out = out.get_mut(..made.len());
        let out = out.ok_or(Fault::unsupported(made.len() as u64))?;
        out.copy_from_slice(&made);
        Ok(made.len())
    }
}
