"use strict";
// The page: its state, what each change sets off, and how a frame is drawn.

const toy = JSON.parse(document.getElementById("toy").textContent);
const GRID = Float64Array.from({ length: 121 }, (_, i) => -6 + i / 10);
const TRUTH = GRID.map((x) => x * Math.sin(x));
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");
const byId = (id) => document.getElementById(id);

const toyPoints = () => toy.x.map((x, i) => ({ x, y: toy.y[i] }));
const state = { points: toyPoints(), selected: -1, seed: 0, run: 0, truth: true, settings: null };
let exact = null; // kernels of the present points and settings, and the laws computed from them so far
let stale = false; // whether members have not been trained on the present points
let retraining = 0; // a timer: networks are trained once points have been at rest
let colours = null;

/** An ensemble in training: a panel, a worker, and what its members said after each of ROUNDS. */
const ensembles = ["left", "right"].map((side) => {
  const code = [byId("maths").textContent, byId("worker").textContent].join("\n");
  const worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  const ensemble = { plot: new Plot(byId(side)), score: byId(`${side}-score`), worker, frames: [], done: false };
  worker.onmessage = ({ data }) => receive(ensemble, data);
  worker.onerror = ({ message }) =>
    say(`Networks are not trained: ${message || "the browser refuses the page's workers"}. The laws still hold.`);
  return ensemble;
});
const lawPlots = Object.keys(LAWS).map((name) => ({ name, plot: new Plot(byId(name)) }));
const plots = [...ensembles, ...lawPlots].map(({ plot }) => plot);

/** Which of ROUNDS is shown: the newest while `live`, else where the user has put the slider. */
const time = { slider: byId("time"), live: true, playing: 0 };
time.slider.max = ROUNDS.length - 1;

function readSettings() {
  const form = new FormData(byId("settings"));
  const number = (name) => Number(form.get(name));
  for (const input of document.querySelectorAll("#settings input")) {
    input.parentElement.querySelector("output").textContent = Number(input.value).toFixed(2);
  }
  state.settings = {
    prior: { depth: number("depth"), activation: form.get("activation"), wStd: number("wStd"), bStd: number("bStd") },
    width: number("width"),
    members: number("members"),
    noiseStd: number("noiseStd"),
  };
}

/** Coordinates of all points. */
const dataOf = () => ({
  x: Float64Array.from(state.points, ({ x }) => x),
  y: Float64Array.from(state.points, ({ y }) => y),
});

/** An exact law on the grid, computed when it is first asked for. */
function lawOf(name) {
  const { prior, noiseStd } = state.settings, { x, y } = dataOf();
  exact ??= { kernels: kernelsOf(prior, x, GRID), laws: {} };
  return (exact.laws[name] ??= condition(LAWS[name], exact.kernels, y, noiseStd));
}

/** Points or settings are others now: exact laws follow at once, members when all is at rest. */
function update(kind) {
  if (kind !== "selected") {
    exact = null;
    stopTraining();
    if (kind === "moved") retraining = setTimeout(trainAll, 200);
  }
  redraw();
}

function stopTraining() {
  clearTimeout(retraining);
  if (stale) return;
  stale = true;
  state.run += 1; // what workers still send is of the past
  for (const { worker } of ensembles) worker.postMessage(null);
}

function trainAll() {
  clearTimeout(retraining);
  state.run += 1;
  stale = false;
  time.live = true;
  stopReplay();
  const methods = [document.querySelector("[name=left]:checked").value, "ntkgp-param"];
  ensembles.forEach((ensemble, i) => {
    Object.assign(ensemble, { frames: [], done: false });
    const { settings, seed, run } = state;
    ensemble.worker.postMessage({ ...settings, method: methods[i], data: dataOf(), grid: GRID, seed, run });
  });
}

/** What a worker has to say; answers to an older task are dropped. */
function receive(ensemble, { run, round, curves, done }) {
  if (run !== state.run) return;
  ensemble.frames.push({ round, ...summary(curves), curves });
  ensemble.done = done;
  if (ensembles.every((one) => one.done)) sayScores();
  redraw();
}

/** Mean and standard deviation over members, K - 1 in the denominator. */
function summary(curves) {
  const mean = new Float64Array(GRID.length), std = new Float64Array(GRID.length);
  for (let t = 0; t < GRID.length; t++) {
    const values = curves.map((curve) => curve[t]);
    mean[t] = values.reduce((a, b) => a + b) / values.length;
    const squares = values.reduce((sum, value) => sum + (value - mean[t]) ** 2, 0);
    std[t] = Math.sqrt(squares / (values.length - 1));
  }
  return { mean, std };
}

/** The NTKGP prior on the grid: what its law is without data. */
function priorLaw() {
  const { ntk } = kernelDiagonals(state.settings.prior, GRID);
  return { mean: ntk.map(() => 0), std: ntk.map(Math.sqrt) };
}

/** The median over x beyond the data of a standard deviation over that of a law, in per cent. */
function spread(std, law = lawOf("ntkgp")) {
  const { x } = dataOf(), low = Math.min(...x), high = Math.max(...x);
  const ratios = [];
  GRID.forEach((at, i) => !(at >= low && at <= high) && ratios.push(std[i] / law.std[i]));
  ratios.sort((a, b) => a - b);
  return ratios.length ? Math.round(100 * ratios[ratios.length >> 1]) : null;
}

/** The frame that an ensemble shows: the last one up to the round of the slider. */
function shownFrame({ frames, done }) {
  if (calm.matches && time.live && !done) return frames[0];
  const limit = time.live ? Infinity : ROUNDS[time.slider.value];
  return frames.findLast(({ round }) => round <= limit);
}

/** The curves 1.96 standard deviations, noise included, below and above the mean. */
function interval({ mean, std }) {
  const half = std.map((s) => 1.96 * Math.hypot(s, state.settings.noiseStd));
  return [mean.map((m, i) => m - half[i]), mean.map((m, i) => m + half[i])];
}

function drawBand(plot, law, colour) {
  const [low, high] = interval(law);
  plot.area(GRID, low, high, colour, 0.22);
  for (const edge of [low, high]) plot.line(GRID, edge, colour, 1, { alpha: 0.7 });
  plot.line(GRID, law.mean, colour, 2);
}

function drawOutline(plot, law) {
  const [low, high] = interval(law);
  plot.area(GRID, low, high, colours.posterior, 0.1);
  for (const edge of [low, high]) plot.line(GRID, edge, colours.posterior, 2, { dash: [7, 5] });
}

function drawTruth(plot) {
  if (state.truth) plot.line(GRID, TRUTH, colours.quiet, 1.3, { dash: [1.5, 3.5] });
}

function drawEnsemble(ensemble) {
  const { plot } = ensemble, frame = shownFrame(ensemble);
  const untrained = !stale && frame?.round === 0 && state.points.length > 0;
  const law = untrained ? priorLaw() : lawOf("ntkgp");
  plot.clear();
  plot.axes(colours);
  plot.within(() => {
    drawOutline(plot, law);
    drawTruth(plot);
    if (!frame) return;
    plot.area(GRID, ...interval(frame), colours.method, stale ? 0.08 : 0.16);
    if (stale) return; // networks that were trained on other points
    for (const curve of frame.curves) plot.line(GRID, curve, colours.method, 1.1, { alpha: 0.75 });
  });
  plot.points(state.points, 5, colours, state.selected);
  const percent = frame && !stale ? spread(frame.std, law) : null;
  ensemble.score.innerHTML =
    percent === null ? "" : `<b>${percent} %</b> of the ${untrained ? "prior" : "posterior"}'s spread`;
}

function drawLaw({ name, plot }) {
  plot.clear();
  plot.axes(colours);
  plot.within(() => {
    drawTruth(plot);
    if (name !== "ntkgp") drawOutline(plot, lawOf("ntkgp"));
    drawBand(plot, lawOf(name), name === "ntkgp" ? colours.posterior : colours.method);
  });
  plot.points(state.points, 3, colours, -1);
  const title = plot.canvas.parentElement.querySelector("h3").textContent;
  const percent = spread(lawOf(name).std);
  plot.canvas.setAttribute("aria-label", percent === null ? title : `${title}: ${percent} % of NTKGP's spread`);
}

let frameAsked = false;
function redraw() {
  if (frameAsked) return;
  frameAsked = true;
  requestAnimationFrame(() => {
    frameAsked = false;
    drawAll();
  });
}

function drawAll() {
  ensembles.filter(({ plot }) => plot.visible).forEach(drawEnsemble);
  lawPlots.filter(({ plot }) => plot.visible).forEach(drawLaw);
  showTime();
}

function showTime() {
  const reached = Math.max(0, ...ensembles.map(({ frames }) => frames.at(-1)?.round ?? 0));
  const done = ensembles.every((one) => one.done);
  if (time.live) time.slider.value = ROUNDS.findLastIndex((round) => round <= reached);
  const round = time.live ? reached : Math.min(reached, ROUNDS[time.slider.value]);
  let words = `step ${round}${done && round === reached ? ", trained" : ""}`;
  if (round === 0) words = "before: the prior";
  if (calm.matches && time.live && !done) words = "training";
  byId("round").textContent = words;
  time.slider.setAttribute("aria-valuetext", words);
}

/** Show training once more, from what has been kept of it. */
function replay() {
  stopReplay();
  time.live = false;
  let index = calm.matches ? ROUNDS.length - 1 : 0;
  const next = () => {
    time.slider.value = index;
    redraw();
    if (index++ < ROUNDS.length - 1) time.playing = setTimeout(next, 160);
  };
  next();
}

function stopReplay() {
  clearTimeout(time.playing);
}

const say = (text) => (byId("say").textContent = text);

function sayScores() {
  const [left, right] = ensembles.map(({ frames }) => spread(frames.at(-1).std));
  byId("scores").textContent =
    left === null ? "Trained." : `Trained. Of the posterior's spread beyond the data, without δ ${left} %, with δ ${right} %.`;
}

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["method", "posterior", "data", "ink", "quiet", "rule", "paper"];
  colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  redraw();
}

/** Replace all points. */
function setPoints(points, truth) {
  Object.assign(state, { points, truth, selected: -1 });
  update("moved");
}

const [editor] = ensembles.map(({ plot }) => new Editor(plot, state, update, say));
const onClick = (id, action) => byId(id).addEventListener("click", action);
onClick("add", () => editor.addBeside());
onClick("delete", () => (state.selected < 0 ? say("Choose a point first: touch it.") : editor.delete()));
onClick("draw", () => ((state.seed += 1), trainAll()));
onClick("start", () => {
  byId("settings").reset();
  readSettings();
  setPoints(toyPoints(), true);
});
onClick("empty", () => setPoints([], false));
onClick("replay", replay);
time.slider.addEventListener("input", () => {
  stopReplay();
  time.live = false;
  redraw();
});
byId("settings").addEventListener("input", () => (readSettings(), update("moved")));
document.querySelectorAll("[name=left]").forEach((radio) => radio.addEventListener("change", trainAll));
dark.addEventListener("change", readColours);
calm.addEventListener("change", redraw);
readSettings();
readColours();
trainAll();
new ResizeObserver(() => {
  if (plots.filter((plot) => plot.resize()).length) drawAll(); // at once: they are empty now
}).observe(document.querySelector("main"));
const onScreen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    plots.find(({ canvas }) => canvas === target).visible = isIntersecting;
  }
  redraw();
}, { rootMargin: "200px" });
plots.forEach(({ canvas }) => onScreen.observe(canvas));
