// What happens, as it happens, the newest first.

import { $, fill, set } from "./dom.js";
import { at, clock, count, day } from "./words.js";
import { say } from "./voice.js";

const KEPT = 300; // rows. Arbitrary; the agent keeps 1000 events

const bad = new Set(["warning"]);
let all = []; // newest first
let held = 0; // that came while the list is held still
let now = Date.now();
let drawing = false;

export function add(event, missed, time) {
  now = time;
  if (missed) all.unshift({ type: "gap", key: `gap ${event.seq}`, text: `${count(missed, "event")} missed: this page was away for too long`, time: event.time });
  all.unshift({ ...event, key: `${event.time} ${event.seq}` });
  all.length = Math.min(all.length, KEPT);
  if (event.type === "hook" && / failed|did not/.test(event.text)) say(event.text);
  if (isHeld()) held++;
  if (drawing) return;
  drawing = true; // a burst is drawn once
  requestAnimationFrame(() => {
    drawing = false;
    show();
  });
}

const isHeld = () => $("hold").getAttribute("aria-pressed") === "true";

function show() {
  set($("events-count"), count(all.length, "event"));
  set($("hold"), isHeld() && held ? `Held still, ${held} new` : isHeld() ? "Held still" : "Hold still");
  if (isHeld()) return;
  const kind = $("kind").value;
  const list = all.filter((e) => !kind || e.type === kind || (kind === "transition" && e.type === "leader") || (kind === "warning" && e.type === "link"));
  fill($("events").querySelector("tbody"), list, (e) => e.key, (e) => [
    { text: clock(at(e.time), true), more: day(at(e.time), now), title: e.time, kind: "number when beside" },
    { text: e.type, kind: "word wide" },
    { text: words(e), more: e.cause, mark: bad.has(e.type) ? "bad" : "", kind: "what beside" },
  ], (e) => (e.role === "leader" && e.type === "transition" ? "led" : ""));
}

// words is the event's text, and of a change of leader who it is and in which epoch.
function words(e) {
  const parts = [e.text];
  if (e.type === "transition" && e.leader && !e.text.includes(e.leader)) parts.push(e.leader);
  if (e.type === "transition" && e.epoch?.counter) parts.push(`epoch ${e.epoch.counter}`);
  return parts.join(", ");
}

$("kind").addEventListener("change", show);
$("hold").addEventListener("click", () => {
  $("hold").setAttribute("aria-pressed", isHeld() ? "false" : "true");
  held = 0;
  show();
});
