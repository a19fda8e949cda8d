// The exact optimum of g, as mobfl/planning finds it: the best T of an H by Newton or in closed form, for a fleet in every
// interval between its classes' T_min, and the best H by ruling out ranges, since max_T g(H, T)/H never rises with H.

import { longRoundLine, maxLocalSteps, minDelays, promise, uploadsAndSlopes, worthFraction } from "./theory.js";

const TIE = 16 * Number.EPSILON; // two values of g this close are equal
const LAST_STEP = 1e-6; // Newton squares its error
const ROUNDING = 2 * Number.EPSILON;
const SERIES_REACH = 1e-3; // below it the series is as good as Newton, which loses digits there
const TINY = 1e-300;
const PIECES = 12;
/** With more steps than this in a stay, the server answers instead: it is faster. */
export const MOST_STEPS = 20_000;

/** H, T, Λ, P{M_suc > 0} and g at the optimum; null if nobody can upload. */
export function bestPlan(road) {
  const most = maxLocalSteps(road);
  const seen = [];
  let best = 0;
  let ranges = most > 0 ? [[1, most + 1]] : []; // from H to before H
  while (ranges.length) {
    const tried = ranges.flatMap(pieces).map(([start, stop]) => ({ start, stop, ...bestRound(road, start) }));
    seen.push(...tried);
    for (const { objective } of tried) best = Math.max(best, objective);
    ranges = tried
      .filter(({ start, stop, objective }) => stop - start > 1 && objective * ((stop - 1) / start) >= best * (1 - TIE))
      .map(({ start, stop }) => [start + 1, stop]);
  }
  const ties = seen.filter(({ objective }) => objective > 0 && objective >= best * (1 - TIE));
  return ties.length ? ties.reduce((a, b) => (b.start < a.start ? b : a)) : null;
}

/** A range cut by equal ratios, no piece empty. */
function pieces([start, stop]) {
  const count = Math.min(stop - start, PIECES);
  const ratio = (stop / start) ** (1 / count);
  const starts = Array.from({ length: count }, (_, i) => Math.max(start + i, Math.floor(start * ratio ** i)));
  return starts.map((first, i) => [first, i + 1 < count ? starts[i + 1] : stop]);
}

/** The T that maximises g(H, ·), and what it promises. */
export function bestRound(road, h) {
  const starts = minDelays(road, h).filter((least) => least <= road.longest_s);
  const straight = starts.length === 1 && !road.classes.some((each) => each.jitters);
  const tops = straight
    ? [Math.max(bestLineOf(road, h), starts[0])]
    : starts.map((least, i) => topBetween(road, h, least, starts[i + 1] ?? road.longest_s));
  const found = tops.map((t) => ({ local_steps: h, round_s: t, ...promise(road, h, t) }));
  return found.reduce((a, b) => (b.objective > a.objective ? b : a));
}

function bestLineOf(road, h) {
  const [c0, c1] = longRoundLine(road, h);
  return bestLinearRound(road.arrivals_per_s * c0, road.arrivals_per_s * c1, road.noise);
}

/** The root of ∂g/∂T between two classes' T_min, where Λ is concave; beyond the longest dwell it is a straight line. */
function topBetween(road, h, least, most) {
  let [low, high] = [least, most];
  const end = uploadsAndSlopes(road, h, high, least);
  if (Math.log1p(high * end.slope) > enoughGrowth(end.uploads, road.noise)[0]) {
    return most < road.longest_s ? most : bestLinearRound(end.slope, end.uploads - end.slope * high, road.noise);
  }
  const first = uploadsAndSlopes(road, h, low, least);
  if (Math.log1p(low * first.slope) <= enoughGrowth(first.uploads, road.noise)[0]) return least;
  let t = road.classes.length > 1 ? (low + high) / 2 : firstGuess(road, h, least, high - least);
  for (let turn = 0; turn < 200; turn++) {
    const { uploads, slope, bend } = uploadsAndSlopes(road, h, t, least);
    const [enough, damping] = enoughGrowth(uploads, road.noise);
    const excess = Math.log1p(t * slope) - enough;
    if (excess > 0) low = t;
    else high = t;
    let next = t + (excess * (1 + t * slope)) / (t * Math.max(slope * slope * damping - bend, TINY));
    if (!(next > low && next < high)) next = (low + high) / 2;
    if (Math.abs(next - t) <= Math.max(LAST_STEP * (t - least), ROUNDING * t)) return next;
    t = next;
  }
  return t;
}

function firstGuess(road, h, least, room) {
  const [rate, reach] = [road.arrivals_per_s, room / (road.classes[0].extra_step_s * h)];
  const guess = (Math.log1p(rate * least * reach) / (rate * reach)) * (1.08 + 0.6 / reach);
  return least + Math.min(guess, 0.95 * room);
}

/** log(1 + w/w′), which log(1 + T·∂Λ/∂T) exceeds while longer rounds pay, and −w″/w′. */
function enoughGrowth(uploads, noise) {
  if (noise === null) return [uploads, 1];
  const a = worthFraction(uploads, noise);
  const d = noise + a;
  return [Math.log1p(uploads + (uploads * uploads) / d), a / d];
}

/** The T that maximises w(Λ)/T for Λ = slope·T + offset. */
function bestLinearRound(slope, offset, noise) {
  const c = Math.max(-offset, 0);
  const y = noise === null ? bestGrowth(c) : c + bestUploads(c, noise);
  return y / Math.max(slope, TINY);
}

/** y with y − log(1 + y) = c. */
function bestGrowth(c) {
  const s = Math.sqrt(2 * c);
  const start = s + (s * s) / 3 + (s * s * s) / (36 + 6 * s);
  if (s < SERIES_REACH) return start;
  let y = Math.max(start, SERIES_REACH);
  for (let turn = 0; turn < 3; turn++) y -= ((y - Math.log1p(y) - c) * (1 + y)) / y;
  return y;
}

/** Λ with Λ²/d(Λ) = c, where averaging counts: Newton in log Λ, bisection where that strays. */
function bestUploads(c, noise) {
  if (c === 0) return 0;
  const logC = Math.log(Math.max(c, TINY));
  let low = Math.max((logC + Math.log(noise)) / 2, Math.log(Math.log1p(bestGrowth(Math.max(c, TINY)))));
  let high = (logC + Math.log(noise + 2)) / 2;
  let [x, last] = [low, Infinity];
  for (let turn = 0; turn < 200; turn++) {
    const uploads = Math.exp(x);
    const a = worthFraction(uploads, noise);
    const d = noise + a;
    const excess = 2 * x - Math.log(d) - logC;
    let next = x - (excess * d) / (a * (uploads + d));
    if (Math.abs(next - x) <= LAST_STEP) return Math.exp(next);
    if (excess > 0) high = x;
    else low = x;
    if (next < low || next > high || Math.abs(next - x) > last / 2) next = (low + high) / 2;
    [last, x] = [Math.abs(next - x), next];
  }
  return Math.exp(x);
}
