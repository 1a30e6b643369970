//! A file: its objects by path, their links, attributes and what a dataset is.
//!
//! Law:
//! 1. A path is followed component by component; soft links count against a bound, as in HDF5. An
//!    external link is told, not followed: other files are the caller's.
//! 2. Each question reads what it needs, and no more: a name is looked up in the trees of its group.
//!    The links of a group that is asked for many names are read once, and kept.

use super::blocks::Blocks;
use super::cache_image;
use super::chunk::Chunk;
use super::chunks::chunk_table;
use super::cursor::{Block, Cursor, UNDEFINED};
use super::dataspace::{Dataspace, dataspace};
use super::datatype::datatype;
use super::error::{FormatError, Result, corrupt, unknown};
use super::external_files::{ExternalFile, external_files};
use super::fill_value::{Fill, FillValue, fill_value, old_fill_value};
use super::filter_pipeline::{Filter, filter_pipeline};
use super::global_heap::GlobalHeaps;
use super::kept::Kept;
use super::layout::{Layout, layout};
use super::link::{Link, Target};
use super::object_header::{Message, ObjectHeader, message};
use super::path::Rest;
use super::shared_messages::SharedMessages;
use super::source::ByteSource;
use super::superblock::{Superblock, page_bytes};
use super::variable_length::{Elements, elements};
use super::virtual_layout::{Mapping, Selection, mappings, selection};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// As many soft links as HDF5 follows on the way to an object.
pub(super) const MAX_SOFT_LINKS: usize = 16;
/// What a link takes beside its name, generously.
const LINK_BYTES: usize = 256;
/// What a message takes beside its body.
const MESSAGE_BYTES: usize = 64;
/// Names that are looked up in a group before all its links are read.
const MAX_LOOK_UPS: u32 = 64;
/// The name of a driver.
const DRIVER_BYTES: usize = 8;

pub struct File {
    pub blocks: Blocks,
    pub(super) shared: SharedMessages,
    heaps: GlobalHeaps,
    headers: Kept<ObjectHeader>,
    /// The links of groups that paths went through.
    groups: Kept<HashMap<Vec<u8>, Link>>,
    /// How many names were looked up in a group.
    look_ups: Kept<AtomicU32>,
    root: u64,
    /// Where the file ends as its writer left it: a file that is shorter is truncated.
    pub end: u64,
    /// Of the driver that wrote the file, if a part of it is in another file.
    pub driver: Vec<u8>,
    /// A writer has the file open, or was killed.
    pub is_written: bool,
    /// In SWMR mode.
    pub is_swmr: bool,
}

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    Group,
    Dataset,
    Datatype,
    Other,
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Object(u64),
    /// There is no such link in the object with this offset.
    Missing {
        parent: u64,
    },
    /// What is before this link is no group.
    NotAGroup {
        parent: u64,
    },
    /// The rest of the path is in another file.
    External {
        file: Vec<u8>,
        path: Vec<u8>,
    },
    UserDefined(u8),
    TooManyLinks,
}

/// What a dataset is, but for its attributes and chunks.
#[derive(Clone, Debug)]
pub struct Dataset {
    pub dataspace: Dataspace,
    /// The message that says the element type, wherever it is.
    pub datatype: Block,
    pub element_bytes: u32,
    pub layout: Layout,
    pub filters: Vec<Filter>,
    pub fill: Fill,
    pub external_files: Vec<ExternalFile>,
}

impl File {
    pub fn open(source: Box<dyn ByteSource>, checks_sums: bool) -> Result<File> {
        let superblock = Superblock::read(source, checks_sums)?;
        let mut blocks = superblock.blocks;
        let (mut shared, mut driver) = (SharedMessages::default(), Vec::new());
        if superblock.extension != UNDEFINED {
            let extension = ObjectHeader::read(&blocks, superblock.extension)?;
            if let Some(message) = extension.find(message::CACHE_IMAGE) {
                blocks.image = cache_image::read(&blocks, &message.body)?;
            }
            shared = SharedMessages::open(&blocks, &extension)?;
            if let Some(message) = extension.find(message::DRIVER) {
                let mut cursor = blocks.cursor(&message.body);
                cursor.skip(1)?; // the version
                driver = cursor.take(DRIVER_BYTES)?.to_vec();
            }
            if let Some(message) = extension.find(message::FILE_SPACE) {
                if let Some(bytes) = page_bytes(&mut blocks.cursor(&message.body))? {
                    blocks.has_pages(bytes);
                }
            }
        }
        if superblock.driver != UNDEFINED {
            let head = blocks.block(superblock.driver, 8 + DRIVER_BYTES as u64)?;
            driver = head.bytes[8..].to_vec(); // behind a version and a size
        }
        Ok(File {
            blocks,
            shared,
            heaps: GlobalHeaps::default(),
            headers: Kept::default(),
            groups: Kept::default(),
            look_ups: Kept::default(),
            root: superblock.root,
            end: superblock.end,
            driver,
            is_written: superblock.is_written,
            is_swmr: superblock.is_swmr,
        })
    }

    /// Offset of the root group.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// The header of an object, which most callers need several times.
    pub fn object(&self, offset: u64) -> Result<Arc<ObjectHeader>> {
        self.headers.get(offset, || {
            let header = ObjectHeader::read(&self.blocks, offset)?;
            let bytes = header.bytes() + (header.messages.len() * MESSAGE_BYTES) as u64;
            Ok((header, bytes))
        })
    }

    /// Follow a path from an object on; a path that begins with a slash from the root.
    pub fn find(&self, from: u64, path: &[u8]) -> Result<Found> {
        let mut rest = Rest::default();
        let mut at = rest.put(path, from, self.root);
        let mut soft_links = 0;
        while let Some(name) = rest.next() {
            let header = self.object(at)?;
            if header.kind() != ObjectKind::Group {
                return Ok(Found::NotAGroup { parent: at });
            }
            let Some(link) = self.link(&header, &name)? else {
                return Ok(Found::Missing { parent: at });
            };
            match link.target {
                Target::Hard(offset) => at = offset,
                Target::Soft(path) => {
                    soft_links += 1;
                    if soft_links > MAX_SOFT_LINKS {
                        return Ok(Found::TooManyLinks);
                    }
                    at = rest.put(&path, at, self.root);
                }
                Target::External { file, path } => {
                    let path = rest.behind(path);
                    return Ok(Found::External { file, path });
                }
                Target::UserDefined(kind) => return Ok(Found::UserDefined(kind)),
            }
        }
        Ok(Found::Object(at))
    }

    /// The link of this name, if there is one.
    pub fn link(&self, group: &ObjectHeader, name: &[u8]) -> Result<Option<Link>> {
        let look_ups = (self.look_ups).get(group.offset, || {
            Ok::<_, FormatError>((AtomicU32::new(0), size_of::<AtomicU32>() as u64))
        })?;
        if look_ups.fetch_add(1, Relaxed) < MAX_LOOK_UPS {
            let mut found = None;
            self.each_link(group, Some(name), &mut |link| {
                if link.name == name {
                    found = Some(link);
                }
                Ok(())
            })?;
            return Ok(found);
        }
        let by_name = self.groups.get(group.offset, || {
            let links = self.links(group)?;
            let bytes = links
                .iter()
                .map(|link| link.name.len() + LINK_BYTES)
                .sum::<usize>();
            let by_name: HashMap<_, _> = links
                .into_iter()
                .map(|link| (link.name.clone(), link))
                .collect();
            Ok((by_name, bytes as u64))
        })?;
        Ok(by_name.get(name).cloned())
    }

    /// The body of a message, wherever it is.
    pub(super) fn body(&self, message: &Message) -> Result<Block> {
        self.shared
            .body(&self.blocks, message.kind, message.flags, &message.body)
    }

    /// What the first message of a kind says.
    fn parsed<T>(
        &self,
        header: &ObjectHeader,
        kind: u16,
        read: impl FnOnce(&mut Cursor<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(message) = header.find(kind) else {
            return Ok(None);
        };
        let body = self.body(message)?;
        read(&mut self.blocks.cursor(&body)).map(Some)
    }

    /// The element type of a dataset or a committed datatype.
    pub fn datatype(&self, header: &ObjectHeader) -> Result<Block> {
        let body = self.required(header, message::DATATYPE, "a datatype")?;
        datatype(&mut self.blocks.cursor(&body))?;
        Ok(body)
    }

    fn required(&self, header: &ObjectHeader, kind: u16, what: &str) -> Result<Block> {
        match header.find(kind) {
            Some(message) => self.body(message),
            None => corrupt(self.blocks.address(header.offset), what, "none"),
        }
    }

    /// What a dataset is.
    pub fn dataset(&self, header: &ObjectHeader) -> Result<Dataset> {
        let space = self.required(header, message::DATASPACE, "a dataspace")?;
        let element = self.required(header, message::DATATYPE, "a datatype")?;
        let place = self.required(header, message::LAYOUT, "a data layout")?;
        let filters = self.parsed(header, message::FILTER_PIPELINE, filter_pipeline)?;
        let fill = match self.parsed(header, message::FILL_VALUE, fill_value)? {
            None => self.parsed(header, message::OLD_FILL_VALUE, old_fill_value)?,
            known => known,
        };
        let element_bytes = datatype(&mut self.blocks.cursor(&element))?.size;
        let fill = fill.unwrap_or_default();
        if let FillValue::Value(value) = &fill.value {
            if value.len() != element_bytes as usize {
                let address = self.blocks.address(header.offset);
                let expected = format!("a fill value of {element_bytes} bytes");
                return corrupt(address, expected, value.len());
            }
        }
        let external = self.parsed(header, message::EXTERNAL_FILES, |cursor| {
            external_files(&self.blocks, cursor)
        })?;
        Ok(Dataset {
            dataspace: dataspace(&mut self.blocks.cursor(&space))?,
            element_bytes,
            datatype: element,
            layout: layout(&mut self.blocks.cursor(&place))?,
            filters: filters.unwrap_or_default(),
            fill,
            external_files: external.unwrap_or_default(),
        })
    }

    /// The stored chunks of a dataset.
    pub fn chunks(&self, dataset: &Dataset) -> Result<Vec<Chunk>> {
        let Layout::Chunked(chunked) = &dataset.layout else {
            return unknown(0, "a dataset without chunks");
        };
        chunk_table(
            &self.blocks,
            chunked,
            &dataset.dataspace.dims,
            &dataset.dataspace.max_dims,
            dataset.element_bytes.into(),
            !dataset.filters.is_empty(),
        )
    }

    /// What a virtual dataset shows.
    pub fn mappings(&self, heap: u64, index: u32) -> Result<Vec<Mapping>> {
        match heap {
            UNDEFINED => Ok(Vec::new()),
            _ => mappings(&self.global(heap, index)?, self.blocks.sizes),
        }
    }

    /// An object of the global heap: the elements of a sequence or a string, mappings, a reference.
    pub fn global(&self, heap: u64, index: u32) -> Result<Block> {
        self.heaps.object(&self.blocks, heap, index)
    }

    /// The dataset and the selection of a reference to a region, an object of the global heap.
    pub fn region(&self, heap: u64, index: u32) -> Result<(u64, Selection)> {
        let body = self.global(heap, index)?;
        let mut cursor = self.blocks.cursor(&body);
        Ok((cursor.offset()?, selection(&mut cursor)?))
    }

    /// What descriptors of variable length name; see `variable_length`.
    pub fn variable(&self, descriptors: &[u8], element_bytes: u64, each: u64) -> Result<Elements> {
        elements(&self.blocks, &self.heaps, descriptors, element_bytes, each)
    }
}

impl ObjectHeader {
    pub fn kind(&self) -> ObjectKind {
        let has = |kind| self.find(kind).is_some();
        let is_group = [message::SYMBOL_TABLE, message::LINK_INFO, message::LINK];
        match () {
            () if is_group.into_iter().any(has) => ObjectKind::Group,
            () if has(message::DATATYPE) && has(message::DATASPACE) => ObjectKind::Dataset,
            () if has(message::DATATYPE) => ObjectKind::Datatype,
            () => ObjectKind::Other,
        }
    }
}

/// Bytes of all messages of an object: heaps lend the same bytes to any number of them, but all
/// together are no longer than the file.
pub(super) struct Total {
    left: u64,
}

impl Total {
    pub(super) fn new(blocks: &Blocks) -> Total {
        Total {
            left: blocks.file_size(),
        }
    }

    pub(super) fn add(&mut self, body: &Block) -> Result<()> {
        match self.left.checked_sub(body.bytes.len() as u64) {
            Some(left) => self.left = left,
            None => return corrupt(body.address, "messages within the file's size", "more"),
        }
        Ok(())
    }
}
