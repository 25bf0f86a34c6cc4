// A job file, its plan, and its submission.
import { ask, complain, forgive, jobPath } from "../api.js";
import { el } from "../dom.js";
import { plan } from "./plan.js";

const START = `name: my-job
run: python train.py
resources:
  accelerators: H100:1..8
work: 40 gpu-hours +-30%
deadline: 12h
restart: 4m
checkpoint: {dir: ckpt, every: 10m, grace: 30s}
`;

// Lines of NAME=VALUE as an object.
export function pairs(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf("=");
    return at < 0 ? [line.trim(), ""] : [line.slice(0, at).trim(), line.slice(at + 1)];
  }));
}

function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function sent(file) {
  const digest = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
  const name = [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  await ask("PUT", `/api/v1/uploads/${name}`, { body: file });
  return name;
}

function field(id, name, input, note) {
  return el("div", { class: "field" }, el("label", { for: id }, name), input, note ? el("small", {}, note) : null);
}

function inputs() {
  const area = (id, rows, more = {}) => el("textarea", { id, rows, spellcheck: "false", autocomplete: "off", ...more });
  const text = area("text", 14, { required: true });
  text.value = START;
  return { text, envs: area("envs", 2), secrets: area("secrets", 2),
    kind: el("input", { id: "kind", autocomplete: "off" }), folder: el("input", { id: "folder", type: "file", accept: ".zip" }) };
}

// Returns the same key while the content is the same, so that pressing the button twice submits one job.
function keys() {
  let key = newKey(), of = null;
  return (body) => {
    const content = JSON.stringify(body);
    if (of !== null && content !== of) key = newKey();
    of = content;
    return key;
  };
}

export async function show(main, me) {
  const given = inputs(), found = el("section", { "aria-live": "polite" }), keyOf = keys();
  const planning = el("button", { type: "button" }, "Plan"), submit = el("button", { class: "main" }, "Submit");
  const may = me.role === "submit";
  submit.disabled = !may;

  async function during(button, word, doing) {
    const said = button.textContent, before = [planning.disabled, submit.disabled];
    [planning.disabled, submit.disabled, button.textContent] = [true, true, word];
    try {
      forgive();
      await doing();
    } catch (error) {
      complain(error);
      document.getElementById("problem").scrollIntoView({ block: "nearest" });
    }
    [planning.disabled, submit.disabled] = before;
    button.textContent = said;
  }

  planning.addEventListener("click", () => during(planning, "Planning…", async () => {
    found.replaceChildren(); // the plan of another job file would be misleading
    found.replaceChildren(...plan(await ask("POST", "/api/v1/plan", { body: { text: given.text.value } })));
  }));

  const hand = (event) => {
    event.preventDefault();
    during(submit, "Submitting…", async () => {
      const file = given.folder.files[0], body = { text: given.text.value, envs: pairs(given.envs.value), secrets: pairs(given.secrets.value),
        job_class: given.kind.value.trim(), ...(file ? { workdir: await sent(file) } : {}) };
      const key = keyOf(body);
      let answer = await ask("POST", "/api/v1/jobs", { body, headers: { "idempotency-key": key } });
      while (!answer.job) answer = await ask("GET", `/api/v1/requests/${key}?wait=20`);
      location.assign(jobPath(answer.job).replace("/api/v1", ""));
    });
  };

  main.append(el("h1", {}, "Plan and submit a job"),
    el("form", { submit: hand }, field("text", "Job file (YAML)", given.text),
      el("details", {}, el("summary", {}, "Class, variables, secrets, files"),
        field("kind", "Class", given.kind, "a class of the server’s fleet; leave empty for any other job"),
        field("envs", "Environment variables", given.envs, "NAME=value, one per line; for variables that the file names without a value"),
        field("secrets", "Secrets", given.secrets, "NAME=value, one per line; kept in private files until the job has ended"),
        field("folder", "Working folder", given.folder, "a zip file; leave empty if the job needs no files")),
      el("p", { class: "tools" }, planning, submit,
        el("span", { class: "soft" }, may ? "A plan spends nothing." : "A plan spends nothing. This token is read-only: it cannot submit."))),
    found);
}
