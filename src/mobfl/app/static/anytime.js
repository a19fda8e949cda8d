// Anytime rounds, in the words of mobfl/theory/anytime.py: a vehicle takes as many local steps as fit before the round's end.
// A test holds the two together to 1e-9.

import { cdf, delayOf, densityOf, dwellNodes, integral, legendre } from "./theory.js";

/** What a vehicle may know of its leaving; at one speed, what it predicts is right. */
export const KNOWLEDGE = ["nothing", "mean", "predicted", "leaving"];

const SHARE_PANELS = 39;
const ORDER = 20;
const LEAST_TERMS = 1e-15; // the share of a sum that all later terms together may be before they are left out

/** W(T) = Σ_n (1 − e^(−Λ(n, T))), the mean of a round's longest training, in local steps. */
export function longestSteps(road, t, knows) {
  const most = mostSteps(road, t);
  let sum = 0;
  for (let n = 1; n <= most; n++) {
    const term = -Math.expm1(-uploadsOfSteps(road, n, t, knows).uploads);
    sum += term;
    if (term * (most - n) <= LEAST_TERMS * sum) break; // terms fall in n
  }
  return sum;
}

/** W, and W′(T) = Σ_n e^(−Λ)·∂Λ/∂T, the right-hand one where it jumps. */
export function longestStepsAndSlope(road, t, knows) {
  const most = mostSteps(road, t);
  let [steps, rise] = [0, 0];
  for (let n = 1; n <= most; n++) {
    const { uploads, slope } = uploadsOfSteps(road, n, t, knows);
    const none = Math.exp(-uploads);
    steps -= Math.expm1(-uploads);
    rise += none * slope;
  }
  return { steps, slope: rise };
}

/** How many local steps the quickest class may take in a round of T seconds, or one more. */
function mostSteps(road, t) {
  return Math.max(Math.floor((Math.min(t, road.longest_s) - road.transfer_s) / road.min_step_s) + 1, 0);
}

/** v(T) = W/T with what goes with it. */
export function anytimePromise(road, t, knows) {
  const reached = Array.from({ length: mostSteps(road, t) + 1 }, (_, i) => uploadsOfSteps(road, i + 1, t, knows).uploads);
  const [uploads] = reached;
  const local_steps = reached.reduceRight((sum, each) => sum - Math.expm1(-each), 0);
  const averaged_objective = averagedSteps(reached) / t;
  const valid = -Math.expm1(-uploads);
  return { round_s: t, local_steps, objective: local_steps / t, averaged_objective, uploads, valid };
}

/**
 * E[Σn²/Σn] over a round's uploads, of which `reached[n − 1]` have at least n steps: how far an average with the weights
 * D·steps advances.
 */
function averagedSteps(reached) {
  const exactly = reached.slice(1).map((next, i) => Math.max(reached[i] - next, 0));
  let mean = 0;
  for (const { s, weight } of shareNodes()) {
    let [power, others, own] = [1, 0, 0]; // s^(n − 1)
    for (let n = 1; n <= exactly.length; n++) {
      own += exactly[n - 1] * n * n * power;
      power *= s;
      others += exactly[n - 1] * (power - 1);
    }
    mean += weight * own * Math.exp(others);
  }
  return mean;
}

let shares = null;

/** Of the integral over s from 0 to 1, closer together near 1: that is where many steps count. */
function shareNodes() {
  if (shares) return shares;
  const edges = Array.from({ length: SHARE_PANELS + 1 }, (_, i) => 1 - 10 ** ((-13 * i) / SHARE_PANELS)).concat(1);
  const { x, w } = legendre(ORDER);
  shares = edges.slice(1).flatMap((to, i) => {
    const [middle, half] = [(to + edges[i]) / 2, (to - edges[i]) / 2];
    return Array.from(x, (place, k) => ({ s: middle + half * place, weight: half * w[k] }));
  });
  return shares;
}

// ---- what a vehicle may know ----------------------------------------------------------------------

const sums = { uploads: 0, slope: 0 }; // used again and again

/** Λ(n, T), the mean number of vehicles that upload at least n local steps, and ∂Λ/∂T; overwritten by the next call. */
export function uploadsOfSteps(road, n, t, knows) {
  const knots = knows === "mean" ? [t, road.mean_stay_s] : [t];
  sums.uploads = sums.slope = 0;
  for (const each of road.classes) {
    const delay = delayOf(road, each, n);
    if (delay.shift <= t) addStays(road, delay, t, knots, knows, road.arrivals_per_s * each.share);
  }
  return sums;
}

/**
 * Who knows nothing trains until the round's end and must stay until then: (D − T)⁺·F_S(T) + E(m − S)⁺, m = min(T, D). Who
 * knows when it leaves has the window of Theorem 1: |T − D|·F_S(m) + 2·E(m − S)⁺. Who knows the mean stay counts, if it
 * stays longer, as if it left then, else as who knows nothing.
 */
function addStays(road, delay, t, knots, knows, rate) {
  const { stays, weights, count, total } = dwellNodes(road, delay, knots);
  const until = { nothing: Infinity, mean: road.mean_stay_s }[knows] ?? 0; // shorter stays are lost
  const density = densityOf(delay, t);
  const [whole, wholeIntegral] = [cdf(delay, t), integral(delay, t, cdf(delay, t))];
  for (let i = 0; i < count; i++) {
    const known = stays[i] >= until;
    const d = known && until > 0 ? until : stays[i];
    const share = d < t ? cdf(delay, d) : whole;
    const part = d < t ? integral(delay, d, share) : wholeIntegral;
    const left = Math.max(d - t, 0);
    const weight = (rate * weights[i]) / total;
    sums.uploads += weight * (known ? Math.abs(d - t) * share + 2 * part : left * share + part);
    sums.slope += weight * ((known ? share : 0) + density * left);
  }
}
