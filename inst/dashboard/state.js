// What the page knows: the last snapshot, the tasks that ended lately, and how numbers went on.
// All of it is bounded, so that a page may stay open for days. Also how values are written.
"use strict";
window.clutch = {};

clutch.TASKS_MOST = 20000;
clutch.EVENTS_MOST = 256;
clutch.HISTORY_MOST = 600; // points: five minutes at two a second

clutch.state = {
  snapshot: null, // {time, session, clusters, nodes, jobs, hosts, actors, events}, tables as arrays of objects
  tables: {},     // as sent: {nodes: {pid: [...], ...}, ...}
  events: [],     // the last
  tasks: [],      // {cluster, job, element, node, began, ended, ok}, by time of arrival
  lastEnd: new Map(), // when the last of a node's tasks ended, by clutch.nodeKey()
  history: [],    // {time, done, busy, cpu, memory, bytes}: sums over the nodes shown
  jobHistory: new Map(), // by key of the job: [{time, done}], of the last seconds
  cluster: "",    // the one that is shown; "": all
};

// ---- tables ----

// {a: [1, 2], b: [3, 4]} -> [{a: 1, b: 3}, {a: 2, b: 4}]
clutch.rows = function (table) {
  if (!table) return [];
  const names = Object.keys(table);
  const n = names.length ? table[names[0]].length : 0;
  const out = new Array(n);
  for (let i = 0; i < n; i++) {
    const row = {};
    for (const name of names) row[name] = table[name][i];
    out[i] = row;
  }
  return out;
};

clutch.jobKey = (x) => x.cluster + " " + x.job;
clutch.nodeKey = (x) => x.cluster + " " + x.node;

// Takes what a server-sent event brought: {whole, time, session, tables, news}. Of tables it has the
// columns that have changed, of tasks and events those that are new; all of them, where it is whole.
clutch.take = function (data) {
  const state = clutch.state;
  if (data.whole) {
    state.tables = {};
    state.tasks = [];
    state.events = [];
    state.lastEnd.clear();
  }
  for (const name of Object.keys(data.tables)) {
    state.tables[name] = Object.assign(state.tables[name] || {}, data.tables[name]);
  }
  for (const news of data.news) {
    for (const task of clutch.rows(news.tasks)) {
      const key = clutch.nodeKey(task), last = state.lastEnd.get(key);
      if (last === undefined || task.ended > last) state.lastEnd.set(key, task.ended);
      state.tasks.push(task);
    }
    for (const event of clutch.rows(news.events)) state.events.push(event);
  }
  // now and then, and then by much: to move an array for each task would take long
  if (state.tasks.length > 1.2 * clutch.TASKS_MOST) {
    state.tasks = state.tasks.slice(-clutch.TASKS_MOST);
  }
  state.events = state.events.slice(-clutch.EVENTS_MOST);
  const s = { time: data.time, session: data.session, events: state.events };
  for (const name of ["clusters", "nodes", "jobs", "hosts", "actors"]) s[name] = clutch.rows(state.tables[name]);
  state.snapshot = s;
  clutch.remember();
};

clutch.isShown = (x) => clutch.state.cluster === "" || String(x.cluster) === clutch.state.cluster;
clutch.shown = (name) => (clutch.state.snapshot ? clutch.state.snapshot[name].filter(clutch.isShown) : []);

clutch.sum = (rows, name) => rows.reduce((total, row) => total + (row[name] || 0), 0);

// The numbers whose course is drawn.
clutch.remember = function () {
  const state = clutch.state;
  const nodes = clutch.shown("nodes");
  const point = {
    time: state.snapshot.time,
    done: clutch.sum(nodes, "done"),
    busy: nodes.filter((n) => n.state === "busy").length,
    cpu: clutch.sum(nodes, "cpu"),
    memory: clutch.sum(nodes, "memory"),
    bytes: clutch.sum(nodes, "sent") + clutch.sum(nodes, "received"),
  };
  const last = state.history[state.history.length - 1];
  if (last && last.time === point.time) return;
  state.history.push(point);
  if (state.history.length > clutch.HISTORY_MOST) state.history.shift();
  const keys = new Set();
  for (const job of state.snapshot.jobs) {
    const key = clutch.jobKey(job);
    keys.add(key);
    if (!state.jobHistory.has(key)) state.jobHistory.set(key, []);
    const points = state.jobHistory.get(key);
    points.push({ time: point.time, done: job.done + job.failed });
    while (points.length > 2 && points[0].time < point.time - 20) points.shift();
  }
  for (const key of state.jobHistory.keys()) if (!keys.has(key)) state.jobHistory.delete(key);
};

// Another choice of nodes: what was summed over those before means nothing.
clutch.choose = function (cluster) {
  clutch.state.cluster = cluster;
  clutch.state.history = [];
  if (clutch.state.snapshot) clutch.remember();
};

// What was added a second between two neighbouring points; a counter that starts anew adds nothing.
clutch.rates = function (name) {
  const h = clutch.state.history;
  const out = [];
  for (let i = 1; i < h.length; i++) {
    const seconds = h[i].time - h[i - 1].time;
    out.push({ time: h[i].time, value: Math.max(0, h[i][name] - h[i - 1][name]) / Math.max(seconds, 1e-3) });
  }
  return out;
};

// Since when a node is in its state; null: not known. A node does not say when its last task has
// ended, only when that began: so of an idle one the tasks tell.
clutch.sinceWhen = function (node) {
  const since = node.state === "idle" ? clutch.state.lastEnd.get(clutch.nodeKey(node)) : node.since;
  return clutch.isKnown(since) ? since : null;
};

// Tasks a second: of the last seconds, or over the whole time of a job that has ended, or that the
// page has just met.
clutch.jobRate = function (job) {
  const now = clutch.state.snapshot.time;
  const points = clutch.state.jobHistory.get(clutch.jobKey(job)) || [];
  const first = points[0];
  const done = job.done + job.failed;
  if (job.ended === null && first && now - first.time >= 3 && done > first.done) return (done - first.done) / (now - first.time);
  const end = job.ended === null ? now : job.ended;
  return done / Math.max(end - job.since, 1e-3);
};

// Seconds that the job will go on, as far as one can tell; null: one cannot.
clutch.timeLeft = function (job) {
  if (job.ended !== null) return null;
  const rate = clutch.jobRate(job);
  const left = job.total - job.done - job.failed;
  return rate > 0 && left > 0 ? left / rate : null;
};

clutch.nodeName = function (x) {
  const several = clutch.state.snapshot.clusters.length > 1 && clutch.state.cluster === "";
  return several ? x.cluster + "." + x.node : String(x.node);
};

clutch.jobOf = (x) => clutch.state.snapshot.jobs.find((j) => j.cluster === x.cluster && j.job === x.job);

clutch.labelOf = (job) => job.label || "job " + job.job;

// What a node or a task is about, in words; `brief`: without the element.
clutch.doing = function (x, brief) {
  if (x.job === null || x.job === undefined) return x.state === "busy" ? "a call" : "";
  const job = clutch.jobOf(x);
  const label = job ? clutch.labelOf(job) : "job " + x.job;
  return brief === true || !clutch.isKnown(x.element) ? label : label + ", element " + clutch.count(x.element);
};

// The number of the colour of a job, 1 to 6.
clutch.jobColour = (job) => ((job || 1) - 1) % 6 + 1;

// ---- values as text ----

clutch.isKnown = (x) => x !== null && x !== undefined;

clutch.count = function (x) {
  if (!clutch.isKnown(x)) return "–";
  return Math.round(x).toLocaleString("en-US");
};

clutch.plural = (n, one, more) => clutch.count(n) + " " + (n === 1 ? one : more || one + "s");

clutch.number = function (x) {
  if (!clutch.isKnown(x)) return "–";
  if (x >= 1e6) return (x / 1e6).toPrecision(3) + " M";
  if (x >= 100) return clutch.count(x);
  if (x === 0) return "0";
  return x >= 10 ? x.toFixed(0) : x >= 0.1 ? x.toFixed(1) : x.toPrecision(1);
};

// Units of 1024, as cluster_status() counts.
clutch.bytes = function (x) {
  if (!clutch.isKnown(x)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let k = 0;
  while (x >= 999.5 && k < units.length - 1) {
    x /= 1024;
    k++;
  }
  return (x >= 99.5 || k === 0 ? x.toFixed(0) : x.toPrecision(2)) + " " + units[k];
};

clutch.seconds = function (x) {
  if (!clutch.isKnown(x)) return "–";
  x = Math.max(0, x);
  if (x < 5e-7) return "0 s";
  if (x < 1e-3) return (x * 1e6).toFixed(0) + " µs";
  if (x < 1) return (x * 1e3).toFixed(x < 0.01 ? 1 : 0) + " ms";
  if (x < 10) return x.toFixed(1) + " s";
  if (x < 60) return Math.floor(x) + " s";
  if (x < 3600) return Math.floor(x / 60) + " min " + Math.floor(x % 60) + " s";
  if (x < 86400) return Math.floor(x / 3600) + " h " + Math.floor((x % 3600) / 60) + " min";
  return Math.floor(x / 86400) + " d " + Math.floor((x % 86400) / 3600) + " h";
};

clutch.percent = (x) => (clutch.isKnown(x) ? Math.round(100 * x) + " %" : "–");

// Of the day; `digits` of the seconds' fraction.
clutch.clock = function (time, digits) {
  const d = new Date(time * 1000);
  const two = (x) => String(x).padStart(2, "0");
  const text = two(d.getHours()) + ":" + two(d.getMinutes()) + ":" + two(d.getSeconds());
  return digits ? text + "." + String(d.getMilliseconds()).padStart(3, "0").slice(0, digits) : text;
};

// ---- elements ----

// An element with a class and text. Labels, calls and hosts are what users wrote: they are text and
// never HTML.
clutch.make = function (tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text !== undefined) e.textContent = text;
  return e;
};

// Text that is there already is not written again: what a screen reader reads goes on, and a
// selection stays.
clutch.write = function (e, text) {
  if (e.textContent !== text) e.textContent = text;
};

clutch.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// The canvas' context in CSS pixels, sharp on any screen; null while it has no size.
clutch.context = function (canvas, height) {
  const width = canvas.clientWidth;
  if (!width) return null;
  const scale = window.devicePixelRatio || 1;
  canvas.style.height = height + "px";
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const ctx = canvas.getContext("2d");
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  ctx.clearRect(0, 0, width, height);
  return ctx;
};

clutch.tip = function (text, x, y) {
  const tip = document.getElementById("tip");
  tip.hidden = !text;
  if (!text) return;
  clutch.write(tip, text);
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, window.innerWidth - box.width - 4)) + "px";
  tip.style.top = (y + 18 + box.height > window.innerHeight ? y - box.height - 8 : y + 18) + "px";
};
