"use strict";
// One member of an ensemble: what it draws, what it minimises, and one step of its training.

/** Which members train on y + σε and are pulled to θ₀ (anchored), and which have δ. */
const METHODS = {
  "deep-ensemble": { anchored: false, delta: false },
  "rp-param": { anchored: true, delta: false },
  "ntkgp-param": { anchored: true, delta: true },
};

/** Steps of training after which members are shown. */
const ROUNDS = [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 48, 57, 68, 82, 100];

const FIRST_DAMPING = 0.2; // of the mean diagonal of J Λ Jᵀ
const TOLERANCE = 1e-3; // a member is done when a step promises less than this share of its objective
const UNREGULARISED_TOLERANCE = 2e-2; // as in Figure 1: only stopping keeps deep ensembles from the noise
const CALM = 0.1; // damping of no more than this share does not make promises small by itself

/** Independent N(0, 1) numbers, the same for the same seed (mulberry32, Box and Muller). */
function normals(seed) {
  let state = Math.imul(seed + 1, 0x9e3779b1);
  const uniform = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (((t ^ (t >>> 14)) >>> 0) + 0.5) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** θ₀, θ̃ and ε of a member, each with randomness of its own, whatever the method. */
function drawMember(net, seed, points) {
  const noise = normals(3 * seed + 2);
  return {
    theta0: initialise(net, normals(3 * seed)),
    thetaTilde: initialise(net, normals(3 * seed + 1)),
    epsilon: Float64Array.from({ length: points }, noise),
  };
}

/** δ(x) = J(x, θ₀) (θ̃^{≤L}, 0), with the readout's part of θ̃ set to 0 (Eq. 10). */
function deltaOf(net, member, x) {
  const thetaStar = Float64Array.from(member.thetaTilde).fill(0, net.readout);
  return pushForward(net, member.theta0, forward(net, member.theta0, x), thetaStar);
}

/** What a member is to learn: x, and the targets that are left for f(x, θ) itself. */
function makeProblem(net, method, member, data, noiseStd) {
  const noise = method.anchored ? noiseStd : 0;
  const delta = method.delta ? deltaOf(net, member, data.x) : new Float64Array(data.x.length);
  const targets = Float64Array.from(data.y, (y, i) => y + noise * member.epsilon[i] - delta[i]);
  return { net, method, member, x: data.x, targets, pull: noise ** 2, lambda: priorVar(net) };
}

/** ‖v‖²_Λ = Σ v² / λ. */
function squaredNorm(v, lambda) {
  let sum = 0;
  for (let i = 0; i < v.length; i++) sum += (v[i] * v[i]) / lambda[i];
  return sum;
}

/** ½‖y' - f̃(x, θ)‖² + ½σ²‖θ - θ₀‖²_Λ: N times the loss of ntkgp's Baselearner. */
function objective(problem, theta) {
  const residual = minus(problem.targets, forward(problem.net, theta, problem.x).out);
  return dot(residual, residual) / 2 + penalty(problem, theta);
}

function penalty({ pull, member, lambda }, theta) {
  return pull && (pull / 2) * squaredNorm(minus(theta, member.theta0), lambda);
}

/** Where training begins: at θ₀. */
function beginTraining(problem) {
  return { theta: problem.member.theta0, damping: null, growth: 2, done: problem.x.length === 0 };
}

/**
 * One damped Gauss-Newton step, in the space of the residuals, as ntkgp's GaussNewton has it: with
 * r the residuals, J the Jacobian, v = θ - θ₀ and s = σ² + μ,
 *
 *   d = -(σ²/s) v + Λ Jᵀ (J Λ Jᵀ + s I)⁻¹ (r + (σ²/s) J v).
 */
function gaussNewtonStep(problem, theta, damping) {
  const { net, pull, member, lambda, x } = problem, n = x.length;
  const pass = forward(net, theta, x), slopes = backward(net, theta, pass);
  const residual = minus(problem.targets, pass.out);
  const tangents = tangentGram(net, pass, slopes);
  const level = meanDiagonal(tangents, n);
  const total = Math.max(pull + (damping ?? FIRST_DAMPING * level), 1e-13 * n * level);
  const shrink = pull / total;
  const v = minus(theta, member.theta0);
  const jv = pull ? pushForward(net, theta, pass, v) : new Float64Array(n);
  const factor = cholesky(plusDiagonal(tangents, n, total), n);
  const dual = choleskySolve(factor, n, plus(residual, jv, shrink));
  const step = pullBack(net, pass, slopes, dual);
  for (let i = 0; i < step.length; i++) step[i] = lambda[i] * step[i] - shrink * v[i];
  const jd = jv.map((value) => -shrink * value);
  addProduct(jd, tangents, dual, n, n, 1);
  return {
    step,
    promised: dot(jd, jd) / 2 + (total - pull / 2) * squaredNorm(step, lambda),
    before: dot(residual, residual) / 2 + penalty(problem, theta),
    damping: total - pull,
    calm: total - pull <= CALM * level,
  };
}

function meanDiagonal(a, n) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += a[i * n + i];
  return sum / n;
}

/** The state of a member after one more step; a step that does not lower the objective is not taken. */
function train(problem, state) {
  if (state.done) return state;
  const { step, promised, before, damping, calm } = gaussNewtonStep(problem, state.theta, state.damping);
  const theta = plus(state.theta, step);
  const gained = before - objective(problem, theta);
  const tolerance = problem.method.anchored ? TOLERANCE : UNREGULARISED_TOLERANCE;
  const failing = state.growth > 2;
  const done = promised <= tolerance * before && (calm || failing);
  if (!(gained > 0)) return { ...state, damping: damping * state.growth, growth: 2 * state.growth, done };
  const shrunk = damping * Math.max(1 / 3, 1 - ((2 * gained) / promised - 1) ** 3); // Nielsen (1999)
  return { theta, damping: shrunk, growth: 2, done };
}
