"use strict";
(() => {
  const tables = JSON.parse(document.getElementById("what-if-data").textContent);
  const select = (name) => document.getElementById(`what-if-${name}`);
  const [platform, workload, size, ahead] = ["platform", "workload", "size", "ahead"].map(select);
  const devices = select("devices"), body = select("rows"), status = select("status");
  const WEAKEST_FIRST = ["published", "modelled", "simulated", "measured"];

  function choices(element, values, label) {
    const before = element.value;
    element.replaceChildren(...values.map((value) => new Option(label ? label(value) : value, value)));
    if (values.map(String).includes(before)) element.value = before;
  }

  const distinct = (values) => [...new Set(values)];
  const current = () => tables.find((t) =>
    t.platform === platform.value && t.workload === workload.value && String(t.batch_size) === size.value);

  // MAP Equation 3: the slower of learner and replay management sets the pace; on one GPU their times add up.
  function relaxed(time, learner, rmm) {
    const step = time("learner.step", learner.target);
    const replay = time("sum_tree.sample", rmm.target) + time("sum_tree.update", rmm.target);
    const shared = learner.device === rmm.device && learner.device.startsWith("cuda");
    return shared ? step + replay : Math.max(step, replay);
  }

  // Nothing overlaps: the sum of all primitives of a gradient step.
  function strict(time, learner, rmm, storage, steps) {
    return steps * (time("environment.step", "cpu") + time("actor.infer", learner.target)
      + time("storage.insert", storage) + time("sum_tree.insert", rmm.target))
      + time("sum_tree.sample", rmm.target) + time("storage.gather", storage)
      + time("learner.step", learner.target) + time("sum_tree.update", rmm.target);
  }

  function predictions(table, allowed, overlaps) {
    const entries = new Map(table.times.map(([name, target, device, seconds, provenance, noisy]) =>
      [`${name} ${target}`, { target, device, seconds, provenance, noisy }]));
    const timed = (name) => table.times.filter((t) => t[0] === name).map((t) => ({ target: t[1], device: t[2] }));
    const updates = new Set(timed("sum_tree.update").map((t) => t.target));
    const managers = timed("sum_tree.sample").filter((t) =>
      updates.has(t.target) && t.target.split(/[:[]/)[0] !== "reference");
    const places = new Set(timed("storage.gather").map((t) => t.device));
    const found = [];
    for (const learner of timed("learner.step")) for (const rmm of managers) {
      for (const device of distinct(["cpu", learner.device, rmm.device]).sort()) {
        if (places.size && !places.has(device)) continue;
        if (![learner.device, rmm.device, device].every((d) => d === "cpu" || allowed.has(d))) continue;
        const used = [];
        let noisy = false;
        const time = (name, target) => {
          const entry = entries.get(`${name} ${target}`);
          used.push(entry ? entry.provenance : "missing");
          noisy = noisy || Boolean(entry && entry.noisy);
          return entry ? entry.seconds : NaN;
        };
        const storage = table.storages[device];
        const seconds = overlaps ? relaxed(time, learner, rmm)
          : strict(time, learner, rmm, storage, table.environment_steps);
        if (Number.isNaN(seconds)) continue;
        found.push({
          mapping: `${learner.target}-${rmm.target}-${storage}`,
          rate: 1 / seconds,
          inputs: WEAKEST_FIRST.find((word) => used.includes(word)) + (noisy ? ", too noisy for a verdict" : ""),
        });
      }
    }
    return found.sort((a, b) => b.rate - a.rate || (a.mapping < b.mapping ? -1 : 1));
  }

  function cell(text, className) {
    const made = document.createElement("td");
    made.textContent = text;
    made.className = className || "";
    return made;
  }

  function show() {
    const boxes = [...devices.querySelectorAll("input")];
    const allowed = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    const found = predictions(current(), allowed, ahead.value === "1");
    body.replaceChildren(...found.map((one, place) => {
      const row = document.createElement("tr");
      row.dataset.mapping = one.mapping;
      row.dataset.rate = String(one.rate);
      row.append(cell(String(place + 1), "right"), cell(one.mapping),
        cell(one.rate.toLocaleString("en", { maximumSignificantDigits: 4 }), "right"), cell(one.inputs));
      return row;
    }));
    status.textContent = found.length ? `${found.length} mappings; the fastest: ${found[0].mapping}`
      : "No mapping has times for all of its parts.";
  }

  function fill() {
    const here = tables.filter((t) => t.platform === platform.value);
    choices(workload, distinct(here.map((t) => t.workload)));
    choices(size, here.filter((t) => t.workload === workload.value).map((t) => t.batch_size));
    const table = current();
    devices.replaceChildren(...Object.keys(table.storages).filter((d) => d !== "cpu").map((device) => {
      const label = document.createElement("label"), box = document.createElement("input");
      Object.assign(box, { type: "checkbox", value: device, checked: true });
      box.addEventListener("change", show);
      label.append(box, ` ${device}`);
      return label;
    }));
    show();
  }

  choices(platform, distinct(tables.map((t) => t.platform)));
  for (const element of [platform, workload, size]) element.addEventListener("change", fill);
  ahead.addEventListener("change", show);
  fill();
})();
