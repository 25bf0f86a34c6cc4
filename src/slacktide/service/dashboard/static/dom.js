// Builds elements. Whatever comes from the API becomes a text node or an attribute, never markup.
const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const el = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

// A table in a box that scrolls by itself. `columns`: {name, right, says}.
export function table(caption, columns) {
  const head = columns.map((column) =>
    el("th", { scope: "col", class: column.right ? "n" : null, title: column.says }, column.name));
  const body = el("tbody", {}, el("tr", {}, el("td", { colspan: columns.length, class: "soft" }, "loading…")));
  const whole = el("table", {}, el("caption", { class: "unseen" }, caption), el("thead", {}, el("tr", {}, head)), body);
  const box = el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption }, whole);
  return { box, body, columns };
}

// Makes the rows of a table match `items`. A row is rebuilt only when its item has changed, so that focus and
// selection are kept.
export function rows(shown, items, key, cells, none) {
  const known = new Map([...shown.body.children].map((row) => [row.dataset.key, row]));
  const wanted = items.map((item) => {
    const name = String(key(item)), sign = JSON.stringify(item);
    const row = known.get(name) ?? el("tr", { "data-key": name });
    if (row.dataset.sign !== sign) {
      row.dataset.sign = sign;
      const at = [...row.querySelectorAll("a, button")].indexOf(document.activeElement);
      row.replaceChildren(...cells(item).map((content, place) => cell(shown.columns[place], content)));
      if (at >= 0) row.querySelectorAll("a, button")[at]?.focus();
    }
    return row;
  });
  if (!wanted.length && none)
    wanted.push(el("tr", { "data-key": "" }, el("td", { colspan: shown.columns.length, class: "soft" }, none)));
  place(shown.body, wanted);
}

function cell(column, content) {
  const inside = Array.isArray(content) ? content : [content ?? "–"];
  const looks = [column.right ? "n" : null, inside[0] === "–" ? "no" : null].filter(Boolean).join(" ");
  return el("td", { class: looks || null, "data-label": column.name }, inside);
}

// Puts children in order, and does not move those that are already in place.
export function place(parent, wanted) {
  wanted.forEach((node, at) => {
    if (parent.children[at] !== node) parent.insertBefore(node, parent.children[at] ?? null);
  });
  while (parent.children.length > wanted.length) parent.lastElementChild.remove();
}

export function facts(pairs) {
  return pairs.map(([name, value, note]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value ?? "–", note ? el("small", {}, note) : null)));
}
