import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { launch, open } from "./browser.mjs";
import { startMock } from "./mock.mjs";
import { FAILED, LIVE, LONG, LONG_EVENTS } from "./world.mjs";

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
  page?.clean();
  await page?.context().close();
  page = null;
  await mock.close();
});

const row = (seq) => page.locator(`.event:not(.loading)[aria-posinset="${seq}"]`);
const nodes = () => page.evaluate(() => document.querySelector(".transcript").querySelectorAll("*").length);
const visible = (seq) =>
  row(seq).evaluate((el) => {
    const box = el.getBoundingClientRect();
    const list = document.querySelector(".transcript").getBoundingClientRect();
    return box.bottom > list.top && box.top < list.bottom;
  });
const seek = async (seq) => {
  const input = page.getByRole("spinbutton", { name: "Event" });
  await input.fill(String(seq));
  await input.press("Enter");
};
const top = () => page.evaluate(() => document.querySelector(".transcript").scrollTop);
const atEnd = () =>
  page.evaluate(() => {
    const el = document.querySelector(".transcript");
    return el.scrollHeight - el.clientHeight - el.scrollTop < 4;
  });

describe("a transcript", () => {
  it("of 100,000 events is sought in bounded time, with few nodes", async () => {
    const asked = [];
    page = await open(browser, `${mock.url}/sessions/${LONG}`);
    page.on("request", (request) => request.url().includes("/events?after") && asked.push(request.url()));
    await row(LONG_EVENTS - 1).waitFor();
    assert.ok(await atEnd());
    for (const seq of [49_993, 1, 99_001, 25_009, 73_465]) {
      const from = performance.now();
      await seek(seq);
      await row(seq).waitFor();
      const took = performance.now() - from;
      assert.ok(took < 2000, `event ${seq} took ${Math.round(took)} ms`);
      assert.ok(await visible(seq), `event ${seq} is in view`);
      assert.match(await row(seq).innerText(), new RegExp(`Step ${seq}|with`));
      assert.ok((await nodes()) < 1500, `${await nodes()} nodes`);
    }
    assert.ok(asked.length < 25, `${asked.length} requests`);
    // It stands still: guesses that are replaced by measured heights do not move what is read.
    const before = await row(73_465).boundingBox();
    await page.waitForTimeout(400);
    assert.equal(Math.round((await row(73_465).boundingBox()).y), Math.round(before.y));
  });

  it("is scrolled from end to end without a freeze, and keeps a bounded number of events", async () => {
    page = await open(browser, `${mock.url}/sessions/${LONG}`);
    await row(LONG_EVENTS - 1).waitFor();
    await page.evaluate(() => {
      window.worst = 0;
      let last = performance.now();
      const frame = (now) => {
        window.worst = Math.max(window.worst, now - last);
        last = now;
        requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    });
    for (let at = 0; at <= 40; at++) {
      await page.evaluate((share) => {
        const el = document.querySelector(".transcript");
        el.scrollTop = el.scrollHeight * share;
      }, at / 40);
      await page.waitForTimeout(30);
    }
    await page.evaluate(() => document.querySelector(".transcript").scrollTo(0, 1_500_000));
    await page.waitForFunction(
      () => document.querySelectorAll(".event").length > 5 && !document.querySelector(".event.loading"),
    );
    assert.ok((await nodes()) < 1500);
    assert.ok(
      (await page.evaluate(() => window.worst)) < 1000,
      `the longest frame took ${await page.evaluate(() => Math.round(window.worst))} ms`,
    );
  });

  it("of a million events is read by parts, without a seam", async () => {
    mock.world.long = 1_000_000;
    page = await open(browser, `${mock.url}/sessions/${LONG}`);
    await page.getByText("of 1,000,000").waitFor();
    await row(999_999).waitFor();
    for (const seq of [700_009, 13, 400_009]) {
      await seek(seq);
      await row(seq).waitFor();
      assert.ok(await visible(seq));
    }
    // Over the end of a part: the next part takes over where the reader is.
    await page.evaluate(() => {
      const el = document.querySelector(".transcript");
      el.scrollTop = el.scrollHeight - el.clientHeight - 3000;
    });
    await page.waitForFunction(
      () =>
        Number(document.querySelector(".event").getAttribute("aria-posinset")) > 490_000 &&
        !document.querySelector(".event.loading"),
    );
    const first = Number(await page.locator(".event").first().getAttribute("aria-posinset"));
    await page.locator(".transcript").focus();
    for (let at = 0; at < 12; at++) await page.keyboard.press("PageDown");
    await page.waitForFunction(
      (from) => Number(document.querySelector(".event").getAttribute("aria-posinset")) > from + 100,
      first,
    );
    assert.ok((await nodes()) < 1500);
  });

  it("is read with the keys", async () => {
    page = await open(browser, `${mock.url}/sessions/${LONG}`);
    await row(LONG_EVENTS - 1).waitFor();
    await page.locator(".transcript").focus();
    await page.keyboard.press("Home");
    await row(1).waitFor();
    assert.equal(await top(), 0);
    await page.keyboard.press("PageDown");
    await page.waitForFunction(() => document.querySelector(".transcript").scrollTop > 300);
    await page.keyboard.press("PageUp");
    await page.waitForFunction(() => document.querySelector(".transcript").scrollTop < 5);
    await page.keyboard.press("End");
    await row(LONG_EVENTS - 1).waitFor();
    assert.ok(await atEnd());
  });

  it("follows a live one at its end, and stays where the reader is elsewhere", async () => {
    page = await open(browser, `${mock.url}/sessions/${LIVE}`);
    await row(37).waitFor();
    mock.append(LIVE, ...Array.from({ length: 30 }, (_, at) => ({ kind: "message", text: `More ${at}\nand more` })));
    await row(67).waitFor();
    assert.ok(await atEnd());
    await seek(22);
    await row(22).waitFor();
    const before = await row(22).boundingBox();
    mock.append(LIVE, { kind: "message", text: "Behind the reader's back" });
    await page.getByText("of 68").waitFor();
    assert.equal(Math.round((await row(22).boundingBox()).y), Math.round(before.y));
    assert.equal(await row(68).count(), 0);
    await page.getByRole("button", { name: /Jump to newest/ }).click();
    await row(68).waitFor();
    assert.ok(await atEnd());
    // The feed may be ahead of the log: what is not there yet is asked for again, not in a loop.
    const asked = [];
    page.on("request", (request) => request.url().includes("/events?after") && asked.push(request.url()));
    mock.publish({ type: "session", ...mock.world.status.sessions.find((one) => one.session_id === LIVE), events: 70 });
    await page.waitForTimeout(1500);
    assert.ok(asked.length >= 2 && asked.length <= 6, `${asked.length} requests`);
    mock.append(LIVE, { kind: "message", text: "a" }, { kind: "message", text: "b" });
    await row(70).waitFor();
  });

  it("keeps what is folded open, joins a call with its result, and colours diffs", async () => {
    page = await open(browser, `${mock.url}/sessions/${LIVE}`);
    await row(37).waitFor();
    await seek(3);
    assert.equal(await row(4).count(), 0, "the result stands with its call");
    await row(5).locator("summary").click();
    await row(5).locator(".del").first().waitFor();
    assert.match(await row(5).locator(".add").first().innerText(), /^\+self\.db\.insert_all/);
    mock.append(LIVE, { kind: "message", text: "More" });
    await page.getByText("of 38").waitFor();
    assert.ok(
      await row(5)
        .locator("details")
        .evaluate((el) => el.open),
    );
    await page.getByRole("button", { name: "Jump to newest" }).click();
    await row(38).waitFor();
    await seek(3);
    await row(5).locator(".add").first().waitFor();
    await page.getByRole("tab", { name: "Prompt" }).click();
    await page.getByRole("tab", { name: "Transcript" }).click();
    await row(5).locator(".add").first().waitFor();
    assert.ok(await visible(5), "the place is kept over another tab");
    assert.match(await row(7).innerText(), /cargo test[^]*exit 101/);
  });

  it("keeps lines that nobody understands, and tells errors", async () => {
    page = await open(browser, `${mock.url}/sessions/${FAILED}`);
    await row(27).waitFor();
    assert.match(await row(25).innerText(), /Error[^]*stream disconnected[^]*gave up[^]*HTTP 502/);
    await seek(11);
    assert.match(await row(11).innerText(), /Malformed[^]*\{"type":"item\.comp/);
    assert.match(await row(12).innerText(), /Unknown[^]*telemetry/);
  });

  it("opens at the event that a link names", async () => {
    page = await open(browser, `${mock.url}/sessions/${LONG}#event-4321`);
    await row(4321).waitFor();
    assert.ok(await visible(4321));
  });
});

describe("a session", () => {
  it("has its diff, stderr, prompt and scripts", async () => {
    page = await open(browser, `${mock.url}/sessions/${FAILED}`);
    await page.getByRole("tab", { name: "Transcript" }).focus();
    await page.keyboard.press("ArrowRight");
    await page.getByText("7 files changed").waitFor();
    assert.equal(await page.getByRole("tab", { name: "Diff" }).getAttribute("aria-selected"), "true");
    assert.match(await page.locator(".file").first().innerText(), /batch\.rs[^]*\+4[^]*insert_all/);
    await page.getByRole("tab", { name: "stderr" }).click();
    await page.getByText("retrying in 2 s").waitFor();
    await page.getByRole("tab", { name: "Prompt" }).click();
    await page.getByText("You work on issue SHOP-88.").first().waitFor();
    await page.getByRole("tab", { name: "Scripts" }).click();
    await page.getByText("exit status: 101").waitFor();
  });

  it("is cancelled from its page, which then tells the end", async () => {
    page = await open(browser, `${mock.url}/sessions/${LIVE}`);
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel the attempt" }).click();
    await page.locator(".meta .chip", { hasText: "cancelled" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Cancel", exact: true }).count(), 0);
  });

  it("that does not exist is said to", async () => {
    page = await open(browser, `${mock.url}/sessions/nothing`);
    await page.getByRole("alert").getByText("There is no session nothing.").waitFor();
  });
});

describe("an issue", () => {
  it("tells where it stands and what was done, and is retried with a number of attempts", async () => {
    page = await open(browser, `${mock.url}/issues/SHOP-88`);
    await page.getByRole("heading", { name: "Current state" }).waitFor();
    const runs = await page.locator("#runs").innerText();
    assert.match(
      runs,
      /Attempt 3[^]*failed[^]*verify[^]*exit 1[^]*resumes session[^]*Attempt 2[^]*timed out[^]*estimated/,
    );
    assert.match(await page.locator("#life").innerText(), /4 of 15 attempts[^]*\$3\.10 of \$10\.00 cost/);
    await page.locator("summary", { hasText: "Diff of the workspace" }).click();
    await page.getByText("7 files changed").waitFor();
    await page.getByRole("spinbutton", { name: "Attempts" }).fill("2");
    await page.getByRole("button", { name: "Retry" }).click();
    await page.locator("#stands").getByText("ready").waitFor();
    assert.deepEqual(mock.asked, [["issues/SHOP-88/retry", { stage: null, attempts: 2 }]]);
    assert.ok(
      await page
        .locator("details", { hasText: "7 files changed" })
        .first()
        .evaluate((el) => el.open),
    );
  });

  it("is paused and goes on", async () => {
    page = await open(browser, `${mock.url}/issues/SHOP-140`);
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("button", { name: "Pause" }).waitFor();
    assert.deepEqual(mock.asked, [
      ["pause", { issue_id: "SHOP-140" }],
      ["resume", { issue_id: "SHOP-140" }],
    ]);
  });
});
