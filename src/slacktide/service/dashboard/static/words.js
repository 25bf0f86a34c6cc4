// Formats numbers and states, in the words that the command line uses.
import { el } from "./dom.js";

const MONEY = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD" });
const STATES = { budget_exhausted: "out of money", deadline_missed: "late", asked: "requested" };
const GOING = ["pending", "starting", "running", "recovering", "cancelling", "blocked", "released", "unattended"];
const SIGNS = {
  succeeded: "✓", failed: "✕", cancelled: "⊘", budget_exhausted: "$", deadline_missed: "✕",
  running: "▶", starting: "▷", pending: "…", recovering: "↻", cancelling: "⊘", blocked: "■", released: "□",
  unattended: "?", "on-time": "✓", "at-risk": "!", late: "✕", "late-expected": "✕", measuring: "…",
  up: "✓", booting: "▷", asked: "…", ending: "⊘", orphan: "!",
};
const MOODS = {
  succeeded: "good", "on-time": "good", running: "plain", failed: "bad", deadline_missed: "bad", late: "bad",
  "late-expected": "bad", "at-risk": "warn", up: "good", orphan: "warn", blocked: "warn", unattended: "warn", budget_exhausted: "warn",
};

export const isGoing = (status) => GOING.includes(status);
export const usd = (sum) => (sum === null || sum === undefined ? "–" : MONEY.format(sum));
// Money on an axis whose ticks are `size` apart.
export const price = (sum, size = 0) => (size >= 1 && Number.isInteger(size) ? `$${Math.round(sum).toLocaleString("en-US")}` : usd(sum));
export const percent = (share) =>
  share === null || share === undefined || !Number.isFinite(share) ? "–" : `${Math.round(100 * share)}\u00a0%`.replace("-", "−");
export const amount = (number) => number.toLocaleString("en-US", { maximumFractionDigits: 2 });
export const count = (number, noun) => `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : "s"}`;
export const work = (done) => `${done.toLocaleString("en-US", { maximumFractionDigits: done < 1 ? 3 : 1 })} GPU-\u2060hours`;

// A duration such as 11h20m: whole hours from two days up, whole minutes from ten minutes up.
export function hours(time) {
  if (time === null || time === undefined || !Number.isFinite(time)) return "–";
  const sign = time < 0 ? "−" : "", size = Math.abs(time);
  const grain = size >= 48 ? 3600 : size >= 1 / 6 ? 60 : 1;
  let left = Math.round((size * 3600) / grain) * grain, said = "";
  for (const [seconds, unit] of [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]]) {
    const whole = Math.floor(left / seconds);
    if (whole) said += `${whole}${unit}`;
    left -= whole * seconds;
  }
  return sign + (said || "0s");
}

export function holding(spot, onDemand) {
  const parts = [spot ? `${spot} spot` : null, onDemand ? `${onDemand} on demand` : null].filter(Boolean);
  return parts.join(" + ") || "none";
}

// A state or an outlook as a sign and a word, so that its meaning does not depend on color alone.
export function pill(word) {
  return el("span", { class: `pill ${MOODS[word] ?? "plain"}` },
    el("span", { "aria-hidden": "true" }, SIGNS[word] ?? "·"), ` ${STATES[word] ?? word}`);
}

// Whether a job will meet its deadline. A job without one is shown as that, neither as on time nor as being measured.
export function outlook(job) {
  if (!isGoing(job.status)) return "";
  return job.deadline_hours === null && ["on-time", "measuring"].includes(job.health) ? [el("span", { class: "soft" }, "no deadline")] : [pill(job.health)];
}

// GPUs as blocks, spot full and on demand hollow, followed by the words.
export function blocks(spot, onDemand) {
  const shown = [...Array(Math.min(spot, 8)).fill("spot"), ...Array(Math.min(onDemand, 8)).fill("demand")];
  return [el("span", { class: "blocks", "aria-hidden": "true" }, shown.map((kind) => el("i", { class: kind }))),
    el("span", {}, holding(spot, onDemand))];
}

export function progress(job) {
  const share = job.work_gpu_hours > 0 ? job.progress_gpu_hours / job.work_gpu_hours : 0;
  const said = `${job.progress_estimated ? "~" : ""}${percent(share)}`;
  return [el("progress", { max: 1, value: Math.min(1, share), "aria-label": "work done" }), ` ${said}`];
}

const IN_VAIN = ["failed", "cancelled", "budget_exhausted"];

// Whether a job has ended with work undone; one that missed its deadline may have finished later.
const inVain = (job) => IN_VAIN.includes(job.status)
  || (job.status === "deadline_missed" && job.progress_gpu_hours < job.work_gpu_hours * (1 - 1e-6));

// What the work done so far would have cost on demand alone, and the share that was saved; null if that is not known
// or the job ended without its result.
export function saving(job, comparison) {
  const share = job.work_gpu_hours > 0 ? Math.min(1, job.progress_gpu_hours / job.work_gpu_hours) : 0;
  if (!comparison?.on_demand_alone_usd || share < 0.02 || inVain(job)) return { alone: null, saved: null };
  const alone = comparison.on_demand_alone_usd * share;
  return { alone, saved: 1 - job.cost_usd / alone };
}

export const isLate = (job) => job.status === "deadline_missed" || (isGoing(job.status) && job.health === "late");

// The lowest possible cost of a job. A late job has none, because no plan meets its deadline.
export const least = (job, comparison) => (isLate(job) ? null : comparison?.clairvoyant_usd ?? null);

// Text in which words between backticks are shown as code.
export const coded = (text) => text.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part));

export const utc = (text) => (text ? text.replace("T", " ").replace(/(:\d\d)(\.\d+)?(Z|\+00:00)$/, "$1 UTC") : "–");
