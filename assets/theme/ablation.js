// The Ablation tab: charts are drawn when they come into sight, the others when there is time, in the colours of the day or the night, and
// go out as PNG or SVG. plotly.js comes from this server with the first chart; nothing else is fetched.
"use strict";
(() => {
  const fusebox = window.fusebox;
  const drawn = new Set();

  let library;
  function plotly() {
    library ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL("fusebox/plotly.js", document.baseURI).href;
      script.onload = () => resolve(window.Plotly);
      script.onerror = () => { library = undefined; reject(new Error("plotly.js could not be loaded")); };
      document.head.append(script);
    });
    return library;
  }

  // --- colours: figures name the page's CSS variables ----------------------------------------------------------------
  const NAME = /^var\((--fb-[\w-]+)\)$/;
  function coloured(value, style) {
    if (typeof value === "string") {
      const found = NAME.exec(value);
      return found ? style.getPropertyValue(found[1]).trim() : value;
    }
    if (Array.isArray(value)) return value.map((one) => coloured(one, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, coloured(one, style)]));
    }
    return value;
  }
  function figure(box) {
    const style = getComputedStyle(document.body);
    const { data, layout } = coloured(JSON.parse(box.nextElementSibling.textContent), style);
    layout.font = { ...layout.font, family: style.fontFamily };
    return { data, layout, style };
  }

  // --- drawing ---------------------------------------------------------------------------------------------------------
  async function draw(box) {
    const card = box.closest(".fb-chart-card");
    try {
      const Plotly = await plotly();
      if (!box.isConnected) return;
      // Gradio patches what is there: a box may be the one of an earlier figure, with its drawing taken out.
      if (drawn.has(box) && !box.dataset.drawn) { Plotly.purge(box); drawn.delete(box); }
      const { data, layout } = figure(box);
      await Plotly.react(box, data, layout, { displayModeBar: false, responsive: true });
      if (!drawn.has(box)) {
        drawn.add(box);
        box.on("plotly_click", ({ points }) => {
          const cell = points[0]?.customdata;
          if (Array.isArray(cell)) fusebox.onAblationCell?.({ cell });
        });
      }
      box.dataset.drawn = "true";
    } catch (error) {
      box.textContent = `This chart can't be drawn (${error.message}); its figures are in the tables below.`;
      card?.classList.add("failed");
    }
  }
  const sight = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      sight.unobserve(target);
      if (!target.dataset.drawn) draw(target);
    }
    rest();
  }, { rootMargin: "300px" });
  // Tables are folded on a phone until somebody opens them, and stay as they were left when the board is drawn anew.
  const folds = new Map();
  function fold() {
    const phone = matchMedia("(max-width: 720px)").matches;
    for (const one of document.querySelectorAll("[data-abl-fold]")) one.open = folds.get(one.dataset.ablFold) ?? !phone;
  }
  // What is not in sight is drawn one by one when there is nothing else to do, so that it is there when printed or scrolled to.
  let resting = false;
  function drawRest() {
    const box = [...document.querySelectorAll(".fb-chart[data-seen]:not([data-drawn], [data-tried])")].find((one) => one.clientWidth);
    resting = Boolean(box);
    if (!box) return;
    box.dataset.tried = "true";
    draw(box).then(() => idle(drawRest));
  }
  function rest() {
    if (!resting) { resting = true; idle(drawRest); }
  }
  const idle = window.requestIdleCallback?.bind(window) ?? ((work) => setTimeout(work, 200));
  function look() {
    fold();
    rest();
    for (const box of document.querySelectorAll(".fb-chart:not([data-seen])")) {
      box.dataset.seen = "true";
      box.setAttribute("role", "img");
      box.setAttribute("aria-label", `Chart: ${box.dataset.title}. Its figures are in the tables below.`);
      sight.observe(box);
    }
    for (const box of drawn) {
      if (!box.isConnected) { window.Plotly?.purge(box); drawn.delete(box); }
    }
  }
  let dark = null;
  function repaint() {
    const now = document.body.classList.contains("dark");
    if (dark !== null && dark !== now) for (const box of drawn) draw(box);
    dark = now;
  }
  function start() {
    const board = new MutationObserver(look);
    const wait = new MutationObserver(() => {
      const place = document.getElementById("ablation-board");
      lock();
      if (!place || place.dataset.watched) return;
      place.dataset.watched = "true";
      board.observe(place, { childList: true, characterData: true, subtree: true, attributeFilter: ["data-seen"] });
      look();
    });
    wait.observe(document.body, { childList: true, subtree: true });
    repaint();
    new MutationObserver(repaint).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  }
  if (document.body) start(); else addEventListener("DOMContentLoaded", start);

  // --- out: PNG and SVG, made here -------------------------------------------------------------------------------------
  async function save(box, form) {
    const Plotly = await plotly();
    const { data, layout, style } = figure(box);
    const width = Math.max(480, box.clientWidth), lines = Math.ceil(data.filter((trace) => trace.name).length / Math.max(1, Math.floor(width / 190)));
    const height = layout.height + 56 + 20 * lines;
    const title = { text: box.dataset.title.replace(/[<>&]/g, " "), x: 0.01, xanchor: "left", y: 1, yref: "container", yanchor: "top",
      pad: { t: 12 }, font: { size: 15 }, subtitle: { text: box.dataset.note.replace(/[<>&]/g, " "), font: { size: 11 } } };
    const card = style.getPropertyValue("--fb-card").trim();
    const margin = { ...layout.margin, t: (layout.margin?.t ?? 8) + 56, b: (layout.margin?.b ?? 8) + 20 * lines };
    const link = document.createElement("a");
    link.href = await Plotly.toImage(
      { data, layout: { ...layout, title, width, height, margin, paper_bgcolor: card, showlegend: lines > 0 } }, { format: form, width, height, scale: form === "png" ? 2 : 1 });
    link.download = `fusebox-${box.dataset.name}.${form}`;
    document.body.append(link);
    link.click();
    link.remove();
  }

  // --- judges without a key: listed, and not to be ticked ----------------------------------------------------------------
  function lock() {
    for (const label of document.querySelectorAll("#ablation-run-judges label")) {
      const box = label.querySelector("input"), needs = / · (needs .+)$/.exec(label.textContent.trim());
      if (!box || box.disabled === Boolean(needs)) continue;
      box.disabled = Boolean(needs);
      label.classList.toggle("fb-locked", box.disabled);
    }
  }

  // --- clicks ------------------------------------------------------------------------------------------------------------
  let opener = null;
  document.addEventListener("click", (event) => {
    const folded = event.target.closest?.("summary")?.closest("[data-abl-fold]");
    if (folded) folds.set(folded.dataset.ablFold, !folded.open);
    const button = event.target.closest?.("button");
    if (!button?.closest("#ablation")) return;
    const { chartAs, ablCell, ablQuestion, ablResume, ablGo } = button.dataset;
    if (chartAs) save(button.closest(".fb-chart-card").querySelector(".fb-chart"), chartAs);
    if (ablCell) { opener = button; fusebox.onAblationCell?.({ cell: JSON.parse(ablCell) }); }
    if (ablQuestion) fusebox.onAblationQuestion?.({ question: JSON.parse(ablQuestion) });
    if (ablResume) fusebox.onAblationResume?.({ resume: ablResume });
    if (ablGo) goTo(document.getElementById(ablGo));
    if ("ablClose" in button.dataset) {
      document.querySelector("#abl-questions")?.remove();
      if (opener?.isConnected) goTo(opener);
    }
  });
  function goTo(place) {
    if (!place) return;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    place.scrollIntoView({ block: "start", behavior: still ? "auto" : "smooth" });
    place.focus({ preventScroll: true });
  }
  fusebox.showQuestions = () => goTo(document.querySelector("#ablation-questions :is(section, .fb-abl-told)"));
})();
