// Links and forms that narrow what a page shows, or move it in time, change it in place; without scripts they lead to
// the same page. htmx does it, with nothing that evaluates text, and nothing of a page kept in the browser's storage.
import htmx from "htmx.org";

Object.assign(htmx.config, {
  allowEval: false,
  allowScriptTags: false,
  includeIndicatorStyles: false,
  selfRequestsOnly: true,
  scrollIntoViewOnBoost: false,
  historyCacheSize: 0,
  responseHandling: [{ code: ".*", swap: true }],
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
});

document.addEventListener("htmx:beforeRequest", () => {
  document.querySelector("#content").setAttribute("aria-busy", "true");
});
document.addEventListener("htmx:afterRequest", () => {
  document.querySelector("#content")?.removeAttribute("aria-busy");
});

let hadFocus = false;

document.addEventListener("htmx:beforeSwap", (event) => {
  hadFocus = event.target.contains(document.activeElement);
});

document.addEventListener("htmx:afterSettle", () => {
  // What was clicked is gone with the old drawing: who goes on by keyboard goes on from the new one.
  if (hadFocus && document.activeElement === document.body) {
    document.querySelector("#main")?.focus({ preventScroll: true });
  }
  document.dispatchEvent(new Event("redrawn"));
});
document.addEventListener("htmx:historyRestore", () => document.dispatchEvent(new Event("redrawn")));
