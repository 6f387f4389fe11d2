// What a person may tell the daemon.

import { part, post } from "./api.js";
import { confirm, say } from "./ui.js";
import { cut } from "./visible.js";
import { many } from "./format.js";
import { store } from "./store.js";

const busy = new Set();

/** Sends it once, however often the button is pressed, and tells what came of it. */
async function steer(key, path, body, done) {
  if (busy.has(key)) return;
  busy.add(key);
  try {
    const { count, nothing } = await post(path, body);
    if (nothing) say(nothing, "wait");
    else say(done(count ?? 0));
  } catch (problem) {
    say(problem.hint ? `${problem.message} ${problem.hint}` : problem.message, "bad");
  } finally {
    busy.delete(key);
    store.reload(0);
  }
}

const name = (id) => cut(String(id), 40);

export async function cancel(issueId) {
  const sure = await confirm({
    title: `Cancel ${name(issueId)}?`,
    text: "The agent is stopped, and the stage is parked until you retry it. The changes in its workspace are kept.",
    yes: "Cancel the attempt",
    danger: true,
  });
  if (sure)
    await steer(
      `cancel ${issueId}`,
      `issues/${part(issueId)}/cancel`,
      {},
      (n) => `Cancelled ${many(n, "attempt")} of ${name(issueId)}.`,
    );
}

/** Retries the parked stages of an issue, or only the given one. */
export const retry = (issueId, { stage = null, attempts = null } = {}) =>
  steer(
    `retry ${issueId} ${stage}`,
    `issues/${part(issueId)}/retry`,
    { stage, attempts },
    (n) => `Retrying ${many(n, "parked stage")} of ${name(issueId)}.`,
  );

/** `yes`: let it go on. The request that was seen goes with it: another one is not answered by mistake. */
export async function answer(approval, yes) {
  const id = approval.issue_id;
  const waits = { before: "the start of", call: "a call of the agent of", after: "the result of" }[approval.gate];
  const said = await confirm({
    title: `${yes ? "Approve" : "Deny"} ${waits} ${name(id)}?`,
    text: cut(approval.detail, 1000),
    yes: yes ? "Approve" : "Deny",
    danger: !yes,
    message: yes ? "Message for the agent (optional)" : "What to do instead (optional)",
  });
  if (said === null) return;
  await steer(
    `answer ${approval.id}`,
    `issues/${part(id)}/${yes ? "approve" : "deny"}`,
    { request: approval.id, message: said || null },
    () => `${yes ? "Approved" : "Denied"}: ${name(id)}.`,
  );
}

export const pause = (issueId = null) =>
  steer(`pause ${issueId}`, "pause", { issue_id: issueId }, () =>
    issueId === null ? "Paused: no new attempts start; running attempts continue." : `${name(issueId)} is paused.`,
  );

export const resume = (issueId = null) =>
  steer(`resume ${issueId}`, "resume", { issue_id: issueId }, () =>
    issueId === null ? "Resumed." : `${name(issueId)} is resumed.`,
  );

export const refresh = () => steer("refresh", "refresh", {}, () => "Refresh requested.");

export async function drain() {
  const sure = await confirm({
    title: "Drain the daemon?",
    text: "The daemon starts no new attempts and exits when the running ones have ended. The dashboard stops with it. `vik run -d` starts the daemon again.",
    yes: "Drain",
    danger: true,
  });
  if (sure) await steer("drain", "drain", {}, (n) => `Draining: ${many(n, "attempt")} still running.`);
}
