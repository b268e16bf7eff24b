"use strict";
// Dense matrices are Float64Arrays, row by row.

/** The lower Cholesky factor L of an n x n matrix, L Lᵀ = a; null where a is not positive definite. */
function cholesky(a, n) {
  const l = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = a[i * n + j];
      for (let k = 0; k < j; k++) sum -= l[i * n + k] * l[j * n + k];
      if (i === j && !(sum > 0)) return null;
      l[i * n + j] = i === j ? Math.sqrt(sum) : sum / l[j * n + j];
    }
  }
  return l;
}

/** (L Lᵀ)⁻¹ b of a matrix b (n, m), or a vector. */
function choleskySolve(l, n, b) {
  const x = b.slice(), m = n && b.length / n;
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < i; k++) addRow(x, m, i, k, -l[i * n + k]);
    scaleRow(x, m, i, 1 / l[i * n + i]);
  }
  for (let i = n - 1; i >= 0; i--) {
    scaleRow(x, m, i, 1 / l[i * n + i]);
    for (let k = 0; k < i; k++) addRow(x, m, k, i, -l[i * n + k]);
  }
  return x;
}

/** Add to row i of x (·, m) a multiple of its row k. */
function addRow(x, m, i, k, factor) {
  for (let j = 0, p = i * m, q = k * m; j < m; j++) x[p + j] += factor * x[q + j];
}

function scaleRow(x, m, i, factor) {
  for (let p = i * m; p < (i + 1) * m; p++) x[p] *= factor;
}

/** a + value · I. */
function plusDiagonal(a, n, value) {
  const sum = a.slice();
  for (let i = 0; i < n; i++) sum[i * n + i] += value;
  return sum;
}

/** a + factor · b of two vectors. */
function plus(a, b, factor = 1) {
  const sum = a.slice();
  for (let i = 0; i < sum.length; i++) sum[i] += factor * b[i];
  return sum;
}

const minus = (a, b) => plus(a, b, -1);

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/** out += a b, with a (n, k), b (k, m): four rows of b at a time, so that out is read less often. */
function addProduct(out, a, b, n, k, m) {
  const whole = k - (k % 4);
  for (let i = 0; i < n; i++) {
    const at = i * m;
    for (let l = 0; l < whole; l += 4) {
      const p = i * k + l, q = l * m;
      const a0 = a[p], a1 = a[p + 1], a2 = a[p + 2], a3 = a[p + 3];
      for (let j = 0; j < m; j++) {
        out[at + j] += a0 * b[q + j] + a1 * b[q + m + j] + a2 * b[q + 2 * m + j] + a3 * b[q + 3 * m + j];
      }
    }
    for (let l = whole; l < k; l++) {
      const factor = a[i * k + l];
      for (let j = 0, from = l * m; j < m; j++) out[at + j] += factor * b[from + j];
    }
  }
}

/** aᵀ (m, n) of a (n, m). */
function transpose(a, n, m) {
  const out = new Float64Array(n * m);
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) out[j * n + i] = a[i * m + j];
  return out;
}

/** The Gram matrix a aᵀ, (n, n), of a (n, m). */
function gram(a, n, m) {
  const out = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = 0;
      for (let l = 0, p = i * m, q = j * m; l < m; l++) sum += a[p + l] * a[q + l];
      out[i * n + j] = out[j * n + i] = sum;
    }
  }
  return out;
}
