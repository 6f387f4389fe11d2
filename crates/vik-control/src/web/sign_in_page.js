// What a browser that is not signed in shows: how to sign in with a link, or with the token of the HTTP API.

import { h } from "./dom.js";
import { get } from "./api.js";
import { button } from "./ui.js";
import { prose } from "./prose.js";
import { signIn } from "./sign_in.js";

export function signInPage() {
  let redraw = () => {};
  let error = null;
  let isChecking = false;

  async function onSubmit(event) {
    event.preventDefault();
    const field = event.target.elements["api-token"];
    const token = field.value.trim();
    if (!token || isChecking) return;
    isChecking = true;
    error = null;
    redraw();
    try {
      // The token is kept only if the daemon accepts it.
      await get("state", { token });
      field.value = "";
      signIn.setApiToken(token);
    } catch (failure) {
      error = failure;
    }
    isChecking = false;
    redraw();
  }

  const tokenForm = () =>
    h(
      "form",
      { class: "token-form", on: { submit: onSubmit } },
      h("h2", {}, "With the API token"),
      h("label", { for: "api-token" }, "Token of the HTTP API"),
      h(
        "div",
        { class: "row" },
        h("input", {
          type: "password",
          id: "api-token",
          autocomplete: "off",
          spellcheck: "false",
          required: true,
          "aria-describedby": "api-token-help",
          "aria-invalid": error ? "true" : null,
        }),
        h("button", { type: "submit", class: "btn primary" }, isChecking ? "Signing in…" : "Sign in"),
      ),
      error
        ? h(
            "p",
            { role: "alert", class: "bad-text" },
            error.status === 401 ? "The daemon does not accept this token." : prose(error.message),
            " ",
            error.status === 401 ? null : prose(error.hint ?? ""),
          )
        : null,
      h(
        "p",
        { class: "dim small", id: "api-token-help" },
        prose(
          "The token is in `api.token` in the instance folder, or in `VIK_API_TOKEN`. " +
            "This browser keeps it for this address and port until you sign out.",
        ),
      ),
    );

  return {
    mount(scheduleRender) {
      redraw = scheduleRender;
    },
    /** `linkError` is the error of the sign-in with a link, if it failed. */
    view: (linkError) =>
      h(
        "div",
        { class: "signed-out" },
        h("h1", { tabindex: -1 }, "This browser is not signed in"),
        linkError ? h("p", { role: "alert", class: "notice tone-bad" }, prose(linkError.message)) : null,
        h(
          "section",
          { "aria-label": "Sign in" },
          h(
            "div",
            { class: "sign-in-way" },
            h("h2", {}, "With a link"),
            h("p", {}, "On the host of the daemon, run this command and open the link that it prints:"),
            h("pre", { class: "mono", tabindex: 0 }, "vik status"),
            h("p", { class: "dim small" }, "The link works once, and signs this browser in for a week."),
          ),
          tokenForm(),
        ),
        button("Try again", () => location.reload(), { kind: "quiet" }),
      ),
  };
}
