// The nodes: a table of which only the rows in sight are in the page, so that a thousand are no
// slower than ten; above many of them a picture with a cell for each.
"use strict";

clutch.nodes = (function () {
  const ROW = 30; // CSS pixels
  const OVERVIEW_FROM = 33; // nodes

  // `show`: on screens of which width. `value`: what is sorted by.
  const columns = [
    { id: "node", title: "Node", value: (n) => n.cluster * 1e7 + n.node, text: clutch.nodeName },
    { id: "state", title: "State", value: (n) => n.state, text: (n) => n.state },
    { id: "doing", title: "Does", value: clutch.doing },
    { id: "since", title: "For", number: true, value: forTime, text: (n) => clutch.seconds(forTime(n)) },
    { id: "call", title: "R call", show: "wide", value: (n) => n.call || "", text: (n) => n.call || "" },
    { id: "cpu", title: "CPU", number: true, show: "mid", value: (n) => n.cpu, text: (n) => clutch.percent(n.cpu) },
    { id: "memory", title: "Memory", number: true, value: (n) => n.memory, text: memoryText },
    { id: "done", title: "Done", number: true, show: "wide", value: (n) => n.done, text: (n) => clutch.count(n.done) },
    { id: "failed", title: "Failed", number: true, show: "wide", value: (n) => n.failed, text: (n) => clutch.count(n.failed) },
    { id: "deaths", title: "Deaths", number: true, show: "wide", value: (n) => n.deaths, text: (n) => clutch.count(n.deaths) },
    { id: "host", title: "Host", show: "wide", value: (n) => n.host, text: (n) => n.host },
  ];

  let by = "node", down = false, chosen = null;
  let list = []; // the nodes of the table, in its order
  const pool = []; // elements of rows, used again
  let body, rows, top, grid, overview, cells = null;

  function forTime(n) {
    const since = clutch.sinceWhen(n);
    return since === null ? null : clutch.state.snapshot.time - since;
  }
  function memoryText(n) {
    const text = clutch.bytes(n.memory);
    return clutch.isKnown(n.limit) ? text + " of " + clutch.bytes(n.limit) : text;
  }
  const keyOf = (n) => n.cluster + " " + n.node;

  // ---- the table ----

  function build(parent, canvas) {
    overview = canvas;
    grid = clutch.make("div", "grid");
    grid.setAttribute("role", "grid");
    grid.setAttribute("aria-labelledby", "nodes-title");
    top = clutch.make("div", "top row");
    top.setAttribute("role", "row");
    for (const c of columns) {
      const cell = makeCell(c, "columnheader");
      const button = clutch.make("button", "", c.title);
      button.type = "button";
      button.title = "Sort by this";
      button.addEventListener("click", () => sortBy(c.id));
      cell.append(button);
      cell.dataset.column = c.id;
      top.append(cell);
    }
    body = clutch.make("div", "body");
    body.tabIndex = 0;
    body.setAttribute("role", "rowgroup");
    rows = clutch.make("div", "rows");
    rows.setAttribute("role", "presentation");
    body.append(rows);
    grid.append(top, body);
    parent.append(grid);
    body.addEventListener("scroll", () => requestAnimationFrame(drawRows));
    body.addEventListener("keydown", onKey);
    rows.addEventListener("click", (e) => {
      const row = e.target.closest(".row");
      if (row) choose(list[row.dataset.index]);
    });
    overview.addEventListener("pointermove", (e) => {
      const n = nodeAt(e);
      clutch.tip(n ? describe(n) : "", e.clientX, e.clientY);
    });
    overview.addEventListener("pointerleave", () => clutch.tip(""));
    overview.addEventListener("click", (e) => choose(nodeAt(e)));
  }

  function makeCell(c, role) {
    const width = c.show === "wide" ? " wide-only" : c.show === "mid" ? " mid-only" : "";
    const cell = clutch.make("div", "cell" + (c.number ? " number" : "") + width);
    cell.setAttribute("role", role);
    return cell;
  }

  function sortBy(id) {
    down = by === id ? !down : columns.find((c) => c.id === id).number === true;
    by = id;
    update();
  }

  function onKey(e) {
    const at = list.findIndex((n) => keyOf(n) === chosen);
    const page = Math.max(1, Math.floor(body.clientHeight / ROW) - 1);
    const to = {
      ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: list.length - 1,
    }[e.key];
    if (e.key === "Escape") choose(null);
    if (to === undefined || !list.length) return;
    e.preventDefault();
    choose(list[Math.max(0, Math.min(list.length - 1, to))]);
  }

  function choose(n) {
    chosen = n ? keyOf(n) : null;
    const at = n ? list.indexOf(n) : -1;
    if (at >= 0) {
      if (at * ROW < body.scrollTop) body.scrollTop = at * ROW;
      if ((at + 1) * ROW > body.scrollTop + body.clientHeight) body.scrollTop = (at + 1) * ROW - body.clientHeight;
    }
    update();
  }

  // ---- drawing ----

  function update() {
    const all = clutch.shown("nodes");
    const state = document.getElementById("node-state").value;
    const find = document.getElementById("node-find").value.trim().toLowerCase();
    list = all.filter((n) => (!state || n.state === state) && (!find || textOf(n).includes(find)));
    const c = columns.find((x) => x.id === by);
    const sign = down ? -1 : 1;
    list.sort((a, b) => sign * compare(c.value(a), c.value(b)) || columns[0].value(a) - columns[0].value(b));
    for (const cell of top.children) {
      const how = cell.dataset.column !== by ? "none" : down ? "descending" : "ascending";
      cell.setAttribute("aria-sort", how);
      const title = columns.find((x) => x.id === cell.dataset.column).title;
      clutch.write(cell.firstChild, title + (how === "none" ? "" : down ? " ▾" : " ▴"));
    }
    grid.setAttribute("aria-rowcount", list.length + 1);
    rows.style.height = list.length * ROW + "px";
    body.style.height = Math.min(list.length * ROW, 14 * ROW) + 1 + "px";
    drawRows();
    drawOverview(all);
    drawDetail(all.find((n) => keyOf(n) === chosen));
  }

  const textOf = (n) => [clutch.nodeName(n), n.state, clutch.doing(n), n.call, n.host, n.pid].join(" ").toLowerCase();

  // What is not known comes last in either order.
  function compare(a, b) {
    if (!clutch.isKnown(a) || !clutch.isKnown(b)) {
      const order = clutch.isKnown(a) ? -1 : clutch.isKnown(b) ? 1 : 0;
      return down ? -order : order;
    }
    return a < b ? -1 : a > b ? 1 : 0;
  }

  function drawRows() {
    const first = Math.max(0, Math.floor(body.scrollTop / ROW) - 2);
    const last = Math.min(list.length, Math.ceil((body.scrollTop + body.clientHeight) / ROW) + 2);
    while (pool.length < last - first) pool.push(makeRow());
    pool.forEach((row, k) => {
      const n = list[first + k];
      row.hidden = first + k >= last;
      if (!row.hidden) fillRow(row, n, first + k);
    });
  }

  function makeRow() {
    const row = clutch.make("div", "row");
    row.setAttribute("role", "row");
    for (const c of columns) {
      const cell = makeCell(c, "gridcell");
      if (c.id === "state") {
        const state = clutch.make("span", "state");
        state.append(clutch.make("i"), clutch.make("span"));
        cell.append(state);
      } else if (c.id === "doing") {
        // the number of the element stays in sight, however long the label is
        const box = clutch.make("span", "doing");
        box.append(clutch.make("span"), clutch.make("span"));
        cell.append(box);
      } else if (c.id === "memory") {
        const box = clutch.make("span", "memory");
        const track = clutch.make("b");
        track.append(clutch.make("u"));
        box.append(track, clutch.make("span"));
        cell.append(box);
      }
      row.append(cell);
    }
    rows.append(row);
    return row;
  }

  function fillRow(row, n, index) {
    row.dataset.index = index;
    row.dataset.node = keyOf(n);
    row.style.transform = "translateY(" + index * ROW + "px)";
    row.setAttribute("aria-rowindex", index + 2);
    row.setAttribute("aria-selected", String(keyOf(n) === chosen));
    columns.forEach((c, k) => {
      const cell = row.children[k];
      if (c.id === "state") {
        cell.firstChild.dataset.state = n.state;
        clutch.write(cell.firstChild.lastChild, n.state);
      } else if (c.id === "doing") {
        clutch.write(cell.firstChild.firstChild, clutch.doing(n, true));
        clutch.write(cell.firstChild.lastChild, clutch.isKnown(n.element) ? "#" + clutch.count(n.element) : "");
      } else if (c.id === "memory") {
        fillMemory(cell.firstChild, n);
      } else {
        clutch.write(cell, c.text(n));
      }
    });
    row.children[2].title = clutch.doing(n);
    row.children[4].title = n.call || "";
  }

  function fillMemory(box, n) {
    const share = clutch.isKnown(n.limit) ? Math.min(1, (n.memory || 0) / n.limit) : null;
    const fill = box.firstChild.firstChild;
    box.firstChild.hidden = share === null;
    fill.style.width = 100 * (share || 0) + "%";
    fill.className = share > 0.85 ? "high" : "";
    box.title = memoryText(n);
    clutch.write(box.lastChild, clutch.bytes(n.memory));
  }

  function describe(n) {
    const parts = ["node " + clutch.nodeName(n) + " on " + n.host + ": " + n.state];
    if (clutch.doing(n)) parts.push(clutch.doing(n) + ", for " + clutch.seconds(forTime(n)));
    if (n.given) parts.push("has " + n.given);
    if (n.call) parts.push(n.call);
    parts.push("memory " + memoryText(n));
    return parts.join("\n");
  }

  function drawDetail(n) {
    const box = document.getElementById("node-detail");
    box.hidden = !n;
    if (!n) return;
    const values = [
      ["Node", clutch.nodeName(n) + " on " + n.host + ", process " + n.pid],
      ["State", n.state + (clutch.sinceWhen(n) === null ? "" : " since " + clutch.clock(clutch.sinceWhen(n)))],
      ["Does", clutch.doing(n) || "nothing"],
      ["R call", n.call || "not known"],
      ["Given", n.given || "nothing"],
      ["CPU, memory", clutch.percent(n.cpu) + " of a core, " + memoryText(n)],
      ["Tasks", clutch.count(n.done) + " done, " + clutch.count(n.failed) + " failed; " + clutch.plural(n.deaths, "death")],
      ["Bytes", clutch.bytes(n.sent) + " sent to it, " + clutch.bytes(n.received) + " received"],
    ];
    while (box.children.length < 2 * values.length) box.append(clutch.make("dt"), clutch.make("dd"));
    values.forEach((v, k) => {
      clutch.write(box.children[2 * k], v[0]);
      clutch.write(box.children[2 * k + 1], v[1]);
    });
  }

  // ---- a cell for each node ----

  function drawOverview(all) {
    overview.hidden = all.length < OVERVIEW_FROM;
    cells = null;
    if (overview.hidden) return;
    const width = overview.clientWidth;
    if (!width) return;
    const size = all.length > 400 ? 13 : 18;
    const across = Math.max(1, Math.floor(width / size));
    const ctx = clutch.context(overview, Math.ceil(all.length / across) * size);
    cells = { all, size, across };
    const colours = {};
    for (const s of ["busy", "held", "idle", "starting", "cut", "dead", "text"]) colours[s] = clutch.colour(s);
    all.forEach((n, i) => drawCell(ctx, n, (i % across) * size + 1, Math.floor(i / across) * size + 1, size - 3, colours));
    const counts = {};
    for (const n of all) counts[n.state] = (counts[n.state] || 0) + 1;
    overview.setAttribute("aria-label", "Each node as a cell: " +
      Object.keys(counts).map((s) => counts[s] + " " + s).join(", "));
  }

  // A shape for each state, for who does not see the colours apart.
  function drawCell(ctx, n, x, y, side, colours) {
    const colour = colours[n.state] || colours.idle;
    ctx.fillStyle = ctx.strokeStyle = colour;
    ctx.lineWidth = 1.5;
    if (n.state === "busy") {
      ctx.fillRect(x, y, side, side);
    } else if (n.state === "held") {
      ctx.fillRect(x, y, side / 3, side);
      ctx.fillRect(x + side - side / 3, y, side / 3, side);
    } else if (n.state === "dead") {
      line(ctx, x, y, x + side, y + side);
      line(ctx, x, y + side, x + side, y);
    } else {
      ctx.strokeRect(x + 0.75, y + 0.75, side - 1.5, side - 1.5);
      if (n.state === "cut") line(ctx, x, y + side, x + side, y);
      if (n.state === "starting") ctx.fillRect(x + side / 2 - 1.5, y + side / 2 - 1.5, 3, 3);
    }
    if (keyOf(n) !== chosen) return;
    ctx.strokeStyle = colours.text;
    ctx.lineWidth = 2;
    ctx.strokeRect(x - 1, y - 1, side + 2, side + 2);
  }

  function line(ctx, x1, y1, x2, y2) {
    ctx.beginPath();
    ctx.moveTo(x1, y1);
    ctx.lineTo(x2, y2);
    ctx.stroke();
  }

  function nodeAt(e) {
    if (!cells) return null;
    const box = overview.getBoundingClientRect();
    const column = Math.floor((e.clientX - box.left) / cells.size);
    const row = Math.floor((e.clientY - box.top) / cells.size);
    return column < cells.across ? cells.all[row * cells.across + column] || null : null;
  }

  return { build, update };
})();
