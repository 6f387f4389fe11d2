// A small virtual DOM. Views are trees of plain objects, and only the differences to the last tree change the document,
// so focus, selection, scroll positions and open <details> are kept. Text always becomes text nodes, never HTML.

import { escapeUnsafe, splitUnsafe } from "./visible.js";

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "rect", "line", "path", "polyline", "text"]);
/** Attributes that users read. */
const TEXT_ATTRIBUTES = new Set(["title", "aria-label", "placeholder", "alt"]);
/** State that users can change: the property is set instead of the attribute. */
const PROPERTIES = new Set(["value", "checked", "selected", "open"]);

/**
 * Describes an element. `props`: `key` (its identity among its siblings), `on` (handlers by event), `vars` (CSS custom
 * properties); all others are attributes. Attributes with `null`, `undefined` or `false` are omitted.
 */
export function h(tag, props, ...children) {
  const flattened = [];
  flatten(children, flattened);
  return { tag, key: props?.key, props: props ?? {}, children: flattened };
}

/** Describes an existing element: it is inserted, and its content is never changed. */
export function embed(key, element) {
  return { tag: "#embed", key, element, props: {}, children: [] };
}

function flatten(children, into) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (Array.isArray(child)) flatten(child, into);
    else if (typeof child === "object") into.push(child);
    else {
      for (const segment of splitUnsafe(String(child))) {
        if (segment.escape) {
          const text = { tag: "#text", text: segment.escape };
          into.push({ tag: "span", props: { class: "escaped" }, children: [text] });
        } else into.push({ tag: "#text", text: segment.text });
      }
    }
  }
}

function create(node) {
  if (node.tag === "#text") return document.createTextNode(node.text);
  if (node.tag === "#embed") return node.element;
  const el = SVG_TAGS.has(node.tag) ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
  for (const name in node.props) setProp(el, name, node.props[name], undefined);
  patchChildren(el, [], node.children);
  return el;
}

function update(el, old, next) {
  if (old === next || next.tag === "#embed") return;
  if (next.tag === "#text") {
    if (old.text !== next.text) el.data = next.text;
    return;
  }
  for (const name in old.props) if (!(name in next.props)) setProp(el, name, undefined, old.props[name]);
  for (const name in next.props) setProp(el, name, next.props[name], old.props[name]);
  patchChildren(el, old.children, next.children);
}

function setProp(el, name, value, old) {
  if (name === "key") return;
  if (name === "on") return setHandlers(el, value);
  if (name === "vars") {
    for (const key in value) if (value[key] !== old?.[key]) el.style.setProperty(key, value[key]);
    return;
  }
  if (value === old) return;
  if (PROPERTIES.has(name)) {
    el[name] = value ?? (name === "value" ? "" : false);
    return;
  }
  if (value === null || value === undefined || value === false) el.removeAttribute(name);
  else if (value === true) el.setAttribute(name, "");
  else el.setAttribute(name, TEXT_ATTRIBUTES.has(name) ? escapeUnsafe(String(value)) : String(value));
}

/** Adds one listener for each event type. It calls the handler of the newest description. */
function setHandlers(el, handlers = {}) {
  el.vikHandlers ??= {};
  for (const type in handlers) {
    if (!(type in el.vikHandlers)) el.addEventListener(type, (event) => el.vikHandlers[type]?.(event));
  }
  for (const type in el.vikHandlers) el.vikHandlers[type] = handlers[type];
  for (const type in handlers) el.vikHandlers[type] = handlers[type];
}

function childIds(nodes) {
  const counts = {};
  return nodes.map((node) => {
    if (node.key !== undefined) return `${node.tag} ${node.key}`;
    counts[node.tag] = (counts[node.tag] ?? 0) + 1;
    return `${node.tag}#${counts[node.tag]}`;
  });
}

function patchChildren(parent, old, next) {
  const previousById = new Map();
  childIds(old).forEach((id, index) => {
    if (!previousById.has(id)) previousById.set(id, old[index]);
  });
  const matched = childIds(next).map((id) => {
    const previous = previousById.get(id);
    previousById.delete(id);
    return previous;
  });
  // Nodes are removed first, so that the others need not be moved: a move loses focus and scroll position.
  const keptNodes = new Set(matched);
  for (const node of old) if (!keptNodes.has(node)) node.el.remove();
  let cursor = parent.firstChild;
  next.forEach((node, index) => {
    const previous = matched[index];
    if (previous) {
      node.el = previous.el;
      update(node.el, previous, node);
    } else node.el = create(node);
    if (node.el === cursor) cursor = cursor.nextSibling;
    else parent.insertBefore(node.el, cursor);
  });
}

const rendered = new WeakMap();

/** Updates the content of `root` to the described one. */
export function render(root, ...children) {
  const next = [];
  flatten(children, next);
  const active = document.activeElement;
  const focused = root.contains(active) && active !== root ? active : null;
  const section = focused?.closest("section");
  patchChildren(root, rendered.get(root) ?? [], next);
  rendered.set(root, next);
  updateTimes(root);
  if (!focused || document.activeElement === focused) return;
  if (focused.isConnected) focused.focus({ preventScroll: true });
  // If the focused element was removed, such as the row of a pressed button, the focus moves to its section.
  else (section?.isConnected ? section.querySelector("h2[tabindex]") : null)?.focus({ preventScroll: true });
}

let formatTime = null;

/** Sets the function that returns the text of a `<time data-time-format=…>`. Called by `format.js`. */
export function setTimeFormatter(format) {
  formatTime = format;
}

/** Updates the relative times in `root`. */
export function updateTimes(root) {
  for (const el of root.querySelectorAll("time[data-time-format]")) {
    const text = formatTime(el.dataset.timeFormat, el.dateTime);
    if (el.textContent !== text) el.textContent = text;
  }
}
