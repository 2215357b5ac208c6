// What arrives while a page is open: the overview shows it, a board is drawn again, all others say that there is
// something new. A stream is held only while the page is looked at: browsers allow a handful of connections to one
// server.
const LIMIT = 12;
const BOARD_MILLISECONDS = 1000;

const number = (value) => value.toLocaleString("en");

const fill = (row, arrival) => {
  const { commit } = arrival;
  const texts = {
    position: number(commit.position),
    time: commit.timestamp.slice(0, 19).replace("T", " "),
    title: commit.title,
    id: commit.title === commit.entity_id ? "" : commit.entity_id,
    reason: commit.reason ?? "",
    actor: commit.actor,
    initials: arrival.initials,
    kind: arrival.kind ? `, ${arrival.kind}` : "",
  };
  for (const [name, text] of Object.entries(texts)) {
    const at = row.querySelector(`[data-field=${name}]`);
    if (text === "") at.remove();
    else at.textContent = text;
  }
  const id = row.querySelector("[data-field=id]");
  if (id) id.title = commit.entity_id;
  row.querySelector("[data-field=time]").dateTime = commit.timestamp;
  const author = row.querySelector(".actor");
  author.title = commit.actor;
  if (arrival.kind) author.classList.add(arrival.kind);
  row.querySelector("[data-field=position]").href = arrival.moment;
  row.querySelector("[data-field=title]").closest("a").href = arrival.address;
  for (const sign of row.querySelectorAll("[data-sign]")) {
    if (sign.dataset.sign !== commit.sign) sign.remove();
  }
  return row;
};

/** Listens for one drawing of a page; returns what ends that. */
const listen = (bar) => {
  const state = bar.querySelector("[data-state]");
  const dot = bar.querySelector(".live");
  const news = bar.querySelector("[data-news]");
  const position = bar.querySelector("[data-position]");
  const table = document.querySelector("[data-arrivals]");
  const board = document.querySelector("[data-redrawn]");
  const pause = document.querySelector("[data-pause]");
  const first = document.querySelector("[data-first]");
  const place = table ?? board;
  const ending = new AbortController();
  const { signal } = ending;
  let known = Number(bar.dataset.live);
  let unseen = 0;
  let missed = false;
  let paused = false;
  let waiting = [];
  let drawing = null;
  let source = null;

  const say = (words, live) => {
    state.textContent = words;
    dot.hidden = !live;
  };

  const announce = () => {
    news.hidden = !unseen && !missed;
    news.textContent = missed ? "much is new since you looked" : `${number(unseen)} new since you looked`;
  };

  const isFilledIn = () => place.querySelector("details[open] form") !== null;
  const isRead = () => paused || place.matches(":hover") || place.contains(document.activeElement) || isFilledIn();

  const show = () => {
    if (!place || !unseen || isRead()) return;
    if (table) showRows();
    else drawing ??= setTimeout(redraw, BOARD_MILLISECONDS);
  };

  const redraw = () => {
    drawing = null;
    if (!isRead() && !signal.aborted) board.dispatchEvent(new Event("arrived"));
  };

  const showRows = () => {
    const body = table.tBodies[0];
    const template = document.querySelector("#arrival");
    for (const arrival of waiting) body.prepend(fill(template.content.firstElementChild.cloneNode(true), arrival));
    while (body.rows.length > LIMIT) body.lastElementChild.remove();
    waiting = [];
    unseen = 0;
    announce();
  };

  const arrive = (event) => {
    if (first) {
      location.reload();
      return;
    }
    const arrival = JSON.parse(event.data);
    known = arrival.commit.position;
    position.textContent = number(known);
    unseen += 1;
    if (table) waiting = [...waiting, arrival].slice(-LIMIT);
    announce();
    show();
  };

  const open = () => {
    if (source || document.hidden || signal.aborted) return;
    source = new EventSource(`/events?after=${known}`);
    source.addEventListener("open", () => {
      say("now, live", true);
      if (first) first.textContent = first.dataset.first;
    });
    source.addEventListener("commit", arrive);
    source.addEventListener("missed", () => {
      missed = true;
      announce();
    });
    source.addEventListener("error", () => {
      say(`not live since ${new Date().toISOString().slice(11, 19)}`, false);
    });
  };

  const close = () => {
    source?.close();
    source = null;
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()), { signal });
  window.addEventListener("pagehide", close, { signal });
  window.addEventListener("pageshow", open, { signal });
  place?.addEventListener("pointerleave", show, { signal });
  place?.addEventListener("focusout", () => setTimeout(show), { signal });
  if (pause) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.setAttribute("aria-pressed", String(paused));
      show();
    });
  }
  open();
  return () => {
    ending.abort();
    close();
  };
};

let heard = null;
let end = () => {};

const begin = () => {
  const bar = document.querySelector("[data-live]");
  if (bar === heard) return;
  end();
  heard = bar;
  end = bar ? listen(bar) : () => {};
};

begin();
document.addEventListener("redrawn", begin);
