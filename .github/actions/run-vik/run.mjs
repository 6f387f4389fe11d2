// Runs `vik run --once` for one issue, writes the report to the summary of the job, and adds an annotation for each
// stage that did not succeed. Exits as `vik run` did. Reads VIK_ISSUE and VIK_WORKFLOW.

import { spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { appendFileSync } from "node:fs";
import { constants } from "node:os";

import { annotations, escape } from "./annotations.mjs";

const RESULTS = {
  0: "done",
  1: "a run failed, or its work could not be handed over",
  3: "the workflow is invalid",
  7: "a limit on money, tokens or attempts stopped the work",
  8: "no pull brought the issue in the state of a stage",
  9: "no progress: no state, commit or file changed",
  10: "something waits: a back-off, a quota window, a blocker, or a parked stage",
  130: "stopped by a signal",
};

function output(args) {
  const result = spawnSync("vik", args, { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
  return result.status === 0 ? result.stdout : null;
}

function append(variable, text) {
  const path = process.env[variable];
  if (path) {
    appendFileSync(path, text);
  }
}

/// Runs Vik and returns its exit code. Its output contains text of issues and agents, which must not become commands.
function run(args) {
  const token = randomUUID();
  process.stdout.write(`::stop-commands::${token}\n`);
  // Before the start, so that no signal ends this process alone.
  for (const signal of ["SIGINT", "SIGTERM"]) {
    process.on(signal, () => child.kill(signal));
  }
  const child = spawn("vik", args, { stdio: ["ignore", "inherit", "inherit"] });
  return new Promise((resolve) => {
    const end = (code) => {
      process.stdout.write(`\n::${token}::\n`);
      resolve(code);
    };
    child.on("error", (error) => {
      process.stdout.write(`\n::${token}::\n::error title=run-vik::${escape(`cannot start vik: ${error.message}`)}\n`);
      resolve(127);
    });
    child.on("exit", (code, signal) => end(code ?? 128 + constants.signals[signal]));
  });
}

async function main() {
  const { VIK_ISSUE: issue, VIK_WORKFLOW: workflow } = process.env;
  if (!issue) {
    process.stdout.write("::error title=run-vik::the input `issue` is empty\n");
    return 2;
  }
  const since = new Date().toISOString();
  const code = await run(["run", "--once", `--issue=${issue}`, `--workflow=${workflow}`]);
  append("GITHUB_OUTPUT", `exit-code=${code}\n`);
  const result = RESULTS[code] ?? "an error: see the log of the job";
  const report = output(["report", "--markdown", `--since=${since}`, `--workflow=${workflow}`]) ?? "";
  append("GITHUB_STEP_SUMMARY", `${report}\nExit code ${code}: ${result}.\n`);
  const runs = output(["runs", "--json", `--since=${since}`, `--issue=${issue}`, `--workflow=${workflow}`]);
  const lines = code === 0 || runs === null ? [] : annotations(JSON.parse(runs));
  if (lines.length === 0 && code !== 0) {
    lines.push(`::error title=run-vik::exit code ${code}: ${escape(result)}`);
  }
  for (const line of lines) {
    process.stdout.write(`${line}\n`);
  }
  return code;
}

process.exitCode = await main();
