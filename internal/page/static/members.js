// Who is there, in the order in which they would lead.

import { $, fill, sayEmpty, set } from "./dom.js";
import { age, count, rtt } from "./words.js";

const marks = { alive: "good", suspect: "odd", dead: "bad", left: "gone" };

export function show(look, status) {
  const all = look.answer;
  if (!all) {
    sayEmpty($("members"), look.problem);
    return;
  }
  const list = ranked(all, status?.algorithm === "smallest");
  const alive = list.filter((m) => m.status === "alive").length;
  set($("members-count"), `${alive} of ${count(list.filter((m) => m.status !== "left").length, "member")} alive`);
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

function row(m) {
  const status = [m.status];
  if (m.leader) status.push("leader");
  if (m.self) status.push("this host");
  if (m.mute) status.push("does not answer the election");
  if (m.relayed) status.push("reached by other hosts alone");
  if (m.maintenance !== undefined) status.push(m.maintenance ? `maintenance: ${m.maintenance}` : "maintenance");
  else if (m.draining) status.push("cannot lead now");
  if (m.outside && m.status !== "left") status.push("outside the roster");
  return [
    { text: m.rank ? `${m.rank}` : "–", kind: "right" },
    { text: m.name, more: m.addr, head: true, title: m.id, kind: "name fold" },
    { text: m.addr, kind: "wide word" },
    { text: `${m.priority}`, kind: "right" },
    { text: m.role, kind: "wide" },
    { text: m.self ? "–" : rtt(m.rtt_ms), kind: "right" },
    { text: m.self || m.heard_ms === undefined ? "–" : `${age(m.heard_ms)} ago`, kind: "right wide" },
    { text: status.join(", "), mark: m.status === "alive" && (m.draining || m.mute || m.maintenance !== undefined) ? "odd" : marks[m.status] ?? "odd", kind: "status" },
  ];
}
