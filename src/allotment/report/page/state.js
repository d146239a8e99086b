// What is chosen, the run that is shown, and the order of its tasks.


const DATA = JSON.parse(document.querySelector("script[type='application/json']").textContent);
const chosen = { experiment: 0, method: 0, run: 0, task: null, sort: "cluster", frame: null };
const hidden = new Set(); // names of methods whose curves are switched off
let order = []; // of its tasks, from the first row to the last
let shown = null; // the chosen run, unpacked

const experiment = () => DATA.experiments[chosen.experiment];
const method = () => experiment().methods[chosen.method];
const run = () => method().runs[chosen.run];
const suite = () => experiment().suites[run().suite];
const styleOf = (place) => (
  { colour: lineColour(place, experiment().methods.length), dash: lineDash(place) }
);
const runKey = () => [chosen.experiment, chosen.method, chosen.run, chosen.sort].join(" ");
const fileStem = () => `${experiment().title}-${method().name}-seed-${run().seed}`;

// A run, unpacked: at its end, and its gates over time.

async function unpackRun(entry, { tasks, components, binary }) {
  const nTasks = tasks.length, nCells = nTasks * components.length;
  const read = reader(await unpacked(entry.end));
  const found = {
    heights: read(Float32Array, nTasks - 1), tested: read(Float32Array, nTasks),
    merges: read(Uint16Array, 2 * (nTasks - 1)), clusters: read(Uint16Array, nTasks),
    used: read(Uint16Array, nTasks),
  };
  const last = read(Int16Array, nCells);
  found.rows = read(binary ? Uint8Array : Float32Array, nCells);
  found.frames = [];
  if (entry.over_time) {
    const changes = reader(await unpacked(entry.over_time));
    for (const _ of entry.at) {
      const now = changes(Int16Array, nCells), before = found.frames.at(-1);
      if (before) for (let cell = 0; cell < nCells; cell += 1) now[cell] += before[cell];
      found.frames.push(now);
    }
  }
  found.frames.push(last);
  found.order = nTasks > 1 ? leafOrder(found.merges, nTasks) : [0];
  found.similarity = cosines(found.rows, nTasks, components.length);
  return found;
}

// As `allotment.analysis.cosine_similarity`: a row of zeros is like another such row alone.
function cosines(rows, nTasks, n) {
  const similarity = new Float64Array(nTasks * nTasks);
  const product = (a, b) => {
    let sum = 0;
    for (let at = 0, i = a * n, j = b * n; at < n; at += 1) sum += rows[i + at] * rows[j + at];
    return sum;
  };
  const squares = Float64Array.from(range(nTasks), (task) => product(task, task));
  for (let a = 0; a < nTasks; a += 1) {
    for (let b = 0; b <= a; b += 1) {
      const both = squares[a] * squares[b];
      const value = a === b ? 1 : both ? clamp(
        product(a, b) / Math.sqrt(both), -1, 1,
      ) : Number(squares[a] === squares[b]);
      similarity[a * nTasks + b] = similarity[b * nTasks + a] = value;
    }
  }
  return similarity;
}

const similarityOf = (a, b) => shown.similarity[a * suite().tasks.length + b];

// The nearest tasks: five, or half of the others where they are few.
function neighbours(task) {
  const others = range(suite().tasks.length).filter((other) => other !== task);
  others.sort((a, b) => similarityOf(task, b) - similarityOf(task, a) || a - b);
  return others.slice(0, Math.min(5, Math.max(1, Math.floor(others.length / 2))));
}
function marks() {
  const found = new Map();
  if (chosen.task === null) return found;
  found.set(chosen.task, "picked");
  for (const task of neighbours(chosen.task)) found.set(task, "near");
  return found;
}

// Rows and where lines go between them.

function rowOrder() {
  const { tasks, families } = suite(), place = new Map(shown.order.map((task, row) => [task, row]));
  const byTree = (a, b) => place.get(a) - place.get(b);
  const first = (family) => families.indexOf(family);
  const every = range(tasks.length);
  if (chosen.sort === "name") return every.sort(
    (a, b) => tasks[a].localeCompare(tasks[b], "en", { numeric: true })
  );
  if (chosen.sort === "family" && families.length) return every.sort(
    (a, b) => first(families[a]) - first(families[b]) || byTree(a, b)
  );
  return chosen.sort === "cluster" ? every.sort(byTree) : every;
}
function boundaries(order) {
  const group = {
    cluster: (task) => shown.clusters[task], family: (task) => suite().families[task],
  }[chosen.sort];
  return group ? range(order.length).slice(1).filter(
    (row) => group(order[row]) !== group(order[row - 1])
  ) : [];
}
function groupName() {
  if (chosen.sort === "cluster") return (row) => `cluster ${shown.clusters[order[row]] + 1}`;
  return chosen.sort === "family" && suite().families.length ? (row) => suite().families[order[row]] : null;
}
// The colour of each family, where there are not too many to tell them apart.
function familyColours() {
  const names = [...new Set(suite().families)];
  return new Map(names.length < LINES.length ? names.map((name, place) => [name, LINES[place]]) : []);
}
function strips(order) {
  const { families } = suite(), colours = familyColours();
  return order.map((task) => colours.get(families[task]) ?? null);
}
