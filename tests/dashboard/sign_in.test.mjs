// Tests of signing in and out, and of the secrecy of the token: with the mock, or with the real daemon whose link is in
// `VIK_DASHBOARD_URL`.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, beforeEach, describe, it } from "node:test";
import { launch, open } from "./browser.mjs";
import { API_TOKEN, startMock } from "./mock.mjs";
import { readEvents } from "../../crates/vik-control/src/web/sse.js";

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

const waitUntilLive = (page) => page.locator("#top").getByText("Live").waitFor();
const waitUntilSignedOut = (page) => page.getByRole("heading", { name: "This browser is not signed in" }).waitFor();

describe("a browser", () => {
  it("signs in with a link, stays signed in after a reload and in a second tab, and signs out in all tabs", async () => {
    const page = await open(browser, link, { storageState: undefined });
    const origin = new URL(link).origin;
    await page.getByRole("heading", { name: "Board" }).waitFor();
    await waitUntilLive(page);
    assert.equal(page.url(), `${origin}/`, "the code is removed from the address");
    const requests = [];
    page.context().on("request", (request) => requests.push(request));
    await page.reload();
    await waitUntilLive(page);
    const second = await page.context().newPage();
    await second.goto(`${origin}/report`);
    await second.getByRole("heading", { name: "By stage" }).waitFor();
    await waitUntilLive(second);

    // All requests, also for the feed, are sent by `fetch` with the token; no cookie is stored or sent.
    const feeds = requests.filter((request) => request.url().endsWith("/api/v1/events"));
    assert.ok(feeds.length >= 2);
    for (const request of requests.filter((request) => request.url().includes("/api/"))) {
      const headers = await request.allHeaders();
      assert.match(headers.authorization, /^Bearer [^.]+\../, request.url());
      assert.equal(headers.cookie, undefined);
      assert.notEqual(request.resourceType(), "eventsource");
    }
    assert.deepEqual(await page.context().cookies(), []);

    // The link works once, and neither the history nor a referrer contains it.
    const other = await open(browser, link, { storageState: undefined });
    await other.getByRole("alert").getByText("the link was already used, or has expired").waitFor();
    await waitUntilSignedOut(other);
    await other.context().close();
    await page.goBack().catch(() => {});
    assert.ok(!page.url().includes("code="), page.url());
    await page.goto(`${origin}/`);
    await waitUntilLive(page);

    // A development server at another port of the same host, as an agent can start one.
    const requestHeaders = [];
    const server = createServer((request, response) => {
      requestHeaders.push(request.headers);
      response.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html><title>An app</title>");
    });
    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    const app = await page.context().newPage();
    await app.goto(`http://127.0.0.1:${server.address().port}/`);
    const stored = await app.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage, c: document.cookie }));
    assert.equal(stored, '{"c":""}');
    const answer = await app.evaluate(
      (url) => fetch(url, { credentials: "include" }).then((response) => response.status, () => "refused"),
      `${origin}/api/v1/state`,
    );
    assert.equal(answer, "refused");
    assert.ok(requestHeaders.length > 0);
    for (const headers of requestHeaders) assert.ok(!headers.cookie && !headers.authorization);
    await app.close();
    server.close();

    // Signing out in one tab signs out both; neither shows data of the daemon.
    await second.getByRole("link", { name: "Daemon" }).click();
    await second.getByRole("link", { name: "Sign-ins" }).click();
    await second.getByText("this browser").waitFor();
    await second.getByRole("button", { name: "Sign out this browser" }).click();
    await second.getByRole("dialog").getByRole("button", { name: "Sign out" }).click();
    await waitUntilSignedOut(second);
    await waitUntilSignedOut(page);
    assert.equal(await page.evaluate(() => localStorage.length), 0);
    await page.reload();
    await waitUntilSignedOut(page);
    page.assertClean();
    await page.context().close();
  });

  it("signs in with the API token, which is in no address, and signs out", async (test) => {
    if (!mock) return test.skip("the token of a real daemon is not known");
    const page = await open(browser, mock.url, { storageState: undefined });
    const requests = [];
    page.context().on("request", (request) => requests.push(request));
    await page.getByLabel("Token of the HTTP API").fill("not the token");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("The daemon does not accept this token.").waitFor();
    assert.equal(await page.evaluate(() => localStorage.length), 0);
    await page.getByLabel("Token of the HTTP API").fill(API_TOKEN);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Board" }).waitFor();
    await waitUntilLive(page);
    await page.reload();
    await waitUntilLive(page);
    // A link replaces the token without an attempt to revoke it as the sign-in of a browser.
    await page.goto(link);
    await page.reload();
    await waitUntilLive(page);
    await page.evaluate((token) => localStorage.setItem("vik.sign-in", `:${token}`), API_TOKEN);
    await page.goto(`${mock.url}/sign-ins`);
    await page.getByText("This browser uses the API token").waitFor();
    await page.getByRole("button", { name: "Sign out this browser" }).click();
    await waitUntilSignedOut(page);
    assert.equal(await page.evaluate(() => localStorage.length), 0);
    assert.deepEqual(requests.filter((request) => /api-token-of|the\.api/.test(request.url())), []);
    assert.deepEqual(mock.commands, []);
    page.assertClean();
    await page.context().close();
  });

  it("is signed out by another browser at once, without a reload", async (test) => {
    if (!mock) return test.skip("a real daemon has only one link");
    const page = await open(browser, link, { storageState: undefined });
    await waitUntilLive(page);
    const admin = await open(browser, `${mock.url}/sign-ins`);
    await admin.getByRole("button", { name: /Sign out b0b0b0b\d/ }).click();
    await admin.getByRole("dialog").getByRole("button", { name: "Sign out" }).click();
    await waitUntilSignedOut(page);
    await admin.getByText("this browser").waitFor();
    assert.equal(await admin.getByRole("row").count(), 2);
    page.assertClean();
    admin.assertClean();
    await page.context().close();
    await admin.context().close();
  });
});

describe("the stream of events", () => {
  const events = async (...pieces) => {
    const events = [];
    const bytes = new TextEncoder();
    const stream = new ReadableStream({
      start(controller) {
        for (const piece of pieces) controller.enqueue(typeof piece === "string" ? bytes.encode(piece) : piece);
        controller.close();
      },
    });
    await readEvents(stream, (event) => events.push([event.id, event.type, event.data]));
    return events;
  };

  it("is parsed at any split of its bytes", async () => {
    const text = 'retry: 1000\n: hello\n\nid: 1-7\nevent: state\ndata: {"a":"ü"}\n\nevent: x\r\ndata:one\r\ndata: two\r\n\r\ndata: cut off';
    const expected = [
      ["1-7", "state", '{"a":"ü"}'],
      ["1-7", "x", "one\ntwo"],
    ];
    assert.deepEqual(await events(text), expected);
    const bytes = new TextEncoder().encode(text);
    assert.deepEqual(await events(...[...bytes].map((byte) => Uint8Array.of(byte))), expected);
  });
});
