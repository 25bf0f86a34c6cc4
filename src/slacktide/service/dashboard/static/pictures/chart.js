// Charts in SVG: steps, lines and bands over hours, distinguished by color, dashes and names. A chart can be read
// with the pointer, with the arrow keys and as a table, and redraws itself when its size changes.
import { axes, BOTTOM, HEIGHT, LEAST, LEFT, mark, RIGHT, scales, TOP } from "./axes.js";
import { el, svg } from "../dom.js";
import { hours } from "../words.js";

const ROWS = 24;

// `spec`: {title, format, time, whole, from, until, most, note, marks: [{hour, name}],
// series: [{name, look, stepped, band, says, points: [[hour, value|null]], of a band [[hour, low|null, high]]}]}.
export function chart(spec) {
  const drawing = el("div", { class: "drawing" });
  const legend = el("ul", { class: "legend" });
  const readout = el("output", { class: "readout" });
  const said = el("tbody"), head = el("tr"), note = el("p", { class: "soft" });
  const figures = el("details", {}, el("summary", {}, "As a table"),
    el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": spec.title }, el("table", {}, el("thead", {}, head), said)));
  const figure = el("figure", {}, el("figcaption", {}, spec.title), legend, drawing, readout, note, figures);
  let shown = spec;
  const list = () => { if (figures.open) listed(head, said, shown); };
  const draw = () => { if (drawing.clientWidth) drawn(drawing, shown, readout); };
  figures.addEventListener("toggle", list);
  new ResizeObserver(draw).observe(drawing);
  const update = (next) => {
    shown = next;
    figure.firstChild.textContent = next.title;
    note.textContent = next.series.some((one) => one.points.length) ? next.note ?? "" : "No data yet.";
    note.hidden = !note.textContent;
    legend.replaceChildren(...next.series.map((one) => el("li", {}, sample(one), ` ${one.name}`)));
    list();
    draw();
  };
  update(spec);
  return { figure, update };
}

function sample(one) {
  const inside = one.band ? svg("rect", { x: 1, y: 1, width: 24, height: 8, class: `band ${one.look}` })
    : svg("line", { x1: 1, x2: 25, y1: 5, y2: 5, class: `line ${one.look}` });
  return svg("svg", { width: 26, height: 10, "aria-hidden": "true" }, inside);
}

function path(points, stepped, to) {
  let said = "", before = null;
  for (const [hour, value] of points) {
    if (value === null) { before = null; continue; }
    const x = to.x(hour).toFixed(1), y = to.y(value).toFixed(1);
    said += before === null ? `M${x} ${y}` : stepped ? `H${x}V${y}` : `L${x} ${y}`;
    before = value;
  }
  return said;
}

// The outline of a band: along its upper edge and back along the lower one.
function area(one, to) {
  const there = one.points.filter((point) => point[1] !== null);
  const edge = (place) => there.map((point) => `${to.x(point[0]).toFixed(1)} ${to.y(point[place]).toFixed(1)}`);
  return there.length ? `M${edge(2).join("L")}L${edge(1).reverse().join("L")}Z` : "";
}

const shape = (one, to) => (one.band ? svg("path", { class: `band ${one.look}`, d: area(one, to) })
  : svg("path", { class: `line ${one.look}`, d: path(one.points, one.stepped, to) }));

function drawn(drawing, spec, readout) {
  const to = scales(spec, drawing.clientWidth);
  const cross = svg("line", { class: "cross", y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
  const had = drawing.contains(document.activeElement);
  const picture = svg("svg", { width: to.width, height: HEIGHT, role: "img", tabindex: 0,
    "aria-label": `${spec.title}. ${reading(spec, spec.now ?? to.last)}` },
    axes(spec, to), spec.series.map((one) => shape(one, to)), (spec.marks ?? []).flatMap((one) => mark(one, to)), cross);
  drawing.replaceChildren(picture);
  read(picture, spec, to, cross, readout);
  if (had) picture.focus();
}

// The values of a series at an hour: for steps those of the last point before it, for lines interpolated ones.
function at(one, hour) {
  let before = null;
  for (const point of one.points) {
    if (point[0] > hour + LEAST) {
      if (one.stepped || before === null || before[1] === null || point[1] === null) break;
      const share = (hour - before[0]) / (point[0] - before[0]);
      return before.slice(1).map((value, place) => value + (point[place + 1] - value) * share);
    }
    before = point;
  }
  const last = one.points.at(-1);
  return before === null || before[1] === null || (before === last && hour > last[0] + LEAST) ? null : before.slice(1);
}

function words(one, found, format) {
  if (found === null) return null;
  return one.says ? one.says(...found) : found.map((value) => format(value)).join(" to ");
}

function reading(spec, hour) {
  const values = spec.series.map((one) => [one.name, words(one, at(one, hour), spec.format)]).filter(([, value]) => value !== null);
  return `${(spec.time ?? hours)(hour)}: ${values.map(([name, value]) => `${name} ${value}`).join(" · ")}`;
}

// The chart as a table, for users who cannot see the picture: values at moments spread evenly over the time shown.
function listed(head, body, spec) {
  const { first, last } = scales(spec, 300), cell = (tag) => (text) => el(tag, tag === "th" ? { scope: "col" } : {}, text);
  head.replaceChildren(...["time", ...spec.series.map((one) => one.name)].map(cell("th")));
  body.replaceChildren(...Array.from({ length: ROWS + 1 }, (_, place) => {
    const hour = first + ((last - first) * place) / ROWS;
    const values = spec.series.map((one) => words(one, at(one, hour), spec.format) ?? "–");
    return el("tr", {}, [(spec.time ?? hours)(hour), ...values].map(cell("td")));
  }));
}

function read(picture, spec, to, cross, readout) {
  let place = null;
  const show = (hour) => {
    place = Math.min(Math.max(hour, to.first), to.last);
    cross.setAttribute("x1", to.x(place));
    cross.setAttribute("x2", to.x(place));
    readout.textContent = reading(spec, place);
  };
  picture.addEventListener("pointermove", (event) => {
    const x = event.clientX - picture.getBoundingClientRect().left;
    show(to.first + ((x - LEFT) / (to.width - LEFT - RIGHT)) * (to.last - to.first));
  });
  picture.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) show((place ?? to.last) + (by * (to.last - to.first)) / 50);
    else if (event.key === "Home") show(to.first);
    else if (event.key === "End") show(to.last);
    else return;
    event.preventDefault();
  });
}
