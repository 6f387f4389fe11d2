//! Runs many seeds on many threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::fault::Fault;
use crate::oracle::Broken;
use crate::trace::{KEPT, KINDS};
use crate::world::World;

#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    pub first: u64,
    pub seeds: u64,
    /// The steps of each seed before its quiet end.
    pub steps: u64,
    pub fault: Option<Fault>,
    /// The number of last events to keep of a failure.
    pub events: usize,
    pub threads: usize,
}

/// A seed that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The number of steps, including the quiet end.
    pub steps: u64,
    /// The hash of all events.
    pub hash: u64,
    /// The events by kind, in the order of [`KINDS`].
    pub counts: Vec<u64>,
}

/// A seed that broke an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub seed: u64,
    pub step: u64,
    /// The hash of all events until then.
    pub hash: u64,
    pub broken: Broken,
    pub events: Vec<String>,
    /// The explanation of each issue, and the workflow, as JSON.
    pub state: Vec<String>,
}

/// The results of a campaign.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The number of seeds that passed.
    pub seeds: u64,
    pub steps: u64,
    /// The events by kind, in the order of [`KINDS`].
    pub counts: Vec<u64>,
    /// The hash over all seeds, independent of the number of threads.
    pub hash: u64,
    pub took: Duration,
    /// The failure of the smallest seed.
    pub failure: Option<Failure>,
}

impl Figures {
    pub fn rate(&self) -> f64 {
        self.steps as f64 / self.took.as_secs_f64().max(0.001)
    }
}

/// Runs one seed; a failure contains the last events.
///
/// # Errors
/// Returns the broken invariant.
pub fn run_seed(seed: u64, steps: u64, fault: Option<Fault>, events: usize) -> Result<Ran, Box<Failure>> {
    let mut world = World::new(seed, fault, events);
    let live = || {
        (0..steps)
            .try_for_each(|_| world.step())
            .and_then(|()| world.quiet())
    };
    let went = catch_unwind(AssertUnwindSafe(live)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Broken::new("the core never panics", text.unwrap_or_default()))
    });
    let trace = world.trace();
    match went {
        Ok(()) => Ok(Ran {
            steps: trace.steps(),
            hash: trace.hash(),
            counts: trace.counts().to_vec(),
        }),
        Err(broken) => Err(Box::new(Failure {
            seed,
            step: trace.steps(),
            hash: trace.hash(),
            broken,
            events: trace.last(),
            state: world.state(),
        })),
    }
}

impl Campaign {
    /// Runs all seeds, or until the first failure. `progress` is called about once a second with
    /// seeds and steps.
    pub fn run(&self, progress: impl Fn(u64, u64, Duration) + Sync) -> Figures {
        let started = Instant::now();
        let (next, done, steps) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let failed = AtomicBool::new(false);
        let failures = Mutex::new(Vec::new());
        let sums = Mutex::new((vec![0; KINDS.len()], 0));
        let work = || {
            let mut counts = vec![0; KINDS.len()];
            let mut hash = 0_u64;
            while !failed.load(Ordering::Relaxed) {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                if nth >= self.seeds {
                    break;
                }
                match run_seed(self.first + nth, self.steps, self.fault, self.events) {
                    Ok(ran) => {
                        steps.fetch_add(ran.steps, Ordering::Relaxed);
                        done.fetch_add(1, Ordering::Relaxed);
                        // A sum, so that the order of threads does not matter.
                        hash = hash.wrapping_add(ran.hash);
                        for (sum, count) in counts.iter_mut().zip(ran.counts) {
                            *sum += count;
                        }
                    }
                    Err(failure) => {
                        failed.store(true, Ordering::Relaxed);
                        failures
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(*failure);
                    }
                }
            }
            let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
            sums.1 = hash.wrapping_add(sums.1);
            for (sum, count) in sums.0.iter_mut().zip(counts) {
                *sum += count;
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads.max(1)).map(|_| scope.spawn(work)).collect();
            let mut last_report = Instant::now();
            while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                std::thread::park_timeout(Duration::from_millis(20));
                if last_report.elapsed() >= Duration::from_secs(1) {
                    last_report = Instant::now();
                    let (done, steps) = (done.load(Ordering::Relaxed), steps.load(Ordering::Relaxed));
                    progress(done, steps, started.elapsed());
                }
            }
        });
        let (counts, hash) = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
        let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        Figures {
            seeds: done.into_inner(),
            steps: steps.into_inner(),
            counts,
            hash,
            took: started.elapsed(),
            failure: failures.into_iter().min_by_key(|failure| failure.seed),
        }
    }
}

/// The result of a planted fault.
#[derive(Clone, Debug)]
pub struct Caught {
    pub fault: Fault,
    /// The failure that found it, and the number of steps over all seeds until then.
    pub found: Option<(Failure, u64)>,
}

/// Runs seeds with each fault until it is found, up to a maximum number.
pub fn self_test(first: u64, most_seeds: u64, steps: u64, threads: usize) -> Vec<Caught> {
    let next = AtomicU64::new(0);
    let caught = Mutex::new(Vec::new());
    let work = || {
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed) as usize;
            let Some(&fault) = Fault::ALL.get(nth) else { break };
            let mut before = 0;
            let mut found = None;
            for seed in first..first + most_seeds {
                match run_seed(seed, steps, Some(fault), KEPT) {
                    Ok(ran) => before += ran.steps,
                    Err(failure) => {
                        before += failure.step;
                        found = Some((*failure, before));
                        break;
                    }
                }
            }
            let mut caught = caught.lock().unwrap_or_else(PoisonError::into_inner);
            caught.push((nth, Caught { fault, found }));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut caught = caught.into_inner().unwrap_or_else(PoisonError::into_inner);
    caught.sort_by_key(|(nth, _)| *nth);
    caught.into_iter().map(|(_, caught)| caught).collect()
}
