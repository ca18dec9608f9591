// The Compare tab: a page opened from a cell is drawn with that cell's evidence, and a cell opens in Explore.
"use strict";
(() => {
  const fusebox = window.fusebox;
  let from = null; // the cell whose page is open: a number, "" for the reference's, null for Explore's

  // Clicks are looked at before the page viewer sees them; its own buttons (next page) stay with the cell.
  document.addEventListener("click", (event) => {
    const opener = event.target.closest?.("[data-page]");
    if (opener && !opener.closest("#fb-dialog")) {
      from = opener.closest("#compare") ? opener.closest("[data-cell]")?.dataset.cell ?? "" : null;
    }
    const button = event.target.closest?.("[data-open-cell]");
    if (button) fusebox.onCompareCell?.({ cell: button.dataset.openCell });
  }, true);

  let explorePage = fusebox.onPage;
  Object.defineProperty(fusebox, "onPage", {
    get: () => (from === null ? explorePage : (wanted) => fusebox.onComparePage?.({ ...wanted, cell: from })),
    set: (send) => { explorePage = send; },
  });

  fusebox.toExplore = () => {
    document.querySelector('[role="tab"][data-tab-id="explore"]')?.click();
    scrollTo(0, 0);
  };

  // Gradio's list has no words for an empty field.
  const hint = () => {
    const field = document.querySelector("#compare-picker input");
    if (field && !field.placeholder) field.placeholder = "Pick a question, or type a part of one …";
  };
  const start = () => new MutationObserver(hint).observe(document.body, { childList: true, subtree: true });
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();

  const ask = () => [...document.querySelectorAll("#compare-ask")].find((button) => button.checkVisibility())?.click();
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.closest?.("#compare")) {
      event.preventDefault();
      event.stopPropagation();
      ask();
    }
  }, true);
})();
