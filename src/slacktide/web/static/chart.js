// Line charts in SVG: steps or lines over hours, told apart by colour, by dashes and by words. A chart can be
// read with the pointer and with the arrow keys, and draws itself again when its room changes.
import { el, svg } from "./dom.js";
import { hours } from "./words.js";

const LEFT = 52, RIGHT = 12, TOP = 10, BOTTOM = 24, HEIGHT = 200, LEAST = 1e-9;

// A round step that cuts a range into about so many pieces.
export function step(range, pieces, bases = [1, 2, 2.5, 5, 10]) {
  const rough = Math.max(range, LEAST) / pieces, ten = 10 ** Math.floor(Math.log10(rough));
  return ten * (bases.find((base) => base * ten >= rough * 0.999) ?? 10);
}

function hourStep(range, pieces) {
  const known = [1 / 60, 1 / 30, 1 / 12, 1 / 6, 0.25, 0.5, 1, 2, 3, 6, 12, 24, 48, 96, 168, 336];
  return known.find((one) => range / one <= pieces) ?? step(range, pieces);
}

function ticks(from, until, size) {
  const first = Math.ceil(from / size - 1e-6), last = Math.floor(until / size + 1e-6);
  return Array.from({ length: last - first + 1 }, (_, at) => (first + at) * size);
}

// `spec`: {title, format, time, whole, from, until, most, series: [{name, look, stepped, points: [[hour, value|null]]}],
// marks: [{hour, name}]}.
export function chart(spec) {
  const drawing = el("div", { class: "drawing" });
  const legend = el("ul", { class: "legend" });
  const readout = el("output", { class: "readout" });
  const figure = el("figure", {}, el("figcaption", {}, spec.title), legend, drawing, readout);
  let shown = spec;
  const draw = () => { if (drawing.clientWidth) drawn(drawing, shown, readout); };
  new ResizeObserver(draw).observe(drawing);
  const update = (next) => {
    shown = next;
    legend.replaceChildren(...next.series.map((one) => el("li", {},
      svg("svg", { width: 26, height: 10, "aria-hidden": "true" },
        svg("line", { x1: 1, x2: 25, y1: 5, y2: 5, class: `line ${one.look}` })), ` ${one.name}`)));
    draw();
  };
  update(spec);
  return { figure, update };
}

function scales(spec, width) {
  const all = spec.series.flatMap((one) => one.points).filter(([, value]) => value !== null);
  const first = spec.from ?? 0;
  const last = Math.max(spec.until ?? 0, ...all.map(([hour]) => hour), first + 1 / 60);
  const top = Math.max(spec.most ?? 0, ...all.map(([, value]) => value), LEAST);
  const size = spec.whole ? Math.max(1, Math.ceil(step(top, 4))) : step(top, 4);
  const most = Math.max(1, Math.ceil(top / size - 1e-6)) * size;
  return {
    size, most, first, last, width,
    x: (hour) => LEFT + ((hour - first) / (last - first)) * (width - LEFT - RIGHT),
    y: (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM),
  };
}

function path(one, to) {
  let said = "", before = null;
  for (const [hour, value] of one.points) {
    if (value === null) { before = null; continue; }
    const x = to.x(hour).toFixed(1), y = to.y(value).toFixed(1);
    said += before === null ? `M${x} ${y}` : one.stepped ? `H${x}V${y}` : `L${x} ${y}`;
    before = value;
  }
  return said;
}

function axes(spec, to) {
  const grid = ticks(0, to.most, to.size).map((value) => [
    svg("line", { class: "grid", x1: LEFT, x2: to.width - RIGHT, y1: to.y(value), y2: to.y(value) }),
    svg("text", { x: LEFT - 6, y: to.y(value) + 4, "text-anchor": "end" }, spec.format(value, to.size))]);
  const each = hourStep(to.last - to.first, Math.max(2, Math.floor(to.width / 90)));
  const times = ticks(to.first, to.last, each).map((hour) =>
    svg("text", { x: to.x(hour), y: HEIGHT - 6, "text-anchor": "middle" }, (spec.time ?? hours)(hour)));
  return [...grid.flat(), ...times];
}

function mark(one, to) {
  const x = to.x(one.hour), side = x > to.width / 2;
  return [svg("line", { class: "mark", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }),
    svg("text", { class: "marked", x: x + (side ? -5 : 5), y: HEIGHT - BOTTOM - 6, "text-anchor": side ? "end" : "start" }, one.name)];
}

function drawn(drawing, spec, readout) {
  const to = scales(spec, drawing.clientWidth);
  const cross = svg("line", { class: "cross", y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
  const had = drawing.contains(document.activeElement);
  const picture = svg("svg", { width: to.width, height: HEIGHT, role: "img", tabindex: 0,
    "aria-label": `${spec.title}. ${told(spec, to.last)}` },
    axes(spec, to), (spec.marks ?? []).flatMap((one) => mark(one, to)),
    spec.series.map((one) => svg("path", { class: `line ${one.look}`, d: path(one, to) })), cross);
  drawing.replaceChildren(picture);
  read(picture, spec, to, cross, readout);
  if (had) picture.focus();
}

// The value of a series at an hour: of steps the last before it, of lines the one in between.
function at(one, hour) {
  let before = null;
  for (const point of one.points) {
    if (point[0] > hour + LEAST) {
      if (one.stepped || before === null || before[1] === null || point[1] === null) break;
      return before[1] + ((point[1] - before[1]) * (hour - before[0])) / (point[0] - before[0]);
    }
    before = point;
  }
  const last = one.points.at(-1);
  return before === null || (before === last && hour > last[0] + LEAST) ? null : before[1];
}

function told(spec, hour) {
  const values = spec.series.map((one) => [one.name, at(one, hour)]).filter(([, value]) => value !== null);
  return `${(spec.time ?? hours)(hour)}: ${values.map(([name, value]) => `${name} ${spec.format(value)}`).join(" · ")}`;
}

function read(picture, spec, to, cross, readout) {
  let place = null;
  const show = (hour) => {
    place = Math.min(Math.max(hour, to.first), to.last);
    cross.setAttribute("x1", to.x(place));
    cross.setAttribute("x2", to.x(place));
    readout.textContent = told(spec, place);
  };
  picture.addEventListener("pointermove", (event) => {
    const x = event.clientX - picture.getBoundingClientRect().left;
    show(to.first + ((x - LEFT) / (to.width - LEFT - RIGHT)) * (to.last - to.first));
  });
  picture.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    show((place ?? to.last) + (by * (to.last - to.first)) / 50);
  });
}
