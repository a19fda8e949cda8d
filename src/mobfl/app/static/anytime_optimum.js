// The best T of anytime rounds, as mobfl/planning/anytime.py finds it: W, the mean of a round's longest training, bends
// upwards at every T_min(n) and is concave between them, so v = W/T has one top at most in every interval.

import { anytimePromise, longestSteps, longestStepsAndSlope } from "./anytime.js";
import { forPictures, maxLocalSteps } from "./theory.js";

const ROUNDING = 4 * Number.EPSILON;
const LAST_GAIN = 1e-12; // a share of v that is not searched for;
const ROUGH_GAIN = 1e-6; // where T is not quite the best anyway
const FIRST_RANGES = 24;
/** With more bends than this within a stay, the server answers instead; the longest of spread stays are rare. */
const MOST_BENDS = 2000;
const MOST_BENDS_SPREAD = 10_000;
const EXACT_BENDS = 800; // with more, or where every value takes a quadrature, some are left out
const FEW_BENDS = 80;
const NEAR = 1.1; // to this ratio from the best of some bends all are looked at

/** Whether this road's anytime rounds are planned here: noise is not theirs, and other laws are the server's. */
export function plansAnytime(road) {
  return road.known && road.noise === null && bendCount(road) <= (road.spreads ? MOST_BENDS_SPREAD : MOST_BENDS);
}

/** Whether the T that is found here is the best, to all digits. */
export function isExact(road) {
  return !road.spreads && bendCount(road) <= EXACT_BENDS;
}

function bendCount(road) {
  const count = ({ min_step_s }) => Math.max((road.longest_s - road.transfer_s) / min_step_s, 0);
  return road.classes.reduce((sum, each) => sum + count(each), 0);
}

/**
 * T, v and what goes with it at the optimum; null if nobody can upload. Where speeds spread or very many steps fit, T is not
 * quite the best: what it promises is exact, and the server says the best one once a slider rests.
 */
export function bestAnytime(road, knows) {
  if (maxLocalSteps(road) < 1) return null;
  return anytimePromise(road, bestRound(forPictures(road), knows), knows);
}

function bestRound(road, knows) {
  const bends = bendsOf(road);
  if (isExact(road)) return new Tops(road, knows, bends).bestRound();
  const rough = new Tops(road, knows, some(bends)).bestRound();
  const near = bends.filter((t) => t * NEAR >= rough && t <= rough * NEAR);
  return new Tops(road, knows, [...some(near), road.longest_s], rough).bestRound();
}

/** A few of many numbers, as far from each other by ratio as can be, with the first and the last. */
function some(bends) {
  const ratio = (bends.at(-1) / bends[0]) ** (1 / FEW_BENDS);
  let next = 0;
  return bends.filter((t, i) => {
    if (t < next && i < bends.length - 1) return false;
    next = t * ratio;
    return true;
  });
}

class Tops {
  constructor(road, knows, bends, known = null) {
    Object.assign(this, { road, knows, best: 0, best_s: 0, bends, steps: [], gain: isExact(road) ? LAST_GAIN : ROUGH_GAIN });
    if (known) this.look(known);
  }

  bestRound() {
    const intervals = this.hopefulIntervals().sort((a, b) => b.bound - a.bound);
    for (const each of intervals) {
      if (each.bound <= this.best * (1 + ROUNDING)) break; // it rules out all the others
      this.look(this.topOf(each));
    }
    return this.best_s;
  }

  /** W at a bend, computed once. */
  stepsAt(i) {
    if (this.steps[i] === undefined) {
      this.steps[i] = longestSteps(this.road, this.bends[i], this.knows);
      this.note(this.bends[i], this.steps[i] / this.bends[i]);
    }
    return this.steps[i];
  }

  note(t, v) {
    if (v > this.best) [this.best, this.best_s] = [v, t];
  }

  look(t) {
    this.note(t, longestSteps(this.road, t, this.knows) / t);
  }

  /** Neighbouring bends with what v can be between them at most; ranges that cannot hold the best are never split. */
  hopefulIntervals() {
    const last = this.bends.length - 1;
    const count = Math.max(Math.min(FIRST_RANGES, last), 1);
    const cuts = Array.from({ length: count + 1 }, (_, i) => Math.round((last * i) / count));
    for (const i of cuts) this.stepsAt(i);
    let ranges = cuts.slice(1).map((stop, i) => [cuts[i], stop]);
    const found = [];
    while (ranges.length) {
      // W never falls.
      const kept = ranges.filter(([i, j]) => j > i && this.stepsAt(j) / this.bends[i] > this.best);
      found.push(...kept.filter(([i, j]) => j === i + 1));
      const split = kept.filter(([i, j]) => j > i + 1).map(([i, j]) => [i, (i + j) >> 1, j]);
      for (const [, middle] of split) this.stepsAt(middle);
      ranges = split.flatMap(([i, middle, j]) => [
        [i, middle],
        [middle, j],
      ]);
    }
    return [...found.map(([i]) => this.interval(i, this.bends[i + 1])), this.interval(last, this.#longestUseful())];
  }

  /** Along a tangent W/T lies between its values at the two ends. Where v does not rise at first it never does. */
  interval(i, stop) {
    const [start, steps] = [this.bends[i], this.stepsAt(i)];
    const { slope } = longestStepsAndSlope(this.road, start, this.knows);
    return { start, stop, bound: slope > steps / start ? (steps + slope * (stop - start)) / stop : 0 };
  }

  /** A T beyond which v only falls, at least the longest dwell. */
  #longestUseful() {
    let t = this.road.longest_s;
    while (this.rise(t) > 0) t *= 2;
    return t;
  }

  /** W′ − W/T, which has the sign of v's slope. */
  rise(t) {
    const { steps, slope } = longestStepsAndSlope(this.road, t, this.knows);
    return slope - steps / t;
  }

  /**
   * Where v's slope reaches zero, or the end: regula falsi whose standing end counts half when it has stood twice. With
   * little jitter all happens just behind the bend, so every third turn halves the way there by ratio.
   */
  topOf({ start, stop }) {
    let [low, high] = [start, stop * (1 - ROUNDING)]; // just before the next bend
    let [atLow, atHigh] = [this.rise(low), this.rise(high)];
    if (!(atLow > 0)) return low;
    if (!(atHigh < 0)) return high;
    let [t, last] = [high, 0];
    for (let turn = 0; turn < 200; turn++) {
      const halves = turn % 3 === 2;
      const behind = Math.max(low - start, ROUNDING * start);
      const next = halves
        ? start + Math.sqrt(behind * Math.max(high - start, behind))
        : low + ((high - low) * atLow) / (atLow - atHigh);
      t = next;
      const value = this.rise(t);
      if (value === 0) break;
      const side = Math.sign(value);
      if (side > 0) [low, atLow, atHigh] = [t, value, side === last ? atHigh / 2 : atHigh];
      else [high, atHigh, atLow] = [t, value, side === last ? atLow / 2 : atLow];
      last = side;
      if (Math.abs(value) * (high - low) <= this.gain * t * this.best) break; // v cannot gain more than that
    }
    return t;
  }
}

/** T_min(n) of every class below the longest dwell, and that. */
function bendsOf(road) {
  const bends = road.classes.flatMap(({ min_step_s }) => {
    const count = Math.max(Math.floor((road.longest_s - road.transfer_s) / min_step_s), 0);
    return Array.from({ length: count }, (_, i) => min_step_s * (i + 1) + road.transfer_s);
  });
  const below = bends.filter((t) => t < road.longest_s * (1 - ROUNDING)).sort((a, b) => a - b);
  return [...below.filter((t, i) => t !== below[i - 1]), road.longest_s];
}
