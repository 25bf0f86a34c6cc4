// The charts of a job, made from its course.
import { amount, least, price } from "../words.js";

function series(points, end, name, look, of, stepped = true) {
  const drawn = points.map((point) => [point.hours, of(point)]);
  const last = drawn.at(-1);
  if (last && end > last[0]) drawn.push([end, last[1]]);
  return { name, look, stepped, points: drawn };
}

function held(course) {
  const line = (name, look, of) => series(course.points, course.hours, name, look, of);
  return { title: "GPUs held and offered", format: amount, whole: true, series: [
    line("spot offered", "offered", (point) => point.offered_spot_gpus),
    line("spot held", "spot", (point) => point.spot_gpus),
    line("on demand held", "demand", (point) => point.on_demand_gpus)] };
}

function done(job, course) {
  const last = course.points.at(-1), all = job.work_gpu_hours;
  const found = [series(course.points, 0, "done", "done", (point) => point.progress_gpu_hours, false)];
  if (job.deadline_hours !== null)
    found.push({ name: "even pace to the deadline", look: "even", points: [[0, 0], [job.deadline_hours, all]] });
  if (course.projected_hours !== null && last)
    found.push({ name: "projected", look: "ahead", points: [[last.hours, last.progress_gpu_hours], [course.projected_hours, all]] });
  const marks = job.deadline_hours === null ? [] : [{ hour: job.deadline_hours, name: "deadline" }];
  return { title: "Work done, GPU-hours", format: amount, most: all, series: found, marks };
}

const LOOKS = ["spot", "second", "third", "fourth"];
export const MOST_POOLS = LOOKS.length;

// The pools that a job was in, the most recent one last.
export const poolsOf = (course) => [...new Set(course.points.map((point) => point.pool).reverse())].reverse();

// The price in one pool, for as long as the job was there.
function spotIn(course, pool, look) {
  const drawn = [];
  course.points.forEach((point, at) => {
    const until = course.points[at + 1]?.hours ?? Math.max(course.hours, point.hours);
    if (point.pool === pool) drawn.push([point.hours, point.spot_usd_per_gpu_hour], [until, point.spot_usd_per_gpu_hour]);
    else if (drawn.length && drawn.at(-1)[1] !== null) drawn.push([point.hours, null]);
  });
  return { name: `spot in ${pool}`, look, stepped: true, points: drawn };
}

function prices(course, chosen) {
  const all = poolsOf(course), names = all.includes(chosen) ? [chosen] : all.slice(-MOST_POOLS);
  const demand = series(course.points, course.hours, "on demand", "demand", (point) => point.on_demand_usd_per_gpu_hour);
  const note = all.length > names.length ? `The job was in ${all.length} pools; ${names.length === 1 ? "one is" : `the last ${names.length} are`} shown.` : "";
  return { title: "Price of a GPU-hour in the job’s pool", format: price, note, series: [...names.map((pool, at) => spotIn(course, pool, LOOKS[at])), demand] };
}

function spent(job, course, bill) {
  const found = [series(course.points, 0, "spent", "done", (point) => point.cost_usd, false)];
  const last = course.points.at(-1);
  const flat = (name, look, value) => found.push({ name, look, points: [[0, value], [Math.max(course.hours, last?.hours ?? 0), value]] });
  if (bill?.on_demand_alone_usd) flat("whole job on demand", "demand", bill.on_demand_alone_usd);
  if (least(job, bill)) flat("whole job, clairvoyant", "even", least(job, bill));
  return { title: "Money spent", format: price, series: found };
}

export const pictures = (job, course, bill, pool) =>
  [held(course), done(job, course), prices(course, pool), spent(job, course, bill)];
