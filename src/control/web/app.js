// The shell: the bar on top, banners, which page is shown, keys.

import { h, render } from "./dom.js";
import { part, post } from "./api.js";
import { signIn, takeCode } from "./sign_in.js";
import { store, start } from "./store.js";
import { button, chip } from "./ui.js";
import { many, when } from "./format.js";
import { cut, visible } from "./visible.js";
import { resume } from "./steer.js";
import { keys } from "./keys.js";
import { boardPage } from "./board.js";
import { issuePage } from "./issue.js";
import { sessionPage } from "./session.js";
import { reportPage } from "./report.js";
import { signInsPage } from "./sign_ins.js";

const top = document.getElementById("top");
const banners = document.getElementById("banners");
const main = document.getElementById("main");

let page = null;
let locked = false;
/** Why the link did not sign in. */
let refused = null;

function route() {
  const [, first, ...rest] = location.pathname.split("/");
  let id = "";
  try {
    id = decodeURIComponent(rest.join("/"));
  } catch {
    return missingPage("This address is not valid.");
  }
  if (first === "") return boardPage();
  if (first === "issues" && id) return issuePage(id);
  if (first === "sessions" && id) return sessionPage(id);
  if (first === "report") return reportPage(new URLSearchParams(location.search).get("since"));
  if (first === "sign-ins") return signInsPage();
  return missingPage("Page not found.");
}

const missingPage = (text) => ({
  title: "Not found",
  view: () => [h("h1", { tabindex: -1 }, text), h("p", {}, h("a", { href: "/" }, "Go to the board"))],
});

let frame = 0;

/** Draws once before the next paint, however often it is asked for. */
export function draw() {
  if (frame) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    render(top, bar());
    render(banners, locked ? [] : bannerList());
    render(main, h("div", { key: page.key, class: `page ${page.wide ?? ""}` }, locked ? lockedView() : page.view()));
    document.title = locked ? "Vik" : `${visible(cut(page.title, 80))} · Vik`;
    page.drawn?.();
  });
}

let pages = 0;
let place = "";

function show() {
  page?.leave?.();
  place = location.pathname + location.search;
  page = route();
  page.key = ++pages;
  page.enter?.(draw);
  draw();
}

function bar() {
  const here = location.pathname;
  const link = (href, label) => h("a", { href, "aria-current": here === href ? "page" : null }, label);
  const { status, live } = store;
  const daemon = status?.paused && status.state === "running" ? "paused" : status?.state;
  return [
    h(
      "a",
      { class: "brand", href: "/", "aria-label": "Vik, go to the board" },
      h("img", { src: "/assets/icon.svg", alt: "", width: 20, height: 20 }),
      h("span", { "aria-hidden": "true" }, "Vik"),
    ),
    h("nav", { "aria-label": "Pages" }, link("/", "Board"), link("/report", "Report"), link("/sign-ins", "Sign-ins")),
    h("span", { class: "grow" }),
    daemon && !locked ? chip(daemon) : null,
    h(
      "span",
      { class: `link ${live === false ? "lost" : ""}`, role: "status" },
      live === false ? chip("lost", "Connection lost, reconnecting") : live ? h("span", { class: "dim" }, "Live") : "",
    ),
    button("?", () => keys.help(), { kind: "quiet square", "aria-label": "Keys", title: "Keys (?)" }),
    button(themeName() === "dark" ? "☾" : "☀", turnTheme, {
      kind: "quiet square",
      "aria-label": `Theme: ${themeName()}. Change theme`,
      title: `Theme: ${themeName()} (t)`,
    }),
  ];
}

function bannerList() {
  const { status, problem } = store;
  const found = [];
  const banner = (key, tone, ...kids) =>
    found.push(h("div", { key, class: `banner tone-${tone}`, role: "group", "aria-label": key }, kids));
  if (problem && problem.status !== 401) {
    banner(
      "Problem",
      "bad",
      h("strong", {}, "Cannot load the state. "),
      problem.message,
      " ",
      problem.hint ?? "",
    );
  }
  if (!status) return found;
  if (status.ledger?.error) {
    banner(
      "Ledger",
      "bad",
      h("strong", {}, "Cannot write the ledger; no attempts start. "),
      status.ledger.error,
      " ",
      h("code", {}, status.ledger.path),
    );
  }
  if (status.paused) {
    banner(
      "Paused",
      "wait",
      h("span", {}, h("strong", {}, "Paused. "), "No new attempts start; running attempts continue. "),
      button("Resume", () => resume()),
    );
  }
  if (status.state === "draining" || status.state === "stopping") {
    banner(
      "Ending",
      "wait",
      h("strong", {}, status.state === "draining" ? "Draining. " : "Stopping. "),
      "No new attempts start. The daemon exits when the running attempts have ended.",
    );
  }
  for (const notifier of status.notify ?? []) {
    if (!notifier.failing_since) continue;
    banner(
      `Notifier ${notifier.name}`,
      "wait",
      h(
        "span",
        {},
        h("strong", {}, `Notifier ${notifier.name}: `),
        `${many(notifier.undelivered, "delivery", "deliveries")} failing since `,
        when(notifier.failing_since),
        `. ${notifier.error ?? ""}`,
      ),
    );
  }
  const rejected = status.workflow?.rejected;
  if (rejected) {
    banner(
      "Workflow",
      "bad",
      h(
        "div",
        {},
        h(
          "p",
          {},
          h("strong", {}, "The last edit of the workflow is invalid. "),
          "The previous version stays in force. ",
          when(rejected.at),
        ),
        h(
          "ul",
          { class: "mono" },
          rejected.diagnostics.map((line) => h("li", {}, line)),
          rejected.more ? h("li", {}, `and ${rejected.more} more`) : null,
        ),
      ),
    );
  }
  if (status.workflow?.needs_restart?.length) {
    banner(
      "Restart",
      "wait",
      h("strong", {}, "Edited; takes effect after a restart: "),
      h("code", {}, status.workflow.needs_restart.join(", ")),
    );
  }
  return found;
}

const lockedView = () =>
  h(
    "div",
    { class: "locked" },
    h("h1", { tabindex: -1 }, "This browser is not signed in"),
    refused ? h("p", { role: "alert", class: "bad-text" }, refused.message) : null,
    h("p", {}, "On the machine of the daemon, run this command and open the link that it prints:"),
    h("pre", { class: "mono", tabindex: 0 }, "vik status"),
    h("p", { class: "dim" }, "The link signs this browser in, for this daemon only."),
    button("Try again", () => location.reload(), { kind: "primary" }),
  );

const themeName = () =>
  document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

function turnTheme() {
  const theme = themeName() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("vik.theme", theme);
  } catch {
    // Not kept, then.
  }
  draw();
}

/** Goes to another page without loading the whole document. */
export function go(href) {
  if (href === location.pathname + location.search) return;
  history.pushState(null, "", href);
  show();
  scrollTo(0, 0);
  // For a screen reader, this is the new page.
  requestAnimationFrame(() =>
    requestAnimationFrame(() => (main.querySelector("h1") ?? main).focus({ preventScroll: true })),
  );
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (
    !link ||
    event.defaultPrevented ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  )
    return;
  const to = new URL(link.href);
  if (to.origin !== location.origin || to.hash || link.target) return;
  event.preventDefault();
  go(to.pathname + to.search);
});
addEventListener("popstate", () => {
  // A link within the page is no other page.
  if (location.pathname + location.search === place) page.hash?.(location.hash);
  else show();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

signIn.watch(() => {
  const signedOut = !signIn.token();
  if (locked === signedOut) return;
  locked = signedOut;
  if (locked) {
    // Nothing of the daemon's stays on the page.
    page.leave?.();
    store.status = null;
    draw();
  } else {
    refused = null;
    store.reload(0);
    show();
  }
});
store.watch((type, fact) => {
  page?.fact?.(type, fact);
  draw();
});
keys.start({ b: () => go("/"), r: () => go("/report"), t: turnTheme });

const code = takeCode();
if (code !== null) {
  const before = signIn.id();
  try {
    const { token } = await post("sign-in", { code });
    signIn.set(token);
    // One browser, one sign-in.
    if (before !== null) post(`sign-ins/${part(before)}/revoke`).catch(() => {});
  } catch (problem) {
    refused = problem;
  }
}
locked = !signIn.token();
start();
show();
