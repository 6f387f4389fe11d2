// The pages of the daemon itself: the workflow in effect, the log and the pulls.

import { h } from "./dom.js";
import { coalesce, get } from "./api.js";
import { button, chip, emptyState, errorNotice, section } from "./ui.js";
import { absoluteTime, formatDuration, formatInteger, relativeTime } from "./format.js";
import { prose } from "./prose.js";

const PAGES = [
  ["/workflow", "Workflow"],
  ["/log", "Log"],
  ["/pulls", "Pulls"],
  ["/sign-ins", "Sign-ins"],
];

/** Returns whether a path is a page of the daemon. */
export const isDaemonPath = (path) => PAGES.some(([href]) => href === path);

/** Returns the heading of a page of the daemon, with links to the others. */
export const daemonHead = (title, ...meta) =>
  h(
    "div",
    { class: "page-head" },
    h("div", { class: "grow" }, h("h1", { tabindex: -1 }, title), meta.length ? h("p", { class: "meta" }, meta) : null),
    h(
      "nav",
      { class: "switch", "aria-label": "Daemon" },
      PAGES.map(([href, label]) =>
        h("a", { key: href, href, "aria-current": location.pathname === href ? "page" : null }, label),
      ),
    ),
  );

/** Returns a page that shows the response to one request. `view(data)` is called when it is loaded. */
function dataPage({ title, path, reloadOn, view }) {
  let redraw = () => {};
  let data = null;
  let loadError = null;
  const load = coalesce(async () => {
    try {
      data = await get(path);
      loadError = null;
    } catch (error) {
      loadError = error;
    }
    redraw();
  }, 500);
  return {
    title,
    mount(scheduleRender) {
      redraw = scheduleRender;
      load(0);
    },
    unmount() {
      load.cancel();
      redraw = () => {};
    },
    onFact(type) {
      if (reloadOn.includes(type)) load();
    },
    view: () => [
      daemonHead(title),
      loadError ? errorNotice(loadError, () => load(0)) : null,
      data ? view(data) : loadError ? null : h("p", { class: "dim" }, "Loading…"),
    ],
  };
}

export const workflowPage = () =>
  dataPage({
    title: "Workflow",
    path: "workflow",
    reloadOn: ["reset", "state"],
    view: ({ path, workflow, settings }) => [
      workflow?.rejected
        ? h(
            "div",
            { class: "notice tone-bad", role: "group", "aria-label": "Refused edit" },
            h("p", { class: "strong" }, "The last edit is invalid. The version below remains in effect."),
            h("pre", { class: "mono" }, workflow.rejected.diagnostics.join("\n")),
          )
        : null,
      workflow?.needs_restart.length
        ? h("p", { class: "notice tone-wait" }, "In effect after a restart: ", workflow.needs_restart.join(", "))
        : null,
      h("p", { class: "small dim" }, h("code", {}, path), workflow ? [", loaded ", relativeTime(workflow.loaded_at)] : null),
      settingGroups(settings).map(([name, group]) =>
        section(
          name,
          { id: `settings-${name.replaceAll(/[^\w]/g, "-")}`, key: name },
          h(
            "dl",
            { class: "settings" },
            group.map(({ key, value }) => [
              h("dt", { key, class: "mono" }, key.startsWith(`${name}.`) ? key.slice(name.length + 1) : key),
              h("dd", { key: `${key} value` }, settingValue(value)),
            ]),
          ),
        ),
      ),
    ],
  });

/** Returns the settings by the section that they belong to, such as `issue.stages.plan`. */
function settingGroups(settings) {
  const groups = new Map();
  for (const setting of settings) {
    const section = /^(?:issue\.stages|agents|notify|schedule|webhooks\.hooks)\.[^.]+(?=\.)|^[^.]+/.exec(setting.key)[0];
    groups.set(section, [...(groups.get(section) ?? []), setting]);
  }
  return [...groups];
}

const settingValue = (value) =>
  value === null
    ? h("span", { class: "dim", title: "The value may contain a secret." }, "not shown")
    : value.includes("\n")
      ? h("pre", { class: "mono", tabindex: 0 }, value)
      : h("span", { class: "mono wrap" }, value ? prose(value) : "empty");

const pullRow = (pull, index) =>
  h(
    "tr",
    { key: `${pull.at} ${index}` },
    h(
      "th",
      { scope: "row", class: "num" },
      absoluteTime(pull.at),
      h("span", { class: "small dim" }, " ", relativeTime(pull.at)),
    ),
    h("td", {}, pull.ok ? chip("succeeded", "succeeded") : chip("failed", "failed")),
    h("td", { class: "right num" }, pull.ok ? formatInteger(pull.issues) : "–"),
    h("td", { class: "right num" }, formatDuration(pull.duration_ms)),
    h(
      "td",
      { class: "message" },
      pull.error ? h("span", { class: "wrap", "data-item": true, tabindex: -1 }, prose(pull.error)) : "–",
    ),
  );

export function pullsPage() {
  let showsFailed = false;
  let redraw = () => {};
  const view = ({ pulls }) => {
    const failed = pulls.filter((pull) => !pull.ok);
    const shown = showsFailed ? failed : pulls;
    const onToggle = () => {
      showsFailed = !showsFailed;
      redraw();
    };
    return section(
      "Pulls since the daemon started",
      {
        id: "pulls",
        count: pulls.length,
        hint: `latest first; ${formatInteger(failed.length)} failed`,
        tools: button("Only failed", onToggle, { kind: "small", "aria-pressed": String(showsFailed) }),
      },
      shown.length
        ? h(
            "div",
            { class: "scroll-x", tabindex: 0, role: "group", "aria-label": "Pulls" },
            h(
              "table",
              { class: "pulls" },
              h(
                "thead",
                {},
                h(
                  "tr",
                  {},
                  ["Time", "Outcome", "Issues", "Duration", "Error"].map((name) =>
                    h("th", { key: name, scope: "col", class: /Issues|Duration/.test(name) ? "right" : "" }, name),
                  ),
                ),
              ),
              h("tbody", {}, shown.map(pullRow)),
            ),
          )
        : pulls.length
          ? emptyState("No pull has failed.", "The tracker has answered every pull that is listed.")
          : emptyState("No pulls yet.", "The daemon asks the tracker for issues as often as the workflow says."),
    );
  };
  const page = dataPage({ title: "Pulls", path: "pulls", reloadOn: ["reset", "pulled"], view });
  const { mount } = page;
  page.mount = (scheduleRender) => {
    redraw = scheduleRender;
    mount(scheduleRender);
  };
  return page;
}
