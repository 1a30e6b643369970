//! A saved index: what it says of the objects of a file, or of the files of a manifest.
//!
//! Law:
//! 1. It answers what a file answers, with the same values, or leaves it to the file: an object that is
//!    not saved, a question that does not fit it.
//! 2. Columns were checked when it was opened; parts and values are when they are first needed.
//! 3. Never changes. Threads share it without a lock.

use super::attribute::Attribute;
use super::chunk::Chunk;
use super::file::{Dataset, Found, MAX_SOFT_LINKS};
use super::grid::axes;
use super::layout::Layout;
use super::link::{Link, Target};
use super::many::ELSEWHERE;
use super::path::Rest;
use super::saved_alike::{alike, is_alike};
use super::saved_columns::{
    Column, DATASET, DATATYPE, Failure, HARD, Head, NO_NUMBER, NO_VALUE, Number, Result, SOFT,
    Sums, Tables, USER_DEFINED, compare, damaged,
};
use super::saved_links::{links, name, row, search, stored_names};
use super::saved_parts::Parts;
use super::saved_survey::survey;
use super::saved_values::{Json, attribute, kind, space, storage};
use super::source::ByteSource;
use super::survey::{Kind, Survey};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// None: the file itself answers.
pub type Answer<T> = Result<Option<T>>;

/// Where a path leads.
pub enum Followed {
    Found(Found),
    /// On from an object that is not saved.
    Unsaved {
        offset: u64,
        path: Vec<u8>,
    },
}

/// What identifies the files of a manifest.
pub struct Files<'a> {
    /// Each with a NUL, and where it ends.
    pub names: &'a [u8],
    pub name_ends: &'a [u64],
    /// Device, inode, size and time of change of each.
    pub states: Vec<[u64; 4]>,
    /// Of objects of stores; of others empty. None: no file is one.
    pub etags: Vec<String>,
}

/// The index of one file, or of many.
pub struct SavedIndex {
    source: Box<dyn ByteSource>,
    sums: Sums,
    tables: Tables,
    values: OnceLock<Vec<u8>>,
    kinds: OnceLock<Vec<Kind>>,
}

/// What is saved of one file.
#[derive(Clone)]
pub struct SavedFile {
    index: Arc<SavedIndex>,
    objects: Range<usize>,
    pub root: u64,
}

impl SavedIndex {
    /// Read an index of this version, and check it. None: it is of another one, or `is_wanted` says no.
    pub fn open(
        source: Box<dyn ByteSource>,
        version: u32,
        sums: Sums,
        is_wanted: impl FnOnce(&Head) -> bool,
    ) -> Answer<Arc<SavedIndex>> {
        let Some(head) = Head::read(&*source, version, sums)?.filter(is_wanted) else {
            return Ok(None);
        };
        let tables = Tables::read(&*source, head, sums)?;
        Ok(Some(Arc::new(SavedIndex {
            source,
            sums,
            tables,
            values: OnceLock::new(),
            kinds: OnceLock::new(),
        })))
    }

    /// All of it, as of one file.
    pub fn whole(self: &Arc<SavedIndex>) -> SavedFile {
        let head = &self.tables.head;
        SavedFile {
            index: self.clone(),
            objects: 0..head.get(Number::Objects) as usize,
            root: head.get(Number::Root),
        }
    }

    /// One file of a manifest.
    pub fn file(self: &Arc<SavedIndex>, number: usize) -> Option<SavedFile> {
        let ends = self.tables.longs(Column::FileObjectsEnd);
        let begin = number
            .checked_sub(1)
            .map_or(Some(&0), |before| ends.get(before))?;
        Some(SavedFile {
            index: self.clone(),
            objects: *begin as usize..*ends.get(number)? as usize,
            root: self.tables.longs(Column::FileRoot)[number],
        })
    }

    /// The files of a manifest.
    pub fn files(&self) -> Result<Files<'_>> {
        let of = &self.tables;
        let (devices, inodes) = (of.longs(Column::FileDevice), of.longs(Column::FileInode));
        let states = (0..devices.len()).map(|at| {
            let changed = [Column::FileSize, Column::FileMtime].map(|column| of.longs(column)[at]);
            [devices[at], inodes[at], changed[0], changed[1]]
        });
        let etags = of.words(Column::FileEtag);
        let etag = |&number: &u32| match number {
            NO_VALUE => Ok(String::new()),
            _ => self.value(number.into(), "the version of an object", Json::text),
        };
        Ok(Files {
            names: of.bytes(Column::FileNames),
            name_ends: of.longs(Column::FileNameEnd),
            states: states.collect(),
            etags: match etags.iter().all(|&number| number == NO_VALUE) {
                true => Vec::new(),
                false => etags.iter().map(etag).collect::<Result<_>>()?,
            },
        })
    }

    /// The object of a path in each file of a manifest. None: each has to be searched.
    pub fn alike(&self, path: &[u8]) -> Option<Vec<usize>> {
        alike(&self.tables, path)
    }

    /// Whether a group has the same names in each file, all of hard links.
    pub fn is_alike(&self, path: &[u8]) -> bool {
        is_alike(&self.tables, path)
    }

    /// What objects are, of (row, number of the file).
    pub fn survey(
        &self,
        objects: &mut dyn Iterator<Item = (usize, u32)>,
        with_scales: bool,
    ) -> Result<Survey> {
        survey(&self.parts(), self.kinds()?, objects, with_scales)
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            source: &*self.source,
            tables: &self.tables,
            sums: self.sums,
        }
    }

    fn kinds(&self) -> Result<&[Kind]> {
        if let Some(kinds) = self.kinds.get() {
            return Ok(kinds);
        }
        let text = self.tables.bytes(Column::Kinds);
        let kinds = Json::read(text, |json| json.list(kind));
        let kinds = kinds.ok_or("the kinds of datasets are not such values")?;
        Ok(self.kinds.get_or_init(|| kinds))
    }

    /// A value of a known form.
    fn value<'s, T>(
        &'s self,
        number: u64,
        what: &str,
        of: impl FnOnce(&mut Json<'s>) -> Option<T>,
    ) -> Result<T> {
        let values = match self.values.get() {
            Some(values) => values,
            None => {
                let head = &self.tables.head;
                let mut values = vec![0; head.get(Number::ValuesBytes) as usize];
                self.source.read(head.values_begin(), &mut values)?;
                compare("values", self.sums, &values, head.get(Number::ValuesSum))?;
                self.values.get_or_init(|| values)
            }
        };
        let ends = self.tables.longs(Column::ValueEnd);
        let number = number as usize;
        let begin = number.checked_sub(1).map_or(0, |before| ends[before]) as usize;
        match Json::read(&values[begin..ends[number] as usize], of) {
            Some(value) => Ok(value),
            None => damaged(format!("value {number} is not {what}")),
        }
    }
}

impl SavedFile {
    /// What an object is.
    pub fn kind(&self, offset: u64) -> Option<u8> {
        Some(self.index.tables.bytes(Column::Kind)[self.row(offset)?])
    }

    /// Follow a path from an object on; a path that begins with a slash from the root.
    pub fn find(&self, from: u64, path: &[u8]) -> Result<Followed> {
        let tables = &self.index.tables;
        let mut rest = Rest::default();
        let mut at = rest.put(path, from, self.root);
        let mut soft_links = 0;
        while let Some(wanted) = rest.next() {
            let Some(row) = self.row(at) else {
                rest.put(&wanted, at, self.root);
                let path = rest.behind(b".".to_vec());
                return Ok(Followed::Unsaved { offset: at, path });
            };
            let Some(links) = links(tables, row) else {
                return Ok(Followed::Found(Found::NotAGroup { parent: at }));
            };
            let Some(link) = search(tables, &links, &wanted) else {
                return Ok(Followed::Found(Found::Missing { parent: at }));
            };
            match self.target(link)? {
                Target::Hard(offset) => at = offset,
                Target::Soft(path) => {
                    soft_links += 1;
                    if soft_links > MAX_SOFT_LINKS {
                        return Ok(Followed::Found(Found::TooManyLinks));
                    }
                    at = rest.put(&path, at, self.root);
                }
                Target::External { file, path } => {
                    let path = rest.behind(path);
                    return Ok(Followed::Found(Found::External { file, path }));
                }
                Target::UserDefined(kind) => return Ok(Followed::Found(Found::UserDefined(kind))),
            }
        }
        Ok(Followed::Found(Found::Object(at)))
    }

    /// Where a path leads from each of some groups, as `File::find_from` returns it.
    pub fn find_from(&self, offsets: &[u64], path: &[u8]) -> Result<Vec<i64>> {
        let number = |followed| match followed {
            Followed::Found(found) => Found::number(&found),
            Followed::Unsaved { .. } => ELSEWHERE,
        };
        let offsets = offsets.iter();
        offsets
            .map(|&from| self.find(from, path).map(number))
            .collect()
    }

    /// The links of a group, by name.
    pub fn links(&self, offset: u64) -> Answer<Vec<Link>> {
        let links = self.links_of(offset);
        let link = |links: Range<usize>| links.map(|link| self.link_of(link)).collect();
        links.map(link).transpose()
    }

    /// The link of this name in a group, if it has one.
    pub fn link(&self, offset: u64, wanted: &[u8]) -> Answer<Option<Link>> {
        let Some(links) = self.links_of(offset) else {
            return Ok(None);
        };
        let found = search(&self.index.tables, &links, wanted);
        found.map(|link| self.link_of(link)).transpose().map(Some)
    }

    /// The names of a group's links, each with a NUL, and the offsets of hard ones; others have -1.
    pub fn names(&self, offset: u64) -> Option<(&[u8], Vec<i64>)> {
        let tables = &self.index.tables;
        let links = self.links_of(offset)?;
        let kinds = &tables.bytes(Column::LinkKind)[links.clone()];
        let targets = &tables.longs(Column::LinkTarget)[links.clone()];
        let target = |(&kind, &to): (&u8, &u64)| if kind == HARD { to as i64 } else { -1 };
        let targets = kinds.iter().zip(targets).map(target).collect();
        Some((stored_names(tables, links), targets))
    }

    /// The attributes of an object, and their numbers in the order of creation.
    pub fn attributes(&self, offset: u64) -> Answer<Vec<(Option<u32>, Attribute)>> {
        let all = |json: &mut Json<'_>| json.list(attribute);
        match self
            .row(offset)
            .map(|row| self.number(Column::Attributes, row))
        {
            None | Some(NO_VALUE) => Ok(None),
            Some(number) => self.index.value(number.into(), "attributes", all).map(Some),
        }
    }

    /// The element type of a dataset or a committed datatype.
    pub fn datatype(&self, offset: u64) -> Answer<Vec<u8>> {
        let Some(row) = self.row(offset) else {
            return Ok(None);
        };
        let number = self.number(Column::Storage, row);
        match self.index.tables.bytes(Column::Kind)[row] {
            _ if number == NO_VALUE => Ok(None),
            DATASET => self.storage(number).map(|of| Some(of.datatype.bytes)),
            DATATYPE => {
                let found = self.index.value(number.into(), "a datatype", Json::bytes);
                found.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// What a dataset is, and where its elements lie that are in one piece: absolute in the file.
    pub fn dataset(&self, offset: u64) -> Answer<(Dataset, Option<u64>)> {
        let row = self.dataset_row(offset);
        row.map(|row| self.dataset_of(row)).transpose()
    }

    /// The stored chunks of a dataset that has some.
    pub fn chunks(&self, offset: u64) -> Answer<Vec<Chunk>> {
        let Some(row) = self.dataset_row(offset) else {
            return Ok(None);
        };
        let (dataset, _) = self.dataset_of(row)?;
        let Layout::Chunked(chunked) = dataset.layout else {
            return Ok(None);
        };
        let chunks = self.index.parts().chunks(&[row])?;
        let grid = axes(&dataset.dataspace.dims, &chunked.chunk_dims);
        let n_chunks = grid.map_or(0, |axes| axes.iter().map(|axis| axis.n_chunks).product());
        let is_sorted = chunks
            .windows(2)
            .all(|two| two[0].grid_index < two[1].grid_index);
        match is_sorted && chunks.last().is_none_or(|last| last.grid_index < n_chunks) {
            true => Ok(Some(chunks)),
            false => damaged("the chunks of a dataset are not those of its grid"),
        }
    }

    /// What the objects at these offsets are, and which are saved.
    pub fn survey(&self, offsets: &[u64], with_scales: bool) -> Result<(Survey, Vec<bool>)> {
        let rows: Vec<_> = offsets.iter().map(|&offset| self.row(offset)).collect();
        let mut saved = rows.iter().flatten().map(|&row| (row, 0));
        let survey = self.index.survey(&mut saved, with_scales)?;
        Ok((survey, rows.iter().map(Option::is_some).collect()))
    }

    fn row(&self, offset: u64) -> Option<usize> {
        row(&self.index.tables, &self.objects, offset)
    }

    fn dataset_row(&self, offset: u64) -> Option<usize> {
        let is_dataset = |row: &usize| self.index.tables.bytes(Column::Kind)[*row] == DATASET;
        self.row(offset).filter(is_dataset)
    }

    fn links_of(&self, offset: u64) -> Option<Range<usize>> {
        links(&self.index.tables, self.row(offset)?)
    }

    fn number(&self, column: Column, row: usize) -> u32 {
        self.index.tables.words(column)[row]
    }

    fn storage(&self, number: u32) -> Result<Dataset> {
        self.index
            .value(number.into(), "a kind of storage", storage)
    }

    fn dataset_of(&self, row: usize) -> Result<(Dataset, Option<u64>)> {
        let tables = &self.index.tables;
        let numbers = [Column::Space, Column::Storage].map(|column| self.number(column, row));
        if numbers.contains(&NO_VALUE) {
            return damaged("a dataset has no shape or type");
        }
        let mut dataset = self.storage(numbers[1])?;
        dataset.dataspace = self.index.value(numbers[0].into(), "a shape", space)?;
        let [first, second] = [Column::First, Column::Second].map(|of| tables.longs(of)[row]);
        let mut byte_offset = None;
        match &mut dataset.layout {
            Layout::Compact { elements, .. } => *elements = self.index.parts().elements(&[row])?,
            Layout::Contiguous { .. } => byte_offset = (first != NO_NUMBER).then_some(first),
            Layout::Virtual { heap, index } => {
                *heap = first;
                *index = u32::try_from(second)
                    .map_err(|_| Failure::from("a heap has no such object"))?;
            }
            Layout::Chunked(of) if of.chunk_dims.len() != dataset.dataspace.dims.len() => {
                return damaged("the dims of a dataset and of its chunks differ in number");
            }
            Layout::Chunked(_) => {}
        }
        Ok((dataset, byte_offset))
    }

    fn link_of(&self, link: usize) -> Result<Link> {
        let tables = &self.index.tables;
        let order = tables.longs(Column::LinkOrder)[link];
        Ok(Link {
            name: name(tables, link).to_vec(),
            target: self.target(link)?,
            creation_order: (order != NO_NUMBER).then_some(order),
        })
    }

    fn target(&self, link: usize) -> Result<Target> {
        let tables = &self.index.tables;
        let kind = tables.bytes(Column::LinkKind)[link];
        let to = tables.longs(Column::LinkTarget)[link];
        match kind {
            HARD => return Ok(Target::Hard(to)),
            USER_DEFINED => match u8::try_from(to) {
                Ok(kind) => return Ok(Target::UserDefined(kind)),
                Err(_) => return damaged(format!("link {link} is of no type")),
            },
            _ => {}
        }
        let parts = |json: &mut Json<'_>| json.list(Json::bytes);
        let mut parts = self
            .index
            .value(to, "the target of a link", parts)?
            .into_iter();
        match (kind, parts.next(), parts.next(), parts.next()) {
            (SOFT, Some(path), None, None) => Ok(Target::Soft(path)),
            (kind, Some(file), Some(path), None) if kind != SOFT => {
                Ok(Target::External { file, path })
            }
            _ => damaged(format!("the target of link {link} has other parts")),
        }
    }
}
