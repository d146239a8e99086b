// The parts of the page: what is drawn of the chosen run, and the words beside it.

const tallest = () => Math.min(680, Math.max(340, innerHeight * 0.75));
const colourScales = new Map();
const scaleOf = (name) => (colours = palette()) => {
  const key = `${name} ${colours.ink}`;
  if (!colourScales.has(key)) colourScales.set(key, scale(colours[name], colours.below));
  return colourScales.get(key);
};
const gates = () => shown.frames[chosen.frame];
const isEnd = () => chosen.frame === shown.frames.length - 1;

const map = heatMap(
  $("#map"),
  {
    colour: scaleOf("gates"), tallest, describe: ([row, column]) => cellText(order[row], column),
    pick: ([row]) => pickTask(order[row]),
  },
);
const similar = heatMap(
  $("#similarity"),
  {
    colour: scaleOf("alike"), tallest: () => 480, square: true,
    describe: ([row, column]) => pairText(order[row], order[column]), pick: ([row]) => pickTask(order[row]),
  },
);
const tree = taskTree($("#tree"), { tallest: () => 540, describe: taskText, pick: pickTask });
const curves = chart($("#curves"), { build: curvesDrawing, describe: curveText });
const costs = chart(
  $("#costs"),
  {
    build: costDrawing, describe: (_, spot) => costText(spot),
    pick: ({ place }) => choose({ method: place, run: null }),
  },
);

function layerOf(column) {
  let end = 0;
  const layer = suite().layers.findIndex((size) => (end += size) > column);
  return layer + 1;
}
const nameList = (tasks, limit = 6) => {
  const names = tasks.slice(0, limit).map((task) => suite().tasks[task]);
  return names.join(", ") + (tasks.length > limit ? ` and ${tasks.length - limit} more` : "");
};
function cellText(task, column) {
  const { tasks, components, families, binary, layers } = suite(), n = components.length;
  const value = gates()[task * n + column];
  const where = layers.length > 1 ? `layer ${layerOf(column)}, ` : "";
  const lines = [
    tasks[task] + (families.length ? ` (${families[task]})` : ""), `${where}component ${components[column]}`,
    `${binary ? "probability" : "probability or share"} ${percent(value)}`,
  ];
  const all = range(tasks.length);
  if (!binary) {
    const most = all.sort((a, b) => gates()[b * n + column] - gates()[a * n + column]).slice(0, 4);
    return [
      ...lines,
      `most for: ${most.map((each) => `${tasks[each]} ${percent(gates()[each * n + column])}`).join(", ")}`,
    ];
  }
  const uses = (each) => (isEnd() ? shown.rows[each * n + column] === 1 : gates()[each * n + column] >= 50);
  const users = all.filter(uses), others = users.filter((each) => each !== task);
  const what = isEnd() ? "used" : "at 50 % or more";
  lines.push(uses(task) ? `${what} by this task` : `not ${what} by this task`);
  lines.push(
    others.length
      ? `${what} by ${others.length} other${others.length > 1 ? "s" : ""}: ${nameList(others)}`
      : `${what} by no other task`
  );
  return lines;
}
const pairText = (a, b) => [
  `${suite().tasks[a]} and ${suite().tasks[b]}`, `cosine similarity ${similarityOf(a, b).toFixed(2)}`,
];
function taskText(task) {
  const { tasks, families } = suite();
  return [
    tasks[task], families.length ? `family ${families[task]}` : null, `cluster ${shown.clusters[task] + 1}`,
    `uses ${shown.used[task]} % of the components`,
    tasks.length > 1 ? `nearest: ${nameList(neighbours(task), 3)}` : null,
  ].filter(Boolean);
}
function curveText(model, spot) {
  const lines = model.lines.map(
    ({ name, curve }) => [name, readOff(curve, spot.round)]
  ).filter(([, found]) => found);
  return [
    `round ${thousands(spot.round)}`,
    ...lines.map(([name, { mean, low, high }]) => `${name}: ${spread([mean, low, high])}`),
  ];
}
const costText = ({ name, cost, value, chosen: best }) => [
  name, `${experiment().measure}: ${spread(value, "90 % interval ")}`,
  `${costLabel()}: ${spread(cost, "90 % interval ")}`,
  best ? "on validation, none is ahead at no more cost" : "on validation, another costs no more and does no worse",
];
const costLabel = () => (
  experiment().counted ? "parameters in a task's network, % of all" : "components that a task uses, %"
);

function mapModel(found) {
  const { tasks, components, layers } = suite(), n = components.length, values = gates();
  const starts = layers.map((_, layer) => layers.slice(0, layer).reduce((sum, size) => sum + size, 0));
  const head = (start, layer) => [`layer ${layer + 1}`, `${layer + 1}`, start, start + layers[layer] - 1];
  return {
    rows: order.map((task) => tasks[task]), columns: components, named: true,
    key: `${runKey()} ${chosen.frame}`,
    value: (row, column) => values[order[row] * n + column],
    gaps: starts.slice(1), lines: boundaries(order), group: groupName(), strips: strips(order),
    heads: layers.length > 1 ? starts.map(head) : [],
    marks: new Map([...found].map(([task, mark]) => [order.indexOf(task), mark])),
  };
}
// Where all tasks are alike the colours begin higher than at 0, at a whole tenth.
function leastShown() {
  const least = shown.similarity.reduce((a, b) => Math.min(a, b));
  return least < 0.5 || least > 0.999 ? 0 : Math.floor(10 * least) / 10;
}
function similarModel(found) {
  const { tasks } = suite(), n = tasks.length, { similarity } = shown;
  const names = order.map((task) => tasks[task]);
  const low = leastShown();
  say("#least-alike", low);
  return {
    rows: names, columns: names, named: true, key: runKey(),
    value: (row, column) => Math.round(
      (100 * (similarity[order[row] * n + order[column]] - low)) / (1 - low)
    ),
    gaps: [], lines: boundaries(order), group: groupName(), strips: strips(order), heads: [],
    marks: new Map([...found].map(([task, mark]) => [order.indexOf(task), mark])),
  };
}
function curvesModel() {
  const kind = $("#curve-kind").value;
  const lines = experiment().methods.map(
    (each, place) => (
      { place, name: each.name, curve: each[kind], strong: place === chosen.method, ...styleOf(place) }
    )
  );
  const drawn = lines.filter(({ name, curve }) => curve && !hidden.has(name));
  return { lines: drawn, label: kind === "loss" ? "Training loss" : drawn[0]?.curve.label ?? "Validation" };
}
function costModel() {
  const points = experiment().methods.map(
    (each, place) => (
      {
        place, name: each.name, cost: each.point?.[0], value: each.point?.[1], chosen: each.chosen,
        strong: place === chosen.method, ...styleOf(place)
      }
    )
  );
  const runs = method().runs.map(({ cost, value }) => [cost, value]).filter((pair) => !pair.includes(null));
  return {
    points: points.filter(({ cost, value }) => cost && cost[0] !== null && value[0] !== null), runs,
    xLabel: costLabel(), yLabel: experiment().measure,
  };
}

// What is beside the drawings.

function say(id, text) { $(id).textContent = text; }

function drawWords() {
  const entry = run(), { measure } = experiment();
  const tiles = [
    [`${measure}, all runs`, method().value || "–"], [`${measure}, this run`, significant(entry.value)],
    [
      suite().binary ? "Gates open" : "Components used",
      entry.open === null ? "–" : `${significant(entry.open)} %`,
    ],
    ["Rounds", thousands(entry.rounds) + (entry.best === null ? "" : `, best at ${thousands(entry.best)}`)],
    ["Clusters of tasks", shown ? new Set(shown.clusters).size : "–"],
  ];
  $("#tiles").replaceChildren(
    ...tiles.map(([name, value]) => html("div", {}, html("dt", {}, name), html("dd", {}, String(value))))
  );
  const without = method().runs.filter((each) => !each.end && !each.failed).length;
  const reason = entry.failed
    ? "This run failed: it has no allocation to show."
    : `The maps of ${without} of ${method().runs.length} runs of this method, this one among them, were left `
      + "out to keep the page small. The tables below have all runs.";
  say("#missing", shown ? "" : reason);
  for (const card of explorer.querySelectorAll(".needs-map")) card.hidden = !shown;
}
function drawNear() {
  const near = $("#near");
  near.classList.toggle("empty", chosen.task === null);
  if (!shown || chosen.task === null) {
    near.replaceChildren(
      "Pick a task, in a map, the tree or the list above: its nearest tasks are then marked everywhere."
    );
    return;
  }
  const items = neighbours(chosen.task).map((task) => {
    const made = button(
      `${suite().tasks[task]} ${similarityOf(chosen.task, task).toFixed(2)}`, null, () => pickTask(task),
    );
    made.className = "chip";
    return made;
  });
  near.replaceChildren(html("strong", {}, suite().tasks[chosen.task]), " is most like ", ...items);
}
function drawTime() {
  const slider = $("#time"), last = shown.frames.length - 1, { at, rounds, best } = run();
  slider.max = last;
  slider.value = chosen.frame;
  const end = `end of training, ${best === null ? "" : "weights of "}round ${thousands(best ?? rounds)}`;
  const text = isEnd() ? end : `round ${thousands(at[chosen.frame])} of ${thousands(rounds)}`;
  slider.setAttribute("aria-valuetext", text);
  say("#round", text);
  $("#timeline").hidden = last === 0;
  const still = "Gates over time are not in this page for this run: they were fixed, not recorded, or left "
    + "out to keep it small.";
  say("#still", last ? "" : still);
}
function drawFamilies() {
  const entries = [...familyColours()].map(([name, fill]) => html(
    "span", { class: "family" },
    svg("svg", { width: 10, height: 10, "aria-hidden": "true" }, svg("rect", { width: 10, height: 10, fill })),
    name || "none",
  ));
  $("#families").replaceChildren(...(entries.length ? ["Bars beside the rows are families:", ...entries] : []));
}
function drawKeys() {
  const entries = experiment().methods.map((each, place) => {
    const box = html("input", { type: "checkbox" });
    box.checked = !hidden.has(each.name);
    box.disabled = !each[$("#curve-kind").value];
    box.addEventListener(
      "change", () => { box.checked ? hidden.delete(each.name) : hidden.add(each.name); drawCurves(); },
    );
    const { colour, dash } = styleOf(place);
    const mark = svg(
      "svg",
      { width: 26, height: 10, "aria-hidden": "true" },
      svg(
        "line",
        { x1: 0, x2: 26, y1: 5, y2: 5, stroke: colour, "stroke-width": 3, "stroke-dasharray": dash || null },
      ),
    );
    return html("label", {}, box, mark, `${each.name}${each.loss ? ` (n=${each.loss.n})` : ""}`);
  });
  $("#keys").replaceChildren(...entries);
}
function drawCurves() {
  curves.draw(curvesModel());
  say("#smoothing", $("#curve-kind").value === "loss" ? `Training loss is ${experiment().smoothing}.` : "");
}

const nearText = (task) => (chosen.task === null ? "–" : similarityOf(chosen.task, task).toFixed(2));

function drawTables() {
  if (shown && $("#task-table").parentElement.open) drawTasks($("#task-table"));
  if ($("#run-table").parentElement.open) drawRuns($("#run-table"));
}
function drawTasks(host) {
  const { tasks, families } = suite();
  if (host.dataset.key !== runKey()) {
    const hasTest = shown.tested.some((value) => !Number.isNaN(value));
    const optional = (has, value) => (has ? [value] : []);
    const head = [
      "Task", ...optional(families.length, "Family"), "Cluster", "Components used, %",
      ...optional(hasTest, experiment().measure), "Similarity to the picked task",
    ];
    const rows = order.map(
      (task) => [
        tasks[task], ...optional(families.length, families[task]), shown.clusters[task] + 1,
        shown.used[task], ...optional(hasTest, significant(shown.tested[task])), nearText(task),
      ]
    );
    makeTable(host, `${fileStem()}-tasks`, head, rows, (place) => pickTask(order[place]));
    host.dataset.key = runKey();
  }
  for (const row of host.querySelector("tbody").rows) { // a pick changes little of a long table
    const task = order[row.dataset.place];
    row.toggleAttribute("aria-current", task === chosen.task);
    row.lastElementChild.textContent = nearText(task);
  }
}
function drawRuns(host) {
  const head = [
    "Seed", experiment().measure, suite().binary ? "Gates open, %" : "Components used, %", "Rounds",
    "Seconds", "Ended",
  ];
  const rows = method().runs.map(
    (each) => [
      each.seed, each.value, each.open === null ? null : significant(each.open), each.rounds, each.seconds,
      each.failed ? "failed" : "finished",
    ]
  );
  const key = `${chosen.experiment} ${chosen.method}`;
  if (host.dataset.key !== key) makeTable(
    host, `${experiment().title}-${method().name}-runs`, head, rows, (place) => choose({ run: place }),
  );
  host.dataset.key = key;
  for (const row of host.querySelector("tbody").rows) row.toggleAttribute(
    "aria-current", Number(row.dataset.place) === chosen.run,
  );
}
