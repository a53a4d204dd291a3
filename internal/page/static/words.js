// Times, spans and numbers as people read them.

// span says how long something is, in two units at most.
export function span(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms < 0) ms = 0;
  if (ms < 1) return ms === 0 ? "0 ms" : "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 59.5) return `${Math.round(s)} s`;
  return long(Math.round(s));
}

// age is a span in whole seconds, for what is looked at once a second.
export function age(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  return s < 60 ? `${s} s` : long(s);
}

function long(s) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => s >= size);
  const [name, size] = units[first];
  const [small, smaller] = units[first + 1] ?? ["", 1];
  const rest = Math.floor((s % size) / smaller);
  return `${Math.floor(s / size)} ${name}` + (small && rest ? ` ${rest} ${small}` : "");
}

const two = (n) => String(n).padStart(2, "0");

// clock is the time of day.
export function clock(time, withMs = false) {
  const t = new Date(time);
  const text = `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
  return withMs ? `${text}.${String(t.getMilliseconds()).padStart(3, "0")}` : text;
}

// day is the date if that is another day than now, with the year if that is another one; else nothing.
export function day(time, now) {
  const t = new Date(time), n = new Date(now);
  if (t.toDateString() === n.toDateString()) return "";
  const year = t.getFullYear() === n.getFullYear() ? "" : `${t.getFullYear()}-`;
  return `${year}${two(t.getMonth() + 1)}-${two(t.getDate())}`;
}

// moment is the time of day, after the date if that is another one.
export const moment = (time, now) => `${day(time, now)} ${clock(time)}`.trim();

// at reads a time of the API; NaN for none. Go's zero time is none.
export function at(text) {
  if (!text || text.startsWith("0001-")) return NaN;
  return Date.parse(text);
}

export const count = (n, one, many = one + "s") => `${n} ${n === 1 ? one : many}`;

export const short = (id) => (id ? id.slice(0, 8) : "–");

// rtt says a round trip; 0 is none that was measured.
export function rtt(ms) {
  if (!ms) return "–";
  return ms < 10 ? `${ms.toFixed(2)} ms` : `${Math.round(ms)} ms`;
}

// percentile is the smallest value that the share p of all does not exceed: one that was measured.
export function percentile(values, p) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(Math.ceil(p * sorted.length), 1) - 1];
}
