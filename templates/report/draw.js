// Building blocks of charts and tables: elements, scales, and quantities in words.
"use strict";
const report = JSON.parse(document.getElementById("hsched").textContent);
const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "8 3", "2 3", "9 3 2 3", "1 3", "14 4", "5 2 1 2 1 2"];
const colour = (number) => `var(--c${number % 7})`;

/** Returns an element; texts become text nodes, never markup. */
function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Returns an element of a picture. */
function shape(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** Returns a duration in at most two units, as hsched prints it. */
function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const size = Math.abs(seconds), sign = seconds < 0 ? "−" : "";
  if (size < 9.995) return `${sign}${+size.toFixed(2)} s`;
  if (size < 599.95) return `${sign}${size.toFixed(1)} s`;
  const whole = Math.round(size), two = (value) => String(Math.floor(value)).padStart(2, "0");
  if (whole >= 86400) return `${sign}${Math.floor(whole / 86400)} d ${two((whole / 3600) % 24)} h`;
  return whole >= 3600 ? `${sign}${Math.floor(whole / 3600)} h ${two((whole / 60) % 60)} min` : `${sign}${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
}

/** Returns an estimated duration in words, without seconds from 10 min on. */
const estimated = (seconds) => (seconds >= 599.95 ? duration(Math.round(seconds / 60) * 60).replace(/ 00 s$/, "") : duration(seconds));

const number = (value, digits = 3) =>
  value === null || value === undefined ? "–" : String(+value.toPrecision(digits));
const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** Returns a name with at most `most` characters. A longer name loses its middle, because related names differ at their ends. */
function shortened(name, most) {
  if (name.length <= most) return name;
  const head = Math.floor(most / 3);
  return `${name.slice(0, head)}…${name.slice(name.length - Math.max(most - head - 1, 1))}`;
}

/** Returns a time of the report in words: a date, or the time since the beginning. */
function moment(seconds) {
  if (report.clock !== "unix") return duration(seconds);
  return new Date(seconds * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

/** Returns about `count` round values from `low` to `high`; only whole numbers if `isWhole`. */
function roundTicks(low, high, count, isWhole) {
  const rough = Math.max((high - low) / Math.max(count, 1), isWhole ? 1 : 0);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((part) => part * power).find((own) => own >= rough * 0.999);
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + 1e-9 * step; at += step) ticks.push(+at.toPrecision(12));
  return ticks;
}

const STEPS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 259200, 432000, 604800, 1209600, 2592000, 7776000, 31536000];

/** Returns times for an axis, each with its text: moments by the report's clock, or lengths of time. */
function timeTicks(low, high, count, isLength) {
  const rough = (high - low) / Math.max(count, 1);
  const step = STEPS.find((own) => own >= rough) ?? 31536000 * Math.ceil(rough / 31536000);
  const unix = report.clock === "unix" && !isLength;
  const shift = unix ? -new Date(low * 1000).getTimezoneOffset() * 60 : 0;
  const ticks = [];
  for (let at = Math.ceil((low + shift) / step) * step - shift; at <= high; at += step) {
    ticks.push([at, unix ? dateText(at, step) : plain(at, step)]);
  }
  return ticks;
}

function dateText(at, step) {
  const date = new Date(at * 1000);
  const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: step < 60 ? "2-digit" : undefined });
  return step < 86400 && !/^00:00(:00)?$/.test(time) ? time : date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}

/** Returns a length of time in the largest unit that is not longer than a step. */
function plain(at, step) {
  if (at === 0) return "0";
  if (step >= 86400) return `${+(at / 86400).toFixed(1)} d`;
  if (step >= 3600) return `${+(at / 3600).toFixed(1)} h`;
  return step >= 60 ? `${+(at / 60).toFixed(1)} min` : `${+at.toPrecision(3)} s`;
}

/** Adds a section with a heading to the page, and returns it. */
function section(title, ...notes) {
  const id = title.toLowerCase().replace(/[^a-z]+/g, "-");
  const own = element("section", { "aria-labelledby": id }, element("h2", { id }, title));
  for (const note of notes) if (note) own.append(element("p", { class: "note" }, note));
  document.getElementById("main").append(own);
  return own;
}

/** Returns a table below its caption, in a box that scrolls; a column is `[heading, of(row), isText]`, `mark` names the class of a row. */
function table(caption, columns, rows, mark = () => null) {
  const head = columns.map(([heading, , text]) => element("th", { scope: "col", class: text ? "text" : null }, heading));
  const line = (row) => element("tr", { class: mark(row) }, ...columns.map(([, of, text], place) => place === 0
    ? element("th", { scope: "row", class: text ? "text" : null }, String(of(row)))
    : element("td", { class: text ? "text" : null }, String(of(row)))));
  return scrolled(caption, element("tr", {}, ...head), element("tbody", {}, ...rows.map(line)));
}

/** Returns a table of these parts below its caption, in a box that scrolls if the table is wider than the page. */
function scrolled(caption, head, body) {
  const own = element("table", { "aria-label": caption }, element("thead", {}, head), body);
  return element("div", {}, element("p", { class: "note" }, caption), element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, own));
}

/** Calls `draw(width)` now and whenever the width of an element changes. */
function whenSized(node, draw) {
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(node.clientWidth);
    if (width > 0 && width !== last) { last = width; requestAnimationFrame(() => draw(width)); }
  }).observe(node);
}
