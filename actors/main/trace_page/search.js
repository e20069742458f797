// The search box: requests, actors, types and events by what their names contain.

const search = {
  most: 12, // of each sort
  at: -1,
  hits: [],

  make() {
    const box = byId('search');
    box.addEventListener('input', () => this.look());
    box.addEventListener('focus', () => this.look());
    box.addEventListener('keydown', (event) => this.key(event));
    box.addEventListener('blur', () => setTimeout(() => this.close(), 150));
    document.addEventListener('keydown', (event) => {
      if (event.key !== '/' || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
      event.preventDefault();
      box.focus();
    });
  },

  find(model, text) {
    const wanted = text.toLowerCase();
    const has = (name) => name.toLowerCase().includes(wanted);
    const hits = [];
    const take = (list, sort, makeHit) => {
      let found = 0;
      for (const entry of list) {
        const hit = makeHit(entry);
        if (hit && ++found <= this.most) hits.push({sort, ...hit});
      }
      if (found > this.most) hits.push({sort, more: found - this.most});
    };
    const exact = requestTable(model).filter((r) => r.name === text);
    take([...exact, ...requestTable(model).filter((r) => r.name !== text)], 'request', (r) => (has(r.name) || has(r.client)) && {text: r.name, small: r.client, changes: {view: 'requests', request: r.name, event: ''}});
    if (/^(\d+\.)?(\d+b?-)?\d+$/.test(text) && model.find(text) >= 0) hits.push({sort: 'event', text: `${model.id(model.find(text))} ${model.typeOf(model.find(text))}`, changes: {view: 'sequence', event: model.id(model.find(text)), request: '', type: '', actor: '', from: '', to: ''}});
    take(model.actors, 'actor', (a) => has(a.name) && {text: a.name, small: model.processName(a.process), changes: {view: 'sequence', actor: a.key, request: '', type: '', event: ''}});
    take(model.names, 'type', (n) => n && has(n) && {text: n, changes: {view: 'sequence', type: n, request: '', actor: '', event: ''}});
    return hits;
  },

  look() {
    const text = byId('search').value.trim();
    this.hits = text && current ? this.find(current, text) : [];
    this.at = this.hits.findIndex((hit) => hit.changes);
    this.draw(text);
  },

  draw(text) {
    const list = byId('hits');
    list.replaceChildren(...this.hits.map((hit, i) => h('li', {
      role: 'option', id: `hit-${i}`, 'aria-selected': i === this.at ? 'true' : 'false', 'aria-disabled': hit.changes ? null : 'true',
      onpointerdown: (event) => { event.preventDefault(); this.choose(i); },
    }, h('small', {}, hit.sort), ' ', hit.more ? `${grouped(hit.more)} more` : named(hit.text, 90), hit.small ? h('small', {}, ' ', named(hit.small, 30)) : '')));
    if (text && this.hits.length === 0) list.replaceChildren(h('li', {class: 'hint', role: 'option', 'aria-disabled': 'true'}, 'Nothing found.'));
    list.hidden = !text;
    byId('search').setAttribute('aria-expanded', String(!list.hidden));
    if (this.at >= 0) byId('search').setAttribute('aria-activedescendant', `hit-${this.at}`);
    else byId('search').removeAttribute('aria-activedescendant');
    list.children[this.at]?.scrollIntoView({block: 'nearest'});
  },

  close() {
    byId('hits').hidden = true;
    byId('search').setAttribute('aria-expanded', 'false');
    byId('search').removeAttribute('aria-activedescendant');
  },

  choose(i) {
    const hit = this.hits[i];
    if (!hit?.changes) return;
    this.close();
    byId('search').value = '';
    byId('search').blur();
    // Once that is shown, the arrow keys go on from there.
    if (go(hit.changes)) window.addEventListener('hashchange', focusList, {once: true});
    else focusList();
  },

  key(event) {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step && this.hits.length > 0) {
      event.preventDefault();
      for (let n = 0; n < this.hits.length; n++) {
        this.at = (this.at + step + this.hits.length) % this.hits.length;
        if (this.hits[this.at].changes) break;
      }
      this.draw(byId('search').value.trim());
    } else if (event.key === 'Enter') this.choose(this.at);
    else if (event.key === 'Escape') this.close();
  },
};
