"use strict";
// Trains one ensemble beside the page. The page sends a task; after each of ROUNDS the worker sends
// what the members say on the grid. A new task, or null, ends the old one between two rounds.

let current = null;

onmessage = ({ data: task }) => {
  current = task;
  if (!task) return;
  const net = makeNetwork(task.prior, task.width), method = METHODS[task.method];
  const members = Array.from({ length: task.members }, (_, i) => {
    const member = drawMember(net, 1000 * task.seed + i, task.data.x.length);
    const problem = makeProblem(net, method, member, task.data, task.noiseStd);
    const delta = method.delta ? deltaOf(net, member, task.grid) : new Float64Array(task.grid.length);
    return { problem, delta, state: beginTraining(problem) };
  });
  runRounds(task, net, members, 0);
};

function runRounds(task, net, members, round) {
  if (task !== current) return;
  const done = members.every(({ state }) => state.done) || round === ROUNDS.at(-1);
  if (done || ROUNDS.includes(round)) {
    const curves = members.map(({ state, delta }) =>
      Float32Array.from(forward(net, state.theta, task.grid).out, (f, i) => f + delta[i]),
    );
    postMessage({ run: task.run, round, curves, done });
  }
  if (done) return;
  for (const member of members) member.state = train(member.problem, member.state);
  setTimeout(runRounds, 0, task, net, members, round + 1);
}
