// A list of which only the rows in sight are elements, so that it may have hundreds of thousands. Rows are chosen by
// click, or with the arrow keys and Enter.

const heightMax = 16e6; // pixels; Firefox ends elements at 17.9 million, Chromium at 33.5

class Rows {
  // options: label, height, render(index) -> element, nameOf(index), choose(name), keys(event) -> handled
  constructor(options) {
    this.options = options;
    this.count = 0;
    this.at = -1;
    this.cursor = ''; // the name of the row at which the arrow keys are, which another list may have elsewhere
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
    this.body.style.height = `${Math.min(heightMax, count * this.options.height)}px`;
    this.body.style.minWidth = width ? `${width}px` : '';
    this.draw();
  }

  // Pixels of rows for one of the scrollbar: 1 unless they are too many.
  scale() {
    const room = (this.options.head?.offsetHeight ?? 0) - this.element.clientHeight;
    const height = this.count * this.options.height;
    return height > heightMax ? (height + room) / (heightMax + room) : 1;
  }

  draw() {
    const height = this.options.height;
    const top = this.element.scrollTop * this.scale();
    const shift = Math.round(this.element.scrollTop - top);
    const first = Math.max(0, Math.floor(top / height) - 4);
    const last = Math.min(this.count, first + Math.ceil(this.element.clientHeight / height) + 8);
    const made = [];
    for (let i = first; i < last; i++) {
      const row = this.options.render(i);
      row.id = `${this.options.name}-row-${i}`;
      row.classList.add('row');
      row.style.top = `${i * height + shift}px`;
      row.style.height = `${height}px`;
      row.setAttribute('role', 'option');
      row.setAttribute('aria-posinset', i + 1);
      row.setAttribute('aria-setsize', this.count);
      row.setAttribute('aria-selected', i === this.at ? 'true' : 'false');
      row.addEventListener('click', (event) => {
        if (event.target.closest('a')) return;
        this.select(i);
        this.options.choose(this.cursor);
      });
      made.push(row);
    }
    this.body.replaceChildren(...made);
    if (this.at >= first && this.at < last) this.element.setAttribute('aria-activedescendant', `${this.options.name}-row-${this.at}`);
    else this.element.removeAttribute('aria-activedescendant');
  }

  select(i, scroll = false) {
    this.at = i;
    this.cursor = i < 0 ? '' : this.options.nameOf(i);
    const {height} = this.options;
    const scale = this.scale();
    const shown = this.element.clientHeight;
    const above = this.element.scrollTop * scale;
    const below = above + shown - height - (this.options.head?.offsetHeight ?? 0); // where the last whole row begins
    const top = i * height;
    if (i >= 0 && (top < above || top > below))
      this.element.scrollTop = (scroll ? top - shown / 2 : top < above ? top : top - below + above) / scale;
    this.draw();
  }

  key(event) {
    if (event.target.closest('a')) return; // a link in the head is followed
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
      this.options.choose(this.options.nameOf(this.at));
    }
  }
}
