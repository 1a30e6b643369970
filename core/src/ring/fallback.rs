//! Tasks that an HDF5 library reads, since the core cannot.
//!
//! Law:
//! 1. The library is given memory to fill: the task's rows of the tape, or a buffer whose rows are
//!    brought to their places.
//! 2. That memory is zeros before: HDF5 leaves out what was never stored of a dataset without a fill
//!    value, and what stood there before is no row of this stream.
//! 3. A file that changed meanwhile is told as that, whatever the library made of it.

use crate::engine::open_dataset::{add_ns, grow};
use crate::engine::share_work::ShareWork;
use crate::engine::shuffle_task::ShuffleTask;
use crate::fetch::data_file::DataFile;
use crate::ring::reader_loop::{Claimed, LibraryRead, Reader};
use crate::ring::tape::tape_rows;
use crate::tables::plan::Member;
use crate::task_error::TaskError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

impl Reader<'_> {
    /// Rows of a share, span by span.
    pub(super) fn share_by_library(
        &mut self,
        claimed: Claimed,
        share: &ShuffleTask,
        library: &mut LibraryRead<'_>,
    ) -> Result<(), TaskError> {
        let task = &claimed.task;
        let member: &Member = &self.plan.members[task.member as usize];
        let start = Instant::now();
        let number = member.chunks_at;
        let file = DataFile::open(&member.filename, member.fingerprint, false)
            .map_err(|error| TaskError::Fetch(number, error))?;
        let record = self.control.record(self.me);
        // SAFETY: this reader owns the task.
        let mut work = unsafe {
            ShareWork::new(
                member,
                record,
                share,
                &mut self.kept,
                &self.tapes[task.member as usize],
                claimed.rows(),
            )
        };
        let careful = self.careful.contains(&claimed.global);
        let mut result = Ok(());
        let mut rows = Vec::new();
        for span in share.spans() {
            let len = ((span.end - span.begin) as usize).saturating_mul(member.row_bytes);
            grow(&mut rows, len, number)?;
            let out = &mut rows[..len];
            out.fill(0);
            result = record.call(careful, |chunk| {
                library(&member.library, span.begin, span.end, out, chunk)
            });
            if result.is_err() {
                break;
            }
            work.copy(span.begin, span.seats, &rows[..len]);
            record.decoded_bytes.fetch_add(len as u64, Relaxed);
        }
        // A file that changed explains any error.
        file.check_unchanged()
            .map_err(|error| TaskError::Fetch(number, error))?;
        result.map_err(TaskError::Library)?;
        record.library_tasks.fetch_add(1, Relaxed);
        add_ns(&record.decode_ns, start);
        Ok(())
    }

    /// All rows of a task at once.
    pub(super) fn read_by_library(
        &self,
        claimed: &Claimed,
        library: &mut LibraryRead<'_>,
    ) -> Result<(), TaskError> {
        let (task, lap_row) = (&claimed.task, claimed.lap_row);
        let member: &Member = &self.plan.members[task.member as usize];
        let start = Instant::now();
        let number = self.plan.records(task).start as u64;
        let file = DataFile::open(&member.filename, member.fingerprint, false)
            .map_err(|error| TaskError::Fetch(number, error))?;
        let rows = task.row_end - task.row_begin;
        let tape = &self.tapes[task.member as usize];
        // SAFETY: this reader owns the task, so these rows of the tape are its alone.
        let out = unsafe { tape_rows(tape, member, lap_row + task.row_begin, rows) };
        let first = self.plan.first_row();
        let (begin, end) = (first + task.row_begin, first + task.row_end);
        out.fill(0);
        let (record, careful) = (self.record(), self.careful.contains(&claimed.global));
        let result = record.call(careful, |chunk| {
            library(&member.library, begin, end, out, chunk)
        });
        // A file that changed explains any error.
        file.check_unchanged()
            .map_err(|error| TaskError::Fetch(number, error))?;
        result.map_err(TaskError::Library)?;
        record.library_tasks.fetch_add(1, Relaxed);
        record.decoded_bytes.fetch_add(out.len() as u64, Relaxed);
        add_ns(&record.decode_ns, start);
        Ok(())
    }
}
