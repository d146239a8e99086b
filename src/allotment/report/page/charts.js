// Lines with their bands over rounds, and points of what is reached against what it costs.

function ticks(low, high, n) {
  if (!(high > low)) return [low];
  const raw = (high - low) / n, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((each) => each * power >= raw) * power;
  const first = Math.ceil(low / step - 1e-9);
  return range(Math.floor(high / step + 1e-9) - first + 1).map(
    (place) => Number(((first + place) * step).toPrecision(12))
  );
}
// As many round numbers of each power of ten as there is room for.
function logTicks(low, high) {
  const powers = range(Math.floor(Math.log10(high)) - Math.floor(Math.log10(low)) + 1).map(
    (place) => 10 ** (Math.floor(Math.log10(low)) + place)
  );
  const of = (digits) => powers.flatMap(
    (power) => digits.map((each) => Number((each * power).toPrecision(3)))
  ).filter((each) => each >= low && each <= high);
  return [[1, 2, 5], [1, 3], [1]].map(of).find((found) => found.length <= 6) ?? of([1]);
}
const compact = (value) => (
  Math.abs(value) >= 10_000 ? `${significant(value / 1000)}k` : significant(value, 6)
);

// Where numbers lie on the drawing; `log` where all of y are above 0 and far apart.
function axes(width, height, [x0, x1], [y0, y1], log) {
  const box = { left: 56, right: width - 24, top: 10, bottom: height - 40 };
  const f = log ? Math.log : (value) => value;
  return {
    ...box, width, height, log, x0, x1, y0, y1,
    x: (value) => box.left + ((value - x0) / (x1 - x0 || 1)) * (box.right - box.left),
    y: (value) => box.bottom - (
      (f(Math.max(value, log ? y0 : -Infinity)) - f(y0)) / (f(y1) - f(y0) || 1)
    ) * (box.bottom - box.top),
  };
}
function frame(scaled, xLabel, yLabel, colours) {
  const { left, right, top, bottom, width, height, x, y } = scaled;
  const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const text = { "font-size": 11, fill: colours.soft };
  for (const at of scaled.log ? logTicks(scaled.y0, scaled.y1) : ticks(scaled.y0, scaled.y1, 5)) {
    drawing.append(
      svg("line", { x1: left, x2: right, y1: y(at), y2: y(at), stroke: colours.line }),
      svg(
        "text",
        { x: left - 7, y: y(at), "text-anchor": "end", "dominant-baseline": "central", ...text },
        compact(at),
      ),
    );
  }
  for (const at of ticks(scaled.x0, scaled.x1, Math.max(3, Math.floor((right - left) / 60)))) {
    drawing.append(svg("text", { x: x(at), y: bottom + 16, "text-anchor": "middle", ...text }, compact(at)));
  }
  drawing.append(
    svg("line", { x1: left, x2: right, y1: bottom, y2: bottom, stroke: colours.soft }),
    svg("text", { x: (left + right) / 2, y: height - 7, "text-anchor": "middle", ...text }, xLabel),
    svg(
      "text",
      { transform: `translate(12 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle", ...text },
      shortened(yLabel, 42),
    ),
  );
  return drawing;
}
function extent(values, margin) {
  const known = values.filter((value) => Number.isFinite(value));
  if (!known.length) return [0, 1];
  const low = known.reduce((a, b) => Math.min(a, b)), high = known.reduce((a, b) => Math.max(a, b));
  const room = (high - low || Math.abs(high) || 1) * margin;
  return [low - room, high + room];
}

// A chart in its host: `build(model, width, colours)` gives {drawing, spots}, what one points at.
function chart(host, { build, describe, pick }) {
  const over = svg("svg", { class: "over", "aria-hidden": "true" });
  let model = null, built = null;
  function draw(next) {
    model = next;
    built = build(model, host.clientWidth || 480, palette());
    const { width, height } = built.drawing.viewBox.baseVal;
    over.setAttribute("width", width);
    over.setAttribute("height", height);
    over.replaceChildren();
    host.replaceChildren(built.drawing, over);
    host.style.height = `${height}px`;
  }
  const box = (place) => ({ x: built.spots[place].x, y: built.spots[place].y, width: 0, height: 0 });
  function nearest(x, y) {
    const far = built.spots.map((spot) => Math.hypot(spot.x - x, built.vertical ? 0 : spot.y - y));
    const place = far.indexOf(Math.min(...far));
    return place >= 0 && far[place] < 40 ? place : null;
  }
  function mark(place) {
    over.replaceChildren();
    if (place === null) return;
    const { x, y } = built.spots[place], ink = palette().ink;
    over.append(built.vertical
      ? svg("line", { x1: x, x2: x, y1: built.top, y2: built.bottom, stroke: ink, "stroke-opacity": 0.5 })
      : svg("circle", { cx: x, cy: y, r: 9, fill: "none", stroke: ink, "stroke-width": 2 }));
  }
  pointable(host, () => built?.spots.length && {
    at: nearest, first: () => 0, mark, box, describe: (place) => describe(model, built.spots[place]),
    pick: (place) => pick?.(built.spots[place]),
    step: (place, key) => {
      const last = built.spots.length - 1;
      const to = {
        ArrowLeft: place - 1, ArrowRight: place + 1, ArrowUp: place - 1, ArrowDown: place + 1, Home: 0,
        End: last, PageUp: place - 10, PageDown: place + 10,
      }[key];
      return to === undefined ? null : clamp(to, 0, last);
    },
  });
  return { draw, drawing: () => build(model, 760, LIGHT).drawing };
}

const CHART_HEIGHT = 320;

// `model`: lines as {name, colour, dash, curve}, and a label for each axis.
function curvesDrawing(model, width, colours) {
  const known = model.lines.flatMap(({ curve }) => curve.mean).filter((value) => value !== null);
  const least = Math.min(...known), most = Math.max(...known);
  const log = known.length > 0 && least > 0 && most / least > 10;
  const ends = model.lines.flatMap(
    ({ curve }) => [...curve.low, ...curve.high].filter((end) => end !== null)
  );
  const rounds = model.lines.flatMap(({ curve }) => [curve.rounds[0], curve.rounds.at(-1)]);
  // One wide band at the start would leave no room for the lines.
  const within = ends.filter(
    (end) => end >= least - (most - least) * 0.25 && end <= most + (most - least) * 0.25
  );
  const yRange = log ? [least / 1.2, most * 1.2] : extent([...known, ...within], 0.04);
  const scaled = axes(width, CHART_HEIGHT, extent(rounds, 0), yRange, log);
  const drawing = frame(scaled, "rounds", log ? `${model.label} (log scale)` : model.label, colours);
  const onPaper = (x, y) => `${scaled.x(x).toFixed(1)} ${scaled.y(y).toFixed(1)}`;
  const id = `clip-${width}`;
  const inside = svg("g", { "clip-path": `url(#${id})` });
  drawing.append(
    svg(
      "clipPath",
      { id },
      svg(
        "rect",
        {
          x: scaled.left, y: scaled.top, width: scaled.right - scaled.left,
          height: scaled.bottom - scaled.top,
        },
      ),
    ),
    inside,
  );
  for (const { curve, colour } of model.lines) {
    const at = range(curve.rounds.length).filter(
      (place) => curve.low[place] !== null && curve.high[place] !== null
    );
    const point = (ys) => (place) => onPaper(curve.rounds[place], ys[place]);
    if (at.length) inside.append(
      svg(
        "path",
        {
          d: `M${at.map(point(curve.high)).join("L")}L${at.reverse().map(point(curve.low)).join("L")}Z`,
          fill: colour, "fill-opacity": 0.18,
        },
      )
    );
  }
  for (const { curve, colour, dash, strong } of model.lines) {
    const at = range(curve.rounds.length).filter((place) => curve.mean[place] !== null);
    inside.append(
      svg(
        "path",
        {
          d: `M${at.map((place) => onPaper(curve.rounds[place], curve.mean[place])).join("L")}`,
          fill: "none",
          stroke: colour,
          "stroke-width": strong ? 3 : 1.8,
          "stroke-dasharray": dash || null,
          "stroke-linejoin": "round",
        },
      )
    );
  }
  const first = model.lines.find(({ strong }) => strong) ?? model.lines[0];
  const spots = (first?.curve.rounds ?? []).map(
    (round) => ({ round, x: scaled.x(round), y: scaled.top + 20 })
  );
  return { drawing, spots, vertical: true, top: scaled.top, bottom: scaled.bottom };
}
// The kept point at or before a round.
function readOff(curve, round) {
  const place = curve.rounds.findLastIndex((each) => each <= round);
  return place < 0 ? null : {
    at: curve.rounds[place], mean: curve.mean[place], low: curve.low[place], high: curve.high[place],
  };
}

// The line from one end of an interval to the other, with an arrow where the drawing cuts it off.
function intervalBar({ left, right, top, bottom }, ends, fill) {
  const shown = ends.map(([x, y]) => [clamp(x, left, right), clamp(y, top, bottom)]);
  const [[x1, y1], [x2, y2]] = shown;
  const bar = svg("g", {}, svg("line", { x1, y1, x2, y2, stroke: fill, "stroke-width": 1.5 }));
  ends.forEach(([x, y], place) => {
    const [endX, endY] = shown[place], dx = Math.sign(x - endX), dy = Math.sign(y - endY);
    const sides = `l${-7 * dx - 4 * dy} ${-7 * dy - 4 * dx}l${8 * dy} ${8 * dx}Z`;
    if (dx || dy) bar.append(svg("path", { class: "cut", d: `M${endX} ${endY}${sides}`, fill }));
  });
  return bar;
}

// `model`: points as {place, name, colour, cost: [mean, low, high], value: [...], chosen, strong}.
function costDrawing(model, width, colours) {
  const all = [...model.points.map(({ cost, value }) => [cost[0], value[0]]), ...model.runs];
  // Intervals have room too, as far as they are not much longer than the points are apart.
  const reach = (axis, intervals) => {
    const [low, high] = extent(all.map((point) => point[axis]), 0.6);
    const ends = intervals.flat().filter((end) => end !== null).map((end) => clamp(end, low, high));
    return extent([...all.map((point) => point[axis]), ...ends], 0.06);
  };
  const xRange = reach(0, model.points.map(({ cost }) => cost));
  const yRange = reach(1, model.points.map(({ value }) => value));
  const scaled = axes(width, CHART_HEIGHT, xRange, yRange, false);
  const drawing = frame(scaled, model.xLabel, model.yLabel, colours);
  const best = model.points.filter(({ chosen }) => chosen).sort((a, b) => a.cost[0] - b.cost[0]);
  if (best.length > 1) drawing.append(
    svg(
      "path",
      {
        d: `M${best.map(({ cost, value }) => `${scaled.x(cost[0])} ${scaled.y(value[0])}`).join("L")}`,
        fill: "none", stroke: colours.soft, "stroke-dasharray": "4 3",
      },
    )
  );
  for (const [cost, value] of model.runs) drawing.append(
    svg(
      "circle", { cx: scaled.x(cost), cy: scaled.y(value), r: 2.5, fill: colours.ink, "fill-opacity": 0.35 },
    )
  );
  const spots = [];
  for (const point of model.points) {
    const [x, y] = [scaled.x(point.cost[0]), scaled.y(point.value[0])];
    const ends = {
      cost: point.cost.slice(1).map((end) => [scaled.x(end), y]),
      value: point.value.slice(1).map((end) => [x, scaled.y(end)]),
    };
    for (const axis of ["value", "cost"]) if (point[axis][1] !== null) drawing.append(
      intervalBar(scaled, ends[axis], point.colour)
    );
    drawing.append(
      svg(
        "circle",
        {
          cx: x, cy: y, r: point.strong ? 7 : 5, fill: point.colour,
          stroke: point.strong ? colours.ink : colours.card, "stroke-width": point.strong ? 2 : 1,
        },
      )
    );
    spots.push({ x, y, ...point });
  }
  spots.sort((a, b) => a.x - b.x);
  return { drawing, spots, vertical: false };
}
