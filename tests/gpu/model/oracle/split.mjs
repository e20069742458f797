// node split.mjs PATTERN TEXTS.json OUT: how JavaScript's regular expressions cut every text: a line of the words'
// lengths in bytes.
import { readFileSync, writeFileSync } from "node:fs";

const [patternFile, textsFile, outFile] = process.argv.slice(2);
// Groups without case come with a later JavaScript than node 18's.
const contractions = "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])";
const pattern = readFileSync(patternFile, "utf8").replaceAll("(?i:'s|'t|'re|'ve|'m|'ll|'d)", `(?:${contractions})`);
const regex = new RegExp(pattern, "gu");
const lines = JSON.parse(readFileSync(textsFile, "utf8")).map((text) =>
  (text.match(regex) ?? []).map((word) => Buffer.byteLength(word)).join(" "),
);
writeFileSync(outFile, lines.join("\n") + "\n");
