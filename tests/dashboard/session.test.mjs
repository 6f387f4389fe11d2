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
  page?.assertClean();
  await page?.context().close();
  page = null;
  await mock.close();
});

const eventRow = (seq) => page.locator(`.event:not(.loading)[aria-posinset="${seq}"]`);
const countNodes = () => page.evaluate(() => document.querySelector(".transcript").querySelectorAll("*").length);
/** Returns whether an event is in view within five seconds: rows are shown before they are scrolled. */
const isInView = async (seq) => {
  const check = (el) => {
    const box = el.getBoundingClientRect();
    const list = document.querySelector(".transcript").getBoundingClientRect();
    return box.bottom > list.top && box.top < list.bottom;
  };
  for (let tries = 0; tries < 100; tries += 1) {
    if (await eventRow(seq).evaluate(check)) return true;
    await page.waitForTimeout(50);
  }
  return false;
};
const seekTo = async (seq) => {
  const input = page.getByRole("spinbutton", { name: "Event" });
  await input.fill(String(seq));
  await input.press("Enter");
};
const scrollTop = () => page.evaluate(() => document.querySelector(".transcript").scrollTop);
const isAtEnd = () =>
  page.evaluate(() => {
    const el = document.querySelector(".transcript");
    return el.scrollHeight - el.clientHeight - el.scrollTop < 4;
  });

describe("the transcript", () => {
  it("shows any event of a log of 100,000 in bounded time, with few nodes", async () => {
    const requests = [];
    page = await open(browser, `${mock.url}/sessions/${LONG}`);
    page.on("request", (request) => request.url().includes("/events?after") && requests.push(request.url()));
    await eventRow(LONG_EVENTS - 1).waitFor();
    assert.ok(await isAtEnd());
    for (const seq of [49_993, 1, 99_001, 25_009, 73_465]) {
      const startedAt = performance.now();
      await seekTo(seq);
      await eventRow(seq).waitFor();
      const elapsedMs = performance.now() - startedAt;
      assert.ok(elapsedMs < 2000, `event ${seq} took ${Math.round(elapsedMs)} ms`);
      assert.ok(await isInView(seq), `event ${seq} is in view`);
      assert.match(await eventRow(seq).innerText(), new RegExp(`Step ${seq}|with`));
      assert.ok((await countNodes()) < 1500, `${await countNodes()} nodes`);
    }
    assert.ok(requests.length < 25, `${requests.length} requests`);
    // Measured heights that replace estimates do not move the visible event.
    const before = await eventRow(73_465).boundingBox();
    await page.waitForTimeout(400);
    assert.equal(Math.round((await eventRow(73_465).boundingBox()).y), Math.round(before.y));
  });

  it("scrolls from end to end without a freeze, and keeps a bounded number of events in memory", async () => {
    page = await open(browser, `${mock.url}/sessions/${LONG}`);
    await eventRow(LONG_EVENTS - 1).waitFor();
    await page.evaluate(() => {
      window.longestFrame = 0;
      let last = performance.now();
      const frame = (now) => {
        window.longestFrame = Math.max(window.longestFrame, now - last);
        last = now;
        requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    });
    for (let index = 0; index <= 40; index++) {
      await page.evaluate((share) => {
        const el = document.querySelector(".transcript");
        el.scrollTop = el.scrollHeight * share;
      }, index / 40);
      await page.waitForTimeout(30);
    }
    await page.evaluate(() => document.querySelector(".transcript").scrollTo(0, 1_500_000));
    await page.waitForFunction(
      () => document.querySelectorAll(".event").length > 5 && !document.querySelector(".event.loading"),
    );
    assert.ok((await countNodes()) < 1500);
    assert.ok(
      (await page.evaluate(() => window.longestFrame)) < 1000,
      `the longest frame took ${await page.evaluate(() => Math.round(window.longestFrame))} ms`,
    );
  });

  it("scrolls through a million events across the edges of its windows", async () => {
    mock.world.long = 1_000_000;
    page = await open(browser, `${mock.url}/sessions/${LONG}`);
    await page.getByText("of 1,000,000").waitFor();
    await eventRow(999_999).waitFor();
    for (const seq of [700_009, 13, 400_009]) {
      await seekTo(seq);
      await eventRow(seq).waitFor();
      assert.ok(await isInView(seq));
    }
    // At the end of a window, the next window continues at the same event.
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
    for (let index = 0; index < 12; index++) await page.keyboard.press("PageDown");
    await page.waitForFunction(
      (from) => Number(document.querySelector(".event").getAttribute("aria-posinset")) > from + 100,
      first,
    );
    assert.ok((await countNodes()) < 1500);
  });

  it("scrolls with the keyboard", async () => {
    page = await open(browser, `${mock.url}/sessions/${LONG}`);
    await eventRow(LONG_EVENTS - 1).waitFor();
    await page.locator(".transcript").focus();
    await page.keyboard.press("Home");
    await eventRow(1).waitFor();
    assert.equal(await scrollTop(), 0);
    await page.keyboard.press("PageDown");
    await page.waitForFunction(() => document.querySelector(".transcript").scrollTop > 300);
    await page.keyboard.press("PageUp");
    await page.waitForFunction(() => document.querySelector(".transcript").scrollTop < 5);
    await page.keyboard.press("End");
    await eventRow(LONG_EVENTS - 1).waitFor();
    assert.ok(await isAtEnd());
  });

  it("opens a finished session at its start", async () => {
    page = await open(browser, `${mock.url}/sessions/${FAILED}`);
    await eventRow(1).waitFor();
    await page.getByText("1 of 27").waitFor();
    assert.equal(await scrollTop(), 0);
    await page.getByRole("button", { name: "Last" }).click();
    await eventRow(27).waitFor();
    assert.ok(await isAtEnd());
  });

  it("follows a live session at its end, and keeps its position elsewhere", async () => {
    page = await open(browser, `${mock.url}/sessions/${LIVE}`);
    await eventRow(37).waitFor();
    const messages = Array.from({ length: 30 }, (_, index) => ({ kind: "message", text: `More ${index}\nand more` }));
    mock.append(LIVE, ...messages);
    await eventRow(67).waitFor();
    assert.ok(await isAtEnd());
    await seekTo(22);
    await eventRow(22).waitFor();
    const before = await eventRow(22).boundingBox();
    mock.append(LIVE, { kind: "message", text: "Behind the reader's back" });
    await page.getByText("of 68").waitFor();
    assert.equal(Math.round((await eventRow(22).boundingBox()).y), Math.round(before.y));
    assert.equal(await eventRow(68).count(), 0);
    await page.getByRole("button", { name: /Jump to newest/ }).click();
    await eventRow(68).waitFor();
    assert.ok(await isAtEnd());
    // The feed can be ahead of the log: the missing events are requested again, with a delay.
    const requests = [];
    page.on("request", (request) => request.url().includes("/events?after") && requests.push(request.url()));
    mock.publish({ type: "session", ...mock.world.status.sessions.find((session) => session.session_id === LIVE), events: 70 });
    await page.waitForTimeout(1500);
    assert.ok(requests.length >= 2 && requests.length <= 6, `${requests.length} requests`);
    mock.append(LIVE, { kind: "message", text: "a" }, { kind: "message", text: "b" });
    await eventRow(70).waitFor();
  });

  it("keeps details open, joins calls with their results, and colours diffs", async () => {
    page = await open(browser, `${mock.url}/sessions/${LIVE}`);
    await eventRow(37).waitFor();
    await seekTo(3);
    assert.equal(await eventRow(4).count(), 0, "the result is shown with its call");
    await eventRow(5).locator("summary").click();
    await eventRow(5).locator(".del").first().waitFor();
    assert.match(await eventRow(5).locator(".add").first().innerText(), /^\+self\.db\.insert_all/);
    mock.append(LIVE, { kind: "message", text: "More" });
    await page.getByText("of 38").waitFor();
    assert.ok(
      await eventRow(5)
        .locator("details")
        .evaluate((el) => el.open),
    );
    await page.getByRole("button", { name: "Jump to newest" }).click();
    await eventRow(38).waitFor();
    await seekTo(3);
    await eventRow(5).locator(".add").first().waitFor();
    await page.getByRole("tab", { name: "Prompt" }).click();
    await page.getByRole("tab", { name: "Transcript" }).click();
    await eventRow(5).locator(".add").first().waitFor();
    assert.ok(await isInView(5), "the position is kept while another tab is shown");
    assert.match(await eventRow(7).innerText(), /cargo test[^]*exit 101/);
  });

  it("shows malformed and unknown lines, and errors", async () => {
    page = await open(browser, `${mock.url}/sessions/${FAILED}`);
    await eventRow(27).waitFor();
    assert.match(
      await eventRow(25).innerText(),
      /Error[^]*stream disconnected[^]*The agent stopped because of this error[^]*HTTP 502/,
    );
    await seekTo(11);
    assert.match(await eventRow(11).innerText(), /Malformed[^]*\{"type":"item\.comp/);
    assert.match(await eventRow(12).innerText(), /Unknown[^]*telemetry/);
  });

  it("shows the result of the agent as text with its values, not as JSON", async () => {
    mock.append(
      FAILED,
      { kind: "completed", ok: true, result: { summary: "All is done.\n\nTwo files changed.", files: 2, notes: ["a"] } },
      { kind: "completed", ok: true, message: '{"text":"As text","status":"ready_for_review"}' },
    );
    page = await open(browser, `${mock.url}/sessions/${FAILED}#event-28`);
    const [first, second] = [eventRow(28), eventRow(29)];
    await first.waitFor();
    assert.match(await first.locator("pre").first().textContent(), /^All is done\.\n\nTwo files changed\.$/);
    assert.match(await first.innerText(), /files\s+2\s+notes/);
    assert.equal(await second.locator("pre").first().textContent(), "As text");
    assert.match(await second.innerText(), /status\s+ready_for_review/);
    assert.doesNotMatch(`${await first.innerText()}${await second.innerText()}`, /"(summary|text|status)"/);
  });

  it("shows that it follows as a text, and offers the jump as a button", async () => {
    page = await open(browser, `${mock.url}/sessions/${LIVE}`);
    await page.getByText("Follows the newest event").waitFor();
    assert.equal(await page.getByRole("button", { name: /newest|Following/ }).count(), 0);
    await seekTo(1);
    await page.getByRole("button", { name: "Jump to newest" }).click();
    await page.getByText("Follows the newest event").waitFor();
    assert.ok(await page.evaluate(() => document.activeElement.matches(".transcript")));
  });

  it("scrolls to the event that a link names", async () => {
    page = await open(browser, `${mock.url}/sessions/${LONG}#event-4321`);
    await eventRow(4321).waitFor();
    assert.ok(await isInView(4321));
  });
});

describe("the search in a transcript", () => {
  const search = () => page.getByRole("searchbox", { name: "Search the transcript" });
  const status = () => page.getByRole("search").getByRole("status");
  const current = () => page.locator(".matches .highlighted").getAttribute("aria-posinset");

  it("finds text in all events, counts the matches, and goes from match to match by keyboard", async () => {
    page = await open(browser, `${mock.url}/sessions/${FAILED}`);
    await eventRow(1).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("PAYMENTS");
    await status().getByText("2 matches", { exact: true }).waitFor();
    assert.equal(await page.evaluate(() => CSS.highlights.get("match").size), 2);
    await page.keyboard.press("Enter");
    await status().getByText("1 of 2 matches").waitFor();
    assert.equal(await current(), "26");
    assert.match(page.url(), /\?q=PAYMENTS#event-26$/);
    await page.keyboard.press("Enter");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Shift+Enter");
    await status().getByText("2 of 2 matches").waitFor();
    assert.equal(await current(), "27");
    // The address has the search and the position.
    await page.reload();
    await status().getByText("2 of 2 matches").waitFor();
    assert.equal(await search().inputValue(), "PAYMENTS");
    await search().focus();
    await page.keyboard.press("Escape");
    await eventRow(27).waitFor();
    assert.ok(await isInView(27), "the event is shown among the others");
    assert.match(page.url(), /[^?]*#event-27$/);
  });

  it("searches a log of 100,000 events in bounded requests, and loads more matches on demand", async () => {
    page = await open(browser, `${mock.url}/sessions/${LONG}?q=step`);
    const requests = [];
    page.on("request", (request) => request.url().includes("q=") && requests.push(request.url()));
    await status().getByText("200+ matches").waitFor();
    await page.getByRole("button", { name: "Load more" }).click();
    await status().getByText("400+ matches").waitFor();
    await search().fill("step 73465");
    await status().getByText("1 match", { exact: true }).waitFor();
    assert.ok(requests.length < 12, `${requests.length} requests`);
    await page.locator(".matches a.seq").click();
    await eventRow(73_465).waitFor();
    assert.ok(await isInView(73_465));
    assert.equal(await search().inputValue(), "");
  });

  it("shows only errors, tool calls or messages", async () => {
    page = await open(browser, `${mock.url}/sessions/${FAILED}`);
    await eventRow(1).waitFor();
    await page.getByRole("button", { name: "Errors" }).click();
    await page.locator(".matches .event").first().waitFor();
    assert.match(page.url(), /\?show=errors$/);
    assert.deepEqual(
      await page.locator(".matches .event").evaluateAll((rows) => rows.map((row) => row.getAttribute("aria-posinset"))),
      ["8", "10", "25", "26"],
    );
    await page.getByRole("button", { name: "Tool calls" }).click();
    await page.locator(".matches .kind-tool_call").first().waitFor();
    assert.equal(await page.locator(".matches .event:not(.kind-tool_call)").count(), 0, "results are in their calls");
    assert.match(await page.locator(".matches .event").nth(2).innerText(), /cargo test[^]*exit 101/);
    await page.getByRole("button", { name: "Messages" }).click();
    await page.locator(".matches .kind-completed").waitFor();
    await page.getByRole("button", { name: "All", exact: true }).click();
    await eventRow(1).waitFor();
  });

  it("finds events that a running session writes later, and says when nothing matches", async () => {
    page = await open(browser, `${mock.url}/sessions/${LIVE}?q=needle`);
    await page.getByText("No matches.").waitFor();
    mock.append(LIVE, { kind: "message", text: "A needle" });
    await status().getByText("1 match", { exact: true }).waitFor();
  });
});

describe("the session page", () => {
  it("shows the diff, stderr, prompt and scripts", async () => {
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
    await page.getByRole("tab", { name: "Steps" }).click();
    await page.getByText("exit status: 101").waitFor();
    assert.match(
      await page.locator(".steps").innerText(),
      /before_run[^]*1s[^]*prompt command 1[^]*agent[^]*6m 00s[^]*verify[^]*failed[^]*after_run/,
    );
  });

  it("cancels the attempt, and then shows its outcome", async () => {
    page = await open(browser, `${mock.url}/sessions/${LIVE}`);
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel the attempt" }).click();
    await page.locator(".meta .chip", { hasText: "cancelled" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Cancel", exact: true }).count(), 0);
  });

  it("shows an error for an unknown session", async () => {
    page = await open(browser, `${mock.url}/sessions/nothing`);
    await page.getByRole("alert").getByText("There is no session nothing.").waitFor();
  });
});

describe("the issue page", () => {
  it("shows the title of an issue of which only the history is known", async () => {
    page = await open(browser, `${mock.url}/issues/397`);
    await page.getByRole("heading", { name: "Document the retry policy" }).waitFor();
    await page.waitForFunction(() => document.title === "#397 Document the retry policy · shop · Vik");
    await page.getByText("No stage handles this issue now. Its history is below.").waitFor();
  });

  it("shows the state and the runs of the issue, and retries it with a number of attempts", async () => {
    page = await open(browser, `${mock.url}/issues/SHOP-88`);
    await page.getByRole("heading", { name: "Current state" }).waitFor();
    const runs = await page.locator("#runs").innerText();
    assert.match(
      runs,
      /Attempt 3[^]*failed[^]*verify[^]*exit 1[^]*resumes session[^]*Attempt 2[^]*timed out[^]*estimated/,
    );
    assert.match(await page.locator("#life").innerText(), /4 of 15 attempts[^]*\$3\.10 of \$10\.00 cost/);
    await page.getByRole("spinbutton", { name: "More attempts" }).fill("2");
    await page.getByRole("button", { name: "Retry" }).click();
    await page.locator("#current-state").getByText("ready").waitFor();
    assert.deepEqual(mock.commands, [["issues/SHOP-88/retry", { stage: null, attempts: 2, agent: false }]]);
  });

  it("shows the text of the issue as it is, its author and its age", async () => {
    page = await open(browser, `${mock.url}/issues/SHOP-131`);
    const text = page.getByRole("group", { name: "Text of the issue" });
    await text.waitFor();
    assert.match(await text.textContent(), /^A refund of more than a thousand[^]*\n\nSteps:\n1\. Open[^]*The last line\.$/);
    assert.match(await page.locator("#description").innerText(), /opened by nora 3 d ago/);
    // A start waits for an approval: the text is unfolded.
    await page.getByRole("button", { name: "Show less" }).click();
    const all = page.getByRole("button", { name: "Show all" });
    await all.waitFor();
    const height = (await text.boundingBox()).height;
    assert.equal(await all.getAttribute("aria-expanded"), "false");
    await all.click();
    await page.getByRole("button", { name: "Show less" }).waitFor();
    assert.ok((await text.boundingBox()).height > height + 200);
  });

  it("loads the branch, the commits and the diff when the section is opened", async () => {
    page = await open(browser, `${mock.url}/issues/SHOP-88`);
    const requests = [];
    page.on("request", (request) => request.url().endsWith("/diff") && requests.push(new URL(request.url()).pathname));
    await page.locator("summary", { hasText: "Branch, commits and diff" }).click();
    await page.getByText("7 files changed").waitFor();
    assert.deepEqual(requests, ["/api/v1/issues/SHOP-88/diff"]);
    const changes = await page.locator("#changes").innerText();
    assert.match(changes, /Branch vik\/88[^]*9f1c2d3e4a[^]*Insert all rows at once[^]*codex[^]*50 min ago/);
    assert.match(changes, /Test <b>empty<\/b> imports ⟦U\+202E⟧[^]*and 2 more[^]*since 4350426aa0/);
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("button", { name: "Resume" }).waitFor();
    assert.ok(await page.locator("#changes details").first().evaluate((el) => el.open));
  });

  it("answers a pending approval", async () => {
    page = await open(browser, `${mock.url}/issues/SHOP-131`);
    const approvals = page.locator("#approvals");
    assert.match(await approvals.innerText(), /implement[^]*a person must approve the start/);
    const { id } = mock.world.status.approvals[0];
    await page.getByRole("button", { name: "Deny SHOP-131, implement" }).click();
    await page.getByRole("textbox", { name: /^What to do instead/ }).fill("Ask the bank first.");
    await page.getByRole("dialog").getByRole("button", { name: "Deny" }).click();
    await approvals.waitFor({ state: "detached" });
    assert.deepEqual(mock.commands, [["issues/SHOP-131/deny", { request: id, message: "Ask the bank first." }]]);
  });

  it("runs a stage again whose run has ended, after a confirmation that names the cost", async () => {
    page = await open(browser, `${mock.url}/issues/SHOP-88`);
    await page.getByRole("button", { name: "Run again: plan" }).click();
    await page.getByRole("dialog").getByText(/starts the agent[^]*tokens and money[^]*The last run cost \$0\.90/).waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Back" }).click();
    assert.deepEqual(mock.commands, []);
    await page.getByRole("button", { name: "Run again: plan" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Run again" }).click();
    await page.locator("#toasts").getByText("plan of SHOP-88 runs again.").waitFor();
    assert.deepEqual(mock.commands, [["issues/SHOP-88/run-again", { stage: "plan" }]]);
    assert.equal(await page.getByRole("button", { name: "Run again: implement" }).count(), 0, "its run is parked");
  });

  it("offers to hand over finished work, or to do it again", async () => {
    mock.world.notHandedOver = "SHOP-88";
    page = await open(browser, `${mock.url}/issues/SHOP-88`);
    await page.getByText("The work is done, but not handed over: after_run exited with 1").waitFor();
    await page.getByRole("button", { name: "Hand over now" }).waitFor();
    await page.getByRole("button", { name: "Run the agent again" }).click();
    await page.locator("#current-state").getByText("ready").waitFor();
    assert.deepEqual(mock.commands, [["issues/SHOP-88/retry", { stage: null, attempts: null, agent: true }]]);
  });

  it("pauses and resumes the issue", async () => {
    page = await open(browser, `${mock.url}/issues/SHOP-140`);
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("button", { name: "Pause" }).waitFor();
    assert.deepEqual(mock.commands, [
      ["pause", { issue_id: "SHOP-140" }],
      ["resume", { issue_id: "SHOP-140" }],
    ]);
  });
});
