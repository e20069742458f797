// Where the recording comes from: the page itself, the server once, or the server again and again.

let current = null; // the Model

const live = {
  paused: false,
  every_ms: 2000,
  timer: 0,

  make() {
    byId('pause').addEventListener('click', () => this.setPaused(!this.paused));
  },

  setPaused(paused) {
    this.paused = paused;
    byId('pause').textContent = paused ? 'Go on' : 'Pause';
    byId('pause').setAttribute('aria-pressed', String(paused));
    clearTimeout(this.timer);
    if (!paused) this.load();
    this.say();
  },

  // Who looks closely at something does not want it to go away.
  hold() {
    if (current?.live && !this.paused) this.setPaused(true);
  },

  say(problem = '') {
    if (!current?.live) return;
    byId('live').hidden = false;
    byId('live-status').textContent = problem || `${this.paused ? 'paused' : 'live'}: ${plural(current.count, 'event')} of the last ${duration(current.last)}`;
  },

  async load() {
    try {
      const response = await fetch('recording.json', {cache: 'no-store'});
      if (!response.ok) throw new Error(`the server answered ${response.status}`);
      const data = await response.json();
      if (this.paused) return;
      this.take(data);
      this.say();
    } catch (error) {
      if (current) this.say(`no news: ${error.message}`);
      else fail(error);
    }
    if ((current === null || current.live) && !this.paused) this.timer = setTimeout(() => this.load(), this.every_ms);
  },

  take(data) {
    current = new Model(data);
    byId('notice').hidden = true;
    render();
  },

  start() {
    const own = byId('recording').textContent;
    if (own.trim() === '') return this.load();
    try {
      this.take(JSON.parse(own));
    } catch (error) {
      fail(error);
    }
  },
};

function fail(error) {
  byId('notice').hidden = false;
  byId('notice').replaceChildren(`The recording cannot be shown: ${clean(String(error.message), 300)}`);
}
