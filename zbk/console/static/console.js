// Live figures, the chart, the copy button and keys. Without it, every page still works.
"use strict";
(() => {
  const live = document.getElementById("live");
  const pause = document.getElementById("pause");
  const setPaused = (is) => {
    pause.setAttribute("aria-pressed", String(is));
    pause.textContent = is ? "Resume" : "Pause";
  };
  const isPaused = () => pause.getAttribute("aria-pressed") === "true";
  pause.addEventListener("click", () => setPaused(!isPaused()));

  document.getElementById("copy").addEventListener("click", async (event) => {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(document.getElementById("cli").textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(document.getElementById("cli"));
      button.textContent = "Selected";
    }
  });

  const place = document.getElementById("chart");
  let chart = null;
  let data = null;
  let marks = place ? JSON.parse(place.dataset.marks) : [];
  if (place && window.uPlot) {
    const points = JSON.parse(place.dataset.points);
    data = [0, 1, 4, 2, 3].map((n) => points.map((one) => one[n]));
    const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line") } };
    const short = new Intl.NumberFormat("en", { notation: "compact" });
    const counts = { ...axis, size: 56, values: (_chart, ticks) => ticks.map((one) => short.format(one)) };
    const series = (label, name, more) => ({ label, stroke: color(name), width: 1.5, ...more });
    const area = (name, alpha) => ({ fill: color(name) + alpha });
    const pd = (at) => (at === null || data[2][at] === null ? "--" : short.format(data[1][at] - data[2][at]));
    const drawMarks = (drawn) => {
      const { ctx, bbox } = drawn;
      let free = bbox.left;
      ctx.save();
      ctx.setLineDash([4, 4]);
      ctx.font = `${11 * devicePixelRatio}px system-ui`;
      ctx.textAlign = "left";
      for (const [at, kind] of marks.toSorted((one, other) => one[0] - other[0])) {
        const x = drawn.valToPos(at, "x", true);
        if (!(x >= bbox.left && x <= bbox.left + bbox.width)) continue;
        ctx.strokeStyle = ctx.fillStyle = color(["joined", "answers", "writable", "store answers"].includes(kind) ? "--good" : "--bad");
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
        const width = ctx.measureText(kind).width;
        const left = Math.min(x + 4, bbox.left + bbox.width - width);
        if (left < free) continue;
        ctx.fillText(kind, left, bbox.top + 11 * devicePixelRatio);
        free = left + width + 8;
      }
      ctx.restore();
    };
    chart = new uPlot({
      width: place.clientWidth, height: 220, axes: [axis, counts],
      series: [{}, series("PD written /s", "--fill", { ...area("--fill", "33"), value: (_chart, _value, _series, at) => pd(at) }),
        series("VD written /s", "--vd", area("--vd", "66")), series("read /s", "--good"), series("fsyncs /s", "--warn")],
      hooks: { draw: [drawMarks] },
    }, data, place);
    addEventListener("resize", () => chart.setSize({ width: place.clientWidth, height: 220 }));
  }

  let isLoading = false;
  const refresh = async () => {
    // a page that is in use stays as it is
    if (isLoading || live.contains(document.activeElement) || live.matches(":hover")) return;
    if (!live.children.length) return;
    isLoading = true;
    try {
      const answer = await fetch(location.href);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("live");
      const found = page.getElementById("chart");
      if (found) marks = JSON.parse(found.dataset.marks);
      if (answer.ok && fresh && !isPaused()) live.replaceChildren(...fresh.childNodes);
    } catch { /* the stream reconnects by itself, and the page keeps its figures */ } finally {
      isLoading = false;
    }
  };

  let count = 0;
  const stream = new EventSource("/live");
  stream.addEventListener("message", (event) => {
    if (isPaused() || document.hidden) return;
    const now = JSON.parse(event.data);
    if (chart && now.adds_per_s !== null) {
      data[0].push(now.at_ms / 1000);
      data[1].push(now.adds_per_s);
      data[2].push(now.vd_adds_per_s);
      data[3].push(now.reads_per_s);
      data[4].push(now.fsyncs_per_s);
      if (data[0].length > 900) data.forEach((one) => one.shift());
      chart.setData(data);
    }
    count += 1;
    if (count % 2 === 0) refresh();
  });
  addEventListener("pagehide", () => stream.close());

  // g and the first letter of a page, s for data sets, g for logs; j and k: the links of a table; n and p: parts of a list
  const keys = { o: "/", b: "/bookies", l: "/ledgers", d: "/durability", r: "/recovery", p: "/performance", e: "/events", c: "/config", s: "/datasets", g: "/logs" };
  let isGoing = false;
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
    if (isGoing && keys[event.key]) { location.href = keys[event.key]; return; }
    isGoing = event.key === "g";
    const links = [...document.querySelectorAll("td a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "j" && links.length) links[Math.min(at + 1, links.length - 1)].focus();
    if (event.key === "k" && links.length) links[Math.max(at - 1, 0)].focus();
    if (event.key === "n") document.querySelector("a[rel=next]")?.click();
    if (event.key === "p") document.querySelector("a[rel=prev]")?.click();
  });
})();
