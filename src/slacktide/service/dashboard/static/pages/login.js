// The login: a token becomes a session, whose cookie scripts cannot read.
import { ask, complain, forgive, get } from "../api.js";
import { el } from "../dom.js";

// Returns the page to open after the login: never one of another server.
function wanted() {
  const next = new URL(new URLSearchParams(location.search).get("next") ?? "/", location.origin);
  return next.origin === location.origin && next.pathname !== "/login" ? next.pathname + next.search : "/";
}

// Tells a user who was logged in before why this page is shown again.
function reason() {
  const ended = new URLSearchParams(location.search).has("ended");
  return ended ? el("p", { id: "ended" }, "Your session has ended: it expired, you logged out elsewhere, or the token was revoked.") : null;
}

export async function show(main) {
  const token = el("input", { id: "token", type: "password", name: "token", autocomplete: "current-password",
    required: true, spellcheck: "false", placeholder: "name:secret" });
  const enter = async (event) => {
    event.preventDefault();
    try {
      await ask("POST", "/api/v1/session", { body: { token: token.value.trim() } });
      forgive();
      location.assign(wanted());
    } catch (error) {
      complain(error);
      token.select();
    }
  };
  main.append(el("form", { class: "card narrow", submit: enter },
    el("input", { type: "text", autocomplete: "username", hidden: true, value: "token" }),
    el("h1", {}, "Log in"), reason(),
    el("p", {}, el("label", { for: "token" }, "Token")), token,
    el("p", { class: "soft" }, "Ask the operator of this server for one: ", el("code", {}, "slacktide token add NAME"), " makes it."),
    el("p", {}, el("button", { class: "main" }, "Log in"))));
  token.focus();
  if ((await get("/api/v1/session")).role !== null) location.replace(wanted());
}
