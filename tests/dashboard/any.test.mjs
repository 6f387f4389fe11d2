// What must hold with any daemon: with the mock, and, where `VIK_DASHBOARD_URL` has the link that `vik status` prints, with a real one.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { launch, noSideScroll, open } from "./browser.mjs";
import { startMock } from "./mock.mjs";

let browser;
let mock;
let link;
// A link works once: every page of the tests has the sign-in that it gave.
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

describe("any daemon", () => {
  it("serves the board, the report, and the pages of what is on the board", async () => {
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
      // Loaded as a whole, as from a bookmark.
      await page.goto(new URL(href, link).href);
      await page.locator("main h1:not(:empty)").waitFor();
      await page.locator("#main section, #main .tabs").first().waitFor();
      assert.equal(await page.getByRole("alert").count(), 0);
      await page.goBack();
      await page.getByRole("heading", { name: "Live sessions" }).waitFor();
    }
    await page.getByRole("link", { name: "Report" }).click();
    await page.getByRole("heading", { name: "By stage" }).waitFor();
    page.clean();
    await page.context().close();
  });

  it("sends a policy that lets nothing else in", async () => {
    const page = await open(browser, link, signedIn);
    const policy = (await page.request.get(new URL("/", link).href)).headers()["content-security-policy"];
    for (const rule of [
      "default-src 'none'",
      "script-src 'self'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
    ])
      assert.ok(policy?.includes(rule), `${rule} in ${policy}`);
    const refused = await page.evaluate(() => {
      try {
        document.createElement("p").innerHTML = "<b>x</b>";
        return false;
      } catch {
        return true;
      }
    });
    assert.ok(refused, "a string is never taken as HTML");
    await page.context().close();
  });

  it("fits a phone", async () => {
    const page = await open(browser, link, { width: 360, height: 740, ...signedIn });
    await page.getByRole("heading", { name: "Live sessions" }).waitFor();
    assert.ok(await noSideScroll(page));
    page.clean();
    await page.context().close();
  });
});
