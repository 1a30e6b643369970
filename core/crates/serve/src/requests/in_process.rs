//! Requests that are answered in the process that makes them: by its threads, and by who waits.
//!
//! Law:
//! 1. Tasks, queue and engine are those of reader processes (server.rs).
//! 2. An answering thread holds the stage and the table, so an end of the requests waits for no thread.
//! 3. What a library reads is put back. When it is handed over, only processes answer; a thread leaves
//!    when it has done what it has claimed.
//! 4. A forked child answers nothing.

use crate::requests::dispatcher::Dispatcher;
use crate::requests::handle::RequestHandle;
use crate::requests::server::{KIND_LIBRARY, NAP, Server};
use crate::requests::work_queue::{DONE, HERE, Next};
use engine::counters::{Mark, STATE_FINISHED, add_ns};
use engine::scatter::out::Out;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

/// Answer as reader `me`, until the requests end or are handed over.
pub fn serve(dispatcher: &Dispatcher, me: usize) {
    let (queue, here) = (&dispatcher.work_queue, &dispatcher.here);
    if !dispatcher.is_mine() || me >= queue.n_readers() {
        return;
    }
    let record = queue.record(me);
    record.begin();
    let mut server = Server {
        answerer: here.answerer(dispatcher.arena.map()),
        work_queue: queue,
        arena: dispatcher.arena.map(),
        me,
        record,
    };
    while here.is_open() {
        let mut next = queue.next(me);
        if next == Next::Nothing {
            let start = Instant::now();
            next = queue.wait_for_task(me, NAP);
            add_ns(&record.wait_ns, start);
        }
        match next {
            Next::Task(slot) if is_librarys(dispatcher, slot) => {
                dispatcher.put_back(slot, me);
                std::thread::yield_now();
            }
            Next::Task(slot) => answer(dispatcher, &mut server, slot, None),
            Next::Nothing => {}
            Next::Over => {
                record.state.store(STATE_FINISHED, SeqCst);
                return;
            }
        }
    }
}

/// Let this process answer, or only others from now on.
pub fn answer_here(dispatcher: &Dispatcher, is_here: bool) {
    dispatcher.here.open(is_here);
    dispatcher.work_queue.wake_readers();
}

fn is_librarys(dispatcher: &Dispatcher, slot: u32) -> bool {
    let at = dispatcher.work_queue.slot(slot).request_at.load(SeqCst);
    at != u64::MAX && dispatcher.arena.map().words(at as usize, 8)[0] == KIND_LIBRARY
}

/// Do a claimed task, into its stage or into `to`.
fn answer(dispatcher: &Dispatcher, server: &mut Server<'_>, slot: u32, to: Option<Out<'_>>) {
    let held = dispatcher.handle_of(slot).and_then(|handle| handle.held());
    let mut none = |_: &[u8], _: &mut [u8], _: Mark<'_>| Err(String::new());
    let code = held.map_or(DONE, |held| {
        let code = server.run(slot, to, &mut none);
        drop(held);
        code
    });
    server.tell(slot, code);
}

/// Do the tasks of a request that no thread has begun, while the caller waits for its answer.
pub fn help(dispatcher: &Dispatcher, handle: &RequestHandle) {
    if is_here(dispatcher) {
        let slots = handle.unanswered();
        let claimed = |&slot: &u32| dispatcher.work_queue.claim_here(slot);
        do_all(dispatcher, slots.into_iter().filter(claimed), None);
    }
}

fn is_here(dispatcher: &Dispatcher) -> bool {
    dispatcher.is_mine() && dispatcher.here.is_open()
}

fn do_all(
    dispatcher: &Dispatcher,
    claimed: impl IntoIterator<Item = u32>,
    mut to: Option<Out<'_>>,
) {
    let arena = dispatcher.arena.map();
    let mut spare = dispatcher.here.take(arena);
    let mut server = Server {
        answerer: spare.answerer,
        work_queue: &dispatcher.work_queue,
        arena,
        me: HERE,
        record: &spare.record,
    };
    for slot in claimed {
        // What is put back would be a library's, of which none is sent here (law 3).
        answer(dispatcher, &mut server, slot, to.as_mut().map(Out::lend));
    }
    spare.answerer = server.answerer;
    dispatcher.here.give(spare);
}

/// All tasks of a request, which its taker does.
pub struct Claimed<'a> {
    dispatcher: &'a Dispatcher,
    slots: Vec<u32>,
}

/// Claim a request that no thread has begun. None: it is begun, or several do it faster.
pub fn claim<'a>(dispatcher: &'a Dispatcher, handle: &RequestHandle) -> Option<Claimed<'a>> {
    let mut slots = is_here(dispatcher).then(|| handle.simple_tasks())??;
    let n_tasks = slots.len();
    slots.retain(|&slot| dispatcher.work_queue.claim_here(slot));
    let is_whole = slots.len() == n_tasks;
    let claimed = Claimed { dispatcher, slots };
    if is_whole {
        return Some(claimed);
    }
    claimed.read(None);
    None
}

impl Claimed<'_> {
    /// Do all, into the stage or into `to`.
    pub fn read(self, to: Option<Out<'_>>) {
        do_all(self.dispatcher, self.slots, to);
    }
}
