// The browsers that are signed in, and how they are signed out.

import { h } from "./dom.js";
import { coalesce, get, part, post } from "./api.js";
import { button, confirm, empty, failure, say, table } from "./ui.js";
import { when } from "./format.js";
import { signIn } from "./sign_in.js";
import { cut } from "./visible.js";

export function signInsPage() {
  let redraw = () => {};
  let list = null;
  let problem = null;

  const load = coalesce(async () => {
    try {
      list = (await get("sign-ins")).sign_ins;
      problem = null;
    } catch (error) {
      problem = error;
    }
    redraw();
  });

  async function revoke(one) {
    const sure = await confirm({
      title: one.current ? "Sign this browser out?" : "Sign that browser out?",
      text: `${cut(one.user_agent || "A browser", 160)}, at ${one.address}. A link of \`vik status\` signs it in again.`,
      yes: "Sign out",
      danger: true,
    });
    if (!sure) return;
    try {
      await post(`sign-ins/${part(one.id)}/revoke`);
      if (one.current) signIn.set(null);
      else say("Signed out.");
    } catch (error) {
      say(error.message, "bad");
    }
    load(0);
  }

  const row = (one) => [
    [h("code", { class: "small" }, one.id), " ", one.current ? h("span", { class: "tag" }, "this browser") : null],
    when(one.created_at),
    when(one.last_used_at),
    one.address,
    h("span", { class: "small" }, cut(one.user_agent || "–", 160)),
    button("Sign out", () => revoke(one), {
      kind: "small danger-quiet",
      "aria-label": one.current ? "Sign this browser out" : `Sign ${one.id} out`,
    }),
  ];

  return {
    title: "Sign-ins",
    enter(draw) {
      redraw = draw;
      load(0);
    },
    leave() {
      load.stop();
      redraw = () => {};
    },
    view() {
      return [
        h("h1", { tabindex: -1 }, "Sign-ins"),
        h(
          "p",
          { class: "dim" },
          "Browsers that can view and control this daemon. Each was signed in with a link of ",
          h("code", {}, "vik status"),
          ", and stays signed in for a week. ",
          h("code", {}, "vik sign-ins"),
          " also lists and revokes sign-ins.",
        ),
        problem ? failure(problem, () => load(0)) : null,
        list === null
          ? problem
            ? null
            : h("p", { class: "dim" }, "Loading…")
          : list.length
            ? table("Sign-ins", ["Id", "Signed in", "Last used", "Address", "Browser", "End"], list.map(row))
            : empty("No browsers are signed in."),
      ];
    },
  };
}
