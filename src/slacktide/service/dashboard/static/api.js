// Sends requests to the server that this page came from. If the session has expired, the login page opens.
export class Refusal extends Error {
  constructor(status, body) {
    super(body?.error?.message ?? `the server answered ${status}`);
    this.status = status;
  }
}

export function toLogin() {
  const here = location.pathname + location.search;
  if (location.pathname !== "/login") location.assign(`/login?ended&next=${encodeURIComponent(here)}`);
}

export async function ask(method, path, { body, headers = {}, signal } = {}) {
  const sent = body === undefined || body instanceof Blob ? body : JSON.stringify(body);
  const answer = await fetch(path, { method, body: sent, headers, signal, credentials: "same-origin" });
  const text = await answer.text();
  const found = text ? JSON.parse(text) : null;
  if (answer.status === 401 && location.pathname !== "/login") {
    toLogin();
    await new Promise(() => {}); // the page is being left
  }
  if (!answer.ok) throw new Refusal(answer.status, found);
  return found;
}

export const get = (path, options) => ask("GET", path, options);
export const jobPath = (job) => `/api/v1/jobs/${encodeURIComponent(job)}`;

const AWAY = "The server does not answer. Check that it is running, then try again.";
const alert = () => document.getElementById("problem");

// Shows what went wrong with something that the user requested.
export function complain(error) {
  alert().textContent = error instanceof Refusal ? error.message : AWAY;
  alert().hidden = false;
}

export function forgive() {
  alert().hidden = true;
}
