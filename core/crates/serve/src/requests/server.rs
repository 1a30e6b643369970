//! The reader's side of the work queue: claim a task, answer it, claim the next.
//!
//! Law:
//! 1. A task is idempotent: it writes only its own part of the result, so it may be run again.
//! 2. Whatever goes wrong is the slot's answer, and the next task is served: one request's failure
//!    is no other's.
//! 3. A task of a library goes to Python; everything else never does.

use crate::requests::answer::Answerer;
use crate::requests::work_queue::{DONE, FAILED, INLINE_WORDS, MAX_DIMS, MORE, Next, WorkQueue};
use engine::chunk_cache::processes::ProcessCache;
use engine::counters::{Mark, Record, STATE_FINISHED, add_ns};
use engine::fetch::queue::{Turn, Turnstile};
use engine::scatter::out::Out;
use engine::task_error::{TaskError, panicked};
use os::memory::{Mapping, SIZE_SEALS, sealed_len};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

/// The first word of a request that goes to a library.
pub const KIND_LIBRARY: u64 = 1;
/// How long a reader sleeps at most before it looks again.
pub(super) const NAP: Duration = Duration::from_millis(500);

/// Answers a request through a library: (request, where to) -> (bytes of the result, its shape), or
/// "module\0type\0text" of an exception. A result larger than `where to` is not written.
pub type LibraryRequest<'a> =
    dyn FnMut(&[u8], &mut [u8], Mark<'_>) -> Result<(u64, Vec<u64>), String> + 'a;

/// Serve a work queue until it is closed and empty, or stopped. `others`: memory for chunks that other
/// processes decode, too.
pub fn serve_requests(
    work_queue: BorrowedFd<'_>,
    arena: BorrowedFd<'_>,
    others: Option<OwnedFd>,
    me: usize,
    library: &mut LibraryRequest<'_>,
) -> io::Result<()> {
    let work_queue = WorkQueue::open(work_queue)?;
    if me >= work_queue.n_readers() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "no such reader on the work_queue",
        ));
    }
    let arena_bytes = sealed_len(arena, SIZE_SEALS)?;
    let arena = Arc::new(Mapping::new(arena, 0, arena_bytes, true)?);
    let record = work_queue.record(me);
    record.begin();
    let others = others.map(ProcessCache::open).transpose()?.map(Arc::new);
    let shared = Answerer::shared(work_queue.cache_bytes(), others);
    let mut server = Server {
        answerer: Answerer::with(arena.clone(), shared),
        work_queue: &work_queue,
        arena: &arena,
        me,
        record,
    };
    loop {
        let mut next = work_queue.next(me);
        if next == Next::Nothing {
            let start = Instant::now();
            next = work_queue.wait_for_task(me, NAP);
            add_ns(&record.wait_ns, start);
        }
        match next {
            Next::Task(slot) => {
                let code = server.run(slot, None, library);
                server.tell(slot, code);
            }
            Next::Nothing => {}
            Next::Over => break,
        }
    }
    record.state.store(STATE_FINISHED, SeqCst);
    Ok(())
}

/// Who serves one task after the other.
pub(super) struct Server<'a> {
    pub answerer: Answerer,
    pub work_queue: &'a WorkQueue,
    pub arena: &'a Arc<Mapping>,
    pub me: usize,
    pub record: &'a Record,
}

impl Server<'_> {
    /// Do a claimed task, into its stage or into `to`, which is as large; what to answer.
    pub fn run(&mut self, slot: u32, to: Option<Out<'_>>, library: &mut LibraryRequest<'_>) -> u32 {
        self.record.current.store(u64::from(slot) + 1, Relaxed);
        let run = std::panic::AssertUnwindSafe(|| self.answer(slot, to, library));
        let answer = std::panic::catch_unwind(run).unwrap_or_else(|panic| {
            // What it was doing is in no known state.
            self.answerer = self.answerer.anew();
            Err(panicked(&*panic))
        });
        let code = match answer {
            Ok(code) => code,
            Err(error) => {
                let place = self.work_queue.slot(slot);
                place.error.set(u64::from(slot), &error);
                FAILED
            }
        };
        self.record.left_library();
        self.record.current.store(0, Relaxed);
        code
    }

    /// Answer a task that was done.
    pub fn tell(&self, slot: u32, code: u32) {
        // Counted first, so that the statistics have what is answered.
        self.record.tasks.fetch_add(1, Relaxed);
        let number = self.work_queue.slot(slot).number.load(SeqCst);
        self.work_queue.pass_turn(number);
        self.work_queue.answer(slot, self.me, code);
    }

    fn answer(
        &mut self,
        slot: u32,
        to: Option<Out<'_>>,
        library: &mut LibraryRequest<'_>,
    ) -> Result<u32, TaskError> {
        let place = self.work_queue.slot(slot);
        let odd = || TaskError::Internal("a task lies outside the arena".into());
        let out_at = place.out_at.load(SeqCst) as usize;
        let out_bytes = place.out_bytes.load(SeqCst) as usize;
        self.check(out_at, out_bytes).ok_or_else(odd)?;
        // SAFETY: inside the mapping (just checked). The stage is lent to this request until all its
        // tasks are answered; other tasks of the same request write to other bytes of it.
        let stage = || unsafe { Out::new(self.arena.base().add(out_at), out_bytes) };
        let mut out = to.unwrap_or_else(stage);
        let (part, n_parts) = (
            u64::from(place.part.load(SeqCst)),
            u64::from(place.n_parts.load(SeqCst)),
        );
        let turn = Some(Turn {
            turnstile: self.work_queue,
            task: place.number.load(SeqCst),
        });
        let request_at = place.request_at.load(SeqCst);
        let request_bytes = place.request_bytes.load(SeqCst) as usize;
        if request_at == u64::MAX {
            let mut words = [0; INLINE_WORDS];
            for (word, from) in words.iter_mut().zip(&place.inline) {
                *word = from.load(SeqCst);
            }
            let words = words.get(..request_bytes / 8).ok_or_else(odd)?;
            self.answerer
                .answer(words, (part, n_parts), out, self.record, turn)?;
            return Ok(DONE);
        }
        let request_at = request_at as usize;
        self.check(request_at, request_bytes).ok_or_else(odd)?;
        if request_at % 8 != 0 || request_bytes < 8 {
            return Err(odd());
        }
        // A copy: what was checked must be what is read later, also if the arena changes meanwhile.
        let words = self.arena.words(request_at, request_bytes);
        if words[0] != KIND_LIBRARY {
            let words = &words[..request_bytes / 8];
            self.answerer
                .answer(words, (part, n_parts), out, self.record, turn)?;
            return Ok(DONE);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let bytes = &bytes[..request_bytes];
        self.work_queue.slow(self.me, true);
        let start = Instant::now();
        let careful = place.deaths.load(SeqCst) > 0;
        // One task reads all of it.
        let all = out.part(0..out_bytes);
        let result = (self.record).call(careful, |chunk| library(bytes, all, chunk));
        self.work_queue.slow(self.me, false);
        add_ns(&self.record.decode_ns, start);
        let (result_bytes, shape) = result.map_err(TaskError::Library)?;
        self.record.library_tasks.fetch_add(1, Relaxed);
        place.result_bytes.store(result_bytes, SeqCst);
        if result_bytes > out_bytes as u64 {
            return Ok(MORE);
        }
        if shape.len() > MAX_DIMS {
            return Err(TaskError::Internal(
                "a result has too many dimensions".into(),
            ));
        }
        for (to, dim) in place.dims.iter().zip(&shape) {
            to.store(*dim, SeqCst);
        }
        place.n_dims.store(shape.len() as u64, SeqCst);
        self.record.decoded_bytes.fetch_add(result_bytes, Relaxed);
        Ok(DONE)
    }

    /// Bytes `[at, at + len)` lie inside the arena.
    fn check(&self, at: usize, len: usize) -> Option<()> {
        (at.checked_add(len)? <= self.arena.len()).then_some(())
    }
}
