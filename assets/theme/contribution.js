// Did it help? What the card of the four answers does.
"use strict";
(() => {
  const api = window.fusebox;
  const card = () => document.querySelector("#helped .fb-helped");
  let told = "", waiting = false;
  function look() {
    const found = card();
    const spoken = found?.matches(".done:not([hidden])") ? [...found.querySelectorAll(".fb-summary, .fb-helped-lines li")].map((one) => one.textContent).join(" ") : "";
    const live = document.getElementById("fb-helped-live");
    if (live && spoken !== told) live.textContent = told = spoken;
    if (!waiting || !found?.matches(".done, .problem")) return;
    waiting = false;
    // The button that was pressed is gone with the card before.
    if (document.activeElement === document.body) found.focus({ preventScroll: true });
    found.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }
  async function copy(button) {
    const link = new URL(location.href.split(/[?#]/)[0]);
    link.searchParams.set("q", button.dataset.question);
    const text = `${button.dataset.copied}\n${link}`;
    const line = card().querySelector("[data-helped-told]");
    line.hidden = false;
    try { await navigator.clipboard.writeText(text); line.textContent = "Copied: the verdict, and a link to the question."; }
    catch { line.textContent = text; }
  }
  const acts = {
    ask: () => { waiting = true; api.onHelped?.("click", {}); },
    show: (button) => { waiting = true; api.onHelped?.("apply", { cell: button.dataset.cell }); },
    close: () => api.onHelped?.("clear", {}),
    copy,
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-helped]");
    if (button && !button.disabled) acts[button.dataset.helped]?.(button);
  });
  function start() {
    const live = document.createElement("div");
    live.className = "fb-sr"; live.id = "fb-helped-live";
    live.setAttribute("role", "status");
    document.body.append(live);
    new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
    look();
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
  Object.assign(api, { onHelped: null });
})();
