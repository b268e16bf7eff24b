"use strict";
// What the page's own code answers to the questions of test_playground.py, each a plain object.

const floats = (list) => Float64Array.from(list);

/** The gradient of the objective, from the page's vector-Jacobian product. */
function gradientOf(problem, theta) {
  const { net, pull, member, lambda } = problem;
  const pass = forward(net, theta, problem.x);
  const residual = minus(problem.targets, pass.out);
  const data = pullBack(net, pass, backward(net, theta, pass), residual);
  return data.map((g, i) => (pull * (theta[i] - member.theta0[i])) / lambda[i] - g);
}

const QUESTIONS = {
  erf: ({ x }) => x.map(erf),
  kernels: ({ prior, x, z }) => kernelMatrices(prior, floats(x), floats(z)),
  kernelsOfTraining: ({ prior, x }) => {
    const inputs = floats(x);
    return kernelMatrices(prior, inputs, inputs);
  },
  law: ({ prior, law, x, y, grid, noiseStd }) =>
    condition(LAWS[law], kernelsOf(prior, floats(x), floats(grid)), floats(y), noiseStd),
  member: ({ prior, width, method, x, y, noiseStd, theta, theta0, thetaTilde, epsilon, damping }) => {
    const net = makeNetwork(prior, width);
    const member = { theta0: floats(theta0), thetaTilde: floats(thetaTilde), epsilon: floats(epsilon) };
    const data = { x: floats(x), y: floats(y) };
    const problem = makeProblem(net, METHODS[method], member, data, noiseStd);
    const at = floats(theta);
    return {
      delta: deltaOf(net, member, data.x),
      objective: objective(problem, at),
      gradient: gradientOf(problem, at),
      step: gaussNewtonStep(problem, at, damping).step,
    };
  },
  trained: ({ prior, width, method, x, y, noiseStd, seed }) => {
    const net = makeNetwork(prior, width), member = drawMember(net, seed, x.length);
    const problem = makeProblem(net, METHODS[method], member, { x: floats(x), y: floats(y) }, noiseStd);
    let state = beginTraining(problem);
    for (let round = 0; round < ROUNDS.at(-1); round++) state = train(problem, state);
    return { ...member, theta: state.theta, done: state.done, objective: objective(problem, state.theta) };
  },
  untrained: ({ prior, width, x, members }) =>
    Array.from({ length: members }, (_, seed) => {
      const net = makeNetwork(prior, width), member = drawMember(net, seed, 0);
      return plus(forward(net, member.theta0, floats(x)).out, deltaOf(net, member, floats(x)));
    }),
};

/** The answers as JSON: arrays are lists, whatever their type. */
function answers(questions) {
  const plain = (key, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);
  return JSON.stringify(questions.map(({ ask, ...given }) => QUESTIONS[ask](given)), plain);
}
