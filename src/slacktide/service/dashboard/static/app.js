// The entry point of every page: shows who is logged in, and loads the module that fills the page.
import { ask, complain, get, toLogin } from "./api.js";
import { el } from "./dom.js";

async function who() {
  const me = await get("/api/v1/session");
  if (me.role === null) toLogin();
  const leave = async () => {
    try {
      await ask("DELETE", "/api/v1/session");
      location.assign("/login");
    } catch (error) { complain(error); }
  };
  document.getElementById("who").replaceChildren(
    el("span", { class: "soft" }, `${me.name} (${me.role}) `), el("button", { type: "button", click: leave }, "Log out"));
  return me;
}

const name = document.body.dataset.page;
const page = await import(`./pages/${name}.js`);
try {
  await page.show(document.getElementById("main"), name === "login" ? null : await who());
} catch (error) {
  complain(error);
}
