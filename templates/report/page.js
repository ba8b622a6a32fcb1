// The sections of the page; a section without data is left out.
"use strict";
const times = spanOfReport();
const hours = (seconds) => duration(seconds);

/** Returns the earliest and the latest time to be shown; null if no job has run. */
function spanOfReport() {
  let begin = Infinity, end = -Infinity;
  for (const job of report.jobs) begin = Math.min(begin, job.arrival_s);
  for (const run of report.runs) for (const span of run.spans) { begin = Math.min(begin, span[1]); end = Math.max(end, span[3]); }
  return end > begin ? [begin, end] : null;
}

function policies() {
  const rows = report.runs.filter((run) => run.row.mean_jct_s !== null || run.row.error);
  if (rows.length === 0) return;
  const means = rows.filter((run) => run.ended_s.every((time) => time !== null)).map((run) => run.row.mean_jct_s);
  const best = Math.min(...means);
  const own = section(rows.length > 1 ? "Policies" : "Figures",
    rows.some((run) => run.row.lower_bound_s) ? "No schedule has a mean completion time below the bound. The ratio is the mean over the bound." : null);
  const figure = (key, text) => (run) => text(run.row[key]);
  const columns = [
    [report.kind === "history" ? "Jobs" : "Policy", (run) => run.row.error ? `${run.name}: ${run.row.error}` : report.kind === "history" ? "completed" : run.name, true], ["Mean completion", figure("mean_jct_s", hours)],
    ["Bound", figure("lower_bound_s", hours)], ["Ratio", figure("ratio", (value) => (value === null ? "–" : value.toFixed(3)))],
    ["Half done in", figure("p50_jct_s", hours)], ["99 % in", figure("p99_jct_s", hours)], ["Last done", figure("makespan_s", hours)],
    ["Mean wait", figure("mean_wait_s", hours)], ["GPUs used", figure("utilisation", percent)], ["Without restarts", figure("goodput", percent)],
    [report.kind === "history" ? "Restarts a job" : "Moves a job", figure("moves_per_job", number)], ["Deadlines met", figure("deadlines_met", percent)],
  ];
  const shown = columns.filter(([, of], place) => place < 2 || rows.some((run) => of(run) !== "–"));
  own.append(table(rows.length > 1 ? "Means of the jobs that ended; in bold the least" : "Means of the jobs that ended", shown, rows, (run) => (run.row.mean_jct_s === best && rows.length > 1 ? "best" : null)));
}

function usage() {
  const all = report.usage;
  if (!all) return;
  const notes = {
    nominal: "Energy is the nominal power of the GPUs times the time that they were held: an upper estimate.",
    mixed: "Energy is the mean power that samples have shown times the time held, and nominal power for jobs without samples.",
    samples: "Energy is the mean power that samples have shown times the time that the GPUs were held.",
  };
  const own = section("Use of GPUs", notes[all.energy_from] ?? null);
  const idle = all.idle_gpu_hours === null ? "–" : `${number(all.idle_gpu_hours, 4)} (of ${number(all.sampled_gpu_hours, 4)} sampled)`;
  const rows = [["GPU hours", number(all.gpu_hours, 4)], ["of them idle", idle], ["lost to restarts", number(all.lost_gpu_hours, 4)],
    ["Energy (kWh)", number(all.energy_kwh, 4)], [all.cost_unit ?? "RGU-hours", number(all.cost, 4)]];
  own.append(table("All jobs together; – is not known", [["What", (row) => row[0], true], ["Amount", (row) => row[1]]], rows));
}

function timeline() {
  const runs = report.runs.filter((run) => run.spans.length > 0);
  if (runs.length === 0 || times === null) return;
  const own = section("GPUs over time", "A row is a GPU, a bar a job that holds it; hatched is a restart. Point at a bar for its job, drag to move, zoom with the buttons, two fingers or Ctrl and the wheel.");
  const readout = element("p", { class: "readout", "aria-live": "polite" }, "No job is chosen.");
  const place = element("div"), list = element("div");
  let mark = null;
  const show = (run) => {
    place.replaceChildren();
    list.replaceChildren();
    let rows = null;
    const choose = (job, isShown = true) => {
      readout.textContent = job === null ? "No job is chosen." : story(run, job);
      mark(job, isShown);
      rows?.mark(job);
    };
    mark = gantt(place, run, times, choose);
    rows = jobTable(list, run, choose);
  };
  if (runs.length > 1) {
    const select = element("select", { id: "run", onchange: (event) => show(runs[event.target.selectedIndex]) }, ...runs.map((run) => element("option", {}, run.name)));
    own.append(element("div", { class: "tools" }, element("label", { for: "run" }, "Policy"), select));
  }
  own.append(place, readout);
  own.append(element("h3", {}, "Jobs"), list);
  show(runs[0]);
}

/** Returns what became of a job, in a sentence. */
function story(run, number) {
  const job = report.jobs[number], spans = run.spans.filter((span) => span[0] === number);
  const started = run.started_s[number], ended = run.ended_s[number];
  const on = [...new Set(spans.flatMap((span) => span.slice(4).map((gpu) => `${report.gpus[gpu].node} ${report.gpus[gpu].type}`)))];
  const where = on.length > 4 ? `${on.slice(0, 4).join(", ")} and ${on.length - 4} more` : on.join(", ");
  const parts = [`arrived ${moment(job.arrival_s)}`, started === null ? "never started" : `waited ${duration(started - job.arrival_s)}`,
    ended === null ? "has not ended" : `done after ${duration(ended - job.arrival_s)}`, spans.length > 1 ? plural(spans.length, "stretch").replace("stretchs", "stretches") : null,
    job.deadline_s === undefined ? null : ended !== null && ended <= job.deadline_s ? "met its deadline" : "missed its deadline", where ? `on ${where}` : null];
  return `${job.name}: ${parts.filter(Boolean).join(", ")}`;
}

/** Adds the table of jobs, which can be sorted and filtered; returns an object whose `mark` marks the row of a job. */
function jobTable(parent, run, choose) {
  const counts = new Map();
  const held = new Map();
  for (const [job, start, , end, ...gpus] of run.spans) {
    counts.set(job, (counts.get(job) ?? 0) + 1);
    held.set(job, (held.get(job) ?? 0) + (end - start) * gpus.length);
  }
  const wait = (job) => (run.started_s[job] === null ? null : run.started_s[job] - report.jobs[job].arrival_s);
  const took = (job) => (run.ended_s[job] === null ? null : run.ended_s[job] - report.jobs[job].arrival_s);
  const columns = [["Job", (job) => report.jobs[job].name, String], ["Arrived", (job) => report.jobs[job].arrival_s, moment], ["Waited", wait, duration],
    ["Completion time", took, duration], ["Starts", (job) => counts.get(job) ?? 0, String], ["GPU hours", (job) => (held.get(job) ?? 0) / 3600, (value) => number(value)]];
  let [sorted, falling, limit, filter, chosen] = [2, true, 20, "", null];
  const body = element("tbody");
  const more = element("button", { type: "button", onclick: () => { limit += 200; draw(); } }, "Show more");
  const heads = columns.map(([heading], place) => element("th", { scope: "col", class: place === 0 ? "text" : null },
    element("button", { type: "button", onclick: () => { falling = sorted === place ? !falling : place > 0; sorted = place; draw(); } }, heading)));
  const count = element("p", { class: "note", "aria-live": "polite" });
  const input = element("input", { type: "search", id: "filter", placeholder: "name", oninput: (event) => { filter = event.target.value.toLowerCase(); draw(); } });
  function draw() {
    const [, of] = columns[sorted];
    const all = report.jobs.map((_, job) => job).filter((job) => report.jobs[job].name.toLowerCase().includes(filter));
    const order = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
    all.sort((a, b) => {
      const [x, y] = [of(a), of(b)];
      if (x === null || y === null) return (x === null) - (y === null) || a - b;
      return (falling ? -order(x, y) : order(x, y)) || a - b;
    });
    heads.forEach((head, place) => head.setAttribute("aria-sort", place === sorted ? (falling ? "descending" : "ascending") : "none"));
    body.replaceChildren(...all.slice(0, limit).map((job) => element("tr", { "data-job": job, class: job === chosen ? "chosen" : null }, ...columns.map(([, of, text], place) => place === 0
      ? element("th", { scope: "row", class: "text" }, element("button", { type: "button", onclick: () => choose(job, true) }, text(of(job))))
      : element("td", {}, of(job) === null ? "–" : text(of(job)))))));
    more.hidden = all.length <= limit;
    count.textContent = `${Math.min(limit, all.length)} of ${plural(all.length, "job")}`;
  }
  parent.append(element("div", { class: "tools" }, element("label", { for: "filter" }, "Find"), input),
    scrolled("A heading sorts; a name shows the job above.", element("tr", {}, ...heads), body), element("div", { class: "tools" }, count, more));
  draw();
  return { mark: (job) => { chosen = job; for (const row of body.children) row.className = Number(row.dataset.job) === job ? "chosen" : ""; } };
}

function overTime() {
  const runs = report.runs.filter((run) => run.in_use.length > 0);
  if (runs.length === 0 || times === null) return;
  const own = section("Queue and use over time").appendChild(element("div", { class: "pair" }));
  const x = { label: report.clock === "unix" ? "local time" : "time since the beginning", text: moment, time: true, from: times[0], to: times[1] };
  const peak = (of) => runs.map((run) => `${run.name}: at most ${Math.max(0, ...of(run).map((step) => step[1]))}`).join("; ");
  const add = (title, label, of, to) => lineChart(own, { title, summary: peak(of), x, y: { label, text: (value) => number(value), from: 0, to, whole: true }, series: runs.map((run) => ({ name: run.name, points: of(run), steps: true, until: times[1] })) });
  add("Jobs that wait", "jobs", (run) => run.queue, 1);
  add(`GPUs in use, of ${report.gpus.length}`, "GPUs", (run) => run.in_use, report.gpus.length);
}

function completionTimes() {
  const runs = report.runs.map((run) => ({ run, times: run.ended_s.map((end, job) => (end === null ? null : end - report.jobs[job].arrival_s)).filter((time) => time !== null).sort((a, b) => a - b) })).filter((own) => own.times.length > 1);
  if (runs.length === 0) return;
  const all = runs.flatMap((own) => own.times).filter((time) => time > 0);
  const [low, high] = [all.reduce((a, b) => Math.min(a, b), Infinity), all.reduce((a, b) => Math.max(a, b), 0)];
  const isLog = high > 30 * low;
  const own = section("Completion times", "The share of the jobs that are done within a time after their arrival: the farther left, the better.");
  const quantile = (list, part) => list[Math.max(Math.ceil(list.length * part) - 1, 0)];
  lineChart(own, { title: `Share of jobs by completion time${isLog ? " (logarithmic)" : ""}`, summary: runs.map((one) => `${one.run.name}: half within ${duration(quantile(one.times, 0.5))}`).join("; "),
    x: { label: "time from arrival to completion", text: duration, length: true, log: isLog, from: isLog ? low : 0, to: high }, y: { label: "share of jobs", text: percent, short: (value) => `${Math.round(100 * value)} %`, from: 0, to: 1 },
    series: runs.map((one) => ({ name: one.run.name, steps: true, until: high, points: [[Math.max(low, 0), 0], ...one.times.map((time, place) => [Math.max(time, low), (place + 1) / report.jobs.length])] })) });
}

function predictions() {
  const parts = element("div", { class: "pair" });
  const waited = report.waits.filter((wait) => wait.waited_s !== null);
  if (report.epochs.length + waited.length === 0) return;
  section("Predicted and observed", "On the dashed line both are equal; dots above it took longer than predicted.").append(parts);
  const [predicted, observed] = lengthAxes(["predicted", "observed"], report.epochs.flatMap((own) => [own.predicted_s, own.observed_s]), 0);
  lineChart(parts, { title: "Length of an epoch, a dot a submission", summary: plural(report.epochs.length, "submission"), x: predicted, y: observed, diagonal: true,
    series: [{ name: "", dots: true, points: report.epochs.map((own) => [own.predicted_s, own.observed_s, `${own.job} on ${own.gpus}: predicted ${duration(own.predicted_s)}, observed ${duration(own.observed_s)}`]) }] });
  const [estimated, real] = lengthAxes(["estimated", "real"], waited.flatMap((own) => [own.q50_s, own.waited_s]), 60);
  lineChart(parts, { title: `Wait in the queue, with the 80 % interval${real.log ? "; up to a minute at the edge" : ""}`, summary: plural(waited.length, "start"), x: estimated, y: real, diagonal: true,
    series: [{ name: "", dots: true, points: waited.map((own) => [own.q50_s, own.waited_s, `${own.job} (${own.gpus}): estimated ${duration(own.q50_s)}, waited ${duration(own.waited_s)}`, own.q10_s, own.q90_s]) }] });
}

/** Returns an axis for each name: logarithmic if the longest time is more than 30 times the shortest; times below `least` are then at its start. */
function lengthAxes(names, lengths, least) {
  const positive = lengths.filter((length) => length > 0);
  const shortest = Math.max(positive.reduce((a, b) => Math.min(a, b), Infinity), least), longest = positive.reduce((a, b) => Math.max(a, b), 0);
  const log = longest > 30 * shortest;
  return names.map((name) => ({ label: log ? `${name} (logarithmic)` : name, text: duration, length: true, log, from: log ? shortest : 0, least: log ? shortest : 0 }));
}

function requests() {
  if (report.options.length === 0) return;
  const own = section("Requests and when they would start", "From the time of the look at the queue, with the interval that should hold 80 % of the times. In bold the request that hsched would choose.");
  const three = (values) => (values === null ? "–" : `${estimated(values[1])} (${estimated(values[0])} to ${estimated(values[2])})`);
  const has = (key) => report.options.some((row) => row[key] !== null);
  const units = [...new Set(report.options.map((row) => row.cost_unit).filter(Boolean))];
  const costs = units.map((unit) => [`Cost (${unit})`, (row) => (row.cost_unit === unit ? number(row.cost) : "–")]);
  own.append(table("Requests of each job: medians of start and finish, and the mean finish, which decides", [["Job", (row) => row.job, true], ["GPUs", (row) => `${row.gpus} ${row.type}`, true], ["Nodes", (row) => row.nodes],
    ...(has("partition") ? [["Partition", (row) => row.partition ?? "–", true]] : []), ...(has("account") ? [["Account", (row) => row.account ?? "–", true]] : []), ["Starts in", (row) => three(row.start_s)], ["Done in", (row) => three(row.finish_s)], ["On average", (row) => estimated(row.mean_finish_s)], ...costs], report.options, (row) => (row.chosen ? "best" : null)));
  for (const job of new Set(report.options.map((row) => row.job))) {
    const rows = report.options.filter((row) => row.job === job && row.finish_s !== null).reverse();
    const name = (row) => [`${row.chosen ? "* " : ""}${row.gpus} ${row.type}`, row.partition, row.account].filter(Boolean).join(" ");
    lineChart(own, { title: `${job}: medians of start and finish of each request; * is the one that hsched would choose`, summary: `${plural(rows.length, "request")} with estimates`, height: 70 + 18 * rows.length, x: { label: "time from the look at the queue", text: duration, length: true, from: 0, to: Math.max(...rows.map((row) => row.finish_s[2])) },
      y: { label: "", names: rows.map(name), from: -0.5, to: rows.length - 0.5 },
      series: [["start", "start_s"], ["finish", "finish_s"]].map(([what, key]) => ({ name: what, dots: true, points: rows.flatMap((row, place) => row[key] === null ? [] : [[row[key][1], place, `of ${name(row)}: ${duration(row[key][1])}`, row[key][0], row[key][2]]]) })) });
  }
}

function sweeps() {
  for (const sweep of report.sweeps) {
    const better = (a, b) => (sweep.mode === "min" ? a.best - b.best : b.best - a.best);
    const runs = [...sweep.runs].sort(better);
    const own = section(`Sweep ${sweep.name}`, `${plural(runs.length, "run")} by ${sweep.metric}, which should ${sweep.mode === "min" ? "fall" : "rise"}. The best is ${runs[0].name}: ${number(runs[0].best, 5)} at epoch ${runs[0].best_epoch}.`);
    lineChart(own, { title: `${sweep.metric} by epoch, the ${Math.min(runs.length, 7)} best runs`, summary: `best ${number(runs[0].best, 5)}`, x: { label: "epoch", text: (value) => `epoch ${value}`, short: (value) => String(value) }, y: { label: sweep.metric, text: (value) => number(value, 5), short: (value) => number(value) },
      series: runs.slice(0, 7).map((run) => ({ name: run.name, points: run.curve })) });
    const keys = [...new Set(runs.flatMap((run) => Object.keys(run.parameters)))];
    own.append(table("Runs, the best first", [["Run", (run) => run.name, true], ...keys.map((key) => [key, (run) => run.parameters[key] ?? "–"]), [`Best ${sweep.metric}`, (run) => number(run.best, 5)], ["Epoch", (run) => run.best_epoch]], runs, (run) => (run === runs[0] ? "best" : null)));
  }
}

function points() {
  if (report.points.length === 0) return;
  const keys = Object.keys(report.points[0].values), varied = keys[0];
  const hasRatio = report.points.every((point) => point.ratio !== null);
  const own = section("Sweep of the simulation", hasRatio ? "Mean completion time over the lower bound." : null);
  const series = new Map();
  for (const point of report.points) {
    const name = [point.policy, ...keys.slice(1).map((key) => `${key} ${point.values[key]}`)].join(", ");
    const value = hasRatio ? point.ratio : point.mean_jct_s;
    if (value !== null && varied) series.set(name, [...(series.get(name) ?? []), [point.values[varied], value]]);
  }
  lineChart(own, { title: `${hasRatio ? "Mean over bound" : "Mean completion time"} by ${varied}`, summary: plural(series.size, "line"), x: { label: varied ?? "", text: (value) => `${varied} ${number(value)}`, short: (value) => number(value) },
    y: { label: hasRatio ? "mean over bound" : "mean completion", text: hasRatio ? (value) => value.toFixed(3) : duration, short: hasRatio ? (value) => number(value) : duration }, series: [...series].map(([name, list]) => ({ name, points: list })) });
  own.append(table("All points", [["Policy", (point) => point.policy, true], ...keys.map((key) => [key, (point) => number(point.values[key])]), ["Mean completion", (point) => duration(point.mean_jct_s)],
    ["± (95 %)", (point) => duration(point.mean_jct_s_ci95)], ["Ratio", (point) => (point.ratio === null ? "–" : point.ratio.toFixed(3))]], report.points));
}

function speeds() {
  if (report.speeds.length === 0) return;
  section("Speeds learnt").append(table("Speeds that were measured or given, with their relative errors", [["Model", (row) => row.model, true], ["GPU", (row) => row.type, true], ["Speed", (row) => row.speed], ["Error", (row) => `±${(100 * row.error).toFixed(0)} %`], ["Measured", (row) => row.count], ["Source", (row) => row.source, true]], report.speeds));
}

function parameters() {
  const own = section("How this was made");
  const rows = Object.entries(report.parameters).map(([name, value]) => [name, name === "at" ? moment(value) : value]);
  if (rows.length > 0) own.append(table("Parameters", [["Parameter", (row) => row[0], true], ["Value", (row) => (typeof row[1] === "string" ? row[1] : JSON.stringify(row[1])), true]], rows));
  if (report.notes.length > 0) own.append(element("ul", {}, ...report.notes.map((note) => element("li", {}, note))));
}

for (const part of [policies, usage, requests, points, timeline, overTime, completionTimes, predictions, sweeps, speeds, parameters]) part();
