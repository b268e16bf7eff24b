"use strict";
// A perceptron with one input and one output, in standard parameterisation, that of ntkgp.mlp:
//   z = a W + b,   W ~ N(0, w_std² / fan_in),   b ~ N(0, b_std²).
// Its parameters are one Float64Array θ: of each layer W (fan_in, fan_out), then b.

/** The network of a prior {depth, activation, wStd, bStd} at a width. */
function makeNetwork(prior, width) {
  const layers = [];
  let size = 0;
  for (let l = 0; l <= prior.depth; l++) {
    const fanIn = l ? width : 1, fanOut = l < prior.depth ? width : 1;
    const w = size, b = w + fanIn * fanOut;
    layers.push({ fanIn, fanOut, w, b, wVar: prior.wStd ** 2 / fanIn, bVar: prior.bStd ** 2 });
    size = b + fanOut;
  }
  const { phi, derivative } = ACTIVATIONS[prior.activation];
  return { layers, size, phi, derivative, readout: layers[prior.depth].w };
}

const weights = (theta, layer) => theta.subarray(layer.w, layer.b);
const biases = (theta, layer) => theta.subarray(layer.b, layer.b + layer.fanOut);

/** λ: the prior variance of each parameter. */
function priorVar(net) {
  const lambda = new Float64Array(net.size);
  for (const layer of net.layers) {
    weights(lambda, layer).fill(layer.wVar);
    biases(lambda, layer).fill(layer.bVar);
  }
  return lambda;
}

/** θ ~ init(·). */
function initialise(net, normal) {
  return priorVar(net).map((variance) => Math.sqrt(variance) * normal());
}

/** a W + b, (n, fan_out). */
function affine(theta, layer, a, n) {
  const z = new Float64Array(n * layer.fanOut), b = biases(theta, layer);
  for (let i = 0; i < n; i++) z.set(b, i * layer.fanOut);
  addProduct(z, a, weights(theta, layer), n, layer.fanIn, layer.fanOut);
  return z;
}

/** The inputs of each layer and what each gives; `out` is f(x, θ). */
function forward(net, theta, x) {
  const inputs = [], preactivations = [];
  let a = Float64Array.from(x);
  for (const layer of net.layers) {
    const z = affine(theta, layer, a, x.length);
    inputs.push(a);
    preactivations.push(z);
    a = z.map(net.phi);
  }
  return { inputs, preactivations, out: preactivations.at(-1) };
}

/** J(x, θ) v: the derivative of f along v, one Jacobian-vector product. */
function pushForward(net, theta, pass, v) {
  const n = pass.out.length;
  let dz, da = new Float64Array(n);
  net.layers.forEach((layer, l) => {
    dz = affine(v, layer, pass.inputs[l], n);
    addProduct(dz, da, weights(theta, layer), n, layer.fanIn, layer.fanOut);
    da = dz.map((d, i) => d * net.derivative(pass.preactivations[l][i]));
  });
  return dz;
}

/** ∂f(x_n) / ∂z_n of each layer's outputs z, (n, fan_out), for every example by itself. */
function backward(net, theta, pass) {
  const n = pass.out.length, found = [new Float64Array(n).fill(1)];
  for (let l = net.layers.length - 1; l > 0; l--) {
    const { fanIn, fanOut } = net.layers[l], z = pass.preactivations[l - 1];
    const g = new Float64Array(n * fanIn);
    addProduct(g, found[0], transpose(weights(theta, net.layers[l]), fanIn, fanOut), n, fanOut, fanIn);
    found.unshift(g.map((value, i) => value * net.derivative(z[i])));
  }
  return found;
}

/** J(x, θ)ᵀ u: a vector-Jacobian product, from the slopes that `backward` gives. */
function pullBack(net, pass, slopes, u) {
  const gradient = new Float64Array(net.size), n = u.length;
  net.layers.forEach((layer, l) => {
    const { fanIn, fanOut } = layer;
    const g = slopes[l].map((slope, i) => slope * u[Math.floor(i / fanOut)]);
    addProduct(weights(gradient, layer), transpose(pass.inputs[l], n, fanIn), g, fanIn, n, fanOut);
    addProduct(biases(gradient, layer), new Float64Array(n).fill(1), g, 1, n, fanOut);
  });
  return gradient;
}

/** The empirical NTK J Λ Jᵀ: of each layer (λ_W a aᵀ + λ_b) ∘ (g gᵀ). */
function tangentGram(net, pass, slopes) {
  const n = pass.out.length, total = new Float64Array(n * n);
  net.layers.forEach((layer, l) => {
    const inputs = gram(pass.inputs[l], n, layer.fanIn), outputs = gram(slopes[l], n, layer.fanOut);
    for (let i = 0; i < n * n; i++) total[i] += (layer.wVar * inputs[i] + layer.bVar) * outputs[i];
  });
  return total;
}
