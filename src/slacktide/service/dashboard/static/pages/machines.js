// The machines that are rented, what they cost, and what jobs hold of them.
import { get } from "../api.js";
import { el, facts, rows, table } from "../dom.js";
import { follow } from "../live.js";
import { count, hours, pill, usd, utc } from "../words.js";

const COLUMNS = [
  { name: "machine" }, { name: "state" }, { name: "kind" }, { name: "pool" }, { name: "GPUs", right: true },
  { name: "age", right: true, says: "how long it has been paid for" }, { name: "cost per hour", right: true }, { name: "cost so far", right: true }, { name: "address" }, { name: "note", says: "what the provider says of its end" },
];
const USE = [{ name: "pool" }, { name: "kind" }, { name: "machines", right: true }, { name: "GPUs rented", right: true },
  { name: "held by jobs", right: true }, { name: "idle", right: true, says: "paid for, but held by no job now; includes machines that are booting" },
  { name: "cost per hour", right: true }, { name: "jobs" }];

function state(one) {
  if (one.orphan) return pill("orphan");
  return pill(one.state === "up" && one.joined === false ? "booting" : one.state);
}

function cells(one) {
  return [one.machine || one.ticket, [state(one)], kind(one), one.pool, String(one.gpus),
    [el("span", { title: utc(one.since_utc) }, hours(one.hours))], usd(one.usd_per_hour), usd(one.cost_usd), one.address || "–", one.why || ""];
}

// Machines by pool and kind, next to what jobs hold there. If all machines are in one pool, they serve every pool of
// the market, so everything that jobs hold is counted there.
function grouped(machines, holdings) {
  const found = new Map(), pools = new Set(machines.map((one) => one.pool));
  for (const one of machines) {
    const key = `${one.pool} ${one.capacity}`, group = found.get(key) ?? { pool: one.pool, capacity: one.capacity, machines: 0, gpus: 0, usd: 0 };
    found.set(key, { ...group, machines: group.machines + 1, gpus: group.gpus + one.gpus, usd: group.usd + (one.usd_per_hour ?? 0) });
  }
  return [...found.values()].map((group) => {
    const of = group.capacity === "spot" ? "spot_gpus" : "on_demand_gpus";
    const held = holdings.filter((one) => (pools.size === 1 || one.pool === group.pool) && one[of]);
    return { ...group, held: held.reduce((sum, one) => sum + one[of], 0), jobs: held.map((one) => one.job) };
  });
}

function useCells(group) {
  return [group.pool, kind(group), String(group.machines), String(group.gpus), String(group.held), String(Math.max(0, group.gpus - group.held)),
    usd(group.usd), group.jobs.length ? group.jobs.flatMap((job) => [el("a", { href: `/jobs/${encodeURIComponent(job)}` }, job), " "]) : "none"];
}

function orphanNote(rented, orphans) {
  if (orphans) return ["rented, but not in the journal: ", el("code", {}, "slacktide machines "), el("code", { class: "whole" }, "--sweep"), " ends them"];
  return rented ? "every machine is in the journal" : "nothing is rented";
}

const kind = (one) => (one.capacity === "on-demand" ? "on demand" : one.capacity);

const WHERE = { local: "as processes of this server", replay: "a dry run, without processes" };

export async function show(main) {
  const shown = table("Machines", COLUMNS), use = table("Use by pool", USE), top = el("dl", { class: "facts" });
  const byPool = el("section", {}, el("h2", {}, "By pool"), use.box);
  main.append(el("h1", {}, "Machines"), top, byPool, el("h2", {}, "Each machine"), shown.box);
  for (const one of [shown, use]) one.box.classList.add("cards");
  follow(async () => {
    const [{ machines, holdings }, journal] = await Promise.all([get("/api/v1/machines"), get("/api/v1/journal")]);
    const sum = (list, of) => list.reduce((total, one) => total + (of(one) ?? 0), 0), groups = grouped(machines, holdings);
    const orphans = machines.filter((one) => one.orphan).length;
    top.replaceChildren(...facts([
      ["rented", count(machines.length, "machine"), count(sum(machines, (one) => one.gpus), "GPU")],
      ["idle", count(sum(groups, (one) => Math.max(0, one.gpus - one.held)), "GPU"), machines.length ? "paid for, but held by no job" : "nothing is rented"],
      ["cost per hour", usd(sum(machines, (one) => one.usd_per_hour)), `${usd(sum(machines, (one) => one.cost_usd))} so far`],
      ["orphans", String(orphans), orphanNote(machines.length, orphans)],
      ["workers run on", journal.backend, WHERE[journal.backend] ?? ""],
    ]));
    byPool.hidden = !groups.length;
    rows(use, groups, (one) => `${one.pool} ${one.capacity}`, useCells);
    rows(shown, machines, (one) => `${one.ticket} ${one.machine}`, cells,
      ["Nothing is rented. A server started with ", el("code", {}, "slacktide serve --machines FILE"), " rents machines for its jobs."]);
  });
}
