// The acceptance section of a report's page: curves by depth and by position, a table of all series, and how to read them.
"use strict";
const showAcceptance = (report, { make, vector, section, table, number }) => {
  const tables = report.tables || {};
  const rowsOf = (name, series) => (tables[name] || []).filter((row) => row.series === series);
  const percent = (share) => `${(100 * share).toFixed(2)} %`;
  const points = (row, kind) => `${row[kind + "_difference"] >= 0 ? "+" : ""}${(100 * row[kind + "_difference"]).toFixed(2)} points [${(100 * row[kind + "_low"]).toFixed(2)}, ${(100 * row[kind + "_high"]).toFixed(2)}], p ${number(row[kind + "_p"])}`;
  const words = { greedy: "greedy", expected: "rejection sampling" };

  // One line, with a band where there are intervals. points: {y, low, high, label, title}
  const curve = (line, label) => {
    const width = 420, height = 240, left = 44, bottom = 30;
    const x = (i) => left + (line.length < 2 ? 0.5 : i / (line.length - 1)) * (width - left - 24), y = (v) => 10 + (1 - v) * (height - bottom - 10);
    const drawing = vector("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": label });
    for (let tick = 0; tick <= 1.0001; tick += 0.25) {
      drawing.append(vector("line", { class: "axis", x1: left, x2: width - 14, y1: y(tick), y2: y(tick) }),
        vector("text", { x: 8, y: y(tick) + 4 }, `${Math.round(100 * tick)} %`));
    }
    if (line.length > 1) {
      const banded = line.every((p) => p.low !== undefined);
      const band = line.map((p, i) => `${x(i)},${y(p.high)}`).concat(line.map((p, i) => `${x(i)},${y(p.low)}`).reverse());
      if (banded) drawing.append(vector("polygon", { class: "band", points: band.join(" ") }));
      drawing.append(vector("polyline", { class: "line", points: line.map((p, i) => `${x(i)},${y(p.y)}`).join(" ") }));
    }
    line.forEach((p, i) => drawing.append(vector("circle", { class: "fill", cx: x(i), cy: y(p.y), r: 4 }, vector("title", {}, p.title)),
      vector("text", { x: x(i) - 4, y: height - 10 }, p.label)));
    return drawing;
  };

  const byDepth = (name, rows, kind) => {
    const sound = rows.filter((row) => row[kind + "_sound"]);
    if (!sound.length) return null;
    return make("div", {}, make("h3", {}, `${words[kind]}, by depth`), curve(sound.map((row) => ({
      y: row[kind + "_rate"], low: row[kind + "_low"], high: row[kind + "_high"], label: String(row.depth),
      title: `depth ${row.depth}: ${percent(row[kind + "_rate"])} [${percent(row[kind + "_low"])}, ${percent(row[kind + "_high"])}]` })),
    `${words[kind]} acceptance of ${name} by depth`));
  };

  const byPosition = (name, kind) => {
    const groups = rowsOf("acceptance_groups", name).filter((row) => row.by === "position" && row.depth === 1);
    if (groups.length < 2 || groups[0][kind + "_rate"] === undefined) return null;
    return make("div", {}, make("h3", {}, `${words[kind]} at depth 1, by position`), curve(groups.map((row) => {
      const range = row.group.split("-").map(Number);
      return { y: row[kind + "_rate"], label: String(range[0]), title: `positions ${range.join(" to ")}: ${percent(row[kind + "_rate"])} of ${row.drafted}` };
    }), `${words[kind]} acceptance of ${name} by position`));
  };

  const depthTable = (rows, kinds) => table(["depth", ...kinds.flatMap((kind) => [words[kind], "95 %", "length"]), "note"],
    rows.map((row) => [row.depth, ...kinds.flatMap((kind) => {
      const counts = kind === "greedy" ? `${number(row.accepted)} / ${number(row.drafted)}` : `${row.expected_sum.toFixed(2)} / ${number(row.expected_rows)}`;
      const bounds = kind === "expected" && row.expected_bound_high > row.expected_bound_low
        ? `, between ${percent(row.expected_bound_low)} and ${percent(row.expected_bound_high)}` : "";
      return [`${percent(row[kind + "_rate"])} (${counts})${bounds}`, `${(100 * row[kind + "_low"]).toFixed(2)} – ${(100 * row[kind + "_high"]).toFixed(2)}`, row[kind + "_length"] ?? ""];
    }), [row.greedy_note, row.expected_note].filter(Boolean).join("; ")]));

  const classTable = (name, kinds) => {
    const groups = rowsOf("acceptance_groups", name).filter((row) => row.by === "token class" && row.depth === 1);
    return groups.length ? table(["token class", "drafts", ...kinds.map((kind) => words[kind])],
      groups.map((row) => [row.group, row.drafted, ...kinds.map((kind) => percent(row[kind + "_rate"]))])) : null;
  };

  // A line a series: the sweep at a glance.
  const overview = (series, kinds) => table(
    ["series", "depth", ...kinds.flatMap((kind) => [words[kind], "against the first"]), "loop", "speed-up"],
    [...series].flatMap(([name, rows]) => rows.map((row) => {
      const paired = rowsOf("acceptance_paired", name).find((one) => one.depth === row.depth);
      const loop = row.depth === 1 ? rowsOf("acceptance_loop", name).find((one) => one.name === "tokens per step") : null;
      const speedup = rowsOf("acceptance_speedup", name).find((one) => one.depth === row.depth);
      return [row.depth === 1 ? name : "", row.depth, ...kinds.flatMap((kind) => [
        percent(row[kind + "_rate"]) + (row[kind + "_sound"] ? "" : " (see note)"), paired ? points(paired, kind) : ""]),
      loop ? `${loop.verification} ${number(loop.value)}` : "", speedup ? kinds.map((kind) => (speedup[kind + "_sound"] ? number(speedup[kind]) : "–")).join(" / ") : ""];
    })));

  const guide = () => make("details", { class: "panel" }, make("summary", {}, "How to read these curves"),
    table(["what you see", "where to look first"], [
      ["depth 1 near 0", "the head is not the trained one: an unassigned head or embedding, [embed ‖ hidden] flipped, tokens not shifted: audit, then compare"],
      ["depth 1 lower by 2 to 10 points", "one wrong convention or scale: RoPE pairing, a missing sink or gate, scales ignored or transposed: compare, replay view"],
      ["depth 1 fine, a fall at depth 2", "what is recycled between steps: hidden state, position, top-k buffer: compare --steps 2"],
      ["a fall with position in the sequence", "RoPE scaling, the indexer's top-k, positions that ignore rejected tokens"],
      ["greedy unchanged, rejection sampling lower", "a small bias in the logits: a missing clamp, sink, normalisation"],
      ["neither changes", "proves nothing: several real faults stay below both; compare decides"]]));

  const acceptance = tables.acceptance;
  if (!acceptance?.length) return;
  const series = new Map();
  for (const row of acceptance) {
    if (!series.has(row.series)) series.set(row.series, []);
    series.get(row.series).push(row);
  }
  const kinds = ["greedy", "expected"].filter((kind) => acceptance[0][kind + "_rate"] !== undefined);
  const panels = series.size > 1 ? [make("div", { class: "panel" }, make("h3", {}, "All series"), overview(series, kinds))] : [];
  for (const [name, rows] of series) {
    panels.push(make("div", { class: "panel" }, make("h3", { class: "mono" }, name),
      make("div", { class: "details" }, ...kinds.map((kind) => byDepth(name, rows, kind)), ...kinds.map((kind) => byPosition(name, kind))),
      depthTable(rows, kinds), classTable(name, kinds)));
  }
  section("acceptance", "Acceptance", guide(), ...panels);
};
