// The page: asks for events, and writes what they bring. See state.js for what is kept.
"use strict";

(function () {
  const $ = (id) => document.getElementById(id);
  const token = new URLSearchParams(location.search).get("token") || "";
  const page = Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) => b.toString(16)).join("");

  // `seen`: number of the last snapshot; `patience`: seconds without a word after which nobody seems
  // to be there
  let source = null, heard = null, seen = 0, patience = 6, paused = false, problem = null;
  let dirty = true; // something is to be drawn when the page is seen again

  // ---- events ----

  // The server ends each response after one event, and the browser asks again: an "error" of the
  // source is what happens after each. Only silence tells that nobody is there.
  function listen() {
    if (source) source.close();
    source = new EventSource("events?token=" + token + "&page=" + page + "&seen=" + seen);
    const hear = (type, what) => source.addEventListener(type, (e) => {
      heard = Date.now();
      patience = 6;
      problem = null;
      what(e.data);
      seen = e.lastEventId || seen;
    });
    hear("message", (text) => {
      clutch.take(JSON.parse(text));
      show();
    });
    hear("problem", (text) => {
      problem = "The state cannot be read: " + JSON.parse(text);
      showStatus();
    });
    hear("full", (text) => {
      problem = "This cluster is shown in " + text + " pages already. This one shows nothing new until another is closed.";
      patience = 25; // such a page is to ask rarely
      showStatus();
    });
  }

  setInterval(() => {
    showStatus();
    // a browser gives up on some errors for good
    if (!paused && source.readyState === EventSource.CLOSED) listen();
  }, 1000);

  // ---- what is written ----

  function show() {
    if (document.hidden) {
      dirty = true;
      return;
    }
    dirty = false;
    showHeader();
    showStatus();
    showTiles();
    showJobs();
    clutch.stream.draw();
    clutch.charts.draw();
    clutch.nodes.update();
    showEvents();
    fillTable($("hosts"), hostColumns, 2, clutch.state.snapshot.hosts);
    const actors = clutch.shown("actors");
    $("actors-section").hidden = !actors.length;
    fillTable($("actors"), actorColumns, 3, actors);
  }

  function showHeader() {
    const s = clutch.state.snapshot, session = s.session;
    const parts = !session ? [] : ["Session " + session.pid + " of " + session.user + " on " + session.host, "R " + session.r,
      "since " + clutch.clock(session.since)];
    clutch.write($("session"), parts.join(" · "));
    const choice = $("cluster");
    const names = s.clusters.map((c) => String(c.cluster));
    $("cluster-choice").hidden = names.length < 2;
    if (choice.dataset.names !== names.join()) {
      choice.dataset.names = names.join();
      choice.replaceChildren(option("", "all"), ...s.clusters.map((c) => option(String(c.cluster), c.cluster + (c.name ? ": " + c.name : ""))));
      if (!names.includes(clutch.state.cluster)) clutch.choose("");
      choice.value = clutch.state.cluster;
    }
  }

  function option(value, text) {
    const e = clutch.make("option", "", text);
    e.value = value;
    return e;
  }

  const sessionStates = {
    running: "The session computes.", sleeping: "The session waits.", stopped: "The session is stopped by a signal; its nodes go on.",
  };

  function statusNow() {
    const s = clutch.state.snapshot;
    const silent = heard === null ? 0 : (Date.now() - heard) / 1000;
    const session = s && s.session ? s.session.state : "";
    if (session === "ended") return ["ended", "The session has ended. This is the last state, of " + clutch.clock(s.time) + "."];
    if (paused && s) return ["note", "Paused: this is the state of " + clutch.clock(s.time) + "."];
    if (heard !== null && silent > patience) {
      return ["lost", "No answer for " + clutch.seconds(silent) + ": the session has ended, or what observes it." +
        (s ? " This is the last state, of " + clutch.clock(s.time) + "." : "")];
    }
    if (problem) return ["note", problem];
    if (!s) return ["wait", "Waiting for the first data …"];
    const clusters = clutch.shown("clusters");
    if (clusters.length && clusters.every((c) => c.stopped)) {
      return ["ended", (clusters.length > 1 ? "All clusters were" : "The cluster was") + " stopped. This is " +
        (clusters.length > 1 ? "their" : "its") + " last state, of " + clutch.clock(s.time) + "."];
    }
    const kind = session === "stopped" ? "note" : "live";
    return [kind, (sessionStates[session] || "The session is there.") + " State of " + clutch.clock(s.time) + "."];
  }

  function showStatus() {
    const now = statusNow();
    $("status").dataset.kind = now[0];
    clutch.write($("status"), now[1]);
  }

  function showTiles() {
    const nodes = clutch.shown("nodes"), jobs = clutch.shown("jobs");
    const count = (state) => nodes.filter((n) => n.state === state).length;
    const others = ["held", "idle", "starting", "cut", "dead"].filter((s) => count(s)).map((s) => count(s) + " " + s);
    const rates = clutch.rates("done");
    const recent = rates.slice(-4);
    const rate = recent.length ? recent.reduce((sum, p) => sum + p.value, 0) / recent.length : null;
    const open = jobs.filter((j) => j.ended === null);
    const left = open.map(clutch.timeLeft).filter(clutch.isKnown);
    const limited = nodes.filter((n) => n.limit > 0);
    const fullest = limited.reduce((a, n) => (!a || n.memory / n.limit > a.memory / a.limit ? n : a), null);
    const failed = clutch.sum(nodes, "failed"), deaths = clutch.sum(nodes, "deaths"), retries = clutch.sum(jobs, "retries");
    const bytes = clutch.rates("bytes").slice(-4);
    tile("busy", "Busy nodes", count("busy") + " of " + nodes.length, others.join(", ") || "all");
    tile("rate", "Tasks a second", clutch.number(rate), clutch.count(clutch.sum(nodes, "done")) + " done");
    tile("queue", "Waiting", clutch.count(clutch.sum(open, "queued")),
      left.length ? clutch.seconds(Math.max(...left)) + " left" : open.length ? "time left not known" : "nothing to do");
    tile("memory", "Own memory", clutch.bytes(clutch.sum(nodes, "memory")),
      fullest ? "most: " + clutch.percent(fullest.memory / fullest.limit) + " of its limit, node " + clutch.nodeName(fullest) : "no limits");
    tile("cpu", "Cores in use", clutch.number(clutch.sum(nodes, "cpu")), "by " + nodes.length + " nodes");
    tile("bad", "Failed tasks", clutch.count(failed), clutch.plural(deaths, "death") + ", " + clutch.plural(retries, "retry", "retries"), failed > 0 || deaths > 0);
    tile("bytes", "Bytes a second", bytes.length ? clutch.bytes(bytes.reduce((sum, p) => sum + p.value, 0) / bytes.length) : "–",
      clutch.bytes(clutch.sum(nodes, "sent")) + " sent, " + clutch.bytes(clutch.sum(nodes, "received")) + " received");
    const busy = count("busy");
    document.title = busy + " busy · " + document.querySelector("h1").textContent;
  }

  function tile(id, name, value, more, bad) {
    let box = $("tile-" + id);
    if (!box) {
      box = clutch.make("div", "tile");
      box.id = "tile-" + id;
      box.append(clutch.make("dt", "", name), clutch.make("dd", "value"), clutch.make("dd", "more"));
      $("tiles").append(box);
    }
    box.dataset.kind = bad ? "bad" : "";
    clutch.write(box.children[1], value);
    clutch.write(box.children[2], more);
  }

  // Those that go on first, the newest first among equals; at most 50.
  function showJobs() {
    const order = (j) => (j.ended === null ? 1 : 0);
    const jobs = clutch.shown("jobs").sort((a, b) => order(b) - order(a) || b.since - a.since).slice(0, 50);
    const box = $("jobs");
    if (!jobs.length) {
      box.replaceChildren(clutch.make("p", "none", "No map and no task yet. Calls of package parallel show in the nodes only."));
      return;
    }
    if (box.firstChild && !box.firstChild.dataset.job) box.replaceChildren();
    while (box.children.length > jobs.length) box.lastChild.remove();
    while (box.children.length < jobs.length) box.append(makeJob());
    jobs.forEach((j, k) => fillJob(box.children[k], j));
  }

  function makeJob() {
    const e = clutch.make("div", "job");
    const line = clutch.make("div", "line");
    const label = clutch.make("span", "label");
    label.append(clutch.make("span", "swatch"), clutch.make("span"));
    line.append(label, clutch.make("span", "numbers"));
    const bar = clutch.make("div", "bar");
    bar.setAttribute("role", "progressbar");
    bar.append(clutch.make("span", "done"), clutch.make("span", "failed"), clutch.make("span", "running"));
    e.append(line, bar, clutch.make("div", "quiet"));
    return e;
  }

  function fillJob(e, j) {
    e.dataset.job = clutch.jobKey(j);
    e.className = j.ended === null ? "job" : "job over";
    const label = e.children[0].children[0];
    label.children[0].style.background = "var(--job" + clutch.jobColour(j.job) + ")";
    const several = clutch.state.snapshot.clusters.length > 1 && clutch.state.cluster === "";
    clutch.write(label.children[1], (several ? "cluster " + j.cluster + ": " : "") + clutch.labelOf(j));
    const ended = j.done + j.failed;
    const left = clutch.timeLeft(j);
    const now = clutch.state.snapshot.time;
    const when = j.ended !== null ? "took " + clutch.seconds(j.ended - j.since) :
      left === null ? "for " + clutch.seconds(now - j.since) : clutch.seconds(left) + " left";
    clutch.write(e.children[0].children[1], clutch.count(ended) + " of " + clutch.count(j.total) + " · " + when);
    const share = (x) => 100 * x / Math.max(1, j.total) + "%";
    const bar = e.children[1];
    bar.setAttribute("aria-valuenow", ended);
    bar.setAttribute("aria-valuemax", j.total);
    bar.setAttribute("aria-label", clutch.labelOf(j));
    bar.children[0].style.width = share(j.done);
    bar.children[1].style.width = share(j.failed);
    bar.children[2].style.width = share(j.running);
    const parts = [clutch.count(j.running) + " running", clutch.count(j.queued) + " waiting", clutch.count(j.failed) + " failed",
      clutch.plural(j.retries, "retry", "retries"), clutch.number(clutch.jobRate(j)) + " a second", "since " + clutch.clock(j.since)];
    clutch.write(e.children[2], (j.ended === null ? parts : parts.slice(2)).join(" · "));
  }

  function showEvents() {
    const events = clutch.shown("events").slice().reverse();
    const box = $("events");
    const last = events[0];
    const mark = clutch.state.cluster + "/" + events.length + "/" + (last ? last.time + last.kind + last.node + last.text : "");
    if (box.dataset.mark === mark) return;
    box.dataset.mark = mark;
    if (!events.length) {
      box.replaceChildren(clutch.make("li", "none", "Nothing has happened."));
      return;
    }
    box.replaceChildren(...events.map((e) => {
      const item = clutch.make("li");
      const kind = clutch.make("span", "kind", e.kind + (clutch.isKnown(e.node) ? ", node " + clutch.nodeName(e) : ""));
      kind.dataset.kind = e.kind;
      item.append(clutch.make("time", "", clutch.clock(e.time)), kind, clutch.make("span", "text", e.text));
      return item;
    }));
  }

  const hostColumns = [
    ["Host", (h) => h.host], ["State", (h) => h.state], ["Nodes", (h) => clutch.count(h.nodes)],
    ["Load", (h) => clutch.number(h.load)], ["Memory", (h) => clutch.bytes(h.memory)],
    ["Free memory", (h) => clutch.bytes(h.memory_free)], ["Sent", (h) => clutch.bytes(h.sent)],
    ["Received", (h) => clutch.bytes(h.received)], ["Round trip", (h) => clutch.seconds(h.round_trip)],
  ];

  const actorColumns = [
    ["Actor", (a) => a.label], ["State", (a) => a.state],
    ["At", (a) => (a.waits_for ? "waits for " + a.waits_for : a.method)], ["Waiting", (a) => clutch.count(a.queue)],
    ["Done", (a) => clutch.count(a.done)], ["At work", (a) => clutch.seconds(a.busy)],
    ["Restarts", (a) => clutch.count(a.restarts)], ["Process", (a) => (clutch.isKnown(a.pid) ? String(a.pid) : "–")],
  ];

  // Columns from `numbers` on are numbers.
  function fillTable(table, columns, numbers, rows) {
    if (!table.rows.length) {
      const head = table.createTHead().insertRow();
      columns.forEach((c, k) => head.append(clutch.make("th", k >= numbers ? "right" : "", c[0])));
      for (const cell of head.cells) cell.scope = "col";
      table.append(clutch.make("tbody"));
    }
    const body = table.tBodies[0];
    while (body.rows.length > rows.length) body.deleteRow(-1);
    while (body.rows.length < rows.length) {
      const row = body.insertRow();
      columns.forEach((c, k) => row.append(clutch.make("td", k >= numbers ? "right" : "")));
    }
    rows.forEach((x, i) => columns.forEach((c, k) => clutch.write(body.rows[i].cells[k], c[1](x))));
  }

  // ---- what the user does ----

  // What happens meanwhile is there after the pause, as far as the server still has it.
  function pause() {
    paused = !paused;
    $("pause").setAttribute("aria-pressed", String(paused));
    clutch.write($("pause"), paused ? "Go on" : "Pause");
    if (paused) {
      source.close();
    } else {
      heard = Date.now();
      listen();
    }
    showStatus();
  }

  // "": as the system is set
  function setTheme(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    try {
      if (theme) sessionStorage.setItem("theme", theme);
    } catch (e) {
      // some panes allow no storage: then a reload forgets the choice
    }
    clutch.write($("theme"), isDark() ? "Light" : "Dark");
    if (clutch.state.snapshot) show();
  }
  function isDark() {
    const theme = document.documentElement.dataset.theme;
    return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function storedTheme() {
    try {
      return sessionStorage.getItem("theme") || "";
    } catch (e) {
      return "";
    }
  }

  clutch.nodes.build($("nodes"), $("overview"));
  clutch.charts.build($("charts"));
  clutch.stream.build($("stream"), $("stream-says"));
  $("pause").addEventListener("click", pause);
  $("theme").addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
  $("zoom-in").addEventListener("click", () => clutch.stream.zoom(1 / 1.5));
  $("zoom-out").addEventListener("click", () => clutch.stream.zoom(1.5));
  $("follow").addEventListener("click", () => clutch.stream.follow());
  $("node-state").addEventListener("change", () => clutch.state.snapshot && clutch.nodes.update());
  $("node-find").addEventListener("input", () => clutch.state.snapshot && clutch.nodes.update());
  $("cluster").addEventListener("change", (e) => {
    clutch.choose(e.target.value);
    show();
  });
  document.addEventListener("keydown", (e) => {
    if (e.target.matches("input, select, textarea") || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "p") pause();
    if (e.key === "t") setTheme(isDark() ? "light" : "dark");
  });
  document.addEventListener("visibilitychange", () => dirty && clutch.state.snapshot && show());
  window.addEventListener("resize", () => clutch.state.snapshot && requestAnimationFrame(show));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(""));
  setTheme(storedTheme());
  listen();
})();
