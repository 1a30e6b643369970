//! How many tasks a reader holds at a time.
//!
//! Law:
//! 1. While fetches take long, several are on their way; no reader holds more than its part of the ring.
//! 2. Pure.

use tables::plan::Plan;

/// Bytes and tasks that a reader keeps in flight while fetches take long.
const FLIGHT_BYTES: u64 = 8 << 20;
const FLIGHT_TASKS: u64 = 16;
/// A store takes long to answer, and answers many at a time.
const REMOTE_FLIGHT_TASKS: u64 = 128;
/// Bytes that all readers together keep in flight on a rotating disk: some 0.1 s of its time.
/// What waits for longer, the kernel serves in order of arrival, however far the head has to go.
const ROTATING_FLIGHT_BYTES: u64 = 16 << 20;
/// Tasks that a reader may hold at a time while fetches take long: its share of the ring.
pub fn window(plan: &Plan) -> usize {
    let tasks = plan.lap_tasks();
    if tasks == 0 {
        return 1;
    }
    let rows = (plan.lap_rows() / tasks).max(1);
    let share = plan.capacity_rows() / rows / plan.n_readers() as u64;
    let task_bytes = rows * plan.tapes[0].row_bytes.max(1) as u64;
    let rotates = plan.table.sources.iter().any(|source| source.turnstile);
    let (bytes, most) = match plan.table.access() {
        Some(access) => (access.memory_bytes, REMOTE_FLIGHT_TASKS),
        None if rotates => {
            let share = ROTATING_FLIGHT_BYTES / plan.n_readers() as u64;
            (FLIGHT_BYTES.min(share), FLIGHT_TASKS)
        }
        None => (FLIGHT_BYTES, FLIGHT_TASKS),
    };
    // Two even of the largest, so that one is on its way while the other is decoded.
    let wanted = (bytes / task_bytes.max(1)).clamp(2, most);
    share.clamp(1, wanted) as usize
}
