// Signing in and out, and who gets to see the token: with the mock, and, where `VIK_DASHBOARD_URL` has a link, with a
// real daemon.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, beforeEach, describe, it } from "node:test";
import { launch, open } from "./browser.mjs";
import { startMock } from "./mock.mjs";
import { readEvents } from "../../src/control/web/sse.js";

let browser;
let mock;
let link;
before(async () => {
  browser = await launch();
  link = process.env.VIK_DASHBOARD_URL;
});
beforeEach(async () => {
  if (process.env.VIK_DASHBOARD_URL) return;
  await mock?.close();
  mock = await startMock();
  link = `${mock.url}/login#code=a-code`;
});
after(async () => {
  await browser.close();
  await mock?.close();
});

const live = (page) => page.locator("#top").getByText("Live").waitFor();
const locked = (page) => page.getByRole("heading", { name: "This browser is not signed in" }).waitFor();

describe("a browser", () => {
  it("signs in by a link, stays so over a reload and in a second tab, and is signed out in all of them", async () => {
    const page = await open(browser, link, { storageState: undefined });
    const origin = new URL(link).origin;
    await page.getByRole("heading", { name: "Board" }).waitFor();
    await live(page);
    assert.equal(page.url(), `${origin}/`, "the code is not in the address any more");
    const asked = [];
    page.context().on("request", (request) => asked.push(request));
    await page.reload();
    await live(page);
    const second = await page.context().newPage();
    await second.goto(`${origin}/report`);
    await second.getByRole("heading", { name: "By stage" }).waitFor();
    await live(second);

    // The feed and all else is asked for with the token, by `fetch`; no cookie is kept or sent.
    const feeds = asked.filter((request) => request.url().endsWith("/api/v1/events"));
    assert.ok(feeds.length >= 2);
    for (const request of asked.filter((one) => one.url().includes("/api/"))) {
      const headers = await request.allHeaders();
      assert.match(headers.authorization, /^Bearer [^.]+\../, request.url());
      assert.equal(headers.cookie, undefined);
      assert.notEqual(request.resourceType(), "eventsource");
    }
    assert.deepEqual(await page.context().cookies(), []);

    // The link is used up, and neither the history nor a referrer has it.
    const other = await open(browser, link, { storageState: undefined });
    await other.getByRole("alert").getByText("the link was already used, or has expired").waitFor();
    await locked(other);
    await other.context().close();
    await page.goBack().catch(() => {});
    assert.ok(!page.url().includes("code="), page.url());
    await page.goto(`${origin}/`);
    await live(page);

    // A dev server at another port of the same host, as an agent may start one.
    const seen = [];
    const server = createServer((request, response) => {
      seen.push(request.headers);
      response.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html><title>An app</title>");
    });
    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    const app = await page.context().newPage();
    await app.goto(`http://127.0.0.1:${server.address().port}/`);
    const stored = await app.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage, c: document.cookie }));
    assert.equal(stored, '{"c":""}');
    const answer = await app.evaluate(
      (url) => fetch(url, { credentials: "include" }).then((got) => got.status, () => "refused"),
      `${origin}/api/v1/state`,
    );
    assert.equal(answer, "refused");
    assert.ok(seen.length > 0);
    for (const headers of seen) assert.ok(!headers.cookie && !headers.authorization);
    await app.close();
    server.close();

    // Signed out in one tab, both are: nothing of the daemon's stays on either.
    await second.getByRole("link", { name: "Sign-ins" }).click();
    await second.getByText("this browser").waitFor();
    await second.getByRole("button", { name: "Sign this browser out" }).click();
    await second.getByRole("dialog").getByRole("button", { name: "Sign out" }).click();
    await locked(second);
    await locked(page);
    assert.equal(await page.evaluate(() => localStorage.length), 0);
    await page.reload();
    await locked(page);
    page.clean();
    await page.context().close();
  });

  it("that is signed out from elsewhere is so at once, without a reload", async (test) => {
    if (!mock) return test.skip("the daemon gives one link");
    const page = await open(browser, link, { storageState: undefined });
    await live(page);
    const admin = await open(browser, `${mock.url}/sign-ins`);
    await admin.getByRole("button", { name: /Sign b0b0b0b\d out/ }).click();
    await admin.getByRole("dialog").getByRole("button", { name: "Sign out" }).click();
    await locked(page);
    await admin.getByText("this browser").waitFor();
    assert.equal(await admin.getByRole("row").count(), 2);
    page.clean();
    admin.clean();
    await page.context().close();
    await admin.context().close();
  });
});

describe("the stream of events", () => {
  const events = async (...pieces) => {
    const found = [];
    const bytes = new TextEncoder();
    const stream = new ReadableStream({
      start(to) {
        for (const piece of pieces) to.enqueue(typeof piece === "string" ? bytes.encode(piece) : piece);
        to.close();
      },
    });
    await readEvents(stream, (event) => found.push([event.id, event.type, event.data]));
    return found;
  };

  it("is read wherever its bytes are cut", async () => {
    const text = 'retry: 1000\n: hello\n\nid: 1-7\nevent: state\ndata: {"a":"ü"}\n\nevent: x\r\ndata:one\r\ndata: two\r\n\r\ndata: cut off';
    const whole = [
      ["1-7", "state", '{"a":"ü"}'],
      ["1-7", "x", "one\ntwo"],
    ];
    assert.deepEqual(await events(text), whole);
    const bytes = new TextEncoder().encode(text);
    assert.deepEqual(await events(...[...bytes].map((byte) => Uint8Array.of(byte))), whole);
  });
});
