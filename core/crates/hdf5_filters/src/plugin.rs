//! Filters that are not in `FILTERS`, decoded by plugins that others wrote for HDF5.
//!
//! Law:
//! 1. Only a process to which it was handed in how they are loaded has plugins. Anywhere else, every
//!    filter that is not in `FILTERS` is unknown.
//! 2. More bytes than expected are left to the library: HDF5 has ways of its own with them. So is what
//!    a plugin fails with: it may need HDF5, as zfp's does with chunks of big-endian machines.
//! 3. The values are those that the file holds, after the filter's own `set_local`.
//!
//! It must never know files, or names of filters.

use super::{Decoder, Fault, FilterSpec, OutputSize};
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What a plugin makes of stored bytes, with the filter's flags and values. None: it failed.
pub type Call = dyn Fn(u32, &[u32], &[u8]) -> Option<Box<dyn Deref<Target = [u8]>>> + Send + Sync;

/// Loads the plugin that has a filter, if there is one.
type Load = Box<dyn Fn(u32) -> Option<Arc<Call>> + Send + Sync>;

static LOAD: OnceLock<Load> = OnceLock::new();
static LOADED: Mutex<Vec<(u32, Arc<Call>)>> = Mutex::new(Vec::new());

/// Let this process load plugins. Only the first call counts.
pub fn load_by(load: Load) {
    let _ = LOAD.set(load);
}

/// The stored bytes of a chunk are whole: a plugin decodes all of them or nothing.
struct ByPlugin {
    call: Arc<Call>,
    flags: u32,
    values: Vec<u32>,
}

/// None: no plugin here has the filter.
pub(super) fn make(spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = loaded.iter().find(|(id, _)| *id == spec.id);
    let call = match known {
        Some((_, call)) => call.clone(),
        None => {
            let call = LOAD.get()?(spec.id)?;
            loaded.push((spec.id, call.clone()));
            call
        }
    };
    Some(Box::new(ByPlugin {
        call,
        flags: spec.flags,
        values: spec.values.clone(),
    }))
}

impl Decoder for ByPlugin {
    fn output_size(&self, _stored: &[u8]) -> Result<OutputSize, Fault> {
        Ok(OutputSize::Unknown)
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let made = (self.call)(self.flags, &self.values, stored);
        let made = made.ok_or(Fault::unsupported(0))?;
        let out = out.get_mut(..made.len());
        let out = out.ok_or(Fault::unsupported(made.len() as u64))?;
        out.copy_from_slice(&made);
        Ok(made.len())
    }
}
