// What the parts of the page do to the document. Text from anywhere becomes text and nothing else: nothing here, or
// anywhere in this page, makes HTML of a string.

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

// set gives a node its text, and leaves it alone if it has it already: a selection in it stays.
export function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// make makes an element with attributes; a child is a node or a text.
export function make(name, attributes = {}, ...children) {
  return dress(document.createElement(name), attributes, children);
}

// draw makes an element of a picture.
export function draw(name, attributes = {}, ...children) {
  return dress(document.createElementNS(SVG, name), attributes, children);
}

function dress(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== "") node.setAttribute(name, value);
  }
  node.append(...children.filter((c) => c !== undefined && c !== null));
  return node;
}

// fill makes the rows of a table's body those of list, in its order. A row is kept as long as its key is there. cells gives
// the cells of an item: each {text, more, mark, kind, title, head}; more is a second, quieter line.
export function fill(body, list, key, cells, tone = () => "") {
  const kept = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  list.forEach((item, place) => {
    const id = key(item);
    const row = kept.get(id) ?? make("tr", { "data-key": id });
    kept.delete(id);
    row.className = tone(item);
    cells(item).forEach((cell, i) => write(row, i, cell));
    if (body.rows[place] !== row) body.insertBefore(row, body.rows[place] ?? null);
  });
  kept.forEach((row) => row.remove());
  body.closest("section").classList.toggle("has-rows", list.length > 0);
}

function write(row, i, cell) {
  let td = row.cells[i];
  if (!td) {
    td = make(cell.head ? "th" : "td", cell.head ? { scope: "row" } : {});
    td.append(make("bdi"), make("bdi", { class: "more" }));
    row.append(td);
  }
  td.className = cell.kind ?? "";
  td.dataset.mark = cell.mark ?? "";
  if (td.title !== (cell.title ?? "")) td.title = cell.title ?? "";
  set(td.firstChild, cell.text ?? "");
  set(td.lastChild, cell.more ?? "");
}

// say fills the line that stands where a table has no rows.
export function sayEmpty(section, text) {
  const line = section.querySelector(".empty");
  if (line) set(line, text);
}
