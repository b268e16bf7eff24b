"use strict";
// Table 1: which kernel the members start with, and which one trains them.

const LAWS = {
  nngp: { prior: "nngp", trained: "nngp", noisy: true },
  "deep-ensemble": { prior: "nngp", trained: "ntk", noisy: false },
  "randomised-prior": { prior: "nngp", trained: "ntk", noisy: true },
  ntkgp: { prior: "ntk", trained: "ntk", noisy: true },
};
/** On the diagonal of a kernel matrix without noise, which is singular to rounding. */
const JITTER = 1e-6;

/** The kernels that every law needs, computed once for all of them. */
function kernelsOf(prior, x, grid) {
  return {
    dd: kernelMatrices(prior, x, x),
    dt: kernelMatrices(prior, x, grid),
    tt: kernelDiagonals(prior, grid),
  };
}

/**
 * Mean and standard deviation of a law on the grid, after training on y: with T the trained kernel,
 * k the prior one and A = T_td (T_dd + σ²I)⁻¹, `a` its transpose,
 *
 *   μ = A y,    Σ = k_tt - 2 A k_dt + A (k_dd + σ²I) Aᵀ    (its diagonal),
 *
 * which is k_tt - A k_dt where T = k: a posterior.
 */
function condition(law, kernels, y, noiseStd) {
  const n = y.length, size = kernels.tt.nngp.length;
  const noise = law.noisy ? noiseStd ** 2 : 0;
  const factor = cholesky(plusDiagonal(kernels.dd[law.trained], n, noise || JITTER), n);
  const a = choleskySolve(factor, n, kernels.dt[law.trained]);
  const known = columnSums(a, kernels.dt[law.prior], n, size);
  if (law.prior !== law.trained) {
    const start = new Float64Array(a.length);
    addProduct(start, plusDiagonal(kernels.dd[law.prior], n, noise), a, n, n, size);
    const spread = columnSums(a, start, n, size);
    for (let t = 0; t < size; t++) known[t] = 2 * known[t] - spread[t];
  }
  const mean = new Float64Array(size);
  addProduct(mean, y, a, 1, n, size);
  return { mean, std: known.map((k, t) => Math.sqrt(Math.max(0, kernels.tt[law.prior][t] - k))) };
}

/** Σᵢ aᵢₜ bᵢₜ of two matrices (n, m). */
function columnSums(a, b, n, m) {
  const sums = new Float64Array(m);
  for (let i = 0; i < n; i++) for (let t = 0, p = i * m; t < m; t++) sums[t] += a[p + t] * b[p + t];
  return sums;
}
