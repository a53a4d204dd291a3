// Where the page's knowledge comes from: questions that are asked again and again, and one stream of events. A tab that
// nobody sees asks nothing.

const PATIENCE = 3000; // ms for an answer
const SLOWEST = 5000; // ms between questions to somebody who does not answer
const STALE_AFTER = 3500; // ms without any answer; the status is asked for each second

// seen waits until somebody sees the tab.
const seen = () => new Promise((go) => {
  if (!document.hidden) return go();
  document.addEventListener("visibilitychange", function look() {
    if (document.hidden) return;
    document.removeEventListener("visibilitychange", look);
    go();
  });
});

// One question at a time: a viewer then costs the agent two connections, this one and the stream's.
let line = Promise.resolve();

// heard is when the agent answered last, whatever it was asked. If it says nothing, all that is shown is old.
let heard = -Infinity;

export const silence = () => performance.now() - heard;
export const isStale = () => silence() > STALE_AFTER;

// A Look asks one question every so many ms, sooner if nudged, and keeps the last answer.
export class Look {
  constructor(path, every, tell) {
    Object.assign(this, { path, every, tell, answer: null, problem: "", answered: -Infinity, took: NaN, ahead: 0 });
    this.run();
  }

  async run() {
    for (let pause = this.every; ; ) {
      await seen();
      const good = await this.ask();
      this.tell(this);
      pause = good ? this.every : Math.min(Math.max(pause, 500) * 2, SLOWEST);
      await new Promise((wake) => {
        this.wake = wake;
        setTimeout(wake, pause);
      });
    }
  }

  ask() {
    return (line = line.then(() => this.question()));
  }

  async question() {
    const begun = performance.now();
    try {
      const reply = await fetch(this.path, { signal: AbortSignal.timeout(PATIENCE), cache: "no-store" });
      const answer = await reply.json();
      if (!reply.ok) throw new Error(answer.error ?? `${reply.status}`);
      this.answer = answer;
      this.took = performance.now() - begun;
      this.answered = heard = performance.now();
      const date = Date.parse(reply.headers.get("Date") ?? "");
      if (Number.isFinite(date)) this.sync(date);
      this.problem = "";
    } catch (problem) {
      this.problem = problem instanceof TypeError || problem.name === "TimeoutError" ? "no answer" : problem.message;
    }
    return this.problem === "";
  }

  // sync keeps by how much the agent's clock is ahead of ours. Its Date has whole seconds, so that it reads up to one too low.
  sync(date) {
    const low = date - Date.now(), high = low + 1000;
    if (this.ahead < low || this.ahead > high) this.ahead = (low + high) / 2;
  }

  nudge() {
    this.wake?.();
  }

  // answeredAt is the agent's time of the last answer.
  get answeredAt() {
    return Date.now() + this.ahead - (performance.now() - this.answered);
  }

  // isOld: this question is not answered, though others may be.
  get isOld() {
    return isStale() || performance.now() - this.answered > this.every + STALE_AFTER;
  }

  // now is the agent's time; it stands still while nothing is heard.
  get now() {
    return Date.now() + this.ahead - (isStale() && Number.isFinite(heard) ? silence() : 0);
  }
}

const AGAIN = 2000; // ms until a stream that was refused is asked for again

// A Stream hands on the events of an agent's life, each once and in order. The browser resumes where it broke off
// (Last-Event-ID); what comes twice is dropped by its number.
export class Stream {
  constructor(path, tell, changed) {
    Object.assign(this, { path, tell, changed, last: 0, life: "", state: "connecting" });
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", () => this.open());
    this.open();
  }

  open() {
    if (this.source || document.hidden) return;
    const source = (this.source = new EventSource(this.path));
    source.onopen = () => this.is("live");
    source.onmessage = (message) => this.take(message);
    source.onerror = () => {
      this.is("broken");
      if (source.readyState !== EventSource.CLOSED || this.source !== source) return;
      this.close(); // refused: the browser does not try again by itself
      setTimeout(() => this.open(), AGAIN);
    };
  }

  close() {
    this.source?.close();
    this.source = undefined;
  }

  is(state) {
    if (this.state === state) return;
    this.state = state;
    this.changed(state);
  }

  take(message) {
    let event;
    try {
      event = JSON.parse(message.data);
    } catch {
      return; // not an event of ours
    }
    const life = message.lastEventId.split(".")[0];
    if (life !== this.life) {
      this.life = life; // another life of the agent counts from 1 again
      this.last = 0;
    }
    if (event.seq <= this.last) return;
    const missed = this.last && event.seq - this.last - 1;
    this.last = event.seq;
    this.tell(event, missed);
  }
}
