// The page of the signed-in browsers, with buttons that sign them out.

import { h } from "./dom.js";
import { coalesce, encodeSegment, get, post } from "./api.js";
import { button, confirmDialog, emptyState, errorNotice, showToast, table } from "./ui.js";
import { absoluteTime, relativeTime } from "./format.js";
import { daemonHead } from "./daemon_pages.js";
import { signIn } from "./sign_in.js";
import { truncate } from "./visible.js";

export function signInsPage() {
  let redraw = () => {};
  let signIns = null;
  let loadError = null;

  const load = coalesce(async () => {
    try {
      signIns = (await get("sign-ins")).sign_ins;
      loadError = null;
    } catch (error) {
      loadError = error;
    }
    redraw();
  });

  async function revoke(entry) {
    const browser = truncate(entry.user_agent || "A browser", 160);
    const isConfirmed = await confirmDialog({
      title: entry.current ? "Sign this browser out?" : "Sign the browser out?",
      text: `${browser}, at ${entry.address}. To sign in again, open the link that \`vik status\` prints.`,
      confirmLabel: "Sign out",
      danger: true,
    });
    if (!isConfirmed) return;
    try {
      await post(`sign-ins/${encodeSegment(entry.id)}/revoke`);
      if (entry.current) signIn.setToken(null);
      else showToast("Signed out.");
    } catch (error) {
      showToast(error.message, "bad");
    }
    load(0);
  }

  /** Returns a notice for a browser without a sign-in of its own. */
  const apiTokenNotice = () =>
    h(
      "div",
      { class: "notice row" },
      h("p", { class: "grow" }, "This browser uses the API token, which is valid until the token changes."),
      button("Sign out this browser", () => signIn.setToken(null), { kind: "danger-quiet" }),
    );

  const row = (entry) => [
    [h("code", { class: "small" }, entry.id), " ", entry.current ? h("span", { class: "tag" }, "this browser") : null],
    absoluteTime(entry.created_at),
    [absoluteTime(entry.last_used_at), " · ", relativeTime(entry.last_used_at)],
    entry.address,
    h("span", { class: "small" }, truncate(entry.user_agent || "–", 160)),
    button("Sign out", () => revoke(entry), {
      kind: "small danger-quiet",
      "aria-label": entry.current ? "Sign out this browser" : `Sign out ${entry.id}`,
    }),
  ];

  return {
    title: "Sign-ins",
    mount(scheduleRender) {
      redraw = scheduleRender;
      load(0);
    },
    unmount() {
      load.cancel();
      redraw = () => {};
    },
    view() {
      return [
        daemonHead("Sign-ins"),
        h(
          "p",
          { class: "dim" },
          "Browsers that can view and control this daemon. Each was signed in with a link of ",
          h("code", {}, "vik status"),
          ", and stays signed in for a week. ",
          h("code", {}, "vik sign-ins"),
          " also lists and revokes sign-ins.",
        ),
        loadError ? errorNotice(loadError, () => load(0)) : null,
        signIn.hasApiToken() ? apiTokenNotice() : null,
        signIns === null
          ? loadError
            ? null
            : h("p", { class: "dim" }, "Loading…")
          : signIns.length
            ? table("Sign-ins", ["Id", "Signed in", "Last used", "Address", "Browser", "Action"], signIns.map(row))
            : emptyState("No browsers are signed in."),
      ];
    },
  };
}
