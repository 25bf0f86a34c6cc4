// What the workers of a job print, as they print it.
import { get, jobPath } from "../api.js";
import { el } from "../dom.js";

const WAIT_S = 20, MOST_LINES = 2000, AGAIN_MS = 1000;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

function statusLine(over, lines) {
  if (!lines) return over ? "The job has ended; its workers printed nothing." : "No output yet.";
  return `${over ? "The job has ended." : "New lines appear as they come."} Each line begins with attempt/rank of its worker.`;
}

export function logs(job) {
  const text = el("pre", { class: "log", tabindex: 0, role: "log", "aria-live": "off", "aria-label": `Logs of ${job}` });
  const state = el("p", { class: "soft" }, "No output yet.");
  let next = "", over = false, request = null;

  function add(lines) {
    const low = text.scrollHeight - text.scrollTop - text.clientHeight < 30;
    text.append(...lines.map(({ attempt, rank, line }) =>
      el("span", {}, el("b", {}, `${attempt}/${rank} `), `${line}\n`)));
    while (text.childElementCount > MOST_LINES) text.firstElementChild.remove();
    if (low) text.scrollTop = text.scrollHeight;
  }

  async function run() {
    while (!over && !document.hidden) {
      request = new AbortController();
      try {
        const query = new URLSearchParams({ after: next, wait: WAIT_S, follow: true });
        const found = await get(`${jobPath(job)}/logs?${query}`, { signal: request.signal });
        add(found.lines);
        ({ next, over } = found);
        state.textContent = statusLine(over, text.childElementCount);
      } catch {
        if (!document.hidden) await pause(AGAIN_MS);
      }
    }
    request = null;
  }

  // A hidden page frees its connection for visible ones.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) request?.abort();
    else if (!request) run();
  });
  run();
  return { box: el("div", {}, state, text) };
}
