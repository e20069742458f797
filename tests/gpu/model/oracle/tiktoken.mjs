// node tiktoken.mjs PACKAGE_DIR ENCODING TEXT OUT_DIR: npm's tiktoken, beside godwit in one run. Writes the vocabulary
// (OUT_DIR/ranks.txt: a token in base64 a line, in order of rank) and the pattern (pattern.txt) and the text's ids
// (ids.txt) and says "ready"; then, for every line on stdin, encodes the text and says how many seconds that took.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [packageDir, encoding, textFile, outDir] = process.argv.slice(2);
const require = createRequire(`${packageDir}/package.json`);
const { Tiktoken } = require("tiktoken/lite");
const model = require(`tiktoken/encoders/${encoding}.json`);
const ranks = [];
for (const line of model.bpe_ranks.split("\n")) {
  const [, offset, ...tokens] = line.split(" ");
  tokens.forEach((token, i) => (ranks[Number(offset) + i] = token));
}
writeFileSync(`${outDir}/ranks.txt`, ranks.map((token) => token ?? "").join("\n") + "\n");
writeFileSync(`${outDir}/pattern.txt`, model.pat_str);
const tokenizer = new Tiktoken(model.bpe_ranks, model.special_tokens, model.pat_str);
const text = readFileSync(textFile, "utf8");
writeFileSync(`${outDir}/ids.txt`, Array.from(tokenizer.encode_ordinary(text)).join("\n") + "\n");
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "end") break;
  const begin = process.hrtime.bigint();
  tokenizer.encode_ordinary(text);
  console.log((Number(process.hrtime.bigint() - begin) / 1e9).toString());
}
process.exit(0);
