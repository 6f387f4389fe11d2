// Sentences of the daemon: text between backticks is code, and names of reasons are words.

import { h } from "./dom.js";
import { humanize } from "./format.js";

/** Codes of the API that messages can contain. Names of hooks and of keys of the workflow are none. */
const CODES = [
  "agent_slot",
  "attempts_used_up",
  "backing_off",
  "bad_intent",
  "day_limit",
  "hand_over",
  "issue_limit",
  "no_progress",
  "no_stage",
  "no_worker",
  "open_files",
  "other_stage",
  "over_budget",
  "scope_conflict",
  "stage_slot",
  "timed_out",
  "unproven_end",
];
const CODE = new RegExp(`\\b(${CODES.join("|")})\\b`);

/** Returns a code of the API as words; its title is the code. */
export const codeWords = (code, words = humanize(code)) => h("span", { title: code }, words);

const plain = (text) => text.split(CODE).map((part, index) => (index % 2 ? codeWords(part) : part));

/** Returns a sentence as nodes. */
export const prose = (text) =>
  String(text ?? "")
    .split(/`([^`\n]+)`/)
    .map((part, index) => (index % 2 ? h("code", {}, part) : plain(part)));
