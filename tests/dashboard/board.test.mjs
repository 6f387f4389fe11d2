import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { hasNoHorizontalScroll, launch, open } from "./browser.mjs";
import { startMock } from "./mock.mjs";
import { issueView, session } from "./world.mjs";

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

const liveRow = (id) => page.locator("#live li", { hasText: id });

describe("the board", () => {
  it("shows live sessions, parked and waiting issues, and a column for each stage", async () => {
    page = await open(browser, mock.url);
    await liveRow("SHOP-97").waitFor();
    assert.match(
      await liveRow("SHOP-97").innerText(),
      /Speed up the nightly import[^]*implement attempt 2[^]*\$4\.36 of \$5\.00/,
    );
    assert.deepEqual(
      await page
        .locator(".column h3")
        .allInnerTexts()
        .then((all) => all.map((text) => text.split("\n")[0])),
      ["plan", "implement", "review", "release", "Done"],
    );
    assert.match(await page.locator("#parked").innerText(), /SHOP-88[^]*attempts used up[^]*Freed by/);
    assert.match(await page.locator("#waiting").innerText(), /SHOP-133[^]*quota[^]*in 4\d min/);
    assert.match(await page.locator(".column", { hasText: "issues in “To do”" }).innerText(), /SHOP-140[^]*ready/);
    assert.equal(await page.locator("#today svg[role=img]").count(), 2);
  });

  it("shows what is done: issues that succeeded lately and that no stage takes, with their titles", async () => {
    const { runs, issues } = mock.world;
    // SHOP-97 has succeeded before, but a stage takes it again.
    runs.unshift({ ...runs[1], run_id: "z", issue_id: "SHOP-97", issue_title: "Speed up the nightly import" });
    issues.push(
      issueView("SHOP-400", "Return 404", "Merged", [], {
        hold: { reason: "no_stage", detail: "no stage has the state “Merged”", since: null, until: null, freed_by: null },
      }),
    );
    page = await open(browser, mock.url);
    const done = page.locator(".column", { hasText: "in the last 7 days" });
    await done.getByRole("link", { name: "Return 404 for unknown projects" }).first().waitFor();
    const cards = await done.locator(".card").allInnerTexts();
    assert.equal(cards.length, 20);
    assert.match(cards[0], /^Return 404 for unknown projects SHOP-400\s+implement\s+41 min ago$/);
    assert.match(cards[2], /^Document the retry policy #397/);
    assert.ok(!cards.some((text) => text.includes("SHOP-97")));
    assert.equal(await page.locator("details", { hasText: "Not in a stage" }).getByText("SHOP-400").count(), 0);
    runs.unshift({ ...runs[2], run_id: "zz", issue_id: "SHOP-500", issue_title: "Just finished" });
    mock.publish({ type: "session_ended", session_id: "x", issue_id: "SHOP-500", stage: "plan", outcome: "succeeded" });
    await done.getByRole("link", { name: "Just finished" }).waitFor();
    await done.getByRole("link", { name: "All in History" }).click();
    await page.waitForURL("**/history?outcome=succeeded&since=7d");
    await page.getByRole("table").waitFor();
  });

  it("counts the issues that are done today, and marks estimated costs", async () => {
    for (const [index, run] of mock.world.runs.entries())
      for (const attempt of run.attempts) attempt.ended_at &&= new Date(Date.now() - (index < 4 ? 0 : 86_400_000)).toISOString();
    page = await open(browser, mock.url);
    const tile = page.getByRole("link", { name: /done today/ });
    await tile.getByText("2").waitFor();
    assert.match(await tile.getAttribute("href"), /^\/history\?outcome=succeeded&since=\d{4}-\d\d-\d\d$/);
    assert.match(await page.locator(".tiles").innerText(), /\$11\.62 of \$20\.00 spent today \(UTC\), ~\$1\.20 of it estimated/);
    assert.match(await liveRow("SHOP-150").innerText(), /\$0\.08 cost, ~\$0\.08 of it estimated/);
    assert.doesNotMatch(await liveRow("SHOP-97").innerText(), /estimated/);
  });

  it("shows code between backticks as code, and names of reasons as words with the code as a title", async () => {
    const { parked } = mock.world.status;
    parked[0].detail = "parked (attempts_used_up): `verify` exited with 1, see attempts_used_up_log";
    page = await open(browser, mock.url);
    const row = page.locator("#parked li", { hasText: "SHOP-88" });
    await row.getByText("parked (attempts used up): verify exited with 1, see attempts_used_up_log").waitFor();
    assert.deepEqual(await row.locator("code").allInnerTexts(), ["verify", "vik retry SHOP-88"]);
    assert.equal(await row.locator(".chip").getAttribute("title"), "attempts_used_up");
    assert.equal(await row.locator("p [title]").first().getAttribute("title"), "attempts_used_up");
    assert.doesNotMatch(await page.locator("body").innerText(), /`/);
  });

  it("shows the workers and where attempts run, if there are workers", async () => {
    const { status } = mock.world;
    page = await open(browser, mock.url);
    await liveRow("SHOP-97").waitFor();
    assert.equal(await page.locator("#workers").count(), 0);
    status.workers = [
      { name: "build-2", labels: [], state: "mismatched_version", running: 0, capacity: 2, version: "<b>0.1.9</b>" },
      { name: "gpu-1", labels: ["cuda", "gpu"], state: "ready", running: 1, capacity: 4, version: "0.2.0" },
    ];
    status.sessions.find((entry) => entry.issue_id === "SHOP-97").worker = "gpu-1";
    mock.publish({ type: "state" });
    const rows = page.locator("#workers tbody tr");
    await rows.first().waitFor();
    assert.match(await rows.nth(0).innerText(), /build-2\s+mismatched version\s+0 of 2\s+<b>0\.1\.9<\/b>\s+–/);
    assert.match(await rows.nth(1).innerText(), /gpu-1\s+ready\s+1 of 4\s+0\.2\.0\s+cuda, gpu/);
    assert.match(await liveRow("SHOP-97").innerText(), /on gpu-1/);
    assert.ok(await hasNoHorizontalScroll(page));
    status.workers = [];
    mock.publish({ type: "state" });
    await page.locator("#workers").waitFor({ state: "detached" });
  });

  it("leaves no half of a row empty", async () => {
    const width = (id) => page.locator(id).evaluate((el) => el.getBoundingClientRect().width);
    page = await open(browser, mock.url, { width: 1440 });
    await liveRow("SHOP-97").waitFor();
    assert.ok((await width("#parked")) < 720);
    const height = (id) => page.locator(id).evaluate((el) => el.getBoundingClientRect().height);
    assert.equal(await height("#parked"), await height("#waiting"));
    mock.world.status.parked = [];
    mock.publish({ type: "state" });
    await page.getByText("No parked issues.").waitFor();
    assert.ok((await width("#waiting")) > 1300);
    assert.ok((await width("#parked")) > 1300);
  });

  it("shows the title of a parked issue also if the status lacks it", async () => {
    mock.world.status.parked[0].issue_title = "";
    page = await open(browser, mock.url);
    await page.locator("#parked li", { hasText: "SHOP-88" }).getByText("Flaky test in the payment module").waitFor();
  });

  it("names the project in the header and in the title of the window", async () => {
    page = await open(browser, mock.url);
    await page.getByRole("link", { name: new RegExp(`^shop ${new URL(mock.url).host}`) }).waitFor();
    await page.locator("#top").getByText(new URL(mock.url).host).waitFor();
    await page.waitForFunction(() => document.title === "Board · shop · Vik");
  });

  it("says that an address has no page, also to a browser that is not signed in", async () => {
    for (const storageState of [undefined, { cookies: [], origins: [] }]) {
      page = await open(browser, `${mock.url}/no/such/page`, storageState ? { storageState } : {});
      await page.getByRole("heading", { name: "Page not found." }).waitFor();
      page.assertClean();
      await page.context().close();
    }
    page = null;
  });

  it("updates without a reload, and keeps the focus, the scroll position and open details", async () => {
    page = await open(browser, mock.url);
    await liveRow("SHOP-142").waitFor();
    await page.evaluate(() => {
      window.isSameDocument = true;
    });
    await page.locator("summary", { hasText: "Not in a stage" }).click();
    const cancel = liveRow("SHOP-142").getByRole("button", { name: /^Cancel/ });
    await cancel.focus();
    await page.evaluate(() => scrollTo(0, 300));
    const positionY = (await cancel.boundingBox()).y;
    // A row above it is removed, another one is added, and the row itself changes.
    const { status } = mock.world;
    status.sessions = status.sessions.filter((entry) => entry.issue_id !== "SHOP-150");
    status.sessions.push(
      session(20, "SHOP-777", "A new one", "plan", { since: new Date(Date.now() - 3600_000).toISOString() }),
    );
    mock.world.issues.push(issueView("SHOP-777", "A new one", "To do", []));
    mock.publish({ type: "state" });
    await liveRow("SHOP-777").waitFor();
    await liveRow("SHOP-150").waitFor({ state: "detached" });
    mock.publish({
      type: "session",
      ...status.sessions.find((entry) => entry.issue_id === "SHOP-142"),
      activity: "Bash: git commit",
    });
    await liveRow("SHOP-142").getByText("git commit").waitFor();
    assert.ok(await page.evaluate(() => window.isSameDocument), "the document was not reloaded");
    assert.match(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), /Cancel SHOP-142/);
    assert.ok(Math.abs((await cancel.boundingBox()).y - positionY) < 60, "the focused row keeps its position");
    assert.ok((await page.evaluate(() => scrollY)) > 200);
    assert.ok(await page.locator("details", { hasText: "Not in a stage" }).evaluate((el) => el.open));
  });

  it("counts the time of running sessions", async () => {
    page = await open(browser, mock.url);
    const time = liveRow("SHOP-142").locator("time[data-time-format=elapsed]");
    await time.waitFor();
    const first = await time.innerText();
    await page.waitForFunction(([el, text]) => el.textContent !== text, [await time.elementHandle(), first], {
      timeout: 5000,
    });
    assert.match(await time.getAttribute("datetime"), /^\d{4}-/);
    assert.match(await time.getAttribute("title"), /\d{4}/);
  });

  it("retries a parked stage with its button", async () => {
    page = await open(browser, mock.url);
    await page.getByRole("button", { name: "Retry SHOP-88, implement" }).click();
    await page.locator("#parked", { hasNotText: "SHOP-88" }).waitFor();
    assert.deepEqual(mock.commands, [["issues/SHOP-88/retry", { stage: "implement", attempts: null, agent: false }]]);
    await page.locator(".card", { hasText: "SHOP-88" }).getByText("ready").waitFor();
    await page.locator("#toasts").getByText("Retrying 1 stage of SHOP-88.").waitFor();
  });

  it("hands finished work over with its button", async () => {
    page = await open(browser, mock.url);
    await liveRow("SHOP-97").waitFor();
    await fetch(`${mock.url}/mock/handover`, { method: "POST" });
    await page.getByText("the work is done, but its hand-over failed (1 of 8 tries)").first().waitFor();
    await page.getByRole("button", { name: "Hand over SHOP-131, implement" }).click();
    await page.locator("#toasts").waitFor();
    assert.deepEqual(mock.commands, [["issues/SHOP-131/retry", { stage: "implement", attempts: null, agent: false }]]);
  });

  it("works with the keyboard alone: skip link, tab to the button, retry; the focus stays in the section", async () => {
    page = await open(browser, mock.url);
    await liveRow("SHOP-97").waitFor();
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
    await page.keyboard.press("Enter");
    const seen = [];
    for (let index = 0; index < 80; index++) {
      await page.keyboard.press("Tab");
      const name = await page.evaluate(() => {
        const el = document.activeElement;
        return [
          el.getAttribute("aria-label") ?? el.textContent,
          getComputedStyle(el).outlineStyle,
          el.getBoundingClientRect().height > 0,
        ];
      });
      assert.equal(name[1], "solid", `the focus on ${name[0]} is visible`);
      seen.push(name[0]);
      if (name[0] === "Retry SHOP-88, implement") break;
    }
    assert.equal(seen.at(-1), "Retry SHOP-88, implement");
    await page.keyboard.press("Enter");
    await page.locator("#parked", { hasNotText: "SHOP-88" }).waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Parked1");
    await page.keyboard.press("?");
    await page.getByRole("dialog").getByText("Enable single-key shortcuts").waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("j");
    assert.ok(await page.evaluate(() => document.activeElement.matches("[data-item]")));
    await page.keyboard.press("r");
    await page.getByRole("heading", { name: "Report", exact: true }).waitFor();
    await page.keyboard.press("b");
    await page.getByRole("heading", { name: "Board" }).waitFor();
  });

  it("shows pending approvals, and sends the answer with the id of the request", async () => {
    page = await open(browser, mock.url);
    const approvals = page.locator("#approvals");
    assert.match(await approvals.innerText(), /SHOP-131[^]*a person must approve the start[^]*Denied in \d+ h/);
    assert.match(await approvals.innerText(), /git push; echo "<b>bold<\/b>"/);
    await page.getByRole("button", { name: "Approve SHOP-131, implement" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Back" }).click();
    assert.deepEqual(mock.commands, []);
    await page.getByRole("button", { name: "Approve SHOP-131, implement" }).click();
    const id = mock.world.status.approvals[0].id;
    await page.getByRole("dialog").getByRole("button", { name: "Approve" }).click();
    await page.locator("#approvals", { hasNotText: "SHOP-131" }).waitFor();
    await page.getByRole("button", { name: /^Deny / }).click();
    await page.getByRole("textbox", { name: /^What to do instead/ }).fill("Open a pull request.");
    await page.getByRole("dialog").getByRole("button", { name: "Deny" }).click();
    await approvals.waitFor({ state: "detached" });
    assert.deepEqual(
      mock.commands.map(([path, body]) => [path.split("/").at(-1), body]),
      [
        ["approve", { request: id, message: null }],
        ["deny", { request: "call-1", message: "Open a pull request." }],
      ],
    );
  });

  it("shows questions of agents as data, and sends a choice or a text with the id of the question", async () => {
    const question = (id, issue, choices, more = {}) => ({
      run_id: id,
      issue_id: issue,
      issue_title: "Refunds",
      stage: "implement",
      id,
      text: "Which <b>table</b>?",
      choices,
      since: new Date().toISOString(),
      needs_person: !choices.length,
      ...more,
    });
    const timeout = { at: new Date(Date.now() + 3_600_000).toISOString(), answer: "old" };
    mock.world.status.questions = [
      question("q-1", "SHOP-131", ["old", "<i>new</i>"], { timeout }),
      question("q-2", "SHOP-88", []),
    ];
    page = await open(browser, mock.url);
    const questions = page.locator("#questions");
    assert.match(await questions.innerText(), /Which <b>table<\/b>\?[^]*Answered with “old” in [^]*<i>new<\/i>/);
    assert.match(await questions.innerText(), /needs a person/i);
    await page.getByRole("button", { name: "Answer SHOP-131, implement with <i>new</i>" }).click();
    await page.getByRole("dialog").getByText("Answer: <i>new</i>").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Answer" }).click();
    await page.locator("#questions", { hasNotText: "SHOP-131" }).waitFor();
    await page.getByRole("button", { name: "Answer SHOP-88, implement with a text" }).click();
    await page.getByRole("textbox", { name: "Answer" }).fill("Both.\nIn order.");
    await page.getByRole("dialog").getByRole("button", { name: "Answer" }).click();
    await questions.waitFor({ state: "detached" });
    assert.deepEqual(mock.commands, [
      ["issues/SHOP-131/answer", { question: "q-1", choice: 2 }],
      ["issues/SHOP-88/answer", { question: "q-2", text: "Both.\nIn order." }],
    ]);
  });

  it("shows the beginning of the text with an approval, and links to all of it and to the diff", async () => {
    page = await open(browser, mock.url);
    const row = page.locator("#approvals li", { hasText: "SHOP-131" });
    await row.getByText("A refund of more than a thousand fails").waitFor();
    await row.getByRole("link", { name: /^Diff of / }).click();
    await page.getByText("7 files changed").waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Changes");
    await page.goBack();
    await row.getByRole("link", { name: /^Whole text of / }).click();
    await page.getByText("The last line.").waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Description");
  });

  it("cancels an attempt after a confirmation", async () => {
    page = await open(browser, mock.url);
    const button = liveRow("SHOP-142").getByRole("button", { name: /^Cancel/ });
    await button.click();
    await page.getByRole("dialog").getByRole("button", { name: "Back" }).click();
    assert.deepEqual(mock.commands, []);
    await button.click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel the attempt" }).click();
    await liveRow("SHOP-142").waitFor({ state: "detached" });
    assert.deepEqual(mock.commands, [["issues/SHOP-142/cancel", {}]]);
  });

  it("pauses, resumes, refreshes and drains", async () => {
    page = await open(browser, mock.url);
    await page.getByRole("button", { name: "Pause" }).click();
    await page.locator("#banners").getByText("No new attempts start; running attempts continue.").waitFor();
    await page.locator("#banners").getByRole("button", { name: "Resume" }).click();
    await page.locator("#banners .banner").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.locator("#toasts").getByText("Refresh requested.").waitFor();
    await page.getByRole("button", { name: "Stop when idle…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Stop when idle" }).click();
    await page.locator("#banners").getByText("Stopping when idle.").waitFor();
    assert.deepEqual(
      mock.commands.map(([path]) => path),
      ["pause", "resume", "refresh", "drain"],
    );
  });

  it("shows the address of the webhooks, and a notifier whose deliveries fail", async () => {
    page = await open(browser, mock.url);
    await page.getByText("webhooks at 127.0.0.1:8081").waitFor();
    assert.equal(await page.getByText("deliveries failing").count(), 0);
    await fetch(`${mock.url}/mock/notifier`, { method: "POST" });
    await page.locator("#banners").getByText("3 deliveries failing since").waitFor();
    await page.locator("#banners").getByText("503 <b>Service Unavailable</b>").waitFor();
    assert.ok(await hasNoHorizontalScroll(page));
  });

  it("shows a failed pull, a rejected edit and a ledger that cannot be written", async () => {
    page = await open(browser, mock.url);
    for (const name of ["pullfail", "reject", "ledger"]) await fetch(`${mock.url}/mock/${name}`, { method: "POST" });
    await page.getByText("The pull failed (3 in a row)").waitFor();
    await page.getByText("next pull in 2 min").waitFor();
    await page.locator("#banners").getByText("did you mean codex?").waitFor();
    await page.locator("#banners").getByText("database or disk is full").waitFor();
    assert.ok(await hasNoHorizontalScroll(page));
  });

  it("shows a lost connection, and loads the missed changes after it reconnects", async () => {
    page = await open(browser, mock.url);
    await page.locator("#top").getByText("Live").waitFor();
    mock.refusesFeeds = true;
    mock.dropFeeds();
    await page.locator("#top").getByText("Connection lost").waitFor();
    mock.world.status.sessions = [];
    mock.refusesFeeds = false;
    await page.getByText("No running sessions.").waitFor({ timeout: 15_000 });
    await page.locator("#top").getByText("Live").waitFor();
  });

  it("shows how to sign in to a browser that is not signed in", async () => {
    mock.world.signedIn = false;
    page = await open(browser, mock.url);
    await page.getByRole("heading", { name: "This browser is not signed in" }).waitFor();
    await page.getByText("vik status").waitFor();
  });

  it("stays fast while many sessions publish facts", async () => {
    const { status } = mock.world;
    for (let index = 30; index < 50; index++)
      status.sessions.push(session(index, `MANY-${index}`, "One of many", "implement"));
    for (let index = 0; index < 200; index++)
      mock.world.issues.push(
        issueView(`BULK-${index}`, `Bulk ${index}`, "To do", [
          { stage: "plan", state: "ready", attempts: 0, max_attempts: 3, hold: null, session_id: null },
        ]),
      );
    page = await open(browser, mock.url);
    await liveRow("MANY-30").waitFor();
    const requests = [];
    page.on("request", (request) => requests.push(request.url()));
    // The clock of the thread does not count other processes.
    const devtools = await page.context().newCDPSession(page);
    await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
    const taskSeconds = async () =>
      (await devtools.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
    const before = await taskSeconds();
    for (let round = 0; round < 20; round++) {
      for (const entry of status.sessions)
        mock.publish({ type: "session", ...entry, activity: `step ${round}`, events: entry.events + round });
      await page.waitForTimeout(50);
    }
    await liveRow("MANY-30").getByText("step 19").waitFor();
    const elapsedSeconds = (await taskSeconds()) - before;
    assert.ok(elapsedSeconds < 2, `480 facts took ${elapsedSeconds.toFixed(2)} s of the main thread`);
    assert.ok(requests.length < 5, requests.join("\n"));
  });

  it("filters issues, and shows a tracker with very many", async () => {
    for (let index = 0; index < 1500; index++)
      mock.world.issues.push(
        issueView(`BULK-${String(index).padStart(4, "0")}`, `Bulk ${index}`, "To do", [
          { stage: "plan", state: "ready", attempts: 0, max_attempts: 3, hold: null, session_id: null },
        ]),
      );
    mock.world.issues.sort((a, b) => (a.issue_id < b.issue_id ? -1 : 1));
    page = await open(browser, mock.url);
    await page.getByText(/200 of 1,514 issues are loaded/).waitFor();
    assert.ok((await page.locator(".card").count()) < 60);
    await page.locator(".card", { hasText: "SHOP-97" }).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("bulk-0777");
    await page.waitForFunction(() => document.querySelectorAll(".card").length === 1);
    assert.equal(await page.evaluate(() => document.activeElement.value), "bulk-0777");
  });

  it("keeps the chosen theme after a reload", async () => {
    page = await open(browser, mock.url);
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await background();
    await page.getByRole("button", { name: /^Theme/ }).click();
    assert.notEqual(await background(), light);
    await page.reload();
    assert.notEqual(await background(), light);
  });

  it("shows hints where lists are empty", async () => {
    Object.assign(mock.world.status, { sessions: [], parked: [], waiting: [] });
    mock.world.issues.length = 0;
    page = await open(browser, mock.url);
    for (const text of ["No running sessions.", "No parked issues.", "No waiting issues.", "The tracker has no issues."])
      await page.getByText(text).waitFor();
  });
});
