// node encode.mjs TOKENIZER.json TEXTS.json OUT.json: ids and decoded text of every text, by @huggingface/tokenizers.
import { readFileSync, writeFileSync } from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";

const [tokenizerFile, textsFile, outFile] = process.argv.slice(2);
const tokenizer = new Tokenizer(JSON.parse(readFileSync(tokenizerFile, "utf8")), {});
const texts = JSON.parse(readFileSync(textsFile, "utf8"));
const lines = texts.map((text) => {
  const { ids } = tokenizer.encode(text, { add_special_tokens: false });
  return ids.join(" ");
});
writeFileSync(outFile, lines.join("\n") + "\n");
