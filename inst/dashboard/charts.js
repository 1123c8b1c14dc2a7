// Small charts of how numbers went on: one line each, the last value and the highest as text.
"use strict";

clutch.charts = (function () {
    const levels = (name) => () => clutch.state.history.map((p) => ({ time: p.time, value: p[name] }));
  const kinds = [
    { id: "throughput", title: "Tasks a second", points: () => clutch.rates("done"), text: clutch.number },
    { id: "busy", title: "Busy nodes", points: levels("busy"), text: clutch.count },
    { id: "cpu", title: "Cores in use", points: levels("cpu"), text: clutch.number },
    { id: "memory", title: "Memory", points: levels("memory"), text: clutch.bytes },
    { id: "bytes", title: "Bytes a second", points: () => clutch.rates("bytes"), text: clutch.bytes },
  ];
  const SPAN_LEAST = 20, SPAN_MOST = 300; // seconds
  const HEIGHT = 64;

  function build(parent) {
    for (const kind of kinds) {
      const box = clutch.make("div", "chart");
      const line = clutch.make("div", "line");
      kind.says = clutch.make("strong");
      line.append(clutch.make("span", "", kind.title), kind.says);
      kind.canvas = clutch.make("canvas");
      kind.canvas.setAttribute("role", "img");
      kind.most = clutch.make("div", "quiet");
      box.append(line, kind.canvas, kind.most);
      box.id = "chart-" + kind.id;
      parent.append(box);
    }
  }

  function draw() {
    for (const kind of kinds) drawOne(kind);
  }

  function drawOne(kind) {
    const points = kind.points();
    const last = points.length ? points[points.length - 1] : null;
    const most = points.reduce((m, p) => Math.max(m, p.value), 0);
    const says = last ? kind.text(last.value) : "–";
    clutch.write(kind.says, says);
    clutch.write(kind.most, points.length > 1 ? "most: " + kind.text(most) + " in " + clutch.seconds(last.time - points[0].time) : "");
    kind.canvas.setAttribute("aria-label", kind.title + ": " + says + ", most " + kind.text(most));
    const ctx = clutch.context(kind.canvas, HEIGHT);
    if (!ctx) return;
    const width = kind.canvas.clientWidth;
    ctx.fillStyle = clutch.colour("line");
    ctx.fillRect(0, HEIGHT - 1, width, 1);
    if (points.length < 2) return;
    const span = Math.min(SPAN_MOST, Math.max(SPAN_LEAST, last.time - points[0].time));
    const x = (p) => width - (last.time - p.time) / span * width;
    const y = (p) => HEIGHT - 2 - (most > 0 ? p.value / most : 0) * (HEIGHT - 6);
    ctx.beginPath();
    points.forEach((p, i) => (i ? ctx.lineTo(x(p), y(p)) : ctx.moveTo(x(p), y(p))));
    ctx.lineWidth = 1.5;
    ctx.lineJoin = "round";
    ctx.strokeStyle = clutch.colour("busy");
    ctx.stroke();
    ctx.lineTo(x(last), HEIGHT - 1);
    ctx.lineTo(x(points[0]), HEIGHT - 1);
    ctx.closePath();
    ctx.globalAlpha = 0.15;
    ctx.fillStyle = clutch.colour("busy");
    ctx.fill();
    ctx.globalAlpha = 1;
  }

  return { build, draw };
})();
