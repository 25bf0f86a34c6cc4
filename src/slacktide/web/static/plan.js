// A plan in words, as a table, and in pictures.
import { chart } from "./chart.js";
import { el, rows, svg, table } from "./dom.js";
import { hours, percent, price, usd } from "./words.js";

const COLUMNS = [
  { name: "policy" }, { name: "cost, likely", right: true }, { name: "from p10 to p90", right: true }, { name: "cost" },
  { name: "done after", right: true }, { name: "at the latest (p90)", right: true }, { name: "on time", right: true },
];

function verdict(plan) {
  const { cost_usd: cost, finish_hours: finish, on_time_share: share, runs } = plan.outlooks[0].futures;
  const first = plan.first_decision, held = [[first.spot_gpus, "spot"], [first.on_demand_gpus, "on demand"]];
  const begin = held.filter(([gpus]) => gpus).map(([gpus, kind]) => `${gpus} ${kind}`).join(" + ") || "nothing yet";
  return [
    el("p", { class: "verdict" }, `${plan.job} with ${plan.policy} in ${plan.pool}: probably ${usd(cost.p50)} (${usd(cost.p10)} to ${usd(cost.p90)}), `,
      `done after ${hours(finish.p50)} (${hours(finish.p10)} to ${hours(finish.p90)}).`),
    el("p", {}, `On time in ${percent(share)} of ${runs} simulated futures. It would begin with ${begin}.`)];
}

// The range of a cost as a bar with a mark in the middle, on one scale for all rows.
function range(cost, most) {
  const x = (value) => 2 + (116 * value) / most;
  return svg("svg", { width: 120, height: 14, role: "img", "aria-label": `${usd(cost.p10)} to ${usd(cost.p90)}` },
    svg("line", { class: "grid", x1: 2, x2: 118, y1: 7, y2: 7 }),
    svg("rect", { class: "range", x: x(cost.p10), width: Math.max(2, x(cost.p90) - x(cost.p10)), y: 3, height: 8, rx: 2 }),
    svg("line", { class: "middle", x1: x(cost.p50), x2: x(cost.p50), y1: 0, y2: 14 }));
}

function outlooks(plan) {
  const shown = table("What each policy would do", COLUMNS);
  shown.box.classList.add("cards");
  const most = Math.max(...plan.outlooks.map((one) => one.futures.cost_usd.p90), 0.01);
  rows(shown, plan.outlooks, (one) => `${one.policy} ${one.pool ?? ""}`, ({ policy, pool, futures }) => [
    pool && pool !== plan.pool ? `${policy} in ${pool}` : policy, usd(futures.cost_usd.p50), `${usd(futures.cost_usd.p10)} – ${usd(futures.cost_usd.p90)}`,
    [range(futures.cost_usd, most)], hours(futures.finish_hours.p50), hours(futures.finish_hours.p90), percent(futures.on_time_share)]);
  return shown.box;
}

function overTime(plan) {
  const amount = (value) => String(Math.round(value * 10) / 10);
  if (plan.gpus_over_time?.length) {
    const line = (name, look, of) => ({ name, look, stepped: true, points: plan.gpus_over_time.map((at) => [at.hours, of(at)]) });
    return [{ title: "GPUs that will probably be held", format: amount, series: [
      line("spot", "spot", (at) => at.spot_gpus), line("on demand", "demand", (at) => at.on_demand_gpus)] }];
  }
  if (!plan.held_over_time) return [];
  const { slot_hours: slot, pools } = plan.held_over_time, looks = ["spot", "demand", "second", "third", "fourth"];
  return [{ title: "GPUs that will probably be held", format: amount, series: Object.entries(pools).slice(0, looks.length).map(([name, held], at) =>
    ({ name, look: looks[at], stepped: true, points: held.map((gpus, index) => [index * slot, gpus]) })) }];
}

function byDeadline(plan) {
  if (!plan.cost_by_deadline?.length) return [];
  const line = (name, look, of) => ({ name, look, points: plan.cost_by_deadline.map((at) => [at.deadline_hours, of(at)]) });
  return [{ title: "Cost by deadline", format: price, from: plan.cost_by_deadline[0].deadline_hours, series: [
    line("mean", "spot", (at) => at.mean_cost_usd), line("p90", "demand", (at) => at.p90_cost_usd), line("p10", "even", (at) => at.p10_cost_usd)] }];
}

export function plan(found) {
  const drawings = [...overTime(found), ...byDeadline(found)].map((spec) => chart(spec).figure);
  return [el("h2", {}, "Plan"), ...verdict(found), outlooks(found), el("div", { class: "charts" }, drawings),
    el("details", {}, el("summary", {}, "What this assumes"), el("ul", {}, found.assumptions.map((one) => el("li", {}, one))))];
}
