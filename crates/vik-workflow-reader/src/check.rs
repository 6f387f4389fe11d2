//! The context of the checks that build the workflow.

use vik_yaml::{Places, Sink};

use super::tracker::TrackerCommands;

/// The positions of values, and the sink for findings.
pub(super) struct Check<'a> {
    pub(super) places: &'a Places,
    pub(super) sink: &'a mut Sink,
    /// The commands that `issues.tracker` supplies.
    pub(super) tracker: Option<TrackerCommands>,
}
