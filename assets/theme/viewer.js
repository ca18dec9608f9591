// Page viewer's keys, the prompt against the previous ask, copying an explanation, and choices that stay when Gradio puts a view in anew.
"use strict";
(() => {
  const api = window.fusebox;

  // --- choices that outlive the element they were made in: data-keep names them --------------------------------------------
  const kept = new Map();
  const valueOf = (element) => (element.type === "radio" ? element.value : element.checked ?? element.open);
  function keep(element) { if (element?.dataset?.keep) kept.set(element.dataset.keep, valueOf(element)); }
  function restore(element) {
    element.dataset.kept = "";
    const value = kept.get(element.dataset.keep);
    if (value === undefined) return;
    if (element.type === "radio") element.checked = element.value === value;
    else if (element.tagName === "DETAILS") element.open ||= value;
    else element.checked = value;
  }

  // --- the prompt against the previous ask: asked for again with every new answer until the person says otherwise -----------
  let comparing = false;
  function compare(box) {
    comparing = box.checked;
    api.onPrompt?.({ compare: box.checked });
  }
  function compareAgain(box) {
    box.dataset.kept = "";
    if (!comparing || box.checked) return;
    if (box.closest("details").querySelector("[role=status]")) comparing = false; // there is nothing before
    else api.onPrompt?.({ compare: true });
  }

  // --- an explanation to the clipboard; without a secure context there is no clipboard, but the selection can be copied -----
  async function copy(button) {
    const box = button.closest(".fb-explain");
    const level = box.querySelector("input:checked")?.value ?? "0";
    const text = box.querySelector(`pre[data-level="${level}"]`).textContent;
    let done = true;
    try { await navigator.clipboard.writeText(text); } catch { done = copySelected(text); }
    const label = button.textContent;
    button.textContent = done ? "Copied" : "Select the text";
    setTimeout(() => { button.textContent = label; }, 1600);
  }
  function copySelected(text) {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "fb-sr";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }

  document.addEventListener("change", (event) => {
    keep(event.target);
    if (event.target.matches?.("[data-compare-prompt]")) compare(event.target);
  });
  document.addEventListener("toggle", (event) => { if (event.target.dataset?.kept !== undefined) keep(event.target); }, true);
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-copy-explanation]");
    if (button) copy(button);
    const occluder = event.target.closest?.("[data-occlude]");
    if (occluder) { occluder.disabled = true; occluder.textContent = "Hiding one part after another …"; }
  });
  document.addEventListener("keydown", (event) => {
    if (!document.getElementById("fb-dialog")?.open || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { "+": "in", "=": "in", "-": "out", 0: "fit" }[event.key];
    if (step) document.querySelector(`#fb-dialog [data-zoom="${step}"]`)?.click();
  });
  new MutationObserver(() => {
    for (const element of document.querySelectorAll("[data-keep]:not([data-kept])")) restore(element);
    for (const box of document.querySelectorAll("[data-compare-prompt]:not([data-kept])")) compareAgain(box);
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
