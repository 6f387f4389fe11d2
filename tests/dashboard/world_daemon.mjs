// The workflow, the log and the pulls of the mock daemon.

import { HOSTILE_TITLE, MINUTE, ago } from "./world_events.mjs";

const SETTINGS = {
  "loop.max_issue_concurrency": "4",
  "workspace.root": "`~/.vik/work`",
  "agents.codex-default.runtime": "codex",
  "agents.codex-default.model": "`gpt-5.1-codex`",
  "agents.codex-default.env.TOKEN": null,
  "issues.pull.command": "1 line",
  "issues.pull.idle_sec": "30s",
  "issue.stages.implement.when.state": "[`In progress`]",
  "issue.stages.implement.agent": "`codex-default`",
  "issue.stages.implement.hooks.before_run": 'git switch -c "vik/$VIK_ISSUE_ID"\nnpm ci',
  "issue.stages.implement.timeout": "30m",
};

export const workflow = ({ status }) => ({
  schema: 1,
  path: status.workflow_path,
  workflow: { needs_restart: [], ...status.workflow },
  settings: Object.entries(SETTINGS).map(([key, value]) => ({ key, value })),
});

const MESSAGES = [
  ["info", "pulled 27 issues in 412ms", null],
  ["info", "attempt 2 of `implement` has started", "SHOP-97"],
  ["warn", "the pull failed: gh: could not resolve host; the next one is in 30s", null],
  ["debug", "the agent wrote 240 events", "SHOP-142"],
  ["error", `\`after_run\` exited with 1: ${HOSTILE_TITLE}`, "SHOP-88"],
];

export const makeLog = () =>
  Array.from({ length: 500 }, (_, n) => {
    const [level, message, issue] = MESSAGES[n % MESSAGES.length];
    return {
      at: ago(n * 3 * MINUTE + 20_000),
      level,
      message: `${message}${n > 400 ? " (old)" : ""}`,
      issue,
      stage: issue ? "implement" : null,
      attempt: issue ? 2 : null,
      session: issue ? "019a2b3c-4d5e-7000-8000-000000000003" : null,
    };
  });

const RANKS = ["debug", "info", "warn", "error"];

export function log(world, params) {
  const minimum = RANKS.indexOf(params.get("level") ?? "debug");
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
    ok: n % 20 !== 7,
    issues: n % 20 === 7 ? 0 : 27,
    skipped: 0,
    error: n % 20 === 7 ? `\`issues.pull.command\` exited with 1; its output ends: HTTP 502 ${HOSTILE_TITLE}` : null,
  }));
