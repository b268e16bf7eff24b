"use strict";
// Each activation in both faces. Finite: φ and φ'. Infinite, for Gaussians u and v of variances
// v1 and v2 and covariance c: dual = E[φ(u) φ(v)] and dualDerivative = E[φ'(u) φ'(v)].

const erf = (() => {
  const slope = (x) => (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x);
  const step = 1 / 32, end = 6;
  const table = Float64Array.from({ length: end / step + 1 }, (_, i) => {
    const x = i * step;
    let term = x, sum = x; // erf x = slope(x) · Σ 2ᵏ x²ᵏ⁺¹ / (2k + 1)!!, all terms positive
    for (let k = 1; term > 1e-18 * sum; k++) sum += term *= (2 * x * x) / (2 * k + 1);
    return sum * slope(x);
  });
  const slopes = Float64Array.from(table, (_, i) => slope(i * step));
  /** erf x, by Taylor's series around the nearest entry of a table; the error is below 1e-11. */
  return (x) => {
    const size = Math.abs(x);
    if (size >= end) return Math.sign(x);
    const i = Math.round(size / step), c = i * step, t = size - c, s = c * c;
    const series =
      1 + t * (-c + t * ((2 * s - 1) / 3 + t * ((c * (3 - 2 * s)) / 6 + (t * ((4 * s - 12) * s + 3)) / 30)));
    return Math.sign(x) * (table[i] + slopes[i] * t * series);
  };
})();

/** cos of the angle between two points; exactly 1 where rounding cannot tell it from 1. */
function cosine(c, scale) {
  if (scale <= 0) return 1;
  const cos = Math.max(c / scale, -1);
  return cos > 1 - 4 * Number.EPSILON ? 1 : cos;
}

const ACTIVATIONS = {
  erf: {
    phi: erf,
    derivative: (x) => (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x),
    dual: (c, v1, v2) => {
      const ratio = (2 * c) / Math.sqrt((1 + 2 * v1) * (1 + 2 * v2));
      return (2 / Math.PI) * Math.asin(Math.min(1, Math.max(-1, ratio)));
    },
    dualDerivative: (c, v1, v2) =>
      4 / Math.PI / Math.sqrt(1 + 2 * (v1 + v2) + 4 * Math.max(v1 * v2 - c * c, 0)),
  },
  relu: {
    phi: (x) => (x < 0 ? 0 : x),
    derivative: (x) => (x < 0 ? 0 : 1),
    dual: (c, v1, v2) => {
      const scale = Math.sqrt(v1 * v2), cos = cosine(c, scale);
      const sin = Math.sqrt((1 - cos) * (1 + cos));
      return (scale * (sin + (Math.PI / 2 + Math.asin(cos)) * cos)) / (2 * Math.PI);
    },
    dualDerivative: (c, v1, v2) =>
      (Math.PI / 2 + Math.asin(cosine(c, Math.sqrt(v1 * v2)))) / (2 * Math.PI),
  },
};
