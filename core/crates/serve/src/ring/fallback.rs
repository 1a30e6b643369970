//! Tasks that an HDF5 library reads, since the core cannot.
//!
//! Law:
//! 1. The library is given memory to fill: the task's rows of the tape, or a buffer whose rows are
//!    brought to their places.
//! 2. That memory is zeros before: HDF5 leaves out what was never stored of a dataset without a fill
//!    value, and what stood there before is no row of this stream.
//! 3. Where numbers are cast, the library fills other memory, and the cast is made from it.
//! 4. A file that changed meanwhile is reported as changed, even if the library failed in another way.

use crate::ring::claimed::Claimed;
use crate::ring::reader_loop::{LibraryRead, Reader};
use engine::chunk_read::room;
use engine::counters::{add_ns, count};
use engine::fetch::data_file::DataFile;
use engine::place_shuffled::PlaceShuffled;
use engine::scatter::interleave::Interleaver;
use engine::shuffle_task::ShuffleTask;
use engine::task_error::TaskError;
use std::time::Instant;
use tables::dataset::Dataset;

impl Reader<'_> {
    /// Rows of a share, span by span.
    pub(super) fn share_by_library(
        &mut self,
        claimed: Claimed,
        share: &ShuffleTask,
        library: &mut LibraryRead<'_>,
    ) -> Result<(), TaskError> {
        let plan = self.plan;
        let dataset = plan.dataset(&claimed.task);
        let start = Instant::now();
        let number = dataset.chunks_at;
        let source = plan.table.source(dataset);
        let file = DataFile::of_library(source, &self.shared.files)
            .map_err(|error| TaskError::Fetch(number, error))?;
        let record = self.control.record(self.me);
        let mut place = PlaceShuffled {
            dataset,
            share,
            // SAFETY: this reader owns the task; only places of the share's rows are written.
            window: unsafe { self.rows(&claimed) },
            caches: false,
            cache: &mut self.cache,
            interleaver: &mut Interleaver::default(),
            offset: Vec::new(),
        };
        let careful = self.careful.contains(&claimed.global);
        let mut result = Ok(());
        let mut rows = Vec::new();
        for span in share.spans() {
            let len = ((span.end - span.begin) as usize).saturating_mul(dataset.row_bytes);
            let out = room(&mut rows, len, number)?;
            result = record.call(careful, |chunk| {
                let (begin, end) = (span.begin, span.end);
                let read = |out: &mut [u8]| library(&dataset.library, begin, end, out, chunk);
                delivered(dataset, number, out, read)
            });
            if result.is_err() {
                break;
            }
            place.copy(span.begin, span.wanted, out);
            count(&record.decoded_bytes, len);
        }
        // A file that changed explains any error.
        file.map_or(Ok(()), |file| file.check_unchanged())
            .map_err(|error| TaskError::Fetch(number, error))?;
        result?;
        count(&record.library_tasks, 1);
        add_ns(&record.decode_ns, start);
        Ok(())
    }

    /// All rows of a task at once.
    pub(super) fn read_by_library(
        &self,
        claimed: &Claimed,
        library: &mut LibraryRead<'_>,
    ) -> Result<(), TaskError> {
        let (plan, task) = (self.plan, &claimed.task);
        let dataset = plan.dataset(task);
        let start = Instant::now();
        let number = plan.records(task).start as u64;
        let source = plan.table.source(dataset);
        let file = DataFile::of_library(source, &self.shared.files)
            .map_err(|error| TaskError::Fetch(number, error))?;
        // SAFETY: this reader owns the task, so these rows of the tape are its alone.
        let mut out = unsafe { self.rows(claimed) };
        let all = 0..out.len();
        let out = out.part(all);
        let first = plan.first_row(plan.tape(task));
        let (begin, end) = (first + task.row_begin, first + task.row_end);
        let (record, careful) = (self.record(), self.careful.contains(&claimed.global));
        let result = record.call(careful, |chunk| {
            let read = |out: &mut [u8]| library(&dataset.library, begin, end, out, chunk);
            delivered(dataset, number, out, read)
        });
        // A file that changed explains any error.
        file.map_or(Ok(()), |file| file.check_unchanged())
            .map_err(|error| TaskError::Fetch(number, error))?;
        result?;
        count(&record.library_tasks, 1);
        count(&record.decoded_bytes, out.len());
        add_ns(&record.decode_ns, start);
        Ok(())
    }
}

/// Let a library fill rows, or the memory that they are cast from.
fn delivered(
    dataset: &Dataset,
    number: u64,
    out: &mut [u8],
    read: impl FnOnce(&mut [u8]) -> Result<(), String>,
) -> Result<(), TaskError> {
    let Some(conversion) = &dataset.conversion else {
        out.fill(0);
        return read(out).map_err(TaskError::Library);
    };
    let mut stored = vec![0; conversion.stored_size(out.len())];
    read(&mut stored).map_err(TaskError::Library)?;
    let done = conversion.convert(0, &stored, out); // its chunks have whole rows
    done.map_err(|error| TaskError::Filter(number, error))
}
