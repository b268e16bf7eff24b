"use strict";
// Walks through the page by keyboard and pointer, as a user would, and notes what it finds.

function walk() {
  const plot = document.getElementById("left");
  const seen = () => [state.points.length, state.selected, document.getElementById("say").textContent];
  const notes = {};
  plot.focus();
  notes.focus = seen();
  for (const key of ["n", "ArrowUp", "a", "Delete", "p"]) {
    plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    notes[key] = [...seen(), { ...state.points[state.selected] }];
  }
  const at = (name, x, y, more) => {
    const box = plot.getBoundingClientRect(), { plot: panel } = ensembles[0];
    const place = { clientX: box.x + panel.px(x), clientY: box.y + panel.py(y), bubbles: true, pointerId: 1 };
    plot.dispatchEvent(new PointerEvent(name, { ...place, ...more }));
  };
  plot.setPointerCapture = () => {}; // there is no real pointer to capture
  at("pointerdown", 4, -3);
  at("click", 4, -3);
  notes.clicked = [...seen(), { ...state.points.at(-1) }];
  at("pointerdown", 4, -3);
  at("pointermove", 5, -2);
  at("pointerup", 5, -2);
  at("click", 5, -2);
  notes.dragged = [...seen(), { ...state.points.at(-1) }];
  at("contextmenu", 5, -2);
  notes.deleted = seen();
  document.getElementById("start").click();
  notes.start = seen();
  return notes;
}
