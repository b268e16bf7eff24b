"use strict";
// Points moved, added and deleted: by pointer, finger or keyboard.

const MOST_POINTS = 60;
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/**
 * Let a plot edit the points of `state`. `changed` is called after each change: with "selected", with
 * "moving" while a point is being dragged, and with "moved"; `say` tells what happened in words.
 */
class Editor {
  constructor(plot, state, changed, say) {
    Object.assign(this, { plot, state, changed, say, dragging: false, moved: false, pressed: -1 });
    const on = (name, handler, options) =>
      plot.canvas.addEventListener(name, handler.bind(this), options);
    on("pointerdown", this.press);
    on("pointermove", this.move);
    on("pointerup", this.release);
    on("pointercancel", this.release);
    on("click", this.click);
    on("contextmenu", this.remove);
    on("keydown", this.key);
    on("focus", () => state.selected < 0 && this.select(0));
    // A finger on a point drags it; elsewhere it scrolls the page.
    on("touchstart", (event) => this.pressed >= 0 && event.preventDefault(), { passive: false });
  }

  /** The point under the pointer, or -1. */
  under(event) {
    const reach = event.pointerType === "touch" ? 24 : 12;
    const distances = this.state.points.map(({ x, y }) =>
      Math.hypot(this.plot.px(x) - event.offsetX, this.plot.py(y) - event.offsetY),
    );
    const nearest = distances.indexOf(Math.min(...distances));
    return distances[nearest] <= reach ? nearest : -1;
  }

  press(event) {
    if (event.button !== 0) return;
    this.pressed = this.under(event);
    if (this.pressed < 0) return;
    this.state.selected = this.pressed;
    this.dragging = true;
    this.moved = false;
    this.plot.canvas.setPointerCapture(event.pointerId);
    this.changed("selected");
  }

  move(event) {
    if (!this.dragging) {
      this.plot.canvas.style.cursor = this.under(event) < 0 ? "copy" : "grab";
      return;
    }
    const { x, y } = this.plot.dataAt(event.offsetX, event.offsetY);
    this.place(this.pressed, x, y);
    this.moved = true;
    this.changed("moving");
  }

  release() {
    if (!this.dragging) return;
    this.dragging = false;
    if (!this.moved) return;
    this.sayPoint();
    this.changed("moved");
  }

  click(event) {
    if (this.pressed >= 0) return;
    const { x, y } = this.plot.dataAt(event.offsetX, event.offsetY);
    this.add(x, y);
  }

  remove(event) {
    const index = this.under(event);
    if (index < 0) return;
    event.preventDefault();
    this.state.selected = index;
    this.delete();
  }

  key(event) {
    const step = event.shiftKey ? 0.5 : 0.1;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    const actions = {
      PageDown: () => this.select(this.state.selected + 1),
      PageUp: () => this.select(this.state.selected - 1),
      n: () => this.select(this.state.selected + 1),
      p: () => this.select(this.state.selected - 1),
      a: () => this.addBeside(),
      Enter: () => this.addBeside(),
      Delete: () => this.delete(),
      Backspace: () => this.delete(),
    };
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const action = moves[key] ? () => this.nudge(...moves[key]) : actions[key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }

  place(index, x, y) {
    this.state.points[index] = {
      x: clamp(x, VIEW.left, VIEW.right),
      y: clamp(y, VIEW.bottom, VIEW.top),
    };
  }

  /** Choose a point; beyond the last comes the first. */
  select(index) {
    const n = this.state.points.length;
    this.state.selected = n ? (index + n) % n : -1;
    this.sayPoint();
    this.changed("selected");
  }

  nudge(dx, dy) {
    const index = this.state.selected;
    if (index < 0) return;
    const { x, y } = this.state.points[index];
    this.place(index, x + dx, y + dy);
    this.sayPoint();
    this.changed("moved");
  }

  add(x, y) {
    if (this.state.points.length >= MOST_POINTS) {
      this.say(`${MOST_POINTS} points are the most this page takes.`);
      return;
    }
    this.state.selected = this.state.points.push({ x: 0, y: 0 }) - 1;
    this.place(this.state.selected, x, y);
    this.sayPoint("Added. ");
    this.changed("moved");
  }

  /** A new point to the right of the chosen one, or in the middle. */
  addBeside() {
    const { x, y } = this.state.points[this.state.selected] ?? { x: -0.5, y: 0 };
    this.add(x + 0.5, y);
  }

  delete() {
    const { points, selected } = this.state;
    if (selected < 0) return;
    points.splice(selected, 1);
    this.state.selected = Math.min(selected, points.length - 1);
    this.say(`Deleted. ${points.length} points.`);
    this.changed("moved");
  }

  sayPoint(before = "") {
    const { points, selected } = this.state;
    if (selected < 0) return this.say("No points.");
    const { x, y } = points[selected];
    return this.say(
      `${before}Point ${selected + 1} of ${points.length}: x ${x.toFixed(2)}, y ${y.toFixed(2)}.`,
    );
  }
}
