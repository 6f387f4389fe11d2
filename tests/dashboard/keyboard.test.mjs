// A whole way through the dashboard with the keyboard alone.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { launch, open } from "./browser.mjs";
import { API_TOKEN, startMock } from "./mock.mjs";

let browser;
let mock;
before(async () => {
  browser = await launch();
  mock = await startMock();
});
after(async () => {
  await browser.close();
  await mock.close();
});

describe("the keyboard", () => {
  it("signs in, approves a start on the page of the issue, and searches the transcript of a past run", async () => {
    const page = await open(browser, mock.url, { storageState: { cookies: [], origins: [] } });
    const { keyboard } = page;
    const focused = () =>
      page.evaluate(() => {
        const el = document.activeElement;
        const { width, height } = el.getBoundingClientRect();
        const name = el.getAttribute("aria-label") ?? el.labels?.[0]?.textContent ?? el.textContent;
        return { name: name.trim(), isVisible: width > 0 && height > 0, outline: getComputedStyle(el).outlineStyle };
      });
    /** Presses a key until an element with this name has the focus, which must be visible on every step. */
    const moveTo = async (name, key = "Tab") => {
      for (let count = 0; count < 60; count++) {
        await keyboard.press(key);
        const current = await focused();
        assert.ok(current.isVisible && current.outline !== "none", `the focus on ${current.name} is visible`);
        if (current.name === name) return;
      }
      assert.fail(`no element ${name} is reached with ${key}`);
    };
    const heading = (name) => page.getByRole("heading", { name, exact: true }).waitFor();

    await heading("This browser is not signed in");
    await moveTo("Token of the HTTP API");
    await keyboard.type(API_TOKEN);
    await keyboard.press("Enter");
    await heading("Board");
    await page.locator("#approvals").waitFor();

    await moveTo("Refunds above a thousand", "j");
    await keyboard.press("Enter");
    await heading("Refunds above a thousand");
    await page.getByText("The last line.").waitFor();
    await moveTo("Approve SHOP-131, implement");
    await keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await keyboard.type("Take care of the rounding.");
    await moveTo("Approve");
    await keyboard.press("Enter");
    await page.locator("#approvals").waitFor({ state: "detached" });
    assert.equal(mock.commands.at(-1)[0], "issues/SHOP-131/approve");
    assert.equal(mock.commands.at(-1)[1].message, "Take care of the rounding.");

    await keyboard.press("h");
    await heading("History");
    await page.getByRole("row", { name: /SHOP-398/ }).waitFor();
    await moveTo("Transcript of the last attempt of SHOP-398, plan");
    await keyboard.press("Enter");
    await page.locator(".event:not(.loading)").first().waitFor();
    await keyboard.press("/");
    await keyboard.type("payments");
    await page.getByText("2 matches", { exact: true }).waitFor();
    await keyboard.press("Enter");
    await page.getByText("1 of 2 matches").waitFor();
    await keyboard.press("Enter");
    await page.locator(".matches .highlighted.kind-ended").waitFor();
    await keyboard.press("Escape");
    await page.locator('.transcript .event.highlighted[aria-posinset="27"]').waitFor();
    page.assertClean();
    await page.context().close();
  });
});
