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

// A slider that has a list of values goes from one to the next by arrow keys; those pressed while a page is on its way
// count when it is there.
const SLIDER = "input[type=range][list]";
const BY_KEY = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };
let waiting = 0;
// Until the new page is settled its forms are not yet those of htmx.
let isOnItsWay = false;
const isThere = () => {
  isOnItsWay = false;
};
document.addEventListener("htmx:beforeRequest", () => {
  isOnItsWay = true;
});
for (const failure of ["htmx:sendError", "htmx:sendAbort", "htmx:timeout"]) document.addEventListener(failure, isThere);

const say = () => {
  for (const slider of document.querySelectorAll(SLIDER)) {
    slider.ariaValueText = [...slider.list.options].find((each) => each.value === slider.value)?.label ?? null;
  }
};

const slide = (slider, by) => {
  const stops = [...slider.list.options].map((each) => Number(each.value));
  let value = Number(slider.value);
  for (let left = Math.abs(by); left > 0; left -= 1) {
    value = (by > 0 ? stops.find((each) => each > value) : stops.findLast((each) => each < value)) ?? value;
  }
  if (value === Number(slider.value)) return;
  slider.value = value;
  say();
  slider.dispatchEvent(new Event("change", { bubbles: true }));
};

say();
document.addEventListener("htmx:afterSettle", () => {
  isThere();
  say();
  const slider = document.querySelector(SLIDER);
  if (slider && waiting) slide(slider, waiting);
  waiting = 0;
});

document.addEventListener("keydown", (event) => {
  const by = BY_KEY[event.key];
  if (!by || !event.target.matches(SLIDER)) return;
  event.preventDefault();
  if (isOnItsWay) waiting += by;
  else slide(event.target, by);
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
