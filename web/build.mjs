// Makes the scripts that pages load, and the licences of what is in them, in the package: `node build.mjs`.
// With --check nothing is written: it fails where what is committed is not what the sources give.
import { build } from "esbuild";
import { readFile, readdir, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const to = join(here, "../src/tallystick/extensions/web/static");
const LICENCES = "licences.txt";

const { outputFiles, metafile } = await build({
  absWorkingDir: here,
  entryPoints: ["live.js", "in_place.js", "keys.js", "plots.js", "graph.js"],
  outdir: to,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  banner: { js: `/* licences: ${LICENCES} */`, css: `/* licences: ${LICENCES} */` },
  metafile: true,
  write: false,
});

const packages = [...new Set(Object.keys(metafile.inputs).map(packageOf).filter(Boolean))].sort();
const made = new Map(outputFiles.map((file) => [basename(file.path), file.text]));
made.set(LICENCES, (await Promise.all(packages.map(licenceOf))).join("\n"));

if (process.argv.includes("--check")) await compare();
else for (const [name, text] of made) await writeFile(join(to, name), text);

function packageOf(path) {
  return path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1];
}

async function licenceOf(name) {
  const directory = join(here, "node_modules", name);
  const { version, license } = JSON.parse(await readFile(join(directory, "package.json")));
  const file = (await readdir(directory)).find((each) => /^licen[cs]e/i.test(each));
  if (!file) throw new Error(`${name} comes without the text of its licence`);
  const text = await readFile(join(directory, file), "utf8");
  return `${name} ${version} (${license})\n\n${text.replaceAll("\r", "").trim()}\n`;
}

async function compare() {
  const differing = [];
  for (const [name, text] of made) {
    const committed = await readFile(join(to, name), "utf8").catch(() => "");
    if (committed !== text) differing.push(relative(dirname(here), join(to, name)));
  }
  if (differing.length === 0) return;
  console.error(`not what web/ gives: ${differing.join(", ")}: run make scripts`);
  process.exit(1);
}
