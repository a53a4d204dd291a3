// The last leaderships: as a table, as lanes along the time, and the times between them.

import { $, draw, fill, sayEmpty, set } from "./dom.js";
import { age, at, clock, count, day, moment, percentile, span } from "./words.js";

const LISTED = 12; // leaderships of the table, and of the lanes unless another range is chosen

// In order, without a failure: the old leader gave it up itself, and said to whom.
const planned = new Set(["leader-resigned", "handed-over", "preempted", "stopped", "stepped-down", "leader-left", "superseded", "handover", "stop"]);

let reigns = [];

export function show(look) {
  if (!look.answer) {
    sayEmpty($("history"), look.problem);
    return;
  }
  reigns = look.answer.map((l) => ({ ...l, start: at(l.from), end: at(l.to) }));
  reigns.forEach((r, i) => {
    const next = reigns[i + 1];
    // Without an end nobody knows how long it was: the agent was away.
    r.gap = next && Number.isFinite(r.end) ? Math.max(next.start - r.end, 0) : NaN;
    r.isPlanned = planned.has(r.ended);
  });
  set($("history-count"), reigns.length ? `${count(reigns.length, "leadership")} known` : "");
  if (reigns.length === 0) sayEmpty($("history"), "Nobody has led yet.");
  list(look.now);
  redraw(look);
}

export function tick(look) {
  if (!look.answer) return;
  list(look.now);
  lanes(look.now);
}

export function redraw(look) {
  lanes(look.now);
  gaps();
}

function list(now) {
  const last = reigns.slice(-LISTED).reverse();
  fill($("history").querySelector("tbody"), last, (r) => `${r.epoch.counter} ${r.epoch.owner}`, (r) => [
    { text: `${r.epoch.counter}`, kind: "right", head: true, title: `owner ${r.epoch.owner}` },
    { text: r.leader.name, more: `${day(r.start, now)} ${clock(r.start)}`, kind: "name fold" },
    { text: clock(r.start, true), more: day(r.start, now), title: r.from, kind: "wide number beside" },
    { text: r.ended && !Number.isFinite(r.end) ? "–" : r.ended ? span(r.end - r.start) : age(now - r.start), kind: "right" },
    { text: r.began, kind: "wide word" },
    { text: r.ended || "still on", mark: r.ended ? (r.isPlanned ? "" : "odd") : "good" },
    { text: Number.isFinite(r.gap) ? span(r.gap) : r.ended ? "–" : "", kind: "right" },
  ], (r) => (r.ended ? "" : "led"));
}

const LANE = 22, FOOT = 20;

// lanes draws a lane for each host that led, and the time without a leader through all of them.
function lanes(now) {
  const svg = $("timeline"), width = svg.clientWidth;
  const shown = chosen(now);
  if (!width || shown.length === 0) return svg.replaceChildren();
  const from = shown[0].start, to = Math.max(now, shown.at(-1).start + 1);
  const names = [...new Set(shown.map((r) => r.leader.name))].sort();
  const side = Math.min(Math.max(...names.map((n) => n.length)) * 7.5 + 10, width / 4);
  const x = (t) => side + (Math.min(Math.max(t, from), to) - from) / (to - from) * (width - side - 2);
  const y = (name) => names.indexOf(name) * LANE + 3;
  const height = names.length * LANE + FOOT;
  svg.setAttribute("height", height);
  const parts = ticks(from, to, Math.max(2, Math.floor(width / 130))).map((t) => draw("g", {},
    draw("line", { class: "grid", x1: x(t), x2: x(t), y1: 0, y2: height - FOOT + 3 }),
    draw("text", { class: "axis", x: Math.min(x(t) + 3, width - 52), y: height - 5 }, clock(t).slice(0, to - from > 600_000 ? 5 : 8))));
  for (const n of names) {
    parts.push(draw("text", { class: "lane", x: 0, y: y(n) + 13 }, n.length * 7.5 > side ? `${n.slice(0, Math.floor(side / 7.5) - 2)}…` : n));
  }
  for (const [i, r] of shown.entries()) {
    const end = Number.isFinite(r.end) ? r.end : r.ended ? (shown[i + 1]?.start ?? to) : to;
    const a = x(r.start), b = Math.max(x(end), a + 2);
    const tip = `${r.leader.name}, epoch ${r.epoch.counter}: ${moment(r.start, now)}, ${r.ended ? `${span(end - r.start)}, then ${r.ended}` : "still on"}`;
    parts.push(draw("rect", { class: r.ended ? "reign" : "reign on", x: a, y: y(r.leader.name), width: b - a, height: LANE - 6, rx: 2 }, draw("title", {}, tip)));
    const label = `${r.epoch.counter}`;
    if (b - a > label.length * 8 + 8) parts.push(draw("text", { class: r.ended ? "inside" : "inside on", x: a + 5, y: y(r.leader.name) + 12 }, label));
    const next = shown[i + 1];
    if (next && Number.isFinite(r.gap) && !r.isPlanned) {
      const mid = x(r.end), wide = Math.max(x(next.start) - mid, 1.5);
      parts.push(draw("rect", { class: "nobody", x: mid, y: 0, width: wide, height: height - FOOT }, draw("title", {}, `nobody led for ${span(r.gap)} after ${r.ended}`)));
    }
  }
  svg.replaceChildren(...parts);
  const current = shown.at(-1);
  svg.setAttribute("aria-label", `${count(shown.length, "leadership")} of ${count(names.length, "host")} in the last ${age(now - from)}; ` +
    (current.ended ? "nobody leads now" : `${current.leader.name} leads since ${moment(current.start, now)}`) + ". The table has them one by one.");
}

// chosen gives the leaderships of the range that is chosen, their begins cut to it.
function chosen(now) {
  const range = $("range").value;
  if (range === "auto") return reigns.slice(-LISTED);
  if (range === "all") return reigns;
  const begin = now - Number(range) * 1000;
  return reigns.filter((r) => !(r.end < begin) || !r.ended).map((r) => ({ ...r, start: Math.max(r.start, begin) }));
}

// ticks gives times at round distances.
function ticks(from, to, most) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800, 2592000];
  const step = (steps.find((s) => (to - from) / 1000 / s <= most) ?? 31536000) * 1000;
  const zone = new Date(to).getTimezoneOffset() * 60_000;
  const all = [];
  for (let t = Math.ceil((from - zone) / step) * step + zone; t < to; t += step) all.push(t);
  return all;
}

const CHANGES = 60; // that the chart shows
const TOP = 8, LOW = 18, HIGH = 112;

// gaps draws the time without a leader at each change, on a scale of powers of ten.
function gaps() {
  const svg = $("gaps"), width = svg.clientWidth;
  const all = reigns.filter((r) => Number.isFinite(r.gap)).slice(-CHANGES);
  const failed = all.filter((r) => !r.isPlanned).map((r) => r.gap);
  const every = all.map((r) => r.gap);
  const words = (values) => `p50 ${span(percentile(values, 0.5))}, most ${span(Math.max(...values))}`;
  const text = all.length === 0 ? "no change of leader yet" : failed.length
    ? `${count(failed.length, "failure")}: ${words(failed)}` + (all.length > failed.length ? ` · ${all.length - failed.length} planned` : "")
    : `${count(all.length, "planned change")}: ${words(every)}`;
  set($("failovers-count"), text);
  svg.setAttribute("aria-label", `Time without a leader at the last changes: ${text}`);
  if (!width || all.length === 0) return svg.replaceChildren();
  svg.setAttribute("height", TOP + HIGH + LOW);
  const decades = Math.max(3, Math.ceil(Math.log10(Math.max(...every, 1))));
  const y = (ms) => TOP + HIGH - Math.log10(Math.max(ms, 1)) / decades * HIGH;
  const side = 46, step = Math.min((width - side - 10) / all.length, 34);
  const parts = [];
  for (let d = 0; d <= decades; d++) {
    parts.push(draw("line", { class: "grid", x1: side, x2: width, y1: y(10 ** d), y2: y(10 ** d) }),
      draw("text", { class: "axis end", x: side - 6, y: y(10 ** d) + 4 }, ["1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s", "17 min", "3 h", "28 h"][d] ?? ""));
  }
  all.forEach((r, i) => {
    const x = side + step * (i + 0.5);
    const tip = draw("title", {}, `${span(r.gap)} after epoch ${r.epoch.counter} of ${r.leader.name}: ${r.ended}`);
    const kind = r.isPlanned ? "planned" : "failed";
    parts.push(draw("g", { class: `gap ${kind}` }, tip, draw("line", { x1: x, x2: x, y1: y(1), y2: y(r.gap) }), draw("circle", { cx: x, cy: y(r.gap), r: 4 })));
    if (step > 24 || i === all.length - 1) parts.push(draw("text", { class: "axis mid", x, y: TOP + HIGH + 14 }, `${r.epoch.counter}`));
  });
  svg.replaceChildren(...parts);
}

$("range").addEventListener("change", () => dispatchEvent(new Event("resize")));
