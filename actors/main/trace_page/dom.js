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

// A name amid other text: isolated, so that one written from right to left does not turn its surroundings.
const named = (text, longest) => h('bdi', {class: 'name'}, clean(text, longest));

const link = (text, changes, longest) =>
  h('a', {href: hashOf({...state, ...changes})}, text instanceof Node ? text : named(text, longest));
