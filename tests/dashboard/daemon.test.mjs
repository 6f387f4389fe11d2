import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { launch, open } from "./browser.mjs";
import { startMock } from "./mock.mjs";

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

const lines = () => page.locator(".log-line");

describe("the pages of the daemon", () => {
  it("are linked with each other, and have keys", async () => {
    page = await open(browser, mock.url);
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Daemon" }).click();
    await page.getByRole("heading", { name: "Workflow", exact: true }).waitFor();
    assert.equal(await page.getByRole("link", { name: "Daemon" }).getAttribute("aria-current"), "page");
    for (const name of ["Log", "Pulls", "Sign-ins"]) {
      await page.getByRole("navigation", { name: "Daemon" }).getByRole("link", { name }).click();
      await page.getByRole("heading", { name, exact: true }).waitFor();
    }
    for (const [key, name] of [["l", "Log"], ["p", "Pulls"], ["w", "Workflow"]]) {
      await page.keyboard.press(key);
      await page.getByRole("heading", { name, exact: true }).waitFor();
    }
  });

  it("show errors of their requests, with a button to try again", async () => {
    page = await open(browser, mock.url);
    await page.getByRole("heading", { name: "Live sessions" }).waitFor();
    for (const path of ["workflow", "log", "pulls"]) {
      await page.route(new RegExp(`/api/v1/${path}(\\?|$)`), (route) => route.fulfill({ status: 404 }));
      await page.goto(`${mock.url}/${path}`);
      await page.getByRole("alert").getByText("the server answered with status 404").waitFor();
      await page.unroute(new RegExp(`/api/v1/${path}(\\?|$)`));
      await page.getByRole("button", { name: "Try again" }).click();
      await page.locator("main section :is(dd, .log-line, td)").first().waitFor();
    }
  });
});

describe("the workflow page", () => {
  it("shows the settings by section, and an edit that was refused", async () => {
    page = await open(browser, `${mock.url}/workflow`);
    const stage = page.getByRole("region", { name: "issue.stages.implement" });
    await stage.getByText("hooks.before_run").waitFor();
    assert.match(await stage.locator("pre").textContent(), /^git switch[^]*\nnpm ci$/);
    const agent = page.getByRole("region", { name: "agents.codex-default" });
    assert.match(await agent.innerText(), /env\.TOKEN\s+not shown/);
    assert.equal(await page.getByRole("group", { name: "Refused edit" }).count(), 0);
    await fetch(`${mock.url}/mock/reject`, { method: "POST" });
    await page.getByRole("group", { name: "Refused edit" }).getByText("did you mean `codex`?").waitFor();
  });
});

describe("the log page", () => {
  it("shows the latest lines first, and older ones on demand", async () => {
    page = await open(browser, `${mock.url}/log`);
    await lines().first().waitFor();
    assert.match(await lines().first().innerText(), /INFO[^]*pulled 27 issues in 412ms/);
    assert.match(await lines().first().locator("time").getAttribute("title"), /\d{4}, \d\d:\d\d:\d\d \S+/);
    assert.equal(await lines().count(), 200);
    await page.getByRole("button", { name: "Older lines" }).click();
    await page.waitForFunction(() => document.querySelectorAll(".log-line").length === 400);
    await page.getByRole("button", { name: "Older lines" }).click();
    await page.getByText("The log has no older lines.").waitFor();
    assert.equal(await lines().count(), 500);
  });

  it("filters by level, issue and text, and keeps the filters in the address", async () => {
    page = await open(browser, `${mock.url}/log`);
    await lines().first().waitFor();
    await page.getByLabel("Level").selectOption("warn");
    await page.waitForFunction(() => [...document.querySelectorAll(".level")].every((el) => /WARN|ERROR/.test(el.textContent)));
    await page.getByLabel("Issue").fill("SHOP-88");
    await page.waitForFunction(() => [...document.querySelectorAll(".level")].every((el) => el.textContent === "ERROR"));
    await page.locator("h1").focus();
    await page.keyboard.press("/");
    await page.keyboard.type("(old)");
    await page.waitForURL(/\/log\?level=warn&issue=SHOP-88&q=%28old%29$/);
    await page.waitForFunction(() => document.querySelectorAll(".log-line").length === 20);
    await page.reload();
    await page.waitForFunction(() => document.querySelectorAll(".log-line").length === 20);
    await lines().first().getByRole("link", { name: "SHOP-88" }).waitFor();
    await page.getByLabel("Text").fill("nothing of this kind");
    await page.getByText("No lines match.").waitFor();
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await page.waitForFunction(() => document.querySelectorAll(".log-line").length === 200);
  });

  it("goes on if the searched part of the files has no match", async () => {
    page = await open(browser, mock.url);
    await page.getByRole("heading", { name: "Live sessions" }).waitFor();
    await page.route(/\/api\/v1\/log\?limit=200$/, (route) =>
      route.fulfill({ json: { schema: 1, lines: [], next: "line 490" } }),
    );
    await page.goto(`${mock.url}/log`);
    await page.getByText("No line of the searched part matches.").waitFor();
    await page.getByRole("button", { name: "Older lines" }).click();
    await page.waitForFunction(() => document.querySelectorAll(".log-line").length === 10);
  });

  it("says that an empty log is empty", async () => {
    mock.world.log.length = 0;
    page = await open(browser, `${mock.url}/log`);
    await page.getByText("The log is empty.").waitFor();
  });
});

describe("the pulls page", () => {
  it("lists the pulls with their errors, and only the failed ones on demand", async () => {
    page = await open(browser, `${mock.url}/pulls`);
    await page.getByText("latest first; 3 failed").waitFor();
    assert.equal(await page.locator("tbody tr").count(), 60);
    assert.match(await page.locator("tbody tr").first().innerText(), /\d{4}, \d\d:\d\d:\d\d \S+[^]*succeeded\s+27\s+412ms/);
    await page.getByRole("button", { name: "Only failed" }).click();
    await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 3);
    assert.match(await page.locator("tbody tr").first().innerText(), /failed[^]*issues\.pull\.command exited with 1/);
    mock.world.pulls = [];
    mock.publish({ type: "pulled", ok: true, issues: 0 });
    await page.getByText("No pulls yet.").waitFor();
  });
});
