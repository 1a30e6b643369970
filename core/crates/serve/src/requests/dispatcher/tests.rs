//! Requests, answers, deaths and ends, with threads for readers.

use super::*;
use crate::requests::work_queue::{DONE, MORE, Next};

const READERS: usize = 3;

fn dispatch(n_slots: usize) -> Arc<Dispatcher> {
    let arena = Arena::new(64 << 20).unwrap();
    Dispatcher::new(arena, READERS, n_slots, 0, None).unwrap()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// Send `words` to the readers `owners`, each of which shall fill its third of the result.
fn send(
    dispatch: &Arc<Dispatcher>,
    pool: &Arc<StagePool>,
    words: &[u64],
    owners: &[usize],
) -> Option<Arc<RequestHandle>> {
    let slots = dispatch.slots(owners.len(), Some(soon()))?;
    let lease = dispatch.stage(pool, 24, Some(soon())).unwrap();
    let request = Request::Parts(words, owners);
    Some(
        dispatch
            .send(&request, slots, None, Arc::new(lease), 24)
            .unwrap(),
    )
}

/// What a reader does: the first word of the request, once for its part.
fn answer(dispatch: &Dispatcher, slot: u32) {
    let place = dispatch.work_queue.slot(slot);
    let word = match place.request_at.load(SeqCst) {
        u64::MAX => place.inline[0].load(SeqCst),
        // SAFETY: the request lies there until it is answered.
        at => unsafe { *dispatch.arena.map().base().add(at as usize).cast::<u64>() },
    };
    let at = place.out_at.load(SeqCst) as usize + 8 * place.part.load(SeqCst) as usize;
    // SAFETY: inside the stage; the part's own bytes.
    unsafe { *dispatch.arena.map().base().add(at).cast::<u64>() = word };
}

fn result(handle: &RequestHandle) -> [u64; 3] {
    let lease = handle.lease().unwrap();
    // SAFETY: a stage of 24 bytes, all answered.
    unsafe { *lease.base().cast::<[u64; 3]>() }
}

/// Readers as threads; every so often one dies with its task in hand.
fn readers(dispatch: &Arc<Dispatcher>, dying: bool) -> Vec<std::thread::JoinHandle<u64>> {
    let reader = |me: usize| {
        let dispatch = dispatch.clone();
        std::thread::spawn(move || {
            let mut served = 0u64;
            loop {
                match dispatch
                    .work_queue
                    .wait_for_task(me, Duration::from_millis(100))
                {
                    Next::Over => return served,
                    Next::Nothing => {}
                    Next::Task(slot) => {
                        served += 1;
                        let first = dispatch.work_queue.slot(slot).deaths.load(SeqCst) == 0;
                        if dying && first && served % 7 == 3 {
                            assert!(dispatch.recover(me, 9).is_empty());
                            continue;
                        }
                        answer(&dispatch, slot);
                        dispatch.work_queue.answer(slot, me, DONE);
                    }
                }
            }
        })
    };
    (0..READERS).map(reader).collect()
}

fn many_requests(dying: bool) {
    let dispatch = dispatch(64);
    let threads = readers(&dispatch, dying);
    let asker = |seed: u64| {
        let dispatch = dispatch.clone();
        std::thread::spawn(move || {
            let pool = StagePool::growing(&dispatch.arena, 16 << 20);
            let mut handles = std::collections::VecDeque::new();
            for number in 0..3000u64 {
                let word = seed << 32 | number;
                // Some requests are too long for a slot, some go to all readers.
                let words = vec![word; if number % 5 == 0 { 100 } else { 9 }];
                let one = [number as usize % READERS];
                let owners = if number % 3 == 0 {
                    &[0, 1, 2][..]
                } else {
                    &one[..]
                };
                let handle = send(&dispatch, &pool, &words, owners).unwrap();
                if number % 11 == 0 {
                    handle.release(); // dropped on its way
                    continue;
                }
                handles.push_back((handle, word, owners.to_vec()));
                if handles.len() > 20 {
                    let (handle, word, owners) = handles.pop_front().unwrap();
                    assert_eq!(handle.wait(soon()), Some(Outcome::Done));
                    let result = result(&handle);
                    assert!(owners.iter().all(|&owner| result[owner] == word));
                    handle.release();
                }
            }
            handles.iter().for_each(|(handle, ..)| handle.release());
        })
    };
    let askers: Vec<_> = (1..=2).map(asker).collect();
    askers.into_iter().for_each(|asker| asker.join().unwrap());
    dispatch.close();
    let served: Vec<u64> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    assert!(served.iter().sum::<u64>() >= 2 * 3000);
    assert_eq!(dispatch.pending(), 0);
    assert_eq!(lock(&dispatch.state).free.len(), 64);
}

#[test]
fn every_request_is_answered_with_its_own() {
    many_requests(false);
}

#[test]
fn deaths_lose_nothing() {
    many_requests(true);
}

#[test]
fn a_task_that_kills_twice_fails_alone() {
    let dispatch = dispatch(4);
    let pool = StagePool::growing(&dispatch.arena, 1 << 20);
    let bad = send(&dispatch, &pool, &[1; 9], &[0]).unwrap();
    let good = send(&dispatch, &pool, &[2; 9], &[0]).unwrap();
    let Next::Task(slot) = dispatch.work_queue.next(0) else {
        panic!("no task");
    };
    dispatch.work_queue.record(0).chunk.store(18, SeqCst);
    assert!(dispatch.recover(0, -9).is_empty());
    assert_eq!(bad.poll(), None);
    let Next::Task(next) = dispatch.work_queue.next(0) else {
        panic!("no task");
    };
    dispatch.work_queue.answer(next, 0, DONE);
    assert_eq!(good.poll(), Some(Outcome::Done));
    assert_eq!(dispatch.work_queue.next(0), Next::Task(slot));
    dispatch.work_queue.record(0).chunk.store(18, SeqCst);
    assert_eq!(dispatch.recover(0, -9), [slot]);
    let Some(Outcome::Failed(failure)) = bad.poll() else {
        panic!("not failed");
    };
    assert_eq!(
        (failure.0, failure.2 as i32, failure.4, failure.6),
        (12, -9, 17, 2)
    );
}

#[test]
fn stopping_ends_flights_and_gives_their_memory_back() {
    let dispatch = dispatch(4);
    let pool = StagePool::growing(&dispatch.arena, 1 << 20);
    let held = send(&dispatch, &pool, &[1; 9], &[0]).unwrap();
    let dropped = send(&dispatch, &pool, &[1; 100], &[1]).unwrap();
    dropped.release();
    drop(dropped);
    let waiting = held.clone();
    let thread = std::thread::spawn(move || waiting.wait(soon()));
    dispatch.stop(false);
    assert_eq!(thread.join().unwrap(), Some(Outcome::Closed));
    assert_eq!(pool.lent().0, 0);
    assert!(dispatch.slots(1, None).is_none());
    drop(held);
    pool.close();
    assert_eq!(dispatch.arena.used_bytes(), 0);
}

#[test]
fn only_what_nobody_began_is_cancelled() {
    let dispatch = dispatch(4);
    let pool = StagePool::growing(&dispatch.arena, 1 << 20);
    let one = send(&dispatch, &pool, &[1; 9], &[0]).unwrap();
    let other = send(&dispatch, &pool, &[1; 9], &[0]).unwrap();
    let Next::Task(slot) = dispatch.work_queue.next(0) else {
        panic!("no task");
    };
    assert!(!one.cancel() && other.cancel());
    assert_eq!(other.poll(), Some(Outcome::Cancelled));
    assert_eq!(dispatch.work_queue.next(0), Next::Nothing);
    dispatch
        .work_queue
        .slot(slot)
        .result_bytes
        .store(99, SeqCst);
    dispatch.work_queue.answer(slot, 0, MORE);
    assert_eq!(one.poll(), Some(Outcome::More(99)));
}

#[test]
fn others_help_a_reader_that_is_behind() {
    let dispatch = dispatch(4);
    let pool = StagePool::growing(&dispatch.arena, 1 << 20);
    let _one = send(&dispatch, &pool, &[1; 9], &[0]).unwrap();
    assert_eq!(dispatch.work_queue.next(1), Next::Nothing);
    dispatch.work_queue.slow(0, true);
    assert!(matches!(dispatch.work_queue.next(1), Next::Task(_)));
    dispatch.work_queue.slow(0, false);
    let _two = send(&dispatch, &pool, &[1; 9], &[0]).unwrap();
    let _three = send(&dispatch, &pool, &[1; 9], &[0]).unwrap();
    assert!(matches!(dispatch.work_queue.next(1), Next::Task(_)));
    assert_eq!(dispatch.work_queue.next(1), Next::Nothing);
}
