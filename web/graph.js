// The drawing of a neighbourhood. The one that came with the page is there at once; WebGL, which takes most of a second
// where there is no graphics card, begins when somebody works with it: a click on a node or a button of the table brings
// what is linked to it, and the table grows with it. Who points at an entity in the table is shown where it is drawn.
// Without WebGL the drawing that came with the page stays.
import Graph from "graphology";
import forceAtlas2 from "graphology-layout-forceatlas2";
import Sigma from "sigma";
import { animateNodes } from "sigma/utils";

import { shapesOn } from "./node_shapes.js";

const NODES_MAX = 2000;
const ROUNDS = 120;
/** Between nodes that the drawing of the server has no place for, in its pixels. */
const SPREAD = 60;
const HEIGHT_MIN = 320;

const isCalm = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

const read = async (address) => {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  return (await answer.json()).neighbourhood;
};

const begin = async (place, still, status) => {
  const first = await read(place.dataset.drawing);
  const spots = new Map(first.drawing.places.map(({ node, x, y }) => [node.id, { x, y: -y }]));
  const middle = { x: first.drawing.width / 2, y: -first.drawing.height / 2 };
  const table = document.querySelector("[data-further]");
  const rowTemplate = document.querySelector("#edge-row").content.firstElementChild;
  const graph = new Graph({ multi: true, type: "directed" });
  const grown = new Set();
  // The stylesheet says the colours, in properties that nothing else of this element uses.
  const style = getComputedStyle(place);
  const colours = { node: style.color, edge: style.outlineColor, centre: style.caretColor, inside: style.backgroundColor };
  const inside = colours.inside.match(/[\d.]+/g).slice(0, 3).map((each) => each / 255);

  const addNode = (node, near) => {
    if (graph.hasNode(node.id)) return;
    const angle = graph.order * 2.4;
    const reach = SPREAD * (1 + graph.order / 20);
    graph.addNode(node.id, {
      // Said in words: the shapes of this drawing have outlines of one kind only.
      label: node.state ? `${node.title} (${node.note})` : node.title,
      title: node.title,
      state: node.state,
      kind: node.type,
      address: node.address,
      shape: node.shape,
      type: "shape",
      color: node.hop === 0 && !near ? colours.centre : colours.node,
      size: node.hop === 0 && !near ? 13 : 10,
      x: (near?.x ?? middle.x) + Math.cos(angle) * reach,
      y: (near?.y ?? middle.y) + Math.sin(angle) * reach,
      ...(near ? {} : spots.get(node.id)),
    });
  };

  const addRow = (edge) => {
    const row = rowTemplate.cloneNode(true);
    const [source, relation, target] = row.cells;
    for (const [cell, id] of [[source, edge.source], [target, edge.target]]) {
      const link = cell.querySelector("a");
      link.href = graph.getNodeAttribute(id, "address");
      link.firstElementChild.textContent = graph.getNodeAttribute(id, "title");
      cell.querySelector("[data-grow]").dataset.grow = id;
      const state = graph.getNodeAttribute(id, "state");
      for (const flag of cell.querySelectorAll("[data-state]")) if (flag.dataset.state !== state) flag.remove();
    }
    relation.firstElementChild.textContent = edge.relation;
    table.tBodies[0].append(row);
    table.hidden = false;
    table.querySelector("[data-count]").textContent = table.tBodies[0].rows.length.toLocaleString("en");
  };

  const add = (found, { near, isFirst = false } = {}) => {
    for (const node of found.centre ? [found.centre, ...found.nodes] : found.nodes) if (graph.order < NODES_MAX) addNode(node, near);
    for (const edge of found.edges) {
      const name = JSON.stringify([edge.source, edge.relation, edge.target]);
      if (graph.hasEdge(name) || !graph.hasNode(edge.source) || !graph.hasNode(edge.target)) continue;
      graph.addEdgeWithKey(name, edge.source, edge.target, { label: edge.relation, isDerived: edge.is_derived, type: "arrow", size: 1.5 });
      if (!isFirst) addRow(edge);
    }
  };

  const layout = () => {
    const settings = { ...forceAtlas2.inferSettings(graph), adjustSizes: true, gravity: 1 };
    const places = forceAtlas2(graph, { iterations: ROUNDS, settings });
    if (isCalm()) graph.updateEachNodeAttributes((id, attributes) => ({ ...attributes, ...places[id] }));
    else animateNodes(graph, places, { duration: 300 });
  };

  const say = () => {
    const edges = graph.size === 1 ? "edge" : "edges";
    status.textContent = `${graph.order.toLocaleString("en")} entities, ${graph.size.toLocaleString("en")} ${edges}`;
    place.dataset.nodes = graph.order;
  };

  const grow = async (id) => {
    if (grown.has(id)) return;
    grown.add(id);
    try {
      const query = new URLSearchParams({ around: id, ...(place.dataset.asOf ? { as_of: place.dataset.asOf } : {}) });
      add(await read(`/graph.json?${query}`), { near: graph.getNodeAttributes(id) });
      layout();
      say();
    } catch {
      grown.delete(id);
      status.textContent = "what is linked to it could not be read";
    }
  };

  // As high as what it takes the place of: the table stays where it is.
  place.style.height = `${Math.max(still.offsetHeight, HEIGHT_MIN)}px`;
  place.hidden = false;
  still.hidden = true;
  add(first, { isFirst: true });
  const sigma = new Sigma(graph, place, {
    nodeProgramClasses: { shape: shapesOn(inside) },
    defaultEdgeColor: colours.edge,
    defaultNodeType: "shape",
    renderEdgeLabels: graph.size <= 40,
    labelColor: { color: colours.node },
    edgeLabelColor: { color: colours.node },
    labelFont: style.fontFamily,
    labelSize: 12,
    edgeLabelSize: 11,
    labelRenderedSizeThreshold: graph.order > 60 ? 9 : 0,
    stagePadding: 60,
    zIndex: true,
    // Where a window is made too small, or printed, there may be no room for a moment.
    allowInvalidContainer: true,
  });
  const mark = place.appendChild(Object.assign(document.createElement("span"), { className: "mark", hidden: true }));
  let marked = null;
  const placeMark = () => {
    mark.hidden = marked === null;
    if (marked === null) return;
    const { x, y } = sigma.graphToViewport(graph.getNodeAttributes(marked));
    Object.assign(mark.style, { left: `${x}px`, top: `${y}px` });
  };

  // Those that came with the page stay where they were.
  if (graph.order > spots.size) layout();
  say();
  sigma.on("afterRender", placeMark);
  let clicked = null;
  sigma.on("clickStage", () => (clicked = null));
  sigma.on("clickNode", ({ node }) => {
    clicked = node;
    grow(node);
  });
  sigma.on("doubleClickNode", ({ node, preventSigmaDefault }) => {
    preventSigmaDefault();
    // Sigma calls any two quick clicks a double click, also those on different nodes.
    if (node === clicked) window.location.assign(graph.getNodeAttribute(node, "address"));
    else grow(node);
    clicked = node;
  });
  const camera = sigma.getCamera();
  const moves = {
    in: () => camera.animatedZoom({ duration: isCalm() ? 0 : 200 }),
    out: () => camera.animatedUnzoom({ duration: isCalm() ? 0 : 200 }),
    fit: () => camera.animatedReset({ duration: isCalm() ? 0 : 200 }),
    svg: () => save(new Blob([svgOf(graph, colours)], { type: "image/svg+xml" }), "graph.svg"),
    png: () => pngOf(graph, colours),
  };
  sigma.once("afterRender", () => (place.dataset.drawn = ""));
  sigma.refresh();
  return {
    grow,
    act: (name) => moves[name](),
    open: (id) => window.location.assign(graph.getNodeAttribute(id, "address")),
    point: (id) => {
      marked = graph.hasNode(id) ? id : null;
      placeMark();
    },
  };
};

const SECOND_CLICK_MS = 250;

/** What the page does with its drawing; WebGL begins with the first of it. */
const listen = (place) => {
  const still = document.querySelector("[data-still]");
  const edges = document.querySelector("[data-edges]");
  const status = document.querySelector("[data-status]");
  const newRow = document.querySelector("#edge-row").content;
  let drawing = null;
  let hasFailed = false;
  let waiting;

  const withDrawing = async (work) => {
    drawing ??= begin(place, still, status);
    try {
      await work(await drawing);
    } catch {
      [drawing, hasFailed, place.hidden, still.hidden] = [null, true, true, false];
      place.replaceChildren();
      status.textContent = "more cannot be drawn here: the links of drawing and table lead on";
    }
  };
  const idAt = (element) => element?.closest("[data-edges] td")?.querySelector("[data-grow]")?.dataset.grow ?? null;
  const mark = (id) => {
    for (const each of still.querySelectorAll("[data-node]")) each.toggleAttribute("data-marked", each.dataset.node === id);
    drawing?.then(({ point }) => point(id)).catch(() => {});
  };

  for (const from of [document, newRow]) for (const each of from.querySelectorAll("[data-act], [data-grow], [data-hint]")) each.hidden = false;
  for (const button of document.querySelectorAll("[data-act]"))
    button.addEventListener("click", () => withDrawing(({ act }) => act(button.dataset.act)));
  edges.addEventListener("click", (event) => {
    const button = event.target.closest("[data-grow]");
    if (button) withDrawing(({ grow }) => grow(button.dataset.grow));
  });
  for (const type of ["focusin", "mouseover"]) edges.addEventListener(type, (event) => mark(idAt(event.target)));
  // Who leaves with the pointer may still be there with the keyboard.
  edges.addEventListener("focusout", (event) => mark(idAt(event.relatedTarget)));
  edges.addEventListener("mouseleave", () => mark(idAt(document.activeElement)));
  still.addEventListener("click", (event) => {
    const node = event.target.closest("[data-node]");
    // The keyboard (no detail) and clicks for another window follow the link.
    if (!node || hasFailed || !event.detail || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    clearTimeout(waiting);
    const id = node.dataset.node;
    // The drawing by WebGL, once there, would take the second of two clicks.
    if (event.detail > 1) withDrawing(({ open }) => open(id));
    else waiting = setTimeout(() => withDrawing(({ grow }) => grow(id)), SECOND_CLICK_MS);
  });
};

const escaped = (text) => text.replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);

const OUTLINES = {
  circle: '<circle r="9"/>',
  square: '<rect x="-8" y="-8" width="16" height="16" rx="2"/>',
  diamond: '<path d="M0-11 11 0 0 11-11 0z"/>',
  triangle: '<path d="M0-11 10 8h-20z"/>',
  hexagon: '<path d="M0-10 9-5V5L0 10-9 5V-5z"/>',
  page: '<path d="M-7-10H3l4 4v16H-7z"/>',
};

const svgOf = (graph, colours) => {
  const spots = graph.mapNodes((id, { x, y }) => [x, y]);
  const [xs, ys] = [0, 1].map((axis) => spots.map((spot) => spot[axis]));
  const [left, top] = [Math.min(...xs), Math.max(...ys)];
  const scale = Math.sqrt(graph.order) * 110 / Math.max(Math.max(...xs) - left, top - Math.min(...ys), 0.001);
  const at = ({ x, y }) => [(100 + (x - left) * scale).toFixed(1), (60 + (top - y) * scale).toFixed(1)];
  const width = Math.ceil(320 + (Math.max(...xs) - left) * scale);
  const height = Math.ceil(120 + (top - Math.min(...ys)) * scale);
  const lines = graph.mapEdges((edge, { label, isDerived }, source, target, from, to) => {
    const [x1, y1, x2, y2] = [...at(from), ...at(to)];
    return `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" marker-end="url(#tip)"${isDerived ? ' stroke-dasharray="5 4"' : ""}><title>${escaped(label)}</title></line>`;
  });
  const nodes = graph.mapNodes((id, node) => {
    const [x, y] = at(node);
    const shape = OUTLINES[node.shape];
    return `<g transform="translate(${x} ${y})" fill="${colours.inside}" stroke="${node.color}" stroke-width="2">${shape}<text x="15" y="4" stroke="none" fill="${colours.node}">${escaped(node.label)}</text></g>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12"><defs><marker id="tip" viewBox="0 0 8 8" refX="17" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="${colours.edge}"/></marker></defs><rect width="100%" height="100%" fill="${colours.inside}"/><g stroke="${colours.edge}">${lines.join("")}</g>${nodes.join("")}</svg>\n`;
};

const pngOf = (graph, colours) => {
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(blob, "graph.png"));
  };
  image.src = `data:image/svg+xml,${encodeURIComponent(svgOf(graph, colours))}`;
};

const save = (blob, name) => {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
};

const place = document.querySelector("[data-drawing]");
if (place && window.WebGL2RenderingContext) listen(place);
