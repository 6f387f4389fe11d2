//! Agents that take messages of people: without a message, an attempt is as without `steer`.

use super::ends::{runs_out_of_time, stops_in_mid_tool};
use super::*;

#[test]
fn steerable_codex_edits_commits_and_moves_the_issue() {
    works_and_commits(RealAgent::Codex, None);
}

#[test]
fn steerable_codex_in_code_mode_edits_commits_and_moves_the_issue() {
    works_and_commits(RealAgent::Codex, Some("gpt-6-sol"));
}

#[test]
fn steerable_claude_edits_commits_and_moves_the_issue() {
    works_and_commits(RealAgent::Claude, None);
}

#[test]
fn steerable_codex_fails_as_without_messages() {
    for (status, class) in [(500, "overloaded"), (429, "rate_limit"), (401, "auth")] {
        let turn = json!({"status": status, "retry_after": 1, "times": "forever"});
        fails(RealAgent::Codex, &turn, class);
    }
}

#[test]
fn steerable_claude_fails_as_without_messages() {
    for (status, class) in [(500, "overloaded"), (429, "rate_limit"), (401, "auth")] {
        let turn = json!({"status": status, "retry_after": 1, "times": "forever"});
        fails(RealAgent::Claude, &turn, class);
    }
}

#[test]
fn steerable_codex_resumes_the_conversation() {
    resumes_the_conversation(RealAgent::Codex, false);
}

#[test]
fn steerable_claude_resumes_the_conversation() {
    resumes_the_conversation(RealAgent::Claude, false);
}

#[test]
fn steerable_claude_keeps_to_its_budget() {
    keeps_to_its_budget();
}

#[test]
fn steerable_codex_is_stopped_during_a_tool_call() {
    stops_in_mid_tool(RealAgent::Codex);
}

#[test]
fn steerable_claude_is_stopped_during_a_tool_call() {
    stops_in_mid_tool(RealAgent::Claude);
}

#[test]
fn steerable_codex_times_out_during_a_tool_call() {
    runs_out_of_time(RealAgent::Codex);
}

#[test]
fn steerable_claude_times_out_during_a_tool_call() {
    runs_out_of_time(RealAgent::Claude);
}
