// What a screen reader says by itself: leaders that change and a connection that goes, and never more than one sentence
// in some seconds. What comes faster than that is left out except for the newest.

import { $ } from "./dom.js";

const PAUSE = 4000; // ms. Arbitrary: a sentence takes about as long to say

let waiting, quiet = 0;

export function say(text) {
  const now = performance.now();
  if (waiting !== undefined || now < quiet) {
    if (waiting === undefined) setTimeout(speak, quiet - now);
    waiting = text;
    return;
  }
  waiting = text;
  speak();
}

function speak() {
  $("voice").textContent = waiting;
  waiting = undefined;
  quiet = performance.now() + PAUSE;
}
