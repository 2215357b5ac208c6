// Plots of what the tables say: each is drawn from the table beside it, in the colours and dashes of its key.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

const HEIGHT = 160;
const DASHES = [[], [6, 4], [2, 3]];
const drawn = [];

const utc = (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC");

const read = (table) => {
  const rows = [...table.tBodies[0].rows];
  const column = (number) =>
    rows.map((row) => (row.cells[number].textContent === "" ? null : Number(row.cells[number].textContent)));
  const times = rows.map((row) => Date.parse(row.querySelector("time").dateTime) / 1000);
  return [times, ...[...table.tHead.rows[0].cells].slice(1).map((_, number) => column(number + 1))];
};

const colour = (element, name = "color") => getComputedStyle(element)[name];

const draw = (section) => {
  const place = section.querySelector(".plot");
  const key = [...section.querySelectorAll(".key li")];
  const data = read(section.querySelector("table"));
  place.hidden = false;
  const show = (plot) => {
    const at = plot.cursor.idx;
    key.forEach((item, number) => {
      const value = at == null ? null : data[number + 1][at];
      item.querySelector("output").textContent = value == null ? "" : value.toLocaleString("en");
    });
  };
  const seconds = Number(section.closest("[data-seconds]").dataset.seconds);
  const quiet = colour(section.querySelector(".count"));
  const axis = { stroke: quiet, grid: { stroke: colour(section, "borderTopColor"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const plot = new uPlot(
    {
      width: place.clientWidth,
      height: HEIGHT,
      tzDate: utc,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, y: false },
      scales: {
        x: { range: (_, low, high) => [high - seconds, high] },
        y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.1] },
      },
      axes: [
        { ...axis, values: (_, moments) => moments.map((each) => utc(each).toTimeString().slice(0, 5)), size: 26, space: 70 },
        { ...axis, size: 48 },
      ],
      series: [
        {},
        ...key.map((item, number) => ({
          stroke: colour(item),
          width: 1.5,
          dash: DASHES[number],
          points: { size: 4, show: data[0].length < 30 },
        })),
      ],
      hooks: { setCursor: [show] },
    },
    data,
    place,
  );
  drawn.push({ plot, place });
};

const drawAll = () => {
  for (const { plot } of drawn.splice(0)) plot.destroy();
  for (const section of document.querySelectorAll("[data-plot]")) draw(section);
};

drawAll();
document.addEventListener("redrawn", drawAll);
window.addEventListener("resize", () => {
  for (const { plot, place } of drawn) plot.setSize({ width: place.clientWidth, height: HEIGHT });
});
for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
  window.matchMedia(query).addEventListener("change", drawAll);
}
