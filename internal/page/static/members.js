// Who is there, in the order in which they would lead.

import { $, fill, sayEmpty, set } from "./dom.js";
import { age, count, rtt } from "./words.js";

const marks = { alive: "good", suspect: "odd", dead: "bad", left: "gone", told: "odd" };

export function show(look, status) {
  const all = look.answer;
  if (!all) {
    sayEmpty($("members"), look.problem);
    return;
  }
  const list = ranked(all, status?.algorithm === "smallest");
  const alive = list.filter((m) => m.status === "alive").length;
  set($("members-count"), `${alive} of ${count(list.filter((m) => m.status !== "left" && m.status !== "told").length, "member")} alive`);
  fill($("members").querySelector("tbody"), list, (m) => m.id, row, (m) => (m.leader ? "led" : m.status === "left" ? "gone" : ""));
}

// ranked sorts as the election does: by priority, then by id; who cannot lead comes last.
function ranked(all, smallest) {
  const way = smallest ? -1 : 1;
  const order = (a, b) => way * (b.priority - a.priority || (b.id < a.id ? -1 : 1));
  const may = (m) => m.role === "voter" && m.status !== "left";
  const first = all.filter(may).sort(order).map((m, i) => ({ ...m, rank: i + 1 }));
  return [...first, ...all.filter((m) => !may(m)).sort(order)];
}

// notesOf is what a person should know of a member, a few words each.
export function notesOf(m) {
  const notes = [];
  if (m.status === "alive" && m.maintenance !== undefined) notes.push(m.maintenance ? `maintenance: ${m.maintenance}` : "maintenance");
  else if (m.status === "alive" && m.voter && m.draining) notes.push("cannot lead now");
  if (m.mute) notes.push("does not answer the election");
  if (m.relayed) notes.push("reached by other hosts alone");
  if (m.outside && m.status !== "left") notes.push("outside the roster");
  return [...notes, ...(m.notes ?? [])];
}

function row(m) {
  const notes = notesOf(m);
  const status = [m.status];
  if (m.leader) status.push("leader");
  if (m.self) status.push("this host");
  status.push(...notes);
  return [
    { text: m.rank ? `${m.rank}` : "–", kind: "right" },
    { text: m.name, more: m.addr, head: true, title: m.id, kind: "name fold" },
    { text: m.addr, kind: "wide word" },
    { text: `${m.priority}`, kind: "right roomy" },
    { text: m.role, kind: "wide" },
    { text: m.self ? "–" : rtt(m.rtt_ms), kind: "right" },
    { text: m.self || m.heard_ms === undefined ? "–" : `${age(m.heard_ms)} ago`, kind: "right wide" },
    { text: status.join(", "), mark: m.status === "alive" && notes.length ? "odd" : marks[m.status] ?? "odd", kind: "status" },
  ];
}
