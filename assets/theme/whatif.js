// Leave out and ask again, and influence. What is ticked is kept here, because Gradio draws the columns anew when an answer ends; another answer
// on the page starts with what it was itself made without.
"use strict";
(() => {
  const api = window.fusebox;
  const ticked = new Map();
  let shown = "", waiting = null, last = "", told = "";
  const boxes = () => [...document.querySelectorAll("#columns input[data-leave]")];
  const bar = () => document.querySelector(".fb-whatif-bar");
  const panel = () => document.querySelector("#whatif .fb-whatif");
  const isOut = (box) => ticked.get(box.dataset.leave) ?? box.defaultChecked;
  const set = (element, name, value) => { if (element && element[name] !== value) element[name] = value; };

  function list(tags) {
    return tags.length > 8 ? `${tags.slice(0, 8).join(", ")} and ${tags.length - 8} more` : tags.join(", ");
  }
  function look() {
    const now = document.querySelector("#answer [data-trace]")?.dataset.trace ?? "";
    if (now && now !== shown) { shown = now; ticked.clear(); }
    for (const box of boxes()) set(box, "checked", isOut(box));
    // What still comes for an answer that is no longer on the page is not shown.
    for (const card of document.querySelectorAll("#whatif [data-of], #influence [data-of], #helped [data-of]")) set(card, "hidden", Boolean(card.dataset.of && shown && card.dataset.of !== shown));
    draw();
    follow();
    say();
  }
  // The panel comes into view when it is there, and takes the focus when its last drawing is: every drawing before is replaced.
  function follow() {
    const found = panel();
    if (!waiting || !found || found.outerHTML === waiting.before) return;
    if (!waiting.seen) found.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    waiting.seen = true;
    if (found.dataset.running) return;
    waiting = null;
    if (document.activeElement === document.body || bar().contains(document.activeElement)) found.focus();
  }
  function draw() {
    const box = bar();
    if (!box) return;
    const running = document.querySelector("#whatif [data-running]:not([hidden]), #influence [data-running]:not([hidden])")?.dataset.running ?? "";
    const out = boxes().filter(isOut);
    const changed = boxes().some((one) => isOut(one) !== one.defaultChecked);
    const tags = list(out.map((one) => one.dataset.tag));
    set(box, "hidden", !running && !changed);
    set(box.querySelector("p"), "textContent", running || (out.length ? `${out.length} left out: ${tags}` : "Nothing left out any more"));
    set(box.querySelector("fieldset"), "hidden", Boolean(running) || !out.length);
    const ask = box.querySelector('[data-whatif="ask"]');
    set(ask, "hidden", Boolean(running));
    set(ask, "textContent", out.length ? "Ask again without" : "Ask again with all");
    set(box.querySelector('[data-whatif="clear"]'), "hidden", Boolean(running));
    const stop = box.querySelector('[data-whatif="stop"]');
    set(stop, "hidden", !running);
    if (!running) set(stop, "disabled", false);
  }
  // What a screen reader hears when the second answer, or the influence of the items, is there.
  function say() {
    const live = document.getElementById("fb-whatif-live");
    const found = [...document.querySelectorAll("#whatif .fb-verdict, #influence section:not([data-running]) .fb-summary")];
    const spoken = found.map((one) => one.textContent).join(" ");
    if (live && spoken !== told) live.textContent = told = spoken;
  }

  const acts = {
    ask: () => {
      waiting = { before: panel()?.outerHTML, seen: false };
      const refill = Boolean(bar().querySelector("input:checked")?.value);
      api.onWhatIf?.("click", { items: boxes().filter(isOut).map((box) => box.dataset.leave), refill });
    },
    clear: () => { ticked.clear(); look(); boxes().find((box) => box.dataset.leave === last)?.focus(); },
    stop: (button) => { button.disabled = true; api.onWhatIf?.("stop", {}); },
    show: () => api.onWhatIf?.("apply", {}),
    close: () => { api.onWhatIf?.("clear", {}); boxes()[0]?.focus({ preventScroll: true }); },
  };
  const measures = {
    measure: () => api.onInfluence?.("click", {}),
    agree: () => api.onInfluence?.("click", { agreed: true }),
    forget: () => api.onInfluence?.("clear", {}),
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-whatif], [data-influence]");
    if (!button || button.disabled) return;
    (acts[button.dataset.whatif] ?? measures[button.dataset.influence])?.(button);
  });
  document.addEventListener("change", (event) => {
    const box = event.target.closest?.("input[data-leave]");
    if (!box) return;
    last = box.dataset.leave;
    ticked.set(last, box.checked);
    look();
  });
  function start() {
    const live = document.createElement("div");
    live.className = "fb-sr"; live.id = "fb-whatif-live";
    live.setAttribute("role", "status");
    document.body.append(live);
    new MutationObserver(look).observe(document.body, { childList: true, subtree: true, attributeFilter: ["data-trace"] });
    look();
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
