/* What style sheets cannot see: what is wider than its place, where a name may break, and under which head a cell stands.
   Whatever scrolls sideways takes the keyboard's focus; a table of sentences that would scroll is stacked (site.css). */
"use strict";
(() => {
  const NAMES = { PRE: "Code", DIV: "Formula or table", P: "Figure" };
  const LONG = 40; // letters; more of them are a sentence
  const NAME = 20; // letters; longer names may break at their joints
  const AIM = /^at (most|least) \S+$/; // on two lines it would make every row of its table two lines high
  const WIDE = 480; // pixels; wider figures have several panels, whose words a phone would make too small

  const overflows = (box) => box.scrollWidth > box.clientWidth + 1;

  function ofSentences(table) {
    return [...table.querySelectorAll("tbody td:not(:first-child)")].some((cell) => cell.textContent.trim().length > LONG);
  }

  function label(table) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.children].forEach((cell, k) => cell.textContent.trim() && cell.setAttribute("data-column", heads[k] || ""));
    }
  }

  function stack(box) {
    const table = box.querySelector("table");
    table.classList.remove("stacked");
    if (overflows(box) && ofSentences(table)) {
      label(table);
      table.classList.add("stacked");
    }
  }

  function letFocus(box) {
    if (overflows(box)) {
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", `${NAMES[box.tagName]}, scrolls sideways`);
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
    }
  }

  function letBreak(name) {
    if (name.textContent.length <= NAME) return;
    const parts = name.textContent.split(/(?<=[/._])(?=.)/);
    name.replaceChildren(...parts.flatMap((part, k) => (k ? [document.createElement("wbr"), part] : [part])));
  }

  function look() {
    for (const image of document.querySelectorAll("article p > img")) image.classList.toggle("wide", image.naturalWidth > WIDE);
    document.querySelectorAll("article .table-wrapper").forEach(stack);
    document.querySelectorAll("article pre, article .table-wrapper, article div.math, article p:has(> img)").forEach(letFocus);
  }

  function keepWhole(cell) {
    if (AIM.test(cell.textContent.trim())) cell.style.whiteSpace = "nowrap";
  }

  document.querySelectorAll("article table code .pre").forEach(letBreak);
  document.querySelectorAll("article table td").forEach(keepWhole);
  addEventListener("load", look);
  addEventListener("resize", look);
})();
