// What the page does in the browser: theme, jumps from chip to item, the page viewer, the graph frame. Everything is delegated from the document,
// because Gradio replaces the contents of its components. Nothing here is fetched from another origin.
"use strict";
window.fusebox = (() => {
  const THEME_KEY = "fusebox-theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

  // --- theme: the person's choice, else the system's -----------------------------------------------------------------
  const stored = () => { try { return localStorage.getItem(THEME_KEY); } catch { return null; } };
  const isDark = () => (stored() ? stored() === "dark" : system.matches);
  function applyTheme() {
    if (!document.body) return;
    if (document.body.classList.contains("dark") !== isDark()) document.body.classList.toggle("dark", isDark());
    for (const frame of document.querySelectorAll(".fb-graph iframe")) tell(frame, { theme: isDark() ? "dark" : "light" });
  }
  function toggleTheme() {
    const next = isDark() ? "light" : "dark";
    try {
      if ((next === "dark") === system.matches) localStorage.removeItem(THEME_KEY);
      else localStorage.setItem(THEME_KEY, next);
    } catch { document.body.classList.toggle("dark"); return; }
    applyTheme();
  }

  // --- items -----------------------------------------------------------------------------------------------------------
  const item = (id) => document.querySelector(`[data-item="${CSS.escape(id)}"]`);
  function flash(element) {
    if (!element) return;
    for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    element.scrollIntoView({ block: "center", behavior: still() ? "auto" : "smooth" });
    element.focus({ preventScroll: true });
    element.classList.remove("fb-flash");
    void element.offsetWidth;
    element.classList.add("fb-flash");
    element.addEventListener("animationend", () => element.classList.remove("fb-flash"), { once: true });
  }
  function about(id) {
    document.querySelector('[role="tab"][data-tab-id="about"]')?.click();
    waitFor(() => { const row = document.querySelector(`[data-document="${CSS.escape(id)}"]`); return row?.offsetParent ? row : null; }, flash);
  }
  function waitFor(find, then, frames = 120) {
    const found = find();
    if (found) then(found);
    else if (frames > 0) requestAnimationFrame(() => waitFor(find, then, frames - 1));
  }

  // --- page viewer -------------------------------------------------------------------------------------------------------
  let dialog, opener, zoom = 1;
  function viewer() {
    if (dialog) return dialog;
    dialog = document.createElement("dialog");
    dialog.id = "fb-dialog";
    dialog.setAttribute("aria-labelledby", "fb-viewer-title");
    dialog.addEventListener("close", () => { dialog.replaceChildren(); opener?.isConnected && opener.focus(); });
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    document.body.append(dialog);
    return dialog;
  }
  function openPage(button) {
    const box = viewer();
    if (!box.open) {
      opener = button;
      zoom = 1;
      const wait = document.createElement("p");
      wait.className = "fb-empty"; wait.id = "fb-viewer-title"; wait.textContent = "Opening …";
      box.replaceChildren(wait);
      box.showModal();
    }
    const { page = "", focus = "", crop = "", occlude = "" } = button.dataset;
    api.onPage?.({ page, focus, crop, occlude });
  }
  function showPage() {
    const source = document.querySelector("#viewer .fb-viewer, #viewer .fb-empty, #viewer .fb-card");
    if (!dialog?.open || !source) return;
    const pressed = dialog.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    dialog.replaceChildren(source.cloneNode(true));
    setZoom(zoom);
    const again = pressed && [...dialog.querySelectorAll("button:not(:disabled)")].find((b) => b.getAttribute("aria-label") === pressed);
    (again || dialog.querySelector("[data-close]"))?.focus();
    const sheet = dialog.querySelector(".fb-sheet");
    const boxes = [...dialog.querySelectorAll("rect.focus")];
    // Where the boxes lie is known once the picture is there.
    if (boxes.length) dialog.querySelector(".fb-paper img").decode().then(() => {
      const top = Math.min(...boxes.map((box) => box.getBoundingClientRect().top));
      sheet.scrollTop += top - sheet.getBoundingClientRect().top - sheet.clientHeight / 3;
    }, () => {});
  }
  function setZoom(value) {
    zoom = Math.min(4, Math.max(0.5, value));
    dialog.querySelector(".fb-paper")?.style.setProperty("--zoom", String(zoom));
  }

  // --- graph frame -------------------------------------------------------------------------------------------------------
  const tell = (frame, message) => frame.contentWindow?.postMessage(message, "*");
  function onMessage({ source, data }) {
    const frame = [...document.querySelectorAll(".fb-graph iframe")].find((one) => one.contentWindow === source);
    if (!frame || !data || typeof data !== "object") return;
    if (data.fusebox === "ready") {
      frame.dataset.ready = "true";
      tell(frame, { theme: isDark() ? "dark" : "light" });
      api.graphReady?.(frame);
    }
    else api.onGraphClick?.(frame, data);
  }

  // --- what a screen reader hears when an answer is there -----------------------------------------------------------------
  function say() {
    const live = document.getElementById("fb-live");
    const spoken = document.querySelector("#answer [data-spoken]")?.dataset.spoken ?? "";
    if (live && live.textContent !== spoken) live.textContent = spoken;
  }
  // On a phone the controls fill the first screen: a new answer that is out of sight is brought there, below its question.
  const narrow = matchMedia("(max-width: 820px)");
  let followed = "";
  function follow() {
    const card = document.querySelector("#answer [data-trace]");
    if (!card?.dataset.trace || card.dataset.trace === followed) return;
    followed = card.dataset.trace;
    const { top } = card.getBoundingClientRect();
    if (!narrow.matches || !card.offsetParent || (top >= 0 && top < innerHeight * .6)) return;
    document.querySelector("#question")?.scrollIntoView({ block: "start", behavior: still() ? "auto" : "smooth" });
  }
  function addLive() {
    const live = document.createElement("div");
    live.className = "fb-sr"; live.id = "fb-live";
    live.setAttribute("role", "status");
    document.body.append(live);
  }

  // --- the gate's signals: closed until the person opens them, then open with every answer -------------------------------------
  let gateOpen = false;
  function openGate() {
    document.querySelector("#answer .fb-gate details")?.toggleAttribute("open", gateOpen);
  }

  // --- generator cards: Gradio's radio buttons carry one text each; its lines are set as access, name, price and needs; after a
  // question, what its prompt would take stands beside them --------------------------------------------------------------------
  const cards = () => [...document.querySelectorAll("#generator .wrap label")];
  const nameOf = (label) => label.querySelector("input")?.value ?? "";
  function line(text, kind, tag = "small") {
    const part = document.createElement(tag);
    part.className = kind;
    part.textContent = text;
    return part;
  }
  function row(...parts) {
    const box = line("", "fb-row", "span");
    box.append(...parts);
    return box;
  }
  function setCards() {
    let access = "";
    for (const label of cards()) {
      const text = label.querySelector("span");
      const lines = text.textContent.split("\n");
      if (lines.length !== 4) continue;
      if (lines[0] !== access) label.dataset.access = access = lines[0];
      text.replaceChildren(
        line(lines[0], "fb-sr"),
        row(line(lines[1], "fb-name", "b"), line(lines[2], "fb-price")),
        row(line(lines[3], "fb-needs")),
      );
      showField();
    }
  }
  function setEstimates() {
    const source = document.querySelector("#estimates [data-estimates]");
    const found = source ? JSON.parse(source.dataset.estimates) : {};
    for (const label of cards()) {
      const estimate = found[nameOf(label)];
      const text = label.querySelector("span"), price = text.querySelector(".fb-price");
      if (!price) continue;
      price.dataset.before ??= price.textContent;
      price.textContent = estimate?.price ?? price.dataset.before;
      text.querySelector(".fb-tokens")?.remove();
      text.querySelector(".fb-noted")?.remove();
      if (!estimate) continue;
      text.querySelector(".fb-needs").after(line(estimate.tokens, "fb-tokens"));
      if (estimate.note) text.append(line(estimate.note, "fb-noted"));
    }
    const told = document.querySelector('#generator [data-testid="block-info"] + div');
    const words = told?.querySelector("p, span") ?? told;
    if (!words) return;
    words.dataset.before ??= words.textContent;
    words.textContent = source?.dataset.told ?? words.dataset.before;
  }

  // --- a visitor's own key: sent past Gradio's events, and the field is emptied before the answer is there ------------------------
  const keys = () => document.querySelector("#keys .fb-keys");
  const chosen = () => document.querySelector("#generator input:checked")?.value ?? "";
  const held = new Set();
  function showField(told = "", bad = false) {
    const box = keys();
    if (!box) return;
    const variables = JSON.parse(box.dataset.variables);
    const wanted = variables[chosen()] ?? "";
    for (const field of box.querySelectorAll(".fb-key")) {
      field.hidden = field.dataset.variable !== wanted;
      field.querySelector("[data-key-forget]").hidden = !held.has(field.dataset.variable);
      if (field.hidden) field.querySelector("input").value = "";
    }
    box.querySelector("[data-no-key]").hidden = Boolean(wanted);
    box.querySelector("[data-key-rule]").hidden = !wanted;
    const line = box.querySelector(".fb-key-told");
    line.textContent = told;
    line.classList.toggle("bad", bad);
    for (const label of cards()) {
      const needs = label.querySelector(".fb-needs");
      const variable = variables[nameOf(label)];
      if (!needs || !variable) continue;
      needs.dataset.before ??= needs.textContent;
      const own = held.has(variable);
      needs.textContent = own ? needs.dataset.before.replace(/(needs \S+|key set)$/, "your key") : needs.dataset.before;
      needs.classList.toggle("own", own);
    }
  }
  async function sendKey(field, key) {
    const variable = field.dataset.variable;
    const session = document.querySelector("#session [data-session]")?.dataset.session ?? "";
    field.querySelector("input").value = "";
    try {
      const reply = await fetch(new URL("fusebox/key", document.baseURI), {
        method: "POST", credentials: "same-origin", cache: "no-store", referrerPolicy: "no-referrer",
        headers: { "Content-Type": "application/json" }, body: JSON.stringify({ session, variable, key }),
      });
      const { held: has, error } = await reply.json();
      if (error) { showField(error, true); return; }
      if (has) held.add(variable); else held.delete(variable);
      showField(has ? "Your key is used from now on." : "Forgotten.");
    } catch { showField("Fusebox could not be reached; enter the key again.", true); }
  }
  function useKey(field) {
    const box = field.querySelector("input");
    if (box.value.trim()) sendKey(field, box.value); else box.focus();
  }

  const ask = () => document.querySelector("#ask")?.click();
  const clicks = {
    "[data-theme-toggle]": toggleTheme,
    "[data-jump]": (chip) => flash(item(chip.dataset.jump)),
    "[data-about]": (link) => about(link.dataset.about),
    "[data-page], [data-crop]": openPage,
    "[data-key-use]": (button) => useKey(button.closest(".fb-key")),
    "[data-key-forget]": (button) => sendKey(button.closest(".fb-key"), ""),
    ".fb-gate summary": (fold) => { gateOpen = !fold.parentElement.open; },
    "[data-close]": () => dialog.close(),
    "[data-zoom]": (button) => setZoom({ in: zoom * 1.25, out: zoom / 1.25, fit: 1 }[button.dataset.zoom]),
  };
  document.addEventListener("click", (event) => {
    for (const [selector, act] of Object.entries(clicks)) {
      const target = event.target.closest?.(selector);
      if (target && target.dataset.page !== "") { act(target); return; }
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.closest?.("#generator")) showField();
  });
  document.addEventListener("keydown", (event) => {
    const field = event.target.closest?.(".fb-key input") && event.target.closest(".fb-key");
    if (field && event.key === "Enter") { event.preventDefault(); useKey(field); return; }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !dialog?.open) { event.preventDefault(); ask(); }
    if (dialog?.open && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const step = { ArrowLeft: "Previous page", ArrowRight: "Next page" }[event.key];
      if (step && zoom <= 1) dialog.querySelector(`[aria-label="${step}"]:not(:disabled)`)?.click();
    }
  });
  addEventListener("message", onMessage);
  system.addEventListener("change", applyTheme);

  function start() {
    applyTheme();
    // Gradio sets the class itself when it starts and when the system changes; the person's choice wins.
    new MutationObserver(applyTheme).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    addLive();
    // Gradio may put any of its elements in anew, or change one in place, so everything is looked after whenever something changes.
    let estimates = "", fields = null;
    const look = () => {
      setCards();
      say();
      follow();
      openGate();
      const found = document.querySelector("#estimates [data-estimates]")?.dataset.estimates ?? "";
      if (found !== estimates) { estimates = found; setEstimates(); }
      if (keys() && keys() !== fields) { fields = keys(); showField(); }
    };
    const watched = { childList: true, subtree: true, attributeFilter: ["open", "data-spoken", "data-estimates"] };
    new MutationObserver(look).observe(document.body, watched);
    look();
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();

  const api = { ask, showPage, onPage: null };
  return api;
})();
