// Takes pictures of the pages: `node shots.mjs FOLDER` those of the documentation, `node shots.mjs FOLDER all` every page
// in its whole length, also with hostile text.

import { mkdir, writeFile } from "node:fs/promises";
import { launch, open, waitUntilDrawn } from "./browser.mjs";
import { startMock } from "./mock.mjs";
import { shrink } from "./png.mjs";
import { FAILED, HOSTILE_ID, HOSTILE_SESSION, HOSTILE_TITLE, LONG } from "./world.mjs";

const [folder, set] = process.argv.slice(2);
if (!folder) throw new Error("usage: node shots.mjs FOLDER [all]");
const isForDocs = set !== "all";

const PAGES = {
  board: "/",
  issue: "/issues/SHOP-88",
  session: `/sessions/${FAILED}`,
  report: "/report?since=7d",
};
/** In the documentation, these pages have a light picture only. */
const LIGHT_ONLY = {
  search: `/sessions/${FAILED}?q=payments#event-26`,
  history: "/history",
  log: "/log",
};
const OTHERS = {
  approval: "/issues/SHOP-131",
  long_session: `/sessions/${LONG}`,
  diff: `/sessions/${FAILED}#diff`,
  steps: `/sessions/${FAILED}#scripts`,
  changes: "/issues/SHOP-88#changes",
  workflow: "/workflow",
  pulls: "/pulls",
  sign_ins: "/sign-ins",
  hostile_issue: `/issues/${encodeURIComponent(HOSTILE_ID)}`,
  hostile_session: `/sessions/${HOSTILE_SESSION}`,
};
const SIZES = {
  "": { scheme: "light", width: 1280, height: 860 },
  "-dark": { scheme: "dark", width: 1280, height: 860 },
  "-phone": { scheme: "light", width: 390, height: 844 },
  ...(isForDocs ? {} : { "-wide": { scheme: "light", width: 1920, height: 1080 } }),
};

/** Removes the hostile text from the world. */
function removeHostile({ world }) {
  const isCalm = (entry) => !JSON.stringify(entry).includes(JSON.stringify(HOSTILE_TITLE).slice(1, -1));
  for (const list of ["sessions", "approvals"]) world.status[list] = world.status[list].filter(isCalm);
  for (const list of ["issues", "runs", "log", "pulls"]) world[list] = world[list].filter(isCalm);
}

await mkdir(folder, { recursive: true });
const mock = await startMock();
if (isForDocs) removeHostile(mock);
const browser = await launch();
for (const [suffix, options] of Object.entries(SIZES)) {
  const pages = isForDocs ? (suffix ? PAGES : { ...PAGES, ...LIGHT_ONLY }) : { ...PAGES, ...LIGHT_ONLY, ...OTHERS };
  for (const [name, path] of Object.entries(pages)) {
    const page = await open(browser, mock.url + path, { ...options, reducedMotion: "reduce" });
    await waitUntilDrawn(page);
    const png = await page.screenshot({ fullPage: !isForDocs });
    await writeFile(`${folder}/${name}${suffix}.png`, isForDocs ? shrink(png) : png);
    page.assertClean();
    await page.context().close();
  }
}
await browser.close();
await mock.close();
