// The application shell: top bar, banners, routing and keyboard shortcuts.

import { h, render } from "./dom.js";
import { address } from "./address.js";
import { encodeSegment, post } from "./api.js";
import { signIn, takeSignInCode } from "./sign_in.js";
import { start, store } from "./store.js";
import { button, chip } from "./ui.js";
import { pluralize, relativeTime } from "./format.js";
import { escapeUnsafe, truncate } from "./visible.js";
import { resume } from "./steer.js";
import { prose } from "./prose.js";
import { keys } from "./keys.js";
import { boardPage } from "./board.js";
import { issuePage } from "./issue.js";
import { sessionPage } from "./session.js";
import { historyPage } from "./history.js";
import { reportPage } from "./report.js";
import { isDaemonPath, pullsPage, workflowPage } from "./daemon_pages.js";
import { logPage } from "./log_page.js";
import { signInPage } from "./sign_in_page.js";
import { signInsPage } from "./sign_ins.js";

const topElement = document.getElementById("top");
const bannersElement = document.getElementById("banners");
const mainElement = document.getElementById("main");

let page = null;
let isSignedOut = false;
/** The error of the sign-in with a link, if it failed. */
let signInError = null;
const signInView = signInPage();

function route() {
  const [, first, ...segments] = location.pathname.split("/");
  let id = "";
  try {
    id = decodeURIComponent(segments.join("/"));
  } catch {
    return notFoundPage("This address is not valid.");
  }
  if (first === "") return boardPage();
  if (first === "issues" && id) return issuePage(id);
  if (first === "sessions" && id) return sessionPage(id, new URLSearchParams(location.search));
  if (first === "history") return historyPage(new URLSearchParams(location.search));
  if (first === "report") return reportPage(new URLSearchParams(location.search).get("since"));
  if (first === "sign-ins") return signInsPage();
  if (first === "workflow") return workflowPage();
  if (first === "log") return logPage(new URLSearchParams(location.search));
  if (first === "pulls") return pullsPage();
  return notFoundPage("Page not found.");
}

const notFoundPage = (text) => ({
  title: "Not found",
  /** Also a browser that is not signed in sees it. */
  isPublic: true,
  view: () => [
    h("h1", { tabindex: -1 }, text),
    h("p", {}, "The dashboard has no page at ", h("code", {}, truncate(location.pathname, 200)), "."),
    h("p", {}, h("a", { href: "/" }, "Go to the board")),
  ],
});

let frame = 0;

/** Renders the page before the next paint. Several calls render it once. */
export function scheduleRender() {
  if (frame) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    render(topElement, topBar());
    render(bannersElement, isSignedOut ? [] : bannerList());
    const showsPage = !isSignedOut || page.isPublic;
    const view = showsPage ? page.view() : signInView.view(signInError);
    render(mainElement, h("div", { key: page.key, class: `page ${page.className ?? ""}` }, view));
    const parts = [showsPage ? truncate(page.title, 80) : null, store.status ? projectName() : null, "Vik"];
    document.title = escapeUnsafe(parts.filter(Boolean).join(" · "));
    page.onRender?.();
  });
}

let pageCount = 0;

function showPage() {
  page?.unmount?.();
  address.shown = location.pathname + location.search;
  page = route();
  page.key = ++pageCount;
  page.mount?.(scheduleRender);
  scheduleRender();
}

/** Returns the name of the folder of the workflow file. */
const projectName = () => store.status?.workflow_path?.split(/[\\/]/).at(-2) || "Vik";

function topBar() {
  const path = location.pathname;
  const link = (href, label, isCurrent = path === href) =>
    h("a", { href, "aria-current": isCurrent ? (path === href ? "page" : "true") : null }, label);
  const { status, isConnected } = store;
  const daemon = status?.paused && status.state === "running" ? "paused" : status?.state;
  return [
    h(
      "a",
      { class: "brand", href: "/", title: status?.workflow_path },
      h("img", { src: "/assets/icon.svg", alt: "", width: 20, height: 20 }),
      h(
        "span",
        { class: "brand-text" },
        h("bdi", {}, truncate(projectName(), 60)),
        " ",
        h("span", { class: "host num" }, location.host),
        h("span", { class: "visually-hidden" }, ": go to the board"),
      ),
    ),
    h(
      "nav",
      { "aria-label": "Pages" },
      link("/", "Board"),
      link("/history", "History"),
      link("/report", "Report"),
      link("/workflow", "Daemon", isDaemonPath(path)),
    ),
    h("span", { class: "grow" }),
    daemon && !isSignedOut ? chip(daemon, daemon === "draining" ? "stopping when idle" : daemon) : null,
    h(
      "span",
      { class: "connection", role: "status" },
      isConnected === false
        ? chip("lost", "Connection lost, reconnecting")
        : isConnected
          ? h("span", { class: "dim", title: "The page shows changes at once" }, "Live updates")
          : "",
    ),
    button("?", () => keys.showHelp(), {
      kind: "quiet square",
      "aria-label": "Keyboard shortcuts",
      title: "Keyboard shortcuts (?)",
    }),
    button(themeName() === "dark" ? "☾" : "☀", toggleTheme, {
      kind: "quiet square",
      "aria-label": `Theme: ${themeName()}. Change theme`,
      title: `Theme: ${themeName()} (t)`,
    }),
  ];
}

function bannerList() {
  const { status, error } = store;
  const items = [];
  const banner = (key, tone, ...children) =>
    items.push(h("div", { key, class: `banner tone-${tone}`, role: "group", "aria-label": key }, children));
  if (error && error.status !== 401) {
    banner(
      "Error",
      "bad",
      h("strong", {}, "Cannot load the state. "),
      prose(error.message),
      " ",
      prose(error.hint),
    );
  }
  if (!status) return items;
  if (status.ledger?.error) {
    banner(
      "Ledger",
      "bad",
      h("strong", {}, "Cannot write the ledger; no attempts start. "),
      prose(status.ledger.error),
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
      "Shutdown",
      "wait",
      h("strong", {}, status.state === "draining" ? "Stopping when idle. " : "Stopping. "),
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
        `${pluralize(notifier.undelivered, "delivery", "deliveries")} failing since `,
        relativeTime(notifier.failing_since),
        ". ",
        prose(notifier.error),
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
          h("strong", {}, "The edited workflow file is invalid. "),
          "The previous version remains in effect. ",
          relativeTime(rejected.at),
        ),
        h(
          "ul",
          { class: "mono" },
          rejected.diagnostics.map((line) => h("li", {}, prose(line))),
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
  return items;
}

const themeName = () =>
  document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

function toggleTheme() {
  const theme = themeName() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("vik.theme", theme);
  } catch {
    // The theme then applies to this page only.
  }
  scheduleRender();
}

/** Shows another page without reloading the document. The page itself reads the fragment of its address. */
export function navigate(href) {
  if (href === location.pathname + location.search) return;
  history.pushState(null, "", href);
  showPage();
  scrollTo(0, 0);
  // The page moves the focus to the part that the fragment names.
  if (location.hash) return;
  // The focus on the heading makes screen readers announce the new page.
  requestAnimationFrame(() =>
    requestAnimationFrame(() => (mainElement.querySelector("h1") ?? mainElement).focus({ preventScroll: true })),
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
  const url = new URL(link.href);
  if (url.origin !== location.origin || link.target) return;
  if (url.hash && url.pathname + url.search === location.pathname + location.search) return;
  event.preventDefault();
  navigate(url.pathname + url.search + url.hash);
});
addEventListener("popstate", () => {
  // Only the fragment has changed: the page stays.
  if (location.pathname + location.search === address.shown) page.onHashChange?.(location.hash);
  else showPage();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", scheduleRender);

signIn.subscribe(() => {
  const signedOut = !signIn.getToken();
  if (isSignedOut === signedOut) return;
  isSignedOut = signedOut;
  if (isSignedOut) {
    // A signed-out browser shows no data of the daemon.
    page.unmount?.();
    store.status = null;
    scheduleRender();
  } else {
    signInError = null;
    store.reload(0);
    showPage();
  }
});
store.subscribe((type, fact) => {
  page?.onFact?.(type, fact);
  scheduleRender();
});
keys.start({
  b: () => navigate("/"),
  h: () => navigate("/history"),
  r: () => navigate("/report"),
  w: () => navigate("/workflow"),
  l: () => navigate("/log"),
  p: () => navigate("/pulls"),
  t: toggleTheme,
});

const code = takeSignInCode();
if (code !== null) {
  const previousId = signIn.getId();
  try {
    const { token } = await post("sign-in", { code });
    signIn.setToken(token);
    // The new sign-in replaces the previous one of this browser.
    if (previousId !== null) post(`sign-ins/${encodeSegment(previousId)}/revoke`).catch(() => {});
  } catch (error) {
    signInError = error;
  }
}
isSignedOut = !signIn.getToken();
signInView.mount(scheduleRender);
start();
showPage();
