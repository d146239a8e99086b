// Tables that one can sort by a click on a heading, copy, and save.

const numberIn = (text) => {
  const found = /^(?:below )?([+\-−]?\d[\d,]*\.?\d*(?:e[+-]?\d+)?)/.exec(text.trim());
  return found ? Number(found[1].replaceAll(",", "").replace("−", "-")) : null;
};
const cells = (row) => [...row.cells].map((cell) => cell.dataset.text ?? cell.textContent.trim());
const tableRows = (table) => [cells(table.tHead.rows[0]), ...[...table.tBodies[0].rows].map(cells)];

function sortBy(table, column, way) {
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, text: cells(row)[column] }));
  for (const each of rows) each.number = numberIn(each.text);
  const isBlank = ({ text }) => ["–", "", "not run"].includes(text);
  const numeric = rows.every((each) => isBlank(each) || each.number !== null);
  const compare = (a, b) => (
    numeric ? a.number - b.number : a.text.localeCompare(b.text, "en", { numeric: true })
  );
  rows.sort((a, b) => isBlank(a) - isBlank(b) || way * compare(a, b)); // what is missing stays last
  table.tBodies[0].append(...rows.map(({ row }) => row));
  [...table.tHead.rows[0].cells].forEach((cell, place) => {
    if (place === column) cell.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  });
}

async function copyText(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Could not copy";
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}

function button(text, label, action) {
  const made = html("button", { type: "button", "aria-label": label }, text);
  made.addEventListener("click", () => action(made));
  return made;
}

function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const text = cell.textContent.trim();
    cell.dataset.text = text;
    const made = html("button", { type: "button", class: "sort" }, text);
    made.addEventListener(
      "click", () => sortBy(table, column, cell.getAttribute("aria-sort") === "ascending" ? -1 : 1),
    );
    cell.replaceChildren(made);
  });
}

// The buttons of a table, with `name` for the file and for those who do not see where they stand.
function tableTools(table, name) {
  const tabbed = () => tableRows(table).map((row) => row.join("\t")).join("\n");
  return html("div", { class: "tools" },
    button("Copy", `Copy table: ${name}`, (made) => copyText(tabbed(), made)),
    button("CSV", `Save table as CSV: ${name}`, () => saveCsv(name, tableRows(table))));
}

// A table made here, of rows of texts and numbers; `onRow(place)` makes rows that one can choose.
function makeTable(host, name, head, rows, onRow) {
  const body = rows.map((row, place) => html("tr", { "data-place": place },
    ...row.map((value, column) => {
      const text = value === null ? "–" : String(value);
      return html("td", {}, column ? text : html("button", { type: "button", class: "link" }, text));
    })));
  const headings = head.map((text) => html("th", { scope: "col" }, text));
  const table = html("table", {}, html("thead", {}, html("tr", {}, ...headings)), html("tbody", {}, ...body));
  makeSortable(table);
  table.tBodies[0].addEventListener("click", ({ target }) => {
    if (target.matches("button")) onRow(Number(target.closest("tr").dataset.place));
  });
  host.replaceChildren(tableTools(table, name), html("div", { class: "scroll inner" }, table));
}

function enhanceTables() {
  for (const table of document.querySelectorAll("main > section:not([data-explorer]) table")) {
    makeSortable(table);
    const title = table.closest("section").querySelector("h2").firstChild.textContent.trim();
    const name = [title, table.caption?.textContent].filter(Boolean).join(", ");
    table.closest(".scroll").before(tableTools(table, name));
  }
}
