// The text of an issue, a diff and a report of the mock daemon.

import { HOSTILE_ID, HOSTILE_TITLE, MINUTE, PATCH, ago } from "./world_events.mjs";

const TEXT = `A refund of more than a thousand fails with “amount out of range”.

Steps:
1. Open an order above 1,000.
2. Choose *Refund*, then *All*.

Expected: the money goes back in one transfer. Actual: the page shows an error, and the order stays open.
`;

/** Returns the text of an issue: a long one, a hostile one, or a short one. */
export function issueText(id) {
  const description =
    id === "SHOP-131"
      ? `${TEXT}\nThese orders are affected:\n${Array.from({ length: 30 }, (_, n) => `Order ${1001 + n}: ${(n + 1) * 1250}.00 refused.\n`).join("")}The last line.`
      : id === HOSTILE_ID
        ? HOSTILE_TITLE
        : TEXT;
  return { description, is_cut: false, author: id === HOSTILE_ID ? HOSTILE_TITLE : "nora", created_at: ago(3 * 86_400_000) };
}

export const diff = () => ({
  schema: 1,
  base: "4350426aa01c9e0b7a3f",
  branch: "vik/88",
  commits: [
    { id: "9f1c2d3e4a5b60718293a4b5c6d7e8f901234567", subject: "Insert all rows at once", author: "codex", at: ago(50 * MINUTE) },
    { id: "1a2b3c4d5e6f708192a3b4c5d6e7f80912345678", subject: "Test <b>empty</b> imports \u202e", author: "codex", at: ago(45 * MINUTE) },
  ],
  commits_left_out: 2,
  files: [
    { path: "src/import/batch.rs", change: "modified", added: 4, removed: 3, patch: PATCH },
    {
      path: "src/import/<img src=x onerror=alert(1)>.rs",
      change: "added",
      added: 2,
      removed: 0,
      patch: "@@ -0,0 +1,2 @@\n+//! \u202eHidden.\n+fn main() {}\n",
    },
    { path: "assets/logo.png", change: "modified", added: 0, removed: 0, patch: null },
    { path: "docs/old.md", change: "deleted", added: 0, removed: 2, patch: "@@ -1,2 +0,0 @@\n-# Old\n-Gone.\n" },
  ],
  files_left_out: 3,
  note: null,
});

export function report(since) {
  const parts = { "24h": 24, "7d": 28, "30d": 30 }[since] ?? 24;
  const part_ms = { "24h": 3600_000, "7d": 6 * 3600_000, "30d": 86_400_000 }[since] ?? 3600_000;
  const series = Array.from({ length: parts }, (_, index) => {
    const wave = Math.max(0, Math.round(3 + 3 * Math.sin(index / 2.2) + (index % 5) - 2));
    return {
      at: ago((parts - index) * part_ms),
      started: wave,
      succeeded: Math.max(0, wave - (index % 3)),
      failed: Math.min(wave, index % 3),
      spent: { tokens: wave * 61_000, cost_usd: wave * 0.21, estimated_usd: wave * 0.02 },
    };
  });
  const sum = (getValue) => series.reduce((all, part) => all + getValue(part), 0);
  const figures = (share) => ({
    runs: Math.round(41 * share),
    attempts: Math.round(60 * share),
    succeeded: Math.round(sum((p) => p.succeeded) * share),
    failed: Math.round(sum((p) => p.failed) * share),
    spent: {
      tokens: Math.round(sum((p) => p.spent.tokens) * share),
      cost_usd: sum((p) => p.spent.cost_usd) * share,
      estimated_usd: sum((p) => p.spent.estimated_usd) * share,
    },
    duration_ms: 9 * 3600_000 * share,
    median_duration_ms: 412_000,
  });
  return {
    schema: 1,
    since: ago(parts * part_ms),
    until: ago(0),
    total: figures(1),
    issues: 31,
    issues_succeeded: 24,
    cost_per_succeeded_issue_usd: 0.61,
    stages: ["implement", "plan", "review"].map((stage, index) => ({ stage, ...figures([0.6, 0.25, 0.15][index]) })),
    agents: ["claude", "codex-default", "vex"].map((agent, index) => ({ agent, ...figures([0.3, 0.5, 0.2][index]) })),
    series,
    part_ms,
  };
}
