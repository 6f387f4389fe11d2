// Messages of people to the agent of an issue: those that wait, and a box to send one.

import { h } from "./dom.js";
import { coalesce, encodeSegment, get, post, remove } from "./api.js";
import { button, chip, section, sessionHref, showToast } from "./ui.js";
import { relativeTime } from "./format.js";
import { prose } from "./prose.js";
import { truncate } from "./visible.js";

const MAX_LENGTH = 64 * 1024;

/** Returns what happens to a message, as text. */
function deliveryText({ to, agent, stage, because }) {
  if (to === "agent") return `The running agent gets it (${agent}, stage ${stage})${because ? `; ${because}` : ""}.`;
  return `The next attempt gets it${because ? `: ${because}` : ""}.`;
}

/** Returns whether an agent may have read a message: the attempt that has it may take no messages. */
function isDelivered({ delivery }, message) {
  const waits = delivery.to === "next_attempt" && delivery.session_id === message.session_id;
  return message.in_prompt || (Boolean(message.session_id) && !waits);
}

/** Returns the messages of an issue: `load()` fetches them, and `view()` returns their section. */
export function issueMessages(issueId, redraw) {
  const path = `issues/${encodeSegment(issueId)}/messages`;
  let page = null;
  let text = "";
  let isInterrupt = false;
  let isSending = false;

  const load = coalesce(async () => {
    try {
      page = await get(path);
    } catch {
      // The daemon does not know the issue any more, so no message can be sent.
      page = null;
    }
    redraw();
  }, 300);

  async function run(command, done) {
    try {
      showToast(done(await command()));
    } catch (error) {
      showToast(error.hint ? `${error.message} ${error.hint}` : error.message, "bad");
      return false;
    } finally {
      load(0);
    }
    return true;
  }

  async function send() {
    if (isSending || !text.trim()) return;
    isSending = true;
    redraw();
    const isSent = await run(
      () => post(path, { text, interrupt: isInterrupt }),
      ({ delivery }) => `Sent. ${deliveryText(delivery)}`,
    );
    if (isSent) {
      text = "";
      isInterrupt = false;
    }
    isSending = false;
    redraw();
  }

  const withdraw = (id) => run(() => remove(`${path}/${encodeSegment(id)}`), () => "The message is withdrawn.");

  const messageRow = (message) =>
    h(
      "li",
      { key: message.id, class: "list-row" },
      h(
        "div",
        { class: "details" },
        h(
          "div",
          { class: "line" },
          chip("waiting", isDelivered(page, message) ? "delivered, not taken" : "waits for the next attempt"),
          message.interrupt ? h("span", { class: "tag" }, "interrupts") : null,
          h("span", { class: "small dim" }, truncate(message.by, 120), ", ", relativeTime(message.at)),
        ),
        h("p", { class: "wrap person-message" }, truncate(message.text, 4000)),
      ),
      message.session_id ? h("a", { class: "btn", href: sessionHref(message.session_id) }, "Transcript") : null,
      button("Withdraw", () => withdraw(message.id), { "aria-label": `Withdraw: ${truncate(message.text, 60)}` }),
    );

  const box = () =>
    h(
      "div",
      { class: "message-box", key: "box" },
      h("textarea", {
        rows: 3,
        maxlength: MAX_LENGTH,
        "aria-label": "Message to the agent",
        placeholder: "Message to the agent",
        value: text,
        on: {
          input: (e) => {
            text = e.target.value;
            redraw();
          },
          keydown: (e) => {
            if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) send();
          },
        },
      }),
      h("p", { class: "small dim" }, prose(deliveryText(page.delivery)), page.delivery.hint ? [" ", prose(`To start one: ${page.delivery.hint}.`)] : null),
      h(
        "div",
        { class: "row" },
        page.delivery.to === "agent"
          ? h(
              "label",
              { class: "small", key: "interrupt" },
              h("input", {
                type: "checkbox",
                checked: isInterrupt,
                on: {
                  change: (e) => {
                    isInterrupt = e.target.checked;
                  },
                },
              }),
              " Interrupt the current step",
            )
          : null,
        h("span", { class: "grow" }),
        button("Send", send, { kind: "primary", disabled: isSending || !text.trim() }),
      ),
    );

  const list = () =>
    page.messages.length ? h("ul", { class: "rows", key: "list" }, page.messages.map(messageRow)) : null;

  return {
    load,
    /** Returns the messages folded, for the page of a session. */
    folded: () =>
      page &&
      h(
        "details",
        { class: "collapsible messages", key: "messages" },
        h("summary", {}, page.messages.length ? `Messages (${page.messages.length})` : "Send a message"),
        list(),
        box(),
      ),
    view: () =>
      page &&
      section(
        "Messages",
        { id: "messages", count: page.messages.length || undefined },
        list(),
        box(),
      ),
  };
}
