// A real Chromium for a test, and a look at everything that must never happen in it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chromium } from "playwright-core";
import { SIGNED_IN } from "./mock.mjs";

const executablePath = process.env.CHROMIUM ?? execFileSync("which", ["chromium"], { encoding: "utf8" }).trim();

export const launch = () => chromium.launch({ executablePath, args: ["--no-sandbox"] });

/** A page, signed in to the mock, that records what went wrong in it; `page.clean()` fails where anything did. */
export async function open(browser, url, { width = 1280, height = 900, scheme = "light", ...more } = {}) {
  const origin = new URL(url).origin;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    storageState: { cookies: [], origins: [{ origin, localStorage: [{ name: "vik.sign-in", value: SIGNED_IN }] }] },
    ...more,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const wrong = [];
  page.on("dialog", (dialog) => {
    wrong.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("pageerror", (error) => wrong.push(`error: ${error.stack}`));
  page.on("console", (message) => {
    // The browser itself tells of answers that are not 200; the page shows those.
    if (message.type() === "error" && !/Failed to load resource|ERR_/.test(message.text()))
      wrong.push(`console: ${message.text()}`);
    if (/Content Security Policy|TrustedHTML|Trusted ?Type/i.test(message.text()))
      wrong.push(`policy: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith("data:"))
      wrong.push(`request: ${request.url()}`);
  });
  page.clean = () => assert.deepEqual(wrong, []);
  await page.goto(url);
  return page;
}

export const noSideScroll = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth);
