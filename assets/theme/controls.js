// The controls: an answer that they have moved away from says so, a group of radio buttons is one stop of the Tab key, and a link skips them.
"use strict";
(() => {
  const api = window.fusebox;
  const NAMES = ["question", "preset", "generator"];
  const folded = (text) => String(text ?? "").trim().replace(/\s+/g, " ");
  let now = null, told = "";

  // --- an answer from before the controls were moved -------------------------------------------------------------------------
  function moved(asked) {
    return now ? Object.keys(asked).filter((name) => name in now && folded(now[name]) !== folded(asked[name][0])) : [];
  }
  function words(asked, changed) {
    const settings = changed.filter((name) => name !== "question");
    if (!changed.length) return "";
    if (!settings.length) return "This answer is to the question asked before; press Ask for the present one.";
    const more = settings.filter((name) => !NAMES.includes(name)).map((name) => asked[name][1]);
    const from = [asked.preset[1], asked.generator[1], ...more].join(", ");
    return `This answer is from ${from}; press Ask for the present settings.`;
  }
  function mark() {
    const card = document.querySelector("#answer [data-asked]"), line = card?.querySelector("[data-outdated]");
    const said = line && card.dataset.asked ? JSON.parse(card.dataset.asked) : {};
    const text = words(said, moved(said));
    if (line && line.textContent !== text) { line.textContent = text; line.hidden = !text; }
    const live = document.getElementById("fb-outdated-live");
    if (live && told !== text) live.textContent = told = text;
  }
  api.moved = (values, names) => { now = Object.fromEntries(names.map((name, at) => [name, values[at]])); mark(); };

  // --- one stop of the Tab key ---------------------------------------------------------------------------------------------
  // Gradio gives every radio button a name of its own, so that the browser takes each for a group: with the same name the arrow keys go from
  // one to the next, and the Tab key past them.
  function group() {
    for (const set of document.querySelectorAll("fieldset:has(input[type=radio][name^=radio-])")) {
      const label = set.querySelector('[data-testid="block-info"]');
      if (!set.id || !label) continue;
      label.id ||= `${set.id}-label`;
      set.setAttribute("role", "radiogroup");
      set.setAttribute("aria-labelledby", label.id);
      for (const button of set.querySelectorAll("input[type=radio]")) {
        const checked = button.checked;
        button.name = `fb-${set.id}`;
        if (checked) button.checked = true;
      }
    }
  }

  // --- past the tabs and the controls, to the question -----------------------------------------------------------------------
  function skip(event) {
    event.preventDefault();
    const tab = document.querySelector('[role="tab"][aria-selected="true"]')?.dataset.tabId;
    const box = document.querySelector(tab === "compare" ? "#compare-question textarea" : "#question textarea");
    if (!box?.checkVisibility()) document.querySelector('[role="tab"][data-tab-id="explore"]')?.click();
    (box?.checkVisibility() ? box : document.querySelector("#question textarea"))?.focus();
  }

  function start() {
    const live = document.createElement("div");
    live.className = "fb-sr"; live.id = "fb-outdated-live";
    live.setAttribute("role", "status");
    const link = document.createElement("a");
    link.className = "fb-skip"; link.href = "#question"; link.textContent = "Skip to the question";
    link.addEventListener("click", skip);
    document.body.prepend(link);
    document.body.append(live);
    const look = () => { group(); mark(); };
    new MutationObserver(look).observe(document.body, { childList: true, subtree: true, attributeFilter: ["data-asked", "name"] });
    look();
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
