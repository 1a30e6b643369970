//! The quicker of two ways of doing the same, found by trying both from time to time.
//!
//! Law:
//! 1. The quicker way depends on the data, on the CPU, and on its other users, so stored bytes cannot
//!    tell it. Both ways are timed over a few turns, and the quicker one is taken for the next ones;
//!    trials become rare as long as the same way wins.
//! 2. The clock is handed in. One that counts this thread's CPU time only makes an interruption cost
//!    neither way.
//! 3. Both ways make the same bytes, so a trial changes nothing but the speed.
//!
//! It must never know what is done.

use std::ops::RangeInclusive;

/// Turns of the optimized way in a trial; the baseline then makes as many bytes. Each has one turn to
/// warm up before it is timed.
const TURNS: u32 = 4;

/// Turns between two trials, twice as many after each trial that had the same winner.
const PAUSE: RangeInclusive<u32> = 32..=2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// What may be quicker, and need not be possible each time.
    Optimized,
    /// What is always possible.
    Baseline,
}

/// Nanoseconds that this thread has had of a CPU.
pub type Clock = fn() -> u64;

/// When something began that is timed, if it is.
pub struct Timer {
    way: Way,
    start: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    ns: u64,
    bytes: u64,
    turns: u32,
}

#[derive(Debug)]
pub struct AutoTuner {
    clock: Clock,
    winner: Way,
    /// What is being tried.
    tried: Option<Way>,
    /// How many turns to go until the next trial, and how many are between the next two.
    left: u32,
    pause: u32,
    optimized: Cost,
    baseline: Cost,
}

impl AutoTuner {
    pub fn new(clock: Clock) -> AutoTuner {
        AutoTuner {
            clock,
            winner: Way::Optimized,
            tried: None,
            left: 0,
            pause: *PAUSE.start(),
            optimized: Cost::NONE,
            baseline: Cost::NONE,
        }
    }

    /// How to do what comes next.
    pub fn way(&mut self) -> Way {
        if self.tried.is_none() {
            match self.left.checked_sub(1) {
                Some(left) => self.left = left,
                None => {
                    self.tried = Some(Way::Optimized);
                    (self.optimized, self.baseline) = (Cost::NONE, Cost::NONE);
                }
            }
        }
        self.tried.unwrap_or(self.winner)
    }

    /// Call it before something is done this way, and `record` after it.
    pub fn start(&self, way: Way) -> Timer {
        Timer {
            way,
            start: (self.tried == Some(way)).then(self.clock),
        }
    }

    /// This many bytes were made; 0 where the optimized way failed.
    pub fn record(&mut self, timer: Timer, bytes: usize) {
        if let Some(start) = timer.start {
            let ns = (self.clock)().saturating_sub(start);
            self.count(timer.way, ns, bytes as u64);
        }
    }

    /// What a turn took of the way that is being tried.
    fn count(&mut self, way: Way, ns: u64, bytes: u64) {
        let cost = match way {
            Way::Optimized => &mut self.optimized,
            Way::Baseline => &mut self.baseline,
        };
        cost.turns += 1;
        if cost.turns == 1 {
            return;
        }
        cost.ns += ns;
        cost.bytes += bytes;
        match way {
            Way::Optimized if self.optimized.turns <= TURNS => {}
            Way::Optimized if self.optimized.bytes > 0 => self.tried = Some(Way::Baseline),
            Way::Baseline if self.baseline.bytes < self.optimized.bytes => {}
            _ => self.end(),
        }
    }

    fn end(&mut self) {
        let of = |ns: u64, bytes: u64| u128::from(ns) * u128::from(bytes);
        let (optimized, baseline) = (self.optimized, self.baseline);
        let winner = match of(optimized.ns, baseline.bytes) < of(baseline.ns, optimized.bytes) {
            true => Way::Optimized,
            false => Way::Baseline,
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

#[cfg(test)]
mod tests {
    use super::*;
    use os::clock::thread_ns;

    /// Makes 40 bytes in an optimized turn and 10 in a baseline one, at these costs for a byte. Returns
    /// how many of the next `turns` were optimized.
    fn went_optimized(tuner: &mut AutoTuner, turns: u32, optimized: u64, baseline: u64) -> u32 {
        let mut n = 0;
        for _ in 0..turns {
            let way = tuner.way();
            let (bytes, cost) = match way {
                Way::Optimized => (40, optimized),
                Way::Baseline => (10, baseline),
            };
            n += u32::from(way == Way::Optimized);
            if tuner.tried == Some(way) {
                tuner.count(way, cost * bytes, bytes);
            }
        }
        n
    }

    /// Turns of one trial: of both ways, each with one to warm up.
    const TRIAL: u32 = TURNS + 1 + 4 * TURNS + 1;

    #[test]
    fn the_quicker_way_is_taken() {
        for (optimized, baseline, winner) in [(3, 4, Way::Optimized), (4, 3, Way::Baseline)] {
            let mut tuner = AutoTuner::new(thread_ns);
            assert_eq!(
                went_optimized(&mut tuner, TRIAL, optimized, baseline),
                TURNS + 1
            );
            assert_eq!(tuner.winner, winner);
            let many = went_optimized(&mut tuner, 32, optimized, baseline);
            assert_eq!(many, if winner == Way::Optimized { 32 } else { 0 });
        }
    }

    #[test]
    fn what_wins_again_is_tried_ever_less() {
        let mut tuner = AutoTuner::new(thread_ns);
        let mut pauses = vec![];
        while pauses.len() < 9 {
            went_optimized(&mut tuner, TRIAL, 5, 4);
            assert_eq!((tuner.winner, tuner.tried), (Way::Baseline, None));
            let left = tuner.left;
            pauses.push(left);
            assert_eq!(went_optimized(&mut tuner, left, 5, 4), 0);
        }
        // The first trial had another winner than was taken at first.
        assert_eq!(pauses, [32, 32, 64, 128, 256, 512, 1024, 2048, 2048]);
    }

    #[test]
    fn another_winner_is_found_and_tried_soon_again() {
        let mut tuner = AutoTuner::new(thread_ns);
        went_optimized(&mut tuner, 5000, 3, 4);
        assert_eq!(tuner.winner, Way::Optimized);
        went_optimized(&mut tuner, 2048 + TRIAL, 4, 3);
        assert_eq!(tuner.winner, Way::Baseline);
        assert_eq!(tuner.pause, 32);
    }

    #[test]
    fn what_is_in_vain_loses() {
        let mut tuner = AutoTuner::new(thread_ns);
        for _ in 0..=TURNS {
            assert_eq!(tuner.way(), Way::Optimized);
            tuner.record(tuner.start(Way::Optimized), 0);
        }
        assert_eq!((tuner.winner, tuner.tried), (Way::Baseline, None));
        assert_eq!(tuner.way(), Way::Baseline);
    }

    #[test]
    fn only_what_is_tried_is_timed() {
        let mut tuner = AutoTuner::new(thread_ns);
        tuner.record(tuner.start(Way::Optimized), 10);
        assert_eq!((tuner.baseline, tuner.optimized), (Cost::NONE, Cost::NONE));
        tuner.way();
        tuner.record(tuner.start(Way::Baseline), 10);
        assert_eq!((tuner.baseline, tuner.optimized), (Cost::NONE, Cost::NONE));
        tuner.record(tuner.start(Way::Optimized), 10);
        assert_eq!(tuner.optimized.turns, 1);
    }

    #[test]
    fn a_threads_time_passes_while_it_works() {
        let start = thread_ns();
        while thread_ns() == start {}
        assert!(thread_ns() > start);
    }
}
