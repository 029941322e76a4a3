// What every script here stands on: the portal to call, and results as JSON on standard output.
//
// SONDE_WORLD is JSON: the portal's `url`, the folder `sdks` that holds node_modules, keys by their role, and
// `tooLarge`, the characters of a text that no door takes.

import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const PATIENCE = 60_000;
const SOON = 15_000;
export const world = JSON.parse(process.env.SONDE_WORLD);

export const load = (path) => import(pathToFileURL(join(world.sdks, "node_modules", path)).href);

// The error that `call` ends in, as its class and its members; null when it does not fail.
export async function caught(call) {
  try {
    await call();
  } catch (error) {
    if (error.constructor.name.startsWith("APIConnection")) throw error; // nobody was asked
    const { status, error: body, code, param, type } = error;
    const header = (name) => error.headers?.get(name) ?? null;
    return {
      class: error.constructor.name,
      status,
      body,
      code,
      param,
      type,
      retryAfter: header("retry-after"),
      requestId: header("x-request-id"),
    };
  }
  return null;
}

// What `look` gives once `done` says that it is enough.
export async function until(look, done, patience = PATIENCE) {
  const deadline = Date.now() + patience;
  for (;;) {
    const seen = await look();
    if (done(seen)) return seen;
    if (Date.now() > deadline) throw new Error(`it is still ${JSON.stringify(seen).slice(0, 200)}`);
    await sleep(100);
  }
}

// The credits of a key's user once nothing of theirs is reserved any more, which must be soon.
export async function settledCredits(key) {
  const look = async () => {
    const answer = await fetch(`${world.url}/api/account`, { headers: { Authorization: `Bearer ${key}` } });
    return (await answer.json()).credits;
  };
  return until(look, (credits) => credits.reserved === 0, SOON);
}

export async function collect(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces;
}

async function played([name, scenario]) {
  try {
    return [name, { value: await scenario() }];
  } catch (error) {
    return [name, { crash: error.stack }];
  }
}

// All scenarios at once, but for the bodies of 30 MB: name → {value} or {crash}. Writing those takes this one
// thread so long that the server gives up connections which it was about to use again.
export async function play(scenarios) {
  const all = Object.entries(scenarios);
  const large = all.filter(([name]) => name.endsWith("413"));
  const results = await Promise.all(all.filter((one) => !large.includes(one)).map(played));
  for (const one of large) results.push(await played(one));
  process.stdout.write(JSON.stringify(Object.fromEntries(results)));
}
