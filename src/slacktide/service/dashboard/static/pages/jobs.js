// The list of all jobs, the newest first.
import { get } from "../api.js";
import { comparison, loadComparisons } from "./comparison.js";
import { el, facts, rows, table } from "../dom.js";
import { follow } from "../live.js";
import { blocks, count, hours, isGoing, outlook, percent, pill, progress, saving, usd } from "../words.js";

const MOST = 200;
const COLUMNS = [
  { name: "job" }, { name: "state" }, { name: "outlook" }, { name: "done" }, { name: "time" }, { name: "GPUs held" },
  { name: "spent", right: true },
  { name: "on demand", right: true, says: "what the work that is done would have cost on demand alone" },
  { name: "clairvoyant", right: true, says: "the lowest possible cost, had the market been known in advance" },
  { name: "saved", right: true, says: "compared with on demand alone" },
  { name: "preempted", right: true },
];

function cells({ job, money, best }) {
  const within = job.deadline_hours === null ? "" : ` of ${hours(job.deadline_hours)}`;
  return [
    [el("a", { href: `/jobs/${encodeURIComponent(job.name)}` }, job.name)],
    [pill(job.status)], outlook(job), progress(job),
    `${hours(job.hours)}${within}`, isGoing(job.status) ? blocks(job.spot_gpus, job.on_demand_gpus) : "–",
    usd(job.cost_usd), usd(money.alone), usd(best), percent(money.saved), String(job.preemptions),
  ];
}

const item = (job) => {
  const other = comparison(job);
  return { job, money: saving(job, other), best: job.status === "succeeded" ? other?.clairvoyant_usd ?? null : null };
};

function summary(items) {
  const going = items.filter(({ job }) => isGoing(job.status));
  const compared = items.filter(({ money }) => money.alone !== null);
  const sum = (list, of) => list.reduce((total, one) => total + of(one), 0);
  const alone = sum(compared, (one) => one.money.alone), paid = sum(compared, (one) => one.job.cost_usd);
  const waiting = items.some(({ job }) => job.deadline_hours !== null && job.progress_gpu_hours > 0 && comparison(job) === null);
  return facts([
    ["under way", count(going.length, "job")],
    ["GPUs held", String(sum(going, ({ job }) => job.spot_gpus + job.on_demand_gpus))],
    ["spent", usd(sum(items, ({ job }) => job.cost_usd)), `by ${count(items.length, "job")}`],
    ["saved", alone ? usd(alone - paid) : "–", alone ? `${percent(1 - paid / alone)} of what on demand alone would have cost, ${count(compared.length, "job")} compared` : waiting ? "being calculated…" : "calculated for jobs with a deadline"],
  ]);
}

export async function show(main) {
  const shown = table("Jobs", COLUMNS), top = el("dl", { class: "facts" }), more = el("p", { class: "soft" });
  const find = el("input", { type: "search", id: "find", placeholder: "name", input: () => draw() });
  const which = el("select", { id: "which", change: () => draw() },
    [["", "all"], ["going", "under way"], ["over", "ended"], ["trouble", "at risk or late"]].map(([value, name]) => el("option", { value }, name)));
  main.append(el("h1", {}, "Jobs"), top,
    el("p", { class: "tools" }, el("span", {}, el("label", { for: "find" }, "Find "), find), el("span", {}, el("label", { for: "which" }, "Show "), which)),
    shown.box, more);
  shown.box.classList.add("cards");
  let jobs = [];

  const wanted = ({ job }) => job.name.includes(find.value) && {
    "": true, going: isGoing(job.status), over: !isGoing(job.status),
    trouble: isGoing(job.status) && !["on-time", "measuring"].includes(job.health),
  }[which.value];

  function draw() {
    const items = jobs.map(item);
    top.replaceChildren(...summary(items));
    rows(shown, items.filter(wanted), ({ job }) => job.name, cells, jobs.length ? "No job has this name and state." : ["No jobs yet. ", el("a", { href: "/submit" }, "Plan and submit one"), ", or use ", el("code", {}, "slacktide submit"), "."]);
  }

  follow(async () => {
    jobs = (await get(`/api/v1/jobs?limit=${MOST}`)).jobs.reverse();
    more.replaceChildren(...(jobs.length === MOST ? ["Only the newest ", String(MOST), " jobs. All of them: ", el("code", {}, "slacktide jobs --server URL")] : []));
    draw();
    loadComparisons(jobs, draw);
  });
}
