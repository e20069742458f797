// Making elements. Names and contents of a recording are anybody's: they become text nodes and nothing else.

const byId = (id) => document.getElementById(id);

function setProperties(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'style') Object.assign(element.style, value); // through the object model: allowed by the policy
    else if (name === 'data') Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
}

// h('p', {class: 'x'}, 'text', element, ...)
function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  setProperties(element, properties);
  element.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  setProperties(element, properties);
  element.append(...children.flat());
  return element;
}

// Control characters and those that turn the direction of text would change what stands around a name.
const invisible = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

function clean(text, longest = 80) {
  const whole = text.length > longest ? text.slice(0, longest) + '…' : text;
  return whole.replace(invisible, '\ufffd').replace(/[\ud800-\udfff](?![\udc00-\udfff])(?<![\ud800-\udbff][\udc00-\udfff])/g, '\ufffd');
}

// Of texts, which need new lines and the joiners of their letters.
const legible = (text) => text.replace(invisible, (c) => ('\n\r\t\u200c\u200d'.includes(c) ? c : '\ufffd'));

// A name amid other text: isolated, so that one written from right to left does not turn its surroundings.
const named = (text, longest) => h('bdi', {class: 'name'}, clean(text, longest));

// What a redraw put in the place of the element that had the focus gets it: what is called like that, or else the first
// beside it, or else the list of the view.
function keepFocus(redraw) {
  const had = document.activeElement;
  const home = had?.closest('section, aside, #filters');
  redraw();
  const visible = (e) => e.isConnected && e.getClientRects().length > 0;
  if (!home || visible(had)) return;
  const name = (e) => e.id || e.dataset.key || e.dataset.role || e.getAttribute('aria-label') || e.textContent;
  const others = [...home.querySelectorAll('a, button, input, select, [tabindex]')].filter(visible);
  const same = others.filter((e) => name(e) === name(had));
  const next = same.find((e) => e.textContent === had.textContent) ?? same[0] ?? others[0];
  if (next) next.focus({preventScroll: true});
  else focusList();
}

const focusList = () => document.querySelector('section:not([hidden]) .rows:not([hidden])')?.focus({preventScroll: true});

// From a press on the element until it is let go: move(event), then end(event), or end(null) if the browser took over.
function drag(element, press, move, end) {
  const over = new AbortController();
  const {signal} = over;
  const stop = (event) => {
    over.abort();
    end(event.type === 'pointerup' ? event : null);
  };
  element.setPointerCapture(press.pointerId);
  element.addEventListener('pointermove', move, {signal});
  for (const type of ['pointerup', 'pointercancel', 'lostpointercapture']) element.addEventListener(type, stop, {signal});
}

const link = (text, changes, longest) =>
  h('a', {href: hashOf({...state, ...changes})}, text instanceof Node ? text : named(text, longest));
