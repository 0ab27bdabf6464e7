"use strict";
(() => {
  const value = (cell) => {
    const raw = cell.dataset.sort;
    if (raw !== undefined && raw !== "" && !Number.isNaN(Number(raw))) return Number(raw);
    return raw ?? cell.textContent.trim();
  };
  const compare = (a, b) => {
    const numbers = typeof a === "number" && typeof b === "number";
    if (!numbers && typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return numbers ? a - b : a.localeCompare(b, undefined, { numeric: true });
  };
  const missing = (key) => key === "--" || key === "";
  for (const table of document.querySelectorAll("table.data")) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const numeric = head.classList.contains("num");
        const now = head.getAttribute("aria-sort");
        const next = now ? (now === "descending" ? "ascending" : "descending") : numeric ? "descending" : "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        const rows = [...body.rows].map((row, index) => ({ row, index, key: value(row.cells[column]) }));
        rows.sort((a, b) =>
          missing(a.key) - missing(b.key) || sign * compare(a.key, b.key) || a.index - b.index);
        body.append(...rows.map((each) => each.row));
      });
    });
  }
  const folds = [...document.querySelectorAll("details")];
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = folds.filter((fold) => !fold.open);
    closed.forEach((fold) => { fold.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((fold) => { fold.open = false; }));
})();
