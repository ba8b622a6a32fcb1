// The chart of GPUs over time: zoomed and moved by pointer, fingers, buttons and keys.
"use strict";
const MOST_ROWS = 600;

/** Adds the chart of a run. `choose(job, isShown)` is called with the job under the pointer or selected by keys; null for none. Returns a function that marks a job. */
function gantt(parent, run, [begin, end], choose) {
  const gpus = report.gpus.slice(0, MOST_ROWS);
  const rowHeight = gpus.length <= 24 ? 20 : gpus.length <= 64 ? 12 : gpus.length <= 200 ? 7 : 4;
  let [from, to] = [begin, end], width = 0, chosen = null;
  const least = Math.max((end - begin) / 1e5, 1e-3);
  const label = `GPUs over time: ${plural(gpus.length, "row")}, ${plural(run.spans.length, "bar")}. Arrow left and right move, plus and minus zoom, 0 shows all, arrow up and down walk through the jobs.`;
  const box = element("div", { class: "chart", tabindex: 0, role: "group", "aria-label": label });
  const axis = element("div", { class: "chart", "aria-hidden": "true" });
  const rows = element("div", { class: "rows" }, box);
  const button = (text, name, act) => element("button", { type: "button", "aria-label": name, title: name, onclick: act }, text);
  const tools = element("div", { class: "tools" },
    button("+", "Zoom in", () => zoom(0.5)), button("−", "Zoom out", () => zoom(2)),
    button("←", "Earlier", () => move(-0.25)), button("→", "Later", () => move(0.25)), button("All", "Show all", () => view(begin, end)));
  parent.append(tools, axis, rows);
  if (report.gpus.length > MOST_ROWS) parent.append(element("p", { class: "note" }, `The first ${MOST_ROWS} of ${report.gpus.length} GPUs are drawn; the data has all.`));
  const left = () => Math.min(width * 0.28, Math.max(...gpus.map((gpu) => 7 * `${gpu.node} ${gpu.type}`.length), 40) + 10);
  const at = (time) => left() + ((time - from) / (to - from)) * (width - left() - 6);
  const time = (x) => from + ((x - left()) / (width - left() - 6)) * (to - from);

  function view(low, high) {
    const span = Math.min(Math.max(high - low, least), end - begin);
    from = Math.min(Math.max(low, begin), end - span);
    to = from + span;
    draw();
  }
  const zoom = (factor, center = (from + to) / 2) => view(center - (center - from) * factor, center + (to - center) * factor);
  const move = (part) => view(from + part * (to - from), to + part * (to - from));

  function draw() {
    if (width === 0) return;
    const tall = gpus.length * rowHeight;
    const picture = shape("svg", { viewBox: `0 0 ${width} ${tall}`, "aria-hidden": "true", class: chosen === null ? null : "dim" },
      shape("defs", {}, shape("clipPath", { id: "inside" }, shape("rect", { x: left(), y: 0, width: width - left(), height: tall })),
        shape("pattern", { id: "restart", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, shape("line", { x1: 0, y1: 0, x2: 0, y2: 5, stroke: "var(--ink)", "stroke-width": 2 }))));
    let lastLabel = -20;
    gpus.forEach((gpu, place) => {
      if (gpu.index > 0) return;
      const y = place * rowHeight;
      picture.append(shape("line", { class: "grid", x1: 0, x2: width, y1: y, y2: y }));
      if (y - lastLabel >= 12) {
        lastLabel = y;
        picture.append(shape("text", { class: "soft", x: 0, y: y + 11 }, shortened(`${gpu.node} ${gpu.type}`, Math.floor(left() / 7))));
      }
    });
    const bars = shape("g", { "clip-path": "url(#inside)" });
    const drawn = new Map();
    for (const span of run.spans) {
      const [job, start, work, stop, ...own] = span;
      if (stop < from || start > to) continue;
      const x = at(Math.max(start, from)), wide = Math.max(at(Math.min(stop, to)) - x, 0.8);
      for (const [first, count] of together(own)) {
        if (first >= gpus.length) continue;
        // Of several bars within one column of pixels, only the first and those of the chosen job are drawn.
        const key = `${first} ${Math.round(x)}`;
        if (wide < 1 && drawn.has(key) && job !== chosen) continue;
        drawn.set(key, true);
        bars.append(...bar(job, x, first * rowHeight, wide, count * rowHeight, Math.max(at(Math.min(work, to)) - x, 0)));
      }
    }
    picture.append(bars);
    box.replaceChildren(picture);
    axis.replaceChildren(shape("svg", { viewBox: `0 0 ${width} 22` }, ...timeTicks(from, to, width / 110).flatMap(([value, text]) =>
      at(value) < left() ? [] : [shape("line", { class: "axis", x1: at(value), x2: at(value), y1: 17, y2: 22 }), shape("text", { class: "soft", x: Math.min(at(value), width - 20), y: 13, "text-anchor": "middle" }, text)])));
  }

  function bar(job, x, y, wide, tall, restart) {
    const parts = [shape("rect", { class: job === chosen ? "bar on" : "bar", x, y: y + 0.5, width: wide, height: Math.max(tall - 1, 1), fill: colour(job), "data-job": job })];
    if (restart > 1.5) parts.push(shape("rect", { x, y: y + 0.5, width: restart, height: Math.max(tall - 1, 1), fill: "url(#restart)", "pointer-events": "none" }));
    const name = report.jobs[job].name, room = Math.floor((wide - 6) / 7);
    if (tall >= 12 && room >= Math.min(name.length, 4)) {
      parts.push(shape("text", { class: "name", x: x + 3, y: y + tall / 2 + 4 }, shortened(name, room)));
    }
    return parts;
  }

  function mark(job, isShown) {
    chosen = job;
    if (job !== null && isShown) {
      const own = run.spans.filter((span) => span[0] === job);
      if (own.length > 0 && (own[0][1] > to || own.at(-1)[3] < from)) view(own[0][1] - (to - from) / 2, own[0][1] + (to - from) / 2);
    }
    draw();
  }

  const order = [...new Set(run.spans.map((span) => span[0]))];
  box.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const acts = { ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => view(begin, end), Escape: () => choose(null) };
    if (step && order.length > 0) {
      const place = chosen === null ? (step > 0 ? 0 : order.length - 1) : order.indexOf(chosen) + step;
      choose(order[Math.min(Math.max(place, 0), order.length - 1)]);
    } else if (acts[event.key]) acts[event.key]();
    else return;
    event.preventDefault();
  });
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, time(event.clientX - box.getBoundingClientRect().left));
  }, { passive: false });
  drag(box, (dx) => view(from - (dx / (width - left())) * (to - from), to - (dx / (width - left())) * (to - from)), zoom, () => box.getBoundingClientRect().left, time);
  for (const kind of ["pointermove", "click"]) {
    box.addEventListener(kind, (event) => {
      const job = event.target.dataset?.job;
      if (job !== undefined && event.buttons === 0) choose(Number(job), kind === "click");
    });
  }
  whenSized(box, (own) => { width = own; draw(); });
  return mark;
}

/** Moves the chart with a pointer that is held down, and zooms it with two fingers. */
function drag(box, moveBy, zoom, left, time) {
  const held = new Map();
  const gap = () => { const [a, b] = [...held.values()]; return Math.max(Math.abs(a - b), 20); };
  box.addEventListener("pointerdown", (event) => held.set(event.pointerId, event.clientX));
  for (const kind of ["pointerup", "pointercancel", "pointerleave"]) box.addEventListener(kind, (event) => held.delete(event.pointerId));
  box.addEventListener("pointermove", (event) => {
    if (!held.has(event.pointerId)) return;
    const before = held.get(event.pointerId), wide = held.size === 2 ? gap() : 0;
    held.set(event.pointerId, event.clientX);
    if (held.size === 2) zoom(wide / gap(), time(event.clientX - left()));
    else if (Math.abs(event.clientX - before) > 0) moveBy(event.clientX - before);
  });
}

/** Groups GPUs in adjacent rows: returns the first GPU of each group, and the number of its GPUs. */
function together(gpus) {
  const rows = [];
  for (const gpu of gpus) {
    const last = rows.at(-1);
    if (last && last[0] + last[1] === gpu) last[1] += 1; else rows.push([gpu, 1]);
  }
  return rows;
}
