// The charts of a pool: its last two days, and a forecast for the next day as bands, by the model that plans use.
import { amount, hours, percent, price } from "../words.js";

function past(pool, list) {
  const slots = list.length;
  return [...list.map((value, slot) => [(slot - slots + 1) * pool.slot_hours, value])];
}

// The lists of a forecast begin with the current slot.
const ahead = (forecast, list) => list.map((value, slot) => [slot * forecast.slot_hours, value]);

function expected(forecast, bands) {
  if (!forecast) return [];
  const band = bands.p10.map((low, slot) => [slot * forecast.slot_hours, low, bands.p90[slot]]);
  return [{ name: "8 of 10 futures", look: "likely", band: true, points: band },
    { name: "median", look: "ahead", points: ahead(forecast, bands.p50) }];
}

export function poolPictures(pool, forecast) {
  const until = forecast ? (forecast.spot_gpus.p50.length - 1) * forecast.slot_hours : 0;
  const common = { from: -pool.spot_gpus.length * pool.slot_hours, until, now: 0, marks: [{ hour: 0, name: "now", high: true }],
    time: (hour) => (Math.abs(hour) < 1e-6 ? "now" : hour > 0 ? `in ${hours(hour)}` : `${hours(-hour)} ago`) };
  const usd = pool.on_demand_usd_per_gpu_hour, flat = forecast ? [[until, usd.at(-1)]] : [];
  return [
    { ...common, title: `${pool.name}: price of a GPU-hour`, format: price, series: [...expected(forecast, forecast?.spot_usd_per_gpu_hour),
      { name: "spot", look: "spot", stepped: true, points: past(pool, pool.spot_usd_per_gpu_hour) },
      { name: "on demand", look: "demand", stepped: true, points: [...past(pool, usd), ...flat] }] },
    { ...common, title: `${pool.name}: spot GPUs available`, format: amount, whole: true, series: [...expected(forecast, forecast?.spot_gpus),
      { name: "spot", look: "spot", stepped: true, points: past(pool, pool.spot_gpus) }] },
  ];
}

function better(skill) {
  if (skill === null) return "no better";
  const share = Math.abs(skill) < 0.005 ? "0\u00a0%" : percent(Math.abs(skill));
  return skill >= 0 ? `${share} better` : `${share} worse`;
}

// The forecast in words.
export function chances(forecast) {
  const share = (hour) => forecast.spot_share[Math.min(forecast.spot_share.length - 1, Math.round(hour / forecast.slot_hours))];
  return `Chance of any spot: ${[1, 6, 24].map((hour) => `${percent(share(hour))} in ${hour} h`).join(", ")}.`;
}

// How good the forecast is: the same model, tried from past moments.
export function checked(check) {
  const model = "From the model that plans use.";
  if (!check) return `${model} There is too little history to say how good it is.`;
  const row = (skills) => check.hours.map((hour, at) => `${better(skills[at])} ${hours(hour)} ahead`).join(", ");
  return `${model} Its median, tested from ${check.moments} past moments against assuming that nothing changes: prices ${row(check.price_skill)}; GPU counts ${row(check.gpus_skill)}. `
    + `${percent(check.price_inside_share)} of prices and ${percent(check.gpus_inside_share)} of GPU counts were inside the band; 80\u00a0% would be ideal.`;
}
