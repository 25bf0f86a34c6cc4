// Scales and axes of charts: round steps, hours in words, and marks at moments.
import { svg } from "../dom.js";
import { hours } from "../words.js";

export const LEFT = 52, RIGHT = 12, TOP = 10, BOTTOM = 24, HEIGHT = 200, LEAST = 1e-9;

// A round step that divides a range into about `pieces` parts.
export function step(range, pieces, bases = [1, 2, 2.5, 5, 10]) {
  const rough = Math.max(range, LEAST) / pieces, ten = 10 ** Math.floor(Math.log10(rough));
  return ten * (bases.find((base) => base * ten >= rough * 0.999) ?? 10);
}

export function hourStep(range, pieces) {
  const known = [1 / 60, 1 / 30, 1 / 12, 1 / 6, 0.25, 0.5, 1, 2, 3, 4, 6, 8, 12, 24, 48, 72, 96, 168, 336];
  return known.find((one) => range / one <= pieces) ?? step(range, pieces);
}

function ticks(from, until, size) {
  const first = Math.ceil(from / size - 1e-6), last = Math.floor(until / size + 1e-6);
  return Array.from({ length: last - first + 1 }, (_, at) => (first + at) * size);
}

// Maps hours and values to the pixels of a picture. A point is [hour, value], or in a band [hour, low, high].
export function scales(spec, width) {
  const all = spec.series.flatMap((one) => one.points).filter((point) => point[1] !== null);
  const first = spec.from ?? 0;
  const last = Math.max(spec.until ?? 0, ...all.map(([hour]) => hour), first + 1 / 60);
  const highest = Math.max(spec.most ?? 0, ...all.map((point) => point.at(-1)));
  const top = highest > LEAST ? highest : 1; // so that ticks differ even if all values are zero or missing
  const size = spec.whole ? Math.max(1, Math.ceil(step(top, 4))) : step(top, 4);
  const most = Math.max(1, Math.ceil(top / size - 1e-6)) * size;
  return {
    size, most, first, last, width,
    x: (hour) => LEFT + ((hour - first) / (last - first)) * (width - LEFT - RIGHT),
    y: (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM),
  };
}

export function axes(spec, to) {
  const grid = ticks(0, to.most, to.size).map((value) => [
    svg("line", { class: "grid", x1: LEFT, x2: to.width - RIGHT, y1: to.y(value), y2: to.y(value) }),
    svg("text", { x: LEFT - 6, y: to.y(value) + 4, "text-anchor": "end" }, spec.format(value, to.size))]);
  const each = hourStep(to.last - to.first, Math.max(2, Math.floor(to.width / 90)));
  const times = ticks(to.first, to.last, each).map((hour) => {
    const x = to.x(hour), near = x > to.width - RIGHT - 16; // a label at the edge must not be cut off
    return svg("text", { x: near ? to.width - 2 : x, y: HEIGHT - 6, "text-anchor": near ? "end" : "middle" },
      (spec.time ?? hours)(hour));
  });
  return [...grid.flat(), ...times];
}

export function mark(one, to) {
  const x = to.x(one.hour), side = x > to.width / 2;
  return [svg("line", { class: "mark", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }),
    svg("text", { class: "marked", x: x + (side ? -5 : 5), y: one.high ? TOP + 10 : HEIGHT - BOTTOM - 6, "text-anchor": side ? "end" : "start" }, one.name)];
}
