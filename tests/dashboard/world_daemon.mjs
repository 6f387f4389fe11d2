// The workflow, the log and the pulls of the mock daemon.

import { HOSTILE_TITLE, MINUTE, ago } from "./world_events.mjs";

const WORKFLOW = `# The shop: plan, implement, review.
workspace: {root: ~/.vik/work}
agents:
  codex-default: {runtime: codex, model: gpt-5.1-codex}
  claude: {runtime: claude_code}
issues:
  pull:
    command: curl --silent --header "Authorization: Bearer ***" https://tracker.example/issues
    idle_sec: 30
issue:
  stages:
    implement:
      when: {state: In progress}
      agent: codex-default
      prompt: prompts/implement.md
      hooks: {before_run: 'git switch -c "vik/$VIK_ISSUE_ID"'}
      verify: make check
`;

export const workflow = ({ status }) => ({
  schema: 1,
  path: status.workflow_path,
  text: WORKFLOW,
  loaded_at: status.workflow.loaded_at,
  invalid: status.workflow.rejected?.diagnostics.join("\n") ?? null,
});

const MESSAGES = [
  ["INFO", "vik_daemon::pull", "pulled 27 issues in 412ms", null],
  ["INFO", "vik_orchestrator::run", "attempt 2 of `implement` has started", "SHOP-97"],
  ["WARN", "vik_daemon::pull", "the pull failed: gh: could not resolve host; the next one is in 30s", null],
  ["DEBUG", "vik_session::shim", "the agent wrote 240 events", "SHOP-142"],
  ["ERROR", "vik_orchestrator::hook", `\`after_run\` exited with 1: ${HOSTILE_TITLE}`, "SHOP-88"],
];

export const makeLog = () =>
  Array.from({ length: 500 }, (_, n) => {
    const [level, target, message, issue] = MESSAGES[n % MESSAGES.length];
    return {
      at: ago(n * 3 * MINUTE + 20_000),
      level,
      target,
      message: `${message}${n > 400 ? " (old)" : ""}`,
      issue,
      stage: issue ? "implement" : null,
      attempt: issue ? "019a2b3c-4d5e-7000-8000-000000000003" : null,
    };
  });

const RANKS = ["DEBUG", "INFO", "WARN", "ERROR"];

export function log(world, params) {
  const minimum = RANKS.indexOf((params.get("level") ?? "debug").toUpperCase());
  const q = (params.get("q") ?? "").toLowerCase();
  const selected = world.log.filter(
    (line) =>
      RANKS.indexOf(line.level) >= minimum &&
      (!params.get("issue") || line.issue === params.get("issue")) &&
      line.message.toLowerCase().includes(q),
  );
  const from = Number(params.get("before")?.slice("line ".length) ?? 0);
  const end = from + Number(params.get("limit") ?? 200);
  return { schema: 1, lines: selected.slice(from, end), next: end < selected.length ? `line ${end}` : null };
}

export const makePulls = () =>
  Array.from({ length: 60 }, (_, n) => ({
    at: ago(n * MINUTE + 4000),
    duration_ms: 412 + n,
    outcome: n % 20 === 7 ? "failed" : n % 3 ? "unchanged" : "succeeded",
    issues: n % 20 === 7 ? null : 27,
    error: n % 20 === 7 ? `\`issues.pull.command\` exited with 1; its output ends: HTTP 502 ${HOSTILE_TITLE}` : null,
  }));
