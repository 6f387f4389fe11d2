import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, describe, it } from "node:test";
import { hasNoHorizontalScroll, launch, open } from "./browser.mjs";
import { startMock } from "./mock.mjs";
import { FAILED, HOSTILE_ID, HOSTILE_SESSION, LIVE, issueView } from "./world.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SIGNED_OUT = "the page of a browser that is not signed in";
const PAGES = {
  [SIGNED_OUT]: "/",
  "the board": "/",
  "an issue": "/issues/SHOP-88",
  "a finished issue": "/issues/SHOP-400",
  "an address without a page": "/nothing",
  "a running issue": "/issues/SHOP-97",
  "a live session": `/sessions/${LIVE}`,
  "an ended session": `/sessions/${FAILED}`,
  "a diff": `/sessions/${FAILED}#diff`,
  scripts: `/sessions/${FAILED}#scripts`,
  "the history": "/history",
  "the history with filters": "/history?outcome=failed&since=2026-01-01&until=2026-01-31&issue=SHOP-88",
  "the report": "/report?since=7d",
  "the workflow": "/workflow",
  "the log": "/log",
  "the pulls": "/pulls",
  "the sign-ins": "/sign-ins",
  "a search": `/sessions/${FAILED}?q=payments#event-26`,
  "a filter": `/sessions/${LIVE}?show=tools`,
  "a hostile issue": `/issues/${encodeURIComponent(HOSTILE_ID)}`,
  "a hostile session": `/sessions/${HOSTILE_SESSION}`,
};

let browser;
let mock;
before(async () => {
  browser = await launch();
  mock = await startMock();
  Object.assign(mock.world.status.workflow, {
    rejected: {
      at: new Date().toISOString(),
      diagnostics: ["workflow.yml:3:5: error: unknown runtime `codx`"],
      more: 2,
    },
  });
  mock.world.status.paused = true;
});
after(async () => {
  await browser.close();
  await mock.close();
});

/** Waits until the page has a heading and has loaded its data. */
async function waitUntilLoaded(page) {
  await page.locator("h1").waitFor();
  await page.waitForFunction(
    () => !/Loading…/.test(document.getElementById("main").innerText) && !document.querySelector(".event.loading"),
  );
}

/** Returns the elements that are wider than the window, except for those that scroll by themselves. */
const overflowing = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll("body *")]
      .filter(
        (el) =>
          el.getBoundingClientRect().right > innerWidth + 1 &&
          !el.closest(
            ".scroll-x, .columns, .diff, .tabs, .mono, .tool-input, .visually-hidden, .skip-link, .id, .activity",
          ),
      )
      .slice(0, 3)
      .map((el) => el.outerHTML.slice(0, 160)),
  );

async function axeFindings(page) {
  const { violations } = await page.evaluate(() =>
    axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }),
  );
  return violations.map(({ id, nodes }) => [
    id,
    nodes.slice(0, 3).map((node) => `${node.html.slice(0, 200)} ${node.failureSummary}`),
  ]);
}

describe("every page", () => {
  for (const [name, path] of Object.entries(PAGES)) {
    for (const scheme of ["light", "dark"]) {
      it(`${name} has no axe findings and fits 360, 768 and 1440 px in ${scheme}, and violates no policy`, async () => {
        const options = name === SIGNED_OUT ? { storageState: { cookies: [], origins: [] } } : {};
        const page = await open(browser, mock.url + path, { width: 1440, scheme, reducedMotion: "reduce", ...options });
        await waitUntilLoaded(page);
        // The script is evaluated from outside: the policy of the page blocks other scripts.
        await page.evaluate(AXE);
        for (const width of [1440, 768, 360]) {
          await page.setViewportSize({ width, height: 900 });
          assert.deepEqual(await overflowing(page), [], `at ${width} px`);
          assert.ok(await hasNoHorizontalScroll(page), `at ${width} px`);
          assert.deepEqual(await axeFindings(page), [], `at ${width} px`);
        }
        page.assertClean();
        await page.context().close();
      });
    }
  }
});

describe("hostile text", () => {
  it("is shown as text, with invisible characters escaped", async () => {
    for (const path of [
      "/",
      "/history",
      "/log",
      "/pulls",
      `${PAGES["a hostile session"]}?q=script`,
      PAGES["a hostile issue"],
      PAGES["a hostile session"],
      `${PAGES["a hostile session"]}#diff`,
      `${PAGES["a hostile session"]}#prompt`,
      `${PAGES["a hostile session"]}#stderr`,
    ]) {
      const page = await open(browser, mock.url + path);
      await waitUntilLoaded(page);
      if (path === PAGES["a hostile session"]) {
        await page.getByRole("button", { name: "First" }).click();
        for (const summary of await page.locator(".tool summary").all()) await summary.click();
        for (const button of await page.getByRole("button", { name: "Show all" }).all()) await button.click();
        await page.keyboard.press("End");
      }
      const text = await page.evaluate(() => document.body.innerText);
      assert.doesNotMatch(text, /[\u202a-\u202e\u2066-\u2069\u001b\u200b]/, path);
      assert.match(text, /⟦U\+(202E|001B)⟧/, path);
      assert.equal(await page.evaluate(() => window.pwned), undefined);
      assert.equal(await page.locator("#main img, #main script, #main iframe").count(), 0);
      page.assertClean();
      await page.context().close();
    }
  });

  it("never becomes a script link, and an HTTP URL becomes a link with its host", async () => {
    const addresses = {
      "LINK-1": ["https://tracker.example:8443/issues/1?a=<b>", "tracker.example:8443"],
      "LINK-2": ["javascript:window.pwned=1", null],
      "LINK-3": ["data:text/html,<script>window.pwned=1</script>", null],
      "LINK-4": ["/drain", null],
    };
    for (const [id, [address, host]] of Object.entries(addresses)) {
      mock.world.issues.push(issueView(id, "T", "todo", [], { issue_url: address, labels: ["bug", "<b>ui</b>\u202e"] }));
      const page = await open(browser, `${mock.url}/issues/${id}`);
      await page.getByText("<b>ui</b>⟦U+202E⟧").waitFor();
      const link = page.locator("#main a[target]");
      assert.equal(await link.count(), host ? 1 : 0, address);
      if (host) {
        assert.equal(await link.innerText(), `Open on ${host}`);
        assert.equal(await link.getAttribute("href"), address);
        assert.equal(await link.getAttribute("rel"), "noopener noreferrer");
      }
      assert.equal(await page.evaluate(() => window.pwned), undefined);
      page.assertClean();
      await page.context().close();
    }
  });

  it("in an id works in links and in requests to the API", async () => {
    const page = await open(browser, mock.url);
    await page
      .locator("#live")
      .getByRole("link", { name: /^<script>window\.pwned/ })
      .click();
    await page.getByRole("heading", { name: /<script>window\.pwned/ }).waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel the attempt" }).click();
    await page.locator("#toasts .toast").waitFor();
    assert.deepEqual(mock.commands.at(-1), [`issues/${HOSTILE_ID}/cancel`, {}]);
    page.assertClean();
    await page.context().close();
  });

  it("of any length fits the screen", async () => {
    const id = `LONG-${"x".repeat(10_000)}`;
    mock.world.issues.push(
      issueView(id, "W".repeat(10_000), "S".repeat(10_000), [
        {
          stage: "plan",
          state: "held",
          attempts: 1,
          max_attempts: 3,
          last_outcome: null,
          session_id: null,
          hold: { reason: "parked", detail: "d".repeat(10_000), since: null, until: null, freed_by: "f".repeat(300) },
        },
      ]),
    );
    mock.world.status.parked.push({
      run_id: "r",
      issue_id: id,
      stage: "plan",
      since: new Date().toISOString(),
      reason: "no_progress",
      detail: "d".repeat(10_000),
      freed_by: "f".repeat(300),
    });
    for (const path of ["/", `/issues/${id}`]) {
      const page = await open(browser, mock.url + path, { width: 360, height: 740 });
      await waitUntilLoaded(page);
      assert.ok(await hasNoHorizontalScroll(page));
      page.assertClean();
      await page.context().close();
    }
  });
});
