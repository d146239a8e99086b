// The tree of tasks: names at the left, joined further to the right the less alike they are.

// The leaves side by side, as SciPy lists them: what was joined first of a pair comes first.
function leafOrder(merges, n) {
  const order = [], waiting = [2 * n - 2];
  while (waiting.length) {
    const node = waiting.pop();
    if (node < n) order.push(node);
    else waiting.push(merges[2 * (node - n) + 1], merges[2 * (node - n)]);
  }
  return order;
}

// For each node its place among the rows, its height, what it was joined into, and its cluster
// where all its tasks are of one, else -1.
function treeNodes({ merges, heights, order, clusters }) {
  const n = order.length;
  const nodes = range(2 * n - 1).map(() => ({ row: 0, height: 0, parent: -1, cluster: -1 }));
  order.forEach((task, row) => Object.assign(nodes[task], { row, cluster: clusters[task] }));
  for (const merge of range(n - 1)) {
    const [a, b] = [nodes[merges[2 * merge]], nodes[merges[2 * merge + 1]]];
    Object.assign(nodes[n + merge], {
      row: (a.row + b.row) / 2, height: heights[merge], cluster: a.cluster === b.cluster ? a.cluster : -1,
    });
    a.parent = b.parent = n + merge;
  }
  return nodes;
}

function treeLayout(model, width, tallest) {
  const n = model.order.length;
  const height = clamp(tallest / n, 2, 30);
  const longest = Math.max(...model.names.map((name) => name.length));
  const left = Math.ceil(clamp(longest * LETTER + 16, 50, Math.min(200, width * 0.42)));
  const most = Math.max(...model.heights, 1e-9);
  const right = width - 16;
  return { left, right, top: 6, height, n, nRows: n, width, bottom: 6 + n * height, total: n * height + 46,
    x: (at) => left + (at / most) * (right - left), y: (row) => 6 + (row + 0.5) * height, most };
}

function treeDrawing(model, layout, colours) {
  const drawing = svg(
    "svg",
    {
      width: layout.width, height: layout.total, viewBox: `0 0 ${layout.width} ${layout.total}`,
      "aria-hidden": "true",
    },
  );
  const nodes = treeNodes(model), { n, x, y } = layout;
  const paths = new Map(); // by cluster, so that a thousand lines are few elements
  const line = (node) => {
    const into = nodes[node.parent];
    const [x0, y0, x1, y1] = [x(node.height), y(node.row), x(into.height), y(into.row)];
    return `M${x0.toFixed(1)} ${y0.toFixed(1)}H${x1.toFixed(1)}V${y1.toFixed(1)}`;
  };
  for (const node of nodes) {
    if (node.parent < 0) continue;
    const key = nodes[node.parent].cluster;
    paths.set(key, (paths.get(key) ?? "") + line(node));
  }
  for (const [cluster, path] of paths) {
    drawing.append(
      svg(
        "path",
        {
          d: path, fill: "none", stroke: cluster < 0 ? colours.soft : clusterColour(cluster),
          "stroke-width": layout.height < 5 ? 1 : 1.6,
        },
      )
    );
  }
  const marked = [...model.marks.keys()];
  for (const task of marked.slice().reverse()) {
    let path = "";
    for (let node = nodes[task]; node.parent >= 0; node = nodes[node.parent]) path += line(node);
    if (model.marks.get(task) === "picked") drawing.append(
      svg("path", { d: path, fill: "none", stroke: colours.accent, "stroke-width": 2.5 })
    );
    drawing.append(svg("circle", { cx: x(0), cy: y(nodes[task].row), r: 3, fill: colours.accent }));
  }
  const room = Math.floor((layout.left - 14) / LETTER);
  const rows = new Map(marked.map((task) => [nodes[task].row, task]));
  for (const row of namedRows({ ...layout, nRows: n }, rows.keys())) {
    const task = model.order[row], mark = model.marks.has(task);
    drawing.append(svg("text", {
      x: layout.left - 8, y: y(row), "text-anchor": "end", "dominant-baseline": "central", "font-size": nameSize(layout),
      "font-weight": mark ? 700 : 400, fill: mark ? colours.accent : colours.ink,
    }, svg("title", {}, model.names[task]), shortened(model.names[task], room)));
  }
  for (const at of ticks(0, layout.most, 4)) {
    drawing.append(
      svg(
        "line", { x1: x(at), x2: x(at), y1: layout.bottom + 2, y2: layout.bottom + 7, stroke: colours.soft },
      ),
      svg(
        "text",
        { x: x(at), y: layout.bottom + 19, "text-anchor": "middle", "font-size": 10.5, fill: colours.soft },
        significant(at),
      ),
    );
  }
  drawing.append(
    svg(
      "text",
      {
        x: (layout.left + layout.right) / 2, y: layout.bottom + 35, "text-anchor": "middle",
        "font-size": 10.5, fill: colours.soft,
      },
      "cosine distance at which tasks are joined",
    )
  );
  return drawing;
}

// Without the two that look like a mark, and like what joins clusters.
const CLUSTERS = LINES.filter((_, place) => place !== 1 && place !== LINES.length - 1);
const clusterColour = (cluster) => CLUSTERS[cluster % CLUSTERS.length];

function taskTree(host, { tallest, describe, pick }) {
  const over = svg("svg", { class: "over", "aria-hidden": "true" });
  let model = null, layout = null;
  function draw(next) {
    model = next;
    if (!model || model.order.length < 2) {
      model = null;
      host.style.height = "";
      return host.replaceChildren();
    }
    layout = treeLayout(model, host.clientWidth || 480, tallest());
    over.setAttribute("width", layout.width);
    over.setAttribute("height", layout.total);
    over.replaceChildren();
    host.replaceChildren(treeDrawing(model, layout, palette()), over);
    host.style.height = `${layout.total}px`;
  }
  const box = (row) => (
    { x: 0, y: layout.top + row * layout.height, width: layout.width, height: layout.height }
  );
  function mark(row) {
    over.replaceChildren();
    if (row !== null) over.append(svg("rect", { ...box(row), fill: palette().ink, "fill-opacity": 0.12 }));
  }
  pointable(host, () => model && {
    at: (x, y) => {
      const row = Math.floor((y - layout.top) / layout.height);
      return row >= 0 && row < layout.n ? row : null;
    },
    first: () => 0, mark, box, pick: (row) => pick(model.order[row]), describe: (row) => describe(model.order[row]),
    step: (row, key) => gridStep([row, 0], key === "Home" ? "PageUp" : key, layout.n, 1)?.[0] ?? null,
  });
  return { draw, drawing: () => treeDrawing(model, treeLayout(model, 900, 900), LIGHT) };
}
