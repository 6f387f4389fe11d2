// Made by `cargo xtask generate` from the program. Do not edit.

/** The label of each kind of event. */
export const EVENT_LABELS = {
  session_started: "Started",
  message: "Message",
  reasoning: "Reasoning",
  tool_call: "Tool",
  tool_result: "Result",
  subagent: "Sub-agent",
  token_usage: "Usage",
  rate_limit: "Rate limit",
  approval: "Permission",
  error: "Error",
  unknown: "Unknown",
  malformed: "Malformed",
  completed: "Completed",
  resumed: "Resumed",
  resume_failed: "Not resumed",
  limit: "Limit",
  output: "Output",
  person_message: "Person",
  turn: "Turn",
  question: "Question",
  answer: "Answer",
  ended: "Ended",
};
