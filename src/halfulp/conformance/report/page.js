"use strict";
// The tables and findings are in the page; this draws the pictures from the numbers and applies the filters.
const data = JSON.parse(document.getElementById("data").textContent);
const BUCKETS = ["0", "1", "2", "–4", "–8", "–16", "–32", "–64", "–128", "more"];
const SHORT = { padding: "pad", infinity: "inf", adjoint: "adj", reproducible: "repro" };
const keys = ["subject", "operator", "mode", "dtype", "aspect", "severity"];
const inputs = Object.fromEntries(keys.map((key) => [key, document.getElementById(`filter-${key}`)]));
const search = document.getElementById("filter-text");

function element(name, attributes = {}, children = []) {
  const svg = ["svg", "rect", "line", "text", "title", "g"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  for (const child of [].concat(children)) made.append(child);
  return made;
}

function chosen() {
  return Object.fromEntries(keys.map((key) => [key, inputs[key].value]));
}

function cellsOf(subject, filter, operator) {
  return subject.cells.filter(
    (cell) =>
      cell.operator === operator &&
      (!filter.mode || cell.mode === filter.mode) &&
      (!filter.dtype || cell.dtype === filter.dtype),
  );
}

function shownSubjects(filter) {
  return data.subjects.filter((subject) => !filter.subject || subject.name === filter.subject);
}

function shownOperators(filter) {
  return data.operators.filter((operator) => !filter.operator || operator === filter.operator);
}

function percent(share) {
  if (share === 0) return ["✓"];
  const number = share < 0.01 ? "<1" : String(share >= 0.995 ? 100 : Math.round(share * 100));
  return [number, element("span", { class: "unit" }, " %")];
}

function heatCell(cells, aspect) {
  let tested = 0;
  let failed = 0;
  for (const cell of cells) {
    const counts = cell.aspects[aspect];
    if (counts) [tested, failed] = [tested + counts[0], failed + counts[1]];
  }
  if (!tested) return element("td", { "aria-label": "not tested" });
  const share = failed / tested;
  // A few failures among thousands must be visible, so the colour follows the square root and never starts at nothing.
  const strength = failed ? Math.round(20 + 70 * Math.sqrt(share)) : 0;
  const style = `background: color-mix(in oklab, var(--bad) ${strength}%, var(--good))`;
  const title = `${failed} of ${tested} cases fail`;
  return element("td", { class: "tested", style, title, "data-failed": failed }, percent(share));
}

function drawHeat(filter) {
  const aspects = Object.keys(data.aspects).filter((aspect) => !filter.aspect || aspect === filter.aspect);
  const tables = shownSubjects(filter).map((subject) => {
    const head = element("tr", {}, [
      element("th"),
      ...aspects.map((aspect) => element("th", { scope: "col", title: data.aspects[aspect] }, SHORT[aspect] || aspect)),
    ]);
    const rows = shownOperators(filter).map((operator) =>
      element("tr", { "data-operator": operator }, [
        element("th", { scope: "row" }, operator),
        ...aspects.map((aspect) => heatCell(cellsOf(subject, filter, operator), aspect)),
      ]),
    );
    return element("div", { "data-subject": subject.name }, [
      element("h3", {}, `${subject.name} ${subject.version}`),
      element("table", { class: "heat" }, [element("thead", {}, head), element("tbody", {}, rows)]),
    ]);
  });
  document.getElementById("heat").replaceChildren(...tables);
}

function histogramOf(subject, filter, operator) {
  const total = new Array(BUCKETS.length).fill(0);
  for (const cell of cellsOf(subject, filter, operator)) cell.histogram.forEach((count, i) => (total[i] += count));
  return total;
}

function drawHistogram(filter, operator) {
  const [width, height, left, bottom, top] = [360, 150, 34, 18, 8];
  const subjects = shownSubjects(filter);
  const all = subjects.map((subject) => histogramOf(subject, filter, operator));
  const largest = Math.max(10, ...all.flat());
  const decades = Math.ceil(Math.log10(largest));
  const y = (count) => height - bottom - (count ? (Math.log10(count) + 0.3) / (decades + 0.3) : 0) * (height - bottom - top);
  const picture = element("svg", { class: "histogram", viewBox: `0 0 ${width} ${height}`, role: "img" });
  picture.setAttribute("aria-label", `errors of ${operator} in ulps`);
  for (let decade = 0; decade <= decades; decade += decades > 4 ? 2 : 1) {
    const at = y(10 ** decade);
    picture.append(element("line", { x1: left, x2: width, y1: at, y2: at }));
    const label = decade > 3 ? `10^${decade}` : String(10 ** decade);
    picture.append(element("text", { x: left - 4, y: at + 3, "text-anchor": "end" }, label));
  }
  const slot = (width - left) / BUCKETS.length;
  const bar = (slot - 6) / Math.max(1, subjects.length);
  BUCKETS.forEach((name, i) => {
    picture.append(
      element("text", { x: left + slot * (i + 0.5), y: height - 5, "text-anchor": "middle" }, name),
    );
    subjects.forEach((subject, s) => {
      const count = all[s][i];
      if (!count) return;
      const shape = { x: left + slot * i + 3 + bar * s, y: y(count), width: Math.max(1, bar - 1), rx: 1 };
      const style = `fill: var(--series-${(data.subjects.indexOf(subject) % 5) + 1})`;
      const title = element("title", {}, `${subject.name}: ${count} elements, ${name} ulps`);
      picture.append(element("rect", { ...shape, height: height - bottom - y(count), style }, title));
    });
  });
  return element("div", { "data-operator": operator }, [element("h3", {}, operator), picture]);
}

function drawHistograms(filter) {
  const measured = (operator) => data.subjects.some((s) => histogramOf(s, filter, operator).some((count) => count));
  const panels = shownOperators(filter).filter(measured).map((operator) => drawHistogram(filter, operator));
  document.getElementById("histograms").replaceChildren(...panels);
  const legend = shownSubjects(filter).map((subject) => {
    const style = `background: var(--series-${(data.subjects.indexOf(subject) % 5) + 1})`;
    return element("span", {}, [element("i", { style }), subject.name]);
  });
  document.getElementById("legend").replaceChildren(...legend);
}

// An element is hidden if it says something about a key that is filtered for and does not hold the wanted value.
function fits(node, filter) {
  return keys.every((key) => !filter[key] || !(key in node.dataset) || node.dataset[key].split(" ").includes(filter[key]));
}

function applyFilters() {
  const filter = chosen();
  const words = search.value.trim().toLowerCase();
  drawHeat(filter);
  drawHistograms(filter);
  for (const node of document.querySelectorAll("main [data-subject], main [data-operator]")) {
    if (!node.closest("#heat, #histograms")) node.hidden = !fits(node, filter);
  }
  for (const node of document.querySelectorAll(".finding")) {
    node.hidden = !fits(node, filter) || (words !== "" && !node.textContent.toLowerCase().includes(words));
  }
  for (const section of document.querySelectorAll(".findings")) {
    const all = section.querySelectorAll(".finding");
    const left = [...all].filter((node) => !node.hidden).length;
    section.querySelector(".count").textContent = all.length ? `${left} of ${all.length}` : "";
  }
}

for (const input of Object.values(inputs)) input.addEventListener("change", applyFilters);
search.addEventListener("input", applyFilters);
document.getElementById("filter-clear").addEventListener("click", () => {
  for (const input of Object.values(inputs)) input.value = "";
  search.value = "";
  applyFilters();
});
document.addEventListener("click", async (event) => {
  if (!event.target.matches(".copy")) return;
  const text = event.target.nextElementSibling.textContent;
  try {
    await navigator.clipboard.writeText(text);
    event.target.textContent = "copied";
  } catch {
    getSelection().selectAllChildren(event.target.nextElementSibling); // without the right to copy: select it
    event.target.textContent = "selected";
  }
});
// On paper nothing can be opened.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((node) => (node.open = true)));
applyFilters();
