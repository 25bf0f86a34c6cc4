// Pools at a glance: what each offers now, and what it offered lately.
import { get } from "./api.js";
import { chart } from "./chart.js";
import { el, rows, table } from "./dom.js";
import { follow } from "./live.js";
import { hours, percent, price, usd, utc } from "./words.js";

const SLOTS = 96;
const COLUMNS = [
  { name: "pool" }, { name: "GPU" }, { name: "spot GPUs", right: true, says: "obtainable now" },
  { name: "on-demand GPUs", right: true }, { name: "spot price", right: true, says: "of a GPU-hour" },
  { name: "on demand", right: true, says: "of a GPU-hour" }, { name: "discount", right: true },
  { name: "spot was there", right: true, says: "share of the slots that are shown" },
];

const last = (list) => (list && list.length ? list.at(-1) : null);

function cells(pool) {
  const spot = last(pool.spot_usd_per_gpu_hour), demand = last(pool.on_demand_usd_per_gpu_hour), there = pool.spot_gpus;
  return [pool.name, pool.gpu || "–", String(last(there) ?? "–"), pool.on_demand_gpus === null ? "no limit known" : String(last(pool.on_demand_gpus) ?? "–"),
    usd(spot), usd(demand), spot === null ? "–" : percent(1 - spot / demand),
    there.length ? percent(there.filter((gpus) => gpus > 0).length / there.length) : "–"];
}

function lately(pool) {
  const slots = pool.spot_gpus.length, at = (slot) => (slot - slots) * pool.slot_hours;
  const line = (name, look, list) => ({ name, look, stepped: true,
    points: [...list.map((value, slot) => [at(slot), value]), ...(slots ? [[0, list.at(-1)]] : [])] });
  const common = { from: at(0), until: 0, time: (hour) => (Math.abs(hour) < 1e-6 ? "now" : hours(hour)) };
  return [
    { ...common, title: `${pool.name}: price of a GPU-hour`, format: price, series: [
      line("spot", "spot", pool.spot_usd_per_gpu_hour), line("on demand", "demand", pool.on_demand_usd_per_gpu_hour)] },
    { ...common, title: `${pool.name}: spot GPUs obtainable`, format: String, whole: true, series: [line("spot", "spot", pool.spot_gpus)] },
  ];
}

export async function show(main) {
  const shown = table("Pools", COLUMNS), note = el("p", { class: "soft" }), drawings = el("div", { class: "charts" });
  main.append(el("h1", {}, "Markets"), note, shown.box, el("h2", {}, "Lately"), drawings);
  shown.box.classList.add("cards");
  const charts = new Map();
  follow(async () => {
    const { pools } = await get(`/api/v1/markets?slots=${SLOTS}`);
    const first = pools[0];
    note.textContent = first?.since_utc ? `Up to now, by the market’s clock; the last ${hours(first.spot_gpus.length * first.slot_hours)}, from ${utc(first.since_utc)} on.`
      : "The market’s clock stands still until the first job comes.";
    rows(shown, pools, (pool) => pool.name, cells, "no pools");
    for (const pool of pools.filter((one) => one.spot_gpus.length > 1)) {
      const specs = lately(pool);
      if (charts.has(pool.name)) charts.get(pool.name).forEach((one, at) => one.update(specs[at]));
      else {
        charts.set(pool.name, specs.map(chart));
        drawings.append(...charts.get(pool.name).map((one) => one.figure));
      }
    }
  });
}
