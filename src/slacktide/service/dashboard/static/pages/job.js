// One job: its state and why, four charts, what was decided, and what its workers print.
import { ask, complain, forgive, get, jobPath } from "../api.js";
import { chart } from "../pictures/chart.js";
import { el, facts, place } from "../dom.js";
import { follow } from "../live.js";
import { logs } from "./logs.js";
import { MOST_POOLS, pictures, poolsOf } from "../pictures/job.js";
import { blocks, coded, count, hours, isGoing, isLate, least, outlook as standsTo, percent, pill, progress, saving, usd, work } from "../words.js";

const name = decodeURIComponent(location.pathname.split("/")[2]);

function finish(job, course) {
  if (!isGoing(job.status)) return [];
  return [["projected finish", course.projected_hours === null ? "–" : hours(course.projected_hours), outlook(job, course.projected_hours)]];
}

const AFTERWARDS = { stop: "it checkpoints and stops", "finish-cheaply": "the rest runs on spot when there is some", "finish-fast": "the rest runs on demand, as fast as possible" };

// What a projected end means for the job, which depends on the kind of its deadline.
function outlook(job, projected) {
  if (job.work_known === false) return "its file does not say how much work it is: estimated, then measured";
  if (projected === null) return job.progress_gpu_hours < job.work_gpu_hours ? "not enough is done to say" : "unknown: all work of its file is done, and it is not finished";
  const at = "at its pace so far";
  if (job.deadline_hours === null) return `${at}; it has no deadline`;
  if (job.hours > job.deadline_hours) return `${at}; the deadline has passed: ${AFTERWARDS[job.after_deadline] ?? "it continues"}`;
  if (projected <= job.deadline_hours) return `${at}: on time`;
  if (job.deadline_kind === "soft") return `${at}: after its deadline, when it is worth less; on-demand GPUs are rented only where that pays`;
  return `${at}: too late, so on-demand GPUs will be rented in time`;
}

// Why there is nothing to compare with.
function unknown(job, bill) {
  if (job.deadline_hours === null) return "only for jobs with a deadline";
  if (bill === null) return "being calculated…";
  return isGoing(job.status) ? "not known until more is done" : "the job did not finish";
}

// Why the lowest possible cost is not known.
function noLeast(job, bill) {
  return isLate(job) ? "only for jobs that meet their deadline" : unknown(job, bill);
}

function standing(job, course, bill) {
  const money = saving(job, bill), best = least(job, bill), going = isGoing(job.status);
  const whole = job.work_known === false ? " (estimated)" : "";
  return facts([
    ["done", el("span", {}, progress(job)), `${work(job.progress_gpu_hours)} of ${work(job.work_gpu_hours)}${whole}`],
    [going ? "time" : "ended after", hours(job.hours), job.deadline_hours === null ? "no deadline" : `of ${hours(job.deadline_hours)}${job.deadline_kind === "soft" ? " (soft)" : ""}`],
    ...finish(job, course),
    ["GPUs held", el("span", {}, blocks(job.spot_gpus, job.on_demand_gpus)), going ? `in ${job.pool ?? job.home_pool}` : "the job has ended"],
    ["spent", usd(job.cost_usd), `${usd(job.spot_usd)} spot + ${usd(job.on_demand_usd)} on demand`],
    ["on demand alone", usd(money.alone), money.alone === null ? unknown(job, bill) : "for the work that is done"],
    ["clairvoyant", usd(best), best === null ? noLeast(job, bill) : "the lowest possible cost of the whole job"],
    ["saved", percent(money.saved), money.saved < 0 ? "more was paid than on demand alone" : "compared with on demand alone"],
    ["preempted", count(job.preemptions, "time"), `${count(job.restarts, "restart")}, ${count(job.failures, "failure")}, ${work(job.lost_gpu_hours)} lost`],
    ["policy", job.policy, job.class ? `class ${job.class}` : ""],
  ]);
}

const ACTORS = { engine: "Slacktide", market: "market", user: "user", worker: "worker" };

function happening(event) {
  return el("li", { "data-key": event.seq, class: event.kind },
    el("span", { class: "when" }, hours(event.elapsed_hours)), el("span", { class: "actor" }, ACTORS[event.actor] ?? event.actor),
    el("span", {}, event.says, event.because ? el("small", {}, `Because ${event.because}.`) : null));
}

function happened(list, events) {
  const known = new Map([...list.children].map((row) => [row.dataset.key, row]));
  place(list, events.toReversed().map((event) => known.get(String(event.seq)) ?? happening(event)));
}

function buttons(me, problem) {
  if (me.role !== "submit") return { box: el("span", { class: "soft" }, "This token is read-only."), show() {} };
  const act = (verb, question) => async () => {
    if (!confirm(question)) return;
    try {
      forgive();
      await ask("POST", `${jobPath(name)}/${verb}`, { body: verb === "preempt" ? {} : undefined });
    } catch (error) { problem(error); }
  };
  const both = [
    el("button", { type: "button", click: act("preempt", `Take all spot GPUs from ${name}, as the market would?`) }, "Preempt"),
    el("button", { type: "button", class: "bad", click: act("cancel", `Cancel ${name}? It cannot be resumed.`) }, "Cancel"),
  ];
  const show = (job) => {
    both[0].disabled = !isGoing(job.status) || !job.spot_gpus;
    both[0].title = job.spot_gpus ? "" : "It holds no spot GPUs.";
    both[1].disabled = !isGoing(job.status);
  };
  return { box: el("span", { class: "tools" }, both), show };
}

// A chart is readable with only a few lines: if a job was in more pools, the user may choose one.
function choosePool(which, chooser, course) {
  const pools = poolsOf(course);
  chooser.hidden = pools.length <= MOST_POOLS;
  if (chooser.hidden || which.options.length === pools.length + 1) return;
  const before = which.value;
  which.replaceChildren(el("option", { value: "" }, `the last ${MOST_POOLS} of ${pools.length} pools`), ...pools.map((pool) => el("option", { value: pool }, pool)));
  which.value = before;
}

// Whether the server has this job.
async function isThere() {
  try {
    await get(jobPath(name));
  } catch (error) { return error.status !== 404; }
  return true;
}

export async function show(main, me) {
  document.title = `${name} · Slacktide`;
  if (!await isThere()) {
    main.append(el("h1", {}, name), el("p", {}, "This server has no job of that name. ", el("a", { href: "/" }, "All jobs"), "."));
    return;
  }
  const state = el("span", { class: "states", role: "status" }), act = buttons(me, complain), top = el("dl", { class: "facts" });
  const reason = el("h2", {}, "Why it holds what it holds"), report = el("a", { class: "button", href: `${jobPath(name)}/report`, target: "_blank", rel: "noopener" }, "Report");
  const why = el("ul", { class: "why" }), drawings = el("div", { class: "charts" });
  const list = el("ol", { class: "story" }), file = el("pre"), printed = logs(name);
  main.append(el("div", { class: "title" }, el("h1", {}, name), state, el("span", { class: "tools" }, report, act.box)), top,
    reason, why, el("h2", {}, "History"), drawings,
    el("h2", {}, "Decisions and events"), el("p", { class: "soft" }, "Newest first; times since the job was submitted."),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Decisions and events" }, list),
    el("h2", {}, "Logs"), printed.box, el("details", {}, el("summary", {}, "Job file"), file));
  let charts = null, bill = null, billed = "", again = () => {};
  const which = el("select", { id: "pool", change: () => again() });
  const chooser = el("p", { class: "tools", hidden: true }, el("label", { for: "pool" }, "Prices in"), which);
  drawings.before(chooser);

  async function compare(job, draw) {
    const mark = `${isGoing(job.status)} ${job.progress_gpu_hours > 0}`;
    if (mark === billed) return;
    billed = mark;
    bill = await get(`${jobPath(name)}/cost`).catch(() => bill);
    draw();
  }

  follow(async () => {
    const [job, course, reasons] = await Promise.all(
      [jobPath(name), `${jobPath(name)}/course`, `${jobPath(name)}/why`].map((path) => get(path)));
    const draw = () => {
      top.replaceChildren(...standing(job, course, bill));
      const specs = pictures(job, course, bill, which.value);
      if (charts) specs.forEach((spec, at) => charts[at].update(spec));
      else {
        charts = specs.map(chart);
        drawings.append(...charts.map((one) => one.figure));
      }
    };
    again = draw;
    choosePool(which, chooser, course);
    const said = `${job.status} ${isGoing(job.status) ? job.health : ""}`;
    if (state.dataset.said !== said) { // screen readers read out every change, so change it only if it differs
      state.dataset.said = said;
      state.replaceChildren(pill(job.status), " ", ...standsTo(job));
    }
    act.show(job);
    reason.textContent = isGoing(job.status) ? "Why it holds what it holds" : "Why it held what it held";
    why.replaceChildren(...reasons.why.map((one) => el("li", {}, coded(one))));
    file.textContent = job.text;
    happened(list, course.happenings);
    draw();
    compare(job, draw);
  }, name);
}
