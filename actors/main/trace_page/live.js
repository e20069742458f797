// Where the recording comes from: the page itself, the server once, or the server again and again.

let current = null; // the Model

// Who looks closely at one of these does not want it to go away.
const holding = ['request', 'event', 'from', 'to'];

const live = {
  paused: false,
  every_ms: 2000,
  timer: 0,
  turn: 0, // of the loads: those before the last one are nobody's any more

  make() {
    byId('pause').addEventListener('click', () => this.setPaused(!this.paused));
  },

  setPaused(paused) {
    this.paused = paused;
    byId('pause').textContent = paused ? 'Go on' : 'Pause';
    byId('pause').setAttribute('aria-pressed', String(paused));
    clearTimeout(this.timer);
    this.turn++;
    if (!paused) this.load();
    this.say();
  },

  hold() {
    if (current?.live && !this.paused) this.setPaused(true);
  },

  // The state is a word that is read aloud; the numbers beside it change all the time.
  say(problem = '') {
    if (!current?.live) return;
    byId('live').hidden = false;
    const status = problem || (this.paused ? 'paused' : 'live');
    if (byId('live-status').textContent !== status) byId('live-status').textContent = status;
    byId('live-text').textContent = `${plural(current.count, 'event')} of the last ${duration(current.last)}`;
  },

  // What could not be fetched is tried again; what cannot be shown stays so.
  async load() {
    const turn = ++this.turn;
    try {
      const response = await fetch('recording.json', {cache: 'no-store'});
      if (!response.ok) throw new Error(`the server answered ${response.status}`);
      const data = await response.json();
      if (turn !== this.turn) return;
      if (!this.take(data)) return;
      this.say();
    } catch (error) {
      if (turn !== this.turn) return;
      if (current) this.say(`no news: ${error.message}`);
      else fail(error);
    }
    if ((current === null || current.live) && !this.paused) this.timer = setTimeout(() => this.load(), this.every_ms);
  },

  // Whether it could be shown.
  take(data) {
    const first = current === null;
    try {
      current = new Model(data);
      byId('notice').hidden = true;
      render();
    } catch (error) {
      if (!first && current.live) {
        this.setPaused(true);
        this.say(`cannot be shown: ${error.message}`);
      } else fail(error);
      return false;
    }
    if (first && holding.some((name) => state[name])) this.hold();
    return true;
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
