// Takes the pictures of a session that is steered, asks, is taken over and handed back: `node live_shots.mjs FOLDER`.
// `cargo xtask web shots` starts it in the folder of a daemon whose agent works on issue 42. Its link is in
// `VIK_DASHBOARD_URL`, and the program in `VIK`.

import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { launch, open, waitUntilDrawn } from "./browser.mjs";
import { shrink } from "./png.mjs";

const [folder] = process.argv.slice(2);
const { VIK, VIK_DASHBOARD_URL: link } = process.env;
if (!folder || !VIK || !link) throw new Error("usage: cargo xtask web shots");
const ISSUE = "42";
const SIZE = { width: 1280, height: 860, reducedMotion: "reduce" };
const WAIT_MS = 60_000;

const vik = (...args) => execFileSync(VIK, args, { encoding: "utf8" });
const status = () => JSON.parse(vik("status", "--json"));

/** Waits until `find` returns something for the status, and returns it. */
async function waitFor(what, find) {
  for (const until = Date.now() + WAIT_MS; Date.now() < until; ) {
    const found = find(status());
    if (found) return found;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`there never was ${what}`);
}

const session = ({ sessions }) => sessions.find(({ issue_id }) => issue_id === ISSUE);
const inTool = (status) => session(status)?.waits_for?.kind === "tool" && session(status);

const browser = await launch();
let storageState;
{
  const page = await open(browser, link, { storageState: undefined });
  await page.getByRole("heading", { name: "Board" }).waitFor();
  storageState = await page.context().storageState();
  await page.context().close();
}

/** Takes a picture of a page in light and dark, once it has an element that `find` locates. */
async function shoot(name, path, find) {
  for (const [suffix, scheme] of [["", "light"], ["-dark", "dark"]]) {
    const page = await open(browser, new URL(path, link).href, { ...SIZE, scheme, storageState });
    await waitUntilDrawn(page);
    await find(page).first().waitFor();
    writeFileSync(`${folder}/${name}${suffix}.png`, shrink(await page.screenshot()));
    page.assertClean();
    await page.context().close();
  }
}

const workspace = `home/workflows/${readdirSync("home/workflows")[0]}/issues/${ISSUE}`;
/** The tests of the agent wait for this file. */
const testsMayEnd = `${workspace}/.git/go`;
const finishTests = () => writeFileSync(testsMayEnd, "");

// Steered: the message comes while the tests run, and the next answer of the model follows it.
const first = await waitFor("a running tool", inTool);
vik("message", ISSUE, "Keep the order of the columns: the warehouse reads them by position.");
await waitFor("a message to the agent", () => vik("logs", "--issue", ISSUE, "--json").includes('"person_message"'));
finishTests();
await waitFor("a partial answer", (status) => {
  const { waits_for: waits, tokens_per_second: speed } = session(status) ?? {};
  return waits?.detail === "text" && speed;
});
await shoot("live-steered", `/sessions/${first.session_id}`, (page) => page.locator(".event.kind-person_message"));

// It asks.
await waitFor("a question", ({ questions }) => questions.length);
await shoot("live-question", `/issues/${ISSUE}`, (page) => page.locator("#questions"));
vik("answer", ISSUE, "--choice", "2");

// Taken over: a person changes the workspace.
await waitFor("a running test", (status) => !existsSync(testsMayEnd) && inTool(status));
vik("takeover", ISSUE);
writeFileSync(`${workspace}/export.py`, 'OLD = "EUR"\n\n\ndef row(order):\n    return [order.id, order.amount, order.currency or OLD]\n');
writeFileSync(`${workspace}/test_export.py`, 'def test_old_order(old_order):\n    assert row(old_order)[-1] == "EUR"\n');
await shoot("live-taken-over", `/issues/${ISSUE}`, (page) => page.getByRole("button", { name: "Hand back" }));

// Handed back: the next attempt knows what has changed.
vik("handback", ISSUE, "-m", "I have added a test of an old order. Run all tests with it.");
const last = await waitFor("a running tool", inTool);
await shoot("live-handed-back", `/sessions/${last.session_id}#prompt`, (page) => page.getByText("had taken this issue over"));
finishTests();
await browser.close();
