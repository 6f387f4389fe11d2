// Commands to the daemon.

import { encodeSegment, post } from "./api.js";
import { confirmDialog, showToast } from "./ui.js";
import { truncate } from "./visible.js";
import { pluralize } from "./format.js";
import { store } from "./store.js";

const pendingCommands = new Set();

/** Sends a command and shows the result. A command that is still pending is not sent again. */
async function sendCommand(key, path, body, successMessage) {
  if (pendingCommands.has(key)) return;
  pendingCommands.add(key);
  try {
    const { count, nothing } = await post(path, body);
    if (nothing) showToast(nothing, "wait");
    else showToast(successMessage(count ?? 0));
  } catch (error) {
    showToast(error.hint ? `${error.message} ${error.hint}` : error.message, "bad");
  } finally {
    pendingCommands.delete(key);
    store.reload(0);
  }
}

const shortIssueId = (id) => truncate(String(id), 40);

export async function cancel(issueId) {
  const isConfirmed = await confirmDialog({
    title: `Cancel ${shortIssueId(issueId)}?`,
    text: "The agent is stopped, and the stage is parked until you retry it. The changes in its workspace are kept.",
    confirmLabel: "Cancel the attempt",
    danger: true,
  });
  if (isConfirmed)
    await sendCommand(
      `cancel ${issueId}`,
      `issues/${encodeSegment(issueId)}/cancel`,
      {},
      (count) => `Cancelled ${pluralize(count, "attempt")} of ${shortIssueId(issueId)}.`,
    );
}

/** Retries the parked stages of an issue, or only the given one. */
export const retry = (issueId, { stage = null, attempts = null, agent = false } = {}) =>
  sendCommand(
    `retry ${issueId} ${stage}`,
    `issues/${encodeSegment(issueId)}/retry`,
    { stage, attempts, agent },
    (count) => `Retrying ${pluralize(count, "stage")} of ${shortIssueId(issueId)}.`,
  );

/** Starts a new run of a stage whose run has ended. `cost` is the formatted cost of the last run. */
export async function runAgain(issueId, { stage, agent, cost }) {
  const isConfirmed = await confirmDialog({
    title: `Run stage ${truncate(stage, 40)} of ${shortIssueId(issueId)} again?`,
    text:
      `This starts ${agent ? `the agent \`${agent}\`` : "an agent"}, which uses tokens and money. ` +
      `The last run cost ${cost}.`,
    confirmLabel: "Run again",
  });
  if (isConfirmed)
    await sendCommand(
      `run-again ${issueId} ${stage}`,
      `issues/${encodeSegment(issueId)}/run-again`,
      { stage },
      () => `${truncate(stage, 40)} of ${shortIssueId(issueId)} runs again.`,
    );
}

/** Holds the issue for a person, and stops its agent. */
export async function takeOver(issueId) {
  const isConfirmed = await confirmDialog({
    title: `Take ${shortIssueId(issueId)} over?`,
    text: "Its agent is stopped, which uses up no attempt, and nothing of the issue starts until you hand it back. Open the session of the agent with `vik takeover`.",
    confirmLabel: "Take over",
  });
  if (isConfirmed)
    await sendCommand(
      `take-over ${issueId}`,
      `issues/${encodeSegment(issueId)}/take-over`,
      {},
      () => `${shortIssueId(issueId)} is taken over.`,
    );
}

/** Ends the hold of a person. What they changed is recorded, and the next attempt gets the message. */
export async function handBack(issueId) {
  const message = await confirmDialog({
    title: `Hand ${shortIssueId(issueId)} back?`,
    text: "The changes in its workspace are recorded as yours, and its next attempt gets the list of them.",
    confirmLabel: "Hand back",
    messageLabel: "Message for the agent (optional)",
  });
  if (message === null) return;
  await sendCommand(
    `hand-back ${issueId}`,
    `issues/${encodeSegment(issueId)}/hand-back`,
    { message: message || null },
    () => `${shortIssueId(issueId)} is handed back.`,
  );
}

/** Approves or denies a request. The id of the request is sent, so that no newer request is answered by mistake. */
export async function answerApproval(approval, isApproved) {
  const id = approval.issue_id;
  const subject = { before: "the start of", call: "a call of the agent of", after: "the result of" }[approval.gate];
  const message = await confirmDialog({
    title: `${isApproved ? "Approve" : "Deny"} ${subject} ${shortIssueId(id)}?`,
    text: truncate(approval.detail, 1000),
    confirmLabel: isApproved ? "Approve" : "Deny",
    danger: !isApproved,
    messageLabel: isApproved ? "Message for the agent (optional)" : "What to do instead (optional)",
  });
  if (message === null) return;
  await sendCommand(
    `answer ${approval.id}`,
    `issues/${encodeSegment(id)}/${isApproved ? "approve" : "deny"}`,
    { request: approval.id, message: message || null },
    () => `${isApproved ? "Approved" : "Denied"}: ${shortIssueId(id)}.`,
  );
}

/**
 * Answers the question of an agent with the text of a choice, or with a text that the person writes (`choice` is null).
 * The id of the question is sent, so that no newer question is answered by mistake.
 */
export async function answerQuestion(question, choice = null) {
  const id = question.issue_id;
  const text = truncate(question.text, 1000);
  const dialog = { title: `Answer the question of ${shortIssueId(id)}?`, text, confirmLabel: "Answer" };
  if (choice === null) dialog.messageLabel = "Answer";
  else dialog.text = `${text}\n\nAnswer: ${truncate(question.choices[choice], 200)}`;
  const answer = await confirmDialog(dialog);
  if (answer === null || answer === false) return;
  await sendCommand(
    `answer question ${question.id}`,
    `issues/${encodeSegment(id)}/answer`,
    choice === null ? { question: question.id, text: answer } : { question: question.id, choice: choice + 1 },
    () => `Answered: ${shortIssueId(id)}.`,
  );
}

export const pause = (issueId = null) =>
  sendCommand(`pause ${issueId}`, "pause", { issue_id: issueId }, () =>
    issueId === null
      ? "Paused: no new attempts start; running attempts continue."
      : `${shortIssueId(issueId)} is paused.`,
  );

export const resume = (issueId = null) =>
  sendCommand(`resume ${issueId}`, "resume", { issue_id: issueId }, () =>
    issueId === null ? "Resumed." : `${shortIssueId(issueId)} is resumed.`,
  );

export const refresh = () => sendCommand("refresh", "refresh", {}, () => "Refresh requested.");

export async function drain() {
  const isConfirmed = await confirmDialog({
    title: "Stop the daemon when it is idle?",
    text: "The daemon starts no new attempts and exits when the running ones have ended. The dashboard stops with it. `vik run -d` starts the daemon again.",
    confirmLabel: "Stop when idle",
    danger: true,
  });
  if (!isConfirmed) return;
  await sendCommand("drain", "drain", {}, (count) => `Stopping when idle: ${pluralize(count, "attempt")} still running.`);
}
