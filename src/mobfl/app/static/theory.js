// The mathematics of mobfl/theory.py for one road, in the same words: a test holds the two together to 1e-9.

const LEAST_SPEED = 0.1; // no vehicle is slower than this share of the mean
const LEAST_JITTER = 1e-12; // below these shares nothing can be told from none
const LEAST_SPREAD = 1e-9;
const LEAST_NOISE = 1e-12;
const FRACTION_TERMS = 128;
const NORMAL_EDGES = [-9, -5, -2.5, 0, 2.5, 5, 9];
const EXPONENTIAL_EDGES = [0, 1, 4, 12, 40];
const ORDER = 20; // of the quadrature between two edges

/** What the theory needs of a scenario's tables, link times as seconds. */
export function conditions(tables) {
  const { road, traffic, link, training } = tables;
  const bySize = link.model_bytes !== undefined;
  const download_s = bySize ? (8 * link.model_bytes) / link.downlink_bps : link.download_s;
  const upload_s = bySize ? (8 * link.model_bytes) / link.uplink_bps : link.upload_s;
  const classes = classesOf(tables);
  const spreads = traffic.speed_sd_mps > LEAST_SPREAD * traffic.speed_mps;
  const slowest = Math.max(LEAST_SPEED * traffic.speed_mps, traffic.speed_mps + NORMAL_EDGES[0] * traffic.speed_sd_mps);
  const dwell_s = road.length_m / traffic.speed_mps;
  const found = {
    arrivals_per_s: traffic.arrivals_per_s * traffic.participation,
    length_m: road.length_m,
    speed_mps: traffic.speed_mps,
    speed_sd_mps: traffic.speed_sd_mps,
    download_s,
    upload_s,
    transfer_s: download_s + upload_s,
    classes,
    min_step_s: Math.min(...classes.map((each) => each.min_step_s)),
    known: classes.every((each) => each.law === "exponential"),
    noise: training.noise_uploads > LEAST_NOISE ? training.noise_uploads : null,
    spreads,
    nodes: spreads ? null : oneStay(dwell_s),
    dwell_s,
    longest_s: spreads ? road.length_m / slowest : dwell_s,
  };
  return { ...found, mean_stay_s: meanStay(found) };
}

/** The classes of vehicles, of which the paper's road has one; what a class does not say comes from compute. */
function classesOf({ compute, fleet }) {
  const given = fleet?.length ? fleet : [{ share: 1 }];
  return given.map((each) => {
    const law = each.step_samples ? "measured" : (each.law ?? compute.law ?? "exponential");
    const min_step_s = each.min_step_s ?? compute.min_step_s;
    const extra_step_s = each.extra_step_s ?? compute.extra_step_s;
    return { share: each.share, law, min_step_s, extra_step_s, jitters: extra_step_s > LEAST_JITTER * min_step_s };
  });
}

/** T_min(H) = αH + τ_down + τ_up, of the quickest class. */
export function minDelay(road, h) {
  return road.min_step_s * h + road.transfer_s;
}

/** Where a class begins to be done in time, and g(H, ·) may bend or leap: every class's T_min(H), in order. */
export function minDelays(road, h) {
  return road.classes.map(({ min_step_s }) => min_step_s * h + road.transfer_s).sort((a, b) => a - b);
}

/** Whether a vehicle can ever upload after H local steps. */
export function fits(road, h) {
  const spare = road.longest_s - minDelay(road, h);
  const quickest = road.classes.filter(({ min_step_s }) => min_step_s === road.min_step_s);
  return spare > 0 || (spare === 0 && quickest.some(({ extra_step_s }) => extra_step_s === 0));
}

/** H_max, the largest H that fits; 0 if none does. */
export function maxLocalSteps(road) {
  const near = Math.max(Math.floor((road.longest_s - road.transfer_s) / road.min_step_s), 0);
  return Math.max(near - 1 + fits(road, near) + fits(road, near + 1), 0);
}

/** Λ, P{M_suc > 0} and g of this H and T (Theorem 1, Eq. 5). */
export function promise(road, h, t) {
  const uploads = expectedUploads(road, h, t);
  const valid = -Math.expm1(-uploads);
  const worth = road.noise === null ? valid : roundWorth(uploads, road.noise);
  return { uploads, valid, objective: (h / t) * worth };
}

/** Λ(H, T) = λ·E[|T − D|·F_S(m) + 2·E(m − S)⁺], m = min(T, D). */
export function expectedUploads(road, h, t) {
  return road.arrivals_per_s * sumOverClasses(road, h, (delay) => uploadsOf(road, delay, t));
}

function uploadsOf(road, delay, t) {
  return averageOverDwell(road, delay, [t], (d) => {
    const window = Math.min(t, d);
    const share = cdf(delay, window);
    return Math.abs(t - d) * share + 2 * integral(delay, window, share);
  });
}

/** Λ and its first two derivatives in T, from the classes with T_min(H) ≤ `from` ≤ T: those are smooth. */
export function uploadsAndSlopes(road, h, t, from) {
  let [uploads, slope, bend] = [0, 0, 0];
  for (const each of road.classes) {
    const delay = delayOf(road, each, h);
    if (delay.shift > from) continue;
    const density = densityOf(delay, t);
    const rate = road.arrivals_per_s * each.share;
    eachDwell(road, delay, [t], (d, weight) => {
      const window = Math.min(t, d);
      const share = cdf(delay, window);
      const gain = density * Math.max(d - t, 0);
      uploads += rate * weight * (Math.abs(d - t) * share + 2 * integral(delay, window, share));
      slope += rate * weight * (share + gain);
      if (gain > 0) bend -= (rate * weight * gain) / delay.scale;
    });
  }
  return { uploads, slope, bend };
}

/** C0(H) and C1(H): Λ = λ·(C0·T + C1) once T is at least the longest dwell. */
export function longRoundLine(road, h) {
  const c0 = sumOverClasses(road, h, (delay) => averageOverDwell(road, delay, [], (d) => cdf(delay, d)));
  const c1 = sumOverClasses(road, h, (delay) =>
    averageOverDwell(road, delay, [], (d) => {
      const share = cdf(delay, d);
      return 2 * integral(delay, d, share) - d * share;
    }),
  );
  return [c0, c1];
}

/** E[M/(M + ν)] of a Poisson number M with mean Λ. */
export function roundWorth(uploads, noise) {
  const d = noise + worthFraction(uploads, noise);
  return uploads / (uploads + noise + d / (uploads + d));
}

/** The continued fraction behind it. */
export function worthFraction(uploads, noise) {
  let d = noise + FRACTION_TERMS;
  for (let n = FRACTION_TERMS; n > 2; n--) d = noise + (n * d) / (uploads + d);
  return (2 * d) / (uploads + d);
}

// ---- delays ---------------------------------------------------------------------------------------

export function delayOf(road, { min_step_s, extra_step_s, jitters }, h) {
  return { shift: min_step_s * h + road.transfer_s, scale: jitters ? extra_step_s * h : 0 };
}

/** A mixture's mean is the sum of its classes', each by its share. */
function sumOverClasses(road, h, value) {
  let sum = 0;
  for (const each of road.classes) sum += each.share * value(delayOf(road, each, h));
  return sum;
}

/** P{S ≤ t}. */
export function cdf({ shift, scale }, t) {
  if (scale === 0) return t >= shift ? 1 : 0;
  return -Math.expm1(Math.min(shift - t, 0) / scale);
}

/** E[(t − S)⁺], given P{S ≤ t}. */
export function integral({ shift, scale }, t, share) {
  return Math.max(t - shift, 0) - scale * share;
}

/** The density at t ≥ the least delay. */
export function densityOf({ shift, scale }, t) {
  return scale > 0 ? Math.exp((shift - t) / scale) / scale : 0;
}

// ---- dwells ---------------------------------------------------------------------------------------

/** E[value(D)] of a function that bends only where the delay does, or at the knots. */
function averageOverDwell(road, delay, knots, value) {
  let sum = 0;
  eachDwell(road, delay, knots, (d, weight) => {
    sum += weight * value(d);
  });
  return sum;
}

/** Calls with dwells and their weights, which sum to one. */
function eachDwell(road, delay, knots, use) {
  const { stays, weights, count, total } = dwellNodes(road, delay, knots);
  for (let i = 0; i < count; i++) use(stays[i], weights[i] / total);
}

/** One dwell, or a quadrature that is split where the integrand bends; overwritten by the next call. */
export function dwellNodes(road, delay, knots) {
  return road.nodes ?? nodesSplitAt(road, delay, knots);
}

function oneStay(stay_s) {
  return { stays: Float64Array.of(stay_s), weights: Float64Array.of(1), count: 1, total: 1 };
}

/** The road for pictures: its dwells are not split at every bend, which colours cannot show. Numbers need the other. */
export function forPictures(road) {
  if (road.nodes) return road;
  const { stays, weights, count, total } = nodesBetween(road, NORMAL_EDGES, 6);
  return { ...road, nodes: { stays: stays.slice(0, count), weights: weights.slice(0, count), count, total } };
}

/** E[D]. */
function meanStay(road) {
  const { stays, weights, count, total } = road.nodes ?? nodesBetween(road, NORMAL_EDGES, ORDER);
  let sum = 0;
  for (let i = 0; i < count; i++) sum += (weights[i] / total) * stays[i];
  return sum;
}

/** Split at the speeds whose dwells are the knots and the delay's own bends. */
function nodesSplitAt(road, { shift, scale }, knots) {
  const edges = [...NORMAL_EDGES, standard(road, road.length_m / shift)];
  for (const knot of knots) edges.push(standard(road, road.length_m / knot));
  if (scale > 0) {
    for (let k = 1; k < EXPONENTIAL_EDGES.length; k++) {
      edges.push(standard(road, road.length_m / (shift + EXPONENTIAL_EDGES[k] * scale)));
    }
  }
  return nodesBetween(road, edges, ORDER);
}

function standard(road, speed) {
  return (speed - road.speed_mps) / road.speed_sd_mps;
}

const sorted = new Float64Array(16); // these two are used again and again
const nodes = { stays: new Float64Array(320), weights: new Float64Array(320), count: 0, total: 0 };

/** Dwells at speeds of a normal law that is cut off below a tenth of its mean: Gauss-Legendre between neighbouring edges. */
function nodesBetween(road, edges, order) {
  const least = Math.max(standard(road, LEAST_SPEED * road.speed_mps), NORMAL_EDGES[0]);
  const most = NORMAL_EDGES[NORMAL_EDGES.length - 1];
  for (let k = 0; k < edges.length; k++) {
    const z = Math.min(Math.max(edges[k], least), most);
    let place = k;
    for (; place > 0 && sorted[place - 1] > z; place--) sorted[place] = sorted[place - 1];
    sorted[place] = z;
  }
  const { x, w } = legendre(order);
  nodes.count = nodes.total = 0;
  for (let k = 1; k < edges.length; k++) {
    const half = (sorted[k] - sorted[k - 1]) / 2;
    const middle = (sorted[k] + sorted[k - 1]) / 2;
    for (let i = 0; half > 0 && i < order; i++) {
      const z = middle + half * x[i];
      const weight = half * w[i] * Math.exp((-z * z) / 2);
      nodes.stays[nodes.count] = road.length_m / (road.speed_mps + road.speed_sd_mps * z);
      nodes.weights[nodes.count++] = weight;
      nodes.total += weight;
    }
  }
  return nodes;
}

const known = new Map();

export function legendre(order) {
  if (!known.has(order)) known.set(order, gaussLegendre(order));
  return known.get(order);
}

/** Nodes and weights on [−1, 1], by Newton from Chebyshev's points. */
function gaussLegendre(order) {
  const [nodes, weights] = [new Float64Array(order), new Float64Array(order)];
  for (let i = 0; i < order; i++) {
    let x = Math.cos((Math.PI * (i + 0.75)) / (order + 0.5));
    let [slope, step] = [1, 1];
    for (let turn = 0; turn < 100 && Math.abs(step) > 1e-16; turn++) {
      let [before, now] = [1, x];
      for (let n = 2; n <= order; n++) [before, now] = [now, ((2 * n - 1) * x * now - (n - 1) * before) / n];
      slope = (order * (x * now - before)) / (x * x - 1);
      step = now / slope;
      x -= step;
    }
    nodes[i] = x;
    weights[i] = 2 / ((1 - x * x) * slope * slope);
  }
  return { x: nodes, w: weights };
}
