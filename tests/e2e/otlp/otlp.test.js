// What `godwit trace export --format otlp` writes, read by the classes that OpenTelemetry generated from its .proto files.
const test = require('node:test');
const assert = require('node:assert/strict');
const fs = require('node:fs');
const { opentelemetry } = require('@opentelemetry/otlp-transformer/build/src/generated/root.js');

const request = opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest;
const { trace, resource, common } = { ...opentelemetry.proto, trace: opentelemetry.proto.trace.v1 };
/// The message that a field of this name holds.
const messages = {
  resourceSpans: trace.ResourceSpans,
  scopeSpans: trace.ScopeSpans,
  spans: trace.Span,
  links: trace.Span.Link,
  events: trace.Span.Event,
  status: trace.Status,
  resource: resource.v1.Resource,
  scope: common.v1.InstrumentationScope,
  attributes: common.v1.KeyValue,
  value: common.v1.AnyValue,
};

const text = fs.readFileSync(process.env.GODWIT_OTLP, 'utf8');
const spans_of = (sent) => sent.resourceSpans.flatMap((r) => r.scopeSpans.flatMap((s) => s.spans));

/// Fields that the message does not have; a reader would drop them.
function unknown(value, message, path) {
  if (Array.isArray(value)) return value.flatMap((one) => unknown(one, message, path));
  if (value === null || typeof value !== 'object') return [];
  return Object.entries(value).flatMap(([name, inner]) => [
    ...(message !== undefined && !(name in message.prototype) ? [`${path}.${name}`] : []),
    ...unknown(inner, messages[name], `${path}.${name}`),
  ]);
}

test('every field is one of the protocol', () => {
  assert.deepEqual([...new Set(unknown(JSON.parse(text), request, 'request'))], []);
});

test('spans have names of their own, and times in order', () => {
  const spans = spans_of(JSON.parse(text));
  assert.ok(spans.length > 100, `${spans.length} spans`);
  const ids = new Set(spans.map((span) => span.spanId));
  assert.equal(ids.size, spans.length);
  for (const span of spans) {
    assert.match(span.traceId, /^[0-9a-f]{32}$/);
    assert.match(span.spanId, /^[0-9a-f]{16}$/);
    assert.ok(!span.parentSpanId || ids.has(span.parentSpanId), `${span.name}: its parent is not there`);
    assert.ok(BigInt(span.startTimeUnixNano) <= BigInt(span.endTimeUnixNano), span.name);
  }
});

test('all of it survives the binary form', () => {
  const sent = JSON.parse(text);
  // The JSON form of OTLP has ids in hexadecimal digits, where protobuf's own has base64.
  const bytes = (holder, ...fields) => {
    for (const field of fields) if (holder[field]) holder[field] = Buffer.from(holder[field], 'hex');
  };
  for (const span of spans_of(sent)) {
    bytes(span, 'traceId', 'spanId', 'parentSpanId');
    for (const link of span.links ?? []) bytes(link, 'traceId', 'spanId');
  }
  const message = request.fromObject(sent);
  assert.equal(request.verify(message), null);
  const back = request.decode(request.encode(message).finish());
  const [before, after] = [spans_of(sent), spans_of(back)];
  assert.equal(after.length, before.length);
  before.forEach((span, i) => {
    assert.equal(after[i].name, span.name);
    assert.deepEqual(Buffer.from(after[i].spanId), span.spanId);
    assert.equal(after[i].startTimeUnixNano.toString(), String(span.startTimeUnixNano));
    assert.equal(after[i].attributes.length, (span.attributes ?? []).length);
    assert.equal(after[i].links.length, (span.links ?? []).length);
  });
});
