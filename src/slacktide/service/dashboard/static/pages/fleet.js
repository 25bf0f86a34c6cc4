// Fleets with their money and their jobs by class, and the bill of the whole journal.
import { get } from "../api.js";
import { chart } from "../pictures/chart.js";
import { el, facts, rows, table } from "../dom.js";
import { fleetPictures } from "../pictures/fleet.js";
import { follow } from "../live.js";
import { amount, blocks, count, hours, isGoing, outlook, percent, pill, usd, work } from "../words.js";

const jobLink = (job) => el("a", { href: `/jobs/${encodeURIComponent(job)}` }, job);

function period(fleet) {
  if (fleet.period_budget_usd === null) return "this fleet has no budget in dollars per period";
  return fleet.period_until_hours === null ? "in any such period (rolling)" : `renewed in ${hours(fleet.period_until_hours - fleet.hours)}`;
}

function ahead(fleet) {
  if (fleet.projected_usd === null) return "too early in the period to say";
  return fleet.projected_usd > fleet.period_budget_usd ? "at the pace so far: more than the budget, so jobs will wait longer"
    : "by the end of the period, at the pace so far";
}

function money(fleet) {
  const budget = fleet.period_budget_usd, reserved = fleet.reserved_usd;
  const free = budget === null || reserved === null ? null : budget - fleet.period_spent_usd - reserved;
  return facts([
    ["budget", budget === null ? "–" : usd(budget), period(fleet)],
    ["spent", usd(fleet.period_spent_usd), budget ? `${percent(fleet.period_spent_usd / budget)} of the budget` : "so far"],
    ["reserved", usd(reserved), reserved === null ? "this allocator keeps no reserve" : "for promised deadlines, in case there is no spot"],
    ["free", usd(free), "neither spent nor reserved"],
    ["projected", usd(fleet.projected_usd), ahead(fleet)],
    ["an hour of waiting", usd(fleet.usd_per_job_hour), fleet.usd_per_job_hour === null ? "this allocator has no such price" : "is worth this much to the allocator now"],
    ["spent in all", usd(fleet.spent_usd), work(fleet.spent_gpu_hours)],
    ["jobs", `${fleet.jobs.length} under way`, `${count(fleet.came, "job")} submitted in ${hours(fleet.hours)}`],
  ]);
}

const CLASSES = [{ name: "class" }, { name: "submitted", right: true }, { name: "under way", right: true }, { name: "waiting for GPUs", right: true }, { name: "GPUs held" }];
const JOBS = [{ name: "job" }, { name: "class" }, { name: "state" }, { name: "outlook" }, { name: "deadline" }, { name: "GPUs held" }, { name: "spent", right: true }];

// One fleet: built once, and updated with every event.
function card(first) {
  const top = el("dl", { class: "facts" }), drawings = el("div", { class: "charts" });
  const classes = table("Jobs by class", CLASSES), present = table("Jobs under way", JOBS);
  for (const one of [classes, present]) one.box.classList.add("cards");
  const box = el("section", { class: "fleet" }, el("h2", {}, first.file || `Fleet ${first.fleet}`), el("p", { class: "soft" }, `Allocator: ${first.allocator}. Id in the journal: ${first.fleet}.`),
    top, drawings, el("h3", {}, "Jobs by class"), classes.box, el("h3", {}, "Jobs under way"), present.box);
  let charts = [];

  async function update(fleet, jobs) {
    top.replaceChildren(...money(fleet));
    rows(classes, fleet.classes, (one) => one.name, (one) => [one.name || "no class", amount(one.came), amount(one.under_way),
      amount(one.under_way - one.holding), blocks(one.spot_gpus, one.on_demand_gpus)], "No jobs of this fleet yet.");
    const own = new Set(fleet.jobs);
    rows(present, jobs.filter((job) => own.has(job.name)), (job) => job.name, (job) => [[jobLink(job.name)], job.job_class || "–", [pill(job.status)], outlook(job),
      job.deadline_hours === null ? "none" : `${hours(job.deadline_hours - job.hours)} left`, blocks(job.spot_gpus, job.on_demand_gpus), usd(job.cost_usd)], "No job of this fleet is under way.");
    const { points } = await get(`/api/v1/fleet/${encodeURIComponent(fleet.fleet)}/course`);
    const specs = fleetPictures(fleet, points);
    if (charts.length !== specs.length) {
      charts = specs.map(chart);
      drawings.replaceChildren(...charts.map((one) => one.figure));
    } else specs.forEach((spec, at) => charts[at].update(spec));
  }
  return { box, update };
}

const MOST = 50;
const COLUMNS = [{ name: "job" }, { name: "state" }, { name: "spot", right: true }, { name: "on demand", right: true }, { name: "total", right: true }, { name: "GPU-hours", right: true }];

function billOfAll() {
  const total = el("dl", { class: "facts" }), shown = table("Money by job", COLUMNS), audit = el("p", { class: "soft" }), more = el("p", { class: "soft" });
  shown.box.classList.add("cards");

  function update(found) {
    const all = found.total;
    total.replaceChildren(...facts([
      ["spent", usd(all.cost_usd), `${usd(all.spot_usd)} spot + ${usd(all.on_demand_usd)} on demand`],
      ["GPU-hours", work(all.spot_gpu_hours + all.on_demand_gpu_hours), `${work(all.spot_gpu_hours)} of it spot`],
      ["lost to restarts", work(all.pause_gpu_hours), "paid for while workers restarted"],
      ["idle", work(all.idle_gpu_hours), "paid for, but used by no job"],
    ]));
    rows(shown, found.jobs.slice(-MOST).toReversed(), (one) => one.job, (one) => [[jobLink(one.job)], isGoing(one.status) ? "under way" : [pill(one.status)], usd(one.spot_usd), usd(one.on_demand_usd),
      usd(one.cost_usd), (one.spot_gpu_hours + one.on_demand_gpu_hours).toFixed(1)], ["No jobs yet. ", el("a", { href: "/submit" }, "Plan and submit one"), "."]);
    more.textContent = found.jobs.length > MOST ? `Only the newest ${MOST} of ${found.jobs.length} jobs; slacktide cost lists all of them.` : "";
    audit.textContent = found.audit.clean ? "Audited: every period was priced again from the market data, and the sums agree. Updated when a job is submitted or ends."
      : `The audit found: ${[...found.audit.wrong, ...found.audit.gaps, ...found.audit.oversold].join("; ")}`;
  }
  return { parts: [total, audit, shown.box, more], update };
}

const none = () => ["No fleet: the jobs of this server share no budget. To give them one, start the server with ", el("code", {}, "slacktide serve --fleet FILE"), "."];
const notYet = (file) => [`No job of ${file} was submitted yet. Its budget and its classes appear with the first one.`];

export async function show(main) {
  const cards = el("div"), bill = billOfAll(), made = new Map();
  main.append(el("h1", {}, "Fleet"), cards, el("h2", {}, "Bill of all jobs"), ...bill.parts);
  let billed = -1, asking = false;

  async function fleetsNow(jobs) {
    const { fleets, file } = await get("/api/v1/fleet");
    if (!fleets.length) {
      cards.replaceChildren(el("p", { class: "soft" }, file ? notYet(file) : none()));
      return;
    }
    for (const fleet of fleets) if (!made.has(fleet.fleet)) made.set(fleet.fleet, card(fleet));
    const boxes = fleets.map((fleet) => made.get(fleet.fleet).box);
    if (boxes.some((box, at) => cards.children[at] !== box) || cards.children.length !== boxes.length) cards.replaceChildren(...boxes);
    for (const fleet of fleets) await made.get(fleet.fleet).update(fleet, jobs);
  }

  follow(async () => {
    const { jobs } = await get("/api/v1/jobs?limit=500");
    await fleetsNow(jobs);
    const mark = jobs.length * 1000 + jobs.filter((job) => isGoing(job.status)).length;
    if (mark === billed || asking) return; // the bill of the whole journal takes the server seconds
    asking = true;
    await get("/api/v1/cost").then(bill.update).finally(() => { asking = false; });
    billed = mark;
  });
}
