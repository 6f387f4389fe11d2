import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { launch, open } from "./browser.mjs";
import { startMock } from "./mock.mjs";
import { FAILED, pastRun } from "./world.mjs";

let browser;
let mock;
let page;
before(async () => {
  browser = await launch();
});
after(() => browser.close());
beforeEach(async () => {
  mock = await startMock();
});
afterEach(async () => {
  page?.assertClean();
  await page?.context().close();
  page = null;
  await mock.close();
});

const rows = () => page.locator(".runs tbody tr");
const row = (issue) => rows().filter({ hasText: issue });
const search = () => new URL(page.url()).search;
/** Waits until the table has as many rows. */
const waitForRows = (count) =>
  page.waitForFunction((count) => document.querySelectorAll(".runs tbody tr").length === count, count);
const waitForSearch = (text) => page.waitForFunction((text) => location.search === text, text);

describe("the history", () => {
  it("lists the runs with their issue, outcome, cost and time, newest first", async () => {
    page = await open(browser, `${mock.url}/history`);
    await row("SHOP-398").waitFor();
    assert.deepEqual(await page.getByRole("columnheader").allInnerTexts(), [
      "Issue",
      "Stage",
      "Outcome",
      "Attempts",
      "Duration",
      "Cost",
      "Started",
      "Last attempt",
    ]);
    assert.match(
      await row("SHOP-398").innerText(),
      /Flaky test in the payment module SHOP-398\s+plan\s+failed\s+3\s+18m 00s\s+\$2\.70\s+\d+ \w{3,4} \d{4}, \d\d:\d\d:\d\d \S+\s+2 h ago\s+Transcript/,
    );
    assert.match(await row("SHOP-399").innerText(), /succeeded\s+1\s+6m 00s\s+~\$0\.90 estimated/);
    assert.match(await row("SHOP-396").innerText(), /timed out parked/);
    assert.match(await rows().first().innerText(), /plan\s+running\s+1\s+\d+m \d\ds/);
    const time = row("SHOP-398").locator("time[data-time-format]");
    assert.match(await time.getAttribute("title"), /^\d+ \w+ \d{4}, \d\d:\d\d:\d\d \S+ \(\d{4}-/);
    assert.equal(await row("SHOP-398").getByRole("link").first().getAttribute("href"), "/issues/SHOP-398");
    await row("SHOP-398").getByRole("link", { name: /^Transcript of the last attempt of SHOP-398/ }).click();
    await page.waitForURL(`**/sessions/${FAILED}`);
  });

  it("keeps its filters in the address, also after a reload and when going back", async () => {
    page = await open(browser, `${mock.url}/history`);
    await waitForRows(50);
    await page.getByLabel("Outcome").selectOption("over budget");
    await waitForSearch("?outcome=over_budget");
    await waitForRows(18);
    await page.getByLabel("Stage").selectOption("implement");
    await waitForRows(6);
    await page.getByLabel("Agent").selectOption("codex-default");
    await page.getByLabel("Started").selectOption("in the last 24 hours");
    await waitForSearch("?outcome=over_budget&stage=implement&agent=codex-default&since=24h");
    await waitForRows(2);
    await page.reload();
    await waitForRows(2);
    assert.equal(await page.getByLabel("Outcome").inputValue(), "over_budget");
    assert.equal(await page.getByLabel("Stage").inputValue(), "implement");
    await rows().first().getByRole("link").first().click();
    await page.waitForURL("**/issues/*");
    await page.goBack();
    await waitForRows(2);
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await waitForRows(50);
    assert.equal(search(), "");
    assert.equal(await page.getByLabel("Outcome").inputValue(), "");
  });

  it("selects days, and says what is wrong with an address", async () => {
    page = await open(browser, `${mock.url}/history?issue=SHOP-398&since=2026-01-01&until=2099-01-31`);
    await waitForRows(1);
    assert.equal(await page.getByLabel("From (UTC)").inputValue(), "2026-01-01");
    await page.getByLabel("From (UTC)").fill("2026-02-28");
    await waitForSearch("?since=2026-02-28&until=2099-01-31&issue=SHOP-398");
    await page.getByRole("button", { name: "Only issue SHOP-398" }).click();
    await waitForRows(50);
    await page.goto(`${mock.url}/history?since=never`);
    await page.getByRole("alert").getByText("a time must be a duration").waitFor();
    await page.getByLabel("Started").selectOption("any time");
    await waitForRows(50);
    assert.equal(await page.getByRole("alert").count(), 0);
  });

  it("loads older runs on request, and keeps them when the page updates itself", async () => {
    page = await open(browser, `${mock.url}/history`);
    await waitForRows(50);
    await page.getByRole("button", { name: "Load more" }).click();
    await waitForRows(100);
    await page.getByRole("button", { name: "Load more" }).click();
    await waitForRows(131);
    assert.equal(await page.getByRole("button", { name: "Load more" }).count(), 0);
    assert.equal(await page.evaluate(() => new Set(document.querySelectorAll(".runs .id")).size), 131);
    const now = new Date().toISOString();
    mock.world.runs.unshift(pastRun(-2, { issue_id: "SHOP-NEW", attempts: [{ ...pastRun(0).attempts[0], started_at: now }] }));
    mock.publish({ type: "session_ended", session_id: "x", issue_id: "SHOP-NEW", stage: "plan", outcome: "succeeded" });
    await row("SHOP-NEW").waitFor();
    assert.equal(await rows().count(), 131, "as many runs as before");
  });

  it("works with the keyboard alone", async () => {
    page = await open(browser, mock.url);
    await page.getByRole("heading", { name: "Board" }).waitFor();
    await page.keyboard.press("h");
    await page.getByRole("heading", { name: "History" }).waitFor();
    await waitForRows(50);
    await page.keyboard.press("/");
    await page.keyboard.type("csv");
    await waitForSearch("?q=csv");
    await waitForRows(13);
    assert.equal(await page.evaluate(() => document.activeElement.value), "csv");
    await page.keyboard.press("Tab");
    await page.keyboard.type("fail");
    await waitForSearch("?outcome=failed&q=csv");
    await waitForRows(2);
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    const name = await page.evaluate(() => document.activeElement.textContent);
    assert.equal(name, await rows().nth(1).locator(".heading").innerText());
    await page.keyboard.press("Enter");
    await page.waitForURL("**/issues/*");
  });

  it("explains an empty list", async () => {
    page = await open(browser, `${mock.url}/history?q=no-such-issue`);
    await page.getByText("No runs match.").waitFor();
    mock.world.runs.length = 0;
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await page.getByText("No runs yet.").waitFor();
  });
});
