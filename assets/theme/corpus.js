// Corpus page: the switcher in the header, lists and pages, and documents on their way to the server, which go past Gradio's events as files.
"use strict";
(() => {
  const api = window.fusebox;
  const find = (selector, root = document) => root.querySelector(selector);
  let pressed = null, sending = null, opened = false, asked = false, next = null;

  // One at a time: Gradio runs an event that came meanwhile later, but without what it asked for.
  function ask(wanted) {
    if (asked) { next = wanted; return; }
    if (!api.onBrowse) return;
    asked = true;
    api.onBrowse(wanted);
  }
  api.corpusBrowsed = () => {
    const wanted = next;
    asked = false;
    next = null;
    if (wanted) ask(wanted); else api.corpusShown();
  };

  // --- looking around: the button that was pressed has the focus again when everything around it is new -------------------------------
  function browse(button) {
    pressed = { label: button.getAttribute("aria-label"), to: button.dataset.browse, home: button.closest("#corpus-list, #corpus-page")?.id };
    button.setAttribute("aria-busy", "true");
    ask(JSON.parse(button.dataset.browse));
  }
  function search(form) {
    const { q, scope, document: about } = form.elements;
    pressed = null;
    opened = true; // a first list that comes late must not take the place of what was found
    ask({ q: q.value, scope: scope.value, document: about?.value ?? "" });
  }
  api.corpusShown = (another = false) => {
    const notice = find("#corpus-notice .fb-notice"), select = find("[data-corpus-choice]");
    if (notice) notice.hidden = false;
    select?.removeAttribute("aria-busy");
    // What could not be opened is not what the page shows.
    if (select) select.value = [...select.options].find((option) => option.defaultSelected)?.value ?? "";
    if (another) find("[data-corpus-form]")?.reset();
    const was = pressed;
    pressed = null;
    if (!was) return;
    if (was.choice) { find("[data-corpus-choice]")?.focus(); return; }
    const home = document.getElementById(was.home);
    const buttons = [...(home?.querySelectorAll("[data-browse]:not(:disabled)") ?? [])];
    const again = buttons.find((one) => (was.label ? one.getAttribute("aria-label") === was.label : one.dataset.browse === was.to));
    (again ?? (was.label && find("h2[tabindex]", home)))?.focus({ preventScroll: true });
    const narrow = matchMedia("(max-width: 1180px)").matches;
    if (was.label?.endsWith("entries")) home.scrollIntoView({ block: "nearest" });
    else if (narrow && was.home === "corpus-list") find("#corpus-page")?.scrollIntoView({ block: "start" });
  };
  function choose(select) {
    pressed = { choice: true };
    select.setAttribute("aria-busy", "true");
    api.onChoose?.({ corpus: select.value });
  }

  // The first list comes when the tab is first seen.
  function open() {
    const unread = opened ? null : find("#corpus-list [data-unread]");
    if (!unread?.checkVisibility() || !api.onBrowse) return;
    opened = true;
    ask(JSON.parse(unread.dataset.unread));
  }
  const start = () => new MutationObserver(open).observe(document.body, { childList: true, subtree: true, attributeFilter: ["style", "class", "aria-selected"] });
  if (document.body) start(); else document.addEventListener("DOMContentLoaded", start);

  // --- regions of a passage ---------------------------------------------------------------------------------------------------------
  function light(item, on) {
    for (const id of (item.dataset.regions ?? "").split(" ").filter(Boolean)) {
      find(`#corpus-page [data-region="${CSS.escape(id)}"]`)?.classList.toggle("lit", on);
    }
  }

  // --- documents: one request a file, so that how much is sent is known and any of it can be refused -----------------------------------
  const card = () => find(".fb-upload");
  function tell(text, bad = false) {
    const line = find("[data-upload-told]", card());
    line.textContent = text;
    line.classList.toggle("bad", bad);
    find(".fb-sending", card()).hidden = !sending;
  }
  // What scans are read in: one language at least, and no more than are read at a time.
  const chosen = () => [...(card()?.querySelectorAll("[data-languages] input:checked") ?? [])];
  function tickLanguage(box) {
    const list = box.closest("[data-languages]"), full = chosen().length >= Number(list.dataset.most);
    if (!chosen().length) box.checked = true;
    for (const other of list.querySelectorAll("input")) other.disabled = full && !other.checked;
    find("[data-languages-told]", list).textContent = chosen().map((one) => one.nextElementSibling.textContent).join(", ");
  }
  function problem(files) {
    const { maxFiles, maxMb } = card().dataset;
    const bytes = files.reduce((sum, file) => sum + file.size, 0);
    if (Number(maxFiles) && files.length > Number(maxFiles)) return `These are ${files.length} files; at most ${maxFiles} are taken (FUSEBOX_MAX_FILES). Leave some out.`;
    if (Number(maxMb) && bytes > Number(maxMb) * 1e6) return `These have ${Math.ceil(bytes / 1e6)} MB; all files together may have ${maxMb} MB (FUSEBOX_MAX_MB). Leave some out, or split the file.`;
    return "";
  }
  function post(file, first, sent) {
    return new Promise((done, fail) => {
      const request = new XMLHttpRequest();
      sending = request;
      request.open("POST", new URL("fusebox/upload", document.baseURI));
      request.setRequestHeader("Content-Type", "application/octet-stream");
      request.setRequestHeader("X-Fusebox-Session", find("#session [data-session]")?.dataset.session ?? "");
      request.setRequestHeader("X-Fusebox-Name", encodeURIComponent(file.name.slice(-300)));
      if (first) request.setRequestHeader("X-Fusebox-First", "1");
      request.responseType = "json";
      request.upload.addEventListener("progress", (event) => sent(event.loaded));
      request.addEventListener("load", () => (request.response?.error ? fail(request.response.error) : request.status === 200 ? done() : fail("Fusebox did not take this file; try again.")));
      request.addEventListener("error", () => fail("Fusebox could not be reached, or took no more of this file; try again."));
      request.addEventListener("abort", () => fail("Stopped. Nothing was kept."));
      request.send(file);
    });
  }
  async function send(list) {
    const files = [...list];
    if (!files.length || sending || find("[data-building]")) return;
    const refused = problem(files);
    if (refused) { tell(refused, true); return; }
    const bar = find(".fb-sending progress", card());
    const all = files.reduce((sum, file) => sum + file.size, 0) || 1;
    let before = 0;
    bar.value = 0;
    try {
      for (const [at, file] of files.entries()) {
        const done = post(file, at === 0, (loaded) => { bar.value = (before + loaded) / all; });
        tell(`Sending ${file.name} (${at + 1} of ${files.length}) …`);
        await done;
        before += file.size;
      }
      sending = null;
      tell("");
      api.onBuild?.({ languages: chosen().map((box) => box.value) });
    } catch (error) {
      sending = null;
      tell(String(error), true);
    }
  }

  const clicks = {
    "[data-browse]": browse,
    "[data-upload-stop]": () => sending?.abort(),
    "[data-corpus-stop]": (button) => { button.disabled = true; api.onCorpusStop?.({ stop: button.dataset.corpusStop }); },
    "[data-corpus-remove]": (button) => api.onRemove?.({ remove: button.dataset.corpusRemove }),
    "[data-index]": (button) => { button.disabled = true; api.onIndex?.({ index: button.dataset.index, corpus: button.dataset.corpus ?? "" }); },
    "[data-notice-close]": (button) => { button.closest(".fb-notice").hidden = true; },
    "[data-explore]": () => { find('[role="tab"][data-tab-id="explore"]')?.click(); requestAnimationFrame(() => find("#question textarea")?.focus()); },
  };
  document.addEventListener("click", (event) => {
    for (const [selector, act] of Object.entries(clicks)) {
      const target = event.target.closest?.(selector);
      if (target && !target.disabled) { act(target); return; }
    }
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches?.("[data-corpus-form]")) return;
    event.preventDefault();
    search(event.target);
  });
  document.addEventListener("change", (event) => {
    const { target } = event;
    if (target.matches?.("[data-corpus-choice]")) choose(target);
    else if (target.matches?.("[data-corpus-form] select") && (target.name === "document" || target.form.elements.q.value.trim())) search(target.form);
    else if (target.matches?.("[data-languages] input")) tickLanguage(target);
    else if (target.matches?.("[data-files]")) { send(target.files); target.value = ""; }
  });
  for (const [kind, on] of [["mouseover", true], ["mouseout", false], ["focusin", true], ["focusout", false]]) {
    document.addEventListener(kind, (event) => { const item = event.target.closest?.("[data-regions]"); if (item) light(item, on); });
  }
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      const zone = event.target.closest?.("[data-drop]");
      if (!zone) return;
      event.preventDefault();
      zone.classList.toggle("over", kind === "dragover");
      if (kind === "drop") send(event.dataTransfer.files);
    });
  }
})();
