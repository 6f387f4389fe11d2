// Starts a real Chromium, and records errors, dialogs, foreign requests and policy violations of its pages.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chromium } from "playwright-core";
import { SIGNED_IN } from "./mock.mjs";

const executablePath = process.env.CHROMIUM ?? execFileSync("which", ["chromium"], { encoding: "utf8" }).trim();

export const launch = () => chromium.launch({ executablePath, args: ["--no-sandbox"] });

/** Opens a page that is signed in to the mock. `page.assertClean()` fails if an error was recorded in it. */
export async function open(browser, url, { width = 1280, height = 900, scheme = "light", ...options } = {}) {
  const origin = new URL(url).origin;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    storageState: { cookies: [], origins: [{ origin, localStorage: [{ name: "vik.sign-in", value: SIGNED_IN }] }] },
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const failures = [];
  page.on("dialog", (dialog) => {
    failures.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("pageerror", (error) => failures.push(`error: ${error.stack}`));
  page.on("console", (message) => {
    // The browser logs failed requests itself; the page shows them.
    if (message.type() === "error" && !/Failed to load resource|ERR_/.test(message.text()))
      failures.push(`console: ${message.text()}`);
    if (/Content Security Policy|TrustedHTML|Trusted ?Type/i.test(message.text()))
      failures.push(`policy: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith("data:"))
      failures.push(`request: ${request.url()}`);
  });
  page.assertClean = () => assert.deepEqual(failures, []);
  await page.goto(url);
  return page;
}

/** Waits until a page of the dashboard shows its data, and gets live updates. */
export async function waitUntilDrawn(page) {
  await page.locator("main h1").waitFor();
  await page.waitForFunction(
    () => !/Loading…/.test(document.getElementById("main").innerText) && !document.querySelector(".event.loading"),
  );
  await page.getByText("Live updates").waitFor({ state: "attached" });
}

export const hasNoHorizontalScroll = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth);
