import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { launch, open } from "./browser.mjs";
import { startMock } from "./mock.mjs";
import { LIVE } from "./world.mjs";

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

const field = () => page.getByRole("textbox", { name: "Message to the agent" });
const section = () => page.locator("#messages");
const live = () => mock.world.status.sessions.find((session) => session.session_id === LIVE);

describe("messages", () => {
  it("are sent from the page of an issue, listed with their sender, and withdrawn", async () => {
    const id = live().issue_id;
    page = await open(browser, `${mock.url}/issues/${encodeURIComponent(id)}`);
    const send = section().getByRole("button", { name: "Send" });
    assert.ok(await send.isDisabled(), "an empty message is not sent");
    await field().fill("Use the other table.\nNot <b>this</b> one.");
    await page.getByRole("checkbox", { name: "Interrupt the current step" }).check();
    await send.click();
    await section().getByText("Not <b>this</b> one.").waitFor();
    assert.deepEqual(mock.commands.at(-1), [
      `issues/${id}/messages`,
      { text: "Use the other table.\nNot <b>this</b> one.", interrupt: true },
    ]);
    assert.equal(await field().inputValue(), "", "the box is empty again");
    assert.match(await section().innerText(), /a person \(dashboard, 127\.0\.0\.1\)/);
    assert.match(await section().innerText(), /interrupts/);
    await section().getByRole("button", { name: /^Withdraw/ }).click();
    await section().getByText("Not <b>this</b> one.").waitFor({ state: "detached" });
    assert.equal(mock.commands.at(-1)[1], "DELETE");
  });

  it("keep their text if they are refused, and say why an attempt does not get them at once", async () => {
    const id = mock.world.issues.find(
      (issue) => !mock.world.status.sessions.some((session) => session.issue_id === issue.issue_id),
    ).issue_id;
    page = await open(browser, `${mock.url}/issues/${encodeURIComponent(id)}`);
    await section().getByText("The next attempt gets it: the stage is parked.").waitFor();
    assert.equal(await page.getByRole("checkbox", { name: "Interrupt" }).count(), 0);
    await page.route("**/messages", (route) =>
      route.request().method() === "POST"
        ? route.fulfill({ status: 409, json: { detail: "64 messages wait", code: "message_refused", hint: "Withdraw one." } })
        : route.continue(),
    );
    await field().fill("hello");
    await section().getByRole("button", { name: "Send" }).click();
    await page.getByText("64 messages wait Withdraw one.").waitFor();
    assert.equal(await field().inputValue(), "hello");
  });

  it("are sent from the page of a running session, and shown in its transcript", async () => {
    page = await open(browser, `${mock.url}/sessions/${LIVE}`);
    await page.getByText("Send a message").click();
    await field().fill("hello");
    await field().press("Control+Enter");
    await page.getByText("Messages (1)").waitFor();
    mock.append(LIVE, {
      kind: "person_message",
      id: "0198f3c2-0000-7000-8000-000000000000",
      by: "a person (dashboard, 127.0.0.1)",
      text: "Use the other table.",
      sent_at: "2026-03-04T12:00:00Z",
      state: "sent",
    });
    const row = page.locator(".event.kind-person_message");
    await row.waitFor();
    assert.match(await row.innerText(), /Use the other table\./);
    assert.match(await row.innerText(), /sent to the agent · a person \(dashboard/);
  });
});
