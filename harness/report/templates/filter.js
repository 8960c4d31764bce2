"use strict";
(() => {
  const body = document.querySelector("[data-filtered]");
  if (!body) return;
  const rows = [...body.children];
  const size = Number(body.dataset.page) || rows.length;
  const controls = document.querySelector(".filters");
  const selects = [...controls.querySelectorAll("select")];
  const search = document.getElementById("search");
  const count = document.getElementById("shown");
  const chips = [...document.querySelectorAll(".summary button")];
  const outcome = document.getElementById("filter-outcome");
  const turns = { previous: -1, next: 1 };
  let page = 0;

  function apply(turn = 0) {
    const words = search.value.toLowerCase();
    const found = rows.filter(
      (row) =>
        selects.every((s) => !s.value || row.dataset[s.dataset.field] === s.value) &&
        row.textContent.toLowerCase().includes(words),
    );
    const last = Math.max(0, Math.ceil(found.length / size) - 1);
    page = turn ? Math.min(last, Math.max(0, page + turn)) : 0;
    const shown = new Set(found.slice(page * size, (page + 1) * size));
    for (const row of rows) row.hidden = !shown.has(row);
    const first = page * size + 1;
    const which = last
      ? `${first} to ${first + shown.size - 1} of ${found.length}`
      : `${found.length} of ${rows.length}`;
    count.textContent = `${which} shown`;
    for (const chip of chips) chip.setAttribute("aria-pressed", String(chip.dataset.outcome === outcome.value));
    for (const [id, step] of Object.entries(turns)) {
      const button = document.getElementById(id);
      if (button) button.disabled = page + step < 0 || page + step > last;
    }
  }

  for (const select of selects) select.addEventListener("change", () => apply());
  search.addEventListener("input", () => apply());
  for (const [id, step] of Object.entries(turns)) document.getElementById(id)?.addEventListener("click", () => apply(step));
  document.getElementById("clear").addEventListener("click", () => {
    for (const select of selects) select.value = "";
    search.value = "";
    apply();
  });
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      outcome.value = outcome.value === chip.dataset.outcome ? "" : chip.dataset.outcome;
      apply();
    });
  }
  // A link to a claim must find it even when a filter hides it.
  window.addEventListener("hashchange", () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.hidden) document.getElementById("clear").click();
  });
  controls.hidden = false;
  apply();
})();
