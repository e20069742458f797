// A list of which only the rows in sight are elements, so that it may have hundreds of thousands. Rows are chosen by
// click, or with the arrow keys and Enter.

class Rows {
  // options: label, height, render(index) -> element, choose(index), keys(event) -> handled
  constructor(options) {
    this.options = options;
    this.count = 0;
    this.at = -1;
    this.body = h('div', {class: 'rows-body'});
    this.element = h('div', {
      class: 'rows ' + (options.class ?? ''), tabindex: 0, role: 'listbox', 'aria-label': options.label,
      onscroll: () => this.draw(), onkeydown: (event) => this.key(event),
    }, options.head ?? [], this.body);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  show(count, width) {
    this.count = count;
    this.at = Math.min(this.at, count - 1);
    this.body.style.height = `${count * this.options.height}px`;
    this.body.style.minWidth = width ? `${width}px` : '';
    this.draw();
  }

  draw() {
    const height = this.options.height;
    const first = Math.max(0, Math.floor(this.element.scrollTop / height) - 4);
    const last = Math.min(this.count, first + Math.ceil(this.element.clientHeight / height) + 8);
    const made = [];
    for (let i = first; i < last; i++) {
      const row = this.options.render(i);
      row.id = `${this.options.name}-row-${i}`;
      row.classList.add('row');
      row.style.top = `${i * height}px`;
      row.style.height = `${height}px`;
      row.setAttribute('role', 'option');
      row.setAttribute('aria-posinset', i + 1);
      row.setAttribute('aria-setsize', this.count);
      row.setAttribute('aria-selected', i === this.at ? 'true' : 'false');
      row.addEventListener('click', (event) => {
        if (event.target.closest('a')) return;
        this.select(i);
        this.options.choose(i);
      });
      made.push(row);
    }
    this.body.replaceChildren(...made);
    if (this.at >= first && this.at < last) this.element.setAttribute('aria-activedescendant', `${this.options.name}-row-${this.at}`);
    else this.element.removeAttribute('aria-activedescendant');
  }

  select(i, scroll = false) {
    this.at = i;
    const {height} = this.options;
    const head = this.options.head?.offsetHeight ?? 0;
    const top = i * height;
    if (i >= 0 && (top < this.element.scrollTop || top + height + head > this.element.scrollTop + this.element.clientHeight))
      this.element.scrollTop = scroll ? top - this.element.clientHeight / 2 : Math.max(0, top - (top < this.element.scrollTop ? 0 : this.element.clientHeight - height - head));
    this.draw();
  }

  key(event) {
    if (this.options.keys?.(event)) {
      event.preventDefault();
      return;
    }
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.options.height) - 1);
    const to = {
      ArrowDown: this.at + 1, ArrowUp: this.at - 1, PageDown: this.at + page, PageUp: this.at - page, Home: 0, End: this.count - 1,
    }[event.key];
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (to !== undefined && this.count > 0) {
      event.preventDefault();
      this.select(Math.max(0, Math.min(this.count - 1, to)));
    } else if ((event.key === 'Enter' || event.key === ' ') && this.at >= 0) {
      event.preventDefault();
      this.options.choose(this.at);
    }
  }
}
