// What jobs would have cost otherwise. Each is a costly question, so they are asked one after the other, those
// that have ended once and for all, the others once for each page. Without a deadline there is nothing to compare.
import { get, jobPath } from "./api.js";
import { isGoing } from "./words.js";

const MOST = 60;
const known = new Map();
let asking = false;

const mark = (job) => `${job.name} ${isGoing(job.status)}`;

export const beside = (job) => known.get(mark(job)) ?? null;

export async function learn(jobs, told) {
  if (asking) return;
  asking = true;
  for (const job of jobs.slice(0, MOST)) {
    if (known.has(mark(job)) || job.deadline_hours === null || job.progress_gpu_hours <= 0) continue;
    try {
      known.set(mark(job), await get(`${jobPath(job.name)}/cost`));
      told();
    } catch { break; }
  }
  asking = false;
}
