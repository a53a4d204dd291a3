// A lab's own part: its agents' processes and cables, and a button for each thing that can be done to one. The token that
// lets one press them came in the address, behind the #, and is sent in a header that no other page can send.

import { Look } from "./feed.js";
import { $, fill, make, set } from "./dom.js";

const KEY = "bully-lab-token";

if (location.hash.length > 1) {
  sessionStorage.setItem(KEY, location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
}
const token = sessionStorage.getItem(KEY) ?? "";

const nodes = new Look("lab/nodes", 500, show);
const columns = ["Agent", "Process", "Cable", "Do to it"];
const message = make("p", { id: "lab-message", role: "status" });
const section = make("section", { id: "lab", "aria-labelledby": "lab-title" },
  make("h2", { id: "lab-title" }, "Lab ", make("span", { class: "aside" }, "real agents on this machine; what you do to them is real")),
  make("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": "lab-title" },
    make("table", {}, make("thead", {}, make("tr", {}, ...columns.map((c) => make("th", { scope: "col" }, c)))), make("tbody"))),
  message);
$("main").prepend(section);
set($("gaps-meaning"), "From the fault, or else from the begin of the old leader's lose hook, to the begin of the next one's become hook, on one clock. Below: the epoch that ended.");
set(document.querySelector("footer p"), "The buttons change the lab's agents and nothing else on this machine.");
if (!token) set(message, "The buttons need the address that the lab has printed, with all that follows the #.");

const orders = [
  ["kill", "Kill", (n) => n.pid], ["stop", "Stop", (n) => n.pid && n.state !== "paused"],
  ["pause", "Pause", (n) => n.pid && n.state !== "paused", ["continue", "Continue", (n) => n.state === "paused"]],
  ["cut", "Cut", (n) => n.cable === "in", ["plug", "Plug in", (n) => n.cable === "pulled"]], ["restart", "Restart", (n) => !n.pid],
  ["handover", "Hand over", (n) => n.leads],
];

function show() {
  const list = nodes.answer;
  if (!list) return set(message, nodes.problem);
  fill(section.querySelector("tbody"), list, (n) => n.name, (n) => [
    { text: n.name, head: true, kind: "word" },
    { text: n.state, more: n.pid ? `pid ${n.pid}` : "", mark: n.state === "running" ? "good" : n.pid ? "odd" : n.state === "exit status 0" ? "gone" : "bad", kind: "beside" },
    { text: n.cable === "pulled" ? "pulled" : n.cable || "none", mark: n.cable === "pulled" ? "bad" : "" },
  ]);
  for (const n of list) buttons([...section.querySelectorAll("tbody tr")].find((row) => row.dataset.key === n.name), n);
}

// buttons makes those of a row once; later it only says which may be pressed, so that the focus stays.
function buttons(row, n) {
  let cell = row.cells[columns.length - 1];
  if (!cell) {
    cell = row.insertCell();
    cell.append(make("div", { class: "orders" }, ...orders.map(() => make("button", { type: "button" }))));
  }
  orders.forEach(([first, label, may, other], i) => {
    const isOther = other?.[2](n);
    const button = cell.firstChild.children[i];
    set(button, isOther ? other[1] : label);
    button.setAttribute("aria-label", `${button.textContent} ${n.name}`);
    const reason = first === "cut" && !n.cable ? "an agent has a cable with --netns, as root" : "";
    if (button.title !== reason) button.title = reason;
    button.disabled = !token || !(isOther || may(n));
    button.onclick = () => press(n.name, isOther ? other[0] : first);
  });
}

async function press(node, order) {
  try {
    const reply = await fetch("lab/act", { method: "POST", headers: { "Content-Type": "application/json", "Bully-Lab-Token": token }, body: JSON.stringify({ node, do: order }) });
    const answer = await reply.json();
    set(message, reply.ok ? "" : answer.error);
  } catch (problem) {
    set(message, `not done: ${problem.message}`);
  }
  nodes.nudge();
}
