// The graph column: layers of the drawing, and what a click on an edge, a node, an entity or a relation asks the server for.
// The drawing (graph.html) and the tables ask for the same things; an answer goes to every place that waits for it.
"use strict";
(() => {
  const api = window.fusebox;
  const column = () => document.querySelector(".fb-column.graph");
  const within = (selector) => [...(column()?.querySelectorAll(selector) ?? [])];
  const place = (name) => column()?.querySelector(`[data-graph-${name}]`);
  const FACT = /^triple:[0-9]{1,9}$/, NODE = /^[sqo]:[0-9]{1,9}$/, ID = /^[0-9a-f]{12}$/;
  const say = (words) => { const status = place("status"); if (status) status.textContent = words; };

  // --- the drawing -----------------------------------------------------------------------------------------------------
  const frame = () => column()?.querySelector(".fb-graph iframe");
  function redraw() {
    const layers = Object.fromEntries(within("[data-layer]").map((box) => [box.dataset.layer, box.checked]));
    const around = within("section[data-drawn]").map((section) => JSON.parse(section.dataset.drawn));
    frame()?.closest(".fb-graph").classList.toggle("crowded", around.length > 0);
    frame()?.contentWindow?.postMessage({ layers, around }, "*");
  }
  api.graphReady = redraw;
  api.onGraphClick = (source, data) => {
    if (source !== frame()) return;
    if (data.fusebox === "fact" && FACT.test(data.item)) {
      place("said").dataset.wanted = data.item;
      api.onGraph?.({ fact: data.item });
    }
    if (data.fusebox === "node" && NODE.test(data.ref) && ID.test(data.node)) around(data.node, data.ref);
  };

  // --- the sentence of a fact: below the drawing, or below its row ------------------------------------------------------
  function toggleSentence(button) {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) button.closest("tr").nextElementSibling?.matches(".fb-said-row") && button.closest("tr").nextElementSibling.remove();
    else api.onGraph?.({ fact: button.dataset.said });
  }
  function showSentence(said) {
    const item = said.dataset.fact;
    const panel = place("said");
    if (panel?.dataset.wanted === item) panel.replaceChildren(said.cloneNode(true));
    for (const button of within(`[data-said="${item}"][aria-expanded="true"]`)) {
      const line = button.closest("tr");
      if (line.nextElementSibling?.matches(".fb-said-row")) continue;
      const below = document.createElement("tr"), cell = document.createElement("td");
      below.className = "fb-said-row";
      cell.colSpan = line.cells.length;
      cell.append(said.cloneNode(true));
      below.append(cell);
      line.after(below);
    }
    say(said.textContent);
    press();
  }

  // --- neighbours: shown and taken away by the same click -----------------------------------------------------------------
  const sectionOf = (node) => column()?.querySelector(`section[data-node="${node}"]`);
  function around(node, reference) {
    const section = sectionOf(node);
    if (section) takeAway(section); else api.onGraph?.({ around: reference });
  }
  function showAround(found) {
    if (sectionOf(found.dataset.node)) return;
    place("around")?.prepend(found.cloneNode(true));
    say(found.dataset.told);
    press();
    redraw();
  }
  function takeAway(section) {
    const back = section.contains(document.activeElement);
    const { node } = section.dataset;
    section.remove();
    say("Taken away.");
    press();
    redraw();
    if (back) within(`button[data-node="${node}"], button[data-node], .fb-relation`)[0]?.focus();
  }
  function press() {
    for (const button of within("button[data-node]")) button.setAttribute("aria-pressed", String(Boolean(sectionOf(button.dataset.node))));
  }

  // --- the other mode -----------------------------------------------------------------------------------------------------
  function toggleOther(button) {
    const open = button.getAttribute("aria-expanded") === "true";
    for (const one of within("[data-other-mode]")) one.setAttribute("aria-expanded", String(one === button && !open));
    if (open) place("other").replaceChildren(); else api.onGraph?.({ other: button.dataset.otherMode });
  }
  function put(name, element) {
    place(name)?.replaceChildren(element.cloneNode(true));
    say(element.querySelector(".fb-hint")?.textContent ?? element.textContent);
  }

  // --- answers ---------------------------------------------------------------------------------------------------------------
  const answers = {
    "[data-fact]": showSentence,
    "section[data-node]": showAround,
    ".fb-other": (reply) => { if (column()?.querySelector('[data-other-mode][aria-expanded="true"]')) put("other", reply); },
    "[data-mode-set]": (reply) => put("other", reply),
    "[data-refused]": (reply) => put(place("said") ? "said" : "other", reply),
  };
  api.showGraph = () => {
    for (const [selector, show] of Object.entries(answers)) {
      const reply = document.querySelector(`#graph-desk ${selector}`);
      if (reply) { show(reply); return; }
    }
  };

  const clicks = {
    "[data-graph-zoom]": (button) => frame()?.contentWindow?.postMessage({ zoom: button.dataset.graphZoom }, "*"),
    "[data-said]": toggleSentence,
    "button[data-around]": (button) => around(button.dataset.node, button.dataset.around),
    "[data-around-close]": (button) => takeAway(button.closest("section")),
    "[data-other-mode]": toggleOther,
    "[data-set-mode]": (button) => api.onGraph?.({ set: button.dataset.setMode }),
  };
  document.addEventListener("click", (event) => {
    for (const [selector, act] of Object.entries(clicks)) {
      const target = event.target.closest?.(`.fb-column.graph ${selector}`);
      if (target) { act(target); return; }
    }
  });
  document.addEventListener("change", (event) => { if (event.target.matches?.("[data-layer]")) redraw(); });
})();
