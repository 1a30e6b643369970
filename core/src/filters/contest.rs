//! Which of two ways of decoding is the quicker one, told by trying both now and then.
//!
//! 1. Nobody can tell from stored bytes alone: it depends on the data, on the CPU, and on who else is
//!    at work on it. So both ways are timed over a few chunks, and the quicker one is taken for the
//!    next ones; trials become rare as long as the same way wins.
//! 2. What is timed is this thread's own time on a CPU: to be interrupted costs neither way.
//! 3. Both ways make the same bytes. How a trial ends can be seen in nothing but the speed.
//!
//! It must never know what is decoded.

use std::ops::RangeInclusive;

/// Groups of chunks side by side in a trial, and then as many bytes alone. Before either is timed it
/// has one turn to warm up.
const GROUPS: u32 = 4;

/// So many turns are between two trials: after each that had the same winner, twice as many.
const PAUSE: RangeInclusive<u32> = 32..=2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Some chunks side by side.
    Abreast,
    /// One chunk after the other.
    Alone,
}

/// When something began that is timed, if it is.
pub(super) struct Watch {
    way: Way,
    start: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    ns: u64,
    bytes: u64,
    turns: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contest {
    winner: Way,
    /// What is being tried.
    tried: Option<Way>,
    /// How many turns to go until the next trial, and how many are between the next two.
    left: u32,
    pause: u32,
    abreast: Cost,
    alone: Cost,
}

impl Contest {
    pub(super) const NEW: Contest = Contest {
        winner: Way::Abreast,
        tried: None,
        left: 0,
        pause: *PAUSE.start(),
        abreast: Cost::NONE,
        alone: Cost::NONE,
    };

    /// How to decode what comes next.
    pub(super) fn way(&mut self) -> Way {
        if self.tried.is_none() {
            match self.left.checked_sub(1) {
                Some(left) => self.left = left,
                None => {
                    self.tried = Some(Way::Abreast);
                    (self.abreast, self.alone) = (Cost::NONE, Cost::NONE);
                }
            }
        }
        self.tried.unwrap_or(self.winner)
    }

    /// Call it before something is decoded this way, and `tell` after it.
    pub(super) fn watch(&self, way: Way) -> Watch {
        Watch {
            way,
            start: (self.tried == Some(way)).then(thread_ns),
        }
    }

    /// So many bytes were decoded; 0 if it was in vain.
    pub(super) fn tell(&mut self, watch: Watch, bytes: usize) {
        if let Some(start) = watch.start {
            let ns = thread_ns().saturating_sub(start);
            self.count(watch.way, ns, bytes as u64);
        }
    }

    /// What a turn took of the way that is being tried.
    fn count(&mut self, way: Way, ns: u64, bytes: u64) {
        let cost = match way {
            Way::Abreast => &mut self.abreast,
            Way::Alone => &mut self.alone,
        };
        cost.turns += 1;
        if cost.turns == 1 {
            return;
        }
        cost.ns += ns;
        cost.bytes += bytes;
        match way {
            Way::Abreast if self.abreast.turns <= GROUPS => {}
            Way::Abreast if self.abreast.bytes > 0 => self.tried = Some(Way::Alone),
            Way::Alone if self.alone.bytes < self.abreast.bytes => {}
            _ => self.end(),
        }
    }

    fn end(&mut self) {
        let of = |ns: u64, bytes: u64| u128::from(ns) * u128::from(bytes);
        let (abreast, alone) = (self.abreast, self.alone);
        let winner = match of(abreast.ns, alone.bytes) < of(alone.ns, abreast.bytes) {
            true => Way::Abreast,
            false => Way::Alone,
        };
        self.left = self.pause;
        self.pause = match winner == self.winner {
            true => (2 * self.pause).min(*PAUSE.end()),
            false => *PAUSE.start(),
        };
        (self.winner, self.tried) = (winner, None);
    }
}

impl Cost {
    const NONE: Cost = Cost {
        ns: 0,
        bytes: 0,
        turns: 0,
    };
}

/// What this thread has had of a CPU.
fn thread_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the address is that of a timespec. The clock exists on every Linux; where it could not
    // be read the time would stand still, and any winner is right.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes chunks of 10 bytes, groups of 4, at these costs for a byte. Returns how many groups
    /// went abreast of the next `turns`.
    fn went_abreast(contest: &mut Contest, turns: u32, abreast: u64, alone: u64) -> u32 {
        let mut groups = 0;
        for _ in 0..turns {
            let way = contest.way();
            let (bytes, cost) = match way {
                Way::Abreast => (40, abreast),
                Way::Alone => (10, alone),
            };
            groups += u32::from(way == Way::Abreast);
            if contest.tried == Some(way) {
                contest.count(way, cost * bytes, bytes);
            }
        }
        groups
    }

    /// Turns of one trial: groups, and then as many chunks, each with one before.
    const TRIAL: u32 = GROUPS + 1 + 4 * GROUPS + 1;

    #[test]
    fn the_quicker_way_is_taken() {
        for (abreast, alone, winner) in [(3, 4, Way::Abreast), (4, 3, Way::Alone)] {
            let mut contest = Contest::NEW;
            assert_eq!(
                went_abreast(&mut contest, TRIAL, abreast, alone),
                GROUPS + 1
            );
            assert_eq!(contest.winner, winner);
            let many = went_abreast(&mut contest, 32, abreast, alone);
            assert_eq!(many, if winner == Way::Abreast { 32 } else { 0 });
        }
    }

    #[test]
    fn what_wins_again_is_tried_ever_less() {
        let mut contest = Contest::NEW;
        let mut pauses = vec![];
        while pauses.len() < 9 {
            went_abreast(&mut contest, TRIAL, 5, 4);
            assert_eq!((contest.winner, contest.tried), (Way::Alone, None));
            let left = contest.left;
            pauses.push(left);
            assert_eq!(went_abreast(&mut contest, left, 5, 4), 0);
        }
        // The first trial had another winner than was taken at first.
        assert_eq!(pauses, [32, 32, 64, 128, 256, 512, 1024, 2048, 2048]);
    }

    #[test]
    fn another_winner_is_found_and_tried_soon_again() {
        let mut contest = Contest::NEW;
        went_abreast(&mut contest, 5000, 3, 4);
        assert_eq!(contest.winner, Way::Abreast);
        went_abreast(&mut contest, 2048 + TRIAL, 4, 3);
        assert_eq!(contest.winner, Way::Alone);
        assert_eq!(contest.pause, 32);
    }

    #[test]
    fn what_is_in_vain_loses() {
        let mut contest = Contest::NEW;
        for _ in 0..=GROUPS {
            assert_eq!(contest.way(), Way::Abreast);
            contest.tell(contest.watch(Way::Abreast), 0);
        }
        assert_eq!((contest.winner, contest.tried), (Way::Alone, None));
        assert_eq!(contest.way(), Way::Alone);
    }

    #[test]
    fn only_what_is_tried_is_timed() {
        let mut contest = Contest::NEW;
        contest.tell(contest.watch(Way::Abreast), 10);
        assert_eq!(contest, Contest::NEW);
        contest.way();
        contest.tell(contest.watch(Way::Alone), 10);
        assert_eq!((contest.alone, contest.abreast), (Cost::NONE, Cost::NONE));
        contest.tell(contest.watch(Way::Abreast), 10);
        assert_eq!(contest.abreast.turns, 1);
    }

    #[test]
    fn a_threads_time_passes_while_it_works() {
        let start = thread_ns();
        while thread_ns() == start {}
        assert!(thread_ns() > start);
    }
}
