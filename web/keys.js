// Keys for who stays all day. Each does what a control of the page does that can be seen, and clicks that.
"use strict";
const PAGES = { o: "/", s: "/search", g: "/graph", w: "/work", k: "/knowledge", a: "/audit", p: "/policy" };
const CHORD_MILLISECONDS = 1500;
let chord = 0;

const click = (selector) => {
  const found = document.querySelector(selector);
  found?.click();
  return found !== null;
};

const search = () => {
  const box = document.querySelector("#q");
  if (!box) return click('.pages a[href="/search"]');
  box.focus();
  box.select();
  return true;
};

// The rows of a page, by what each leads to.
const move = (by) => {
  const rows = [...document.querySelectorAll("main tbody tr, main .list > li, main .tasks > li")];
  const links = rows.map((row) => row.querySelector("a[href]")).filter((link) => link?.checkVisibility());
  if (!links.length) return false;
  const row = document.activeElement?.closest("tr, li");
  const at = links.findIndex((link) => link.closest("tr, li") === row);
  links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + by, 0), links.length - 1)].focus();
  return true;
};

const KEYS = {
  "/": search,
  "[": () => click('a[rel="prev"]'),
  "]": () => click('a[rel="next"]'),
  j: () => move(1),
  k: () => move(-1),
  "?": () => click("[popovertarget=keys]"),
  Escape: () => click("[data-now]"),
};

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  if (event.key === "Escape" && document.querySelector("#keys:popover-open")) return;
  const isChord = event.timeStamp - chord < CHORD_MILLISECONDS && chord > 0;
  chord = !isChord && event.key === "g" ? event.timeStamp : 0;
  const done = isChord ? click(`.pages a[href="${PAGES[event.key]}"]`) : KEYS[event.key]?.();
  if (done || chord) event.preventDefault();
});

const reveal = () => {
  for (const button of document.querySelectorAll("[data-copy], [popovertarget=keys]")) button.hidden = false;
};
reveal();
document.addEventListener("htmx:afterSettle", reveal);
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const from = document.getElementById(button.dataset.copy);
  await navigator.clipboard.writeText(from.value ?? from.textContent);
  button.textContent = "Copied";
});
