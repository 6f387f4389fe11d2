#!/usr/bin/env node
// Starts the program from the package of this platform. npm has selected that package from the
// optional dependencies; no script ran at the installation.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const platform = `${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`@vik-sh/vik-${platform}/bin/vik`);
} catch {
  console.error(`error: the package @vik-sh/vik-${platform} is not installed`);
  console.error(
    process.platform === "linux"
      ? "  hint: install without `--omit=optional`; there are packages for x64 and arm64"
      : "  hint: there are packages for Linux only; build from source, or use WSL 2 on Windows",
  );
  process.exit(1);
}

// The handlers come first: a signal that arrives once the program runs must not end this process alone.
// A terminal sends these to both processes; the program decides how it ends.
for (const signal of ["SIGINT", "SIGQUIT", "SIGHUP"]) {
  process.on(signal, () => {});
}
// A service manager sends this to one.
process.on("SIGTERM", () => child.kill("SIGTERM"));
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`error: cannot start ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  process.exit(signal === null ? code : 128 + constants.signals[signal]);
});
