// The page to explore: every choice, and all that follows from it.

// All that follows from a choice; `what` names the parts that may stay.

function draw({ keepCharts = false } = {}) {
  hideTip();
  drawWords();
  order = shown ? rowOrder() : [];
  const found = shown ? marks() : new Map();
  if (shown) {
    drawTime();
    drawFamilies();
    map.draw(mapModel(found));
    similar.draw(similarModel(found));
    tree.draw({ ...shown, names: suite().tasks, marks: found });
  } else [map, similar, tree].forEach((each) => each.draw(null));
  drawNear();
  if (!keepCharts) {
    drawKeys();
    drawCurves();
    costs.draw(costModel());
  }
  drawTables();
  explorer.dataset.drawn = Number(explorer.dataset.drawn ?? 0) + 1; // for whoever waits for it
}

const filled = new Map(); // by select: making hundreds of options anew takes its time
function fill(select, texts, value) {
  const key = JSON.stringify(texts);
  if (filled.get(select) !== key) select.replaceChildren(
    ...texts.map((text, place) => html("option", { value: place }, text))
  );
  filled.set(select, key);
  select.value = value;
}

let turn = 0;
let coming = null; // what was chosen, while its run is being unpacked
let curvesOf = null; // the experiment whose curves are switched on and off

// What is chosen changes together with what is shown, since anything may draw in between.
async function choose(change) {
  stop();
  const next = { ...(coming ?? chosen), ...change }, { methods, suites } = DATA.experiments[next.experiment];
  if (change.experiment !== undefined) {
    next.method = Math.max(0, methods.findIndex((each) => each.runs.some((one) => one.over_time)));
    next.run = null;
  }
  next.run ??= methods[next.method].typical;
  const entry = methods[next.method].runs[next.run];
  turn += 1;
  const mine = turn;
  coming = next;
  const found = entry.end ? await unpackRun(entry, suites[entry.suite]) : null;
  if (mine !== turn) return; // something else was chosen meanwhile
  coming = null;
  take(next, found);
}
function take({ experiment: place, method: which, run: one }, found) {
  const stays = shown && !isEnd() && place === chosen.experiment && which === chosen.method;
  const before = shown && suite();
  Object.assign(chosen, { experiment: place, method: which, run: one });
  shown = found;
  const last = (shown?.frames.length ?? 1) - 1;
  chosen.frame = stays ? Math.min(chosen.frame, last) : last;
  if (before !== suite()) chosen.task = null;
  const families = suite().families.length > 0;
  $("#sort option[value=family]").disabled = !families;
  if (!families && chosen.sort === "family") chosen.sort = $("#sort").value = "cluster";
  if (curvesOf !== place) switchOn();
  curvesOf = place;
  fillChoices();
  draw();
}
// Of many methods only the chosen one and the best few are switched on at first.
function switchOn() {
  hidden.clear();
  const { methods } = experiment();
  const kinds = $("#curve-kind");
  kinds.querySelector("[value=checks]").disabled = !methods.some((each) => each.checks);
  if (!methods.some((each) => each[kinds.value])) kinds.value = "loss";
  if (methods.length > 8) methods.filter((each) => !each.chosen).slice(4).forEach(
    (each) => hidden.add(each.name)
  );
}
function fillChoices() {
  fill($("#experiment"), DATA.experiments.map((each) => each.title), chosen.experiment);
  fill($("#method"), experiment().methods.map((each) => each.name), chosen.method);
  const { runs, typical } = method();
  const isMedian = (place) => runs.length > 1 && place === typical && !runs[place].failed;
  const which = runs.filter((each) => !each.failed).length % 2 ? "median" : "lower median";
  const text = (each, place) =>
    `seed ${each.seed}: ${each.failed ? "failed" : significant(each.value)}${isMedian(place) ? ` (${which})` : ""}`;
  fill($("#run"), runs.map(text), chosen.run);
  fill($("#task"), ["none", ...suite().tasks], chosen.task === null ? 0 : chosen.task + 1);
}
function pickTask(task) {
  chosen.task = task === chosen.task ? null : task;
  $("#task").value = chosen.task === null ? 0 : chosen.task + 1;
  draw({ keepCharts: true });
}
function goTo(frame) {
  chosen.frame = frame;
  hideTip();
  drawTime();
  map.draw(mapModel(marks()));
}
let playing = null; // the timer, while it plays
function stop() {
  clearInterval(playing);
  playing = null;
  say("#play", "Play");
}
function play() {
  if (playing) return stop();
  if (isEnd()) goTo(0);
  say("#play", "Pause");
  playing = setInterval(() => (isEnd() ? stop() : goTo(chosen.frame + 1)), 160);
}

const SAVES = {
  map: [
    map,
    () => [
      ["task", "family", ...suite().components.map((name, column) => `layer ${layerOf(column)}: ${name}`)],
      ...order.map(
        (task) => [
          suite().tasks[task], suite().families[task] ?? "",
          ...gates().slice(task * suite().components.length, (task + 1) * suite().components.length)
        ].map((value) => (value === UNKNOWN ? "" : value))
      )
    ],
  ],
  similarity: [
    similar,
    () => [
      ["task", ...order.map((task) => suite().tasks[task])],
      ...order.map((a) => [suite().tasks[a], ...order.map((b) => Number(similarityOf(a, b).toFixed(4)))])
    ],
  ],
  tree: [
    tree,
    () => [
      ["joined", "with", "cosine distance"],
      ...range(shown.heights.length).map(
        (merge) => [
          treeName(shown.merges[2 * merge]), treeName(shown.merges[2 * merge + 1]),
          Number(shown.heights[merge].toPrecision(6)),
        ]
      )
    ],
  ],
  curves: [
    curves,
    () => [
      ["method", "round", "mean", "low", "high"],
      ...curvesModel().lines.flatMap(
        ({ name, curve }) => curve.rounds.map(
          (at, place) => [name, at, curve.mean[place], curve.low[place], curve.high[place]]
        )
      )
    ],
  ],
  costs: [
    costs,
    () => [
      ["method", "cost, %", "cost low", "cost high", "value", "value low", "value high"],
      ...costModel().points.map(({ name, cost, value }) => [name, ...cost, ...value])
    ],
  ],
};
const treeName = (node) => (
  node < suite().tasks.length ? suite().tasks[node] : `join ${node - suite().tasks.length + 1}`
);

function start() {
  document.body.append(tip);
  enhanceTables();
  // Older browsers have the tables and the figures.
  if (!DATA.experiments.length || !("DecompressionStream" in window)) return;
  explorer.hidden = false;
  for (const name of ["experiment", "method", "run"]) {
    $(`#${name}`).addEventListener(
      "change",
      (event) => choose({ ...(name === "method" ? { run: null } : {}), [name]: Number(event.target.value) }),
    );
  }
  $("#task").addEventListener("change", (event) => {
    chosen.task = Number(event.target.value) ? Number(event.target.value) - 1 : null;
    draw({ keepCharts: true });
  });
  $("#sort").addEventListener(
    "change", (event) => { chosen.sort = event.target.value; draw({ keepCharts: true }); },
  );
  $("#time").addEventListener("input", (event) => { stop(); goTo(Number(event.target.value)); });
  $("#play").addEventListener("click", play);
  $("#curve-kind").addEventListener("change", () => { drawKeys(); drawCurves(); });
  for (const [id, on] of [["#all-on", true], ["#all-off", false]]) {
    $(id).addEventListener("click", () => {
      experiment().methods.forEach(({ name }) => (on ? hidden.delete(name) : hidden.add(name)));
      drawKeys();
      drawCurves();
    });
  }
  for (const save of explorer.querySelectorAll("[data-save]")) {
    const [part, kind] = save.dataset.save.split(".");
    const [drawn, rows] = SAVES[part];
    save.addEventListener(
      "click",
      () => (
        kind === "csv" ? saveCsv(`${fileStem()}-${part}`, rows()) : saveSvg(
          `${fileStem()}-${part}`, drawn.drawing(),
        )
      ),
    );
  }
  for (const folded of explorer.querySelectorAll("details")) folded.addEventListener("toggle", drawTables);
  darkness.addEventListener("change", () => draw());
  for (const [name, value] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(name, () => { printing = value; draw(); });
  }
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
  choose({ experiment: 0 });
}
start();
