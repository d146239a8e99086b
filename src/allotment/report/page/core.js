// What all parts of the page share: elements, colours, packed numbers, downloads, one way to point.

const SVG = "http://www.w3.org/2000/svg";
const UNKNOWN = -32768; // in place of a probability that is not finite

// Only what is ours: an experiment may be called as one of these parts is, and its section is too.
const explorer = document.querySelector("section[data-explorer]");
const $ = (selector) => explorer.querySelector(selector);

// Names come from records: they only ever become text or attributes, never markup.
function element(space, tag, attributes, ...children) {
  const made = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
const html = (tag, attributes, ...children) => element("", tag, attributes, ...children);
const svg = (tag, attributes, ...children) => element(SVG, tag, attributes, ...children);

const range = (n) => Array.from({ length: n }, (_, place) => place);
const thousands = (value) => value.toLocaleString("en-US");
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const shortened = (text, n) => (text.length > n ? text.slice(0, Math.max(1, n - 1)) + "…" : text);
const percent = (value) => (value === UNKNOWN ? "not a number" : `${value} %`);
const significant = (value, digits = 3) =>
  Number.isFinite(value) ? String(Number(value.toPrecision(digits))) : "–";
const spread = ([mean, low, high], what = "") => (
  significant(mean) + (low === null ? "" : ` (${what}${significant(low)} to ${significant(high)})`)
);

// Colours.

// Okabe and Ito's, as in the figures; print and files have the light ones.
const LINES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C"];
const DASHES = ["", "7 3", "7 3 2 3", "2 3", "12 3", "5 2 2 2 2 2", "3 1"];
const LIGHT = {
  ink: "#1b1b1f", soft: "#5c5c66", line: "#d9d9d2", card: "#ffffff", accent: "#b3470b",
  gates: ["#eef0f1", "#7fb2d6", "#08518c"], alike: ["#f1efec", "#74bfa6", "#00573f"],
  below: "#c45f1c", unknown: "#b9b9b9",
};
const DARK = {
  ink: "#ececea", soft: "#a5a5ad", line: "#3a3a41", card: "#1f1f24", accent: "#ffa764",
  gates: ["#2a2a31", "#2f77ad", "#8fcdfa"], alike: ["#2b2b2f", "#1e8064", "#9cf0d0"],
  below: "#e08a4a", unknown: "#6a6a70",
};
const darkness = matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const palette = () => (darkness.matches && !printing ? DARK : LIGHT);

function channels(colour) {
  return [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));
}
function mixed(first, second, share) {
  const [a, b] = [channels(first), channels(second)];
  return a.map((value, place) => Math.round(value + (b[place] - value) * share));
}
// The colour of each whole percent from -100 to 100; what lies beyond has the last one.
function scale([low, middle, high], below) {
  const colours = range(201).map((place) => {
    const share = (place - 100) / 100;
    if (share < 0) return mixed(low, below, -share);
    return share < 0.5 ? mixed(low, middle, 2 * share) : mixed(middle, high, 2 * share - 1);
  });
  return (value) => colours[clamp(value, -100, 100) + 100];
}
const css = (rgb) => `rgb(${rgb.join(",")})`;
const lineColour = (place, n) =>
  n <= 2 * LINES.length ? LINES[place % LINES.length] : `hsl(${Math.round(137.5 * place) % 360} 60% 48%)`;
const lineDash = (place) => DASHES[(place + Math.floor(place / LINES.length)) % DASHES.length];

// Numbers that were packed: bytes without a head, deflated, in base64.

async function unpacked(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = letters.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).arrayBuffer();
}
function reader(buffer) {
  let at = 0;
  return (kind, n) => {
    const size = n * kind.BYTES_PER_ELEMENT;
    at += size;
    return new kind(buffer.slice(at - size, at)); // a copy: it may begin anywhere
  };
}

// Files.

function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  html("a", { href: address, download: name.replace(/[^\w.-]+/g, "_") }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
// A name that begins like a formula would be one in a spreadsheet.
function csvCell(value) {
  let text = value === null || value === undefined ? "" : String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text))) {
    text = `'${text}`;
  }
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
const csv = (rows) => rows.map((row) => row.map(csvCell).join(",")).join("\n") + "\n";
const saveCsv = (name, rows) => download(`${name}.csv`, "text/csv", csv(rows));
function saveSvg(name, drawing) {
  drawing.setAttribute("xmlns", SVG);
  drawing.setAttribute("font-family", "system-ui, Arial, sans-serif");
  const { width, height } = drawing.viewBox.baseVal;
  drawing.prepend(svg("rect", { width, height, fill: "#ffffff" }));
  download(`${name}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(drawing));
}

// Pointing: by pointer and by keyboard alike.

const tip = html("div", { class: "tip", "aria-hidden": "true", hidden: "" });

function showTip(lines, x, y) {
  tip.replaceChildren(...lines.map((line, n) => html(n ? "div" : "strong", {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const fits = y + 18 + box.height < innerHeight;
  tip.style.left = `${clamp(x + 14, 6, Math.max(6, document.documentElement.clientWidth - box.width - 6))}px`;
  tip.style.top = `${fits ? y + 18 : Math.max(6, y - box.height - 12)}px`;
}
const hideTip = () => { tip.hidden = true; };

// A drawing that one points at. `view()` gives, for what is drawn now:
//   at(x, y): the place below the pointer or null; step(place, key): the next place, or null;
//   first(): where the keyboard begins; describe(place): lines of text; box(place): where it is;
//   pick(place): what a click or Enter does; mark(place): shows it, null to show none.
function pointable(host, view) {
  let here = null;
  const said = html("div", { class: "hidden-text", role: "status" });
  host.after(said);
  const position = () => host.getBoundingClientRect();
  function show(place, x, y) {
    here = place;
    view().mark(place);
    if (place === null) return hideTip();
    showTip(view().describe(place), x, y);
  }
  function leave() { show(null); }
  host.addEventListener("pointermove", (event) => {
    if (!view()) return;
    const from = position();
    const place = view().at(event.clientX - from.left, event.clientY - from.top);
    show(place, event.clientX, event.clientY);
  });
  host.addEventListener("pointerleave", () => view() && leave());
  host.addEventListener("blur", () => view() && leave());
  host.addEventListener("click", (event) => {
    if (!view()) return;
    const from = position();
    const place = view().at(event.clientX - from.left, event.clientY - from.top);
    if (place !== null) view().pick(place);
  });
  host.addEventListener("keydown", (event) => {
    if (!view() || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") return leave();
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (here !== null) view().pick(here);
      return;
    }
    const next = here === null ? view().first() : view().step(here, event.key);
    if (next === null || !/^(Arrow|Home|End|Page)/.test(event.key)) return;
    event.preventDefault();
    const box = view().box(next), from = position();
    show(next, from.left + box.x + box.width / 2, from.top + box.y + box.height / 2);
    said.textContent = view().describe(next).join(". ");
  });
}
// How keys move in a grid of rows and columns.
function gridStep([row, column], key, nRows, nColumns) {
  const moves = {
    ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
    PageUp: [-10, 0], PageDown: [10, 0], Home: [0, -nColumns], End: [0, nColumns],
  };
  const move = moves[key];
  if (!move) return null;
  return [clamp(row + move[0], 0, nRows - 1), clamp(column + move[1], 0, nColumns - 1)];
}
