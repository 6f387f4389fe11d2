// Tests for any daemon: the mock, or the real one whose link (from `vik status`) is in `VIK_DASHBOARD_URL`.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { hasNoHorizontalScroll, launch, open } from "./browser.mjs";
import { startMock } from "./mock.mjs";

let browser;
let mock;
let link;
// A link works once: all tests share its sign-in.
let signedIn;
before(async () => {
  browser = await launch();
  link = process.env.VIK_DASHBOARD_URL;
  if (!link) {
    mock = await startMock();
    link = `${mock.url}/login#code=a-code`;
  }
  const page = await open(browser, link, { storageState: undefined });
  await page.getByRole("heading", { name: "Board" }).waitFor();
  signedIn = { storageState: await page.context().storageState() };
  await page.context().close();
  link = new URL("/", link).href;
});
after(async () => {
  await browser.close();
  await mock?.close();
});

describe("the dashboard of any daemon", () => {
  it("shows the board, the report, and the pages of issues and sessions", async () => {
    const page = await open(browser, link, signedIn);
    await page.getByRole("heading", { name: "Board" }).waitFor();
    await page.getByRole("heading", { name: "Live sessions" }).waitFor();
    await page.locator("#top").getByText("Live").waitFor();
    for (const kind of ["/issues/", "/sessions/"]) {
      const href = await page
        .locator(`main a[href^="${kind}"]`)
        .first()
        .getAttribute("href", { timeout: 2000 })
        .catch(() => null);
      if (!href) continue;
      // A full page load, as from a bookmark.
      await page.goto(new URL(href, link).href);
      await page.locator("main h1:not(:empty)").waitFor();
      await page.locator("#main section, #main .tabs").first().waitFor();
      assert.equal(await page.getByRole("alert").count(), 0);
      await page.goBack();
      await page.getByRole("heading", { name: "Live sessions" }).waitFor();
    }
    await page.getByRole("link", { name: "Report" }).click();
    await page.getByRole("heading", { name: "By stage" }).waitFor();
    page.assertClean();
    await page.context().close();
  });

  it("sends a content security policy that blocks foreign content", async () => {
    const page = await open(browser, link, signedIn);
    const policy = (await page.request.get(new URL("/", link).href)).headers()["content-security-policy"];
    for (const rule of [
      "default-src 'none'",
      "script-src 'self'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
    ])
      assert.ok(policy?.includes(rule), `${rule} in ${policy}`);
    const isRejected = await page.evaluate(() => {
      try {
        document.createElement("p").innerHTML = "<b>x</b>";
        return false;
      } catch {
        return true;
      }
    });
    assert.ok(isRejected, "a string is never parsed as HTML");
    await page.context().close();
  });

  it("fits the screen of a phone", async () => {
    const page = await open(browser, link, { width: 360, height: 740, ...signedIn });
    await page.getByRole("heading", { name: "Live sessions" }).waitFor();
    assert.ok(await hasNoHorizontalScroll(page));
    page.assertClean();
    await page.context().close();
  });
});
