// node render.mjs CASES_FOLDER OUT [--hashes]: renders every template with every conversation, and every snippet, with
// @huggingface/jinja. One line a case: its name and the text as JSON (null for an error), or FNV-1a of the text.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { Template } from "@huggingface/jinja";

const [folder, outFile, mode] = process.argv.slice(2);
const read = (name) => readFileSync(`${folder}/${name}`, "utf8");

function render(source, context) {
  try {
    return new Template(source).render(context);
  } catch {
    return null;
  }
}

function hash(text) {
  let state = 14695981039346656037n;
  for (const byte of Buffer.from(text, "utf8")) state = BigInt.asUintN(64, (state ^ BigInt(byte)) * 1099511628211n);
  return state.toString(16).padStart(16, "0");
}

const lines = [];
function add(name, text) {
  const shown = mode === "--hashes" ? (text === null ? "error" : hash(text)) : JSON.stringify(text);
  lines.push(`${name} ${shown}`);
}

const conversations = JSON.parse(read("conversations.json"));
for (const file of readdirSync(`${folder}/templates`).sort())
  conversations.forEach((context, i) => add(`${file}:${i}`, render(read(`templates/${file}`), context)));
const { snippets, context } = JSON.parse(read("snippets.json"));
snippets.forEach((source, i) => add(`snippet:${i}`, render(source, context)));
writeFileSync(outFile, lines.join("\n") + "\n");
