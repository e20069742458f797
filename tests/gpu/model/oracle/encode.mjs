// node encode.mjs TOKENIZER.json TEXTS.json IDS.json OUT, by @huggingface/tokenizers. A line of OUT for every text: its
// ids; its ids with those that the post-processor adds (only of short texts, for it takes its time). Then one for every text and for every list of IDS.json: what the
// ids become, with special tokens and without, as JSON.
import { readFileSync, writeFileSync } from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";

const [tokenizerFile, textsFile, idsFile, outFile] = process.argv.slice(2);
const tokenizer = new Tokenizer(JSON.parse(readFileSync(tokenizerFile, "utf8")), {});
const texts = JSON.parse(readFileSync(textsFile, "utf8"));
const lists = JSON.parse(readFileSync(idsFile, "utf8"));
const lines = [];
const encoded = texts.map((text) => tokenizer.encode(text, { add_special_tokens: false }).ids);
texts.forEach((text, i) => {
  lines.push(encoded[i].join(" "));
  lines.push(text.length < 10000 ? tokenizer.encode(text, { add_special_tokens: true }).ids.join(" ") : "");
});
const decode = (ids, skip_special_tokens) =>
  ids.length === 0 ? "" : tokenizer.decode(ids, { skip_special_tokens, clean_up_tokenization_spaces: false });
for (const ids of [...encoded, ...lists]) lines.push(JSON.stringify([decode(ids, false), decode(ids, true)]));
writeFileSync(outFile, lines.join("\n") + "\n");
