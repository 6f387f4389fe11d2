//! How a worker presents itself to hubs, as arguments.

use std::num::NonZeroU32;

use clap::Args;
use vik_core::worker::{WorkerLabel, WorkerName};

/// The options of a worker.
#[derive(Clone, Debug, Default, Args)]
pub struct WorkerOptions {
    /// Name of the worker, unique among those of the queue [default: the name of its host]
    #[arg(long)]
    pub name: Option<WorkerName>,
    /// Labels that stages and agents can demand, separated by commas
    #[arg(long, value_name = "LABELS", value_delimiter = ',')]
    pub labels: Vec<WorkerLabel>,
    /// Maximum number of attempts at once [default: the number of processors]
    #[arg(long, value_name = "N")]
    pub capacity: Option<NonZeroU32>,
}

impl WorkerOptions {
    /// Returns them as arguments of `vik worker`. The values contain only letters, digits, `.`, `_`,
    /// `-` and `,`.
    pub fn to_args(&self) -> Vec<String> {
        let labels: Vec<&str> = self.labels.iter().map(WorkerLabel::as_str).collect();
        let labels = (!labels.is_empty()).then(|| labels.join(","));
        let options = [
            ("--name", self.name.as_ref().map(ToString::to_string)),
            ("--labels", labels),
            ("--capacity", self.capacity.map(|capacity| capacity.to_string())),
        ];
        let given = options
            .into_iter()
            .filter_map(|(option, value)| Some([option.to_owned(), value?]));
        given.flatten().collect()
    }
}
