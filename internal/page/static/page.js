// The page: which question goes to which part of it, and what a change has others asked again.

import { Look, Stream, isStale, silence } from "./feed.js";
import { $, set } from "./dom.js";
import { clock, span } from "./words.js";
import { say } from "./voice.js";
import * as leader from "./leader.js";
import * as members from "./members.js";
import * as history from "./history.js";
import * as jobs from "./jobs.js";
import * as events from "./events.js";

const BRISK = 250; // ms between two looks at a lease that runs
const CALM = 1000;

const status = new Look("v1/status", CALM, () => {
  const s = status.answer;
  if (s) {
    status.every = s.lease_remain_ms === null || s.lease_remain_ms === undefined ? CALM : BRISK;
    leader.show(s, status, people.answer);
  }
  tell();
});
const people = new Look("v1/members", CALM, () => {
  members.show(people, status.answer);
  if (status.answer) leader.notes(status.answer, people.answer);
});
const past = new Look("v1/history", 10_000, () => history.show(past));
const work = new Look("v1/jobs", 2_000, () => jobs.show(work));
const stream = new Stream("v1/events", hear, () => tell());
const looks = { members: people, history: past, failovers: past, jobs: work, checks: status, resources: status, agent: status };

const SETTLED = 1200; // ms: the agent has written down by then what an event began
const again = { transition: [status, people, past], leader: [status, people, past], member: [people, status], link: [status], check: [status, people], resource: [status], hook: [status], job: [work] };

let later;

function hear(event, missed) {
  events.add(event, missed, status.now);
  for (const look of again[event.type] ?? []) look.nudge();
  clearTimeout(later);
  later = setTimeout(() => [people, past, work].forEach((look) => look.nudge()), SETTLED);
}

// tell shows whether what is seen is true now. Every part knows the age of its own answer.
let was = "connecting";

function tell() {
  const state = Number.isFinite(status.answered) ? (isStale() ? "stale" : stream.state === "live" ? "live" : "half") : "connecting";
  const texts = {
    connecting: status.problem ? `no answer from this agent yet: ${status.problem}` : "connecting",
    live: `live, answers in ${span(status.took)}`,
    half: "live, but events do not come: trying again",
    stale: `stale: no answer for ${Math.round(silence() / 1000)} s, trying again`,
  };
  set($("link-text"), texts[state]);
  $("link").dataset.state = state;
  document.documentElement.dataset.state = state;
  for (const [id, look] of Object.entries(looks)) {
    const old = look.isOld && Number.isFinite(look.answered);
    $(id).classList.toggle("stale", old);
    set($(id).querySelector(".asof"), old ? `as of ${clock(look.answeredAt)}` : "");
  }
  const lost = stream.state !== "live" && Number.isFinite(status.answered);
  $("events").classList.toggle("stale", lost);
  set($("events").querySelector(".asof"), lost ? "not live" : "");
  if (state === was) return;
  if (state === "stale") say("Connection lost. What the page shows is old.");
  if (was === "stale") say("Connected again.");
  was = state;
}

// Once a second what counts time moves on, if it may.
setInterval(() => {
  tell();
  if (status.answer) leader.tick(status.answer, status);
  history.tick(past);
  jobs.tick(work);
}, 1000);

addEventListener("resize", () => history.redraw(past));
