// What is rented.
import { get } from "./api.js";
import { el, facts, rows, table } from "./dom.js";
import { follow } from "./live.js";
import { hours, usd, utc } from "./words.js";

const COLUMNS = [
  { name: "machine" }, { name: "state" }, { name: "kind" }, { name: "pool" }, { name: "GPUs", right: true }, { name: "since" },
  { name: "time", right: true }, { name: "an hour", right: true }, { name: "so far", right: true }, { name: "address" }, { name: "note" },
];

function cells(one) {
  return [one.machine || one.ticket, one.orphan ? `${one.state}, nobody’s` : one.state, one.capacity, one.pool, String(one.gpus),
    utc(one.since_utc), hours(one.hours), usd(one.usd_per_hour), usd(one.cost_usd), one.address || "–", one.why || ""];
}

export async function show(main) {
  const shown = table("Machines", COLUMNS), top = el("dl", { class: "facts" });
  main.append(el("h1", {}, "Machines"), top, shown.box);
  shown.box.classList.add("cards");
  follow(async () => {
    const [{ machines }, journal] = await Promise.all([get("/api/v1/machines"), get("/api/v1/journal")]);
    const sum = (of) => machines.reduce((total, one) => total + (of(one) ?? 0), 0);
    top.replaceChildren(...facts([
      ["rented", String(machines.length)], ["GPUs", String(sum((one) => one.gpus))],
      ["an hour", usd(sum((one) => one.usd_per_hour))], ["nobody’s", String(machines.filter((one) => one.orphan).length), "machines that no ticket knows"],
      ["workers run on", journal.backend],
    ]));
    rows(shown, machines, (one) => `${one.ticket} ${one.machine}`, cells,
      "Nothing is rented. Without a machines file the workers run where the controller runs.");
  });
}
