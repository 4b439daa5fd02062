"use strict";
// Draws a report from the JSON in this page. No network, no library; every drawing is an SVG or one canvas.
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const main = document.getElementById("main");
  const nav = document.getElementById("nav");

  // ---- small pieces -------------------------------------------------------------------------------------------------
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "class") element.className = value;
      else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else element.setAttribute(key, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };
  const vector = (tag, attributes = {}, ...children) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const number = (value, digits = 3) => {
    if (value === null || value === undefined) return "not finite";
    if (typeof value !== "number") return String(value);
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (Number.isInteger(value) && size < 1e7) return String(value);
    return size >= 1e-3 && size < 1e5 ? String(Number(value.toPrecision(digits + 1))) : value.toExponential(digits - 1);
  };
  const percent = (share) => (share === null ? "not finite" : share < 0.0995 ? (100 * share).toPrecision(2) + " %"
    : share < 1000 ? Math.round(100 * share) + " %" : share.toExponential(1) + " ×");
  const section = (id, title, ...children) => {
    nav.append(make("a", { href: "#" + id }, title));
    const element = make("section", { id }, make("h2", {}, title), ...children);
    main.append(element);
    return element;
  };
  const table = (headings, rows) => make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ...headings.map((heading) => make("th", { scope: "col" }, heading)))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell) => cell instanceof Node
      ? (cell.tagName === "TD" ? cell : make("td", {}, cell))
      : make("td", typeof cell === "number" ? { class: "num" } : { class: "wrap" }, typeof cell === "number" ? number(cell) : String(cell ?? ""))))))));
  const list = (pairs) => make("dl", {}, ...pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined)
    .flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value instanceof Node ? value : String(value))]));
  const verdictWord = (verdict) => make("span", { class: verdict }, verdict);

  // ---- verdict ------------------------------------------------------------------------------------------------------
  const run = report.run || {};
  document.title = `mtpcheck ${report.verb}: ${report.verdict}`;
  document.querySelector(".mark").classList.add(report.verdict);
  const failing = (report.stages || []).filter((stage) => stage.verdict !== "pass");
  const cause = failing.find((stage) => stage.likely_cause);
  section("verdict", "Verdict", make("div", { class: "panel" },
    make("div", { class: "verdict" }, make("strong", { class: report.verdict }, report.verdict.toUpperCase()),
      make("span", { class: "soft" }, report.stages ? `${report.stages.length - failing.length} of ${report.stages.length} stages within their allowance` : report.verb)),
    list([
      ["First divergent stage", report.first_divergent_stage],
      ["First failing in replay", report.first_failing_stage_in_replay],
      ["Likely cause", cause && `${cause.name}: ${cause.likely_cause}`],
      ["Reference", report.sides?.reference?.head], ["Candidate", report.sides?.candidate?.head],
      ["Tokens", report.tokens],
      ["Checkpoint", report.checkpoint?.path], ["Identity", report.checkpoint?.identity],
      ["Command", run.command_line && make("code", {}, run.command_line)],
      ["Repro", run.repro && make("code", {}, run.repro)],
      ["Made by", `mtpcheck ${run.tool_version} on ${run.host}: ${run.processor}, ${run.processors} processors, ${run.system}`],
    ]),
    ...(report.notes || []).map((note) => make("p", { class: "soft" }, note)),
    ...(report.unmatched || []).map((item) => make("p", { class: "fail" },
      `unmatched on the ${item.side}'s side: ${item.name}${item.suggestion ? ` (${item.suggestion}?)` : ""}`))));

  // ---- stage ladder -------------------------------------------------------------------------------------------------
  // Full width is 1.5 times the allowance, so that the mark at two thirds is the allowance itself.
  const allowanceBar = (error) => {
    if (!error || error.allowance_used === undefined) return make("span", { class: "soft" }, "–");
    const used = error.allowance_used === null ? Infinity : error.allowance_used;
    const bar = make("span", { class: "bar" + (error.verdict === "fail" || used > 1 ? " over" : ""), role: "img",
      "aria-label": percent(used) + " of the allowance" }, make("i", { style: `width:${Math.min(100, used / 1.5 * 100)}%` }));
    return make("span", {}, bar, " ", percent(used));
  };
  const flips = (selection) => selection ? `${selection.flipped_rows} of ${selection.rows} rows flipped, ${selection.unexcused_rows} unexcused` : "";
  const histogram = (distribution) => {
    const counts = distribution.histogram.counts;
    const top = Math.max(1, ...counts);
    const width = 320, height = 110, step = width / counts.length;
    const drawing = vector("svg", { viewBox: `0 0 ${width} ${height + 18}`, width: "100%", role: "img",
      "aria-label": "histogram of errors by decade of the stage's RMS" });
    counts.forEach((count, i) => {
      const tall = count ? Math.max(2, Math.log1p(count) / Math.log1p(top) * height) : 0;
      drawing.append(vector("rect", { class: "fill", x: i * step + 1, y: height - tall, width: step - 2, height: tall },
        vector("title", {}, `${count} elements near 1e${distribution.histogram.first_decade + i}`)));
      if (i % 3 === 0) drawing.append(vector("text", { x: i * step, y: height + 14 }, `1e${distribution.histogram.first_decade + i}`));
    });
    drawing.append(vector("line", { class: "axis", x1: 0, x2: width, y1: height, y2: height }));
    return drawing;
  };
  const details = (stage) => {
    const parts = [];
    const d = stage.distribution;
    parts.push(make("div", {}, make("h3", {}, "Error"), list([
      ["reason", stage.reason], ["likely cause", stage.likely_cause],
      ["max / mean / RMS", [stage.max_abs, stage.mean_abs, stage.rms].map((x) => number(x)).join(" / ")],
      ["rounding alone (RMS)", number(stage.rounding_rms)], ["allowance", number(stage.allowance)],
      ["range", number(stage.range)], ["worst row", stage.worst_row >= 0 ? `${stage.worst_row}, ${percent(stage.worst_row_used)} of its limit` : ""],
      ["mask mismatches", stage.mask_mismatches || ""],
      ["replay RMS", stage.replay?.rms !== undefined ? number(stage.replay.rms) : ""], ["choices", flips(stage.selection)],
      ["choices in replay", flips(stage.replay?.selection)],
      ["shape", stage.dimensions.map((name, i) => `${name} ${stage.extents[i]}`).join(" × ")],
    ])));
    if (d) parts.push(make("div", {}, make("h3", {}, "Distribution of errors, by decade of the RMS"), histogram(d), list([
      ["relative p50 / p90 / p99 / p99.9", [d.relative_p50, d.relative_p90, d.relative_p99, d.relative_p999].map((x) => number(x)).join(" / ")],
      ["ULP mean / p99 / max", d.ulp_max >= 0 ? [d.ulp_mean, d.ulp_p99, d.ulp_max].map((x) => number(x)).join(" / ") : ""],
      ["sign flips", d.sign_flips], ["zeros: reference, candidate", `${percent(d.reference_zeros)}, ${percent(d.candidate_zeros)}`],
    ])));
    if (stage.logits) parts.push(make("div", {}, make("h3", {}, "Logits"), list([
      ["KL mean / max (nats)", `${number(stage.logits.kl_mean)} / ${number(stage.logits.kl_max)} at row ${stage.logits.kl_max_row}`],
      ["top-1 / top-5 agreement", `${percent(stage.logits.top1_agreement)} / ${percent(stage.logits.top5_agreement)}`]])));
    if (stage.worst?.length) parts.push(make("div", {}, make("h3", {}, "Worst elements"),
      table([stage.dimensions.join(", "), "reference", "candidate", "difference"], stage.worst.map((w) =>
        [w.coordinates.join(", "), w.reference, w.candidate, w.candidate === null || w.reference === null ? "not finite" : w.candidate - w.reference]))));
    return make("div", { class: "details" }, ...parts);
  };
  if (report.stages) {
    const body = make("tbody", {});
    report.stages.forEach((stage, index) => {
      let open = null;
      const toggle = () => {
        if (open) { open.remove(); open = null; } else {
          open = make("tr", {}, make("td", { colspan: "8" }, details(stage)));
          row.after(open);
        }
        row.setAttribute("aria-expanded", String(open !== null));
      };
      const step = (to) => body.querySelectorAll("tr.stage")[to]?.focus();
      const row = make("tr", { class: "stage", tabindex: "0", "aria-expanded": "false", onclick: toggle, onkeydown: (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
        if (event.key === "ArrowDown") { event.preventDefault(); step(index + 1); }
        if (event.key === "ArrowUp") { event.preventDefault(); step(index - 1); }
      } },
        make("td", { class: "mono" }, stage.name), make("td", {}, verdictWord(stage.verdict)),
        make("td", { class: "flips" }, stage.missing ? "missing" : stage.selection ? flips(stage.selection) : allowanceBar({ ...stage, verdict: stage.cumulative_verdict })),
        make("td", { class: "flips" }, stage.replay?.selection ? flips(stage.replay.selection) : allowanceBar(stage.replay)),
        make("td", { class: "num" }, stage.selection || stage.max_abs === undefined ? "" : number(stage.max_abs)),
        make("td", { class: "num" }, stage.selection || stage.relative_l2 === undefined ? "" : number(stage.relative_l2)),
        make("td", { class: "num" }, stage.selection || stage.cosine_distance === undefined ? "" : number(stage.cosine_distance)),
        make("td", { class: "why" }, stage.likely_cause || stage.reason || (stage.forced ? "selections forced" : "")));
      body.append(row);
    });
    section("stages", "Stage ladder",
      make("p", { class: "soft" }, "In the order of computation. The mark in a bar is the allowance: what rounding to the candidate's precision costs by itself. Enter or a click opens a stage; arrow keys move."),
      make("div", { class: "panel scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...["stage", "verdict",
        "cumulative, of allowance", "replay, of allowance", "max abs", "relative L2", "cosine distance", "why"].map((x) => make("th", { scope: "col" }, x)))), body)));
  }

  // ---- heat map: token × stage --------------------------------------------------------------------------------------
  // One byte a cell: 0 exact, 255 not finite, else 10^((byte − 1) / 24 − 6) of the row's allowance.
  const shareOf = (byte) => (byte === 0 ? 0 : byte === 255 ? Infinity : Math.pow(10, (byte - 1) / 24 - 6));
  const heatColor = (byte) => {
    if (byte === 0) return [127, 140, 150, 40];
    if (byte === 255) return [140, 0, 160, 255];
    const share = Math.log10(shareOf(byte));  // −6 … 4.5; 0 is the allowance
    const over = Math.min(1, Math.max(0, share / 2)), under = Math.min(1, Math.max(0, (share + 4) / 4));
    return share > 0 ? [194 + 50 * over, 70 - 40 * over, 53, 255] : [79 - 50 * (1 - under), 124 + 40 * (1 - under), 172, 40 + 190 * under];
  };
  const profiles = Object.entries(report.profiles || {});
  if (profiles.length) {
    const rows = profiles.map(([name, text]) => ({ name, bytes: Uint8Array.from(atob(text), (c) => c.charCodeAt(0)) }));
    const width = Math.max(...rows.map((row) => row.bytes.length));
    const cell = 14;
    const canvas = make("canvas", { tabindex: "0", role: "img", width: String(width), height: String(rows.length * cell),
      "aria-label": "error of every token at every stage as a share of its allowance; arrow keys move" });
    canvas.style.height = rows.length * cell + "px";
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, rows.length * cell);
    rows.forEach((row, y) => {
      for (let x = 0; x < width; ++x) {
        const color = x < row.bytes.length ? heatColor(row.bytes[x]) : [0, 0, 0, 0];
        for (let line = 0; line < cell - 1; ++line) image.data.set(color, 4 * ((y * cell + line) * width + x));
      }
    });
    context.putImageData(image, 0, 0);
    const readout = make("p", { class: "soft", "aria-live": "polite" }, "Point at a cell, or focus the map and use the arrow keys.");
    let at = [0, 0];
    const show = () => {
      const row = rows[at[1]];
      const byte = row.bytes[at[0]];
      readout.textContent = byte === undefined ? "" : `${row.name}, row ${at[0]}: ${byte === 255 ? "not finite" : percent(shareOf(byte)) + " of the row's allowance"}`;
    };
    canvas.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect();
      at = [Math.min(width - 1, Math.floor((event.clientX - box.left) / box.width * width)),
        Math.min(rows.length - 1, Math.max(0, Math.floor((event.clientY - box.top) / cell)))];
      show();
    });
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!move) return;
      event.preventDefault();
      at = [Math.min(width - 1, Math.max(0, at[0] + move[0])), Math.min(rows.length - 1, Math.max(0, at[1] + move[1]))];
      show();
    });
    section("heat", "Token × stage",
      make("div", { class: "panel" }, make("div", { class: "heat" }, make("ol", { "aria-hidden": "true" }, ...rows.map((row) => make("li", {}, row.name))), canvas),
        make("div", { class: "legend" }, "far below", make("span", { class: "swatch", style: "background:linear-gradient(90deg,#1d6fac33,#4f7cac,#c24635,#f41e35)" }), "far above the allowance"), readout));
  }

  // ---- conventions, findings ----------------------------------------------------------------------------------------
  const reference = report.sides?.reference?.conventions || [];
  const candidate = report.sides?.candidate?.conventions || [];
  if (reference.length) {
    const origin = (side) => side ? `${side.value} (${side.source || side.level})` : "";
    section("conventions", "Conventions", make("div", { class: "panel" }, table(["", "reference", "candidate"], reference.map((mine) => {
      const theirs = candidate.find((other) => other.key === mine.key);
      const differs = theirs && theirs.value !== mine.value;
      return [make("span", { class: "mono" }, mine.key), origin(mine), make("span", differs ? { class: "fail" } : {}, origin(theirs))];
    }))));
  }
  if (report.findings?.length) {
    section("findings", "Findings", make("div", { class: "panel" }, table(["severity", "id", "subject", "what"], report.findings.map((f) =>
      [make("span", { class: f.severity }, f.severity), make("span", { class: "mono" }, f.id), make("span", { class: "mono" }, f.subject), f.message]))));
  }

  // ---- coverage of the experts --------------------------------------------------------------------------------------
  const coverage = report.tables?.coverage;
  if (coverage?.length) {
    const groups = new Map();
    for (const row of coverage) {
      const key = row.param + (row.shard ? " " + row.shard : "");
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(row);
    }
    section("coverage", "Coverage", make("div", { class: "panel" }, ...[...groups].map(([key, rows]) => make("div", {},
      make("h3", { class: "mono" }, key),
      make("div", { class: "grid", role: "img", "aria-label": `${rows.filter((r) => r.covered >= 1).length} of ${rows.length} complete` },
        ...rows.map((r) => make("span", { class: "cell" + (r.covered >= 1 ? "" : r.covered > 0 ? " partial" : " none"),
          title: `${r.expert >= 0 ? "expert " + r.expert + ": " : ""}${percent(r.covered)}` })))))));
  }

  showAcceptance(report, { make, vector, section, table, number });

  // ---- every other table --------------------------------------------------------------------------------------------
  for (const [name, rows] of Object.entries(report.tables || {})) {
    if (name === "coverage" || name === "acceptance" || !rows.length) continue;
    const headings = Object.keys(rows[0]);
    const shown = rows.slice(0, 500);
    section("table-" + name, name.replaceAll("_", " "), make("div", { class: "panel" },
      table(headings, shown.map((row) => headings.map((heading) => row[heading]))),
      rows.length > shown.length ? make("p", { class: "soft" }, `${rows.length - shown.length} more rows in the HDF5 file`) : null));
  }

  // ---- light and dark -----------------------------------------------------------------------------------------------
  document.getElementById("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  });
  document.documentElement.dataset.ready = "true";
})();
