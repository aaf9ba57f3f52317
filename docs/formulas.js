// Formulas as pymdownx.arithmatex leaves them, set by KaTeX; again after each change of page.
function setFormulas() {
  for (const place of document.querySelectorAll(".arithmatex")) {
    const text = place.textContent;
    if (!/^\\[([]/.test(text)) continue;
    katex.render(text.slice(2, -2), place, { displayMode: text[1] === "[", throwOnError: false });
  }
}
if (typeof document$ !== "undefined") document$.subscribe(setFormulas);
else document.addEventListener("DOMContentLoaded", setFormulas);
