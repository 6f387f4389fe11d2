//! Holds starts while memory is short (`loop.pressure`) or a disk is full.

use std::path::PathBuf;
use std::time::Duration;

use vik_core::scheduler::Input;
use vik_core::time::Mono;
use vik_core::workflow::Pressure;
use vik_proc::Space;

use crate::effects::Effects;

/// The interval at which memory and disk pressure are checked.
const PRESSURE_EVERY: Duration = Duration::from_secs(5);

/// When the pressure is checked, and its last value.
pub(crate) struct PressureGauge {
    /// The last reported pressure, if there is any.
    current: Option<String>,
    due: Mono,
}

impl PressureGauge {
    pub(crate) fn new(now: Mono) -> Self {
        Self {
            current: None,
            due: now,
        }
    }

    pub(crate) fn due(&self) -> Mono {
        self.due
    }

    /// Requests a check now.
    pub(crate) fn request(&mut self, now: Mono) {
        self.due = now;
    }

    /// Checks the pressure if that is due. Returns the input for the scheduler if it has begun or
    /// ended.
    pub(crate) fn check(&mut self, effects: &mut dyn Effects) -> Option<Input> {
        let now = effects.now().mono;
        if now < self.due {
            return None;
        }
        self.due = now.plus(PRESSURE_EVERY);
        let is_held = self.current.is_some();
        let pressure = effects.pressure(is_held);
        let input = (pressure.is_some() != is_held).then(|| {
            tracing::info!(why = pressure, "memory or disk pressure");
            Input::Pressure(pressure.clone())
        });
        self.current = pressure;
        input
    }
}

/// The memory figures of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Memory {
    available: Option<u64>,
    pressure: Option<f64>,
}

/// Returns why nothing should start now; `None` if there is no pressure or the system does not
/// report it. `folders` need free space on their disks.
pub(crate) fn pressure(limits: &Pressure, folders: &[PathBuf], is_held: bool) -> Option<String> {
    let spaces = folders
        .iter()
        .filter_map(|folder| Some((folder, Space::of(folder)?)));
    for (folder, space) in spaces {
        if let Some(why) = check_space(space, is_held) {
            return Some(format!("the disk of {} is full: {why}", folder.display()));
        }
    }
    #[expect(clippy::disallowed_methods, reason = "files of the kernel")]
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let memory = Memory {
        available: available(&read("/proc/meminfo")),
        pressure: some_avg10(&read("/proc/pressure/memory")),
    };
    check_memory(limits, memory)
}

/// Requires more free space while starts are held, because otherwise the result would change with
/// each file.
fn check_space(space: Space, is_held: bool) -> Option<String> {
    let reserve = space.reserve();
    let minimum = if is_held { reserve + reserve / 4 } else { reserve };
    let mb = |bytes: u64| bytes / 1024 / 1024;
    (space.free < minimum).then(|| {
        format!(
            "{} MB free, and Vik reserves {} MB for its records",
            mb(space.free),
            mb(minimum)
        )
    })
}

fn check_memory(limits: &Pressure, memory: Memory) -> Option<String> {
    if let (Some(minimum), Some(available)) = (limits.min_available_memory, memory.available)
        && available < minimum
    {
        let mb = |bytes: u64| bytes / 1024 / 1024;
        return Some(format!(
            "{} MB of memory available, less than {} MB",
            mb(available),
            mb(minimum)
        ));
    }
    if let (Some(maximum), Some(pressure)) = (limits.max_memory_pressure, memory.pressure)
        && pressure > maximum
    {
        return Some(format!("memory pressure is {pressure} %, more than {maximum} %"));
    }
    None
}

/// Returns `MemAvailable` of `/proc/meminfo`, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Returns the share of the last ten seconds in which some task waited for memory, in percent, from
/// `/proc/pressure/memory`.
fn some_avg10(pressure: &str) -> Option<f64> {
    let line = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split(' ')
        .find_map(|field| field.strip_prefix("avg10="))?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_and_psi_files_are_parsed() {
        let meminfo = "MemTotal:       16303428 kB\nMemFree:          512 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(available(meminfo), Some(2 * 1024 * 1024));
        let psi = "some avg10=12.50 avg60=1.00 avg300=0.00 total=1\nfull avg10=3.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(some_avg10(psi), Some(12.5));
        assert_eq!((available(""), some_avg10("")), (None, None));
    }

    #[test]
    fn full_disk_holds_starts_until_space_is_free() {
        let held = |free: u64, is_held| {
            let total = 200 << 20;
            check_space(Space { free, total }, is_held).is_some()
        };
        assert!(held((10 << 20) - 1, false) && !held(10 << 20, false));
        assert!(held(10 << 20, true) && !held(13 << 20, true));
        let large = Space {
            free: 256 << 20,
            total: 1 << 50,
        };
        assert_eq!(check_space(large, false), None);
    }

    #[test]
    fn memory_holds_only_with_a_limit_and_a_known_value() {
        let limits = |memory, pressure| Pressure {
            min_available_memory: memory,
            max_memory_pressure: pressure,
        };
        let memory = Memory {
            available: Some(100 << 20),
            pressure: Some(20.0),
        };
        assert_eq!(check_memory(&limits(None, None), memory), None);
        assert_eq!(check_memory(&limits(Some(100 << 20), Some(20.0)), memory), None);
        assert!(
            check_memory(&limits(Some(101 << 20), None), memory).is_some_and(|why| why.contains("100 MB"))
        );
        assert!(check_memory(&limits(None, Some(19.9)), memory).is_some_and(|why| why.contains("20 %")));
        assert_eq!(
            check_memory(&limits(Some(1 << 40), Some(1.0)), Memory::default()),
            None
        );
    }
}
