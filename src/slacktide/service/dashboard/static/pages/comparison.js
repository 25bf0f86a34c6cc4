// What jobs would have cost in other ways. Each comparison takes the server a while, so they are requested one after
// the other: once for a job that has ended, and once per page view for the others. A job without a deadline has
// nothing to compare with.
import { get, jobPath } from "../api.js";
import { isGoing } from "../words.js";

const MOST = 60;
const known = new Map();
let loading = false;

const mark = (job) => `${job.name} ${isGoing(job.status)}`;

export const comparison = (job) => known.get(mark(job)) ?? null;

export async function loadComparisons(jobs, onLoaded) {
  if (loading) return;
  loading = true;
  for (const job of jobs.slice(0, MOST)) {
    if (known.has(mark(job)) || job.deadline_hours === null || job.progress_gpu_hours <= 0) continue;
    try {
      known.set(mark(job), await get(`${jobPath(job.name)}/cost`));
      onLoaded();
    } catch { break; }
  }
  loading = false;
}
