// Ranges side by side: for each name a bar from p10 to p90 with a mark in the middle, on one scale.
import { step } from "./axes.js";
import { el, svg } from "../dom.js";

const ROW = 30, LABEL = 16, BOTTOM = 22, RIGHT = 16;

// `spec`: {title, format, note, mark: {value, name}, rows: [{name, p10, p50, p90}]}; the first row is the chosen one.
export function ranges(spec) {
  const drawing = el("div", { class: "ranges" });
  const said = spec.rows.map((row) => `${row.name}: ${spec.format(row.p50)}, ${spec.format(row.p10)} to ${spec.format(row.p90)}`).join("; ");
  const figure = el("figure", { class: "plan-ranges" }, el("figcaption", {}, spec.title), el("p", { class: "soft" }, spec.note), drawing);
  const draw = () => { if (drawing.clientWidth) drawing.replaceChildren(drawn(spec, drawing.clientWidth, said)); };
  new ResizeObserver(draw).observe(drawing);
  return figure;
}

function drawn(spec, width, said) {
  const longest = Math.max(...spec.rows.map((row) => row.name.length));
  const left = Math.min(width * 0.42, 14 + longest * 6.6), above = spec.mark ? LABEL : 4, height = above + spec.rows.length * ROW + BOTTOM;
  const top = Math.max(...spec.rows.map((row) => row.p90), spec.mark?.value ?? 0, 1e-9), size = spec.step?.(top, width) ?? step(top, width < 420 ? 3 : 5);
  const most = Math.ceil(top / size - 1e-6) * size, x = (value) => left + (value / most) * (width - left - RIGHT);
  const ticks = Array.from({ length: Math.round(most / size) + 1 }, (_, at) => at * size);
  return svg("svg", { width, height, role: "img", "aria-label": `${spec.title}. ${said}` },
    ticks.map((value) => [svg("line", { class: "grid", x1: x(value), x2: x(value), y1: above, y2: height - BOTTOM }),
      svg("text", { x: x(value), y: height - 6, "text-anchor": "middle" }, spec.format(value, size))]).flat(),
    spec.rows.flatMap((row, at) => bar(row, at, x, left, above, spec)),
    spec.mark ? deadline(spec.mark, x, width, height) : []);
}

function bar(row, at, x, left, above, spec) {
  const y = above + at * ROW + ROW / 2, from = x(row.p10), wide = Math.max(3, x(row.p90) - from);
  return [svg("text", { class: at ? null : "marked", x: left - 8, y: y + 4, "text-anchor": "end" }, shortened(row.name, left)),
    svg("rect", { class: at ? "range other" : "range", x: from, width: wide, y: y - 7, height: 14, rx: 3 },
      svg("title", {}, `${row.name}: ${spec.format(row.p50)}, ${spec.format(row.p10)} to ${spec.format(row.p90)}`)),
    svg("line", { class: "middle", x1: x(row.p50), x2: x(row.p50), y1: y - 10, y2: y + 10 })];
}

const shortened = (name, left) => (name.length * 6.4 > left - 8 ? `${name.slice(0, Math.floor((left - 8) / 6.4) - 1)}…` : name);

function deadline(mark, x, width, height) {
  const at = x(mark.value), side = at > width / 2;
  return [svg("line", { class: "mark", x1: at, x2: at, y1: 2, y2: height - BOTTOM }),
    svg("text", { class: "marked", x: at + (side ? -5 : 5), y: LABEL - 4, "text-anchor": side ? "end" : "start" }, mark.name)];
}
