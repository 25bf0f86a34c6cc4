// A plan in words, as a table, and in pictures.
import { hourStep as hourSize } from "../pictures/axes.js";
import { chart } from "../pictures/chart.js";
import { el, rows, table } from "../dom.js";
import { ranges } from "../pictures/ranges.js";
import { amount, hours, percent, price, usd } from "../words.js";

const COLUMNS = [
  { name: "policy" }, { name: "median cost", right: true }, { name: "8 of 10 futures", right: true },
  { name: "finished after", right: true }, { name: "9 of 10 by", right: true }, { name: "on time", right: true },
];

function verdict(plan) {
  const { cost_usd: cost, finish_hours: finish, on_time_share: share, runs } = plan.outlooks[0].futures;
  const first = plan.first_decision, held = [[first.spot_gpus, "spot"], [first.on_demand_gpus, "on demand"]];
  const begin = held.filter(([gpus]) => gpus).map(([gpus, kind]) => `${gpus} ${kind}`).join(" + ") || "nothing yet";
  return [
    el("p", { class: "verdict" }, `${plan.job} with ${plan.policy} in ${plan.pool}: probably ${usd(cost.p50)} (${usd(cost.p10)} to ${usd(cost.p90)}), `,
      `finished after ${hours(finish.p50)} (${hours(finish.p10)} to ${hours(finish.p90)}).`),
    el("p", {}, `On time in ${percent(share)} of ${runs} simulated futures. It would start with ${begin}.`)];
}

const nameOf = (plan) => ({ policy, pool }) => (pool && pool !== plan.pool ? `${policy} in ${pool}` : policy);

// The picture of a plan: cost and finish of each policy, on one scale.
function picture(plan) {
  const name = nameOf(plan), all = (of) => plan.outlooks.map((one) => ({ name: name(one), ...of(one.futures) }));
  const note = "Bars span 8 of 10 simulated futures, the line is the median. The first row is what would run.";
  const due = plan.deadline_hours ? { value: plan.deadline_hours, name: `deadline ${hours(plan.deadline_hours)}` } : null;
  return [ranges({ title: "What it would cost", format: price, note, rows: all((one) => one.cost_usd) }),
    ranges({ title: "When it would finish", format: hours, step: hourStep, note: "Time after the start.", rows: all((one) => one.finish_hours), mark: due })];
}

const hourStep = (top, width) => hourSize(top, width < 420 ? 3 : 6);

function outlooks(plan) {
  const shown = table("What each policy would do", COLUMNS);
  shown.box.classList.add("cards");
  rows(shown, plan.outlooks, (one) => `${one.policy} ${one.pool ?? ""}`, (one) => cells(plan, one));
  return shown.box;
}

function cells(plan, one) {
  const futures = one.futures;
  return [nameOf(plan)(one), usd(futures.cost_usd.p50), `${usd(futures.cost_usd.p10)} to ${usd(futures.cost_usd.p90)}`,
    hours(futures.finish_hours.p50), hours(futures.finish_hours.p90), percent(futures.on_time_share)];
}

function overTime(plan) {
  if (!plan.held_over_time && plan.gpus_over_time?.length) {
    const line = (name, look, of) => ({ name, look, stepped: true, points: plan.gpus_over_time.map((at) => [at.hours, of(at)]) });
    return [{ title: "GPUs held, mean of the futures", format: amount, series: [
      line("spot", "spot", (at) => at.spot_gpus), line("on demand", "demand", (at) => at.on_demand_gpus)] }];
  }
  if (!plan.held_over_time) return [];
  const { slot_hours: slot, pools } = plan.held_over_time, looks = ["spot", "demand", "second", "third", "fourth"];
  const visited = Object.entries(pools).filter(([, shares]) => shares.some((share) => share > 0));
  const first = visited.slice(0, looks.length), rest = visited.length - first.length;
  return [{ title: `Which pool it would be in: share of the futures${rest ? ` (${rest} more pools are not shown)` : ""}`, format: percent, most: 1,
    series: first.map(([name, shares], at) => ({ name, look: looks[at], stepped: true, points: shares.map((share, index) => [index * slot, share]) })) }];
}

function byDeadline(plan) {
  if (!plan.cost_by_deadline?.length) return [];
  return [{ title: "Cost with another deadline", format: price, from: plan.cost_by_deadline[0].deadline_hours, series: [
    { name: "8 of 10 futures", look: "likely", band: true, points: plan.cost_by_deadline.map((at) => [at.deadline_hours, at.p10_cost_usd, at.p90_cost_usd]) },
    { name: "mean", look: "spot", points: plan.cost_by_deadline.map((at) => [at.deadline_hours, at.mean_cost_usd]) }],
    marks: plan.deadline_hours ? [{ hour: plan.deadline_hours, name: "this deadline" }] : [] }];
}

export function plan(found) {
  const drawings = [...overTime(found), ...byDeadline(found)].map((spec) => chart(spec).figure);
  return [el("h2", {}, "Plan"), ...verdict(found), el("div", { class: "charts" }, [...picture(found), ...drawings]), el("h3", {}, "Policies side by side"), outlooks(found),
    el("details", {}, el("summary", {}, "What this assumes"), el("ul", {}, found.assumptions.map((one) => el("li", {}, one))))];
}
