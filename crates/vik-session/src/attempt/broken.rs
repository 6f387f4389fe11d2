//! The end of an attempt that cannot be recovered, and the shims by which its processes are found.

use std::path::Path;

use vik_core::attempt::{AttemptResult, Start};
use vik_core::ended::Ended;
use vik_core::limits::Spend;
use vik_proc::identity::boot_id;
use vik_proc::{Census, Mark, ProcessId, ShimSpec};
use vik_store::{AttemptFailure, AttemptFiles};

use super::agent_end::unproven_end_failure;
use super::finish::AttemptEnd;
use super::opened::AttemptContext;
use crate::host::{ATTEMPT_MARK, Host};

impl AttemptEnd {
    /// Returns the end of an attempt that could not be recorded or read, or whose task broke.
    /// Processes that it may have left are found by its mark and ended first: only then is its slot
    /// free.
    pub async fn broken(host: &Host, start: &Start, failure: AttemptFailure) -> Self {
        let files = host.attempt_files(start);
        let id = start.attempt_id.to_string();
        let census = Census::read(&files.census());
        let spec = shim_spec(&files, &id, Path::new("/"));
        let no_process = ProcessId {
            pid: 0,
            start_time: 0,
        };
        let shim = census
            .as_ref()
            .and_then(|census| census.shim)
            .unwrap_or(no_process);
        let ran = census.as_ref().is_some_and(|census| census.agent.is_some());
        let boot = census.map_or_else(boot_id, |census| census.boot_id);
        let proof = match vik_proc::recover(&spec, shim, None, &boot).await {
            Ok(record) => record.proof,
            Err(lost) => lost.proof().clone(),
        };
        let failure = unproven_end_failure(&proof).unwrap_or(failure);
        let result = AttemptResult {
            failure_class: failure.class,
            reason: Some(failure.reason),
            ran,
            proof: Some(proof.name().to_owned()),
            ..AttemptResult::new(failure.outcome)
        };
        Self {
            ended: Ended::new(result, Spend::default()),
            log: files.log(),
        }
    }
}

impl AttemptContext<'_> {
    /// Returns the parts of the shim's specification that are the same for every process of this
    /// attempt.
    pub(super) fn shim_spec(&self, workdir: &Path) -> ShimSpec {
        shim_spec(self.files, &self.id, workdir)
    }
}

fn shim_spec(files: &AttemptFiles, id: &str, workdir: &Path) -> ShimSpec {
    let mut spec = ShimSpec::new("", workdir);
    spec.mark = Some(Mark::new(ATTEMPT_MARK, id));
    spec.exit_record = Some(files.exit());
    spec.census = Some(files.census());
    spec.control = Some(files.control());
    spec
}
