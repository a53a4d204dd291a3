// What keeps somebody from reading or using this page: a list of complaints. After the rules of WCAG 2.2 that a program can
// decide, as axe does: 1.1.1, 1.3.1, 1.4.3, 1.4.10, 1.4.11 (in part), 2.1.1, 2.4.1, 2.4.2, 2.4.6, 3.1.1, 4.1.2.
(() => {
  const found = [];
  const say = (node, text) => found.push(`${path(node)}: ${text}`);
  const path = (n) => n.id ? `#${n.id}` : `${n.parentElement ? path(n.parentElement) + " > " : ""}${n.tagName.toLowerCase()}`;
  const isShown = (n) => n.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && n.getClientRects().length > 0;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const root = document.documentElement;

  // Language, title, landmarks, headings, ids.
  if (!root.lang) say(root, "no language");
  if (!document.title.trim()) say(root, "no title");
  if (all("main").length !== 1) say(root, `${all("main").length} main landmarks`);
  if (all("header").length < 1) say(root, "no banner");
  if (all("h1").length !== 1) say(root, `${all("h1").length} headings of the first level`);
  let level = 0;
  for (const h of all("h1, h2, h3, h4, h5, h6").filter(isShown)) {
    if (Number(h.tagName[1]) > level + 1) say(h, `its level follows ${level}`);
    level = Number(h.tagName[1]);
    if (!h.textContent.trim()) say(h, "an empty heading");
  }
  const ids = new Set();
  for (const n of all("[id]")) {
    if (ids.has(n.id)) say(n, "its id is there twice");
    ids.add(n.id);
  }

  // A name for whatever can be used, is a picture or a part.
  const name = (n) => {
    const by = (n.getAttribute("aria-labelledby") ?? "").split(/\s+/).filter(Boolean);
    for (const id of by) if (!document.getElementById(id)) say(n, `aria-labelledby names ${id}, which is not there`);
    return (by.map((id) => document.getElementById(id)?.textContent ?? "").join(" ") || n.getAttribute("aria-label") || [...(n.labels ?? [])].map((l) => l.textContent).join(" ") ||
      n.getAttribute("alt") || (n.matches("a, button, summary") ? n.textContent : "") || "").trim();
  };
  for (const n of all("a[href], button, select, input, textarea, summary, img, [role=img], [role=region], section, [tabindex='0']")) {
    if (!name(n)) say(n, "it has no name");
  }

  // Tables.
  for (const t of all("table")) {
    if (!t.tHead || [...t.tHead.rows[0].cells].some((c) => c.tagName !== "TH" || c.scope !== "col")) say(t, "its columns have no headers");
    for (const row of t.tBodies[0]?.rows ?? []) {
      if (row.cells.length !== t.tHead.rows[0].cells.length) say(row, `${row.cells.length} cells under ${t.tHead.rows[0].cells.length} headers`);
    }
  }

  // What scrolls can be scrolled by key, and the page itself does not scroll sideways.
  for (const n of all("*").filter(isShown)) {
    const style = getComputedStyle(n);
    const scrolls = (/(auto|scroll)/.test(style.overflowX) && n.scrollWidth > n.clientWidth + 1) || (/(auto|scroll)/.test(style.overflowY) && n.scrollHeight > n.clientHeight + 1);
    if (scrolls && n.tabIndex < 0 && n !== document.scrollingElement) say(n, "it scrolls, and cannot be focused");
  }
  if (root.scrollWidth > innerWidth) {
    const wide = all("body *").filter((n) => n.getBoundingClientRect().right > innerWidth + 1 && !n.closest(".scroll, .skip, .unseen")).slice(0, 3).map(path);
    say(root, `the page is ${root.scrollWidth} wide in a window of ${innerWidth}: ${wide.join("; ")}`);
  }

  // Contrast of all text with what is behind it.
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const ground = (n) => {
    const stack = [];
    for (let at = n; at; at = at.parentElement) stack.push(rgba(getComputedStyle(at).backgroundColor));
    return stack.reverse().reduce((under, top) => over(top, under), rgba("Canvas"));
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (a, b) => {
    const [hi, lo] = [light(a), light(b)].sort((x, y) => y - x);
    return (hi + 0.05) / (lo + 0.05);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const n = text.parentElement;
    if (!text.data.trim() || !isShown(n) || n.closest("noscript, script, title, .unseen, .skip") || n.matches("svg title")) continue;
    const style = getComputedStyle(n);
    let behind = ground(n);
    if (n instanceof SVGElement) { // what is drawn before it, where it stands
      const { left, top, width, height } = n.getBoundingClientRect();
      for (const shape of n.ownerSVGElement.querySelectorAll("rect")) {
        const box = shape.getBoundingClientRect();
        if (box.left <= left && box.right >= left + width && box.top <= top + height / 2 && box.bottom >= top + height / 2) behind = over(rgba(getComputedStyle(shape).fill), behind);
      }
    }
    const ink = over(rgba(n instanceof SVGElement ? style.fill : style.color), behind);
    const ratio = contrast(ink, behind);
    if (ratio >= 4.5) continue;
    const complaint = `${ratio.toFixed(2)}:1 between rgb(${ink.slice(0, 3).map(Math.round)}) and rgb(${behind.slice(0, 3).map(Math.round)}): at least 4.5 (${JSON.stringify(text.data.trim().slice(0, 30))})`;
    if (!seen.has(complaint)) say(n, complaint);
    seen.add(complaint);
  }
  return found;
})()
