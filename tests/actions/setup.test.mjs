// The script of the action setup-vik, with a release on the local disk, and a `gh` that the test controls.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";

const SCRIPT = new URL("../../.github/actions/setup-vik/setup.sh", import.meta.url).pathname;
const NAME = `vik-1.2.3-${process.arch === "arm64" ? "aarch64" : "x86_64"}-unknown-linux-musl`;

let folder;
let archive;

function program(name, text) {
  const path = join(folder, "programs", name);
  writeFileSync(path, `#!/bin/sh\n${text}\n`);
  chmodSync(path, 0o755);
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "setup-vik-"));
  for (const name of ["programs", "runner", "downloads/v1.2.3", `${NAME}/bin`]) {
    mkdirSync(join(folder, name), { recursive: true });
  }
  program("gh", `echo "$@" >>${folder}/gh.log`);
  writeFileSync(join(folder, NAME, "bin/vik"), "#!/bin/sh\necho vik 1.2.3\n");
  chmodSync(join(folder, NAME, "bin/vik"), 0o755);
  archive = join(folder, "downloads/v1.2.3", `${NAME}.tar.gz`);
  assert.equal(spawnSync("tar", ["-czf", archive, "-C", folder, NAME]).status, 0);
  writeFileSync(join(folder, "downloads/v1.2.3/SHA256SUMS"), `${"0".repeat(64)}  other\n${sum()}  ${NAME}.tar.gz\n`);
});

afterEach(() => rmSync(folder, { recursive: true }));

function sum() {
  return createHash("sha256").update(readFileSync(archive)).digest("hex");
}

function setup(inputs = {}) {
  const { PATH = `${join(folder, "programs")}:${process.env.PATH}`, ...values } = inputs;
  return spawnSync("bash", [SCRIPT], {
    encoding: "utf8",
    env: {
      PATH,
      RUNNER_TEMP: join(folder, "runner"),
      GITHUB_PATH: join(folder, "path"),
      GITHUB_OUTPUT: join(folder, "output"),
      VIK_DOWNLOADS: `file://${folder}/downloads`,
      VIK_VERSION: "1.2.3",
      VIK_SHA256: "",
      ...values,
    },
  });
}

function assertRefused(result, message) {
  assert.equal(result.status, 1, result.stdout + result.stderr);
  assert.match(result.stdout, message);
  assert.ok(!existsSync(join(folder, "path")), "nothing is added to the PATH");
}

test("setup adds a verified release to the PATH", () => {
  const result = setup({ VIK_VERSION: "v1.2.3" });
  assert.equal(result.status, 0, result.stdout + result.stderr);
  const added = readFileSync(join(folder, "path"), "utf8").trim();
  assert.equal(spawnSync(join(added, "vik"), { encoding: "utf8" }).stdout, "vik 1.2.3\n");
  assert.equal(readFileSync(join(folder, "output"), "utf8"), "version=1.2.3\n");
  const call = readFileSync(join(folder, "gh.log"), "utf8");
  assert.match(call, /^attestation verify .*\.tar\.gz --repo vik-sh\/vik --signer-workflow vik-sh\/vik\/\.github\//);
});

test("setup accepts the checksum of the input", () => {
  rmSync(join(folder, "downloads/v1.2.3/SHA256SUMS"));
  assert.equal(setup({ VIK_SHA256: sum() }).status, 0);
});

test("setup refuses another archive than that of the checksum", () => {
  assertRefused(setup({ VIK_SHA256: "1".repeat(64) }), /^::error title=setup-vik::the checksum of /m);
  writeFileSync(archive, "replaced");
  assertRefused(setup(), /^::error title=setup-vik::the checksum of /m);
});

test("setup refuses an archive without a valid attestation", () => {
  program("gh", "exit 1");
  assertRefused(setup(), /has no valid attestation/);
});

test("setup refuses an archive that SHA256SUMS does not list", () => {
  writeFileSync(join(folder, "downloads/v1.2.3/SHA256SUMS"), `${sum()}  ${NAME}.zip\n`);
  assertRefused(setup(), /does not list/);
});

test("setup without gh requires a checksum", () => {
  for (const name of ["bash", "uname", "curl", "sha256sum", "tar", "gzip", "awk", "mktemp", "sh", "cat"]) {
    program(name, `exec ${spawnSync("which", [name], { encoding: "utf8" }).stdout.trim()} "$@"`);
  }
  rmSync(join(folder, "programs/gh"));
  const PATH = join(folder, "programs");
  const alone = (inputs) => setup({ ...inputs, PATH });
  assertRefused(alone(), /`gh` is not installed/);
  const result = alone({ VIK_SHA256: sum() });
  assert.equal(result.status, 0, result.stdout + result.stderr);
});

test("setup refuses values that are no version or checksum", () => {
  for (const version of ["latest", "", "1.2.3/../..", "1.2.3\n::set-env name=a::b", "$(id)"]) {
    const result = setup({ VIK_VERSION: version });
    assertRefused(result, /^::error title=setup-vik::version: expected/);
    assert.equal(result.stdout.trimEnd().split("\n").length, 1, "an input cannot add a command");
  }
  assertRefused(setup({ VIK_SHA256: "abc" }), /sha256: expected/);
});
