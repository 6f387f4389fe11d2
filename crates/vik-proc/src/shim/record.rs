//! Writes the exit record of a shim.

use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use super::Shim;
use crate::identity::boot_id;
use crate::spec::{Cause, ExitRecord, Proof, Status};
use crate::{census, sys};

impl Shim {
    /// Writes the exit record, then reports it to the daemon. A failure here must not lose the end
    /// itself.
    pub(super) fn finish(&mut self, proof: Proof) {
        self.feed = None;
        if let Proof::Unproven { survivors } = &proof {
            self.record_members(survivors.clone());
        }
        let proven = proof.is_proven();
        // The kernel may have refused something since the last check.
        self.overrun = self.overrun.or_else(|| self.refused_by_kernel());
        let record = self.record(proof);
        if let (Some(path), Ok(mut json)) = (&self.spec.exit_record, serde_json::to_vec(&record)) {
            json.push(b'\n');
            // If the disk is full, the daemon still gets the record through the pipe.
            let _ = census::replace(path, &json, true);
        }
        // These files are removed after the record is written: if this process dies in between, a
        // later daemon needs them.
        if let Some(roll) = self.census_writer.take().filter(|_| proven) {
            let _ = fs::remove_file(roll.path());
        }
        if let Some(control) = self
            .spec
            .control
            .as_deref()
            .filter(|_| !self.spec.orphan_grace.is_zero())
        {
            let _ = fs::remove_file(control);
        }
        self.drop_cgroup();
        if let Some(group) = &self.task_group {
            group.remove();
        }
        if let (None, Some(failure)) = (&self.status, &self.spawn_error) {
            // Nobody waits for the record of a server, but its log is read.
            let line = format!("vik: {}\n", failure.message);
            let _ = nix::unistd::write(io::stderr(), line.as_bytes());
        }
        self.send_status(&Status::Ended(Box::new(record)));
    }

    fn record(&self, proof: Proof) -> ExitRecord {
        let started = self.spawn_error.is_none();
        let (code, signal) = self.ended.filter(|_| started).unwrap_or_default();
        let (user_cpu_ms, sys_cpu_ms, peak_rss_kb) = sys::children_usage();
        ExitRecord {
            schema: 1,
            agent: self.agent.filter(|_| started),
            boot_id: boot_id(),
            started_at_ms: unix_ms(self.started_at),
            ended_at_ms: unix_ms(SystemTime::now()),
            code,
            signal,
            cause: if started {
                self.cause.unwrap_or(Cause::Exited)
            } else {
                Cause::SpawnFailed
            },
            spawn_error: self.spawn_error.clone(),
            leftovers_killed: self.leftovers(),
            proof,
            peak_rss_kb,
            user_cpu_ms,
            sys_cpu_ms,
            overrun: self.overrun,
        }
    }
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
