// The window of time that the views show: how many events there were when, two sliders, and a drag over the picture.

// [from, to] in ns after the recording's first event. In the address they stand as they were recorded.
function windowOf(model) {
  const from = state.from === '' ? 0 : Number(state.from) - model.origin;
  const to = state.to === '' ? model.last : Number(state.to) - model.origin;
  return from <= to ? [from, to] : [to, from];
}

const timeline = {
  bins: 240,

  make() {
    const [from, to] = [byId('window-from'), byId('window-to')];
    const changed = () => {
      const [a, b] = [Number(from.value), Number(to.value)].sort((x, y) => x - y);
      this.set(a / 1000, b / 1000);
    };
    from.addEventListener('change', changed);
    to.addEventListener('change', changed);
    byId('window-all').addEventListener('click', () => this.set(0, 1));
    byId('timeline').addEventListener('pointerdown', (event) => this.drag(event));
    new ResizeObserver(() => current && this.render(current)).observe(byId('timeline'));
  },

  set(a, b) {
    if (!current) return;
    const at = (share) => String(Math.round(current.origin + share * current.last));
    go({from: a <= 0 ? '' : at(a), to: b >= 1 ? '' : at(b)});
  },

  drag(event) {
    if (event.button !== 0 || !event.isPrimary || !current) return;
    const canvas = byId('timeline');
    const share = (e) => Math.max(0, Math.min(1, (e.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth));
    const first = share(event);
    const upTo = (e) => [first, share(e)].sort((a, b) => a - b);
    drag(canvas, event, (e) => this.draw(current, upTo(e)), (e) => {
      const [a, b] = e ? upTo(e) : [0, 0];
      if (b - a > 0.003) this.set(a, b);
      else this.render(current);
    });
  },

  render(model) {
    const [from, to] = windowOf(model);
    const whole = Math.max(1, model.last);
    const slide = (slider, at) => {
      if (model.live && !live.paused && slider === document.activeElement) return; // it is in somebody's hand
      slider.value = Math.round((1000 * at) / whole);
    };
    slide(byId('window-from'), from);
    slide(byId('window-to'), to);
    byId('window-text').textContent = `${moment(from)} to ${moment(to)} (${duration(to - from)})`;
    byId('window-all').disabled = state.from === '' && state.to === '';
    this.draw(model, [from / whole, to / whole]);
  },

  counts(model) {
    if (model.histogram) return model.histogram;
    model.histogram = new Uint32Array(this.bins);
    const whole = Math.max(1, model.last);
    for (let i = 0; i < model.count; i++) model.histogram[Math.min(this.bins - 1, Math.floor((model.begin[i] / whole) * this.bins))]++;
    return model.histogram;
  },

  draw(model, [a, b]) {
    const canvas = byId('timeline');
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, 36];
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const c = canvas.getContext('2d');
    c.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const counts = this.counts(model);
    const most = Math.max(1, ...counts);
    for (let i = 0; i < this.bins; i++) {
      const middle = (i + 0.5) / this.bins;
      c.fillStyle = style.getPropertyValue(middle >= a && middle <= b ? '--accent' : '--line');
      const tall = counts[i] > 0 ? Math.max(2, (counts[i] / most) * (height - 2)) : 0;
      c.fillRect((i / this.bins) * width, height - tall, Math.max(1, width / this.bins - 0.5), tall);
    }
  },
};
