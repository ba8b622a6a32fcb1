// Charts of lines, dots and intervals; the pointer or the arrow keys select the values that are read out.
"use strict";

/**
 * Adds a chart. `axes` are `x` and `y`, each `{label, text(value), log, time, from, to, least}`; `y.names` are the names of whole numbers
 * from 0 on. A series is `{name, points, steps, dots, until}` with points `[x, y, text, low, high]`; a line keeps its last value up to
 * x = `until`. `summary` describes the chart for screen readers.
 */
function lineChart(parent, { title, summary, x, y, series, diagonal = false, height = 260 }) {
  series = series.filter((own) => own.points.length > 0);
  if (series.length === 0) return;
  const readout = element("p", { class: "readout note", "aria-live": "polite" }, "Point at the chart, or focus it and press ← and →.");
  const box = element("div", { class: "chart", tabindex: 0, role: "img", "aria-label": `${title}. ${summary}` });
  const caption = element("figcaption", {}, title);
  parent.append(element("figure", {}, caption, box, legend(series), readout));
  const all = series.flatMap((own) => own.points);
  const scaleX = scale(x, all.map((point) => point[0])), scaleY = scale(y, all.map((point) => point[1]));
  if (diagonal) {
    const low = Math.min(scaleX.low, scaleY.low), high = Math.max(scaleX.high, scaleY.high);
    for (const own of [scaleX, scaleY]) { own.low = low; own.high = high; }
  }
  let cursor = null, place = null;
  const draw = (width) => {
    const left = y.names ? nameRoom(y.names, width) : 62, right = width - 12, top = 24, bottom = height - 40;
    const atX = (value) => left + scaleX.along(value) * (right - left);
    const atY = (value) => bottom - scaleY.along(value) * (bottom - top);
    const picture = shape("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    for (const [value, text] of scaleY.ticks(5)) {
      picture.append(shape("line", { class: "grid", x1: left, x2: right, y1: atY(value), y2: atY(value) }),
        shape("text", { class: "soft", x: left - 6, y: atY(value) + 4, "text-anchor": "end" }, y.names ? shortened(text, Math.floor((left - 6) / 6.6)) : text));
    }
    for (const [value, text] of scaleX.ticks(width / 110)) {
      picture.append(shape("line", { class: "axis", x1: atX(value), x2: atX(value), y1: bottom, y2: bottom + 4 }),
        shape("text", { class: "soft", x: Math.min(atX(value), width - 20), y: bottom + 17, "text-anchor": "middle" }, text));
    }
    picture.append(shape("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}` }),
      shape("text", { class: "soft", x: (left + right) / 2, y: height - 5, "text-anchor": "middle" }, x.label),
      shape("text", { class: "soft", x: 0, y: 12 }, y.label));
    if (diagonal) picture.append(shape("line", { class: "grid", x1: left, y1: bottom, x2: right, y2: top, "stroke-dasharray": "4 4" }));
    series.forEach((own, place) => drawSeries(picture, own, place, atX, atY));
    cursor = shape("line", { class: "axis", y1: top, y2: bottom, visibility: "hidden", "stroke-dasharray": "3 3" });
    picture.append(cursor);
    box.replaceChildren(picture);
    box.scales = { atX, left, right };
  };
  const values = [...new Set(all.map((point) => point[0]))].sort((a, b) => a - b);
  const show = (value) => {
    cursor.setAttribute("visibility", "visible");
    for (const side of ["x1", "x2"]) cursor.setAttribute(side, box.scales.atX(value));
    readout.textContent = read(value, x, y, series);
  };
  box.addEventListener("pointermove", (event) => {
    const { left, right } = box.scales;
    const part = Math.min(Math.max((event.clientX - box.getBoundingClientRect().left - left) / (right - left), 0), 1);
    show(nearest(values, scaleX.at(part)));
  });
  box.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    place = Math.min(Math.max((place ?? -1) + by, 0), values.length - 1);
    show(values[place]);
  });
  whenSized(box, draw);
}

function drawSeries(picture, own, place, atX, atY) {
  if (own.dots) {
    for (const [a, b, , low, high] of own.points) {
      if (low !== undefined) picture.append(shape("line", { x1: atX(low), x2: atX(high), y1: atY(b), y2: atY(b), stroke: colour(place), "stroke-opacity": 0.45, "stroke-width": 2 }));
      picture.append(dot(atX(a), atY(b), place));
    }
    return;
  }
  let path = "";
  own.points.forEach(([a, b], number) => {
    const [px, py] = [atX(a).toFixed(1), atY(b).toFixed(1)];
    path += number === 0 ? `M${px} ${py}` : own.steps ? `H${px}V${py}` : `L${px} ${py}`;
  });
  // The last value holds until the end.
  if (own.until !== undefined) path += `H${atX(own.until).toFixed(1)}`;
  picture.append(shape("path", { d: path, fill: "none", stroke: colour(place), "stroke-width": 2, "stroke-dasharray": DASHES[place % 7] }));
}

/** Returns a dot; in every second series it is a hollow square, so that the series also differ in grey. */
function dot(x, y, place) {
  return place % 2 === 0 ? shape("circle", { cx: x, cy: y, r: 3.5, fill: colour(place), "fill-opacity": 0.65 })
    : shape("rect", { x: x - 3.2, y: y - 3.2, width: 6.4, height: 6.4, fill: "var(--paper)", stroke: colour(place), "stroke-width": 2 });
}

/** Returns the width of the longest name, at most 40 % of the width of the chart. */
const nameRoom = (names, width) => Math.min(Math.max(...names.map((name) => 6.6 * name.length)) + 10, width * 0.4);

/** Returns the values of all series at a value of x, in words. */
function read(value, x, y, series) {
  const parts = series.map((own) => {
    const point = own.steps ? own.points.filter((point) => point[0] <= value).at(-1) : own.points.find((point) => point[0] === value);
    if (!point) return null;
    return `${own.name ? own.name + " " : ""}${point[2] ?? y.text(point[1])}`;
  });
  return `${x.text(value)}: ${parts.filter(Boolean).join("; ")}`;
}

function nearest(sorted, value) {
  let low = 0, high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle; else high = middle;
  }
  return Math.abs(sorted[low] - value) <= Math.abs(sorted[high] - value) ? sorted[low] : sorted[high];
}

/** Returns the scale of an axis: `along` maps a value to a position from 0 to 1, `at` maps a position to a value, and `ticks` lists marks. */
function scale(axis, values) {
  const usable = values.filter((value) => Number.isFinite(value) && (!axis.log || value > 0));
  const least = (list) => list.reduce((a, b) => Math.min(a, b), Infinity);
  let low = Math.min(axis.from ?? Infinity, least(usable)), high = Math.max(axis.to ?? -Infinity, -least(usable.map((value) => -value)));
  low = Math.max(low, axis.least ?? -Infinity);
  if (!Number.isFinite(low) || !Number.isFinite(high)) [low, high] = [0, 1];
  if (high <= low) high = low + (Math.abs(low) || 1);
  const of = (value) => (axis.log ? Math.log(Math.max(value, 1e-12)) : value);
  const back = (value) => (axis.log ? Math.exp(value) : value);
  const own = { low, high };
  own.along = (value) => Math.min(Math.max((of(value) - of(own.low)) / (of(own.high) - of(own.low)), 0), 1);
  own.at = (part) => back(of(own.low) + part * (of(own.high) - of(own.low)));
  own.ticks = (count) => {
    if (axis.names) return axis.names.map((name, place) => [place, name]);
    if ((axis.time || axis.length) && !axis.log) return timeTicks(own.low, own.high, count, axis.length);
    return (axis.log ? logTicks(own.low, own.high, count, axis.length) : roundTicks(own.low, own.high, count, axis.whole)).map((value) => [value, axis.log && axis.length ? plain(value, value) : axis.short ? axis.short(value) : axis.text(value)]);
  };
  return own;
}

function logTicks(low, high, count, isTime) {
  const marks = isTime ? [0.01, 0.1, 1, 10, 60, 600, 3600, 21600, 86400, 864000, 8640000] : Array.from({ length: 24 }, (_, power) => 10 ** (power - 9));
  const inside = marks.filter((mark) => mark >= low && mark <= high);
  return inside.length > 1 ? inside.filter((_, place) => place % Math.ceil(inside.length / Math.max(count, 2)) === 0) : [low, high];
}

function legend(series) {
  if (series.length < 2) return null;
  const sample = (place, dots) => shape("svg", { viewBox: "0 0 34 10", "aria-hidden": "true" }, dots
    ? dot(17, 5, place)
    : shape("line", { x1: 0, x2: 34, y1: 5, y2: 5, stroke: colour(place), "stroke-width": 2.5, "stroke-dasharray": DASHES[place % 7] }));
  return element("ul", { class: "legend" }, ...series.map((own, place) => element("li", {}, sample(place, own.dots), own.name)));
}
