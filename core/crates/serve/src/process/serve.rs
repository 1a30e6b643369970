//! The reader process's side of the control socket.
//!
//! Law:
//! 1. The parent sends one message a stream: a reader's number, and the plan's and the ring's
//!    descriptors; with a mark on the number it is a trial (codec_limit.rs) without a ring, or a work
//!    queue, an arena, and memory for chunks if readers share them (requests/). The end of the socket ends the reader.
//! 2. When the parent dies, however it dies, this process ends by itself.
//! 3. No panic leaves this file: it becomes a failed task.

use crate::process::codec_limit::{TRIAL, run_part};
use crate::requests::server::{LibraryRequest, serve_requests};
use crate::requests::work_queue::WORK_QUEUE;
use crate::ring::maps::{RingMaps, map_control, map_ring};
use crate::ring::reader_loop::{End, LibraryRead, Reader};
use engine::counters::{Mark, STATE_FAILED, STATE_FINISHED, STATE_HANDED_OVER};
use engine::task_error::panicked;
use os::descriptors::{Received, close_with_program, receive_with_descriptors};
use os::parent;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use tables::plan::Plan;

/// What a reader does through HDF5 libraries.
pub struct Library<'a> {
    pub rows: &'a mut LibraryRead<'a>,
    pub request: &'a mut LibraryRequest<'a>,
}

/// Serve streams until the parent closes the socket.
pub fn serve(socket: OwnedFd, parent: i32, library: &mut Library<'_>) -> io::Result<()> {
    parent::end_with(parent, socket.as_raw_fd())?;
    close_with_program(socket.as_fd()); // what the library starts must not keep it
    while let Some((me, plan_fd, ring_fd, others)) = receive(&socket)? {
        if me & WORK_QUEUE != 0 {
            let me = (me & !WORK_QUEUE) as usize;
            let (work_queue, arena) = (plan_fd.as_fd(), ring_fd.as_fd());
            serve_requests(work_queue, arena, others, me, library.request)?;
            continue;
        }
        let plan = Plan::over(Plan::mapped(plan_fd.as_fd())?)
            .map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))?;
        let (me, is_trial) = ((me & !TRIAL) as usize, me & TRIAL != 0);
        if me >= plan.n_readers() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "no such reader in the plan",
            ));
        }
        if is_trial {
            let (_head, control) = map_control(&plan, ring_fd.as_fd(), plan.control_bytes())?;
            drop((plan_fd, ring_fd));
            run_part(&plan, control, me);
            continue;
        }
        let mut ring = map_ring(&plan, ring_fd.as_fd())?;
        ring.fd = ring.is_sparse.then_some(ring_fd);
        drop(plan_fd);
        stream(&plan, &ring, me, Some(library.rows));
    }
    Ok(())
}

/// Read a stream's share as reader `me`; without a library, as a thread of the user's process.
pub(super) fn stream(
    plan: &Plan,
    ring: &RingMaps,
    me: usize,
    library: Option<&mut LibraryRead<'_>>,
) {
    let record = ring.control.record(me);
    record.begin();
    let mut reader = Reader::new(plan, ring, me);
    reader.is_thread = library.is_none();
    let mut none = |_: &str, _, _, _: &mut [u8], _: Mark<'_>| Err(String::new());
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match library {
        Some(library) => reader.run(library),
        None => reader.run(&mut none),
    }));
    let end = ran.unwrap_or_else(|panic| {
        // What was in hand is lost. A record says so, for the parent to read.
        let current = record.current.load(Relaxed);
        let tasks = ring.control.inherited(me);
        let set_error = if current > 0 {
            Some(current - 1)
        } else {
            tasks.first().copied()
        };
        if let Some(task) = set_error {
            reader.fail(task, &panicked(&*panic));
        }
        End::Failed
    });
    record.left_library();
    let state = match end {
        End::Failed => STATE_FAILED,
        End::HandedOver => STATE_HANDED_OVER,
        End::Done | End::Stopped => STATE_FINISHED,
    };
    record.state.store(state, SeqCst);
    ring.control.tell_rest();
}

/// A message: this reader's number, the plan, the ring, and perhaps memory for chunks.
type Message = (u32, OwnedFd, OwnedFd, Option<OwnedFd>);

/// The next stream; `None` at the end of the socket.
fn receive(socket: &OwnedFd) -> io::Result<Option<Message>> {
    let mut number = [0u8; 4];
    let Received {
        len: got,
        descriptors: mut found,
        ..
    } = receive_with_descriptors(socket.as_fd(), &mut number, 0)?;
    if got == 0 {
        return Ok(None);
    }
    let others = (found.len() == 3).then(|| found.pop()).flatten();
    match (got, found.pop(), found.pop()) {
        (4, Some(ring), Some(plan)) => Ok(Some((u32::from_le_bytes(number), plan, ring, others))),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a message of another kind",
        )),
    }
}
