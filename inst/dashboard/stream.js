// The stream of tasks: a row for each node, time from left to right, a box for each task. Of more
// nodes than there is room for, neighbours share a row, and its shade says how busy they were.
"use strict";

clutch.stream = (function () {
  const LEFT = 54, BOTTOM = 20; // room for the names of nodes, and for the time
  const MOST = 360; // height of all rows
  const ROW = 18, LEAST = 5; // height of one row: at its best, and at least
  const FAILED_LEAST = 3; // width of a task that has failed, however short it was
  const SPAN_LEAST = 0.005, SPAN_MOST = 3600; // seconds

  let canvas, says, span = 30, end = null; // null: the time that goes on
  let place = null; // how the last picture was laid out
  let chosen = null; // index of the row
  let drag = null;

  function build(element, saysElement) {
    canvas = element;
    says = saysElement;
    canvas.addEventListener("wheel", (e) => {
      if (!place) return;
      e.preventDefault();
      zoom(Math.pow(1.0015, e.deltaY), timeAt(e.offsetX));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (e) => {
      if (!place) return;
      drag = { x: e.clientX, end: place.end, moved: false };
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", onMove);
    canvas.addEventListener("pointerup", () => { drag = null; });
    canvas.addEventListener("pointercancel", () => { drag = null; });
    canvas.addEventListener("pointerleave", () => clutch.tip(""));
    canvas.addEventListener("keydown", onKey);
  }

  // ---- what the user does ----

  function onMove(e) {
    if (drag) {
      const shift = (e.clientX - drag.x) / place.width * span;
      if (Math.abs(e.clientX - drag.x) > 3) drag.moved = true;
      if (drag.moved) moveTo(drag.end - shift);
      return;
    }
    const found = taskAt(e.offsetX, e.offsetY);
    clutch.tip(found ? describe(found) : "", e.clientX, e.clientY);
  }

  function onKey(e) {
    const keys = {
      ArrowLeft: () => moveTo(place.end - span / 5),
      ArrowRight: () => moveTo(place.end + span / 5),
      ArrowUp: () => chooseRow(-1),
      ArrowDown: () => chooseRow(1),
      "+": () => zoom(1 / 1.5),
      "=": () => zoom(1 / 1.5),
      "-": () => zoom(1.5),
      "0": follow,
      Home: follow,
    };
    if (!place || !keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    keys[e.key]();
  }

  // `around`: the time that stays where it is.
  function zoom(factor, around) {
    const to = Math.min(SPAN_MOST, Math.max(SPAN_LEAST, span * factor));
    const now = clutch.state.snapshot ? clutch.state.snapshot.time : 0;
    const at = end === null ? now : end;
    if (around !== undefined && end !== null) end = around + (at - around) * to / span;
    span = to;
    if (end !== null && end >= now) end = null;
    changed();
  }

  function moveTo(time) {
    end = time >= clutch.state.snapshot.time ? null : time;
    changed();
  }

  function follow() {
    end = null;
    changed();
  }

  function changed() {
    document.getElementById("follow").setAttribute("aria-pressed", String(end === null));
    requestAnimationFrame(draw);
  }

  function chooseRow(by) {
    const n = place.groups.length;
    chosen = chosen === null ? (by > 0 ? 0 : n - 1) : (chosen + by + n) % n;
    draw();
    clutch.write(says, sayRow(place.groups[chosen]));
  }

  function sayRow(group) {
    const tasks = clutch.state.tasks.filter((t) => rowOf(t) === chosen && t.ended > place.begin && t.began < place.end);
    const busy = tasks.reduce((sum, t) => sum + Math.min(t.ended, place.end) - Math.max(t.began, place.begin), 0);
    const failed = tasks.filter((t) => !t.ok).length;
    return group.name + ": " + clutch.count(tasks.length) + " tasks in sight, " + failed + " failed, busy " +
      clutch.percent(busy / span / group.nodes.length) + " of the time";
  }

  // ---- layout ----


  function layOut() {
    const nodes = clutch.shown("nodes");
    const width = canvas.clientWidth - LEFT;
    if (width <= 0 || !nodes.length) return null;
    const each = Math.ceil(nodes.length / Math.floor(MOST / LEAST)); // nodes a row
    const count = Math.ceil(nodes.length / each);
    const row = Math.max(LEAST, Math.min(ROW, Math.floor(MOST / count)));
    const groups = [];
    const rows = new Map();
    for (let k = 0; k < count; k++) {
      const some = nodes.slice(k * each, (k + 1) * each);
      const last = some[some.length - 1];
      groups.push({
        nodes: some,
        name: each === 1 ? "node " + clutch.nodeName(some[0]) : "nodes " + clutch.nodeName(some[0]) + " to " + clutch.nodeName(last),
        label: clutch.nodeName(some[0]),
      });
      for (const n of some) rows.set(clutch.nodeKey(n), k);
    }
    const to = end === null ? clutch.state.snapshot.time : end;
    return { width, row, each, groups, rows, begin: to - span, end: to, height: count * row };
  }

  const rowOf = (t) => place.rows.get(clutch.nodeKey(t));
  const xOf = (time) => LEFT + (time - place.begin) / span * place.width;
  const timeAt = (x) => place.begin + (x - LEFT) / place.width * span;

  // ---- drawing ----

  function draw() {
    if (!clutch.state.snapshot) return;
    place = layOut();
    if (!place) {
      clutch.context(canvas, 60);
      canvas.setAttribute("aria-label", "No nodes");
      return;
    }
    const ctx = clutch.context(canvas, place.height + BOTTOM);
    const colours = { text: clutch.colour("quiet"), line: clutch.colour("line"), failed: clutch.colour("failed"),
      track: clutch.colour("track"), busy: clutch.colour("busy") };
    for (let k = 1; k <= 6; k++) colours[k] = clutch.colour("job" + k);
    ctx.font = "11px system-ui, sans-serif";
    drawTime(ctx, colours);
    drawNames(ctx, colours);
    ctx.save();
    ctx.beginPath();
    ctx.rect(LEFT, 0, place.width, place.height);
    ctx.clip();
    const inSight = place.each === 1 ? drawTasks(ctx, colours) : drawShares(ctx, colours);
    ctx.restore();
    canvas.setAttribute("aria-label", inSight + " tasks of " + clutch.shown("nodes").length + " nodes in " + clutch.seconds(span));
    drawLegend();
  }

  function drawTime(ctx, colours) {
    const most = Math.max(2, Math.floor(place.width / 90));
    const steps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200];
    const step = steps.find((s) => span / s <= most) || 1200;
    const digits = step >= 1 ? 0 : step >= 0.1 ? 1 : step >= 0.01 ? 2 : 3;
    ctx.textAlign = "center";
    ctx.textBaseline = "bottom";
    for (let t = Math.ceil(place.begin / step) * step; t <= place.end; t += step) {
      const x = xOf(t);
      ctx.fillStyle = colours.line;
      ctx.fillRect(x, 0, 1, place.height + 3);
      ctx.fillStyle = colours.text;
      if (x > LEFT + 20 && x < LEFT + place.width - 20) ctx.fillText(clutch.clock(t, digits), x, place.height + BOTTOM - 2);
    }
  }

  function drawNames(ctx, colours) {
    const every = Math.max(1, Math.ceil(13 / place.row));
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    place.groups.forEach((group, k) => {
      if (k === chosen) {
        ctx.fillStyle = colours.track;
        ctx.fillRect(0, k * place.row, LEFT + place.width, place.row);
      }
      ctx.fillStyle = colours.text;
      if (k % every === 0) ctx.fillText(group.label, LEFT - 6, k * place.row + place.row / 2 + (place.row < 13 ? 3 : 0), LEFT - 8);
    });
  }

  // The tasks in sight, and what the nodes are at.
  function visit(what) {
    let n = 0;
    for (const t of clutch.state.tasks) {
      if (t.ended < place.begin || t.began > place.end) continue;
      const row = rowOf(t);
      if (row === undefined) continue;
      n++;
      what(row, t.began, t.ended, t, false);
    }
    const now = clutch.state.snapshot.time;
    for (const node of clutch.shown("nodes")) {
      if (node.state === "busy" && clutch.isKnown(node.since) && node.since < place.end) {
        what(rowOf(node), node.since, now, node, true);
      }
    }
    return n;
  }

  function drawTasks(ctx, colours) {
    const high = place.row > 8 ? place.row - 3 : place.row - 1;
    const until = []; // where the last box of a row ends: what is no wider than a pixel is drawn once
    const failures = [];
    const seen = visit((row, began, ended, t, runs) => {
      const x = xOf(began), wide = Math.max(xOf(ended) - x, 1);
      if (!runs && !t.ok) {
        failures.push([x, row * place.row + 1, Math.max(wide, FAILED_LEAST)]);
        return;
      }
      if (wide <= 1 && Math.floor(x) === until[row]) return;
      until[row] = Math.floor(x);
      ctx.globalAlpha = runs ? 0.5 : 1;
      ctx.fillStyle = clutch.isKnown(t.job) ? colours[clutch.jobColour(t.job)] : colours.text;
      ctx.fillRect(x, row * place.row + 1, wide > 3 ? wide - 0.7 : wide, high);
      ctx.globalAlpha = 1;
    });
    // over all others: most are short
    const mark = clutch.colour("text");
    for (const [x, y, wide] of failures) {
      ctx.fillStyle = colours.failed;
      ctx.fillRect(x, y, wide > 3 ? wide - 0.7 : wide, high);
      // a mark besides the colour
      ctx.fillStyle = mark;
      ctx.fillRect(x, y + high - 3, wide > 3 ? wide - 0.7 : wide, 3);
    }
    return seen;
  }

  // Rows of several nodes: each pixel as dark as its share of busy time.
  function drawShares(ctx, colours) {
    const wide = Math.ceil(place.width), n = place.groups.length;
    const share = new Float32Array(n * wide), bad = new Uint8Array(n * wide);
    const perPixel = span / place.width;
    const seen = visit((row, began, ended, t, runs) => {
      const from = Math.max(0, (began - place.begin) / perPixel), to = Math.min(wide, (ended - place.begin) / perPixel);
      for (let i = Math.floor(from); i < to; i++) share[row * wide + i] += Math.min(to, i + 1) - Math.max(from, i);
      if (!runs && !t.ok) bad[row * wide + Math.min(wide - 1, Math.max(0, Math.floor(to - 1e-9)))] = 1;
    });
    for (let row = 0; row < n; row++) {
      const most = place.groups[row].nodes.length;
      for (let i = 0; i < wide;) { // what is alike goes in one box
        const level = (k) => (bad[row * wide + k] ? -1 : Math.round(8 * Math.min(1, share[row * wide + k] / most)));
        const here = level(i);
        let j = i + 1;
        while (j < wide && level(j) === here) j++;
        if (here !== 0) {
          ctx.globalAlpha = here < 0 ? 1 : here / 8;
          ctx.fillStyle = here < 0 ? colours.failed : colours.busy;
          ctx.fillRect(LEFT + i, row * place.row, here < 0 ? Math.max(2, j - i) : j - i, place.row - 1);
        }
        i = j;
      }
    }
    ctx.globalAlpha = 1;
    return seen;
  }

  // ---- what is where ----

  function taskAt(x, y) {
    if (!place || x < LEFT || y >= place.height) return null;
    const row = Math.floor(y / place.row);
    const slack = span / place.width * 2; // two pixels
    const time = timeAt(x);
    let best = null, far = slack;
    visit((k, began, ended, t, runs) => {
      if (k !== row) return;
      const away = time < began ? began - time : time > ended ? time - ended : 0;
      if (away > far || (best && away === far)) return;
      best = { t, began, ended, runs, group: place.groups[row] };
      far = away;
    });
    if (!best) return { group: place.groups[row] };
    return best;
  }

  function describe(found) {
    if (!found.t) return found.group.name;
    const t = found.t;
    const took = clutch.seconds(found.ended - found.began);
    const lines = [
      clutch.doing(found.runs ? t : { cluster: t.cluster, job: t.job, element: t.element, state: "busy" }),
      "on node " + clutch.nodeName(t),
      found.runs ? "since " + clutch.clock(found.began, 3) + ", for " + took :
        clutch.clock(found.began, 3) + " to " + clutch.clock(found.ended, 3) + ", " + took,
    ];
    if (!found.runs && !t.ok) lines.push("failed");
    if (found.runs && t.call) lines.push(t.call);
    return lines.join("\n");
  }

  function drawLegend() {
    const box = document.getElementById("stream-legend");
    const entries = [];
    if (place.each === 1) {
      const jobs = clutch.shown("jobs").slice(-6);
      for (const j of jobs) entries.push(["job" + clutch.jobColour(j.job), clutch.labelOf(j)]);
    } else {
      entries.push(["busy", "share of " + place.each + " nodes that is busy"]);
    }
    entries.push(["failed", "failed"]);
    const text = entries.map((e) => e.join(" ")).join("|");
    if (box.dataset.text === text) return;
    box.dataset.text = text;
    box.replaceChildren(...entries.map((e) => {
      const entry = clutch.make("span");
      const swatch = clutch.make("span", "swatch");
      swatch.style.background = "var(--" + e[0] + ")";
      entry.append(swatch, document.createTextNode(e[1]));
      return entry;
    }));
  }

  return { build, draw, zoom, follow, tasksInSight: () => (place ? visit(() => {}) : 0), taskAt: (x, y) => { const f = taskAt(x, y); return f ? describe(f) : ""; } };
})();
