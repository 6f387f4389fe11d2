//! The decision whether a host may be reached.

use crate::tools::output::Refusal;

/// The decision about a host.
#[derive(Debug)]
pub(crate) enum HostDecision {
    Refused(Refusal),
    /// Allowed, if its address is public.
    Allowed,
    /// A rule names exactly this host: it may be on this machine.
    Named,
}

pub(crate) trait HostPolicy: Sync {
    /// Returns the decision about this host.
    fn grant(&self, host: &str) -> HostDecision;
}
