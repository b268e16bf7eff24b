"use strict";
// The NNGP kernel 𝒦 and the neural tangent kernel Θ of a perceptron of infinite width with one input.
// A prior is {depth, activation, wStd, bStd}; kernels do not depend on the parameterisation.

/** Variances of the inputs of each activation at x: 𝒦(x, x) after each dense layer but the last. */
function variances(prior, x) {
  const { dual } = ACTIVATIONS[prior.activation];
  const w = prior.wStd ** 2, b = prior.bStd ** 2;
  const found = new Float64Array(prior.depth);
  for (let layer = 0, k = x * x; layer < prior.depth; layer++) {
    found[layer] = w * k + b;
    k = dual(found[layer], found[layer], found[layer]);
  }
  return found;
}

/** [𝒦(x, z), Θ(x, z)], given the variances of x and of z. */
function kernel(prior, x, z, varX, varZ) {
  const { dual, dualDerivative } = ACTIVATIONS[prior.activation];
  const w = prior.wStd ** 2, b = prior.bStd ** 2;
  let nngp = w * x * z + b, ntk = nngp; // a dense layer: 𝒦' = w 𝒦 + b, Θ' = 𝒦' + w Θ
  for (let layer = 0; layer < prior.depth; layer++) {
    const slope = dualDerivative(nngp, varX[layer], varZ[layer]);
    nngp = w * dual(nngp, varX[layer], varZ[layer]) + b;
    ntk = nngp + w * slope * ntk;
  }
  return [nngp, ntk];
}

/** Both kernel matrices (n, m) between inputs xs (n) and zs (m). */
function kernelMatrices(prior, xs, zs) {
  const n = xs.length, m = zs.length, same = xs === zs;
  const varX = Array.from(xs, (x) => variances(prior, x));
  const varZ = same ? varX : Array.from(zs, (z) => variances(prior, z));
  const nngp = new Float64Array(n * m), ntk = new Float64Array(n * m);
  for (let i = 0; i < n; i++) {
    for (let j = same ? i : 0; j < m; j++) {
      const pair = kernel(prior, xs[i], zs[j], varX[i], varZ[j]);
      [nngp[i * m + j], ntk[i * m + j]] = pair;
      if (same) [nngp[j * m + i], ntk[j * m + i]] = pair;
    }
  }
  return { nngp, ntk };
}

/** The diagonals of both kernel matrices: the prior variances at each x. */
function kernelDiagonals(prior, xs) {
  const nngp = new Float64Array(xs.length), ntk = new Float64Array(xs.length);
  for (let i = 0; i < xs.length; i++) {
    const own = variances(prior, xs[i]);
    [nngp[i], ntk[i]] = kernel(prior, xs[i], xs[i], own, own);
  }
  return { nngp, ntk };
}
