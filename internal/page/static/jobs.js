// The singleton jobs: what each does now, how its last run ended, and when the next one begins.

import { $, fill, sayEmpty, set } from "./dom.js";
import { age, at, count, moment, span } from "./words.js";

const good = new Set(["succeeded"]);

export function show(look) {
  if (!look.answer) {
    sayEmpty($("jobs"), look.problem);
    return;
  }
  const running = look.answer.filter((j) => j.state === "running").length;
  set($("jobs-count"), look.answer.length ? `${count(look.answer.length, "job")}, ${running} running` : "");
  if (look.answer.length === 0) sayEmpty($("jobs"), "No jobs are configured.");
  tick(look);
}

export function tick(look) {
  if (look.answer) fill($("jobs").querySelector("tbody"), look.answer, (j) => j.name, (j) => row(j, look.now));
}

function row(j, now) {
  const last = j.last, run = j.open?.at(-1), next = at(j.next?.[0]);
  const state = [j.state];
  if (j.why) state.push(j.why);
  const began = run && at(run.started);
  return [
    { text: j.name, more: `${j.schedule}${j.timezone && j.timezone !== "UTC" ? ` ${j.timezone}` : ""}`, head: true, kind: "name" },
    { text: state.join(", "), more: run ? `${run.host}, attempt ${run.attempt}${Number.isFinite(began) ? `, ${age(now - began)}` : ""}` : "",
      mark: j.state === "running" ? "good" : j.state === "idle" ? "" : "odd" },
    last ? { text: `${last.outcome}${last.exit ? `, exit ${last.exit}` : ""}`, mark: good.has(last.outcome) ? "good" : "bad",
      more: `${last.host}, ${moment(at(last.ended), now)}${Number.isFinite(at(last.started)) ? `, took ${span(at(last.ended) - at(last.started))}` : ""}`, title: last.run }
      : { text: "none known" },
    { text: j.paused ? "paused" : !Number.isFinite(next) ? "none" : next <= now ? "due" : `in ${age(next - now + 999)}`, more: Number.isFinite(next) ? moment(next, now) : "" },
  ];
}
