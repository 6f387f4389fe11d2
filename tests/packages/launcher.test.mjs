// The launcher of the package for npm, with a program that the test controls.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";

const SOURCE = new URL("../../xtask/dist/npm/vik.js", import.meta.url).pathname;

let folder;
let launcher;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "vik-launcher-"));
  const own = join(folder, "node_modules/@vik-sh/vik/bin");
  mkdirSync(own, { recursive: true });
  launcher = join(own, "vik.js");
  copyFileSync(SOURCE, launcher);
});

afterEach(() => rmSync(folder, { recursive: true }));

function install(script) {
  const bin = join(folder, `node_modules/@vik-sh/vik-${process.platform}-${process.arch}/bin`);
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, "vik"), `#!/bin/sh\n${script}\n`);
  chmodSync(join(bin, "vik"), 0o755);
}

const run = (...args) => spawnSync(process.execPath, [launcher, ...args], { encoding: "utf8" });

/// Starts the launcher and sends a signal to it alone, once the program has printed `ready`.
async function signal(name) {
  const child = spawn(process.execPath, [launcher]);
  const exit = new Promise((resolve) => child.on("exit", (code, signal) => resolve(code ?? signal)));
  for await (const chunk of child.stdout) {
    if (String(chunk).includes("ready")) {
      child.kill(name);
    }
  }
  return exit;
}

test("launcher passes arguments, output and exit code on", () => {
  install(`printf '<%s>' "$@"; exit 7`);
  const result = run("run", "--once", "two words", "");
  assert.equal(result.stdout, "<run><--once><two words><>");
  assert.equal(result.status, 7);
});

test("launcher without the package of its platform names it", () => {
  const result = run("--version");
  assert.equal(result.status, 1);
  assert.match(result.stderr, /^error: the package @vik-sh\/vik-\w+-\w+ is not installed\n  hint: /);
});

test("launcher passes SIGTERM on, and the program decides how it ends", async () => {
  install("trap 'exit 3' TERM; echo ready; for i in $(seq 100); do sleep 0.1; done");
  assert.equal(await signal("SIGTERM"), 3);
});

test("launcher leaves a signal of the terminal to the program", async () => {
  install("echo ready; sleep 0.5; exit 4");
  assert.equal(await signal("SIGINT"), 4);
});

test("launcher reports a program that a signal ended", () => {
  install("kill -KILL $$");
  assert.equal(run().status, 128 + 9);
});
