// The view of model requests: the list, and beside it the chosen one's waterfall.

const requests = {
  order: 'start',
  list: [],

  make() {
    this.rows = new Rows({
      name: 'request', label: 'Requests', height: 26, class: 'request-rows', render: (i) => this.row(i),
      nameOf: (i) => this.list[i].name, choose: (request) => go({request, event: ''}),
    });
    const orders = {start: 'by time', duration: 'longest first', messages: 'most messages first'};
    this.select = h('select', {id: 'request-order', 'aria-label': 'Order of requests', onchange: () => { this.order = this.select.value; this.render(current); }},
      Object.entries(orders).map(([value, text]) => h('option', {value}, text)));
    this.text = h('span', {class: 'hint', id: 'requests-text'});
    this.right = h('div', {class: 'waterfall'});
    byId('requests').append(h('div', {class: 'request-list'}, h('p', {class: 'bar'}, this.select, ' ', this.text), this.rows.element), this.right);
    waterfall.make(this.right);
  },

  render(model) {
    const [from, to] = windowOf(model);
    const by = {start: (a, b) => a.first - b.first, duration: (a, b) => b.last - b.first - a.last + a.first, messages: (a, b) => b.own.length + b.steps.length - a.own.length - a.steps.length};
    this.model = model;
    this.list = requestTable(model).filter((r) => r.last >= from && r.first <= to).sort(by[this.order]);
    this.longest = Math.max(1, ...this.list.slice(0, 20000).map((r) => r.last - r.first));
    this.text.textContent = plural(this.list.length, 'request');
    this.rows.at = this.list.findIndex((r) => r.name === (state.request || this.rows.cursor));
    this.rows.show(this.list.length);
    if (state.request && this.rows.at >= 0 && this.shown !== state.request) this.rows.select(this.rows.at);
    this.shown = state.request;
    waterfall.render(model);
  },

  row(i) {
    const r = this.list[i];
    const length = r.last - r.first;
    return h('div', {class: 'request'},
      h('span', {class: 'request-name'}, named(r.name, 24), r.broken ? h('small', {class: 'bad', title: clean(r.broken, 300)}, ' ', named(r.broken, 30)) : ''),
      h('span', {class: 'request-start'}, moment(r.first)),
      h('span', {class: 'request-length'}, duration(length)),
      h('span', {class: 'meter', 'aria-hidden': 'true'}, h('span', {style: {width: `${Math.max(1, (100 * length) / this.longest)}%`}})),
      h('span', {class: 'request-count', title: 'messages about it, and steps that name it'}, grouped(r.own.length + r.steps.length)));
  },
};
