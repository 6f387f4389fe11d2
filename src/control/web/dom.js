// Views are described as trees of plain objects, and the document is changed only where the description changed.
// So focus, selection, scroll positions and open <details> survive a refresh. Text becomes text nodes, nothing else.

import { parts, visible } from "./visible.js";

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "rect", "line", "path", "polyline", "text"]);
/** Attributes that people read. */
const READ = new Set(["title", "aria-label", "placeholder", "alt"]);
/** What a person may change, so that the property counts and not the attribute. */
const LIVE = new Set(["value", "checked", "open"]);

/**
 * Describes an element. `props`: `key` (its identity among its siblings), `on` (handlers by event), `vars` (CSS custom
 * properties), all others are attributes; `null`, `undefined` and `false` leave one out.
 */
export function h(tag, props, ...kids) {
  const flat = [];
  flatten(kids, flat);
  return { tag, key: props?.key, props: props ?? {}, kids: flat };
}

/** An element that somebody else made and keeps: it is put in its place and left alone. */
export function own(key, element) {
  return { tag: "#own", key, element, props: {}, kids: [] };
}

function flatten(kids, into) {
  for (const kid of kids) {
    if (kid === null || kid === undefined || kid === false || kid === "") continue;
    if (Array.isArray(kid)) flatten(kid, into);
    else if (typeof kid === "object") into.push(kid);
    else {
      for (const part of parts(String(kid))) {
        if (part.escape) {
          const shown = { tag: "#text", text: part.escape };
          into.push({ tag: "span", props: { class: "esc" }, kids: [shown] });
        } else into.push({ tag: "#text", text: part.text });
      }
    }
  }
}

function create(node) {
  if (node.tag === "#text") return document.createTextNode(node.text);
  if (node.tag === "#own") return node.element;
  const el = SVG_TAGS.has(node.tag) ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
  for (const name in node.props) setProp(el, name, node.props[name], undefined);
  patchKids(el, [], node.kids);
  return el;
}

function update(el, old, next) {
  if (old === next || next.tag === "#own") return;
  if (next.tag === "#text") {
    if (old.text !== next.text) el.data = next.text;
    return;
  }
  for (const name in old.props) if (!(name in next.props)) setProp(el, name, undefined, old.props[name]);
  for (const name in next.props) setProp(el, name, next.props[name], old.props[name]);
  patchKids(el, old.kids, next.kids);
}

function setProp(el, name, value, old) {
  if (name === "key") return;
  if (name === "on") return setHandlers(el, value);
  if (name === "vars") {
    for (const key in value) if (value[key] !== old?.[key]) el.style.setProperty(key, value[key]);
    return;
  }
  if (value === old) return;
  if (LIVE.has(name)) {
    el[name] = value ?? (name === "value" ? "" : false);
    return;
  }
  if (value === null || value === undefined || value === false) el.removeAttribute(name);
  else el.setAttribute(name, value === true ? "" : READ.has(name) ? visible(String(value)) : String(value));
}

/** One listener for each type; it calls whatever handler the newest description names. */
function setHandlers(el, handlers = {}) {
  el.vikOn ??= {};
  for (const type in handlers) {
    if (!(type in el.vikOn)) el.addEventListener(type, (event) => el.vikOn[type]?.(event));
  }
  for (const type in el.vikOn) el.vikOn[type] = handlers[type];
  for (const type in handlers) el.vikOn[type] = handlers[type];
}

function identity(nodes) {
  const counts = {};
  return nodes.map((node) => {
    if (node.key !== undefined) return `${node.tag} ${node.key}`;
    counts[node.tag] = (counts[node.tag] ?? 0) + 1;
    return `${node.tag}#${counts[node.tag]}`;
  });
}

function patchKids(parent, old, next) {
  const known = new Map();
  identity(old).forEach((id, at) => {
    if (!known.has(id)) known.set(id, old[at]);
  });
  const matched = identity(next).map((id) => {
    const before = known.get(id);
    known.delete(id);
    return before;
  });
  // What is gone leaves first, so that what stays need not be moved: a move would drop focus and scroll position.
  const kept = new Set(matched);
  for (const node of old) if (!kept.has(node)) node.el.remove();
  let cursor = parent.firstChild;
  next.forEach((node, at) => {
    const before = matched[at];
    if (before) {
      node.el = before.el;
      update(node.el, before, node);
    } else node.el = create(node);
    if (node.el === cursor) cursor = cursor.nextSibling;
    else parent.insertBefore(node.el, cursor);
  });
}

const shown = new WeakMap();

/** Makes the content of `root` what is described. */
export function render(root, ...kids) {
  const next = [];
  flatten(kids, next);
  const active = document.activeElement;
  const held = root.contains(active) && active !== root ? active : null;
  const section = held?.closest("section");
  patchKids(root, shown.get(root) ?? [], next);
  shown.set(root, next);
  tick(root);
  if (!held || document.activeElement === held) return;
  if (held.isConnected) held.focus({ preventScroll: true });
  // What had the focus is gone, as a row whose button was pressed: the keyboard stays near it.
  else (section?.isConnected ? section.querySelector("h2[tabindex]") : null)?.focus({ preventScroll: true });
}

let ticker = null;

/** How a `<time data-tick=…>` finds its text; set by `format.js`. */
export function setTicker(words) {
  ticker = words;
}

/** Brings the relative times below `root` up to date. */
export function tick(root) {
  for (const el of root.querySelectorAll("time[data-tick]")) {
    const words = ticker(el.dataset.tick, el.dateTime);
    if (el.textContent !== words) el.textContent = words;
  }
}
