// The charts of a fleet: its spending against the straight line, and the price of an hour of waiting.
import { price, usd } from "../words.js";

const known = (value) => value !== null && value !== undefined;

function money(fleet, points) {
  const rolls = fleet.period_until_hours === null;
  const since = rolls ? Math.max(0, fleet.hours - 168) : Math.max(0, fleet.period_since_hours), until = fleet.period_until_hours ?? fleet.hours;
  const now = { hours: fleet.hours, spent_usd: fleet.period_spent_usd, reserved_usd: fleet.reserved_usd };
  const shown = [...points.filter((point) => point.hours >= since && point.hours <= fleet.hours), now];
  if (!rolls && shown[0].hours > since) shown.unshift({ hours: since, spent_usd: 0, reserved_usd: null });
  const series = [{ name: "spent", look: "done", points: shown.map((point) => [point.hours, point.spent_usd]) }];
  const kept = shown.map((point) => [point.hours, known(point.reserved_usd) ? point.spent_usd : null, point.spent_usd + (point.reserved_usd ?? 0)]);
  if (kept.some(([, low]) => low !== null))
    series.unshift({ name: "reserved for promised deadlines", look: "reserve", band: true, points: kept, says: (low, high) => usd(high - low) });
  if (rolls) series.push({ name: "budget", look: "demand", points: [[since, fleet.period_budget_usd], [until, fleet.period_budget_usd]] });
  else series.push({ name: "even pace to the budget", look: "even", points: [[since, 0], [until, fleet.period_budget_usd]] });
  if (known(fleet.projected_usd))
    series.push({ name: "projected", look: "ahead", points: [[fleet.hours, fleet.period_spent_usd], [until, fleet.projected_usd]] });
  return { title: "Budget of this period", format: price, from: since, until, now: fleet.hours, most: fleet.period_budget_usd, series,
    marks: [{ hour: fleet.hours, name: "now", high: true }] };
}

function waiting(fleet, points) {
  const shown = points.map((point) => [point.hours, point.usd_per_job_hour]);
  return { title: "What an hour of waiting is worth", format: price, from: shown[0]?.[0] ?? 0, until: fleet.hours,
    note: "High: money is plentiful, so jobs run wide and rent on demand. Low: money is short, so jobs wait for cheap spot.",
    series: [{ name: "dollars per hour", look: "spot", stepped: true, points: shown.length ? [...shown, [fleet.hours, shown.at(-1)[1]]] : [] }] };
}

export function fleetPictures(fleet, points) {
  const found = fleet.period_budget_usd === null ? [] : [money(fleet, points)];
  return points.some((point) => known(point.usd_per_job_hour)) ? [...found, waiting(fleet, points)] : found;
}
