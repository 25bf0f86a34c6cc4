// The pools of the market: what each offers now, has offered recently, and will probably offer.
import { get } from "../api.js";
import { chart } from "../pictures/chart.js";
import { el, rows, svg, table } from "../dom.js";
import { follow } from "../live.js";
import { chances, checked, poolPictures } from "../pictures/market.js";
import { count, hours, percent, usd, utc } from "../words.js";

const SLOTS_HOURS = 48, MOST_SLOTS = 2000, DRAWN = 6, AGAIN_MS = 60000;
const COLUMNS = [
  { name: "pool" }, { name: "GPU" },
  { name: "spot GPUs now", right: true, says: "available now, including those that jobs hold" },
  { name: "spot price now", right: true, says: "price of a GPU-hour" },
  { name: "last day", says: "lowest to highest spot price of the last 24 hours" },
  { name: "on demand", right: true, says: "price of a GPU-hour, and how much less spot costs now" },
  { name: "spot available", right: true, says: "share of the last 24 hours in which there was any spot" },
  { name: "last preempted", says: "when the market last took spot GPUs from a job here" },
  { name: "last refused", says: "when a job last wanted more spot GPUs than there were" },
];

const last = (list) => (list && list.length ? list.at(-1) : null);

function spark(values) {
  const width = 64, height = 16, low = Math.min(...values), span = Math.max(...values) - low || 1;
  const at = (value, place) => `${((place / Math.max(1, values.length - 1)) * (width - 2) + 1).toFixed(1)} ${(height - 2 - ((value - low) / span) * (height - 4)).toFixed(1)}`;
  return svg("svg", { width, height, class: "spark", "aria-hidden": "true" }, svg("path", { class: "line spot", d: `M${values.map(at).join("L")}` }));
}

function cheaper(spot, demand) {
  if (!(demand > 0) || spot === demand) return "";
  return `, spot ${percent(Math.abs(1 - spot / demand))} ${spot < demand ? "cheaper" : "more expensive"}`;
}

function ago(time, gpus) {
  return time === null ? "never" : `${hours(time)} ago, ${count(gpus, "GPU")}`;
}

function cells(pool) {
  const spot = last(pool.spot_usd_per_gpu_hour), demand = last(pool.on_demand_usd_per_gpu_hour);
  const slots = Math.max(1, Math.round(24 / pool.slot_hours)), day = pool.spot_usd_per_gpu_hour.slice(-slots), there = pool.spot_gpus.slice(-slots);
  if (spot === null) return [pool.name, pool.gpu || "–", "–", "–", "–", "–", "–", "never", "never"];
  return [pool.name, pool.gpu || "–", String(last(there)), usd(spot), [`${usd(Math.min(...day))} to ${usd(Math.max(...day))} `, spark(day)],
    `${usd(demand)}${cheaper(spot, demand)}`, percent(there.filter((gpus) => gpus > 0).length / there.length),
    ago(pool.taken_hours_ago, pool.taken_gpus), ago(pool.refused_hours_ago, pool.refused_gpus)];
}

function stands(found) {
  const first = found.pools[0];
  if (!first?.since_utc) return ["The market clock starts with the first job; prices and forecasts appear then. ", el("a", { href: "/submit" }, "Plan and submit one"), "."];
  if (found.feed_trouble) return [`The price feed fails: ${found.feed_trouble}`];
  if (!found.live) return ["Recorded market data, replayed up to now; jobs, forecasts and this page do not see what comes after."];
  return [`Live prices, last updated ${utc(found.pools.map((pool) => pool.until_utc).sort().at(-1))}.`];
}

// One pool: two charts, and below them the forecast in words.
function drawer() {
  const made = new Map();
  return (pool, forecast, box) => {
    const specs = poolPictures(pool, forecast);
    if (made.has(pool.name)) made.get(pool.name).charts.forEach((one, at) => one.update(specs[at]));
    else {
      const charts = specs.map(chart), note = el("p"), check = el("p", { class: "soft" });
      made.set(pool.name, { charts, note, check });
      box.append(el("section", { class: "pool", "data-pool": pool.name }, el("div", { class: "charts" }, charts.map((one) => one.figure)), note, check));
    }
    const { note, check } = made.get(pool.name);
    note.textContent = forecast ? chances(forecast) : "Calculating the forecast…";
    check.textContent = forecast ? checked(forecast.check) : "";
  };
}

export async function show(main) {
  const shown = table("Pools", COLUMNS), note = el("p", { class: "soft" }), drawings = el("div");
  const which = el("select", { id: "which", change: () => draw() }), lately = el("h2", { hidden: true }, "The last two days and a forecast of the next");
  const chooser = el("p", { class: "tools", hidden: true }, el("label", { for: "which" }, "Show"), which);
  main.append(el("h1", {}, "Markets"), note, shown.box, lately, chooser, drawings);
  shown.box.classList.add("cards");
  const forecasts = new Map(), put = drawer();
  let pools = [], requestedAt = 0;

  const chosen = () => (which.value ? pools.filter((pool) => pool.name === which.value) : pools.slice(0, DRAWN)).filter((pool) => pool.spot_gpus.length > 1);

  function choices() {
    chooser.hidden = pools.length <= DRAWN;
    if (which.options.length === pools.length + 1) return;
    which.replaceChildren(el("option", { value: "" }, `the first ${DRAWN} of ${pools.length} pools`), ...pools.map((pool) => el("option", { value: pool.name }, pool.name)));
  }

  function draw() {
    for (const pool of chosen()) put(pool, forecasts.get(pool.name) ?? null, drawings);
    const names = new Set(chosen().map((pool) => pool.name));
    for (const box of drawings.children) box.hidden = !names.has(box.dataset.pool);
    if (chosen().some((pool) => !forecasts.has(pool.name))) look();
  }

  // A forecast takes the server seconds, so they are requested one pool after the other, and not too often.
  async function look() {
    if (requestedAt) return;
    requestedAt = Date.now();
    try {
      for (const pool of chosen()) {
        const { forecast } = await get(`/api/v1/markets/forecast?pool=${encodeURIComponent(pool.name)}`);
        forecasts.set(pool.name, forecast);
        put(pool, forecast, drawings);
      }
    } catch { /* the header shows that the server is away; the next round tries again */ }
    requestedAt = 0;
  }

  let looked = 0;
  follow(async () => {
    const first = pools[0], slots = Math.min(MOST_SLOTS, Math.ceil(SLOTS_HOURS / (first?.slot_hours ?? 0.5)));
    const found = await get(`/api/v1/markets?slots=${slots}`);
    pools = found.pools;
    note.replaceChildren(...stands(found));
    lately.hidden = !chosen().length;
    rows(shown, pools, (pool) => pool.name, cells, "The market has no pools.");
    choices();
    if (Date.now() - looked > AGAIN_MS) {
      looked = Date.now();
      look();
    }
    draw();
  });
}
