// Takes screenshots of every page: `node shots.mjs FOLDER [NAME,…]`.

import { launch, open } from "./browser.mjs";
import { startMock } from "./mock.mjs";
import { FAILED, HOSTILE_ID, HOSTILE_SESSION, LONG } from "./world.mjs";

const folder = process.argv[2] ?? "shots";
const PAGES = {
  board: "/",
  issue: "/issues/SHOP-88",
  live_issue: "/issues/SHOP-97",
  session: `/sessions/${LONG}`,
  failed: `/sessions/${FAILED}`,
  diff: `/sessions/${FAILED}#diff`,
  scripts: `/sessions/${FAILED}#scripts`,
  history: "/history",
  report: "/report?since=7d",
  hostile_issue: `/issues/${encodeURIComponent(HOSTILE_ID)}`,
  hostile_session: `/sessions/${HOSTILE_SESSION}`,
};
const SIZES = {
  light: { scheme: "light" },
  dark: { scheme: "dark" },
  phone: { scheme: "light", width: 390, height: 844 },
};

const mock = await startMock();
const browser = await launch();
const selected = process.argv[3]?.split(",");
for (const [size, options] of Object.entries(SIZES)) {
  for (const [name, path] of Object.entries(PAGES)) {
    if (selected && !selected.includes(name)) continue;
    const page = await open(browser, mock.url + path, options);
    await page.waitForSelector("h1");
    await page.waitForTimeout(900);
    await page.screenshot({
      path: `${folder}/${name}-${size}.png`,
      fullPage: !name.includes("session") && name !== "failed",
    });
    try {
      page.assertClean();
    } catch (error) {
      console.error(name, size, error.message);
    }
    await page.context().close();
  }
}
await browser.close();
await mock.close();
