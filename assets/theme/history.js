// History card: restore an answer, load a trace from a file, copy a link to question and settings.
"use strict";
(() => {
  const MAX_BYTES = 10_000_000, LOADING = "Loading …";
  const card = () => document.querySelector("#history .fb-history");
  function tell(text, bad = false) {
    const line = card()?.querySelector("[data-link-told]");
    if (!line) return;
    line.textContent = text;
    line.classList.toggle("bad", bad);
  }
  async function load(field) {
    const [file] = field.files;
    field.value = "";
    if (!file) return;
    if (file.size > MAX_BYTES) {
      tell(`This file has ${Math.round(file.size / 1e6)} MB; a trace has at most 10 MB. Choose a file saved with 'Download trace'.`, true);
      return;
    }
    tell(LOADING);
    window.fusebox.onHistory?.({ trace: await file.text() });
  }
  function showLink([question, preset, generator, ...values], names, usual) {
    const fields = new URLSearchParams();
    if (question?.trim()) fields.set("q", question.trim());
    fields.set("system", preset);
    fields.set("generator", generator);
    names.forEach((name, at) => { if (String(values[at]) !== String(usual[name])) fields.set(name, values[at]); });
    const link = `${location.origin}${location.pathname}?${fields}`;
    const box = card()?.querySelector("[data-link]");
    if (!box) return;
    box.value = link;
    const shown = () => { box.hidden = false; box.focus(); box.select(); tell("Copy it from the field."); };
    // Only a secure page may write to the clipboard.
    if (navigator.clipboard && isSecureContext) navigator.clipboard.writeText(link).then(() => { box.hidden = false; tell("Copied."); }, shown);
    else shown();
  }
  document.addEventListener("click", (event) => {
    const target = event.target.closest?.("[data-restore], [data-trace-load], [data-copy-link]");
    if (!target) return;
    if (target.dataset.restore) window.fusebox.onHistory?.({ restore: target.dataset.restore });
    else if ("traceLoad" in target.dataset) card()?.querySelector("[data-trace-file]")?.click();
    else document.querySelector("#link-maker")?.click();
  });
  document.addEventListener("change", (event) => { if (event.target.matches?.("[data-trace-file]")) load(event.target); });
  Object.assign(window.fusebox, {
    onHistory: null, showLink,
    toTop: () => {
      // A card that says the same as before, as after the same file again, is not drawn anew.
      if (card()?.querySelector("[data-link-told]")?.textContent === LOADING) tell("");
      if (!card()?.querySelector(".fb-told.bad")) document.querySelector("#ask-row")?.scrollIntoView({ block: "nearest" });
    },
  });
})();
