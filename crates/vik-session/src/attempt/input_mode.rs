//! Whether the input of an agent stays open.

use vik_agents::driver;
use vik_core::attempt::Start;
use vik_core::workflow::AgentProfile;

/// Returns whether the agent is to ask before each call.
pub(super) fn asks_before_calls(start: &Start, profile: &AgentProfile) -> bool {
    start.stage.asks_before_calls()
        || (start.intent.scope.is_some() && driver(profile.runtime).enforces_scope_interactively(profile))
}

/// Returns why people cannot send messages to an agent with this profile, or `None`. `asks` is
/// whether it asks before calls.
pub(super) fn not_steerable_because(profile: &AgentProfile, asks: bool) -> Option<String> {
    if let Err(why) = driver(profile.runtime).steering(profile) {
        return Some(why.to_owned());
    }
    match profile.steer {
        Some(true) => None,
        None if asks => None,
        None => Some("its profile does not set `steer: true`".to_owned()),
        Some(false) => Some("its profile sets `steer: false`".to_owned()),
    }
}
