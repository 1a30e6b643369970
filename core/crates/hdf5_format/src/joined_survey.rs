//! Surveys of several files as one, and what is said of their objects by number.
//!
//! Law:
//! 1. Pure. What objects have lies in their order: dims, chunks and compact elements, too.
//! 2. A kind is there because an object is of it; they are numbered as the objects follow.
//! 3. Scales are objects if they were surveyed: the first object of the file at their offset.

use super::chunk::Chunk;
use super::survey::{ALONE, Kind, Storage, Survey};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Objects of a survey, and the numbers of their files and of themselves in a whole.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    pub survey: &'a Survey,
    pub files: &'a [u32],
    pub numbers: &'a [usize],
}

/// Of one object: where its dims and chunks begin.
#[derive(Clone, Copy, Debug, Default)]
pub struct Begin {
    pub dims: usize,
    pub chunks: usize,
}

impl Survey {
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    /// Where the dims and chunks of each object begin, and where those of the last one end.
    pub fn begins(&self) -> Vec<Begin> {
        let mut at = Begin::default();
        let mut begins = vec![at];
        for (&rank, &n_chunks) in self.ranks.iter().zip(&self.n_chunks) {
            at.dims += rank as usize;
            at.chunks += n_chunks as usize;
            begins.push(at);
        }
        begins
    }

    /// The kind of an object; none: it is alone, or no dataset.
    pub fn kind_of(&self, object: usize) -> Option<&Kind> {
        self.kinds.get(self.kind[object] as usize)
    }

    /// Objects of which nothing is known but whether they are datasets.
    pub fn alone(offsets: Vec<u64>, kind: Vec<u32>) -> Survey {
        let count = offsets.len();
        Survey {
            file: vec![0; count],
            offset: offsets,
            ranks: vec![0; kind.len()],
            n_chunks: vec![0; kind.len()],
            kind,
            ..Survey::default()
        }
    }

    /// The same, where datasets of some kinds are alone.
    pub fn without(&self, kinds: &[u32]) -> Survey {
        let mut left = self.clone();
        (left.kinds, left.numbers) = (Vec::new(), HashMap::new());
        for (object, kind) in self.kind.iter().enumerate() {
            let known = self.kind_of(object);
            left.kind[object] = match known {
                Some(_) if kinds.contains(kind) => ALONE,
                Some(known) => left.number(known.clone()),
                None => *kind,
            };
        }
        left
    }

    /// Add one object of another survey, which says nothing of scales and attributes.
    fn add_from(
        &mut self,
        of: &Survey,
        object: usize,
        begins: [Begin; 2],
        file: u32,
        known: &mut [Option<u32>],
    ) {
        let (dims, chunks) = (
            begins[0].dims..begins[1].dims,
            begins[0].chunks..begins[1].chunks,
        );
        let kind = match of.kind_of(object) {
            Some(kind) => {
                *known[of.kind[object] as usize].get_or_insert_with(|| self.number(kind.clone()))
            }
            None => of.kind[object],
        };
        self.file.push(file);
        self.offset.push(of.offset[object]);
        self.kind.push(kind);
        self.ranks.push(of.ranks[object]);
        self.n_chunks.push(of.n_chunks[object]);
        self.dims.extend(&of.dims[dims.clone()]);
        self.chunk_dims.extend(&of.chunk_dims[dims]);
        let is_compact = of
            .kind_of(object)
            .is_some_and(|kind| kind.storage == Storage::Compact);
        for chunk in &of.chunks[chunks] {
            let mut chunk = *chunk;
            if is_compact {
                let elements = of.elements(&chunk);
                chunk.byte_offset = self.inline.len() as u64;
                self.inline.extend(elements);
            }
            self.chunks.push(chunk);
        }
    }

    /// The elements of a compact dataset's chunk.
    pub fn elements(&self, chunk: &Chunk) -> &[u8] {
        let begin = chunk.byte_offset as usize;
        let end = begin.saturating_add(chunk.stored_size as usize);
        self.inline.get(begin..end).unwrap_or_default()
    }

    /// Add the objects of another survey, of one file with this number, without scales and attributes.
    pub fn append(&mut self, more: &Survey, file: u32) {
        let (begins, mut known) = (more.begins(), vec![None; more.kinds.len()]);
        for object in 0..more.len() {
            let at = [begins[object], begins[object + 1]];
            self.add_from(more, object, at, file, &mut known);
        }
    }

    /// One survey of the objects of several. None: their numbers are not those of one.
    pub fn joined(parts: &[Part<'_>]) -> Option<Survey> {
        let mut order = vec![None; parts.iter().map(|part| part.survey.len()).sum()];
        for (which, part) in parts.iter().enumerate() {
            if part.numbers.len() != part.survey.len() {
                return None;
            }
            for (object, &number) in part.numbers.iter().enumerate() {
                *order.get_mut(number)? = Some((which, object));
            }
        }
        let begins: Vec<Vec<Begin>> = parts.iter().map(|part| part.survey.begins()).collect();
        let mut known: Vec<Vec<Option<u32>>> = (parts.iter())
            .map(|part| vec![None; part.survey.kinds.len()])
            .collect();
        let mut whole = Survey::default();
        for place in order {
            let (which, object) = place?;
            let (of, begins) = (parts[which].survey, &begins[which]);
            let file = *parts[which].files.get(of.file[object] as usize)?;
            let at = [begins[object], begins[object + 1]];
            whole.add_from(of, object, at, file, &mut known[which]);
        }
        for part in parts {
            for scale in &part.survey.scales {
                let mut scale = *scale;
                scale.object = *part.numbers.get(scale.object as usize)? as u64;
                whole.scales.push(scale);
            }
            for attribute in &part.survey.attributes {
                let mut attribute = attribute.clone();
                attribute.0 = *part.numbers.get(attribute.0 as usize)? as u64;
                whole.attributes.push(attribute);
            }
        }
        whole.scales.sort_by_key(|scale| scale.object);
        Some(whole)
    }

    /// The files and offsets of scales that are not among the objects, in order.
    pub fn new_scales(&self) -> BTreeSet<(u32, u64)> {
        let known: HashSet<(u32, u64)> = self
            .file
            .iter()
            .copied()
            .zip(self.offset.iter().copied())
            .collect();
        let scales = self
            .scales
            .iter()
            .map(|scale| (self.file[scale.object as usize], scale.offset));
        scales.filter(|scale| !known.contains(scale)).collect()
    }

    /// Object, axis and scale of each scale that is an object, by object.
    pub fn numbered_scales(&self) -> Vec<[i64; 3]> {
        let mut numbers = HashMap::new();
        let places = self.file.iter().zip(&self.offset).enumerate();
        places.for_each(|(number, (&file, &offset))| {
            numbers.entry((file, offset)).or_insert(number as i64);
        });
        let scales = self.scales.iter().filter_map(|scale| {
            let of = scale.object;
            let number = numbers.get(&(self.file[of as usize], scale.offset))?;
            Some([of as i64, scale.axis as i64, *number])
        });
        let mut scales: Vec<[i64; 3]> = scales.collect();
        scales.sort_by_key(|scale| scale[0]);
        scales
    }

    /// Whether all objects are datasets stored alike, one kind, with rows of one shape, and not compact.
    pub fn is_alike(&self) -> bool {
        let [kind] = &self.kinds[..] else {
            return false;
        };
        let Some(&rank) = self.ranks.first().filter(|&&rank| rank > 0) else {
            return false;
        };
        let rank = rank as usize;
        let one_of_each = self.kind.iter().all(|&kind| kind == 0)
            && self.ranks.iter().all(|&of| of as usize == rank);
        let same = |dims: &[u64], from: usize| {
            let mut rows = dims.chunks_exact(rank);
            rows.all(|row| row[from..] == dims[from..rank])
        };
        kind.storage != Storage::Compact
            && one_of_each
            && same(&self.dims, 1)
            && same(&self.chunk_dims, 0)
    }

    /// Whether the chunks of each dataset are sorted, and in its grid. Datasets have rows of dims `inner`,
    /// and chunks of `extents`.
    pub fn are_in_grids(&self, inner: &[u64], extents: &[u64]) -> bool {
        let [extent, others @ ..] = extents else {
            return false;
        };
        let count = |(dim, extent): (&u64, &u64)| dim.div_ceil((*extent).max(1));
        let beside = inner.iter().zip(others).map(count);
        let beside = beside.fold(1, u64::saturating_mul);
        self.begins().windows(2).all(|at| {
            let rows = self.dims[at[0].dims..at[1].dims].first().unwrap_or(&1);
            let n_chunks = count((rows, extent)).saturating_mul(beside);
            let chunks = &self.chunks[at[0].chunks..at[1].chunks];
            (chunks.windows(2)).all(|pair| pair[0].grid_index < pair[1].grid_index)
                && (chunks.last()).is_none_or(|last| last.grid_index < n_chunks)
        })
    }
}
