//! Objects of a store in memory: the right bytes, in few requests.
//!
//! Law:
//! 1. The client of all tests is one: the byte at `n` of any object is `byte(n)`. Names that begin with
//!    "bad" fail; names with "slow" take a while. Requests for "together" end when there are enough.

use super::client::{Client, set_client};
use super::metadata::RemoteMetadata;
use super::object::{Caches, Object};
use super::queue::{Origin, RemoteQueue};
use crate::fetch::error::FetchError;
use hdf5_format::source::ByteSource;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tables::access::Access;
use testing::fixtures::XorShift64;

const SIZE: u64 = 3 << 20;
const TOGETHER: usize = 24;

static ASKED: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

fn byte(at: u64) -> u8 {
    (at ^ (at >> 8).wrapping_mul(31) ^ (at >> 16).wrapping_mul(7)) as u8
}

fn bytes(begin: u64, len: usize) -> Vec<u8> {
    (begin..begin + len as u64).map(byte).collect()
}

struct InMemory;

impl Client for InMemory {
    fn read(
        &self,
        name: &[u8],
        _access: &[u8],
        begin: u64,
        out: &mut [u8],
    ) -> Result<(), FetchError> {
        if name.starts_with(b"bad") {
            return Err(FetchError::Store(String::from_utf8_lossy(name).into()));
        }
        if name.starts_with(b"slow") {
            std::thread::sleep(Duration::from_millis(20));
        }
        if name == b"together" {
            let (asked, all) = (&ASKED, Duration::from_secs(30));
            let mut count = asked.0.lock().unwrap();
            *count += 1;
            asked.1.notify_all();
            let too_few = |count: &mut usize| *count < TOGETHER;
            count = asked.1.wait_timeout_while(count, all, too_few).unwrap().0;
            assert!(*count >= TOGETHER);
        }
        out.copy_from_slice(&bytes(begin, out.len()));
        Ok(())
    }
}

fn object(name: &str) -> Arc<Object> {
    set_client(Box::new(InMemory));
    let access = Access::parse(b"1024 1048576 65536 4 0\n\n{}").unwrap();
    let object = Object::new(name.as_bytes(), access, SIZE, 1, &Caches::default());
    Arc::new(object)
}

#[test]
fn reads_finish_in_any_order() {
    let mut random = XorShift64(5);
    // All fit, some wait, each waits.
    for limit in [u64::MAX, 100_000, 1] {
        let mut queue = RemoteQueue::new(limit, 8);
        let origin = Origin::Object(object("slow"));
        let ranges: Vec<(u64, usize)> = (0..40)
            .map(|_| (random.below(SIZE - 9000), random.below(9000) as usize))
            .collect();
        let submit = |&(begin, len): &(u64, usize)| queue.submit(origin.clone(), begin, len);
        let mut asked: Vec<_> = ranges.iter().map(submit).zip(&ranges).collect();
        while !asked.is_empty() {
            let at = random.below(asked.len() as u64) as usize;
            let (ticket, (begin, len)) = asked.swap_remove(at);
            match at % 3 {
                0 => queue.discard(ticket),
                _ => {
                    let found = queue.finish(ticket).unwrap();
                    assert_eq!(found, bytes(*begin, *len));
                    queue.recycle(found);
                }
            }
        }
    }
}

#[test]
fn many_are_under_way_at_a_time() {
    let mut queue = RemoteQueue::new(u64::MAX, TOGETHER);
    let origin = Origin::Object(object("together"));
    let submit = |n| queue.submit(origin.clone(), n, 9);
    let tickets: Vec<u64> = (0..TOGETHER as u64).map(submit).collect();
    for ticket in tickets {
        queue.finish(ticket).unwrap();
    }
}

#[test]
fn a_failure_is_its_reads_alone() {
    let mut queue = RemoteQueue::new(10, 2);
    let (good, bad) = (
        Origin::Object(object("good")),
        Origin::Object(object("bad")),
    );
    let origins = [&good, &bad, &good, &bad, &good];
    let tickets = origins.map(|origin| queue.submit(origin.clone(), 100, 8));
    for (ticket, origin) in tickets.into_iter().zip(origins).rev() {
        match (queue.finish(ticket), origin) {
            (Ok(found), Origin::Object(_)) => assert_eq!(found, bytes(100, 8)),
            (Err(FetchError::Store(text)), _) => assert_eq!(text, "bad"),
            other => panic!("{other:?}"),
        }
    }
    assert!(queue.finish(99).is_err());
    let inline = Origin::Memory(Arc::from(&b"0123456789"[..]));
    let tickets = [(2, 3), (8, 3)].map(|(at, len)| queue.submit(inline.clone(), at, len));
    assert_eq!(queue.finish(tickets[0]).unwrap(), b"234");
    assert!(matches!(
        queue.finish(tickets[1]),
        Err(FetchError::Short { .. })
    ));
}

fn metadata(name: &str) -> (Arc<Object>, Arc<RemoteMetadata>) {
    let object = object(name);
    (object.clone(), Arc::new(RemoteMetadata::new(object)))
}

fn check(source: &Arc<RemoteMetadata>, begin: u64, len: usize) {
    let mut out = vec![0; len];
    source.read(begin, &mut out).unwrap();
    assert_eq!(out, bytes(begin, len), "{begin} {len}");
}

#[test]
fn metadata_are_right_wherever_they_are() {
    let mut random = XorShift64(11);
    for _ in 0..20 {
        let (object, source) = metadata("good");
        if random.below(2) == 0 {
            source.has_pages(1 << (10 + random.below(12)));
        }
        for _ in 0..100 {
            let (begin, len) = (random.below(SIZE), random.below(70_000));
            let len = len.min(SIZE - begin);
            if random.below(3) == 0 {
                let wanted = (0..random.below(30)).map(|n| (begin + n * random.below(9999), len));
                let wanted: Vec<(u64, u64)> = wanted.collect();
                source.prefetch(&mut wanted.into_iter());
            }
            let (is_here, before) = (source.has(begin, len), object.requests.load(Relaxed));
            check(&source, begin, len as usize);
            assert_eq!(is_here, object.requests.load(Relaxed) == before);
            assert!(source.has(begin, len));
        }
        // No byte is fetched twice, except kept blocks inside a prefetched range.
        assert!(object.bytes.load(Relaxed) <= SIZE);
        assert!(source.read(SIZE - 1, &mut [0; 2]).is_err());
    }
}

#[test]
fn what_is_read_in_order_takes_few_requests() {
    let (object, source) = metadata("good");
    source.keep(0, bytes(0, 64 << 10));
    for begin in (0..SIZE).step_by(4096) {
        check(&source, begin, 4096);
    }
    assert!(object.requests.load(Relaxed) <= 9, "{:?}", source.counts());
    // Little that is far apart: short blocks.
    let (object, source) = metadata("good");
    (0..6).for_each(|n| check(&source, n * 500_000, 100));
    assert!(
        object.bytes.load(Relaxed) < 6 * 70_000,
        "{:?}",
        source.counts()
    );
}

#[test]
fn what_is_prefetched_is_asked_for_together() {
    let (object, source) = metadata("slow");
    let wanted = (0..40u64).map(|n| (n * 70_000, 1000));
    source.prefetch(&mut wanted.clone());
    let before = object.requests.load(Relaxed);
    assert!((2..=40).contains(&before));
    wanted.for_each(|(begin, len)| check(&source, begin, len as usize));
    assert_eq!(object.requests.load(Relaxed), before);
}

#[test]
fn one_range_is_prefetched_as_its_block() {
    let (object, source) = metadata("good");
    source.prefetch(&mut std::iter::once((500_000, 100)));
    assert!(source.has(500_000, 16 << 10));
    assert_eq!(object.requests.load(Relaxed), 1);
}

#[test]
fn threads_wait_for_each_other() {
    let (object, source) = metadata("slow");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| check(&source, 1000, 1000));
        }
    });
    assert_eq!(object.requests.load(Relaxed), 1);
}

#[test]
fn a_failure_is_told_and_not_kept() {
    let (_, source) = metadata("bad");
    source.prefetch(&mut (0..3u64).map(|n| (n << 19, 10)));
    let error = source.read(0, &mut [0; 10]).unwrap_err();
    assert_eq!(error.to_string(), "bad");
    let (_, source) = metadata("good");
    source.close();
    let error = source.read(0, &mut [0; 10]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
}
