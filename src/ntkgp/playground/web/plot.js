"use strict";
// One panel: a canvas with axes, bands, curves and points.

const VIEW = { left: -6, right: 6, bottom: -5.5, top: 6.5 };
const MARGIN = { left: 26, right: 8, top: 8, bottom: 22 };

class Plot {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.visible = true; // on the screen; what is not need not be drawn
    this.resize();
  }

  /** Match the canvas to its size on the screen, which empties it; whether there was a difference. */
  resize() {
    const ratio = Math.min(window.devicePixelRatio, 2); // more costs time and shows nothing
    const { clientWidth, clientHeight } = this.canvas;
    const width = Math.round(clientWidth * ratio), height = Math.round(clientHeight * ratio);
    if (this.canvas.width === width && this.canvas.height === height) return false;
    Object.assign(this.canvas, { width, height });
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.width = clientWidth - MARGIN.left - MARGIN.right;
    this.height = clientHeight - MARGIN.top - MARGIN.bottom;
    return true;
  }

  px(x) {
    return MARGIN.left + ((x - VIEW.left) / (VIEW.right - VIEW.left)) * this.width;
  }

  py(y) {
    return MARGIN.top + ((VIEW.top - y) / (VIEW.top - VIEW.bottom)) * this.height;
  }

  /** The data's coordinates at a place on the canvas. */
  dataAt(px, py) {
    return {
      x: VIEW.left + ((px - MARGIN.left) / this.width) * (VIEW.right - VIEW.left),
      y: VIEW.top - ((py - MARGIN.top) / this.height) * (VIEW.top - VIEW.bottom),
    };
  }

  clear() {
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
  }

  axes(colours) {
    const c = this.context;
    c.strokeStyle = colours.rule;
    c.fillStyle = colours.quiet;
    c.lineWidth = 1;
    c.font = "11px system-ui, sans-serif";
    c.beginPath();
    for (let y = -4; y <= 6; y += 2) {
      c.moveTo(this.px(VIEW.left), this.py(y));
      c.lineTo(this.px(VIEW.right), this.py(y));
    }
    c.stroke();
    c.textAlign = "right";
    c.textBaseline = "middle";
    for (let y = -4; y <= 6; y += 2) c.fillText(y < 0 ? `−${-y}` : y, MARGIN.left - 6, this.py(y));
    c.textAlign = "center";
    c.textBaseline = "top";
    for (let x = -6; x <= 6; x += 2) c.fillText(x < 0 ? `−${-x}` : x, this.px(x), this.py(VIEW.bottom) + 6);
  }

  /** Run `paint` with everything outside of the axes cut off. */
  within(paint) {
    const c = this.context;
    c.save();
    c.beginPath();
    c.rect(MARGIN.left, MARGIN.top, this.width, this.height);
    c.clip();
    paint();
    c.restore();
  }

  trace(grid, values) {
    const c = this.context;
    for (let i = 0; i < grid.length; i++) c.lineTo(this.px(grid[i]), this.py(values[i]));
  }

  line(grid, values, colour, width, { dash = [], alpha = 1 } = {}) {
    const c = this.context;
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.globalAlpha = alpha;
    c.setLineDash(dash);
    c.beginPath();
    this.trace(grid, values);
    c.stroke();
    c.setLineDash([]);
    c.globalAlpha = 1;
  }

  /** The area between two curves. */
  area(grid, low, high, colour, alpha) {
    const c = this.context;
    c.fillStyle = colour;
    c.globalAlpha = alpha;
    c.beginPath();
    this.trace(grid, low);
    for (let i = grid.length - 1; i >= 0; i--) c.lineTo(this.px(grid[i]), this.py(high[i]));
    c.fill();
    c.globalAlpha = 1;
  }

  /** All points; the chosen one is larger and above the others. */
  points(points, radius, colours, selected) {
    points.forEach((point) => this.point(point, radius, colours.data, colours.paper, 1));
    if (points[selected]) this.point(points[selected], radius + 2, colours.data, colours.ink, 2.5);
  }

  point({ x, y }, radius, colour, rim, width) {
    const c = this.context;
    c.beginPath();
    c.arc(this.px(x), this.py(y), radius, 0, 2 * Math.PI);
    c.fillStyle = colour;
    c.fill();
    c.lineWidth = width;
    c.strokeStyle = rim;
    c.stroke();
  }
}
