// The data of the mock daemon: issues in every state, a long transcript, and hostile strings.

import { makeLog, makePulls } from "./world_daemon.mjs";
import { issueText } from "./world_details.mjs";
import { HOSTILE_ID, HOSTILE_TITLE, MINUTE, ago, event, hostileEvents, usage } from "./world_events.mjs";

export { HOSTILE_ID, HOSTILE_TITLE, event };

const fromNow = (ms) => new Date(Date.now() + ms).toISOString();
const uuid = (n) => `019a2b3c-4d5e-7000-8000-${String(n).padStart(12, "0")}`;

export const LONG = uuid(1);
export const LIVE = uuid(2);
export const FAILED = uuid(3);
export const HOSTILE_SESSION = uuid(9);
export const LONG_EVENTS = 100_000;

export function session(n, issue, title, stage, overrides = {}) {
  return {
    session_id: uuid(n),
    issue_id: issue,
    issue_title: title,
    stage,
    agent: "codex-default",
    model: "gpt-5.1-codex",
    attempt: 1,
    phase: "running",
    since: ago(4 * MINUTE + n * 7000),
    last_event_at: ago(2500),
    activity: "Bash: cargo test --workspace",
    events: 240,
    usage: usage(182_000, 9400),
    cost_usd: 0.42,
    charged: { tokens: 191_400, cost_usd: 0.42 },
    budget: { tokens: 600_000, usd: 2 },
    adopted: false,
    resumed_from: null,
    log: "/home/me/.vik/sessions/x.jsonl",
    ...overrides,
  };
}

const stageView = (stage, state, overrides = {}) => ({
  stage,
  state,
  run_id: null,
  session_id: null,
  last_outcome: null,
  last_class: null,
  attempts: 0,
  max_attempts: 3,
  hold: null,
  ...overrides,
});
const hold = (reason, detail, overrides = {}) => ({
  reason,
  detail,
  since: null,
  until: null,
  freed_by: null,
  ...overrides,
});
const day = (spent = 11.62) => ({
  date: new Date().toISOString().slice(0, 10),
  spent: { tokens: 4_812_330, cost_usd: spent, estimated_usd: 1.2 },
  limit: { tokens: null, usd: 20 },
});

export function issueView(id, title, state, stages, overrides = {}) {
  return {
    issue_id: id,
    issue_title: title,
    issue_state: state,
    issue_url: `https://tracker.example/issues/${encodeURIComponent(id)}`,
    labels: ["bug", "checkout"],
    present: true,
    paused: false,
    hold: null,
    stages,
    life: {
      attempts: 4,
      max_attempts: 15,
      spent: { tokens: 812_000, cost_usd: 3.1, estimated_usd: 0.5 },
      limit: { tokens: null, usd: 10 },
    },
    day: day(),
    ...overrides,
  };
}

const TITLES = [
  "Return 404 for unknown projects",
  "Speed up the nightly import",
  "Flaky test in the payment module",
  "Document the retry policy",
  "Drop support for the old config format",
  "Add a dark theme to the settings page",
  "Migrate the mailer to the new API",
  "Rate-limit the login endpoint",
  "Show the build number in the footer",
  "Handle empty CSV files",
];

export function makeWorld() {
  const world = {
    signedIn: true,
    long: LONG_EVENTS,
    commands: [],
    status: {
      schema: 1,
      state: "running",
      pid: 4242,
      started_at: ago(3 * 3600_000 + 12 * MINUTE),
      version: "0.2.0",
      workflow_path: "/home/me/shop/workflow.yml",
      home: "/home/me/.vik",
      last_pull: { at: ago(4000), ok: true, issues: 27, skipped: 1, duration_ms: 412 },
      pulls: { ok: 2214, failed: 3, failed_in_a_row: 0 },
      sessions: [
        session(2, "SHOP-142", "Return 404 for unknown projects", "implement", { events: 37 }),
        session(1, "SHOP-97", "Speed up the nightly import", "implement", {
          events: LONG_EVENTS,
          agent: "claude",
          model: "claude-opus-4-5",
          attempt: 2,
          activity: "Edit: src/import/batch.rs",
          charged: { tokens: 1_910_400, cost_usd: 4.36 },
          budget: { tokens: null, usd: 5 },
          resumed_from: uuid(33),
        }),
        session(5, "SHOP-150", "Document the retry policy", "review", {
          phase: "verifying",
          activity: "make check",
          agent: "vex",
          model: null,
          charged: { tokens: 20_100, cost_usd: 0.08, estimated_usd: 0.08 },
          usage: usage(18_000, 2100),
          cost_usd: null,
          budget: { tokens: null, usd: null },
        }),
        session(9, HOSTILE_ID, HOSTILE_TITLE, "plan", {
          activity: 'Bash: echo "<b>bold</b>" \u001b[2J',
          adopted: true,
          events: 30,
        }),
      ],
      approvals: [
        {
          run_id: uuid(60),
          session_id: null,
          issue_id: "SHOP-131",
          issue_title: "Refunds above a thousand",
          stage: "implement",
          id: `${uuid(60)}.0123456789abcdef`,
          gate: "before",
          since: ago(25 * MINUTE),
          until: fromNow(20 * 60 * MINUTE),
          on_timeout: "deny",
          detail: "a person must approve the start",
        },
        {
          run_id: uuid(61),
          session_id: uuid(9),
          issue_id: HOSTILE_ID,
          issue_title: HOSTILE_TITLE,
          stage: "plan",
          id: "call-1",
          gate: "call",
          call: { tool: "Bash", command: 'git push; echo "<b>bold</b>"' },
          since: ago(2 * MINUTE),
          until: fromNow(10 * MINUTE),
          on_timeout: "deny",
          detail: 'a person must approve a call of `Bash`: git push; echo "<b>bold</b>"',
        },
      ],
      parked: [
        {
          run_id: uuid(50),
          issue_id: "SHOP-88",
          stage: "implement",
          since: ago(52 * MINUTE),
          reason: "attempts_used_up",
          detail:
            "3 attempts failed. The last: verify failed: test payments::refund ... FAILED (assertion failed: left == right)",
          freed_by: "a change of the issue's title, description or state, or `vik retry SHOP-88`",
        },
        {
          run_id: uuid(51),
          issue_id: "SHOP-120",
          stage: "review",
          since: ago(8 * MINUTE),
          reason: "no_progress",
          detail: "The attempt succeeded, but no state, commit or file changed.",
          freed_by: "a change of the issue, or `vik retry SHOP-120`",
        },
      ],
      waiting: [
        {
          run_id: uuid(60),
          issue_id: "SHOP-131",
          stage: "implement",
          reason: "backing_off",
          detail: "after a network error",
          until: fromNow(3 * MINUTE),
          attempts: 1,
        },
        {
          run_id: uuid(61),
          issue_id: "SHOP-133",
          stage: "implement",
          reason: "quota",
          detail: "the provider's window resets",
          until: fromNow(47 * MINUTE),
          attempts: 2,
        },
        {
          run_id: null,
          issue_id: "SHOP-135",
          stage: "implement",
          reason: "blocked",
          detail: "blocked by SHOP-142",
          until: null,
          attempts: 0,
        },
        {
          run_id: null,
          issue_id: "SHOP-136",
          stage: "plan",
          reason: "slot",
          detail: "4 of 4 issues run",
          until: null,
          attempts: 0,
        },
      ],
      waiting_more: 0,
      paused: false,
      paused_issues: [],
      workflow: {
        loaded_at: ago(3 * 3600_000),
        rejected: null,
        needs_restart: [],
        stages: [
          { stage: "plan", when_state: "To do", agent: "vex" },
          { stage: "implement", when_state: "In progress", agent: "codex-default" },
          { stage: "review", when_state: "In review", agent: "claude" },
          { stage: "release", when_state: "Approved", agent: "codex-default" },
        ],
      },
      day: day(),
      ledger: { path: "/home/me/.vik/vik.db", error: null },
      api: { address: "127.0.0.1:8080" },
      notify: [{ name: "team", undelivered: 0, failures_in_a_row: 0, failing_since: null, error: null, given_up: 0 }],
      webhooks: { address: "127.0.0.1:8081" },
    },
    issues: [],
    log: makeLog(),
    pulls: makePulls(),
    events: new Map(),
    ended: new Set([FAILED]),
  };
  const { status } = world;
  for (const running of status.sessions)
    world.issues.push(
      issueView(running.issue_id, running.issue_title, "In progress", [
        stageView(running.stage, "running", {
          session_id: running.session_id,
          run_id: uuid(70),
          attempts: running.attempt,
        }),
      ]),
    );
  for (const parked of status.parked)
    world.issues.push(
      issueView(parked.issue_id, TITLES[2], "In progress", [
        stageView(parked.stage, "held", {
          run_id: parked.run_id,
          attempts: 3,
          last_outcome: "failed",
          last_class: "verify",
          hold: { ...hold("parked", parked.detail, { since: parked.since, freed_by: parked.freed_by }) },
        }),
      ]),
    );
  for (const waiting of status.waiting)
    world.issues.push(
      issueView(
        waiting.issue_id,
        status.approvals.find((approval) => approval.issue_id === waiting.issue_id)?.issue_title ??
          TITLES[world.issues.length % 10],
        waiting.stage === "plan" ? "To do" : "In progress",
        [
          stageView(waiting.stage, "waiting", {
            attempts: waiting.attempts,
            hold: hold(waiting.reason, waiting.detail, { until: waiting.until }),
          }),
        ],
      ),
    );
  world.issues.push(issueView("SHOP-140", TITLES[5], "To do", [stageView("plan", "ready")]));
  world.issues.push(
    issueView(
      "SHOP-141",
      TITLES[6],
      "To do",
      [stageView("plan", "waiting", { hold: hold("paused", "a person paused it") })],
      { paused: true },
    ),
  );
  world.issues.push(
    issueView("SHOP-101", TITLES[7], "Done", [], { hold: hold("terminal", "Done is a terminal state") }),
  );
  world.issues.push(
    issueView("SHOP-102", TITLES[8], "Icebox", [], { hold: hold("no_stage", "no stage has the state “Icebox”") }),
  );
  world.runs = [
    pastRun(-1, {
      issue_id: HOSTILE_ID,
      issue_title: HOSTILE_TITLE,
      stage: "plan",
      state: "running",
      outcome: null,
      attempts: [attempt(1, HOSTILE_SESSION, null)],
    }),
    ...Array.from({ length: 130 }, (_, n) => pastRun(n, n === 4 ? { state: "parked" } : {})),
  ];
  world.issues.sort((a, b) => (a.issue_id < b.issue_id ? -1 : 1));
  world.events.set(
    LIVE,
    Array.from({ length: 37 }, (_, index) => event(index + 1)),
  );
  world.events.set(HOSTILE_SESSION, hostileEvents());
  world.events.set(FAILED, [
    ...Array.from({ length: 24 }, (_, index) => event(index + 1)),
    {
      seq: 25,
      at: ago(40 * MINUTE),
      kind: "error",
      message: "stream disconnected before completion",
      fatal: true,
      failure_class: "network",
      http_status: 502,
    },
    {
      seq: 26,
      at: ago(40 * MINUTE),
      kind: "completed",
      ok: false,
      message: "I could not finish: the tests of `payments` still fail.",
      reason: "error",
    },
    {
      seq: 27,
      at: ago(40 * MINUTE),
      kind: "ended",
      outcome: "failed",
      failure_class: "verify",
      exit_code: 1,
      signal: null,
      duration_ms: 412_000,
      usage: usage(100, 20),
      cost_usd: 0.9,
      cost_source: "reported",
      reason: "verify failed: test payments::refund ... FAILED",
    },
  ]);
  return world;
}

export function attempt(n, session, outcome, overrides = {}) {
  return {
    attempt: n,
    session_id: session,
    outcome,
    failure_class: null,
    reason: null,
    exit_code: outcome ? 0 : null,
    started_at: ago((60 - n * 10) * MINUTE),
    ended_at: outcome ? ago((54 - n * 10) * MINUTE) : null,
    duration_ms: outcome ? 6 * MINUTE : null,
    usage: usage(320_000, 12_000),
    cost_usd: 0.9,
    cost_source: "reported",
    charged: outcome ? { tokens: 332_000, cost_usd: 0.9 } : null,
    resumed_from: null,
    proof: "pid_namespace",
    hooks_run_twice: [],
    log: "/home/me/.vik/x.jsonl",
    ...overrides,
  };
}

const OUTCOMES = ["succeeded", "succeeded", "failed", "succeeded", "timed_out", "succeeded", "over_budget"];

/** Returns a run of the history, `n` runs ago. */
export function pastRun(n, overrides = {}) {
  const stage = ["implement", "review", "plan"][n % 3];
  const outcome = OUTCOMES[n % OUTCOMES.length];
  const started = (n + 1) * 47 * MINUTE;
  const attempts = Array.from({ length: outcome === "succeeded" ? 1 : 3 }, (_, index) =>
    attempt(index + 1, n === 2 ? FAILED : uuid(1000 + n * 10 + index), index ? outcome : (OUTCOMES[n % 7] ?? null), {
      started_at: ago(started - index * 9 * MINUTE),
      ended_at: ago(started - index * 9 * MINUTE - 6 * MINUTE),
      cost_source: n % 3 === 1 ? "estimate" : "reported",
    }),
  );
  return {
    run_id: uuid(900_000 - n),
    issue_id: n % 4 === 3 ? String(400 - n) : `SHOP-${400 - n}`,
    issue_title: TITLES[n % 10],
    stage,
    state: "ended",
    outcome,
    agent: { implement: "codex-default", review: "claude", plan: "vex" }[stage],
    attempts,
    ...overrides,
  };
}

/** Returns the runs of the history that a query selects, newest first. */
export function runs(world, params) {
  const period = /^(\d+)([hd])$/.exec(params.get("since") ?? "");
  const since = period ? Date.now() - period[1] * { h: 3600_000, d: 86_400_000 }[period[2]] : 0;
  const equals = (name, value) => !params.get(name) || params.get(name) === value;
  const text = (params.get("q") ?? "").toLowerCase();
  const selected = world.runs.filter(
    (run) =>
      equals("stage", run.stage) &&
      equals("agent", run.agent) &&
      equals("issue", run.issue_id) &&
      (!params.get("outcome") || params.get("outcome").split(",").includes(run.outcome)) &&
      `${run.issue_id} ${run.issue_title}`.toLowerCase().includes(text) &&
      Date.parse(run.attempts[0].started_at) >= since &&
      (!params.get("before") || run.run_id < params.get("before")),
  );
  const limit = Number(params.get("limit") ?? 100);
  return {
    schema: 1,
    runs: selected.slice(0, limit).map(({ agent, ...run }) => run),
    more: selected.length > limit,
  };
}

export function issueDetail(world, id) {
  const found = issueState(world, id);
  return found && { ...found, issue: found.now ? issueText(id) : null };
}

function issueState(world, id) {
  const now = world.issues.find((issue) => issue.issue_id === id);
  if (!now) {
    const past = world.runs.filter((run) => run.issue_id === id).toReversed();
    const last = past.at(-1);
    return last
      ? { schema: 1, daemon: daemonOf(world), issue_id: id, issue_title: last.issue_title, now: null, decisions: [], runs: past }
      : null;
  }
  const stage = now.stages[0];
  const running = world.status.sessions.find((session) => session.issue_id === id);
  const parked = world.status.parked.some((session) => session.issue_id === id);
  const runs = [
    {
      run_id: uuid(80),
      issue_id: id,
      issue_title: now.issue_title,
      stage: "plan",
      state: "ended",
      outcome: "succeeded",
      attempts: [attempt(1, uuid(81), "succeeded")],
    },
  ];
  if ((stage && stage.stage !== "plan") || running || parked) {
    const attempts = [
      attempt(2, uuid(82), "timed_out", {
        reason: "the stage's timeout of 1h passed",
        exit_code: null,
        cost_source: "estimate",
      }),
      attempt(3, FAILED, "failed", {
        failure_class: "verify",
        exit_code: 1,
        reason: "verify failed:\ntest payments::refund ... FAILED\nassertion `left == right` failed",
        resumed_from: uuid(82),
      }),
    ];
    if (running) attempts.push(attempt(4, running.session_id, null, { resumed_from: running.resumed_from }));
    runs.push({
      run_id: stage?.run_id ?? uuid(83),
      issue_id: id,
      issue_title: now.issue_title,
      stage: stage?.stage ?? "implement",
      state: running ? "running" : parked ? "parked" : "waiting",
      outcome: running ? null : "failed",
      attempts,
    });
  }
  if (world.notHandedOver === id) {
    runs.at(-1).state = "handing_over";
    Object.assign(runs.at(-1).attempts.at(-1), {
      outcome: "succeeded",
      failure_class: null,
      reason: null,
      hand_over_failure: "`after_run` exited with 1",
    });
  }
  const decisions = Array.from({ length: 42 }, (_, index) => ({
    at: ago((100 - index * 2) * MINUTE),
    stage: "implement",
    run_id: uuid(83),
    session_id: null,
    kind: ["matched", "waits", "started", "ended", "backs_off"][index % 5],
    detail: [
      "its state is “In progress”",
      "4 of 4 issues run",
      "attempt 2 of 3, first in priority order",
      "failed (verify)",
      "for 20s, until 14:03",
    ][index % 5],
  }));
  return { schema: 1, daemon: daemonOf(world), issue_id: id, issue_title: now.issue_title, now: { ...now }, decisions, runs };
}

const daemonOf = ({ status: { state, pid, started_at, version, workflow_path, home } }) => ({
  state,
  pid,
  started_at,
  version,
  workflow_path,
  home,
});

export function sessionDetail(world, id) {
  const live = world.status.sessions.find((session) => session.session_id === id) ?? null;
  if (!live && !world.events.has(id) && id !== LONG) return null;
  const script = (name, ok, text, reason = null) => ({
    name,
    ok,
    reason,
    duration_ms: name === "before_run" ? 1200 : null,
    output: text === null ? null : { text, left_out: name === "verify" ? 41_200 : 0 },
  });
  return {
    schema: 1,
    run_id: uuid(83),
    issue_id: live?.issue_id ?? "SHOP-88",
    issue_title: live?.issue_title ?? TITLES[2],
    stage: live?.stage ?? "implement",
    agent: live?.agent ?? "codex-default",
    runtime: "codex",
    model: live ? live.model : "gpt-5.1-codex",
    attempt:
      live && !world.ended.has(id)
        ? attempt(live.attempt, id, null, { started_at: live.since })
        : attempt(3, id, world.cancelled?.has(id) ? "cancelled" : "failed", {
            failure_class: "verify",
            exit_code: 1,
            reason: "verify failed: test payments::refund ... FAILED",
          }),
    live,
    prompt: {
      text: `You work on issue ${live?.issue_id ?? "SHOP-88"}.\n\nTitle: ${live?.issue_title ?? TITLES[2]}\n\nDo the work, commit, and move the issue on.\n`.repeat(
        3,
      ),
      left_out: 0,
    },
    scripts: [
      script("before_run", true, "Switched to a new branch 'issue/SHOP-88'\n"),
      script("prompt command 1", true, null),
      script(
        "verify",
        live ? null : false,
        "running 14 tests\ntest payments::refund ... FAILED\n\u001b[31merror\u001b[0m: test failed\n",
        live ? null : "exit status: 101",
      ),
      script("after_run", true, "pushed\n"),
    ],
  };
}
