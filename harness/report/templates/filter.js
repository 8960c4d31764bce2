"use strict";
(() => {
  const rows = [...document.querySelectorAll("#verdict-rows > tr")];
  const selects = [...document.querySelectorAll(".filters select")];
  const search = document.getElementById("search");
  const count = document.getElementById("shown");
  const chips = [...document.querySelectorAll(".summary button")];
  const outcome = document.getElementById("filter-outcome");

  function apply() {
    const words = search.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const matches = selects.every((s) => !s.value || row.dataset[s.dataset.field] === s.value);
      row.hidden = !(matches && row.textContent.toLowerCase().includes(words));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = `${shown} of ${rows.length} shown`;
    for (const chip of chips) chip.setAttribute("aria-pressed", String(chip.dataset.outcome === outcome.value));
  }

  for (const select of selects) select.addEventListener("change", apply);
  search.addEventListener("input", apply);
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
  document.querySelector(".filters").hidden = false;
  apply();
})();
