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
    text: "The agent is stopped, and the stage is parked until you free it. What it changed in its workspace stays.",
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

export const unpark = (issueId, attempts = null) =>
  steer(
    `unpark ${issueId}`,
    `issues/${part(issueId)}/unpark`,
    { attempts },
    () => `${name(issueId)} is free to start again.`,
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
    message: yes ? "A message for the agent (may stay empty)" : "What to do instead (may stay empty)",
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
    issueId === null ? "Paused: nothing new starts; what runs goes on." : `${name(issueId)} is paused.`,
  );

export const goOn = (issueId = null) =>
  steer(`continue ${issueId}`, "continue", { issue_id: issueId }, () =>
    issueId === null ? "Work goes on." : `${name(issueId)} goes on.`,
  );

export const refresh = () => steer("refresh", "refresh", {}, () => "Asked the tracker anew.");

export async function drain() {
  const sure = await confirm({
    title: "Drain the daemon?",
    text: "It starts nothing more and ends when what runs has ended. The dashboard ends with it; `vik run -d` starts it again.",
    yes: "Drain",
    danger: true,
  });
  if (sure) await steer("drain", "drain", {}, (n) => `Draining: ${many(n, "attempt")} still run.`);
}
