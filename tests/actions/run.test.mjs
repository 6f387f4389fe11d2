// The script of the action run-vik, with a `vik` that the test controls. With VIK_PROGRAM, also with the real one.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";

import { annotations, escape } from "../../.github/actions/run-vik/annotations.mjs";

const SCRIPT = new URL("../../.github/actions/run-vik/run.mjs", import.meta.url).pathname;

let folder;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "run-vik-"));
  mkdirSync(join(folder, "programs"));
});

afterEach(() => rmSync(folder, { recursive: true }));

/// Installs a `vik` whose verb `run` executes `script` of a shell, and whose other verbs print what is given.
function install(script, { report = "## Report\n", runs = [] } = {}) {
  writeFileSync(join(folder, "report"), report);
  writeFileSync(join(folder, "runs"), JSON.stringify(runs));
  const path = join(folder, "programs/vik");
  const verbs = `run) ${script} ;; report) cat ${folder}/report ;; runs) cat ${folder}/runs ;;`;
  writeFileSync(path, `#!/bin/sh\nprintf '<%s>' "$@" >>${folder}/calls\necho >>${folder}/calls\ncase $1 in ${verbs} esac\n`);
  chmodSync(path, 0o755);
}

function environment(inputs) {
  return {
    PATH: `${join(folder, "programs")}:${process.env.PATH}`,
    HOME: folder,
    GITHUB_OUTPUT: join(folder, "output"),
    GITHUB_STEP_SUMMARY: join(folder, "summary"),
    VIK_ISSUE: "7",
    VIK_WORKFLOW: "workflow.yml",
    ...inputs,
  };
}

function run(inputs = {}) {
  return spawnSync(process.execPath, [SCRIPT], { cwd: folder, encoding: "utf8", env: environment(inputs) });
}

const read = (name) => readFileSync(join(folder, name), "utf8");

function failedRun(values) {
  const attempt = { reason: "the tests failed", failure_class: "verify", hand_over_failure: null };
  return { issue_id: "7", issue_title: "Fix it", stage: "implement", outcome: "failed", attempts: [attempt], ...values };
}

test("run passes the exit code on and writes the summary", () => {
  for (const code of [0, 1, 10]) {
    install(`exit ${code}`);
    assert.equal(run().status, code);
    assert.match(read("output"), new RegExp(`exit-code=${code}\n$`));
  }
  assert.match(read("summary"), /## Report\n\nExit code 0: done\.\n/);
  assert.match(read("summary"), /Exit code 10: something waits/);
});

test("run gives an issue as one argument", () => {
  install("exit 0");
  run({ VIK_ISSUE: "--detach $(touch executed)" });
  assert.match(read("calls"), /^<run><--once><--issue=--detach \$\(touch executed\)><--workflow=workflow.yml>\n/);
});

test("run without an issue does not start vik", () => {
  install("exit 0");
  const result = run({ VIK_ISSUE: "" });
  assert.equal(result.status, 2);
  assert.throws(() => read("calls"));
});

test("output of vik cannot become a workflow command", () => {
  install("echo '::set-env name=PATH::/tmp'; echo '::add-mask::a'; printf '::x'");
  const lines = run().stdout.split("\n");
  const token = lines[0].match(/^::stop-commands::([0-9a-f-]{36})$/)[1];
  const end = lines.indexOf(`::${token}::`);
  assert.ok(lines.indexOf("::x") < end && lines.indexOf("::add-mask::a") < end, lines.join("\n"));
});

test("failed stages become annotations with escaped text", () => {
  const hostile = failedRun({ issue_title: "100%\r\n::set-env name=A::b", issue_id: "a,b:c" });
  install("exit 1", { runs: [hostile, { ...failedRun(), outcome: "succeeded" }] });
  const lines = run().stdout.split("\n").filter((line) => line.startsWith("::error"));
  assert.deepEqual(lines, [
    "::error title=implement of issue a%2Cb%3Ac%3A failed::100%25%0D%0A::set-env name=A::b: the tests failed",
  ]);
});

test("an exit code without a failed stage becomes an annotation", () => {
  install("exit 8");
  assert.match(run().stdout, /^::error title=run-vik::exit code 8: no pull brought/m);
});

test("a missing vik is an error", () => {
  const result = run({ PATH: "/nonexistent" });
  assert.equal(result.status, 127);
  assert.match(result.stdout, /^::error title=run-vik::cannot start vik: /m);
});

test("annotations are cut and name the cause that exists", () => {
  assert.equal(escape("x".repeat(5000)).length, 1000);
  const attempt = { reason: null, hand_over_failure: null, failure_class: "agent_exit" };
  assert.match(annotations([failedRun({ attempts: [attempt] })])[0], /::Fix it: agent_exit$/);
  assert.match(annotations([failedRun({ attempts: [] })])[0], /::Fix it$/);
  assert.deepEqual(annotations([failedRun({ outcome: null })]), []);
});

test("a signal is passed on to vik, which decides how it ends", async () => {
  install(`trap 'exit 130' TERM; echo ready; for i in $(seq 100); do sleep 0.1; done`);
  const child = spawn(process.execPath, [SCRIPT], { cwd: folder, env: environment({}) });
  const exit = new Promise((resolve) => child.on("exit", (code, signal) => resolve(code ?? signal)));
  let text = "";
  for await (const chunk of child.stdout) {
    text += chunk;
    if (text.includes("ready\n") && !text.includes("::error")) {
      child.kill("SIGTERM");
    }
  }
  assert.equal(await exit, 130);
});

test("the real vik works on one issue", { skip: !process.env.VIK_PROGRAM }, () => {
  const workflow = `
agents: {a: {runtime: command, command: [sh, -c, 'echo working; exit 3'], sandbox: off}}
issues: {pull: {command: cat issues.json}}
issue:
  stages:
    work: {when: {state: todo}, agent: a, prompt: do it, retry: {max_attempts: 1}}
`;
  writeFileSync(join(folder, "workflow.yml"), workflow);
  writeFileSync(join(folder, "issues.json"), '[{"id": "7", "title": "A, b: c%", "state": "todo"}]');
  const result = run({
    PATH: `${dirname(process.env.VIK_PROGRAM)}:${process.env.PATH}`,
    XDG_STATE_HOME: join(folder, "state"),
  });
  assert.equal(result.status, 1, result.stdout + result.stderr);
  assert.match(result.stdout, /^::error title=work of issue 7%3A failed::A, b: c%25: /m);
  assert.match(read("summary"), /^## Vik: [^]*Exit code 1: a run failed/);
});
