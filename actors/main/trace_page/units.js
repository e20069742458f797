// Numbers for people.

function duration(ns) {
  const n = Math.abs(ns);
  const minutes = Math.floor(n / 6e10);
  const s = Math.floor((n % 6e10) / 1e9); // as of a clock: never 60
  if (n < 1e3) return `${Math.round(ns)} ns`;
  if (n < 1e6) return `${digits(ns / 1e3)} µs`;
  if (n < 1e9) return `${digits(ns / 1e6)} ms`;
  if (n < 6e10) return `${digits(ns / 1e9)} s`;
  return `${ns < 0 ? '-' : ''}${minutes} min ${s} s`;
}

const digits = (x) => (Math.abs(x) < 10 ? x.toFixed(2) : Math.abs(x) < 100 ? x.toFixed(1) : x.toFixed(0));

// A moment of the recording, exact enough to tell neighbours apart.
function moment(ns) {
  const s = ns / 1e9;
  return s < 1 ? `${(ns / 1e6).toFixed(3)} ms` : `${s.toFixed(6)} s`;
}

const grouped = (n) => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, ',');

function bytes(n) {
  if (n < 1024) return `${n} B`;
  return n < 1024 * 1024 ? `${digits(n / 1024)} KiB` : `${digits(n / 1024 / 1024)} MiB`;
}

const percent = (part, whole) => (whole > 0 ? `${digits((100 * part) / whole)} %` : '');

const plural = (n, what, many = what + 's') => `${grouped(n)} ${n === 1 ? what : many}`;

// Without the namespaces: a::b<c::d> is b<d>.
const shortType = (type) => type.replace(/(?<![\w~])[\w~]+::/g, ''); // a name is looked at from its beginning only

// Steps of an axis: 1, 2 or 5 times a power of ten.
function tickStep(range, count) {
  const raw = range / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find((f) => f * power >= raw);
}
