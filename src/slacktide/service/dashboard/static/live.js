// Keeps a page current with one stream of events, which continues where it broke off, even if the server restarts.
import { complain, forgive, get, Refusal, toLogin } from "./api.js";

const CALM_MS = 400, AGAIN_MS = 1000, SESSION_MS = 60000;

function say(word) {
  const sign = { live: "●", reconnecting: "○", paused: "○" }[word];
  const shown = document.getElementById("live");
  shown.dataset.state = word;
  shown.textContent = `${sign} ${word}${word === "reconnecting" ? "…" : ""}`;
}

// Calls `refresh` now, after events, and every time the stream is connected again.
export function follow(refresh, job = null) {
  let stream = null, last = null, due = 0, busy = false, missed = false, refused = false;

  async function run() {
    if (busy) { missed = true; return; }
    busy = true;
    try {
      await refresh();
      if (refused) forgive(); // only clears a message of this function, none about a user's own action
      refused = false;
    } catch (error) {
      if (error instanceof Refusal) complain(error); // if the server does not answer, the header shows that
      refused ||= error instanceof Refusal;
    }
    busy = false;
    if (missed) { missed = false; soon(); }
  }

  function soon() {
    due ||= setTimeout(() => { due = 0; run(); }, CALM_MS);
  }

  function open() {
    const query = new URLSearchParams({ ...(job ? { job } : {}), ...(last ? { after: last } : {}) });
    stream = new EventSource(`/api/v1/events?${query}`);
    stream.onopen = () => { say("live"); run(); };
    stream.onmessage = (event) => { last = event.lastEventId; soon(); };
    stream.onerror = broken;
  }

  // A browser reconnects by itself, with Last-Event-ID, unless the server answered with an error.
  function broken() {
    say("reconnecting");
    if (stream.readyState !== EventSource.CLOSED) return;
    stream = null;
    setTimeout(async () => {
      await checked();
      if (!stream && !document.hidden) open();
    }, AGAIN_MS);
  }

  async function checked() {
    try {
      if ((await get("/api/v1/session")).role === null) toLogin();
    } catch { /* the server is not back yet */ }
  }

  // A browser has six connections to a server: hidden pages free theirs for visible ones.
  function looked() {
    if (document.hidden) {
      stream?.close();
      stream = null;
      say("paused");
    } else if (!stream) open();
  }

  document.addEventListener("visibilitychange", looked);
  setInterval(checked, SESSION_MS);
  looked();
  run();
}
