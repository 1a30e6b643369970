//! Filters that others wrote for HDF5: shared libraries that are loaded and called without HDF5.
//!
//! Law:
//! 1. A library is loaded for good: nothing that it set up is ever torn down.
//! 2. One call at a time: plugins are written for HDF5, which calls them under its global lock.
//! 3. HDF5 and its plugins share the C library's heap: a plugin may free or grow the buffer that it is
//!    given, and its result is freed here.
//! 4. A plugin may crash: only processes that others can replace call one.

use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_uint, c_void};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};

/// `H5PL_TYPE_FILTER`.
const TYPE_FILTER: c_int = 0;
/// `H5Z_CLASS_T_VERS`.
const CLASS_VERSION: c_int = 1;
/// `H5Z_FLAG_REVERSE`: decode.
const DECODE: c_uint = 0x100;

type FilterCall = unsafe extern "C" fn(
    flags: c_uint,
    n_values: usize,
    values: *const c_uint,
    n_bytes: usize,
    room: *mut usize,
    bytes: *mut *mut c_void,
) -> usize;

/// `H5Z_class2_t`.
#[repr(C)]
struct Class {
    version: c_int,
    id: c_int,
    encodes: c_uint,
    decodes: c_uint,
    name: *const c_char,
    can_apply: *const c_void,
    set_local: *const c_void,
    call: Option<FilterCall>,
}

/// The filter of a library that stays loaded.
#[derive(Clone, Copy)]
pub struct Plugin {
    pub id: u32,
    call: FilterCall,
}

/// What a plugin made, in the C library's heap.
pub struct Made {
    bytes: *mut c_void,
    len: usize,
}

static CALLS: Mutex<()> = Mutex::new(());

/// The first of some files that has a filter, loaded, and its number among them.
pub fn load(id: u32, files: &[OsString]) -> Option<(usize, Plugin)> {
    let mut loaded = files.iter().map(|file| Plugin::load(file)).enumerate();
    loaded.find_map(|(at, plugin)| Some((at, plugin.filter(|plugin| plugin.id == id)?)))
}

impl Plugin {
    /// Load a library. None: it cannot be loaded, or is no plugin with a filter that decodes.
    pub fn load(path: &OsStr) -> Option<Plugin> {
        let path = CString::new(path.as_bytes()).ok()?;
        // SAFETY: a string that ends in NUL. Symbols are bound now: one that is missing fails here, and
        // does not end the process at its first call.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return None;
        }
        // SAFETY: both are functions of HDF5's interface of plugins; `Class` is what the second tells.
        let class = unsafe {
            let type_of = libc::dlsym(library, c"H5PLget_plugin_type".as_ptr());
            let info_of = libc::dlsym(library, c"H5PLget_plugin_info".as_ptr());
            if type_of.is_null() || info_of.is_null() {
                return None;
            }
            let type_of: extern "C" fn() -> c_int = std::mem::transmute(type_of);
            let info_of: extern "C" fn() -> *const Class = std::mem::transmute(info_of);
            if type_of() != TYPE_FILTER {
                return None;
            }
            info_of().as_ref()?
        };
        if class.version != CLASS_VERSION || class.decodes == 0 {
            return None;
        }
        Some(Plugin {
            id: class.id.try_into().ok()?,
            call: class.call?,
        })
    }

    /// Decode stored bytes. None: the plugin failed.
    pub fn decode(self, flags: u32, values: &[u32], stored: &[u8]) -> Option<Made> {
        let _one = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut room = stored.len();
        // SAFETY: a block of the heap, one byte at least, into which as many bytes are copied as it has.
        let mut bytes = unsafe { libc::malloc(room.max(1)) };
        if bytes.is_null() {
            return None;
        }
        // SAFETY: as above; the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(stored.as_ptr(), bytes.cast(), room) };
        let (n_values, values) = (values.len(), values.as_ptr());
        // SAFETY: HDF5's contract: values and buffer are as long as is said. The plugin replaces the
        // buffer or leaves it; either is ours afterwards.
        let len = unsafe {
            (self.call)(
                flags | DECODE,
                n_values,
                values,
                stored.len(),
                &raw mut room,
                &raw mut bytes,
            )
        };
        let made = Made { bytes, len };
        (len > 0 && !bytes.is_null()).then_some(made)
    }
}

impl Deref for Made {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the plugin says that it made as many bytes there.
        unsafe { std::slice::from_raw_parts(self.bytes.cast(), self.len) }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: from the C library's heap, or null, and used no more.
        unsafe { libc::free(self.bytes) };
    }
}
