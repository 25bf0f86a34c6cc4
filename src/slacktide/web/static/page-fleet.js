// Fleets with their money, and the bill of everything.
import { get } from "./api.js";
import { el, facts, rows, table } from "./dom.js";
import { follow } from "./live.js";
import { hours, isGoing, percent, usd, work } from "./words.js";

function bar(fleet) {
  const budget = fleet.period_budget_usd;
  if (budget === null) return null;
  return el("meter", { min: 0, max: Math.max(budget, fleet.period_spent_usd), value: fleet.period_spent_usd, "aria-label": "spent of the budget" });
}

function card(fleet) {
  const budget = fleet.period_budget_usd;
  const over = budget !== null && fleet.projected_usd !== null && fleet.projected_usd > budget;
  const period = fleet.period_until_hours === null ? "this period" : `this period, until hour ${hours(fleet.period_until_hours)} of the fleet`;
  return el("section", { class: "card" }, el("h2", {}, `Fleet ${fleet.fleet}`), bar(fleet),
    el("dl", { class: "facts" }, facts([
      ["budget", budget === null ? "none in money" : usd(budget), period],
      ["spent", usd(fleet.period_spent_usd), budget ? `${percent(fleet.period_spent_usd / budget)} of the budget` : "this period"],
      ["projected", fleet.projected_usd === null ? "–" : usd(fleet.projected_usd), fleet.projected_usd === null ? "the period has just begun" : over ? "if it went on so: more than the budget" : "if it goes on as so far"],
      ["price of waiting", fleet.usd_per_job_hour === null ? "–" : `${usd(fleet.usd_per_job_hour)} an hour`, "what an hour of a job’s waiting is worth to the allocator now"],
      ["spent in all", usd(fleet.spent_usd), work(fleet.spent_gpu_hours)],
      ["jobs", `${fleet.jobs.length} under way`, `${fleet.came} came`],
      ["allocator", fleet.allocator],
    ])),
    el("p", {}, fleet.jobs.flatMap((job) => [el("a", { href: `/jobs/${encodeURIComponent(job)}` }, job), " "])),
    el("p", { class: "soft" }, Object.entries(fleet.by_class).map(([name, came]) => `${name}: ${came}`).join(" · ")));
}

const COLUMNS = [{ name: "job" }, { name: "state" }, { name: "spot", right: true }, { name: "on demand", right: true }, { name: "all", right: true }, { name: "GPU-hours", right: true }];

export async function show(main) {
  const cards = el("div"), total = el("dl", { class: "facts" }), shown = table("Money by job", COLUMNS), audit = el("p", { class: "soft" });
  main.append(el("h1", {}, "Fleet"), cards, el("h2", {}, "All money of this controller"), total, shown.box, audit);
  shown.box.classList.add("cards");

  async function bill() {
    const found = await get("/api/v1/cost");
    const all = found.total;
    total.replaceChildren(...facts([
      ["spent", usd(all.cost_usd), `${usd(all.spot_usd)} spot + ${usd(all.on_demand_usd)} on demand`],
      ["GPU-hours", work(all.spot_gpu_hours + all.on_demand_gpu_hours), `${work(all.spot_gpu_hours)} of it spot`],
      ["lost to pauses", work(all.pause_gpu_hours), "restarts after changes of workers"],
      ["idle", work(all.idle_gpu_hours), "paid for and used by no job"],
    ]));
    rows(shown, found.jobs.toReversed(), (one) => one.job, (one) => [
      [el("a", { href: `/jobs/${encodeURIComponent(one.job)}` }, one.job)], one.status, usd(one.spot_usd), usd(one.on_demand_usd),
      usd(one.cost_usd), (one.spot_gpu_hours + one.on_demand_gpu_hours).toFixed(1)], "no jobs yet");
    audit.textContent = found.audit.clean ? "Audited: every stretch was priced again from the market, and the sums agree."
      : `The audit found: ${[...found.audit.wrong, ...found.audit.gaps, ...found.audit.oversold].join("; ")}`;
  }

  let billed = -1, asking = false;
  follow(async () => {
    const { fleets } = await get("/api/v1/fleet");
    cards.replaceChildren(...(fleets.length ? fleets.map(card)
      : [el("p", { class: "soft" }, "No fleet: jobs of this controller share no budget. ", el("code", {}, "slacktide serve --fleet FILE"), " gives them one.")]));
    const { jobs } = await get("/api/v1/jobs?limit=200");
    const mark = jobs.length * 1000 + jobs.filter((job) => isGoing(job.status)).length;
    if (mark === billed || asking) return; // the bill of all is a costly question
    asking = true;
    await bill().finally(() => { asking = false; });
    billed = mark;
  });
}
