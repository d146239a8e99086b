// Maps of rows and columns: the allocation and the similarities. Small ones are SVG; cells of big
// ones are pixels of a canvas below it.

const MOST_RECTANGLES = 2500;
const LETTER = 6.5; // pixels that a letter of a label takes, about

// What is drawn: `rows` and `columns` are names in their order, `value(row, column)` a whole percent,
// `gaps` columns that a gap comes before, `lines` rows that a line comes above, `heads` texts above
// columns as [long text, short text, first, last], `key` a text that is another one where the values
// are, `strips` a colour for each row or null, `named` whether columns have their names, `group(row)`
// what the rows between two lines are called, if anything, `marks` how rows are marked, by row.
function mapLayout(model, width, { tallest, square }) {
  const nRows = model.rows.length, nColumns = model.columns.length;
  const longest = Math.max(...model.rows.map((name) => name.length));
  const isNamed = !square || (width - 170) / nRows >= 11;
  const left = isNamed ? Math.ceil(clamp(longest * LETTER + 22, 50, Math.min(200, width * 0.32))) : 100;
  const gap = model.gaps.length ? clamp(Math.floor(width / 6 / model.gaps.length), 2, 10) : 0;
  const whole = (size) => (size > 3 ? Math.floor(size) : size);
  let cell = whole(Math.min(square ? 56 : 120, (width - left - 8 - gap * model.gaps.length) / nColumns));
  let height = whole(clamp(tallest / nRows, square ? 0.2 : 2, 30));
  if (square) cell = height = Math.min(cell, whole(Math.max(tallest / nRows, 0.2)));
  const namesFit = model.named && cell >= 11;
  const across = namesFit ? Math.max(...model.columns.map((name) => Math.min(name.length, 14))) : 0;
  const flat = namesFit && across * LETTER + 4 <= cell; // names that need not be turned
  const names = namesFit ? (flat ? 16 : Math.ceil(across * LETTER) + 8) : 4;
  const top = names + (model.heads.length ? 18 : 0);
  const xs = [];
  let x = left, next = 0;
  for (const column of range(nColumns)) {
    if (model.gaps[next] === column) { x += gap; next += 1; }
    xs.push(x);
    x += cell;
  }
  return { left, top, cell, height, xs, right: x, bottom: top + height * nRows, flat, namesFit,
    width: Math.max(x + 4, 60), total: top + height * nRows + 4, nRows, nColumns };
}

const nameSize = ({ height }) => (height < 11 ? 11 : Math.min(11.5, height - 1));

function mapPlace(layout, x, y) {
  const row = Math.floor((y - layout.top) / layout.height);
  const column = layout.xs.findLastIndex((start) => start <= x);
  if (row < 0 || row >= layout.nRows || column < 0 || x > layout.xs[column] + layout.cell) return null;
  return [row, column];
}

// Which rows have their name: all where they fit, else those that are marked, the picked one first.
function namedRows(layout, marks) {
  if (layout.height >= 11) return range(layout.nRows);
  const chosen = [];
  for (const row of marks) {
    if (chosen.every((other) => Math.abs(other - row) * layout.height >= 12)) chosen.push(row);
  }
  return chosen;
}

function paintCells(canvas, model, layout, colour, unknown, ratio) {
  const { nRows, nColumns } = layout;
  const pixels = new ImageData(nColumns, nRows);
  const words = new Uint32Array(pixels.data.buffer); // a pixel each, which is faster than four bytes
  const word = ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r;
  const known = Int32Array.from(range(201), (place) => word(colour(place - 100)));
  const none = word(channels(unknown));
  for (let row = 0, at = 0; row < nRows; row += 1) {
    for (let column = 0; column < nColumns; column += 1, at += 1) {
      const value = model.value(row, column);
      words[at] = value === UNKNOWN ? none : known[clamp(value, -100, 100) + 100];
    }
  }
  const source = new OffscreenCanvas(nColumns, nRows);
  source.getContext("2d").putImageData(pixels, 0, 0);
  canvas.width = Math.round(layout.width * ratio);
  canvas.height = Math.round(layout.total * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.imageSmoothingEnabled = layout.cell < 1;
  const starts = [0, ...model.gaps];
  starts.forEach((start, place) => {
    const n = (starts[place + 1] ?? nColumns) - start;
    context.drawImage(
      source, start, 0, n, nRows, layout.xs[start], layout.top, n * layout.cell, nRows * layout.height,
    );
  });
}

function rectangles(model, layout, colour, unknown) {
  const space = Math.min(layout.cell, layout.height) >= 11 ? 1 : 0;
  const group = svg("g", { class: "cells" });
  for (const row of range(layout.nRows)) {
    for (const column of range(layout.nColumns)) {
      const value = model.value(row, column);
      group.append(svg("rect", {
        x: layout.xs[column], y: layout.top + row * layout.height,
        width: layout.cell - space, height: layout.height - space, rx: space ? 2 : null,
        fill: value === UNKNOWN ? unknown : css(colour(value)),
      }));
    }
  }
  return group;
}

// Names, heads and lines; `cells` is what lies below them, if it is part of the drawing.
function mapDrawing(model, layout, colours, cells) {
  const drawing = svg(
    "svg",
    {
      width: layout.width, height: layout.total, viewBox: `0 0 ${layout.width} ${layout.total}`,
      "aria-hidden": "true",
    },
  );
  if (cells) drawing.append(cells);
  const middle = (row) => layout.top + (row + 0.5) * layout.height;
  const room = Math.floor((layout.left - 20) / LETTER);
  for (const row of namedRows(layout, [...model.marks.keys()])) {
    const mark = model.marks.get(row);
    drawing.append(svg("text", {
      x: layout.left - 12, y: middle(row), "text-anchor": "end", "dominant-baseline": "central",
      "font-size": nameSize(layout), "font-weight": mark ? 700 : 400,
      fill: mark ? colours.accent : colours.ink,
    }, svg("title", {}, model.rows[row]), shortened(model.rows[row], room)));
  }
  if (layout.height < 11) drawing.append(...groupNames(model, layout, colours));
  model.strips.forEach((colour, row) => {
    if (colour) drawing.append(
      svg(
        "rect",
        {
          x: layout.left - 7, y: layout.top + row * layout.height, width: 4, height: layout.height + 0.2,
          fill: colour,
        },
      )
    );
  });
  for (const [long, short, first, last] of model.heads) {
    const start = layout.xs[first], width = layout.xs[last] + layout.cell - start;
    const text = long.length * LETTER < width ? long : short;
    drawing.append(
      svg(
        "text",
        {
          x: start + width / 2, y: 11, "text-anchor": "middle", "font-size": 11, "font-weight": 600,
          fill: colours.soft,
        },
        text,
      )
    );
  }
  if (layout.namesFit) drawing.append(
    ...model.columns.map((name, column) => columnName(name, column, layout, colours))
  );
  for (const row of model.lines) {
    const y = layout.top + row * layout.height - 0.5;
    drawing.append(
      svg(
        "line",
        {
          x1: layout.left - 8, x2: layout.right, y1: y, y2: y, stroke: colours.card,
          "stroke-width": layout.height < 3 ? 2 : 3,
        },
      )
    );
    drawing.append(
      svg(
        "line",
        { x1: layout.left - 8, x2: layout.right, y1: y, y2: y, stroke: colours.ink, "stroke-width": 1 },
      )
    );
  }
  for (const [row, mark] of model.marks) {
    const y = layout.top + row * layout.height;
    drawing.append(
      svg(
        "rect",
        {
          x: layout.left - 1.5, y: y - 1, width: layout.right - layout.left + 2, height: layout.height + 1,
          fill: "none", stroke: colours.accent, "stroke-width": mark === "picked" ? 2 : 1,
          "stroke-dasharray": mark === "picked" ? null : "3 2",
        },
      )
    );
  }
  return drawing;
}

// Where rows are too narrow for their names, those of the groups between lines, as far as they fit.
function groupNames(model, layout, colours) {
  if (!model.group) return [];
  const marked = namedRows(layout, [...model.marks.keys()]);
  const isFree = (row) => marked.every((other) => Math.abs(other - row) * layout.height > 13);
  const starts = [0, ...model.lines];
  const groups = starts.map((start, place) => ({ start, end: starts[place + 1] ?? layout.nRows }));
  return groups
    .filter(({ start, end }) => (end - start) * layout.height >= 13 && isFree((start + end) / 2))
    .map(({ start, end }) => svg(
      "text",
      {
        x: layout.left - 12, y: layout.top + ((start + end) / 2) * layout.height, "text-anchor": "end",
        "dominant-baseline": "central", "font-size": 11, fill: colours.soft,
      },
      shortened(model.group(start), Math.floor((layout.left - 16) / LETTER)),
    ));
}

function columnName(name, column, layout, colours) {
  const x = layout.xs[column] + layout.cell / 2, y = layout.top - 6;
  const look = { "font-size": 10.5, fill: colours.soft };
  if (layout.flat) return svg("text", { x, y, "text-anchor": "middle", ...look }, name);
  return svg(
    "text",
    { transform: `translate(${x + 3.5} ${y + 2}) rotate(-90)`, ...look },
    svg("title", {}, name),
    shortened(name, 14),
  );
}

// A map in its host, a `div`, drawn anew at every `draw(model)`.
function heatMap(host, { colour, tallest, square = false, describe, pick }) {
  const canvas = html("canvas", { "aria-hidden": "true" });
  const over = svg("svg", { class: "over", "aria-hidden": "true" });
  let model = null, layout = null, painted = "";
  const cursor = svg("g", {});
  const isBig = () => layout.nRows * layout.nColumns > MOST_RECTANGLES;
  function draw(next) {
    model = next;
    if (!model) return host.replaceChildren();
    const colours = palette();
    layout = mapLayout(model, host.clientWidth || 640, { tallest: tallest(), square });
    const cells = isBig() ? null : rectangles(model, layout, colour(), colours.unknown);
    const now = [model.key, layout.width, layout.total, colours.ink, devicePixelRatio].join(" ");
    if (!cells && now !== painted) paintCells(
      canvas, model, layout, colour(), colours.unknown, devicePixelRatio,
    );
    painted = now;
    canvas.hidden = Boolean(cells);
    canvas.style.width = `${layout.width}px`;
    canvas.style.height = `${layout.total}px`;
    over.replaceChildren(cursor);
    for (
      const [name, value] of [["width", layout.width], ["height", layout.total]]
    ) over.setAttribute(name, value);
    host.replaceChildren(canvas, mapDrawing(model, layout, colours, cells), over);
    host.style.height = `${layout.total}px`;
    cursor.replaceChildren();
  }
  function mark(place) {
    cursor.replaceChildren();
    if (!place) return;
    const box = boxOf(place), line = { fill: palette().ink, "fill-opacity": 0.1 };
    cursor.append(
      svg(
        "rect", { x: layout.left, y: box.y, width: layout.right - layout.left, height: box.height, ...line },
      ),
      svg("rect", { x: box.x, y: layout.top, width: box.width, height: layout.bottom - layout.top, ...line }),
      svg(
        "rect",
        {
          x: box.x - 1, y: box.y - 1, width: Math.max(box.width, 3) + 1, height: Math.max(box.height, 3) + 1,
          fill: "none", stroke: palette().ink, "stroke-width": 2,
        },
      ),
    );
  }
  const boxOf = ([row, column]) => (
    { x: layout.xs[column], y: layout.top + row * layout.height, width: layout.cell, height: layout.height }
  );
  pointable(host, () => model && {
    at: (x, y) => mapPlace(layout, x, y), first: () => [0, 0], mark, box: boxOf, pick, describe,
    step: (place, key) => gridStep(place, key, layout.nRows, layout.nColumns),
  });
  // For files: light, and in a width of its own, whatever the window's is.
  function drawing() {
    const wide = mapLayout(model, 900, { tallest: 900, square });
    const light = colour(LIGHT);
    if (wide.nRows * wide.nColumns <= 20_000) return mapDrawing(
      model, wide, LIGHT, rectangles(model, wide, light, LIGHT.unknown),
    );
    const image = html("canvas");
    paintCells(image, model, wide, light, LIGHT.unknown, 2);
    return mapDrawing(
      model, wide, LIGHT, svg("image", { width: wide.width, height: wide.total, href: image.toDataURL() }),
    );
  }
  return { draw, drawing };
}
