// Who leads, for how long, and how much of its lease is left; and what else the agent says of itself.

import { $, draw, fill, make, set } from "./dom.js";
import { age, at, count, short, span } from "./words.js";
import { say } from "./voice.js";
import { notesOf } from "./members.js";

let told;

export function show(s, look, people) {
  set($("cluster"), s.cluster ?? "");
  const name = s.leader?.name;
  document.title = `${name ? `${name} leads` : "nobody leads"} · ${s.cluster ?? "bully-agent"}`;
  const h1 = $("leader");
  h1.dataset.state = !name ? "none" : s.degraded ? "degraded" : "led";
  set(h1, name ? `${name} leads` : "Nobody leads");
  set($("promise"), `${s.mode} mode: ${s.promise ?? ""}`);
  const now = `${name ?? ""} ${s.epoch?.counter}`;
  if (told !== undefined && told !== now) say(name ? `${name} leads, epoch ${s.epoch?.counter}.` : `Nobody leads: ${s.why_no_leader}.`);
  told = now;
  tick(s, look);
  lease(s);
  notes(s, people);
  facts(s, look);
}

// tick says what changes with time alone.
export function tick(s, look) {
  const parts = [];
  if (s.leader) {
    parts.push(`epoch ${s.epoch?.counter}`);
    if (s.leader_is_self) parts.push(`for ${age(look.now - at(s.since))}`, "this host");
    const without = lacking(s).join(", ");
    if (s.leader_is_self && !s.ready && !s.degraded) parts.push(without ? `without ${without}` : "its become hook has not succeeded yet");
    if (s.degraded) parts.push(`degraded: ${without ? `without ${without}` : s.bars?.length ? "it should not lead now" : "its become hook failed"}, and nobody else can lead`);
  } else if (s.why_no_leader) {
    parts.push(s.why_no_leader);
  }
  if (s.quorum) parts.push(`${s.quorum.have} of ${s.roster?.voters?.length ?? s.expect} voters heard, ${s.quorum.need} needed`);
  if (s.isolated) parts.push("isolated: nobody answers");
  set($("tenure"), parts.join(" · "));
}

// lacking names what the leader must have and has not.
const lacking = (s) => (s.resources ?? []).filter((r) => !r.here && r.on_fail !== "stay").map((r) => r.name);

const KEPT = 72; // samples of the trace
const trace = [];
let most = 0;

// lease draws what was left of it at the last looks. It is renewed many times between two of them, so nothing is made up
// for the time between.
function lease(s) {
  const left = s.lease_remain_ms;
  const leads = left !== null && left !== undefined;
  $("lease").hidden = !leads;
  if (!leads) {
    trace.length = most = 0;
    return;
  }
  trace.push(left);
  if (trace.length > KEPT) trace.shift();
  most = Math.max(most, left);
  set($("lease-left"), span(left));
  $("lease").dataset.low = left < most / 2 ? "yes" : "no";
  const svg = $("lease-trace"), w = 180, h = 34, y = (v) => (h - 2 - (h - 6) * Math.max(v, 0) / (most || 1)).toFixed(1);
  const line = trace.map((v, i) => `${((i + KEPT - trace.length) * (w - 6) / (KEPT - 1)).toFixed(1)},${y(v)}`);
  svg.replaceChildren(
    draw("line", { class: "grid", x1: 0, x2: w, y1: y(0), y2: y(0) }),
    draw("polyline", { class: "trace", points: line.join(" ") }),
    draw("circle", { class: "tip", cx: w - 6, cy: y(left), r: 2.5 }));
}

const MORE = "bully-agent status";
const MOST = 5; // hosts that are named at the top; the list of members has all

// notes are those of this host, and of each other one what this host knows: it says no more than that something is so.
export function notes(s, people) {
  const all = [...(s.notes ?? [])];
  if (s.maintenance) all.unshift(`maintenance on this host: ${s.maintenance.reason || "no reason given"}`);
  if (s.hold_down_ms > 0) all.push(`this host does not lead for ${age(s.hold_down_ms)}`);
  if (s.last_hook && !s.last_hook.ok) all.push(`the last hook failed: ${s.last_hook.event}, epoch ${s.last_hook.epoch?.counter}, exit ${s.last_hook.exit}`);
  const others = (people ?? []).filter((m) => !m.self).map((m) => [m, notesOf(m)]).filter(([, said]) => said.length > 0);
  for (const [m, said] of others.slice(0, MOST)) all.push(`${m.name}: ${said.join(", ")}. ${MORE} there says more.`);
  if (others.length > MOST) all.push(`${count(others.length - MOST, "more host")} with notes: see the members.`);
  const list = $("notes");
  list.hidden = all.length === 0;
  if (list.dataset.all === all.join("\n")) return;
  list.dataset.all = all.join("\n");
  list.replaceChildren(...all.map((text) => make("li", {}, ...withCommand(text))));
}

// withCommand sets the command in a note apart, so that it is not broken between two lines.
function withCommand(text) {
  const at = text.lastIndexOf(MORE);
  return at < 0 ? [text] : [text.slice(0, at), make("code", {}, MORE), text.slice(at + MORE.length)];
}

// facts is the list of what is left. A pair without a value is left out: an agent tells the network less than its socket.
function facts(s, look) {
  const hook = s.last_hook;
  const pairs = {
    role: `${s.role}, ${s.state}, cause ${s.cause}`,
    ready: s.ready ? "yes" : "no",
    uptime: age((s.uptime_seconds ?? 0) * 1000),
    epoch: s.epoch?.counter ? `${s.epoch.counter}, owner ${short(s.epoch.owner)}` : "none known",
    algorithm: `${s.algorithm}, preempt ${s.preempt}, profile ${s.profile}`,
    "last hook": hook ? `${hook.event}, epoch ${hook.epoch?.counter}, ${hook.ok ? "ok" : `exit ${hook.exit}`}, ${span(hook.took_ms)}` : "none yet",
    roster: s.roster ? `version ${s.roster.version}, ${s.roster.formed ? "formed" : "not formed"}: ${(s.roster.voters ?? []).map((v) => v.name || short(v.id)).join(", ")}` : "",
    silent: (s.silent ?? []).join(", "),
    scheduling: s.scheduling?.policy,
    encryption: s.encryption,
    version: s.version,
    id: s.self?.id,
  };
  set($("agent-name"), s.self ? `${s.self.name}, ${s.self.addr}` : "");
  const list = $("agent").querySelector("dl");
  for (const [name, value] of Object.entries(pairs)) {
    let dd = list.querySelector(`dd[data-key="${name}"]`);
    if (!value) {
      dd?.parentNode.remove();
    } else {
      if (!dd) {
        dd = make("dd", { "data-key": name });
        list.append(make("div", {}, make("dt", {}, name), dd));
      }
      set(dd, value);
    }
  }
  checks(s.checks ?? [], look);
  resources(s.resources ?? [], s.leader_is_self);
}

const marks = { passes: "good", fails: "bad" };

// checks shows those of this host, from an agent that has them.
function checks(all, look) {
  const section = $("checks");
  section.hidden = all.length === 0;
  fill(section.querySelector("tbody"), all, (c) => c.name, (c) => [
    { text: c.name, head: true, kind: "name" },
    { text: c.state, more: Number.isFinite(at(c.since)) ? `for ${age(look.now - at(c.since))}` : "", mark: marks[c.state] ?? "odd", kind: "beside" },
    { text: c.why, more: c.state === "fails" ? c.on_fail : "", kind: "what beside" },
  ]);
}

// resources shows what this host has while it leads. That another host has none of it is as it should be.
function resources(all, leads) {
  const section = $("resources");
  section.hidden = all.length === 0;
  fill(section.querySelector("tbody"), all, (r) => `${r.name} ${r.what}`, (r) => [
    { text: r.name, head: true, kind: "name" },
    { text: r.what, kind: "what" },
    { text: r.here ? "here" : "not here", more: r.text, mark: r.here ? "good" : leads ? "bad" : "", kind: "beside" },
  ]);
}
